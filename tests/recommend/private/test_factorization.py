"""PrivateFactorization: what is charged, stated, predicted and stored, and that nothing else is."""

import re

import numpy as np
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import (
    Catalogue,
    ModelFormatError,
    NotFittedError,
    PrivateFactorization,
    load,
)
from sfumato.recommend.metrics.rating import rmse
from sfumato.recommend.private import noisy_statistics
from sfumato.recommend.private.inputs import Budget
from support.hard_rows import INSIDE, ODD, nothing, same_outside, silent, with_row

PEOPLE, THINGS = 300, 120
WORLD = generate_world(
    users=PEOPLE, items=THINGS, ratings=12_000, factors=3, random_state=2
).interactions
LISTS = {"users": np.arange(PEOPLE), "catalogue": np.arange(THINGS)}
USER_LEVEL = {"unit": "user", "covers": "joint", "per_user": 20}
KINDS = [{}, {"covers": "joint"}, USER_LEVEL, {"factors": 4}, {"factors": 1}, {"rows": 400}]


def model(epsilon=8.0, **options):
    return PrivateFactorization(**{"delta": 1e-6, "bounds": (1, 5), "epsilon": epsilon, **options})


def fitted(train=WORLD, seed=1, epsilon=8.0, lists=LISTS, **options):
    if "rows" in options:
        lists = {"catalogue": lists["catalogue"]}
    return model(epsilon, **options).fit(train, source=InsecureSeededSource(seed), **lists)


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "shop.ledger")
    book.create("ratings", epsilon=8, delta=1e-6)
    return book


class Drowned:
    """Noise that leaves nothing of the data; keeps what it drowned, and for which norm."""

    def __init__(self, monkeypatch):
        self.draws, self.cells, self.norms = np.random.default_rng(7), [], []
        sigma = Budget.sigma

        def noting(budget, norm_squared, fraction):
            self.norms.append(norm_squared)
            return sigma(budget, norm_squared, fraction)

        monkeypatch.setattr(Budget, "sigma", noting)
        monkeypatch.setattr(noisy_statistics, "add_gaussian", self._add)

    def _add(self, cells, sigma, *, source=None):
        self.cells.append((cells.astype(object), self.norms[-1]))
        cells[:] = self.draws.normal(0, sigma, cells.size).astype(np.int64)


@pytest.mark.parametrize("options", KINDS)
def test_the_file_is_made_of_noisy_sums_alone(monkeypatch, options):
    # Data that share nothing give the same bytes.
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, PEOPLE, 50), rng.integers(0, THINGS, 50)
    other = Interactions(users, items, rng.choice([1.0, 5.0], 50))
    files = []
    for train in (WORLD, other):
        Drowned(monkeypatch)
        files.append(fitted(train, **options).to_bytes())
    assert files[0] == files[1]


def moves(monkeypatch, one, other, options):
    """How far each step of one data set is from that of the other, where 1 is what noise covers."""
    both = []
    for train in (one, other):
        both.append(Drowned(monkeypatch))
        fitted(train, **options)
    assert len(both[0].cells) == len(both[1].cells) > 4
    for (cells, norm), (others, same) in zip(both[0].cells, both[1].cells, strict=True):
        assert same == norm
        yield ((cells - others) ** 2).sum() / norm


@pytest.mark.parametrize("options", KINDS)
def test_no_neighbour_moves_any_step_further_than_its_noise_covers(monkeypatch, options):
    # All steps after one another, each asking what the answers before it made it ask.
    for gone in (0, 17, 4321):
        rows = np.arange(len(WORLD)) != gone
        if "per_user" in options:
            rows = WORLD.users != WORLD.users[gone]
        assert 0.1 < max(moves(monkeypatch, WORLD, WORLD.filter(rows), options)) <= 1


@pytest.mark.parametrize("options", KINDS)
@pytest.mark.parametrize(("user", "item"), [("guest", "3"), ("7", "teapot")])
def test_nor_does_one_whose_id_makes_all_others_texts(monkeypatch, options, user, item):
    more = Interactions(
        [*map(str, WORLD.users), user], [*map(str, WORLD.items), item], [*WORLD.ratings, 5.0]
    )
    moved = max(moves(monkeypatch, WORLD, more, options))
    assert moved <= 1
    counts = item == "3" and ("rows" in options or "per_user" in options)
    assert (moved > 0) is counts  # in no list, a row changes nothing


@pytest.mark.parametrize("options", KINDS)
def test_no_odd_row_raises_warns_or_moves_more_than_one_row_may(monkeypatch, options):
    one = silent(lambda: fitted(WORLD, **options))
    for name, row in ODD.items():
        more = with_row(WORLD, row)
        moved = silent(lambda more=more: list(moves(monkeypatch, WORLD, more, options)))
        monkeypatch.undo()
        counts = name in INSIDE or ("rows" in options and name in HASHED)
        counts |= "per_user" in options and name in HASHED
        assert max(moved) <= 1, name
        if not counts:
            assert max(moved) == 0, name
        elif "per_user" not in options:  # of whose ratings a new one may put out another or none
            assert max(moved) > 0, name
        if name in ("above", "text user"):
            same_outside(silent(lambda more=more: fitted(more, **options)), one)


HASHED = (
    "text user",
    "unlisted user",
    "huge user",
    "half",
    "thousands of digits",
)  # who has no row of a list, yet one of a hash


@pytest.mark.parametrize("options", KINDS)
def test_no_rows_and_rows_of_unknown_users_alone_are_fitted_like_others(options):
    one = fitted(WORLD.filter([0]), **options)
    outsiders = Interactions(["a", "b"], ["x", "y"], [1e300, -1e300])
    for train in (nothing(), Interactions([], [], []), outsiders):
        result = silent(lambda train=train: fitted(train, **options))
        same_outside(result, one)
        assert result.to_bytes()


def test_ratings_beyond_the_bounds_are_clipped_and_counted_for_the_curator_alone():
    wild = Interactions(WORLD.users, WORLD.items, np.where(WORLD.ratings > 3, 1e9, -1e9))
    ends = Interactions(WORLD.users, WORLD.items, np.where(WORLD.ratings > 3, 5.0, 1.0))
    assert fitted(wild).to_bytes() == fitted(ends).to_bytes()
    report = wild.outside(users=range(50), items=LISTS["catalogue"], bounds=(1, 5))
    assert (report.kept, report.clipped) == (int((WORLD.users < 50).sum()),) * 2
    assert report.skipped == {"the user is not listed": int((WORLD.users >= 50).sum())}


def test_rows_outside_of_the_public_lists_change_nothing():
    unknown = Interactions([5, 10**6], [10**6, 5], [1.0, 5.0])
    more = Interactions(
        np.concatenate([WORLD.users, unknown.users]),
        np.concatenate([WORLD.items, unknown.items]),
        np.concatenate([WORLD.ratings, unknown.ratings]),
    )
    assert fitted(more).to_bytes() == fitted().to_bytes()


def test_one_rating_changes_the_file_through_noisy_sums_only():
    # The same noise and one rating less: biases move, lists and parameters do not.
    one, other = fitted(), fitted(WORLD.filter(np.arange(1, len(WORLD))))
    assert one.to_bytes() != other.to_bytes()
    assert one.catalogue_ == other.catalogue_
    assert one.statement == other.statement
    np.testing.assert_array_equal(one._accounts.ids, other._accounts.ids)


@pytest.mark.parametrize("name", ["epsilon", "delta", "bounds"])
def test_what_privacy_rests_on_has_no_default(name):
    given = dict(epsilon=4, delta=1e-6, bounds=(1, 5))
    del given[name]
    with pytest.raises((TypeError, ValueError), match=name):
        PrivateFactorization(**given).fit(WORLD, **LISTS)


def test_the_statement_tells_unit_relation_cost_and_cover():
    result = fitted().statement
    assert (result.unit, result.relation, result.proof) == ("event", "add/remove", "proved")
    assert 7.9 < result.epsilon <= 8
    assert result.delta == 1e-6
    assert "whole file" in result.covers
    assert "discrete Gaussian" in result.mechanism
    assert result.ledger == "unaccounted"
    assert result.insecure  # a seeded source is said
    assert not model().fit(WORLD, **LISTS).statement.insecure
    result = fitted(**USER_LEVEL).statement
    assert (result.unit, result.contributions) == ("user", 20)
    assert result.covers.startswith("joint")


def test_the_budget_is_charged_before_any_noise_is_drawn(ledger):
    class Watching(InsecureSeededSource):
        def fill(self, out):
            assert len(ledger.history("ratings")) == 1
            super().fill(out)

    new = model().fit(WORLD, ledger=ledger, dataset="ratings", source=Watching(3), **LISTS)
    assert ledger.spent("ratings").epsilon == pytest.approx(8, rel=0.01)
    assert (new.statement.dataset, new.statement.ledger) == ("ratings", "shop.ledger")
    assert new.statement.release == ledger.history("ratings")[0].release_id


def test_a_model_beyond_the_budget_is_refused_and_draws_nothing(ledger):
    class Broken:
        def fill(self, out):
            raise AssertionError("noise was drawn")

    costly = model(9.0)
    with pytest.raises(BudgetExceeded):
        costly.fit(WORLD, ledger=ledger, dataset="ratings", source=Broken(), **LISTS)
    assert not ledger.history("ratings")
    with pytest.raises(ValueError, match="not fitted"):
        costly.predict(1, 1)


def test_a_retry_returns_the_stored_model_and_costs_nothing(ledger):
    paid = {"ledger": ledger, "dataset": "ratings", "release_id": "first", **LISTS}
    one, two = model().fit(WORLD, **paid), model().fit(WORLD, **paid)
    assert one.to_bytes() == two.to_bytes()
    assert len(ledger.history("ratings")) == 1


def test_a_data_set_of_users_takes_no_model_of_events(ledger):
    ledger.create("people", epsilon=8, delta=1e-6, unit="user")
    with pytest.raises(ValueError, match="unit is 'event' here and 'user' in the ledger"):
        model().fit(WORLD, ledger=ledger, dataset="people", **LISTS)


@pytest.mark.parametrize(
    ("options", "lists", "words"),
    [
        ({}, {"users": LISTS["users"]}, "catalogue must be given"),
        ({}, {"catalogue": LISTS["catalogue"]}, "users must be given for unit 'event'"),
        ({"covers": "joint"}, {"catalogue": LISTS["catalogue"]}, "users must be given"),
        ({"unit": "user", "per_user": 5}, LISTS, "covers must be 'joint' for unit 'user'"),
        ({"unit": "user", "covers": "joint"}, LISTS, "per_user must be given"),
        ({"per_user": 5}, LISTS, "per_user must be given for unit 'user', and only"),
        ({"rows": 50}, LISTS, "users must be given for unit 'event', or else rows"),
        ({**USER_LEVEL, "rows": 50}, LISTS, "rows must be None for unit 'user'"),
        ({}, {**LISTS, "users": []}, "users"),
    ],
)
def test_missing_public_lists_and_conflicting_parameters_are_refused(options, lists, words):
    with pytest.raises(ValueError, match=words):
        model(**options).fit(WORLD, **lists)


def test_unknown_users_and_items_read_biases_and_the_mean():
    learned = fitted()
    biases = learned._item_vectors(learned.catalogue_.ids)[:, -1]
    got = learned.predict(np.full(THINGS, 10**7), learned.catalogue_.ids)
    np.testing.assert_allclose(got, np.clip(learned.mean_ + biases, 1, 5), atol=1e-5)
    assert learned.predict(10**7, 10**7)[0] == pytest.approx(learned.mean_)


def test_every_account_of_the_list_has_noise_whether_it_rated_or_not():
    rated = WORLD.filter(WORLD.users < 250)
    learned = fitted(rated)
    silent = learned._user_vectors(np.arange(250, PEOPLE))[:, -1]
    assert len(np.unique(silent)) == 50
    assert silent.all()


def test_much_budget_finds_the_factors_of_a_world():
    # With a seeded source it is deterministic.
    train, test = WORLD.split(0.8, 0.2, random_state=0)
    errors = {}
    for factors in (1, 4):
        learned = fitted(train, epsilon=200, factors=factors)
        errors[factors] = rmse(test.ratings, learned.predict(test.users, test.items))
    assert errors[4] < errors[1] - 0.005


@pytest.mark.parametrize("options", [{"covers": "joint"}, USER_LEVEL])
def test_a_joint_file_holds_no_users_and_personal_copies_are_not_saved(options, tmp_path):
    train, test = WORLD.split(0.8, 0.2, random_state=0)
    learned = fitted(train, **options)
    assert len(learned._accounts) == 0
    own = load(learned.to_bytes()).personal(train)
    alone = rmse(test.ratings, learned.predict(test.users, test.items))
    assert rmse(test.ratings, own.predict(test.users, test.items)) < alone
    with pytest.raises(ValueError, match="not saved"):
        own.save(tmp_path / "model")
    with pytest.raises(ValueError, match="personal is for covers='joint'"):
        fitted().personal(train)


def test_a_personal_vector_is_of_that_users_ratings_alone():
    learned = fitted(covers="joint")
    alone = learned.personal(WORLD.filter(WORLD.users == 7))._user_vectors(np.array([7]))
    np.testing.assert_array_equal(learned.personal(WORLD)._user_vectors(np.array([7])), alone)


def test_rows_that_users_share_need_no_list_and_name_nobody():
    train, test = WORLD.split(0.8, 0.2, random_state=0)
    learned = fitted(train, rows=2000, epsilon=50)
    assert len(learned._accounts.ids) == 0
    unknown_user = rmse(test.ratings, learned.predict(test.users + 10**6, test.items))
    assert rmse(test.ratings, learned.predict(test.users, test.items)) < unknown_user - 0.01
    twin = load(learned.to_bytes())
    np.testing.assert_array_equal(twin.predict(7, test.items), learned.predict(7, test.items))


def test_texts_and_lists_of_accounts_survive_a_file(tmp_path):
    names = [f"user {each}" for each in WORLD.users]
    train = Interactions(names, WORLD.items, WORLD.ratings)
    accounts = [f"user {each}" for each in range(PEOPLE)]
    learned = fitted(train, lists={"users": accounts, "catalogue": Catalogue(LISTS["catalogue"])})
    learned.save(tmp_path / "model")
    twin = load(tmp_path / "model")
    assert twin.statement == learned.statement
    np.testing.assert_array_equal(twin.predict(names, 3), learned.predict(names, 3))


def test_vectors_that_do_not_fit_their_lists_are_refused():
    learned = fitted()
    learned.user_vectors_ = learned.user_vectors_[1:]
    with pytest.raises(ModelFormatError, match="do not fit the lists"):
        load(learned.to_bytes())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"epsilon": 0.2},
            "epsilon 0.2 is too little .* a larger epsilon, with covers='joint'",
        ),
        ({"factors": 1}, "factors is 1, means alone"),
        (USER_LEVEL, "with unit 'user' only item means are released. Take unit 'event'"),
        (
            {"covers": "joint", "epsilon": 40.0},
            r"until their own ratings are given.* use personal\(own\)",
        ),
    ],
)
def test_one_list_for_all_users_is_said_in_words(options, words, tmp_path):
    made = fitted(**options)
    assert re.search(words, made.one_list)
    assert repr(made).endswith(made.one_list)
    lists = made.recommend(range(PEOPLE), 5)[0]
    assert (lists == lists[0]).all()
    made.save(tmp_path / "model")
    assert load(tmp_path / "model").one_list == made.one_list
    if made.joint_:
        own = made.personal(WORLD)
        assert bool(own.one_list) == (made.components_ == 0)
        lists = own.recommend(range(PEOPLE), 5)[0]
        assert (lists == lists[0]).all() == (made.components_ == 0)


def test_a_model_with_components_has_no_such_remark():
    made = fitted()
    assert made.components_ > 0
    assert made.one_list == ""
    assert "one list" not in repr(made)
    lists = made.recommend(range(PEOPLE), 5)[0]
    assert (lists != lists[0]).any()
    assert "one list" not in repr(model())
    with pytest.raises(NotFittedError):
        model().one_list  # noqa: B018
