"""SketchDensity, SketchRegressor and SketchAnomalyDetector by default beside peers and the trivial.

    python benchmarks/comparison_density.py
        writes benchmarks/results/comparison_density.json

Three seeds, epsilon 0.1 and 1. Peers with "in hindsight" or "no privacy" in their name have an
advantage that no private release can have. Random and middle figures are what needs no data.
"""

import warnings

import numpy as np
from _anomalies import public_box
from _comparison import row, write_rows
from _density_data import adbench, regression
from _diffprivlib import scores
from _loda import Loda
from density_defaults import generated, measured, real

from sfumato.density import SketchAnomalyDetector, SketchRegressor

SEEDS, EPSILONS = 3, (0.1, 1.0)
DETECTED = 5_000  # rows of a set, at most


CASES = ("skin, 3 columns", "magic, 3 columns", "cover, 2 columns")


def densities():
    worlds = [world for world in real() if world.name in CASES]
    worlds += [generated(kind, 3, 21) for kind in ("uniform", "line")]
    for world in worlds:
        for epsilon in EPSILONS:
            found = measured(world, "gaussian", epsilon)
            histograms = {
                bins: [each[0] for each in runs] for bins, runs in found["histograms"].items()
            }
            best = min(histograms, key=lambda bins, of=histograms: np.mean(of[bins]))
            yield row(
                "SketchDensity",
                world.name,
                "mean relative error of the mean kernel value",
                "lower",
                [each[0] for each in found["ours"]],
                {
                    "Laplace histogram, bins in hindsight": histograms[best],
                    "unbiased release": [each[0] for each in found["part"]],
                },
                {
                    "uniform": [found["uniform"][0]],
                    "best constant, in hindsight": [found["constant"][0]],
                },
                chosen_on="generated worlds of other seeds",
                setting=f"Gaussian kernel, epsilon {epsilon:g}",
            )


def quadratic(rows=40_000):
    """Eight uniform columns and a target of products and squares of them, as kin40k is."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (rows, 8))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] ** 2 / 2
    y += 0.7 * np.sin(3 * X[:, 5]) * np.cos(3 * X[:, 6]) + rng.normal(0, 0.3, rows)
    return X, y


def box(values):
    """The power of two above the sizes of each column, with both signs if there are both."""
    reach = 2.0 ** np.ceil(np.log2(np.maximum(np.abs(values).max(axis=0), 1e-6)))
    return np.where(values.min(axis=0) < 0, -reach, 0.0), reach


def regressions():
    from sklearn.linear_model import LinearRegression

    for name in ("quadratic", "concrete", "housing", "parkinsons", "keggdirected"):
        X, y = quadratic() if name == "quadratic" else regression(name)
        (low, high), (least, most) = box(X), box(y[:, None])
        bounds, target = (low, high), (float(least[0]), float(most[0]))
        private = _diffprivlib(X, y, bounds, target)
        for number, epsilon in enumerate((*EPSILONS, None)):
            ours, linear, mean = [], [], []
            for seed in range(SEEDS):
                order = np.random.default_rng(seed).permutation(len(X))
                train, test = order[len(X) // 5 :], order[: len(X) // 5]
                given = dict(epsilon=epsilon, bounds=bounds, target_bounds=target)
                model = SketchRegressor(**(given if epsilon else {})).fit(X[train], y[train])
                ours.append(model.score(X[test], y[test]))
                plain = LinearRegression().fit(X[train], y[train])
                linear.append(plain.score(X[test], y[test]))
                mean.append(1 - ((y[test] - y[train].mean()) ** 2).sum() / _spread(y[test]))
            peers = {"least squares, no privacy": linear}
            if epsilon:
                peers["diffprivlib"] = private if isinstance(private, dict) else private[number]
            yield row(
                "SketchRegressor",
                name,
                "R2 on held-out rows",
                "higher",
                ours,
                peers,
                {"mean of the training targets, no privacy": mean},
                chosen_on="airfoil, energy, wine, elevators, bike",
                setting=f"epsilon {epsilon:g}" if epsilon else "no privacy",
            )


def _spread(values):
    return ((values - values.mean()) ** 2).sum()


def _diffprivlib(X, y, bounds, target):
    """R2 of each draw for each epsilon on the first split, or why there is none."""
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[len(X) // 5 :], order[: len(X) // 5]
    found = scores(
        "linear",
        (X[train], y[train]),
        (X[test], y[test]),
        EPSILONS,
        SEEDS,
        low=np.broadcast_to(bounds[0], X.shape[1]),
        high=np.broadcast_to(bounds[1], X.shape[1]),
        target_low=target[0],
        target_high=target[1],
    )
    return found if "missing" in found else found["scores"]


def satellite():
    """5,800 rows of 36 correlated columns, 71 of them shifted: in size like satimage-2."""
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(6, 36)) / 3
    points = rng.normal(size=(5_803, 6)) @ mixed + rng.normal(0, 0.3, (5_803, 36))
    kind = np.zeros(5_803, int)
    kind[:71] = 1
    points[:71] += rng.normal(size=6) @ mixed * 3
    return points, kind


class Hbos:
    """The mean negative log density of columns, by histograms of ten equal cells."""

    def score(self, X):
        total = np.zeros(len(X))
        for column in X.T:
            counts, edges = np.histogram(column, 10)
            cell = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, 9)
            total -= np.log(np.maximum(counts[cell], 0.5) / len(X))
        return total


def detections():
    from sklearn.ensemble import IsolationForest
    from sklearn.metrics import roc_auc_score

    for name in (
        "23_mammography",
        "2_annthyroid",
        "10_cover",
        "24_mnist",
        "6_cardio",
        "like satimage-2",
    ):
        X, kind = satellite() if name.startswith("like") else adbench(name)
        order = np.random.default_rng(0).permutation(len(X))[:DETECTED]
        X, kind = X[order], kind[order]
        low, high = public_box(name, X)
        far = np.linalg.norm((X - (low + high) / 2) / (high - low), axis=1)
        seeds = range(SEEDS)
        forest = [IsolationForest(random_state=s).fit(X).score_samples(X) for s in seeds]
        loda = [Loda(seed=s).fit(X).score_samples(X) for s in seeds]
        peers = {
            "isolation forest, no privacy": [roc_auc_score(kind, -each) for each in forest],
            "LODA, no privacy": [roc_auc_score(kind, -each) for each in loda],
            "HBOS, no privacy": [roc_auc_score(kind, Hbos().score(X))],
        }
        for epsilon in (*EPSILONS, None):
            ours = []
            for seed in seeds:
                model = SketchAnomalyDetector(
                    epsilon=epsilon, bounds=(low, high), random_state=seed
                ).fit(X)
                ours.append(roc_auc_score(kind, -model.score_samples(X)))
            yield row(
                "SketchAnomalyDetector",
                name.split("_", 1)[-1],
                "area under the curve",
                "higher",
                ours,
                peers,
                {
                    "random": [0.5],
                    "far from the centre of the box": [roc_auc_score(kind, far)],
                },
                chosen_on="magic, mnist, pendigits, SpamBase, thyroid, cardio",
                setting=f"epsilon {epsilon:g}" if epsilon else "no privacy",
            )


def shown(made):
    print(
        f"{made['model']:<22}{made['data']:<20}{made['setting']:<30}"
        f"{made['ours']['median']:8.3f}  "
        + ", ".join(
            f"{name} {each['median']:.3f}" if "median" in each else f"{name}: {each['missing']}"
            for name, each in {**made["peers"], **made["trivial"]}.items()
        ),
        flush=True,
    )
    return made


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    parts = (regressions, densities, detections)
    write_rows("density", [shown(made) for part in parts for made in part()])
