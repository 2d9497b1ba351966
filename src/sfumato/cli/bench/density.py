"""Benchmarks of densities and of classes of a table."""

from functools import partial
from typing import Any

import numpy as np

from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.density import SketchClassifier, SketchDensity

__all__ = ["CASES"]

QUERIES, BANDWIDTH = 1_000, 0.1
COLUMNS = 20


def means(size: int) -> Contest:
    """Fit and score: densities at a thousand points, with the mean relative error."""
    random = np.random.default_rng(0)
    centres = random.uniform(size=(20, 2))
    drawn = random.normal(centres[random.integers(20, size=size + QUERIES)], 0.05)
    points, queries = np.clip(drawn[:size], 0, 1), np.clip(drawn[size:], 0, 1)
    normal = 2 * np.pi * BANDWIDTH**2
    some = queries[:100]
    squared = [((points - each) ** 2).sum(axis=1) / BANDWIDTH**2 for each in some]
    truth = np.array([np.exp(-each / 2).mean() for each in squared]) / normal

    def error(logarithms: Any) -> float:
        return float(np.mean(np.abs(np.exp(np.asarray(logarithms)[: len(truth)]) / truth - 1)))

    def ours() -> Any:
        return SketchDensity(bandwidth=BANDWIDTH, kernel="gaussian").fit(points)

    def sklearn(tolerance: float) -> Work:
        from sklearn.neighbors import KernelDensity

        few = queries[: QUERIES // 10]
        model = KernelDensity(bandwidth=BANDWIDTH, rtol=tolerance)
        return Work(lambda: model.fit(points).score_samples(few), len(few), error)

    peers = {
        "scikit-learn, within 1 %": partial(sklearn, 0.01),
        "scikit-learn": partial(sklearn, 0),
    }
    return Contest(Work(lambda: ours().score_samples(queries), QUERIES, error), peers)


def classes(size: int) -> Contest:
    """Fit a classifier and predict as many other rows, with the share that is right."""
    random = np.random.default_rng(1)
    labels = random.integers(0, 4, 2 * size)
    centres = random.normal(0, 0.8, (4, COLUMNS))
    rows = centres[labels] + random.standard_t(5, (2 * size, COLUMNS))
    rows[:, ::2] = np.exp(rows[:, ::2] / 2)  # skewed columns, as tables have
    train, test = rows[:size], rows[size:]

    def right(found: Any) -> float:
        return float(np.mean(np.asarray(found) == labels[size:]))

    def fitted(model: Any) -> Any:
        return model.fit(train, labels[:size]).predict(test)

    def bayes() -> Work:
        from sklearn.naive_bayes import GaussianNB

        return Work(lambda: fitted(GaussianNB()), 2 * size, right)

    def logistic() -> Work:
        from sklearn.linear_model import LogisticRegression

        return Work(lambda: fitted(LogisticRegression(max_iter=200)), 2 * size, right)

    ours = Work(lambda: fitted(SketchClassifier()), 2 * size, right)
    peers = {"scikit-learn's GaussianNB": bayes, "scikit-learn's LogisticRegression": logistic}
    return Contest(ours, peers)


CASES = (
    Case(
        "density/means",
        "a density of points, and its values at 1,000 others",
        "values",
        means,
        500_000,
        100_000,
        "mean relative error",
    ),
    Case(
        "density/classes",
        f"a classifier of rows of {COLUMNS} columns, and as many predictions",
        "rows",
        classes,
        200_000,
        20_000,
        "share right",
    ),
)
