"""Recommending at scale: a Netflix-sized stream, two threads, rankings, and memory that stays.

    python benchmarks/recommending.py [stream] [threads] [ranking] [memory]
        writes benchmarks/results/recommending.json, all parts unless some are named

The stream is generated: 500,000 users and items, 100 million ratings, never in memory at once. Its
nanoseconds a rating stand beside the rate at which this machine changes random cache lines of a
table of the same size: a rating of depth k changes 4 k lines (two of the user, two of the item,
each k times).
"""

import resource
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import numba
import numpy as np
from _measure import write_parts
from _ratings import shaped_as_movielens, spread

from sfumato.data import Interactions, generate_world
from sfumato.recommend import DenseFactorization, SketchFactorization

USERS, ITEMS, ROWS, BATCH = 480_000, 20_000, 100_000_000, 1 << 20
CELLS = (USERS + ITEMS) * 32


@numba.njit(nogil=True)
def _touch(table, lines):
    for i in range(lines.size):
        at = lines[i]
        for j in range(16):
            table[at, j] += np.float32(1)


def line_seconds(cells):
    """Seconds to read, change and write one random cache line of a table of so many cells."""
    table = np.zeros((cells // 16, 16), np.float32)
    lines = np.random.default_rng(0).integers(0, len(table), 1 << 22)
    _touch(table, lines[:8])
    runs = [_seconds(lambda: _touch(table, lines)) / lines.size for _ in range(5)]
    return statistics.median(runs)


def _seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _netflix(rows, seed):
    world = generate_world(users=USERS, items=ITEMS, ratings=rows, random_state=seed)
    return world.batches(BATCH)


def stream():
    """100 million ratings of half a million entities through partial_fit, never held."""
    rows = []
    for depth in (1, 4):
        model = SketchFactorization(depth=depth, cells=CELLS, bounds=(1, 5))
        line = line_seconds(CELLS)
        learning, before = 0.0, None
        for batch in _netflix(ROWS, 0):
            learning += _seconds(partial(model.partial_fit, batch))
            before = before or _resident()
        row = {"name": f"block, depth {depth}", "ratings": ROWS, "nbytes": model.nbytes}
        row["ns_a_rating"] = learning / ROWS * 1e9
        row["lines_a_rating"], row["ns_a_line"] = 4 * depth, line * 1e9
        row["ceiling_ns"] = 4 * depth * line * 1e9
        row["grown_mib"] = (_resident() - before) / 2**20
        rows.append(row)
        print(row, flush=True)
    return rows


def threads():
    """Two threads on one table beside one, small and large."""
    _, movies = shaped_as_movielens()
    large = generate_world(users=USERS, items=ITEMS, ratings=8 * BATCH, random_state=1).interactions
    rows = []
    for name, data, cells, target in (
        ("movielens-1m", movies, None, None),
        ("half a million entities", large, CELLS, 1.6),
        ("half a million entities, 256 MiB", large, 4 * CELLS, 1.6),
    ):
        for depth in (1, 4):
            seconds = {n: _epochs(data, cells, depth, n) for n in (1, 2)}
            ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
            row = {"name": f"{name}, depth {depth}", "target": target}
            rows.append({**row, "gain": {**spread(ratios), "median": statistics.median(ratios)}})
            print(rows[-1], flush=True)
    return rows


def _epochs(data, cells, depth, count):
    """Seconds of an epoch, several times, by the difference of a longer and a shorter fit."""

    def fit(epochs):
        model = SketchFactorization(depth=depth, cells=cells, epochs=epochs, threads=count)
        return _seconds(lambda: model.fit(data))

    fit(1)
    span = 3 if len(data) > 2e6 else 30  # small data needs long fits for a difference above noise
    return [(fit(1 + span) - fit(1)) / span for _ in range(5)]


def ranking():
    """The ten best of all items, seen ones left out, users a second, beside implicit."""
    _, data = shaped_as_movielens()
    train = data.split(0.8, 0.1, 0.1, random_state=0)[0]
    users = np.unique(train.users)
    rows = []
    for name, model in (
        ("dense", DenseFactorization(epochs=2).fit(train)),
        ("sketch, depth 4", SketchFactorization(epochs=2).fit(train)),
    ):
        for retained, observed in (("", None), (", training items excluded", train)):
            model.recommend(users, 10, exclude=observed)
            runs = [
                users.size / _seconds(lambda m=model, s=observed: m.recommend(users, 10, exclude=s))
                for _ in range(9)
            ]
            target = None if retained else 30_000
            rows.append(
                {"name": name + retained, "target": target, "users_a_second": _middle(runs)}
            )
            print(rows[-1], flush=True)
    rows += [
        {"name": f"implicit{retained}", "users_a_second": runs}
        for retained, runs in _implicit(train)
    ]
    return rows


def _implicit(train):
    import scipy.sparse
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    coded = train.coded()
    places = coded.user_codes, coded.item_codes
    matrix = scipy.sparse.csr_matrix((np.ones(len(train), np.float32), places))
    model = AlternatingLeastSquares(factors=32, iterations=2, num_threads=1)
    with threadpool_limits(1, "blas"):
        model.fit(matrix, show_progress=False)
    users = np.arange(matrix.shape[0])
    for retained, filtered in (("", False), (", training items excluded", True)):
        runs = [
            users.size
            / _seconds(
                lambda f=filtered: model.recommend(users, matrix, 10, filter_already_liked_items=f)
            )
            for _ in range(9)
        ]
        print("implicit", retained, statistics.median(runs), flush=True)
        yield retained, _middle(runs)


def _middle(runs):
    return {**spread(runs), "median": statistics.median(runs)}


def memory():
    """Resident memory while ten million new users stream through partial_fit."""
    model, random = SketchFactorization(cells=1 << 22, bounds=(1, 5)), np.random.default_rng(0)
    rows, before = 1 << 20, None
    for start in range(0, 10 * rows, rows):
        users = np.arange(start, start + rows)
        items = random.integers(0, ITEMS, rows)
        model.partial_fit(Interactions(users, items, random.integers(1, 6, rows).astype(float)))
        before = before or _resident()
    grown = (_resident() - before) / 2**20
    return {"new_users": 10 * rows, "nbytes": model.nbytes, "grown_mib": grown}


if __name__ == "__main__":
    parts = {"stream": stream, "threads": threads, "ranking": ranking, "memory": memory}
    write_parts("recommending", parts, sys.argv[1:])
