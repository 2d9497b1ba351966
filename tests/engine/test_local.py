"""Any engine, any threads, any batches: one sketch, in the memory allowed."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato.engine.local
from sfumato.data import read_batches
from sfumato.data.readers import arrow
from sfumato.engine import Engine
from sfumato.sketch import CountMin, CountSketch, HyperLogLog
from sfumato.sketch.base import Sketch

ENGINES: list[Engine] = [sfumato.engine.local]
KEYS = np.random.default_rng(3).zipf(1.2, 200_000) % 50_000
WEIGHTS = np.random.default_rng(4).integers(0, 9, KEYS.size)
TABLE = pa.table({"key": KEYS, "weight": WEIGHTS})

engines = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)


def count_min():
    return CountMin(256, seed=2)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Row groups of a test's size are read apart, as those of a large file are."""
    monkeypatch.setattr(arrow, "PIECE_ROWS", 30_000)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(TABLE, folder / "one.parquet")
    pq.write_table(TABLE, folder / "groups.parquet", row_group_size=30_000)
    pa.csv.write_csv(TABLE, folder / "views.csv")
    for n in range(5):
        pa.csv.write_csv(TABLE.slice(n * 40_000, 40_000), folder / f"part-{n}.csv")
    return folder


SOURCES = {
    "table": lambda folder: TABLE,
    "one row group": lambda folder: folder / "one.parquet",
    "row groups": lambda folder: folder / "groups.parquet",
    "csv": lambda folder: folder / "views.csv",
    "five csv files": lambda folder: str(folder / "part-*.csv"),
    "stream": lambda folder: iter(TABLE.to_batches(max_chunksize=7001)),
    "pandas": lambda folder: TABLE.to_pandas(),
}


@engines
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("threads", "batch_rows"), [(1, None), (2, 9973), (3, 65536), (8, 1000)])
def test_threads_and_batches_do_not_change_the_sketch(engine, files, source, threads, batch_rows):
    options = {"column": "key", "threads": threads, "batch_rows": batch_rows}
    made = engine.map_merge(SOURCES[source](files), count_min, **options)
    assert made == count_min().update(KEYS)


@engines
def test_weights_are_a_column(engine, files):
    for source in (files / "groups.parquet", files / "views.csv"):
        options = {"column": "key", "weights": "weight", "threads": 3, "batch_rows": 5000}
        made = engine.map_merge(source, count_min, **options)
        assert made == count_min().update(KEYS, WEIGHTS)


@engines
@pytest.mark.parametrize("make", [lambda: CountSketch(64), lambda: HyperLogLog(8)])
def test_other_exact_sketches_are_equal_too(engine, files, make):
    for threads in (1, 2, 8):
        made = engine.map_merge(
            files / "groups.parquet", make, column="key", threads=threads, batch_rows=3000
        )
        assert made == make().update(KEYS)


@engines
def test_update_may_use_several_columns(engine):
    def both(sketch, batch):
        sketch.update(batch.column("key")).update(batch.column("weight"))

    source = read_batches(TABLE, ["key", "weight"])
    made = engine.map_merge(source, count_min, update=both, threads=3, batch_rows=999)
    assert made == count_min().update(KEYS).update(WEIGHTS)


@engines
def test_a_sketch_that_refuses_to_merge_sees_the_rows_in_order_on_one_thread(engine, files):
    used, want = set(), CountMin(64, cells="conservative", seed=1).update(KEYS)

    class Watched(CountMin):
        def update(self, keys, weights=None):
            used.add(threading.get_ident())
            return super().update(keys, weights)

    def make():
        return Watched(64, cells="conservative", seed=1)

    for source in (files / "groups.parquet", str(files / "part-*.csv")):
        used.clear()
        made = engine.map_merge(source, make, column="key", threads=8, batch_rows=5000)
        assert made._table.tolist() == want._table.tolist()
        assert len(used) == 1
    del Sketch.KINDS["Watched"]


def test_memory_limit_lowers_batches_and_threads():
    plan = sfumato.engine.local._fit
    source = read_batches(TABLE, ["key"])
    assert (plan(source, 1 << 20, 4, 65536, None).threads) == 4
    wide = plan(source, 1 << 20, 4, 65536, 1 << 30)
    assert (wide.threads, wide.batch_rows) == (4, 65536)
    small = plan(source, 1 << 20, 4, 65536, 21 << 20)
    assert small.threads == 4
    assert 1024 <= small.batch_rows < 65536
    assert plan(source, 1 << 20, 4, 65536, 11 << 20).threads == 2
    for limit in range(6 << 20, 40 << 20, 777_777):
        fit = plan(source, 1 << 20, 4, 65536, limit)
        assert fit.threads * ((5 << 20) + 3 * 8 * fit.batch_rows) <= limit


@engines
def test_a_memory_limit_too_small_says_what_is_needed(engine, files):
    with pytest.raises(
        ValueError, match=r"memory_limit must be at least (\d+) bytes, not 1000:"
    ) as result:
        engine.map_merge(TABLE, count_min, column="key", memory_limit=1000)
    least = int(str(result.value).split("at least ")[1].split()[0])
    made = engine.map_merge(TABLE, count_min, column="key", memory_limit=least, threads=8)
    assert made == count_min().update(KEYS)
    with pytest.raises(ValueError, match="at least"):
        engine.map_merge(TABLE, count_min, column="key", memory_limit=least - 1)
    with pytest.raises(ValueError, match="at least"):  # DuckDB needs its share
        engine.map_merge(files / "views.csv", count_min, column="key", memory_limit=least)
    made = engine.map_merge(files / "views.csv", count_min, column="key", memory_limit=80 << 20)
    assert made == count_min().update(KEYS)


@engines
def test_what_does_not_fit_together_is_refused_before_work(engine):
    with pytest.raises(ValueError, match="name the column"):
        engine.map_merge(TABLE, count_min)
    with pytest.raises(ValueError, match="name one of the columns key, weight"):
        engine.map_merge(read_batches(TABLE, ["key", "weight"]), count_min)
    with pytest.raises(ValueError, match="'film' is not among those read: key"):
        engine.map_merge(read_batches(TABLE, ["key"]), count_min, column="film")
    with pytest.raises(ValueError, match="HyperLogLog: takes no weights"):
        engine.map_merge(TABLE, lambda: HyperLogLog(8), column="key", weights="weight")
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="threads must be"):
            engine.map_merge(TABLE, count_min, column="key", threads=bad)
        with pytest.raises(ValueError, match="memory_limit must be"):
            engine.map_merge(TABLE, count_min, column="key", memory_limit=bad)
        with pytest.raises(ValueError, match="batch_rows must be"):
            engine.map_merge(TABLE, count_min, column="key", batch_rows=bad)


@engines
def test_what_an_engine_lacks_is_a_sentence(engine):
    assert all(sentence.endswith(".") for sentence in engine.lacks.values())


def test_a_sketch_in_place_of_its_maker_is_refused():
    with pytest.raises(TypeError, match="make_sketch must be a function"):
        sfumato.engine.local.map_merge({"key": [1]}, CountMin(8), column="key")


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("compression", ["none", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_long_values_count_for_the_memory_limit(tmp_path, dictionary, compression, version):
    # An average row is short; the last ones are a page of 4 MiB together, which is read whole.
    path = tmp_path / "a.parquet"
    keys = [f"key {at}" for at in range(50_000)] + [chr(97 + at) * (1 << 20) for at in range(4)]
    options = dict(use_dictionary=dictionary, compression=compression, data_page_version=version)
    pq.write_table(pa.table({"key": keys}), path, **options)
    largest = read_batches(path, ["key"]).found.largest()
    assert 4 << 20 <= largest < 6 << 20
    make = lambda: CountMin(64)  # noqa: E731
    with pytest.raises(ValueError, match=r"of which the longest values take \d+.*leave out rows"):
        sfumato.engine.local.map_merge(path, make, column="key", memory_limit=16 << 20)
    whole = sfumato.engine.local.map_merge(path, make, column="key", memory_limit=128 << 20)
    assert whole.total == len(keys)


def test_usual_pages_are_small(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": np.random.default_rng(0).integers(0, 2**60, 500_000)}), path)
    assert read_batches(path, ["key"]).found.largest() <= 3 << 20
