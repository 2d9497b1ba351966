"""Factorization in a count sketch: error and speed beside a peer and a trivial baseline.

    python benchmarks/factorization.py [errors] [speed]
        writes benchmarks/results/factorization.json, both parts unless one is named

Errors: random 80/10/10 splits, five seeds, each tuned on its own validation part only, test read
once. Speed: one process, one thread, warm, rounds of us and cornac in turn, the shuffle included.
Real ratings where the folder is there (SFUMATO_DATA), else a generated world of the same shape.
"""

import statistics
import sys
import time
from functools import partial

import numpy as np
from _measure import write_parts
from _ratings import SEEDS, rmse, shaped_as_movielens, spread
from numba import njit

from sfumato.recommend import DenseFactorization, SketchFactorization
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.tuning import tune

MODELS = {
    "dense": (0.859, lambda **options: DenseFactorization(**options)),
    "sketch, depth 4, gain 1": (0.862, lambda **options: SketchFactorization(depth=4, **options)),
    "hashing, depth 1, gain 1": (0.869, lambda **options: SketchFactorization(depth=1, **options)),
    "sketch, depth 4, gain 4": (
        0.886,
        lambda **options: SketchFactorization(depth=4, space_gain=4.0, **options),
    ),
}
ROUNDS = 7
ALL_READ = {  # of depth 4, all 32 numbers read, beside the first
    "block, depth 4, 32 read": {},
    "block, depth 4, 32 read, median": {"readout": "median"},
    "component, depth 4": {"layout": "component"},
    "component, depth 4, median": {"layout": "component", "readout": "median"},
}
SPANS = dict.fromkeys(list(ALL_READ)[2:], (1, 3))  # epochs of a short and a long fit; slow ones


def errors():
    """Test RMSE of every model, tuned and with its defaults, beside means only and cornac."""
    name, data = shaped_as_movielens()
    splits = [data.split(0.8, 0.1, 0.1, random_state=seed) for seed in SEEDS]
    means = [rmse(DampedMeans().fit(train), test) for train, _, test in splits]
    rows = [{"name": "means only (baseline)", "tuned": spread(means)}]
    for label, (target, make) in MODELS.items():
        tuned, default, chosen = [], [], []
        for train, valid, test in splits:
            default.append(rmse(make().fit(train), test))
            best = tune(make(), train, valid)
            chosen.append(best.parameters)
            tuned.append(rmse(make(**best.parameters).fit(train), test))
        row = {"name": label, "target": target, "tuned": spread(tuned), "default": spread(default)}
        rows.append({**row, "chosen": chosen, "nbytes": make(epochs=1).fit(train).nbytes})
        print(label, rows[-1]["tuned"]["mean"], rows[-1]["default"]["mean"], flush=True)
    rows.append({"name": "cornac MF", "tuned": spread([_cornac_error(*split) for split in splits])})
    return {"data": name, "rows": rows}


def _cornac_error(train, valid, test):
    """cornac's factorization, its rate and regularization chosen on the validation part."""
    fits = [
        _cornac(train, 20, rate, weight) for rate in (0.005, 0.01, 0.02) for weight in (0.02, 0.05)
    ]
    best = min(fits, key=lambda fit: _cornac_rmse(fit, valid))
    return _cornac_rmse(best, test)


def _cornac_set(train):
    from cornac.data import Dataset

    return Dataset.from_uir(zip(train.users, train.items, train.ratings, strict=True), seed=1)


def _cornac(train, epochs, rate=0.01, weight=0.02, prepared=None):
    from cornac.models import MF

    model = MF(
        k=32,
        max_iter=epochs,
        learning_rate=rate,
        lambda_reg=weight,
        use_bias=True,
        early_stop=False,
        num_threads=1,
        seed=1,
    )
    return model.fit(prepared if prepared is not None else _cornac_set(train))


def _cornac_rmse(model, test):
    users = np.array([model.uid_map.get(each, -1) for each in test.users])
    items = np.array([model.iid_map.get(each, -1) for each in test.items])
    known_user, known_item = users >= 0, items >= 0
    score = np.full(len(test), model.global_mean, float)
    score[known_user] += model.u_biases[users[known_user]]
    score[known_item] += model.i_biases[items[known_item]]
    both = known_user & known_item
    score[both] += np.einsum("ij,ij->i", model.u_factors[users[both]], model.i_factors[items[both]])
    return float(np.sqrt(np.mean((np.clip(score, 1, 5) - test.ratings) ** 2)))


def _seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _epoch(fit, short=2, long=12):
    """Seconds of one epoch: the difference of a long and a short fit, so that setup cancels."""
    return (_seconds(lambda: fit(long)) - _seconds(lambda: fit(short))) / (long - short)


def speed():
    """Seconds an epoch, as a ratio to cornac's measured right beside it."""
    name, data = shaped_as_movielens()
    train = data.split(0.8, 0.1, 0.1, random_state=0)[0]
    prepared = _cornac_set(train)
    cases = {
        "dense": (0.7, lambda n: DenseFactorization(epochs=n).fit(train)),
        "block, depth 1": (0.9, lambda n: SketchFactorization(depth=1, epochs=n).fit(train)),
        "block, depth 2": (1.5, lambda n: SketchFactorization(depth=2, epochs=n).fit(train)),
        "block, depth 4": (3.0, lambda n: SketchFactorization(depth=4, epochs=n).fit(train)),
        "block, depth 4, 2 threads": (
            None,
            lambda n: SketchFactorization(depth=4, epochs=n, threads=2).fit(train),
        ),
    }
    for label, options in ALL_READ.items():
        cases[label] = None, partial(_fitted, train, options)
    rows = []
    for label, (target, fit) in cases.items():
        fit(1)
        pairs = [
            (
                _epoch(fit, *SPANS.get(label, ())),
                _epoch(lambda n: _cornac(train, n, prepared=prepared)),
            )
            for _ in range(ROUNDS)
        ]
        ratios = [ours / theirs for ours, theirs in pairs]
        milliseconds = statistics.median(ours for ours, _ in pairs) * 1e3
        rows.append(
            {
                "name": label,
                "target": target,
                "ratio": {**spread(ratios), "median": statistics.median(ratios)},
                "ms": milliseconds,
                "cornac_ms": statistics.median(theirs for _, theirs in pairs) * 1e3,
                "ns_a_rating": milliseconds * 1e6 / len(train),
            }
        )
        print(rows[-1], flush=True)
    block = next(row["ms"] for row in rows if row["name"] == next(iter(ALL_READ)))
    for row in rows:
        if row["name"] in ALL_READ:
            row["block_ratio"] = row["ms"] / block
            print(f"{row['name']}: {row['block_ratio']:.2f} times the block kernel")
    bare = _bare_cells(train)
    print(
        f"cells of a component layout, read and changed without any model: {bare:.0f} ns a rating"
    )
    return {"data": name, "ratings": len(train), "rows": rows, "bare_cells_ns": bare}


@njit(error_model="numpy")
def _touch(table, places, keys, hashes, width):
    """Read the cells of each hash in every row, then add to them: what no layout can leave out."""
    read = np.float32(0.0)
    for i in range(hashes.size):
        for r in range(keys.shape[0]):
            for b in range(keys.shape[1]):
                slot = ((hashes[i] * keys[r, b]) >> np.uint64(32)) * width >> np.uint64(32)
                places[r * keys.shape[1] + b] = np.uint64(r) * width + slot
        for k in range(places.size):
            read += table[places[k]]
        for k in range(places.size):
            table[places[k]] += np.float32(1.0)
    return read


def _bare_cells(train):
    """Nanoseconds a rating for the reads and writes of 32 hashed numbers in 4 rows, twice."""
    draw = np.random.default_rng(0).integers
    width = np.uint64(32 * (np.unique(train.users).size + np.unique(train.items).size) // 4)
    keys = draw(0, 2**63, (4, 32)).astype(np.uint64) | np.uint64(1)
    table, places = np.zeros(4 * int(width), np.float32), np.empty(keys.size, np.uint64)
    hashes = draw(0, 2**63, 200_000).astype(np.uint64)
    _touch(table, places, keys, hashes[:10], width)
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _touch(table, places, keys, hashes, width)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) / (hashes.size / 2) * 1e9  # a rating is a user and an item


def _fitted(train, options, epochs):
    return SketchFactorization(depth=4, active=32, epochs=epochs, **options).fit(train)


if __name__ == "__main__":
    write_parts("factorization", {"errors": errors, "speed": speed}, sys.argv[1:])
