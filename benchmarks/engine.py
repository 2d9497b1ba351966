"""Two threads of the local engine beside one: Count-Min over a 200-million-key Parquet file.

    python benchmarks/engine.py [ROWS]    writes benchmarks/results/engine.json for the full size

Each run is a process of its own that reports its seconds and its peak resident memory.
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
from _measure import write

ROWS, GROUP, RUNS = 200_000_000, 1_000_000, 5
RUN = """
import json, resource, sys, time
from sfumato.engine import map_merge
from sfumato.sketch import CountMin
path, threads = sys.argv[1], int(sys.argv[2])
make = lambda: CountMin(2**18)
make().update([1])
start = time.perf_counter()
sketch = map_merge(path, make, column="key", threads=threads)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"seconds": seconds, "peak_bytes": peak, "total": sketch.total}))
"""


def make_file(path, rows):
    rng = np.random.default_rng(0)
    schema = pa.schema([("key", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for start in range(0, rows, GROUP):
            keys = rng.integers(0, 2**40, min(GROUP, rows - start))
            writer.write_table(pa.table([keys], schema), row_group_size=GROUP)


def run(path, threads):
    command = [sys.executable, "-c", RUN, str(path), str(threads)]
    out = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(out.stdout)


def main(rows):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "keys.parquet"
        make_file(path, rows)
        run(path, 1)  # the file is in the page cache from here on
        runs = {1: [], 2: []}
        for _ in range(RUNS):  # in turn, so that a slow minute of the machine meets both
            for threads, done in runs.items():
                done.append(run(path, threads))
    assert all(each["total"] == rows for both in runs.values() for each in both)
    seconds = {t: statistics.median(each["seconds"] for each in both) for t, both in runs.items()}
    peak = {t: max(each["peak_bytes"] for each in both) for t, both in runs.items()}
    ratio = seconds[1] / seconds[2]
    for threads in (1, 2):
        speed = rows / seconds[threads] / 1e6
        memory = peak[threads] / 2**20
        print(
            f"{threads} thread(s): {seconds[threads]:.2f} s, {speed:.0f} M keys/s, {memory:.0f} MiB"
        )
    print(f"ratio {ratio:.2f} (target 1.6), peak {max(peak.values()) / 2**30:.2f} GiB (target 1)")
    if rows == ROWS:
        write("engine", {"rows": rows, "ratio": ratio, "target": 1.6, "runs": runs})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
