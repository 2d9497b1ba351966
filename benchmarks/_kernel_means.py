"""Kernel means of a table: the truth by brute force, a sketch of each backend, and its errors."""

import time

import numpy as np
from _density_data import Kernel
from _function_release import Task

from sfumato.density.backends import choose, make

GUESS = 100_000  # the public guess of how many points there are, the same for every table
BACKENDS = ("grid", "slices", "fourier", "race")


def truth(table, points, queries):
    """The mean kernel of the points at each query."""
    task = Task(points, Kernel(table.bandwidth), 1.0, 0.0, None)
    return task.sums(queries) / len(points)


def sketch(table, backend, budget, seed, *, rows=None, strata="stratified", width=1024):
    """An empty sketch for a budget (epsilon, delta), or for none."""
    low, high = (
        tuple(map(float, np.broadcast_to(side, table.points.shape[1]))) for side in table.bounds
    )
    epsilon, delta = budget or (None, 0.0)
    setting = choose(
        "benchmarks",
        backend=backend,
        kernel="p-stable",
        bandwidth=table.bandwidth,
        bounds=(low, high),
        rows=rows,
        width=width,
        epsilon=epsilon,
        delta=delta,
        expected_size=GUESS,
        seed=seed,
    )
    made = make(setting)
    if strata != "stratified":
        made = type(made)(**{**made.parameters, "strata": strata})
    return made


def errors(result, true):
    """Mean and median relative error and mean absolute error of one run."""
    off = np.abs(result - true)
    return {
        "mean": float((off / true).mean()),
        "median": float(np.median(off / true)),
        "absolute": float(off.mean()),
    }


def averaged(runs):
    """The mean over runs of each figure, and how far the runs' mean relative errors spread."""
    result = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    means = [run["mean"] for run in runs]
    return {**result, "low": min(means), "high": max(means), "runs": len(runs)}


def measured(table, backend, budget, data, seeds, draws, **options):
    """Errors over hash seeds and noise draws, and the seconds of one build and one release."""
    points, queries, true = data
    runs, built, released, first, requested = [], [], [], [], []
    for seed in range(seeds):
        begin = time.perf_counter()
        made = sketch(table, backend, budget, seed, **options).update(points)
        built.append(time.perf_counter() - begin)
        for _ in range(draws if budget else 1):
            begin = time.perf_counter()
            private_release = made.release(*budget) if budget else made
            released.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            runs.append(errors(private_release.mean(queries), true))
            middle = time.perf_counter()
            private_release.mean(queries)
            first.append(middle - begin)
            requested.append((time.perf_counter() - middle) / len(queries))
    return {
        **averaged(runs),
        "backend": type(made).__name__,
        "rows": made.parameters.get("rows"),
        "bytes": made.nbytes,
        "build_seconds": float(np.median(built)),
        "release_seconds": float(np.median(released)),
        "first_seconds": float(np.median(first)),  # of all queries, with what is made only once
        "query_seconds": float(np.median(requested)),
    }
