"""A private model on its way out: one release id is one set of parameters, in ledger and file."""

import numpy as np
import pytest

from sfumato.data import generate_world
from sfumato.privacy import Ledger, release
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import ModelFormatError, PrivateFactorization, load

WORLD = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
LISTS = {"users": range(60), "catalogue": range(40)}
USER_LEVEL = {"unit": "user", "covers": "joint", "per_user": 5}


def model(**options):
    return PrivateFactorization(**{"epsilon": 2, "delta": 1e-6, "bounds": (1, 5), **options})


@pytest.fixture
def paid(tmp_path):
    ledger = Ledger(tmp_path / "shop.ledger")
    ledger.create("events", epsilon=90, delta=0.9)
    ledger.create("users", epsilon=90, delta=0.9, unit="user")
    return {"ledger": ledger, "dataset": "events", "release_id": "june", **LISTS}


@pytest.mark.parametrize(
    "other",
    [{"factors": 3}, {"bounds": (0, 5)}, {"seed": 4}, {"covers": "joint"}, {"rows": 80}],
    ids=str,
)
def test_a_release_id_is_refused_with_other_parameters(paid, other):
    first = model().fit(WORLD, **paid)
    assert model().fit(WORLD, **paid).to_bytes() == first.to_bytes()
    second = model(**other)
    if "rows" in other:
        paid = {**paid, "users": None}
    with pytest.raises(ValueError, match="another what"):
        second.fit(WORLD, **paid)
    assert second.statement is None
    assert "bounds=(1.0, 5.0)" in paid["ledger"].history("events")[0].what


def test_a_release_id_is_refused_with_another_sample(paid):
    paid = {**paid, "dataset": "users", "users": None}
    result = model(**USER_LEVEL).fit(WORLD, **paid)
    assert result.statement.contributions == result.per_user == 5
    with pytest.raises(ValueError, match="another what"):
        model(**{**USER_LEVEL, "per_user": 20}).fit(WORLD, **paid)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-5, 0.1), (1e-9, 0.01), (0.1, 0.8)])
def test_a_delta_that_covers_all_by_itself_is_fitted_and_stated(paid, epsilon, delta):
    learned = model(epsilon=epsilon, delta=delta).fit(WORLD, **paid)
    assert 0 < learned.statement.epsilon <= epsilon
    assert load(learned.to_bytes()).statement == learned.statement


def test_what_fails_before_the_release_costs_nothing(paid, monkeypatch):
    def broken(*anything):
        raise ArithmeticError

    monkeypatch.setattr("sfumato.recommend.private.inputs.epsilon_of", broken)
    with pytest.raises(ArithmeticError):
        model().fit(WORLD, **paid)
    assert not paid["ledger"].history("events")


@pytest.mark.parametrize(
    "changed", [{"epsilon": 0.01}, {"unit": "user", "covers": "joint", "per_user": 3}, {"seed": 9}]
)
def test_parameters_set_after_a_fit_are_in_no_file(changed):
    learned = model().fit(WORLD, **LISTS)
    before = learned.to_bytes()
    assert learned.set_params(**changed).to_bytes() == before
    twin = load(before).set_params(**changed)
    assert twin.to_bytes() == before
    assert load(before).get_params() == model(bounds=(1.0, 5.0)).get_params()


@pytest.mark.parametrize("changed", [{"epsilon": 0.01}, {"delta": 0.1}, {"covers": "joint"}])
def test_a_file_whose_statement_is_of_other_parameters_is_refused(changed):
    learned = model().fit(WORLD, **LISTS)
    learned._fitted = learned._fitted | changed
    with pytest.raises(ModelFormatError, match="not one of these parameters"):
        load(learned.to_bytes())


def test_the_label_is_none_before_a_fit_and_where_noise_is_seeded():
    assert model().privacy_label == "none"
    assert model().fit(WORLD, **LISTS).privacy_label == "proved"
    seeded = model().fit(WORLD, source=InsecureSeededSource(1), **LISTS)
    assert load(seeded.to_bytes()).privacy_label == "none"


@pytest.mark.parametrize("options", [{"rows": 90}, {}, {"covers": "joint"}, USER_LEVEL], ids=str)
def test_a_file_tells_the_kind_of_a_public_list_and_of_no_data(options):
    lists = LISTS if "rows" not in options and "unit" not in options else {"catalogue": range(40)}
    result = load(model(**options).fit(WORLD, **lists).to_bytes()).user_kind_
    assert result == ("" if options else "integers")


def test_room_in_a_ledger_is_needed_for_what_is_stored_alone(paid, monkeypatch):
    # 40 items fit, 100 rows do not; an error must not reveal how many users there are.
    monkeypatch.setattr(release, "MAX_STORED_BYTES", 4 * 33 * 50)
    model(**USER_LEVEL).fit(WORLD, **{**paid, "dataset": "users", "users": None})
    model(covers="joint").fit(WORLD, **{**paid, "release_id": "july"})
    with pytest.raises(ValueError, match="more than a ledger keeps"):
        model().fit(WORLD, **{**paid, "release_id": "august"})


def test_users_queried_as_integers_or_texts_share_the_rows_they_were_learned_in():
    learned = model(rows=500, epsilon=50).fit(WORLD, catalogue=range(40))
    want = learned.predict(WORLD.users, WORLD.items)
    np.testing.assert_array_equal(learned.predict(WORLD.users.astype(str), WORLD.items), want)
