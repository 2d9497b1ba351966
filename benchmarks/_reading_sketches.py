"""HyperLogLog of a Parquet column beside DuckDB's approx_count_distinct, one thread each.

Every run is a process of its own. Seconds are CPU time: of the query alone with the libraries
imported and the sketch's kernels loaded (those of Parquet are loaded by the query), and of the
whole process. Peak memory is the process's, as the
operating system (Linux) counts it, and before the query.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["rows"]

GROUP = 1_000_000  # rows of a row group
INTEGERS, TEXTS = 50, 20  # row groups of a file
RUNS = 5

MEASURED = """
import json, re, sys, time
peak = lambda: int(re.search(r"VmHWM:\\s*([0-9]+)", open("/proc/self/status").read())[1]) / 1024
{prepare}
before, start = peak(), time.process_time()
{query}
end = time.process_time()
print(json.dumps(dict(seconds=end - start, whole=end, peak_mib=peak(), before_mib=before)))
"""
OURS = MEASURED.format(
    prepare="from sfumato.engine import map_merge; from sfumato.sketch import HyperLogLog\n"
    "HyperLogLog().update([1]); HyperLogLog().update(['a'])",
    query="map_merge(sys.argv[1], HyperLogLog, column='k', threads=1).estimate()",
)
DUCKDB = MEASURED.format(
    prepare="import duckdb; connection = duckdb.connect(); connection.execute('SET threads=1')",
    query="connection.execute('SELECT approx_count_distinct(k) FROM read_parquet(?)',"
    " [sys.argv[1]]).fetchone()",
)


def rows():
    """One row a file: integers, texts that are mostly distinct, and texts of a dictionary."""
    with tempfile.TemporaryDirectory() as folder:
        return [_row(name, Path(folder) / "k.parquet", *made) for name, made in _files().items()]


def _files():
    rng = np.random.default_rng(0)
    words = pa.array([f"user-{number:08x}" for number in rng.integers(0, 2**32, 20_000)])

    def urls():
        numbers = rng.integers(0, 2**48, GROUP)
        return pa.array([f"https://example.org/page/{number:012x}" for number in numbers])

    return {
        "HyperLogLog from Parquet, 50 M integers": (
            INTEGERS,
            lambda: pa.array(rng.integers(0, 2**40, GROUP)),
        ),
        "HyperLogLog from Parquet, 20 M URLs": (TEXTS, urls),
        "HyperLogLog from Parquet, 20 M words of 20,000": (
            TEXTS,
            lambda: words.take(pa.array(rng.integers(0, len(words), GROUP))),
        ),
    }


def _row(name, path, groups, column):
    schema = pa.schema([("k", column().type)])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(groups):
            writer.write_table(pa.table([column()], schema))
    found = {"ours": [], "DuckDB": []}
    for _ in range(RUNS + 1):  # they take turns; the first run warms caches and compiles
        found["ours"].append(_measured(OURS, path))
        found["DuckDB"].append(_measured(DUCKDB, path))
    ours, peer = (_summary(runs[1:]) for runs in found.values())
    row = {"name": name, "unit": "s", "limit": peer["median"], "ours": ours}
    row["peers"] = {"DuckDB": peer}
    for who, figure in (("ours", ours), ("DuckDB", peer)):
        memory = f"peak {figure['peak_mib']:.0f} MiB, {figure['before_mib']:.0f} before"
        print(
            f"{name:<48}{who:<8}{figure['median']:7.3f} s, process {figure['whole']:.2f}; {memory}"
        )
    return row


def _measured(code, path):
    command = [sys.executable, "-c", code, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)


def _summary(runs):
    seconds = [run["seconds"] for run in runs]
    others = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    return {
        "median": others.pop("seconds"),
        "low": min(seconds),
        "high": max(seconds),
        **others,
    }


if __name__ == "__main__":
    rows()
