"""Engines that tests run on: one thread, several, and one session of Spark for the process."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine

# Tests have few rows: what Spark does to be fast with many takes longest.
SMALL = {
    "spark.default.parallelism": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}
ENGINES = ("one thread", "threads", "spark")


@pytest.fixture(scope="session")
def spark():
    from sfumato.engine import SparkEngine

    with SparkEngine("local[2]", settings=SMALL) as engine:
        yield engine


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "spark":
        return request.getfixturevalue("spark")
    return LocalEngine(threads=1 if request.param == "one thread" else 3)


def as_source(engine, columns, folder, files=3):
    """Write columns to some Parquet files; return what the engine reads them from."""
    table, folder = pa.table(columns), folder / "source"
    folder.mkdir(exist_ok=True)
    size = -(-table.num_rows // files)
    for at in range(files):
        pq.write_table(table.slice(at * size, size), folder / f"{at}.parquet")
    return str(folder / "*.parquet") if isinstance(engine, LocalEngine) else str(folder)
