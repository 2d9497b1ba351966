"""Spark gives the sketches of one machine, and says what it cannot do in one sentence."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine, map_merge
from sfumato.errors import EngineError, NullValueError, SfumatoError
from sfumato.sketch import (
    AMS,
    BloomFilter,
    CountingBloomFilter,
    CountMin,
    CountSketch,
    FeatureHasher,
    HyperLogLog,
    JohnsonLindenstrauss,
    MinHash,
    Race,
)
from sfumato.sketch.lsh import Euclidean

ROWS = 60_000
KEYS = np.random.default_rng(3).zipf(1.2, ROWS) % 50_000
TABLE = pa.table(
    {
        "key": KEYS,
        "text": [f"word {key}" for key in KEYS],
        "weight": np.random.default_rng(4).integers(0, 9, ROWS),
        "x": np.random.default_rng(5).uniform(0, 1, ROWS),
        "y": np.random.default_rng(6).uniform(0, 1, ROWS),
    }
)
SKETCHES = {
    "CountMin": lambda: CountMin(256, seed=2),
    "compact CountMin": lambda: CountMin(256, cells="compact", seed=2),
    "CountSketch": lambda: CountSketch(256, seed=2),
    "AMS": lambda: AMS(64, seed=2),
    "BloomFilter": lambda: BloomFilter(1 << 14, seed=2),
    "CountingBloomFilter": lambda: CountingBloomFilter(1 << 14, seed=2),
    "HyperLogLog": lambda: HyperLogLog(10, seed=2),
    "MinHash": lambda: MinHash(64, seed=2),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The table in twenty files, so that two levels of the tree merge them."""
    folder = tmp_path_factory.mktemp("files")
    for at in range(20):
        part = TABLE.slice(at * ROWS // 20, ROWS // 20)
        pq.write_table(part, folder / f"{at}.parquet")
    return folder


@pytest.mark.parametrize("column", ["key", "text"])
@pytest.mark.parametrize("name", SKETCHES)
def test_integer_sketches_are_those_of_one_machine(spark, files, name, column):
    make = SKETCHES[name]
    made = map_merge(str(files), make, column=column, engine=spark)
    local = map_merge(TABLE, make, column=column, engine=LocalEngine(threads=2))
    assert made.to_bytes() == local.to_bytes()


def test_weights_are_a_column(spark, files):
    made = spark.map_merge(str(files), SKETCHES["CountMin"], column="key", weights="weight")
    local = LocalEngine().map_merge(TABLE, SKETCHES["CountMin"], column="key", weights="weight")
    assert made.to_bytes() == local.to_bytes()


def test_rows_of_several_columns_are_a_matrix(spark, files):
    def make():
        return Race(40, 64, Euclidean(0.3, (0, 1), dimension=2), seed=3)

    made = spark.map_merge(str(files), make, column=["x", "y"])
    assert made == make().update(np.column_stack([TABLE["x"], TABLE["y"]]))
    assert made == LocalEngine(threads=2).map_merge(TABLE, make, column=["x", "y"])


@pytest.mark.parametrize(
    "make", [lambda: FeatureHasher(64, seed=1), lambda: JohnsonLindenstrauss(64, seed=1)]
)
def test_float_sketches_agree_within_their_tolerance(spark, files, make):
    made = spark.map_merge(str(files), make, column="key", weights="x")
    local = make().update(KEYS, TABLE["x"])
    assert made.merging.kind == "rounding"
    [mine] = made._arrays().values()
    [other] = local._arrays().values()
    total = TABLE["x"].to_numpy().sum()
    assert np.abs(mine - other).max() <= made.merging.tolerance * total


def test_update_may_use_several_columns(spark, files):
    def both(sketch, batch):
        sketch.update(batch.column("key")).update(batch.column("weight"))

    made = spark.map_merge(str(files), SKETCHES["CountMin"], update=both)
    assert made == SKETCHES["CountMin"]().update(KEYS).update(TABLE["weight"])


def test_a_fold_is_that_of_one_machine(spark, files):
    def largest(batches):
        return max((int(batch.column("key").to_numpy().max()) for batch in batches), default=-1)

    for engine, source in ((spark, str(files)), (LocalEngine(threads=2), TABLE)):
        assert engine.fold(source, largest, max, columns=["key"]) == KEYS.max()


def test_an_empty_frame_gives_an_empty_sketch(spark):
    frame = spark.session.createDataFrame([], "key bigint")
    make = SKETCHES["HyperLogLog"]
    assert spark.map_merge(frame, make, column="key") == make()


REFUSED = {
    "no column": (
        lambda s, f: s.map_merge(f, SKETCHES["AMS"]),
        "map_merge: name the column.",
    ),
    "unknown column": (
        lambda s, f: s.map_merge(f, SKETCHES["AMS"], column="film"),
        "SparkEngine: there is no column 'film'; the columns are: key, text, weight, x, y.",
    ),
    "refuses to merge": (
        lambda s, f: s.map_merge(f, lambda: CountMin(64, cells="conservative"), column="key"),
        "CountMin: cannot merge, ",
    ),
    "no weights": (
        lambda s, f: s.map_merge(f, SKETCHES["HyperLogLog"], column="key", weights="weight"),
        "HyperLogLog: takes no weights; leave them out.",
    ),
    "bad weights": (
        lambda s, f: s.map_merge(f, SKETCHES["CountMin"], column="key", weights="x"),
        "CountMin: weights must be",
    ),
    "batch rows": (
        lambda s, f: s.map_merge(f, SKETCHES["AMS"], column="key", batch_rows=5),
        "SparkEngine: does not support batch_rows. The session decides",
    ),
    "no file": (
        lambda s, f: s.map_merge(f + "/none.parquet", SKETCHES["AMS"], column="key"),
        "SparkEngine: there is no such file or folder.",
    ),
    "no frame": (
        lambda s, f: s.map_merge({"key": [1]}, SKETCHES["AMS"], column="key"),
        "SparkEngine: the source must be a data frame of Spark or a path of Parquet files, not "
        "dict; session.createDataFrame makes a frame of a table.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_one_sentence(spark, files, name):
    work, sentence = REFUSED[name]
    with pytest.raises(SfumatoError) as raised:
        work(spark, str(files))
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)


def test_a_null_is_named_by_its_column(spark):
    frame = spark.session.createDataFrame([(1, 2), (2, None)], "key bigint, weight bigint")
    with pytest.raises(NullValueError, match="column 'weight' is null; skip nulls or fill them"):
        spark.map_merge(frame, SKETCHES["CountMin"], column="key", weights="weight")


def test_files_of_several_schemas_are_refused(spark, tmp_path):
    pq.write_table(pa.table({"key": [1, 2]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"key": ["tea", "milk"]}), tmp_path / "b.parquet")
    with pytest.raises(EngineError, match="the files do not have one schema"):
        spark.map_merge(str(tmp_path), SKETCHES["HyperLogLog"], column="key")


def test_what_an_engine_lacks_is_a_sentence(spark):
    assert all(sentence.endswith(".") for sentence in spark.lacks.values())
    assert repr(spark) == "SparkEngine(master='local[2]')"
