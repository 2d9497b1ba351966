"""Models of density by default beside peers and the trivial: comparison_density.json.

    python benchmarks/comparison_density.py [regressions] [densities] [samples] [features]
                                            [detections] [nodes]
        measures all parts, or those that are named, and writes the rows of all that were measured

SketchRegressor, SketchDensity, SketchSampler, KernelFeatures, SketchAnomalyDetector, NodeDensity;
the classifier and the sampler of tables are in comparison_tables.py. Three seeds or more, nine of
private regressions and 25 of private detectors, epsilon 0.1 and 1. Peers with "in hindsight" or "no
privacy" in their name have an advantage that no private release can have. The trivial of a private
model is what needs no data, or has the same guarantee.
"""

import json
import sys
import warnings

import numpy as np
from _anomalies import public_box
from _comparison import row, write_rows
from _density_data import adbench, regression
from _diffprivlib import scores
from _graph import graphs, jaccard_sums
from _loda import Loda
from _measure import RESULTS
from comparison_tables import CLASSIFIED, MOST_CLASSIFIED
from density_defaults import errors, generated, kernel_sums, measured, real, truth

from sfumato.density import (
    KernelFeatures,
    NodeDensity,
    SketchAnomalyDetector,
    SketchRegressor,
    SketchSampler,
    neighbourhoods,
)

SEEDS, EPSILONS = 3, (0.1, 1.0)
DRAWS = 9  # private fits of a regression, three of each split
DETECTORS = 25  # private fits of a detector
SAMPLED = 4_000  # synthetic points
DETECTED = 5_000  # rows of a set, at most
WANTED, PAPER = 2_000, 2_000  # lists that are asked for; rows of the paper


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


def samples():
    """Synthetic points by SketchSampler: the mean kernel values that they give."""
    worlds = [world for world in real() if world.name in CASES]
    worlds += [generated(kind, 3, 21) for kind in ("uniform", "line")]
    for world in worlds:
        true, (low, high) = truth(world, "gaussian"), world.bounds

        def error(points, world=world, true=true):
            masses = np.full(len(points), 1 / len(points))
            found = kernel_sums("gaussian", world.bandwidth, points, masses, world.queries)
            return errors(found, true)[1]

        draws = [np.random.default_rng(seed) for seed in range(SEEDS)]
        raw = [error(draw.choice(world.points, SAMPLED, replace=False)) for draw in draws]
        even = [error(draw.uniform(low, high, (SAMPLED, len(low)))) for draw in draws]
        box = tuple(map(float, low)), tuple(map(float, high))
        for epsilon in (*EPSILONS, None):
            model = SketchSampler(
                bandwidth=world.bandwidth, kernel="gaussian", bounds=box, epsilon=epsilon
            )
            ours = [
                error(model.fit(world.points).sample(SAMPLED, random_state=seed))
                for seed in range(SEEDS)
            ]
            yield row(
                *("SketchSampler", world.name, "error of mean kernel values over their mean"),
                *("lower", ours, {"rows themselves, no privacy": raw}, {"uniform points": even}),
                chosen_on="generated worlds of other seeds",
                setting=f"epsilon {epsilon:g}" if epsilon else "no privacy",
            )


def features():
    """Logistic regression on KernelFeatures, on as many of RBFSampler, and on the columns."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def accuracy(made, part):
        train, test, y_train, y_test = part
        steps = make_pipeline(StandardScaler(), *made, LogisticRegression(max_iter=300))
        return steps.fit(train, y_train).score(test, y_test)

    for name in ("magic", "elevators", "bike", "parkinsons"):
        X, y = CLASSIFIED[name]()
        chosen = np.random.default_rng(0).permutation(len(X))[: MOST_CLASSIFIED // 3]
        parts = [
            train_test_split(X[chosen], y[chosen], test_size=0.3, random_state=s) for s in (0, 1, 2)
        ]
        made = [KernelFeatures(rows=128, random_state=seed) for seed in range(SEEDS)]
        widths = [
            one.fit(StandardScaler().fit_transform(part[0])).bandwidth_
            for one, part in zip(made, parts, strict=True)
        ]
        peer = [
            RBFSampler(gamma=0.5 / width**2, n_components=256, random_state=seed)
            for seed, width in enumerate(widths)
        ]
        by = lambda all_of, parts=parts: [  # noqa: E731
            accuracy([one] if one else [], part) for one, part in zip(all_of, parts, strict=True)
        ]
        yield row(
            *("KernelFeatures", name, "accuracy of logistic regression", "higher", by(made)),
            {"RBFSampler, same width": by(peer), "the columns themselves": by([None] * SEEDS)},
            {"most frequent class": [np.bincount(part[3]).max() / len(part[3]) for part in parts]},
            chosen_on="nothing",
            setting="no privacy, 256 features",
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
            ours, linear, mean, private_mean = [], [], [], []
            for seed in range(DRAWS if epsilon else SEEDS):
                order = np.random.default_rng(seed % SEEDS).permutation(len(X))
                train, test = order[len(X) // 5 :], order[: len(X) // 5]
                given = dict(epsilon=epsilon, bounds=bounds, target_bounds=target)
                model = SketchRegressor(**(given if epsilon else {})).fit(X[train], y[train])
                ours.append(model.score(X[test], y[test]))
                if epsilon:
                    noisy = _private_mean(y[train], target, epsilon, seed)
                    private_mean.append(_constant_score(noisy, y[test]))
                if seed < SEEDS:
                    plain = LinearRegression().fit(X[train], y[train])
                    linear.append(plain.score(X[test], y[test]))
                    mean.append(_constant_score(y[train].mean(), y[test]))
            peers = {"least squares, no privacy": linear}
            raw = {"mean of the training targets, no privacy": mean}
            if epsilon:
                peers |= raw
                peers["diffprivlib"] = private if isinstance(private, dict) else private[number]
            trivial = {"mean with the same epsilon": private_mean} if epsilon else raw
            yield row(
                *("SketchRegressor", name, "R2 on held-out rows", "higher", ours, peers, trivial),
                chosen_on="airfoil, energy, wine, elevators, bike, generated",
                setting=f"epsilon {epsilon:g}" if epsilon else "no privacy",
            )


def _private_mean(target, bounds, epsilon, seed):
    """The noisy sum over the noisy number of rows, with noise uniform in a square of Gamma size.

    Both change by at most one for targets scaled to [-1, 1], so that noise exp(-epsilon max |n|) in
    the square costs epsilon (the K-norm mechanism, as ours).
    """
    rng, half = np.random.default_rng([seed, 7]), (bounds[1] - bounds[0]) / 2
    middle = (bounds[0] + bounds[1]) / 2
    noise = rng.uniform(-1, 1, 2) * rng.gamma(3) / epsilon
    total = ((target - middle) / half).sum() + noise[0]
    return middle + half * float(np.clip(total / max(len(target) + noise[1], 1.0), -1, 1))


def _constant_score(constant, target):
    return 1 - ((target - constant) ** 2).sum() / _spread(target)


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
            for seed in range(DETECTORS) if epsilon else seeds:
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
                chosen_on="magic, mnist, pendigits, SpamBase, thyroid, donors, http, smtp, ALOI, "
                "cardio, generated; seen while choosing: cover, annthyroid, mammography",
                setting=f"epsilon {epsilon:g}" if epsilon else "no privacy",
            )


def nodes():
    for name, edges, directed in graphs():
        lists = neighbourhoods(edges, directed=directed)
        wanted = np.random.default_rng(0).permutation(len(lists))[:WANTED]
        true, queries = jaccard_sums(lists.sets, wanted), lists.take(wanted).sets
        for epsilon in (*EPSILONS, None):
            ours, paper, sampled = [], [], []
            for seed in range(SEEDS):
                fitted = {
                    rows: NodeDensity(
                        rows=rows, epsilon=epsilon, directed=directed, random_state=seed
                    ).fit(edges)
                    for rows in ((None, PAPER) if epsilon else (None,))
                }
                ours.append(_relative(fitted[None].estimate(queries), true))
                if epsilon:
                    paper.append(_relative(fitted[PAPER].release_.estimate(queries), true))
                    continue
                drawn = np.random.default_rng(seed).permutation(len(lists))
                drawn = drawn[: min(PAPER, len(lists) // 10)]
                sums = jaccard_sums(lists.sets, wanted, drawn) * len(lists) / len(drawn)
                sampled.append(_relative(sums, true))
            constants = np.quantile(true, np.linspace(0, 1, 101))
            best = min(_relative(each, true) for each in constants)
            yield row(
                "NodeDensity",
                name,
                "mean relative error of the sum of similarities",
                "lower",
                ours,
                {"RACE of the paper, 2,000 rows, unbiased": paper}
                if epsilon
                else {"a tenth of the lists, 2,000 at most": sampled},
                {"1 for every list": [_relative(1.0, true)]},
                setting=f"epsilon {epsilon:g}" if epsilon else "epsilon infinity",
                references={"best constant in hindsight": [best]},
                chosen_on="Slashdot, FilmTrust, Last.fm",
            )


def _relative(found, true):
    return float((np.abs(found - true) / true).mean())


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


PARTS = {
    "regressions": (regressions, "SketchRegressor"),
    "densities": (densities, "SketchDensity"),
    "samples": (samples, "SketchSampler"),
    "features": (features, "KernelFeatures"),
    "detections": (detections, "SketchAnomalyDetector"),
    "nodes": (nodes, "NodeDensity"),
}


def main(named):
    path = RESULTS / "comparison_density.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    recorded = {_key(each): each["peers"] for each in before}
    again = {PARTS[name][1] for name in named or PARTS}
    rows = [each for each in before if each["model"] not in again]
    for name in named or PARTS:
        for made in PARTS[name][0]():
            for peer, figure in made["peers"].items():  # a peer that is not here stays as measured
                if "missing" in figure:
                    made["peers"][peer] = recorded.get(_key(made), {}).get(peer, figure)
            rows.append(shown(made))
        write_rows("density", rows)


def _key(made):
    return made["model"], made["data"], made["setting"]


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)
    main(sys.argv[1:])
