"""Profiles are fed and merged in any order, released on public terms, and paid for once each."""

import tracemalloc

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip, Jlt, Minima, ReleasedBlip, ReleasedProfiles, Signs, load
from sfumato.profile.gaussian_projection import SCALE
from sfumato.profile.signs import WEIGHT
from support.hard_rows import (
    INSIDE,
    ODD,
    dropping,
    everyone,
    nothing,
    released_to_all,
    same_outside,
    silent,
    with_row,
)

ITEM = "item of a profile"


def rows(users, items):
    return Interactions(users, items, np.ones(len(users)))


def blip(**changed):
    return Blip(**{"epsilon": 4.0, "bits": 300, "hashes": 3, **changed})


def source():
    return InsecureSeededSource(7)


INTERACTIONS = rows([3, 1, 3, 2, 3], ["tea", "tea", "milk", "rum", "tea"])


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "shop.ledger")
    book.create("profiles", 10.0, unit=ITEM)
    return book


def test_feeding_in_parts_and_merging_release_the_same():
    once = blip().update(INTERACTIONS)
    assert len(once) == 3
    parts = [blip().update(INTERACTIONS.filter([at])) for at in (4, 0, 2, 1, 3)]
    merged = parts[0]
    for part in parts[1:]:
        assert merged.merge(part) is merged
    private_release = [each.release(users=[1, 2, 3], source=source()) for each in (once, merged)]
    assert (
        private_release[0]
        == private_release[1]
        == released_to_all(blip(), INTERACTIONS, source=source())
    )
    assert private_release[0].users_.tolist() == [1, 2, 3]


def test_what_was_fed_nothing_is_no_false_value():
    for made in (Blip(epsilon=1), Jlt(epsilon=1), Signs(epsilon=1), Minima(epsilon=1)):
        assert (len(made), bool(made)) == (0, True)  # so that `mechanism or default` is as meant


def test_releasing_given_interactions_leaves_what_was_fed():
    fed = blip().update(INTERACTIONS)
    before = fed.release(users=[1, 2, 3], source=source())
    assert released_to_all(fed, rows([9], ["rum"]), source=source()).users_.tolist() == [9]
    assert fed.release(users=[1, 2, 3], source=source()) == before


def test_what_cannot_be_merged_or_changed_is_refused():
    fed = blip().update(INTERACTIONS)
    with pytest.raises(ValueError, match=r"Blip: cannot merge, seed is 0 here and 1 there\."):
        fed.merge(blip(seed=1))
    with pytest.raises(TypeError, match="Blip: cannot merge with int"):
        fed.merge(3)
    with pytest.raises(AttributeError, match="Blip: epsilon cannot be changed"):
        fed.epsilon = 9.0
    with pytest.raises(TypeError, match="Blip: interactions must be Interactions, not list"):
        fed.update([1, 2])
    assert len(fed) == 3


@pytest.mark.parametrize("name", ["bits", "hashes", "epsilon", "seed", "typical_size"])
def test_every_parameter_is_checked_when_it_is_given(name):
    for bad in Blip.LIMITS[name].bad():
        with pytest.raises(ValueError, match=f"Blip: {name} must be"):
            blip(**{name: bad})
    assert repr(blip()) == "Blip(bits=300, hashes=3, epsilon=4.0, seed=0, typical_size=100)"


@pytest.mark.parametrize(("name", "bad"), [("items", 0), ("false_positive_rate", 1.0)])
def test_sizing_checks_its_parameters(name, bad):
    given = {"items": 10, "false_positive_rate": 0.1, "epsilon": 1.0, name: bad}
    with pytest.raises(ValueError, match=f"Blip: {name} must be"):
        Blip.sized(**given)


def test_nobody_and_empty_profiles_have_releases():
    nobody = released_to_all(blip(), rows(np.empty(0, np.int64), np.empty(0, np.int64)))
    assert len(nobody) == len(load(nobody.to_bytes())) == 0
    assert nobody.similarity().shape == (0, 0)
    assert nobody.estimate_size().shape == (0,)
    assert len(blip().release(users=[])) == 0
    private_release = blip(epsilon=60).release(INTERACTIONS, users=[5, 3, 2, 1, 4])
    assert private_release.users_.tolist() == [5, 3, 2, 1, 4]
    assert private_release.words.any(axis=1).sum() >= 3
    assert private_release.estimate_size()[0] < 5


def test_users_are_public_and_must_be_given():
    for made in (Blip(epsilon=1), Jlt(epsilon=1), Signs(epsilon=1), Minima(epsilon=1)):
        with pytest.raises(ValueError, match="users must be given, a public column of ids"):
            made.release(INTERACTIONS)
        with pytest.raises(ValueError, match="users must be given, a public column of ids for"):
            made.release_batches([INTERACTIONS])
    with pytest.raises(ValueError, match="Blip: users must name each user once"):
        blip().release(INTERACTIONS, users=[1, 2, 3, 3])


def cells(release):
    """What gets the noise, a row a user, and the number of items that a row may move."""
    name = {"ReleasedBlip": "words", "ReleasedJlt": "vectors", "ReleasedSigns": "counts"}
    table = getattr(release, name.get(type(release).__name__, "codes"))
    table = np.unpackbits(table.view(np.uint8), axis=-1) if table.dtype == np.uint64 else table
    return table.astype(np.int64).reshape(len(table), -1)


# Each with so little noise that the noise of one seed is all but gone: the cells of two releases
# differ by what the row moved. The most that one item may move them: L1, or squared L2.
MADE = {
    "blip": (lambda: Blip(epsilon=2000, bits=300, hashes=3), 3, 3),
    "jlt": (lambda: Jlt(dimensions=8, sigma=1e-9), 8**0.5 * SCALE, SCALE**2),
    "signs": (lambda: Signs(bits=8, sigma=1e-9), WEIGHT, WEIGHT**2),
    "minima": (lambda: Minima(bins=16, epsilon=30), 2, 4),
}
LISTED = [7, 8, 9, 10]


def released(kind, before, **terms):
    made = MADE[kind][0]()
    return made.release(before, users=LISTED, source=InsecureSeededSource(3), **terms)


@pytest.mark.parametrize("kind", MADE)
def test_no_invalid_row_raises_warns_or_moves_more_than_one_item_may(kind):
    # User 10 has nothing, user 9 one item.
    plain = rows([7, 7, 8, 8, 9], [1, 2, 2, 4, 5])
    one, (_, l1, l2) = released(kind, plain), MADE[kind]
    for name, row in ODD.items():
        for times in (1, 3):
            more = silent(lambda row=row, n=times: released(kind, with_row(plain, row, n)))
            same_outside(more, one)
            assert more.users_.tolist() == LISTED
            change = np.abs(cells(more) - cells(one))
            assert change.sum() <= l1, name
            assert (change**2).sum() <= l2, name
            assert bool(change.any()) == (name in MOVING), name
            assert not change[1:].any(), name


MOVING = (*INSIDE, "text item", "unlisted item")  # another item of a listed user


@pytest.mark.parametrize("kind", MADE)
def test_who_has_a_profile_does_not_depend_on_the_rows(kind):
    # One item is all that user 9 has; without it, as without any row, nothing else changes.
    plain = rows([7, 7, 9, 77], [1, 2, 5, 5])
    one = released(kind, plain)
    for before in (plain.filter([0, 1, 3]), nothing(), rows(["a"], ["b"])):
        less = silent(lambda before=before: released(kind, before))
        same_outside(less, one)
        assert less.users_.tolist() == one.users_.tolist() == LISTED
    fed = (
        MADE[kind][0]().update(plain.filter([0, 1])).update(dropping(rows(["x", "9"], ["1", "5"])))
    )
    assert fed.release(users=LISTED, source=InsecureSeededSource(3)) == one


@pytest.mark.parametrize("kind", MADE)
def test_two_texts_of_one_user_are_one_profile_and_no_list_names_both(kind):
    plain = rows(["7", "8"], ["1", "2"])
    more = rows(
        ["7.0", "7", "8"], ["9", "1", "2"]
    )  # as if a malformed row turned floats into texts
    change = np.abs(cells(released(kind, more)) - cells(released(kind, plain)))
    assert change.sum() <= MADE[kind][1]
    assert (change**2).sum() <= MADE[kind][2]
    with pytest.raises(ValueError, match="users must name each user once"):
        MADE[kind][0]().release(plain, users=["7", "7.0"])


def test_only_an_item_or_a_user_is_hidden():
    for unit in ("event", "basket", "adjacency list"):
        with pytest.raises(ValueError, match="Blip: unit must be 'item of a profile' or 'user'"):
            released_to_all(blip(), INTERACTIONS, unit=unit, contributions=1)
    with pytest.raises(ValueError, match="contributions must be given for unit 'user'"):
        released_to_all(blip(), INTERACTIONS, unit="user")
    with pytest.raises(ValueError, match="contributions must be 1 for an item of a profile"):
        released_to_all(blip(), INTERACTIONS, contributions=2)
    with pytest.raises(TypeError, match="Blip: release takes no 'epsilon'"):
        released_to_all(blip(), INTERACTIONS, epsilon=3.0)


def test_a_second_release_is_charged_and_the_one_too_many_refused(ledger):
    terms = dict(ledger=ledger, dataset="profiles")
    first = released_to_all(blip(), INTERACTIONS, **terms)
    assert ledger.spent("profiles").epsilon == pytest.approx(first.statement.epsilon)
    assert (first.statement.dataset, first.statement.ledger) == ("profiles", "shop.ledger")
    second = released_to_all(blip(), INTERACTIONS, **terms)
    assert second.statement.release != first.statement.release
    with pytest.raises(BudgetExceeded):
        released_to_all(blip(), INTERACTIONS, **terms)
    assert len(ledger.history("profiles")) == 2


def test_a_retry_returns_the_stored_bytes(ledger):
    terms = dict(ledger=ledger, dataset="profiles", release_id="spring")
    first = released_to_all(blip(), INTERACTIONS, **terms)
    assert released_to_all(blip(), INTERACTIONS, **terms).to_bytes() == first.to_bytes()
    assert len(ledger.history("profiles")) == 1


@pytest.mark.parametrize(
    ("changed", "users", "name"),
    [
        ({"seed": 1}, [1, 2, 3], "another seed, 0 there and 1 here"),
        ({}, [3, 2, 1], "other users"),
        ({}, ["1", "2", "3"], "other users"),
    ],
)
def test_a_retry_that_asks_for_something_else_is_refused(ledger, changed, users, name):
    terms = dict(ledger=ledger, dataset="profiles", release_id="spring")
    first = released_to_all(blip(), INTERACTIONS, **terms)
    with pytest.raises(ValueError, match=f"Blip: release 'spring' was made with {name}"):
        blip(**changed).release(INTERACTIONS, users=users, **terms)
    assert len(ledger.history("profiles")) == 1
    more = rows([9, 1], ["rum", "tea"])  # added in the meantime, not part of the request
    assert blip().release(more, users=[1, 2, 3], **terms) == first


@pytest.mark.parametrize("kind", [Jlt, Minima, Signs])
def test_every_kind_refuses_a_retry_with_another_seed(ledger, kind):
    ledger.create("more", 10.0, 1e-3, unit=ITEM)
    terms = dict(ledger=ledger, dataset="more", release_id="spring")
    first = released_to_all(kind(epsilon=4), INTERACTIONS, **terms)
    assert released_to_all(kind(epsilon=4), INTERACTIONS, **terms) == first
    with pytest.raises(ValueError, match="was made with another seed, 0 there and 1 here"):
        released_to_all(kind(epsilon=4, seed=1), INTERACTIONS, **terms)


def test_only_whole_releases_need_room_in_a_ledger(ledger, monkeypatch):
    monkeypatch.setattr("sfumato.privacy.release.MAX_STORED_BYTES", 100)
    terms = dict(ledger=ledger, dataset="profiles")
    with pytest.raises(ValueError, match="Blip: 192 bytes of cells are more than a ledger keeps"):
        released_to_all(blip(epsilon=1.0), INTERACTIONS, **terms)
    assert ledger.history("profiles") == []
    assert (
        len(next(blip(epsilon=1.0).release_batches([INTERACTIONS], users=[[1, 2, 3]], **terms)))
        == 3
    )
    assert len(ledger.history("profiles")) == 1


@pytest.mark.parametrize("unit", ["event", "basket", "adjacency list"])
def test_a_data_set_of_another_unit_is_refused_with_a_remedy(ledger, unit):
    ledger.create("other", 10.0, unit=unit)
    remedy = "Blip: unit must be .* create the data set with unit='item of a profile'"
    with pytest.raises(ValueError, match=remedy):
        released_to_all(blip(), INTERACTIONS, ledger=ledger, dataset="other")
    with pytest.raises(ValueError, match="Blip: unit must be 'item of a profile' or 'user', not"):
        released_to_all(blip(), INTERACTIONS, unit=unit)


def listed(count, users=50):
    """The public users of each of those batches."""
    return (range(at * users, (at + 1) * users) for at in range(count))


def batches(count, users=50, items=20):
    """Batches of new users, made lazily."""
    for at in range(count):
        who = np.repeat(np.arange(at * users, (at + 1) * users), items)
        yield rows(who, np.tile(np.arange(items), users))


def test_batches_are_charged_once_before_any_noise(ledger):
    observed = []

    class Watching(InsecureSeededSource):
        def fill(self, out):
            observed.append(len(ledger.history("profiles")))
            super().fill(out)

    terms = dict(ledger=ledger, dataset="profiles")
    private_release = blip().release_batches(
        batches(4), users=listed(4), source=Watching(1), **terms
    )
    assert ledger.history("profiles") == []
    parts = list(private_release)
    assert set(observed) == {1}
    assert [part.users_.tolist() for part in parts] == [
        list(range(at, at + 50)) for at in range(0, 200, 50)
    ]
    entry = ledger.history("profiles")[0]
    assert {part.statement.release for part in parts} == {entry.release_id}
    assert ledger.spent("profiles").epsilon == pytest.approx(parts[0].statement.epsilon)
    assert all(type(part) is ReleasedBlip for part in parts)
    list(blip().release_batches(batches(2), users=listed(2), **terms))
    with pytest.raises(BudgetExceeded):
        next(blip().release_batches(batches(2), users=listed(2), **terms))
    assert len(ledger.history("profiles")) == 2


def test_batches_are_the_release_of_all_part_by_part():
    both = list(
        blip().release_batches(
            [INTERACTIONS.filter([0, 2, 4]), INTERACTIONS.filter([1, 3])], users=[[3], [1, 2]]
        )
    )
    assert [part.users_.tolist() for part in both] == [[3], [1, 2]]
    named = list(blip().release_batches([INTERACTIONS], users=[[4, 3, 2, 1]], source=source()))
    assert named[0] == blip().release(INTERACTIONS, users=[4, 3, 2, 1], source=source())


def test_a_user_who_comes_again_in_a_later_batch_is_refused(ledger):
    private_release = blip().release_batches(
        [INTERACTIONS.filter([0, 1]), INTERACTIONS.filter([2])],
        users=[[1, 3], [3]],
        ledger=ledger,
        dataset="profiles",
    )
    next(private_release)
    with pytest.raises(ValueError, match="Blip: batches must hold whole users"):
        next(private_release)
    many = list(batches(40, users=7, items=1))
    shuffled = [many[at] for at in np.random.default_rng(1).permutation(40)]
    assert len(list(blip().release_batches(shuffled, users=map(everyone, shuffled)))) == 40
    again = [*shuffled, many[17].filter([3])]
    with pytest.raises(ValueError, match="whole users"):
        list(blip().release_batches(again, users=map(everyone, again)))


@pytest.mark.parametrize("users", [[], [[1, 2, 3]] * 2, [3]])
def test_users_of_batches_must_come_in_step(users):
    with pytest.raises(ValueError, match="Blip: users must be a column of users for each batch"):
        list(blip().release_batches([INTERACTIONS], users=users))


def test_users_of_batches_are_all_named_or_none(ledger):
    private_release = blip().release_batches(
        [INTERACTIONS.filter([0]), INTERACTIONS.filter([1])],
        users=[[3], None],
        ledger=ledger,
        dataset="profiles",
    )
    assert next(private_release).users_.tolist() == [3]
    with pytest.raises(ValueError, match=r"Blip: users must be .*; at position 1 there is None"):
        next(private_release)
    with pytest.raises(ValueError, match="at position 0 there is None"):
        next(
            blip().release_batches([INTERACTIONS], users=[None], ledger=ledger, dataset="profiles")
        )
    assert len(ledger.history("profiles")) == 1


def test_invalid_options_of_batches_raise_at_once_and_cost_nothing(ledger):
    with pytest.raises(ValueError, match="unit"):
        blip().release_batches(batches(1), users=listed(1), unit="event")
    broken = blip().release_batches(["no rows"], users=[[1]], ledger=ledger, dataset="profiles")
    with pytest.raises(TypeError, match="Blip: interactions must be Interactions, not str"):
        next(broken)
    ids = dict(ledger=ledger, dataset="profiles", release_id="once")
    assert list(blip().release_batches([], users=[], **ids)) == []
    assert ledger.history("profiles") == []
    next(blip().release_batches(batches(1), users=listed(1), **ids))
    with pytest.raises(ValueError, match="was charged already"):
        next(blip().release_batches(batches(1), users=listed(1), **ids))


def test_memory_does_not_grow_with_the_number_of_batches():
    def peak(count):
        tracemalloc.start()
        for part in blip(bits=2000).release_batches(
            batches(count, users=400), users=listed(count, 400)
        ):
            assert isinstance(part, ReleasedProfiles)
            del part
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(2)
    few, many = peak(3), peak(40)
    assert many - few < 8 * 37 * 400 + 0.2 * few  # 8 bytes for each user, and nothing else


@pytest.mark.parametrize("make", [Blip, Jlt, Minima, Signs])
def test_progress_counts_the_profiles_up_to_all_of_them(make):
    listed, calls = range(2500), []
    rows = Interactions(np.arange(2500), np.arange(2500) % 7, np.ones(2500))
    made = make(epsilon=4.0).release(rows, users=listed, progress=lambda *each: calls.append(each))
    done, totals = zip(*calls, strict=True)
    assert list(done) == sorted(set(done))
    assert done[-1] == len(made) == 2500
    assert set(totals) == {2500}
