"""Private neighbours: sensitivity by brute force, noise as stated, charged before it is drawn."""

import itertools
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.privacy import BudgetExceeded, Ledger, Privacy, discrete_gaussian, discrete_laplace
from sfumato.privacy.accounting.calibration import epsilon_of
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.noise import discrete as noise_of_privacy
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.statement import INSECURE, SYSTEM
from sfumato.recommend.base import NotFittedError
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.neighbours import (
    CountSensitivity,
    PrivateNeighbours,
    Shape,
    exact_cells,
)
from sfumato.recommend.private.released_neighbours import ReleasedNeighbours
from sfumato.recommend.private.user_sums import ItemSets
from sfumato.sketch import SketchFormatError, load
from support.hard_rows import ODD, nothing, same_outside, silent, with_row

ITEMS = 4
TABLE = ITEMS * (ITEMS - 1) // 2
SHAPES = [Shape(ITEMS, 3, TABLE, 1, 5, False), Shape(ITEMS, 2, 2, 3, 5, True)]


def counted(train, catalogue, per_user, shape):
    return exact_cells(ItemSets.of(train, catalogue, per_user, shape.seed), shape)


def before(*events):
    users, items = zip(*events, strict=True) if events else ((), ())
    return Interactions(np.array(users, int), np.array(items, int), np.ones(len(events)))


def cells(events, per_user, shape):
    return counted(before(*events), Catalogue(np.arange(ITEMS)), per_user, shape)


EVENTS = list(itertools.product([7, 8], range(ITEMS)))


def neighbours(unit):
    """Pairs of data sets that differ in one unit: all of user 7's histories, with some of 8's."""
    for size in range(ITEMS + 1):
        for own in itertools.combinations(range(ITEMS), size):
            others = [(8, 1), (8, 3), (8, 0)]
            mine = [(7, item) for item in own]
            if unit == "user":
                yield (
                    mine + others,
                    others,
                )  # first, so that numbers in order of appearance would shift
            else:
                yield from ((mine + others, [(7, item), *mine, *others]) for item in range(ITEMS))


@pytest.mark.parametrize("shape", SHAPES, ids=["table", "sketch"])
@pytest.mark.parametrize("unit", ["user", "event"])
@pytest.mark.parametrize("per_user", [2, 3, 4])
def test_no_unit_changes_more_than_is_said(unit, per_user, shape):
    sensitivity = CountSensitivity.by(unit, "add/remove", per_user)
    changes = [
        cells(one, per_user, shape) - cells(other, per_user, shape)
        for one, other in neighbours(unit)
    ]
    most = max(int(np.abs(change).sum()) for change in changes)
    assert most <= sensitivity.l1(shape)
    assert max(int((change**2).sum()) for change in changes) <= sensitivity.l2_squared(shape)
    if not shape.sketched and (unit == "user" or per_user < ITEMS):
        assert most == sensitivity.l1(shape)  # and no less would do
    both = CountSensitivity.by(unit, "replace", per_user)
    assert both.l1(shape) == 2 * sensitivity.l1(shape)
    assert both.l2_squared(shape) == 4 * sensitivity.l2_squared(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=["table", "sketch"])
def test_ids_as_integers_and_as_texts_count_equally_and_one_more_text_moves_one_unit(shape):
    users, items = zip(*EVENTS, strict=True)
    texts = [list(map(str, users)), list(map(str, items))]
    want = cells(EVENTS, 2, shape)
    catalogue = Catalogue(np.arange(ITEMS))

    def result(users, items):
        return counted(Interactions(users, items, np.ones(len(users))), catalogue, 2, shape)

    for both in (texts, [users, texts[1]], [texts[0], items]):
        assert (result(*both) == want).all()
    assert (result([*users, 7], [*texts[1], "teapot"]) == want).all()
    change = np.abs(result([*texts[0], "guest"], [*items, 1]) - want).sum()
    assert change == shape.weight  # one item of one user, and no pair


@pytest.mark.parametrize("shape", SHAPES, ids=["table", "sketch"])
def test_no_odd_row_raises_warns_or_moves_more_than_one_event_may(shape):
    catalogue, sensitivity = (
        Catalogue(np.arange(ITEMS)),
        CountSensitivity.by("event", "add/remove", 3),
    )
    plain = Interactions(*zip(*EVENTS, strict=True), np.ones(len(EVENTS)))
    want, moved = counted(plain, catalogue, 3, shape), {}
    for name, row in ODD.items():
        more = silent(lambda row=row: counted(with_row(plain, row), catalogue, 3, shape))
        moved[name] = np.abs(more - want).sum()
        assert moved[name] <= sensitivity.l1(shape), name
        assert ((more - want) ** 2).sum() <= sensitivity.l2_squared(shape), name
    assert moved["unlisted user"] == moved["text user"] == shape.weight
    assert moved["no user"] == moved["NaN rating"] == moved["text item"] == 0
    assert (
        moved["floats"] == moved["written"] == moved["plain"] == moved["above"] == 0
    )  # already counted


def test_nothing_and_odd_rows_are_released_like_others():
    def released(train):
        model = PrivateNeighbours(epsilon=1, per_user=2, unit="event")
        return model.fit(train, catalogue=np.arange(ITEMS), source=InsecureSeededSource(1)).release_

    one = released(before(*EVENTS))
    for train in (nothing(), *(with_row(before(*EVENTS), row) for row in ODD.values())):
        same_outside(silent(lambda train=train: released(train)), one)
    with pytest.raises(TypeError, match="train must be Interactions, not list"):
        released([1, 2])


def test_the_label_is_none_before_a_fit_and_where_noise_is_seeded():
    model = PrivateNeighbours(epsilon=1, per_user=2)
    assert model.privacy_label == "none"
    model.fit(before(*EVENTS), catalogue=range(ITEMS), source=InsecureSeededSource(1))
    assert model.privacy_label == "none"
    assert model.fit(before(*EVENTS), catalogue=range(ITEMS)).privacy_label == "proved"


def test_counts_are_those_of_the_sampled_items():
    events = [(7, 0), (7, 1), (7, 1), (8, 1), (8, 0), (8, 2), (9, 99)]
    result = cells(events, 4, SHAPES[0])
    assert result[:ITEMS].tolist() == [6, 6, 3, 0]
    assert result[ITEMS:].tolist() == [2, 1, 1, 0, 0, 0]  # pairs 01, 02, 12, 03, 13, 23
    shuffled = cells(events[::-1], 4, SHAPES[0])
    assert (result == shuffled).all()


def test_a_long_list_of_pairs_is_sketched_in_parts(monkeypatch):
    shape = Shape(ITEMS, 1, 64, 2, 5, True)
    full = cells(EVENTS, 4, shape)
    monkeypatch.setattr("sfumato.recommend.private.neighbours.BLOCK", 1)
    assert (cells(EVENTS, 4, shape) == full).all()


@pytest.mark.parametrize("unit", ["user", "event"])
@pytest.mark.parametrize("width", [None, 8])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_noise_is_the_stated_law_on_every_cell(unit, width, delta):
    model = PrivateNeighbours(epsilon=0.7, delta=delta, per_user=3, unit=unit, width=width)
    release = model.fit(
        before(*EVENTS), catalogue=range(ITEMS), source=InsecureSeededSource(3)
    ).release_
    shape = Shape(ITEMS, release.weight, release.width, release.depth, 0, width is not None)
    sensitivity = CountSensitivity.by(unit, "add/remove", 3)
    draw = discrete_laplace if release.noise == "Laplace" else discrete_gaussian
    exact = (
        Fraction(sensitivity.l1(shape)) / Fraction(0.7)
        if release.noise == "Laplace"
        else Fraction(release.scale)
    )
    same = draw(exact, shape.cells, source=InsecureSeededSource(3))
    assert (release._cells - cells(EVENTS, 3, shape) == same).all()
    result = model.statement
    loss = Loss.from_dict(result.loss)
    assert (
        epsilon_of(loss, result.delta) <= 0.7 * (1 + 1e-9) if result.delta else loss.epsilon <= 0.7
    )
    if release.noise == "Gaussian":
        assert loss.rho >= sensitivity.l2_squared(shape) / (2 * release.scale**2)
    assert (result.proof, result.unit, result.source) == ("proved", unit, INSECURE)
    assert result.contributions == (3 if unit == "user" else 1)


def test_gaussian_noise_is_taken_where_it_is_smaller():
    fit = dict(train=before(*EVENTS), catalogue=range(ITEMS))
    many = PrivateNeighbours(epsilon=1, delta=1e-6, per_user=100)
    assert many.fit(**fit).release_.noise == "Gaussian"
    assert PrivateNeighbours(epsilon=1, per_user=100).fit(**fit).release_.noise == "Laplace"
    # In a sketch all pairs of a user may share a cell, so that their L2 norm is their L1 norm.
    sketched = many.set_params(width=1000).fit(**fit)
    assert sketched.release_.noise == "Laplace"


class Watching(InsecureSeededSource):
    def __init__(self, path, observed):
        super().__init__(1)
        self.path, self.observed = path, observed

    def fill(self, out):
        self.observed.append(Ledger(self.path).spent("shop").epsilon)
        super().fill(out)


def test_it_is_charged_before_noise_is_drawn_and_once(tmp_path):
    path, observed = tmp_path / "budget.db", []
    ledger = Ledger(path)
    ledger.create("shop", 1.0, unit="user")
    paid = dict(catalogue=range(ITEMS), ledger=ledger, dataset="shop", release_id="may")
    model = PrivateNeighbours(epsilon=0.75, per_user=3)
    first = model.fit(before(*EVENTS), source=Watching(path, observed), **paid).release_
    assert observed
    assert min(observed) == pytest.approx(0.75)
    again = PrivateNeighbours(epsilon=0.75, per_user=3).fit(before((7, 1)), **paid)
    assert again.release_.to_bytes() == first.to_bytes()
    assert ledger.spent("shop").epsilon == pytest.approx(0.75)
    with pytest.raises(BudgetExceeded):
        model.fit(
            before(*EVENTS), source=Watching(path, observed), **{**paid, "release_id": "june"}
        )
    assert model.release_ is first  # a call that raises leaves the object as it was
    with pytest.raises(ValueError, match="unit is 'event' here and 'user' in the ledger"):
        PrivateNeighbours(epsilon=0.1, per_user=3, unit="event").fit(
            before(), **{**paid, "release_id": "july"}
        )


@pytest.mark.parametrize("bundled", [False, True])
def test_a_ledger_never_weakens_the_relation_that_was_asked_for(bundled, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("shop", 2.0, unit="user")
    ledger.create("swaps", 2.0, unit="user", relation="replace")

    def fitted(dataset, **more):
        paid = dict(ledger=ledger, dataset=dataset)
        if bundled:
            model = PrivateNeighbours(privacy=Privacy(1.0, **paid, **more), per_user=3)
            return model.fit(before(*EVENTS), catalogue=range(ITEMS))
        model = PrivateNeighbours(epsilon=1.0, per_user=3, **more)
        return model.fit(before(*EVENTS), catalogue=range(ITEMS), **paid)

    with pytest.raises(ValueError, match="relation is 'replace' here and 'add/remove' in the"):
        fitted("shop", relation="replace")
    assert ledger.spent("shop").epsilon == 0
    assert fitted("shop").statement.relation == "add/remove"
    assert fitted("swaps").statement.relation == "replace"
    assert fitted("swaps", relation="replace").statement.relation == "replace"


def test_without_a_ledger_it_says_so_and_noise_is_the_systems_own():
    model = PrivateNeighbours(epsilon=1, per_user=3)
    tables = {
        model.fit(before(*EVENTS), catalogue=range(ITEMS)).release_.to_bytes() for _ in range(9)
    }
    assert len(tables) > 1
    assert (model.statement.ledger, model.statement.source) == ("unaccounted", SYSTEM)


@pytest.mark.parametrize("width", [None, 8])
def test_nothing_of_the_data_is_in_the_file_but_noisy_cells(width):
    def drowned(cells, scale, *, source):
        cells[:] = np.arange(cells.size)

    files = set()
    with patch.object(noise_of_privacy, "add_laplace", drowned):
        for events in ([], EVENTS, [(1, 2)] * 50, [(5, 99)]):
            model = PrivateNeighbours(epsilon=1, per_user=2, width=width)
            files.add(model.fit(before(*events), catalogue=range(ITEMS)).release_.to_bytes())
    assert len(files) == 1


def test_files_are_whole_or_refused_and_a_release_is_for_good(tmp_path):
    names = ["tea", "milk", "rüm"]
    train = Interactions(["a", "a", "b"], ["tea", "milk", "tea"], [1, 1, 1])
    model = PrivateNeighbours(epsilon=1, per_user=2).fit(train, catalogue=names)
    model.save(tmp_path / "near")
    twins = [ReleasedNeighbours.load(tmp_path / "near"), load(tmp_path / "near")]
    for twin in twins:
        assert twin == model.release_
        assert twin.catalogue_.ids.tolist() == names
        assert all(
            map(np.array_equal, twin.recommend_fold_in(["tea"]), model.recommend_fold_in(["tea"]))
        )
    data = (tmp_path / "near").read_bytes()
    for cut in (10, len(data) // 2, len(data) - 1):
        with pytest.raises(SketchFormatError):
            ReleasedNeighbours.from_bytes(data[:cut])
    with pytest.raises(AttributeError, match="cannot be changed"):
        model.release_.scale = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.release_._cells[0] = 0


@pytest.mark.parametrize("name", PrivateNeighbours.LIMITS)
def test_bad_parameters_are_refused_by_name(name):
    for bad in PrivateNeighbours.LIMITS[name].bad():
        model = PrivateNeighbours(**{"epsilon": 1, "per_user": 2, name: bad})
        with pytest.raises(ValueError, match=f"PrivateNeighbours: {name} must be"):
            model.fit(before(), catalogue=range(ITEMS))


def test_what_is_missing_is_named():
    model = PrivateNeighbours(epsilon=1, per_user=2)
    with pytest.raises(NotFittedError, match="not fitted"):
        model.recommend_fold_in([1])
    with pytest.raises(ValueError, match="catalogue must be given, a public column"):
        model.fit(before(*EVENTS), catalogue=None)
    with pytest.raises(ValueError, match="at least 2 items"):
        model.fit(before(*EVENTS), catalogue=[1])
    with pytest.raises(ValueError, match="colour is no parameter"):
        model.set_params(colour=1)
