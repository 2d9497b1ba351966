"""PrivateFactorization on an engine: the bytes of one machine, charged once; no row raises."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.engine import LocalEngine
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import PrivateFactorization
from sfumato.recommend.private import event_rows
from sfumato.recommend.private.inputs import accounts_of, catalogue_of
from support.engines import as_source

PEOPLE, THINGS = 120, 60
WORLD = generate_world(users=PEOPLE, items=THINGS, ratings=3500, random_state=2).interactions
COLUMNS = dict(
    zip(("user", "item", "rating"), (WORLD.users, WORLD.items, WORLD.ratings), strict=True)
)
USER_LEVEL = {"unit": "user", "covers": "joint", "per_user": 20}
KINDS = {
    "event": {"factors": 4},
    "joint": {"covers": "joint"},
    "shared rows": {"rows": 200},
    "user": USER_LEVEL,
}


def model(**options):
    return PrivateFactorization(**{"epsilon": 8, "delta": 1e-6, "bounds": (1, 5), **options})


def lists(options):
    users = {} if "rows" in options or "unit" in options else {"users": np.arange(PEOPLE)}
    return {"catalogue": np.arange(THINGS), **users}


def local(options, train=WORLD):
    return model(**options).fit(train, source=InsecureSeededSource(1), **lists(options))


def on_engine(options, source, engine, **more):
    noise = InsecureSeededSource(1)
    more = {**lists(options), "random_source": noise, **more}
    return model(**options).fit_rows(source, engine=engine, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_that_of_one_machine_byte_for_byte(engine, tmp_path, kind):
    source = as_source(engine, COLUMNS, tmp_path)
    found = on_engine(KINDS[kind], source, engine)
    assert found.to_bytes() == local(KINDS[kind]).to_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_no_order_of_the_rows_and_no_number_of_parts_changes_it(kind):
    order = np.random.default_rng(0).permutation(len(WORLD))
    table = pa.table(COLUMNS).take(pa.array(order))
    for rows, threads in ((100, 3), (10**6, 1)):
        parts = table.to_batches(max_chunksize=rows)
        found = on_engine(KINDS[kind], parts, LocalEngine(threads=threads))
        assert found.to_bytes() == local(KINDS[kind]).to_bytes()


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "shop.ledger")
    for unit in ("event", "user"):
        book.create(unit, epsilon=8, delta=1e-6, unit=unit)
    return book


class PartitionError(Exception):
    """A partition that cannot be computed."""


def failing(monkeypatch, calls):
    """Let the partition after so many calls raise."""
    left, fold = [calls], event_rows._EventTotal.__call__

    def call(self, batches):
        left[0] -= 1
        if left[0] < 0:
            raise PartitionError
        return fold(self, batches)

    monkeypatch.setattr(event_rows._EventTotal, "__call__", call)


@pytest.mark.parametrize("kind", ["event", "user"])
def test_a_failure_between_steps_is_charged_once_and_repeated_for_nothing(
    ledger, monkeypatch, kind
):
    paid = {"ledger": ledger, "dataset": kind, "release_id": "spring"}
    with monkeypatch.context() as broken:
        failing(broken, 3)
        with pytest.raises(PartitionError):
            on_engine(KINDS[kind], COLUMNS, LocalEngine(threads=1), **paid)
    assert len(ledger.history(kind)) == 1
    found = on_engine(KINDS[kind], COLUMNS, LocalEngine(threads=2), **paid)
    assert len(ledger.history(kind)) == 1
    again = on_engine(KINDS[kind], COLUMNS, LocalEngine(threads=1), random_source=None, **paid)
    assert again.to_bytes() == found.to_bytes()
    np.testing.assert_array_equal(found.item_vectors_, local(KINDS[kind]).item_vectors_)


def test_rows_that_cannot_be_read_cost_nothing(ledger, tmp_path, spark):
    paid = {"ledger": ledger, "dataset": "event"}
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no columns PAR1")
    source = str(tmp_path / "broken.parquet")
    for engine in (LocalEngine(), spark):
        with pytest.raises((ValueError, OSError)):
            on_engine({}, source, engine, **paid)
    assert not ledger.history("event")


def test_a_model_beyond_the_budget_is_refused_before_rows_are_read(ledger):
    def rows():
        raise AssertionError("rows were read")
        yield

    with pytest.raises(BudgetExceeded):
        on_engine({"epsilon": 9}, COLUMNS, LocalEngine(), ledger=ledger, dataset="event")
    with pytest.raises(ValueError, match="unit is 'event' here and 'user' in the ledger"):
        on_engine({}, rows(), LocalEngine(), ledger=ledger, dataset="user")


@pytest.mark.parametrize("kind", ["event", "user"])
def test_no_odd_row_raises_and_odd_ones_count_as_on_one_machine(engine, tmp_path, kind):
    users = [*map(str, WORLD.users), "guest", None, "5", "5.0", "7"]
    items = [*map(str, WORLD.items), "1", "1", None, "teapot", "2"]
    ratings = [*WORLD.ratings, 5.0, 5.0, 5.0, 1e300, float("nan")]
    odd = Interactions(users, items, ratings, invalid="drop")
    source = as_source(engine, {"user": users, "item": items, "rating": ratings}, tmp_path)
    found = on_engine(KINDS[kind], source, engine)
    assert found.to_bytes() == local(KINDS[kind], odd).to_bytes()


def test_at_user_level_no_user_has_more_ratings_than_are_charged_for(engine, tmp_path):
    def numbers_of_ratings(events):
        """How many users, and how many pairs of user and item, have how many ratings."""
        users, pairs = np.bincount(events.users), np.bincount(events.users * 60 + events.items)
        return np.stack([np.bincount(each[each > 0], minlength=200) for each in (users, pairs)])

    many = {name: np.tile(column, 3) for name, column in COLUMNS.items()}
    names, plain = tuple(COLUMNS), model(**USER_LEVEL)._check()
    read = engine.rows(as_source(engine, many, tmp_path), names)
    items, accounts = catalogue_of(np.arange(THINGS)), accounts_of(plain, None, None)
    rows = event_rows.EventRows(read, names, plain, items, accounts)
    by_user, by_pair = rows.total(numbers_of_ratings)
    rows.unpersist()
    own = np.bincount(WORLD.users)
    assert np.flatnonzero(by_user).max() == 20
    assert by_user[20] == (own >= 20).sum()
    assert np.flatnonzero(by_pair).tolist() == [1]
