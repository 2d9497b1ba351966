"""Coverage and length of the intervals of keys, beside the proved bound.

    python benchmarks/key_errors.py [released]     writes benchmarks/results/key_errors.json,
        all rows, or those of releases anew

Every stream goes into sketches of several widths, in ten seeds, and into private releases. All its
keys are asked about. `coverage` is the part of them whose true count is in `interval(keys, 0.95)`,
`near` the part within 1.96 standard errors, `length` the mean length of the intervals, `bound`
`error_bound(0.95)`, `within` the part of the keys that it holds for, and `whole` the bound by the
norm of all counts, by which the error of a count sketch is mostly stated (for a count-min, that by
their sum).
"""

import functools
import json
import math
import sys

import numpy as np
from _key_streams import STREAMS
from _measure import RESULTS, write

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CountingBloomFilter, CountMin, CountSketch
from sfumato.sketch.concentration import row_miss

SEEDS = range(10)
WIDTHS = (512, 4096, 32_768)
DEPTH = 5
KINDS = {
    "CountMin": CountMin,
    "CountMin, compact": functools.partial(CountMin, cells="compact"),
    "CountMin, conservative": functools.partial(CountMin, cells="conservative"),
    "CountMin, logarithmic": functools.partial(CountMin, cells="logarithmic"),
    "CountSketch, mean": CountSketch,
    "CountSketch, median": functools.partial(CountSketch, combine="median"),
    "CountSketch, real cells": functools.partial(CountSketch, cells="real"),
}
RELEASED = ("CountMin", "CountSketch, mean", "CountSketch, median")
ORDERED = ("CountMin, conservative", "CountMin, logarithmic")  # which get one event at a time
MOST = 2_000_000  # events
MULTIPLICITY = 20  # at most, in a filter of counters that end at 255


def made(name, width, seed, keys, counts, private):
    sketch, random = KINDS[name](width, DEPTH, seed=seed), np.random.default_rng(seed)
    if name in ORDERED:
        return sketch.update(random.permutation(np.repeat(keys, counts)))
    sketch.update(keys, counts)
    if not private:
        return sketch
    # One event is one occurrence, so the sketch is released as if it got them one at a time.
    sketch.heaviest = 1
    return sketch.release(1.0, source=InsecureSeededSource(seed))


def figures(sketch, keys, counts):
    """All figures of one sketch."""
    low, high = sketch.interval(keys, 0.95)
    errors = np.abs(sketch.estimate(keys) - counts)
    found = {
        "coverage": np.mean((low <= counts) & (counts <= high)),
        "near": np.mean(errors <= 1.96 * sketch.standard_error(keys)),
        "length": np.mean(high - low),
        "error": np.mean(errors),
        "error95": np.quantile(errors, 0.95),
        "standard_error": sketch.standard_error(),
    }
    if isinstance(sketch, CountingBloomFilter) or getattr(sketch, "cells", "") == "logarithmic":
        return found
    bound = sketch.error_bound(0.95)
    return {**found, "bound": bound, "within": np.mean(errors <= bound)}


def stated(name, width, counts):
    """The bound at 95 % by the sum or the norm of all counts."""
    if name.startswith("CountMin"):
        span = 8 if "compact" in name else 1
        return float(span * counts.sum() / width * 0.05 ** (-1 / DEPTH))
    row = DEPTH * 0.05 if "median" not in name else row_miss(DEPTH, 0.05)
    return float(math.sqrt((counts.astype(float) ** 2).sum() / (width * row)))


def row(stream, name, width, make, keys, counts, private=False):
    runs = [figures(make(seed), keys, counts) for seed in SEEDS]
    found = {each: float(np.mean([run[each] for run in runs])) for each in runs[0]}
    covered = [float(run["coverage"]) for run in runs]
    found |= {"lowest": min(covered), "highest": max(covered)}
    result = {"stream": stream, "sketch": name, "private": private, "width": width, **found}
    shown = " ".join(f"{key} {value:.4g}" for key, value in found.items())
    print(f"{stream:<14}{name:<24}{'private' if private else '':<8}{width:>7} {shown}", flush=True)
    return result


def rows(only_released):
    for stream, load in STREAMS.items():
        content = load()
        if content is None:
            continue
        keys, counts = content
        for name in KINDS:
            if name in ORDERED and counts.sum() > MOST:
                continue
            for width in WIDTHS:
                for private in variants(name, only_released):
                    make = functools.partial(
                        made, name, width, keys=keys, counts=counts, private=private
                    )
                    found = row(stream, name, width, lambda s, m=make: m(seed=s), keys, counts,
                                private)  # fmt: skip
                    yield {**found, "whole": stated(name, width, counts)}
        if only_released:
            continue
        few = np.minimum(counts, MULTIPLICITY)
        cells = 4 * keys.size
        added = np.repeat(keys, few)
        yield row(
            stream, "CountingBloomFilter", cells,
            lambda s, a=added, c=cells: CountingBloomFilter(c, 3, seed=s).update(a),
            keys, few,
        )  # fmt: skip


def variants(name, only_released):
    """Whether the sketch is released, for each of its rows to measure."""
    return (() if only_released else (False,)) + ((True,) if name in RELEASED else ())


def merged(new):
    """The rows of the last run with these in their places."""
    last = json.loads((RESULTS / "key_errors.json").read_text())["rows"]
    found = {place(each): each for each in new}
    return [found.pop(place(each), each) for each in last] + list(found.values())


def place(row):
    return row["stream"], row["sketch"], row["private"], row["width"]


if __name__ == "__main__":
    only = sys.argv[1:] == ["released"]
    measured = list(rows(only))
    write(
        "key_errors",
        {
            "depth": DEPTH,
            "confidence": 0.95,
            "seeds": len(SEEDS),
            "rows": merged(measured) if only else measured,
        },
    )
