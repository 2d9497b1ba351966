"""Rows of any engine: the same verbs, the same rows."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine

USERS = np.random.default_rng(0).integers(0, 300, 5000)
TABLE = pa.table({"user": USERS, "item": [f"item {n % 7}" for n in range(USERS.size)]})


@pytest.fixture(params=["one thread", "threads", "spark"])
def engine(request):
    if request.param == "spark":
        return request.getfixturevalue("spark")
    return LocalEngine(threads=1 if request.param == "one thread" else 3)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for at in range(3):
        pq.write_table(TABLE.slice(at * 2000, 2000), folder / f"{at}.parquet")
    return folder


@pytest.fixture
def rows(engine, path):
    source = str(path / "*.parquet") if isinstance(engine, LocalEngine) else str(path)
    return engine.rows(source, ["user", "item"])


def pairs(batches):
    return sorted(
        pair
        for batch in batches
        for pair in zip(batch["user"].to_pylist(), batch["item"].to_pylist(), strict=True)
    )


EXPECTED = pairs(TABLE.to_batches())


def test_no_verb_loses_or_repeats_a_row(rows, tmp_path):
    assert pairs(rows.batches()) == EXPECTED
    shuffled = rows.shuffle("user").persist()
    assert pairs(shuffled.batches()) == EXPECTED
    shuffled.write(tmp_path / "out")
    assert pairs(pq.read_table(tmp_path / "out").to_batches()) == EXPECTED
    shuffled.unpersist()


def test_rows_of_one_value_are_in_one_partition(rows):
    def users(batches):
        found = set()
        for batch in batches:
            found |= set(batch["user"].to_pylist())
        return [found]

    parts = rows.shuffle("user").fold(users, lambda a, b: a + b)
    assert sum(map(len, parts)) == len(set(USERS.tolist()))
    assert len([part for part in parts if part]) > 1


def test_maps_convert_whole_partitions(rows):
    def sizes(batches):
        total = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": [total]})

    def total(batches):
        return sum(sum(batch["rows"].to_pylist()) for batch in batches)

    mapped = rows.map(sizes, pa.schema([("rows", pa.int64())]))
    assert mapped.fold(total, lambda a, b: a + b) == USERS.size
    assert sum(sum(batch["rows"].to_pylist()) for batch in mapped.batches()) == USERS.size


def test_what_a_map_raises_is_its_sentence(rows):
    def bad(batches):
        for _ in batches:
            raise ValueError("Thing: size must be an integer.")
        yield from ()

    schema = pa.schema([("rows", pa.int64())])
    with pytest.raises(ValueError, match=r"^Thing: size must be an integer\.$"):
        list(rows.map(bad, schema).batches())
