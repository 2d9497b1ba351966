"""Chapter 5 of the thesis again: table 5.1 and figures 5.1 and 5.2, and what goes past them.

    python benchmarks/thesis_ch5.py [PART ...]    writes benchmarks/results/thesis_ch5.json

Synthetic vectors are uniform on the sphere, as the thesis' are; SIFT1M is not available,
descriptors made by SIFT's recipe from generated images stand for it.
"""

import sys

import numpy as np
from _measure import write_parts
from _ratings import spread
from _table51 import rows as one_frame
from _vectors import exact, sift_like, unit
from threadpoolctl import threadpool_limits

from sfumato.retrieve import (
    BinaryIndex,
    anti_sparse,
    learned,
    optimal,
    project_and_sign,
    qolsh,
    tight_frame,
)

FRAMES = range(5)
THESIS = {
    "LSH": (0.434, 11.39, 0.12),
    "LSH+frame": (0.207, 12.47, 0.12),
    "anti-sparse": (0.142, 14.23, 1307.40),
    "optimal": (0.075, 15.75, 324.40),
    "qoLSH": (0.107, 15.43, 3.89),
}
RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
SHORTLIST = 1_000


def table_5_1(count=1_000_000):
    """MSE = 2 - 2 cos, entropy and microseconds a vector: d = 8, L = 16, over five frames."""
    runs = {name: [] for name in THESIS}
    for seed in FRAMES:
        for row in one_frame(seed, count):
            runs[row["method"]].append(row)
            print(seed, row, flush=True)
    return [
        {
            "method": name,
            **{key: spread([run[key] for run in found]) for key in ("mse", "entropy")},
            "microseconds": spread([run["microseconds"] for run in found]),
            "thesis": dict(zip(("mse", "entropy", "microseconds"), THESIS[name], strict=True)),
        }
        for name, found in runs.items()
    ]


def pairs(cosine, count, dimension, draws):
    """Unit vectors x, y at this cosine."""
    x = unit(draws.normal(size=(count, dimension)))
    z = draws.normal(size=(count, dimension))
    z = unit(z - (z * x).sum(axis=1, keepdims=True) * x)
    return x, np.float32(cosine) * x + np.float32(np.sqrt(1 - cosine**2)) * z


def figure_5_1(count=20_000, dimension=128, bits=256):
    """Mean, 5 % and 95 % quantiles of estimated less true cosine, against the true one."""
    draws = np.random.default_rng(0)
    kinds = {
        "LSH": project_and_sign(bits=bits),
        "LSH+frame": tight_frame(bits=bits),
        "qoLSH": qolsh(bits=bits, flips=10),
        "qoLSH, all flips": qolsh(bits=bits, flips=bits),
        "qoLSH, all flips, unbiased factor": qolsh(bits=bits, flips=bits, factor="unbiased"),
    }
    curves = {name: [] for name in kinds}
    for cosine in np.linspace(-0.95, 0.95, 39):
        x, y = pairs(cosine, count, dimension, draws)
        for name, encoder in kinds.items():
            codes = encoder.fit(x).encode(x)
            off = (encoder.reconstruct(codes) * y).sum(axis=1) - cosine
            low, high = np.quantile(off, (0.05, 0.95))
            result = {"cosine": cosine, "mean": off.mean(), "low": low, "high": high}
            curves[name].append({key: float(value) for key, value in result.items()})
    return curves


def curve(index, queries, truth, **options):
    """Recall@R: the share of queries whose nearest neighbour is among the first R found."""
    _, found = index.search(queries, SHORTLIST, shortlist=SHORTLIST, **options)
    hit = found == truth[:, :1]
    first = np.where(hit.any(axis=1), hit.argmax(axis=1), SHORTLIST)
    return [float((first < rank).mean()) for rank in RANKS]


def searched(base, queries, truth, encoder, **options):
    index = BinaryIndex(bits=encoder.bits, encoder=encoder)
    index.add(np.arange(len(base)), base)
    return curve(index, queries, truth, **options)


TWO_STAGES = dict(scan="hamming", rerank="asymmetric")
ONE_SCAN = dict(scan="asymmetric", rerank="asymmetric")


def synthetic(count=1_000_000, target=10_000, dimension=8, bits=16):
    """The top of figure 5.2: vectors on the sphere, d = 8, L = 16, M = 5."""
    draws = np.random.default_rng(5)
    base, queries = (unit(draws.normal(size=(n, dimension))) for n in (count, target))
    truth = exact(base, queries)
    kinds = {
        "LSH": project_and_sign(bits=bits),
        "LSH+frame": tight_frame(bits=bits),
        "anti-sparse": anti_sparse(bits=bits),
        "optimal": optimal(bits=bits),
        "qoLSH": qolsh(bits=bits, flips=5),
    }
    curves = {}
    for name, encoder in kinds.items():
        curves[name] = searched(base, queries, truth, encoder, **TWO_STAGES)
        print(name, curves[name], flush=True)
    return curves


def descriptors():
    """The bottom of figure 5.2: SIFT-like descriptors, d = 128, L = 256, M = 10; and past it."""
    data = sift_like()
    queries, truth = data.reported
    kinds = {
        "LSH": (project_and_sign(bits=256), TWO_STAGES),
        "LSH+frame": (tight_frame(bits=256), TWO_STAGES),
        "qoLSH": (qolsh(bits=256, flips=10), TWO_STAGES),
        "qoLSH, sign bits for the short-list": (
            qolsh(bits=256, flips=256, center=True, factor="nearest", short=True),
            TWO_STAGES,
        ),
        "learned, scanned asymmetrically": (learned(bits=256), ONE_SCAN),
    }
    curves = {}
    for name, (encoder, options) in kinds.items():
        curves[name] = searched(data.base, queries, truth, encoder, **options)
        print(name, curves[name], flush=True)
    return {"data": data.label, "queries": len(queries), "curves": curves}


def figure_5_2():
    return {"ranks": RANKS, "synthetic": synthetic(), "descriptors": descriptors()}


PARTS = {"table_5_1": table_5_1, "figure_5_1": figure_5_1, "figure_5_2": figure_5_2}

if __name__ == "__main__":
    threadpool_limits(1)
    write_parts("thesis_ch5", PARTS, sys.argv[1:])
