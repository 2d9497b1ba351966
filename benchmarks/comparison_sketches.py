"""Errors of counts from sketches and private releases beside peers, for docs/comparison.md.

    python benchmarks/comparison_sketches.py    writes benchmarks/results/comparison_sketches.json

The measure is the mean absolute error of the count of the key of a random event, so that keys count
as often as they occur. Everything has 160 KiB: sketches of 8192 x 5 cells of 32 bits, datasketches'
count-min of half as many of 64 bits, its frequent items with 8192 counters (a key without one is
counted as 0). Trivial: the one number that is best for all keys, and one row of cells, which is
hashing; for releases that row with the noise of one row. Three seeds of hash functions and noise.

"posterior" rows are `posterior_median` of all keys; the rows above them are `estimate`, which has
the guarantees. Depth 3 for releases was chosen on generated streams (uniform, Zipf of exponents
1.05 and 1.5, geometric, lognormal, two levels) and T10I4D100K, as was everything of the posterior.
"""

import numpy as np
from _comparison import row, write_rows
from _key_streams import STREAMS

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CountMin, CountSketch

SEEDS = range(3)
WIDTH, DEPTH = 8192, 5
COMPACT = 29_120  # cells of 9 bits, with the marks
LOG_COUNTERS = 13
EPSILON = 1.0
OURS = {
    "CountMin": lambda seed: CountMin(WIDTH, DEPTH, seed=seed),
    "CountMin, compact cells": lambda seed: CountMin(COMPACT, DEPTH, seed=seed, cells="compact"),
    "CountSketch, median": lambda seed: CountSketch(WIDTH, DEPTH, seed=seed, combine="median"),
}
RELEASED = {
    "CountMin": OURS["CountMin"],
    "CountMin, depth 3": lambda seed: CountMin(WIDTH * DEPTH // 3, 3, seed=seed),
    "CountSketch, median": OURS["CountSketch, median"],
}
PLAIN = ("CountMin", "CountSketch, median")  # which have posteriors
CHOSEN = "generated streams, T10I4D100K"


def error(estimates, counts):
    """The mean absolute error, keys weighted by how often they occur."""
    return float(np.average(np.abs(np.asarray(estimates, float) - counts), weights=counts))


def built(sketch, keys, counts):
    return sketch.update(keys, counts)


def released(sketch, seed):
    sketch.heaviest = 1  # an event is one occurrence, though counts were added at once
    return sketch.release(EPSILON, source=InsecureSeededSource(seed))


def of_datasketches(seed, keys, counts, frequent):
    import datasketches as ds

    order = np.random.default_rng(seed).permutation(keys.size)
    # Its estimates of texts of few letters are 0, as measured with datasketches 5.
    texts, weights = [f"the key {key}" for key in keys.tolist()], counts.tolist()
    if frequent:
        sketch, ask = ds.frequent_strings_sketch(LOG_COUNTERS), "get_estimate"
    else:
        sketch, ask = ds.count_min_sketch(DEPTH, WIDTH // 2, seed + 1), "get_estimate"
    for at in order:
        sketch.update(texts[at], weights[at])
    return error([getattr(sketch, ask)(text) for text in texts], counts)


def peers(keys, counts):
    def runs(frequent):
        try:
            return [of_datasketches(seed, keys, counts, frequent) for seed in SEEDS]
        except ImportError as missing:
            return {"missing": str(missing)}

    return {"datasketches count-min": runs(False), "datasketches frequent items": runs(True)}


def weighted_median(counts):
    """The number of least error for all keys."""
    order = np.argsort(counts)
    at = np.searchsorted(np.cumsum(counts[order]), counts.sum() / 2)
    return counts[order][at]


def hashing(seed, keys, counts):
    return built(CountMin(WIDTH * DEPTH, 1, seed=seed), keys, counts)


def rows():
    for stream, load in STREAMS.items():
        content = load()
        if content is None:
            continue
        keys, counts = content
        constant = [error(np.full(keys.size, weighted_median(counts)), counts)] * len(SEEDS)
        hashed = [error(hashing(s, keys, counts).estimate(keys), counts) for s in SEEDS]
        others = peers(keys, counts)
        for name, make in OURS.items():
            made = [built(make(s), keys, counts) for s in SEEDS]
            trivial = {"one number": constant, "one row of cells": hashed}
            yield from _rows(name, stream, "160 KiB", made, content, others, trivial)
        noisy = [error(released(hashing(s, keys, counts), s).estimate(keys), counts) for s in SEEDS]
        none = {"OpenDP, diffprivlib": {"missing": "have no sketch of counts of keys"}}
        for name, make in RELEASED.items():
            made = [released(built(make(s), keys, counts), s) for s in SEEDS]
            trivial = {"one number": constant, "one row of noisy cells": noisy}
            yield from _rows(f"{name}, released", stream, "epsilon 1", made, content, none, trivial)


def _rows(name, stream, setting, made, content, peers, trivial):
    """The row of the estimates, and of the posterior medians of sketches that have them."""
    keys, counts = content
    plain = [error(each.estimate(keys), counts) for each in made]
    chosen = CHOSEN if "depth" in name else "nothing"
    yield _row(name, stream, setting, plain, peers, trivial, chosen)
    if name in PLAIN or name.endswith("released"):
        shrunk = [error(each.posterior_median(keys), counts) for each in made]
        yield _row(f"{name}, posterior", stream, setting, shrunk, peers, trivial, CHOSEN)


def _row(name, stream, setting, ours, peers, trivial, chosen_on):
    found = row(name, stream, "error of a count", "lower", ours, peers, trivial,
                chosen_on=chosen_on, setting=setting)  # fmt: skip
    medians = {
        each: round(figure["median"], 2)
        for group in (found["peers"], found["trivial"])
        for each, figure in group.items()
        if "median" in figure
    }
    print(f"{stream:<14}{name:<30}{found['ours']['median']:10.2f} {medians}", flush=True)
    return found


if __name__ == "__main__":
    write_rows("sketches", list(rows()))
