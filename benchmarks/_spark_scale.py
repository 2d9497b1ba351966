"""A model of the time and cost of a job on Spark, fitted to small jobs and tried on others."""

import statistics

import numpy as np
from _spark_meter import Meter

from sfumato.engine import map_merge
from sfumato.engine.spark.engine import FAN_IN
from sfumato.sketch import CountMin, HyperLogLog

CORES, RUNS = 2, 5
SKETCHES = {"HyperLogLog": HyperLogLog, "CountMin": lambda: CountMin(1 << 18)}
FITTED = [(2, 8), (2, 32), (4, 8), (4, 64), (8, 8), (8, 32), (16, 8), (16, 64)]  # M rows, files
UNMET = [(32, 16), (12, 48)]
CORE_HOUR = 0.05  # dollars, about what clouds ask for a core with 4 GiB, before discounts
NETWORK = 1.25e9  # bytes a second that the driver receives: 10 Gbit/s
ROWS_OF_A_TASK = 20_000_000
ASSUMPTIONS = [
    "rows are Parquet and arrive no slower than from this machine's page cache, so a cluster whose "
    "storage gives a core less than that waits for its storage",
    "a core of the cluster is as fast as one of this machine, and all start at once",
    f"a task has {ROWS_OF_A_TASK:,} rows, or fewer so that every core has one; tasks are equal",
    "the driver starts tasks one after the other, each in the time that a task costs here beyond "
    "its rows, divided by the two cores of this machine",
    "the sketches of one level of the tree reach one merging task at 10 Gbit/s",
    f"a core costs ${CORE_HOUR:.2f} an hour, also while it waits; starting the cluster is free",
]


def predictions(engine, folder, written, events):
    """Measured and predicted seconds, the fitted model, and what it says of clusters."""
    measured = []
    for millions, files in [*FITTED, *UNMET]:
        path = written(events(millions * 10**6), f"{folder}/{millions}-{files}", files)
        for name, make in SKETCHES.items():
            measured.append(_measured(engine, path, name, make, millions * 10**6, files))
            print(measured[-1], flush=True)
    unmet = {(millions * 10**6, files) for millions, files in UNMET}
    met = [row for row in measured if (row["rows"], row["partitions"]) not in unmet]
    weights = np.array([1 / row["seconds"] for row in met])
    matrix = np.array([_terms(row) for row in met])
    model = _fit(matrix * weights[:, None], np.ones(len(met)))
    for row in measured:
        row["predicted"] = float(np.dot(_terms(row), model))
        row["off"] = row["predicted"] / row["seconds"] - 1
        row["held_out"] = (row["rows"], row["partitions"]) in unmet
        if row["held_out"]:
            print(f"{row['sketch']}, {row['rows']:,} rows: off by {row['off']:+.1%}", flush=True)
    names = ["job", "task", *(f"row, {name}" for name in SKETCHES), "byte merged"]
    seconds = dict(zip(names, model.tolist(), strict=True))
    return {
        "measured": measured,
        "seconds": seconds,
        "assumptions": ASSUMPTIONS,
        "clusters": _clusters(seconds),
    }


def _fit(matrix, wanted):
    """Least squares with no coefficient below 0: no part of the work takes negative time."""
    from scipy.optimize import nnls

    return nnls(matrix, wanted)[0]


def _measured(engine, path, name, make, rows, files):
    map_merge(path, make, column="user", engine=engine)
    seconds, used = [], []
    for _ in range(RUNS):
        with Meter(engine.session) as meter:
            map_merge(path, make, column="user", engine=engine)
        seconds.append(meter.seconds)
        used.append(meter)
    return {
        "sketch": name,
        "rows": rows,
        "partitions": files,
        "sketch_bytes": len(make().to_bytes()),
        "seconds": statistics.median(seconds),
        "low": min(seconds),
        "high": max(seconds),
        "moved_bytes": used[-1].moved["shuffle_bytes"] + used[-1].moved["result_bytes"],
    }


def _tree(partitions):
    """Tasks of all levels, and how many sketches stand on the longest way through the merges."""
    tasks, chain = partitions, 0
    while partitions > FAN_IN:
        partitions = -(-partitions // FAN_IN)
        tasks += partitions
        chain += FAN_IN
    return tasks, chain + partitions


def _terms(row):
    """What each coefficient of the model is multiplied by."""
    tasks, chain = _tree(row["partitions"])
    rows = [row["rows"] / CORES if row["sketch"] == name else 0.0 for name in SKETCHES]
    return [1.0, tasks / CORES, *rows, chain * row["sketch_bytes"]]


def _clusters(seconds):
    """Seconds and dollars for billions of events on tens to thousands of cores."""
    found = []
    for name, make in SKETCHES.items():
        size = len(make().to_bytes())
        for billions in (1, 10, 100):
            for cores in (10, 100, 1000):
                partitions = max(cores, -(-billions * 10**9 // ROWS_OF_A_TASK))
                tasks, chain = _tree(partitions)
                rows = seconds[f"row, {name}"] * billions * 10**9 / cores
                starting = seconds["task"] * tasks / CORES
                merging = chain * size * (seconds["byte merged"] + 1 / NETWORK)
                total = seconds["job"] + rows + starting + merging
                found.append(
                    {
                        "sketch": name,
                        "billions": billions,
                        "cores": cores,
                        "partitions": partitions,
                        "seconds": total,
                        "dollars": total * cores / 3600 * CORE_HOUR,
                        "moved_bytes": tasks * size,
                    }
                )
    return found
