"""Decompositions beside ARPACK, scikit-learn and diffprivlib, on one thread, in CPU seconds.

    python benchmarks/decompose.py [svd] [table] [directions] [private]
        writes benchmarks/results/decompose.json, all parts unless some are named

"svd": rank 50 of rating matrices beside `scipy.sparse.linalg.svds` and scikit-learn's
`randomized_svd`, in turn in one process; ratios are of one round, their median is reported. The
default tolerance was set on MovieLens-1M; Last.fm and Book-Crossing were not tuned on. "table":
accuracy, space and time of SVD, CUR and CUR without duplicates, as on the course's slide of DBLP.
"directions": the error of FrequentDirections beside its bounds. "private": the variance that
private components capture, beside diffprivlib's PCA, public axes and random directions. The sets
are read from the folder that SFUMATO_DATA names.
"""

import gc
import os
import statistics
import sys
import time

import numpy as np
from _diffprivlib import principal_components
from _measure import write_parts
from _ratings import folder, shaped_as_movielens
from scipy.sparse.linalg import svds
from sklearn.utils.extmath import randomized_svd
from sparse_ratings import book_crossing, last_fm
from threadpoolctl import threadpool_limits

from sfumato.mine.decompose import PCA, FrequentDirections, PrivatePCA, cur, ratings_matrix, svd

RANK, DRAWN = 50, 500
ROUNDS = int(os.environ.get("SFUMATO_ROUNDS", "7"))
SEEDS = range(int(os.environ.get("SFUMATO_SEEDS", "5")))


def sets():
    """Name and matrix of each set of ratings that is there."""
    name, ratings = shaped_as_movielens()
    yield name, ratings_matrix(ratings)[0]
    for name, load in (("last.fm, logarithms", last_fm), ("book-crossing", book_crossing)):
        ratings = load(zeros=False) if load is book_crossing else load()
        if ratings is not None:
            yield name, ratings_matrix(ratings)[0]


def timed(work):
    """CPU seconds of a call, and what it returns."""
    gc.collect()
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def beside_arpack():
    """Energy and time of rank 50 beside ARPACK and randomized_svd."""
    rows = []
    for name, matrix in sets():
        works = {
            "ours": lambda m=matrix: svd(m, RANK).s,
            "arpack": lambda m=matrix: svds(m, RANK)[1],
            "randomized_svd": lambda m=matrix: randomized_svd(m, RANK, random_state=0)[1],
        }
        works["ours"]()  # compiled
        rounds = [{each: timed(work) for each, work in works.items()} for _ in range(ROUNDS)]
        squares = {each: float((found**2).sum()) for each, (_, found) in rounds[0].items()}
        seconds = {each: statistics.median(r[each][0] for r in rounds) for each in works}
        ratios = sorted(r["ours"][0] / r["arpack"][0] for r in rounds)
        rows.append(
            {
                "set": name,
                "shape": list(matrix.shape),
                "numbers": int(matrix.nnz),
                "rank": RANK,
                "energy": squares["arpack"] / float((matrix.data**2).sum()),
                "energy_below_arpack": {
                    each: 1 - squares[each] / squares["arpack"]
                    for each in ("ours", "randomized_svd")
                },
                "energy_target": 1e-3,
                "ms": {each: round(1000 * value, 1) for each, value in seconds.items()},
                "ratio_to_arpack": round(statistics.median(ratios), 3),
                "ratios": [round(each, 3) for each in ratios],
                "target": 0.5,
            }
        )
        print(rows[-1], flush=True)
    return rows


def course_table():
    """Accuracy, space and time as on the course's slide, for SVD and every way of CUR."""
    rows = []
    for name, matrix in list(sets())[:2]:
        best = svd(matrix, RANK, tolerance=1e-8)
        cur(matrix, 20, 20)  # compiled
        ways = {
            "SVD, rank 50": lambda seed, m=matrix: svd(m, RANK, random_state=seed),
            "CUR": dict(join=False),
            "CUR without duplicates": {},
            "CUR, leverage": dict(sampling="leverage"),
            "CUR, distinct": dict(selection="distinct"),
            "CUR, leverage, distinct": dict(sampling="leverage", selection="distinct"),
            "CUR, largest": dict(selection="largest"),
            "CUR without duplicates, W+": dict(u="pseudo-inverse"),
        }
        for way, options in ways.items():
            work = (
                options
                if callable(options)
                else lambda seed, o=options, m=matrix: cur(m, DRAWN, DRAWN, random_state=seed, **o)
            )
            runs = [timed(lambda seed=seed, work=work: work(seed)) for seed in SEEDS]
            errors = [parts.error() / parts.norm for _, parts in runs]
            rows.append(
                {
                    "set": name,
                    "way": way,
                    "accuracy": statistics.mean(1 - error**2 for error in errors),
                    "relative_error": statistics.mean(errors),
                    "to_best_rank_50": statistics.mean(errors) * best.norm / best.error(),
                    "largest_to_best_rank_50": max(errors) * best.norm / best.error(),
                    "space_ratio": statistics.mean(parts.entries for _, parts in runs) / matrix.nnz,
                    "ms": round(1000 * statistics.median(seconds for seconds, _ in runs), 1),
                    **({"target": 0.98} if way == "CUR without duplicates" else {}),
                }
            )
            print(rows[-1], flush=True)
    return rows


def frequent_directions():
    """The error of a streamed sketch beside what it computes and what is promised."""
    name, matrix = next(sets())
    values = svd(matrix, RANK, tolerance=1e-8)
    rows = []
    for size in (60, 100, 200):
        seconds, sketch = timed(
            lambda size=size: FrequentDirections(size, matrix.shape[1]).update(matrix)
        )
        sketched = sketch.matrix()
        vector = np.random.default_rng(0).normal(size=matrix.shape[1])
        for _ in range(300):
            vector = matrix.T @ (matrix @ vector) - sketched.T @ (sketched @ vector)
            largest = float(np.linalg.norm(vector))
            vector /= largest
        tail = values.norm**2 - np.concatenate([[0], np.cumsum(values.s**2)])
        promised = min(tail[k] / (size - k) for k in range(min(size, RANK + 1)))
        _, right = sketch.singular(RANK)
        rows.append(
            {
                "set": name,
                "size": size,
                "error": largest / values.norm**2,
                "computed_bound": sketch.error_bound() / values.norm**2,
                "promised_bound": float(promised / values.norm**2),
                "energy_of_50_directions": float(((matrix @ right.T) ** 2).sum()) / values.norm**2,
                "best_energy": values.energy,
                "seconds": round(seconds, 2),
            }
        )
        print(rows[-1], flush=True)
    return rows


def tables():
    """Name, rows and public bounds of tables; the bounds are round numbers, not the data's."""
    path = folder() / "uci-skin" / "Skin_NonSkin.txt.gz"
    if path.exists():
        yield "uci-skin", np.loadtxt(path)[:, :3], (0.0, 255.0)
    path = folder() / "adbench" / "28_pendigits.npz"
    if path.exists():
        yield "pendigits", np.load(path)["X"].astype(float), (0.0, 1.0)
    draws = np.random.default_rng(0)
    basis = np.linalg.qr(draws.normal(size=(10, 10)))[0]
    made = draws.normal(size=(50_000, 10)) * np.geomspace(1, 0.1, 10)
    yield "generated, 50,000 x 10", made @ basis, (-3.0, 3.0)


def captured(rows, components):
    """Variance along components, as a fraction of the best for as many."""
    covariance = np.cov(rows.T)
    best = np.linalg.eigvalsh(covariance)[::-1][: len(components)].sum()
    return float(np.einsum("ij,jk,ik->", components, covariance, components) / best)


def private_components():
    """Variance that private components capture, beside diffprivlib and trivial choices."""
    out = []
    for name, rows, (low, high) in tables():
        columns, n = rows.shape[1], 2 if rows.shape[1] > 2 else 1
        rows = np.clip(rows, low, high)
        draws = np.random.default_rng(0)
        random = [
            captured(rows, np.linalg.qr(draws.normal(size=(columns, n)))[0].T) for _ in range(100)
        ]
        epsilons = [0.1, 0.5, 1.0, 4.0]
        peers = [principal_components(rows, n, low, high, [e], len(SEEDS)) for e in epsilons]
        for at, epsilon in enumerate(epsilons):
            mine = {
                f"delta {delta:g}": statistics.mean(
                    captured(
                        rows,
                        PrivatePCA(n, epsilon=epsilon, delta=delta, bounds=(low, high))
                        .fit(rows)
                        .components_,
                    )
                    for _ in SEEDS
                )
                for delta in (0.0, 1e-6)
            }
            theirs = peers[at]
            if "components" in theirs:
                found = theirs["components"][0]
                theirs = statistics.mean(captured(rows, np.array(each)) for each in found)
            row = {"set": name, "rows": len(rows), "columns": columns, "components": n}
            row |= {"epsilon": epsilon, "ours": mine, "diffprivlib": theirs}
            row |= {
                "axes": captured(rows, np.eye(columns)[:n]),
                "random": statistics.mean(random),
                "not_private": captured(rows, PCA(n).fit(rows).components_),
            }
            out.append(row)
            print(out[-1], flush=True)
    return out


if __name__ == "__main__":
    parts = {
        "svd": beside_arpack,
        "table": course_table,
        "directions": frequent_directions,
        "private": private_components,
    }
    with threadpool_limits(1):
        write_parts("decompose", parts, sys.argv[1:])
