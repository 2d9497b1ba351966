"""How fast kernel-sum sketches are built and queried on one thread, beside what the machine allows.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/density_speed.py [build] [query]
        writes benchmarks/results/density_speed.json, all parts unless some are named

An increment is one cell of one row for one point: rows x points of them. The ceiling is that of
random increments into cells that stay in the first cache, with their places given.
"""

import sys

import numpy as np
from _density_data import Table, skin
from _kernel_means import sketch
from _measure import Ceilings, rate, show, write_parts

ROWS = 1000
PAPER = {"build": 15.0, "query": 400e-6}  # seconds on skin, table 3 of the paper


def wide(points=100_000, dimension=55):
    """Points of as many columns as covtype, generated: uneven scales within one box."""
    draws = np.random.default_rng(0)
    spread = draws.uniform(0.02, 0.2, dimension)
    made = 0.5 + draws.normal(size=(points, dimension)) * spread
    return Table("wide", np.clip(made, 0, 1), (0, 1), 1.0)


def build():
    """Increments a second of RACE at 3 and 55 columns, and points a second of the others."""
    rows, ceiling = [], Ceilings().increments(1024, np.int32)
    for name, table, target in (("skin, d = 3", skin(), 200), ("generated, d = 55", wide(), 90)):
        made = sketch(table, "race", None, 0, rows=ROWS)
        work = len(table.points) * ROWS
        ours = rate(lambda made=made, table=table: made.copy().update(table.points), work, runs=5)
        seconds = work / ours["median"] / 1e6
        row = dict(name=f"RACE build, {name}, M increments/s", ours=ours, target=target)
        rows.append(show({**row, "ceiling": ceiling, "peers": {}, "seconds": seconds}))
    for backend in ("grid", "slices", "fourier"):
        made = sketch(skin(), backend, (1.0, 0.0), 0)
        points = skin().points
        ours = rate(lambda made=made, points=points: made.copy().update(points), len(points), 3)
        rows.append(show(dict(name=f"{backend} build, skin, M points/s", ours=ours, peers={})))
    return {"paper_seconds": PAPER["build"], "rows": rows}


def query():
    """Microseconds a query in batches of 2,000, and for one query alone, of releases."""
    table, rows = skin(), []
    points, queries = table.held_out(2_000)
    for backend in ("race", "grid", "slices", "fourier"):
        size = ROWS if backend == "race" else None
        made = sketch(table, backend, (1.0, 0.0), 0, rows=size).update(points).release(1.0)
        for count in (2_000, 1):
            requested = queries[:count]
            result = rate(lambda made=made, requested=requested: made.mean(requested), count, 7)
            micro = dict(
                median=1 / result["median"], low=1 / result["high"], high=1 / result["low"]
            )
            row = dict(name=f"{backend} query, {count} at once, us", ours=micro, peers={})
            rows.append(
                show({**row, "target": 20 if (backend, count) == ("race", 2_000) else None})
            )
    return {"paper_seconds": PAPER["query"], "rows": rows}


if __name__ == "__main__":
    write_parts("density_speed", {"build": build, "query": query}, sys.argv[1:])
