"""Private kernel means, classes, numbers and anomalies from sketches, beside peers and baselines.

    python benchmarks/density.py [skin] [functions] [classes] [numbers] [anomalies] [graph] [map]
        writes benchmarks/results/density.json, all parts unless some are named

Bounds and bandwidths are in _density_data.py, fixed before any run. Relative errors are those of
the kernel mean at held-out points, against brute force; `constant` is the best constant of all,
which looks at the truth. Baselines and diffprivlib take their noise in floats.
"""

import sys
import time

import numpy as np
from _anomalies import anomalies
from _density_data import Kernel, ages, cover, magic, skin, wages
from _function_release import METHODS, Task
from _graph import graph
from _kernel_means import averaged, errors, measured, sketch, truth
from _measure import write_parts
from _supervised import classes, numbers

QUERIES, SEEDS, DRAWS = 2_000, 10, 10
SPLIT = 2026  # a draw of queries that no choice was made on
BUDGETS = ((1.0, 0.0), (0.1, 0.0), (0.1, 1e-6), (1.0, 1e-6), None)
SWEEP = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SLOW = ("auto", "slices")  # what they make for the first answer takes seconds: one draw a hash
ASKED = {(1.0, 0.0): 0.013, (0.1, 0.0): 0.04, (0.1, 1e-6): 0.016}
WAYS = {
    "auto": dict(backend="auto"),
    "slices": dict(backend="slices"),
    "Fourier": dict(backend="fourier"),
    "RACE, stratified": dict(backend="race"),
    "RACE, stratified, R = 1024": dict(backend="race", rows=1024),
    "RACE of the paper, R = 1024": dict(backend="race", rows=1024, strata="independent"),
}


def result(budget):
    return "none" if budget is None else f"{budget[0]:g}" + (f", {budget[1]:g}" * bool(budget[1]))


def shown(row):
    print(
        f"{row['table']:<8}{row['name']:<32}{row['budget']:<12}mean {100 * row['mean']:7.2f} %  "
        f"median {100 * row['median']:7.2f} %  MAE {row['absolute']:.2e}",
        flush=True,
    )
    return row


def constant(true):
    """The constant of the least mean relative error, found by looking."""
    return min((errors(np.full_like(true, c), true) for c in true), key=lambda run: run["mean"])


def skin_errors():
    """The target figures: skin, ten hashes, ten draws of noise (of each, or of all, by SLOW)."""
    table = skin()
    data = _held(table)
    flat = {**constant(data[2]), "runs": 1}
    rows = [shown(dict(table="skin", name="constant", budget="none", **flat))]
    for budget in BUDGETS:
        for name, options in WAYS.items():
            draws = 1 if name in SLOW else DRAWS
            found = measured(table, budget=budget, data=data, seeds=SEEDS, draws=draws, **options)
            row = dict(table="skin", name=name, budget=result(budget), target=ASKED.get(budget))
            rows.append(shown({**row, **found}))
    return {"points": len(data[0]), "queries": QUERIES, "rows": rows}


def functions():
    """Figure 3 of the paper: every way to release a function, over epsilon."""
    rows = []
    for table in (ages(), wages(), skin(), magic(), cover()):
        data = _held(table)
        rows.append(
            shown(dict(table=table.name, name="constant", budget="none", **constant(data[2])))
        )
        rows += [row for epsilon in SWEEP for row in _ours(table, data, epsilon)]
        if table.points.shape[1] <= 3:
            rows += _baselines(table, data)
    return {"rows": rows}


def _held(table):
    points, queries = table.held_out(QUERIES, SPLIT)
    return points, queries, truth(table, points, queries)


def _ours(table, data, epsilon):
    for delta in (0.0, 1e-6):
        for name in ("auto", "RACE of the paper, R = 1024"):
            found = measured(
                table, budget=(epsilon, delta), data=data, seeds=2, draws=1, **WAYS[name]
            )
            row = dict(table=table.name, name=name, budget=result((epsilon, delta)))
            yield shown({**row, "epsilon": epsilon, "delta": delta, **found})


def _baselines(table, data):
    inside = table.in_unit_box(data[0])
    for name, method in METHODS.items():
        if name == "MWEM" and inside.shape[1] > 2:
            continue
        memo = {}  # of each method its own, so that the first run has the time of all its work
        for epsilon in (1.0, 0.1, 5.0):
            yield _baseline(table, data, inside, name, method, epsilon, memo)


def _baseline(table, data, inside, name, method, epsilon, memo):
    _, queries, true = data
    requested, kernel = table.in_unit_box(queries), Kernel(table.bandwidth / table.span)
    runs, seconds = [], []
    for seed in range(2):
        begin = time.perf_counter()
        rng = np.random.default_rng(seed)
        answer = method(Task(inside, kernel, epsilon, 1e-6, rng, memo))
        middle = time.perf_counter()
        runs.append(errors(answer(requested), true))
        seconds.append((middle - begin, (time.perf_counter() - middle) / len(requested)))
    built, query = np.max(seconds, axis=0)
    spent = dict(build_seconds=float(built), query_seconds=float(query))
    needs = 1e-6 if name in ("PFDA", "kernel mean embedding") else 0.0
    row = dict(table=table.name, name=name, budget=result((epsilon, needs)))
    return shown({**row, "epsilon": epsilon, "delta": needs, **averaged(runs), **spent})


def map_values():
    """Figure 2 of the paper: two dimensions, without and with noise, on a square of places."""
    from _density_data import Table

    draws = np.random.default_rng(0)
    centres, spread = np.array([[30, 30], [70, 60], [30, 75]]), np.array([6, 9, 4])
    which = draws.choice(3, 20_000, p=(0.4, 0.4, 0.2))
    points = centres[which] + draws.normal(size=(20_000, 2)) * spread[which, None]
    table = Table("mixture", points, (0, 100), 10.0)
    ticks = np.linspace(0.5, 99.5, 64)
    places = np.stack(np.meshgrid(ticks, ticks), -1).reshape(-1, 2)
    pictures = {"truth": truth(table, points, places)}
    ways = (("race", "independent"), ("race", "stratified"), ("grid", "stratified"))
    for backend, strata in ways:
        for budget in (None, (0.1, 0.0)):
            rows = 200 if backend == "race" else None
            made = sketch(table, backend, budget, 0, rows=rows, strata=strata).update(points)
            predicted_by = made if budget is None else made.release(*budget)
            pictures[f"{backend}, {strata}, {result(budget)}"] = predicted_by.mean(places)
    return {name: _lines(values.reshape(64, 64)) for name, values in pictures.items()}


def _lines(values):
    """A picture as lines of numbers, which take less room than lists."""
    return [" ".join(f"{value:.5f}" for value in row) for row in values]


PARTS = {
    "skin": skin_errors,
    "functions": functions,
    "classes": classes,
    "numbers": numbers,
    "anomalies": anomalies,
    "graph": graph,
    "map": map_values,
}

if __name__ == "__main__":
    write_parts("density", PARTS, sys.argv[1:])
