"""Factors as binary codes: learned as bits, or real ones coded afterwards, beside real factors.

    python benchmarks/binary_factors.py [lists] [ratings] [scan]
        writes benchmarks/results/binary_factors.json, all parts unless some are named

Random 80/10/10 splits, seeds 0 to 2; settings are chosen on each split's own validation part, at 64
bits, lists by NDCG and ratings by RMSE, and test is read once. NDCG@10 and recall@10 are over all
items that a user did not rate in train or validation, for test ratings of 4 and 5; `own` is NDCG@10
among the user's own test items. Equal distances are put in a random order of items. RMSE is after a
line through the validation part. Bytes are of a user and of an item, ids not counted.
Real ratings where the folder is there (SFUMATO_DATA), else a generated world of the same shape.
"""

import sys
import time
from functools import partial

import numpy as np
from _coded import afterwards, bytes_of, evened, framed, turned
from _discrete import REAL, SIGN, Task, learn, signs
from _measure import write_parts
from _rated import Split
from _ratings import shaped_as_movielens, spread

from sfumato.kernels.retrieve.hamming_scan import hamming_nearest
from sfumato.recommend import DenseFactorization
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.ranking import CatalogueVectors
from sfumato.retrieve.binary.store import Panels

SEEDS = range(3)
BITS = (32, 64, 128)
MIDDLE = 64  # bits at which settings are chosen
ROUNDS = 8
FEW = 4  # rounds of a trial
# Weight of all pairs and ridge; for bits, in shares of their number, also the values of what was
# liked and of the rest and how strongly bits are balanced; stars that all bits together stand for.
GRIDS = {
    "real lists": [
        dict(unseen=0.3, ridge=10),
        dict(unseen=0.5, ridge=15),
        dict(unseen=1.0, ridge=25),
    ],
    "lists": [
        dict(unseen=0.1, high=0.5, low=-0.2),
        dict(unseen=0.1, high=0.5, low=-0.3),
        dict(unseen=0.1, high=0.6, low=-0.1),
        dict(unseen=0.2, high=0.5, low=-0.1),
        dict(unseen=0.1, high=0.5, low=-0.2, balance=5),
    ],
    "half lists": [
        dict(unseen=0.1, ridge=1),
        dict(unseen=0.2, ridge=1),
        dict(unseen=0.3, ridge=1),
        dict(unseen=0.3, ridge=2),
    ],
    "real ratings": [dict(regularization=each) for each in (0.04, 0.05, 0.06)],
    "ratings": [dict(reach=each) for each in (0.7, 1, 2, 4)],
    "half ratings": [dict(ridge=each) for each in (8, 16, 32)],
}


class Table:
    """Figures by name and bits, one for each seed, printed and kept as means and runs."""

    def __init__(self):
        self.rows = {}

    def add(self, name, bits, size, figures, settings=None, values=None):
        row = self.rows.setdefault((name, bits), {"name": name, "bits": bits, "bytes": size})
        if values is not None:
            figures = {**figures, "objective": values[-1] / values[0]}
        for each, value in figures.items():
            row.setdefault(each, []).append(value)
        if settings is not None:
            row.setdefault("chosen", []).append(settings)
        result = " ".join(f"{each} {value:.4f}" for each, value in figures.items())
        print(f"{name:<40}{bits or '':>5}{size!s:>12}  {result}  {settings or ''}", flush=True)

    def done(self):
        for row in self.rows.values():
            plain = ("name", "bits", "bytes", "chosen")
            row.update({each: spread(runs) for each, runs in row.items() if each not in plain})
        return list(self.rows.values())


def _over_seeds(work):
    name, data = shaped_as_movielens()
    table = Table()
    for seed in SEEDS:
        work(Split.of(data, seed), table)
    return {"data": name, "rounds": ROUNDS, "rows": table.done()}


def lists():
    """Lists of ten from what was liked; every other pair counts too, for little."""
    return _over_seeds(_lists)


def _lists(split, table):
    liked = np.bincount(split.train.liked()[1], minlength=split.shape[1])
    none = np.zeros((split.shape[0], 1)), np.zeros((split.shape[1], 1))
    table.add("popularity", None, (0, 4), split.lists(*none, liked, test=True))
    real = _best_lists(split, "real lists", _real_lists)
    code = _best_lists(split, "lists", _code_lists, real=real)
    half = _best_lists(split, "half lists", _half_lists, real=real)
    for bits in BITS:
        users, items, _ = _real_lists(split, bits, **real)
        narrow = _real_lists(split, BITS[0], **real)[:2]
        size = bytes_of(bits, "real", "real")
        table.add("real factors", bits, size, split.lists(users, items, test=True), real)
        for name, size, *coded in (
            *afterwards(users, items, _turned(split, users, items), bits),
            *evened(users, items, bits),
            *framed(*narrow, bits, split.seed),
        ):
            table.add(name, bits, size, split.lists(*coded, test=True))
        for name, make, settings, size in (
            ("learned bits, Hamming", _code_lists, code, bytes_of(bits)),
            ("learned bits, real user", _half_lists, half, bytes_of(bits, "real")),
        ):
            *learned, values = make(split, bits, real, **settings)
            table.add(name, bits, size, split.lists(*learned, test=True), settings, values)


def _best_lists(split, grid, make, **more):
    def quality(settings):
        factors = make(split, MIDDLE, **more, **settings, rounds=FEW)[:2]
        return split.lists(*factors, test=False)["ndcg"]

    return max(GRIDS[grid], key=quality)


def _liked(split, unseen, high=1.0, low=0.0):
    users, items = split.train.liked()
    return Task.of(users, items, np.full(users.size, high), split.shape, unseen, low)


def _real_lists(split, width, unseen, ridge, rounds=ROUNDS):
    def make():
        random = np.random.default_rng(split.seed)
        start = [0.1 * random.standard_normal((count, width)) for count in split.shape]
        return learn(_liked(split, unseen), *start, (REAL, REAL), rounds=rounds, ridge=ridge)

    return split.once(("real", width, unseen, ridge, rounds), make)


def _turned(split, users, items):
    # The split keeps these factors too, so that no other array takes their place in memory.
    return split.once(("turned", id(items)), lambda: turned(users, items, items.shape[1]))


def _start(split, users, items):
    """Where bits begin: the signs of real factors along the directions that suit them best."""
    return [signs(each) for each in _turned(split, users, items)]


def _code_lists(split, bits, real, unseen, high, low, balance=0.0, rounds=ROUNDS):
    start = _start(split, *_real_lists(split, bits, **real)[:2])
    task = _liked(split, unseen, high * bits, low * bits)
    return learn(task, *start, (SIGN, SIGN), rounds=rounds, balance=balance * bits)


def _half_lists(split, bits, real, unseen, ridge, rounds=ROUNDS):
    users, items = _start(split, *_real_lists(split, bits, **real)[:2])
    task = _liked(split, unseen)
    return learn(task, 0 * users, items, (REAL, SIGN), rounds=rounds, ridge=ridge * bits)


def ratings():
    """Ratings in stars: only rated pairs count; biases stay real, except where a row has none."""
    return _over_seeds(_ratings)


def _ratings(split, table):
    means = DampedMeans().fit(split.train_set)
    base = means.predict(split.user_ids, np.full(split.shape[0], -1)), np.zeros(split.shape[1])
    base[1][np.searchsorted(split.item_ids, means.item_ids_)] = means.item_means_
    none = np.zeros((split.shape[0], 1)), np.zeros((split.shape[1], 1))
    table.add("means of users and items", None, (4, 4), split.rated(*none, base))
    rate = min(
        GRIDS["real ratings"], key=lambda each: split.line(*_dense(split, MIDDLE, **each))[2]
    )
    best = {
        make: min(grid, key=lambda each, m=make: _error(split, m, rate, each))
        for make, grid in (
            (_plain_ratings, GRIDS["ratings"]),
            (_code_ratings, GRIDS["ratings"]),
            (_half_ratings, GRIDS["half ratings"]),
        )
    }
    for bits in BITS:
        users, items, biases = _dense(split, bits, **rate)
        size = bytes_of(bits, "real", "real", more_user=4, more_item=4)
        table.add("real factors", bits, size, split.rated(users, items, biases), rate)
        along = _turned(split, users, items)
        for name, size, *coded in afterwards(users, items, along, bits, (4, 4)):
            table.add(name, bits, size, split.rated(*coded, biases))
        more = dict(more_user=4, more_item=4)
        for name, make, size in (
            ("learned bits, Hamming, no biases", _plain_ratings, bytes_of(bits)),
            ("learned bits, Hamming", _code_ratings, bytes_of(bits, **more)),
            ("learned bits, real user", _half_ratings, bytes_of(bits, "real", **more)),
        ):
            *learned, biases, values = make(split, bits, rate, **best[make])
            figures = split.rated(*learned, biases)
            table.add(name, bits, size, figures, best[make], values)


def _error(split, make, rate, settings):
    return split.line(*make(split, MIDDLE, rate, **settings, rounds=FEW)[:3])[2]


def _dense(split, bits, regularization):
    """Components of users and of items, and their biases, of a DenseFactorization, in stars."""

    def make():
        options = dict(factors=bits + 1, regularization=regularization, random_state=split.seed)
        model = DenseFactorization(**options).fit(split.train_set)
        users, items = model._user_vectors(split.user_ids), model._item_vectors(split.item_ids)
        biases = model.mean_ + users[:, -1], items[:, -1]
        return users[:, :-1].copy(), items[:, :-1].copy(), biases

    return split.once(("dense", bits, regularization), make)


def _rest(split, biases):
    part = split.train
    return part.ratings - biases[0][part.users] - biases[1][part.items]


def _bits_of_ratings(split, bits, rate, biases, reach, rounds):
    part, start = split.train, _start(split, *_dense(split, bits, **rate)[:2])
    targets = _rest(split, biases) * (bits / reach)
    task = Task.of(part.users, part.items, targets, split.shape)
    users, items, values = learn(task, *start, (SIGN, SIGN), rounds=rounds)
    return users, items, biases, values


def _plain_ratings(split, bits, rate, reach, rounds=ROUNDS):
    middle = np.full(split.shape[0], split.train.ratings.mean()), np.zeros(split.shape[1])
    return _bits_of_ratings(split, bits, rate, middle, reach, rounds)


def _code_ratings(split, bits, rate, reach, rounds=ROUNDS):
    return _bits_of_ratings(split, bits, rate, _dense(split, bits, **rate)[2], reach, rounds)


def _half_ratings(split, bits, rate, ridge, rounds=ROUNDS):
    part, biases = split.train, _dense(split, bits, **rate)[2]
    users, items = _start(split, *_dense(split, bits, **rate)[:2])
    task = Task.of(part.users, part.items, _rest(split, biases), split.shape)
    users, items, values = learn(
        task, 0 * users, items, (REAL, SIGN), rounds=rounds, ridge=ridge * bits
    )
    return users, items, biases, values


def scan(count=1 << 18, queries=64, runs=5):
    """Milliseconds a query for the ten best of 2**18 items: by distances, and by real products."""
    random, rows = np.random.default_rng(0), []
    for bits in BITS:
        words = -(-bits // 64)  # codes of 32 bits fill half a word
        codes, requested = (
            random.integers(0, 2**63, (n, words), np.uint64) for n in (count, queries)
        )
        panels = Panels(words).append(codes)
        shelf = CatalogueVectors.of(random.standard_normal((count, bits), np.float32))
        vectors = random.standard_normal((queries, bits), np.float32)
        row = {"bits": bits, "bytes": {"codes": 8 * words, "real": 4 * bits}}
        for name, work in (
            ("hamming_ms", partial(hamming_nearest, panels.blocks, count, None, requested, 10)),
            ("real_ms", partial(shelf.best, vectors, 10)),
        ):
            work()
            row[name] = min(_seconds(work) for _ in range(runs)) / queries * 1e3
        rows.append({**row, "ratio": row["real_ms"] / row["hamming_ms"]})
        print(rows[-1], flush=True)
    return {"items": count, "queries": queries, "rows": rows}


def _seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    parts = {"lists": lists, "ratings": ratings, "scan": scan}
    write_parts("binary_factors", parts, sys.argv[1:])
