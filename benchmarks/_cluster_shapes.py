"""CURE and hierarchical clustering beside scikit-learn and SciPy, one thread, one process.

    python benchmarks/_cluster_shapes.py [small] [SECTION ...] [FOLDER]
                                         writes benchmarks/results/cluster_shapes.json

Sections: shapes (adjusted Rand of circles, moons, noise and a small cluster beside a large one, ten
seeds, and digits, on which nothing was chosen), hierarchical (CPU time of full trees of 2,000 and
5,000 points), assign (CPU time of a million points). With a folder of real sets: pendigits, whose
classes are only normal and rare. Times are of CPU, peers and ours in turn, medians: the machine is
shared. "small" measures less, to see that all of it runs. `benchmarks/cluster.py` calls `run`.
"""

import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from _measure import write
from scipy.cluster.hierarchy import linkage
from sklearn import datasets
from sklearn.cluster import DBSCAN, AgglomerativeClustering, KMeans
from sklearn.neighbors import NearestNeighbors

from sfumato.mine.cluster import CURE, Hierarchical, adjusted_rand_index

FOLDER: list[Path] = []
SMALL: list[bool] = []


def timed(work):
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def rounds():
    return 2 if SMALL else 7


def discs(seed, n):
    """A disc of radius 5 beside one of radius .5 with a hundredth of the points, 1.5 apart."""
    draws = np.random.default_rng(seed)
    few = n // 100
    radius = np.repeat([5, 0.5], [n - few, few]) * np.sqrt(draws.random(n))
    angle = draws.uniform(0, 2 * np.pi, n)
    X = np.c_[radius * np.cos(angle), radius * np.sin(angle)]
    X[n - few :, 0] += 7
    return X, np.repeat([0, 1], [n - few, few])


def noisy(shape):
    """A twentieth more points everywhere, of no class (-1)."""

    def make(seed, n):
        X, y = shape(seed, n)
        noise = np.random.default_rng(seed).uniform(X.min(0), X.max(0), (n // 20, 2))
        return np.concatenate([X, noise]), np.concatenate([y, np.full(len(noise), -1)])

    return make


def moons(seed, n):
    return datasets.make_moons(n, noise=0.05, random_state=seed)


def circles(seed, n):
    return datasets.make_circles(n, noise=0.05, factor=0.5, random_state=seed)


GENERATED = {
    "moons": moons,
    "circles": circles,
    "moons, 5 % noise": noisy(moons),
    "circles, 5 % noise": noisy(circles),
    "small beside large": discs,
}


def density_scan(X):
    """DBSCAN with the radius in which 95 % of points have ten neighbours; no label is used."""
    gaps = NearestNeighbors(n_neighbors=10).fit(X).kneighbors()[0][:, -1]
    return DBSCAN(eps=float(np.quantile(gaps, 0.95)), min_samples=10).fit_predict(X)


def methods(k, seed):
    return {
        "CURE": lambda X: CURE(k, random_state=seed).fit_predict(X),
        "CURE, 40 representatives": lambda X: CURE(
            k, representatives=40, random_state=seed
        ).fit_predict(X),
        "CURE, merged by representatives": lambda X: CURE(
            k, initial=1 << 20, random_state=seed
        ).fit_predict(X),
        "single linkage": lambda X: AgglomerativeClustering(k, linkage="single").fit_predict(X),
        "DBSCAN": density_scan,
        "k-means": lambda X: KMeans(k, n_init=3, random_state=seed).fit_predict(X),
        "one cluster": lambda X: np.zeros(len(X), int),
        "random labels": lambda X: np.random.default_rng(seed).integers(k, size=len(X)),
    }


def real():
    X, y = datasets.load_digits(return_X_y=True)
    yield "digits (scikit-learn)", X, y
    for folder in FOLDER:
        stored = np.load(folder / "adbench" / "28_pendigits.npz")
        yield "pendigits (ADBench)", stored["X"], stored["y"]


def scores(cases, k):
    """Adjusted Rand index and CPU seconds of every method, over all (X, y, seed)."""
    found = {}
    for X, y, seed in cases:
        for name, method in methods(k, seed).items():
            seconds, labels = timed(lambda: method(X))  # noqa: B023
            score = adjusted_rand_index(y[y >= 0], labels[y >= 0])
            found.setdefault(name, []).append((score, seconds))
    return {
        name: {
            "adjusted_rand": round(float(np.mean([s for s, _ in runs])), 4),
            "lowest": round(min(s for s, _ in runs), 4),
            "cpu_s": round(statistics.median(t for _, t in runs), 3),
        }
        for name, runs in found.items()
    }


def shapes():
    seeds, n = (2, 3000) if SMALL else (10, 10_000)
    found = {"rows": n, "seeds": seeds, "target": {"moons": 0.95, "circles": 0.95}}
    for name, make in GENERATED.items():
        found[name] = scores([(*make(seed, n), seed) for seed in range(seeds)], 2)
        print(name, found[name], flush=True)
    for name, X, y in real():
        k = 10 if "digits (scikit" in name else 2
        found[name] = {
            "rows": len(X),
            **scores([(X, y.astype(int), seed) for seed in range(min(seeds, 3))], k),
        }
        print(name, found[name], flush=True)
    return found


def hierarchical():
    """CPU seconds of the full tree, the points given."""
    rows = []
    for n in (300, 600) if SMALL else (2000, 5000):
        X = np.random.default_rng(0).normal(size=(n, 16))
        for name in ("single", "complete", "average", "centroid"):
            works = {
                "ours": lambda name=name, X=X: Hierarchical(10, linkage=name).fit(X),
                "scipy": lambda name=name, X=X: linkage(X, name),
            }
            if name != "centroid":
                works["scikit_learn"] = lambda name=name, X=X: AgglomerativeClustering(
                    10, linkage=name, compute_distances=True
                ).fit(X)
            rows.append({"rows": n, "columns": 16, "linkage": name, **in_turn(works)})
            print(rows[-1], flush=True)
        for name in ("clustroid", "within", "density", "divisive"):
            divisive = {"method": "divisive"} if name == "divisive" else {"linkage": name}
            works = {"ours": lambda divisive=divisive, X=X: Hierarchical(10, **divisive).fit(X)}
            rows.append({"rows": n, "columns": 16, "linkage": name, **in_turn(works)})
            print(rows[-1], flush=True)
    return rows


def in_turn(works):
    """Median CPU seconds of each, one after the other, and the ratios of peers to ours."""
    times = {name: [] for name in works}
    for turn in range(rounds() + 1):
        for name, work in works.items():
            seconds, _ = timed(work)
            if turn:  # the first run compiles
                times[name].append(seconds)
    found = {f"{name}_s": round(statistics.median(each), 4) for name, each in times.items()}
    for name in works:
        if name != "ours":
            ratios = [a / b for a, b in zip(times[name], times["ours"], strict=True)]
            found[f"ratio_{name}"] = round(statistics.median(ratios), 2)
    return found


def assign():
    """CPU seconds to assign a million points, in memory and from one Parquet file to another."""
    n = 50_000 if SMALL else 1_000_000
    rows = []
    for name, k, X in (
        ("moons", 2, moons(0, n)[0]),
        ("ten blobs of 16 columns", 10, datasets.make_blobs(n, 16, centers=10, random_state=0)[0]),
    ):
        model = CURE(k, random_state=0).fit(X[:10_000])
        memory = statistics.median(timed(lambda: model.predict(X))[0] for _ in range(rounds()))  # noqa: B023
        rows.append(
            {
                "points": name,
                "rows": n,
                "representatives": len(model.representatives_),
                "fit_s": round(timed(lambda: CURE(k, random_state=0).fit(X))[0], 3),  # noqa: B023
                "predict_s": round(memory, 3),
                "parquet_s": round(through_files(model, X), 3),
                "target_s": 5.0,
            }
        )
        print(rows[-1], flush=True)
    return rows


def through_files(model, X):
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f"x{j}" for j in range(X.shape[1])]
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder, "points.parquet"), Path(folder, "clusters.parquet")
        pq.write_table(pa.table(dict(zip(names, X.T, strict=True))), source)
        return timed(lambda: model.assign(source, names, output=output))[0]


SECTIONS = {"shapes": shapes, "hierarchical": hierarchical, "assign": assign}


def run(sections=()):
    """Measure some sections, or all; returns what each found by its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of k-means without clusters
        return {name: SECTIONS[name]() for name in sections or SECTIONS}


if __name__ == "__main__":
    wanted = sys.argv[1:]
    SMALL += [True for each in wanted if each == "small"]
    FOLDER += [Path(each) for each in wanted if Path(each).is_dir()]
    chosen = [each for each in wanted if each in SECTIONS]
    left = [each for each in wanted if each not in (*SECTIONS, "small") and not Path(each).is_dir()]
    if left:
        sys.exit(f"there is no section {left[0]!r}; there are {', '.join(SECTIONS)}.")
    write("cluster_shapes", run(chosen))
