"""Files read into memory beside polars, DuckDB and pandas, one thread each.

python benchmarks/reading.py [ratings] [sketches]
    writes benchmarks/results/reading.json, all parts unless some are named

Ratings are a million rows of user, item, rating and time, no pair twice, and once with repeated
pairs, of which the latest is kept; peers only read the columns. CPU time of the whole process
counts, and beside it the time on the clock of ours.
"""

import importlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from _calls import call_row
from _measure import write_parts
from pyarrow import csv, parquet

from sfumato.data import read_interactions

for _threads in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):  # of peers, imported when they are read
    os.environ[_threads] = "1"
pa.set_cpu_count(1)
pa.set_io_thread_count(1)

ROWS, USERS, ITEMS = 1_000_000, 6040, 3706
LIMITS = {"csv": 120_000, "parquet": 50_000}
RUNS = 7


def _table(texts=False, repeated=False):
    """Ratings in random order, of distinct pairs unless some are repeated."""
    generator = np.random.default_rng(0)
    pairs = generator.choice(USERS * ITEMS, ROWS, replace=repeated)
    users, items = pairs // ITEMS + 1, pairs % ITEMS + 1
    columns = {
        "user": [f"u{each}" for each in users] if texts else users,
        "item": [f"i{each}" for each in items] if texts else items,
        "rating": generator.integers(1, 11, ROWS) / 2,
        "timestamp": generator.integers(956_703_932, 1_046_454_590, ROWS),
    }
    return pa.table(columns)


def _written(folder, name, table):
    files = {"csv": folder / f"{name}.csv", "parquet": folder / f"{name}.parquet"}
    csv.write_csv(table, files["csv"])
    parquet.write_table(table, files["parquet"])
    return files


def _peers(file, ending):
    """What prepares the call of each peer that reads this file."""

    def polars():
        import polars

        return lambda: getattr(polars, f"read_{ending}")(file)

    def duckdb():
        import duckdb

        connection = duckdb.connect(config={"threads": 1})
        return lambda: connection.sql(f"SELECT * FROM '{file}'").to_arrow_table()

    def pandas():
        import pandas

        return lambda: getattr(pandas, f"read_{ending}")(file)

    return {"polars": polars, "DuckDB": duckdb, "pandas": pandas}


def _seconds(work):
    """Median time on the clock."""
    times = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def ratings():
    """Rows of `read_interactions`; only integers of distinct pairs have a limit."""
    rows = []
    kinds = {"integers": {}, "repeated pairs": {"repeated": True}, "texts": {"texts": True}}
    with tempfile.TemporaryDirectory() as name:
        for kind, options in kinds.items():
            for ending, file in _written(Path(name), kind, _table(**options)).items():
                limit = LIMITS[ending] if kind == "integers" else None

                def read(file=file):
                    return read_interactions(file)

                title = f"ratings of a million rows, {ending}, {kind}"
                row = call_row(title, read, limit, _peers(str(file), ending), RUNS)
                rows.append({**row, "wall_us": _seconds(read) * 1e6})
    return rows


def sketches():
    """Rows of `sketch build` from Parquet."""
    return importlib.import_module("_reading_sketches").rows()


if __name__ == "__main__":
    write_parts("reading", {"ratings": ratings, "sketches": sketches}, sys.argv[1:])
