"""KL divergence of a model's training errors from its test errors."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.core.typing import Column

__all__ = ["ErrorDistribution", "KLDivergence", "checked_errors", "kl_divergence"]

LEAST = 20
MOST_BINS = 128
# Beyond these, visibly not normal; at 100,000 rows a p-value would reject far closer ones.
SKEWNESS, KURTOSIS, DISTANCE = 0.5, 1.0, 0.05
AGREED = 0.1


@dataclass(frozen=True)
class ErrorDistribution:
    """Summary of the errors of one side.

    `kurtosis` is the excess over a normal distribution; `distance` the Kolmogorov-Smirnov distance
    from the normal distribution of the same mean and standard deviation.
    """

    rows: int
    mean: float
    deviation: float
    skewness: float
    kurtosis: float
    distance: float

    @property
    def normal(self) -> bool:
        """True if skewness, kurtosis and distance are all small."""
        return (
            abs(self.skewness) <= SKEWNESS
            and abs(self.kurtosis) <= KURTOSIS
            and self.distance <= DISTANCE
        )


class KLDivergence(float):
    """KL divergence of training errors from test errors, in nats, with diagnostics.

    A float: the Gaussian formula (4.15). Returned by `kl_divergence`.

    Parameters
    ----------
    gaussian : float
        Divergence of two normal distributions with the means and variances of the errors, (4.15).
    free : float
        Nonparametric estimate from histograms.
    free_error : float
        Standard error of `free`.
    train : ErrorDistribution
        Mean, deviation and normality of the training errors.
    test : ErrorDistribution
        The same of the test errors.

    Notes
    -----
    Distributions that look normal can still differ in their tails, so `trusted` also requires that
    the two estimates agree.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = kl_divergence(rng.normal(0, 0.8, 5000), rng.normal(0, 0.9, 5000))
    >>> found.train.normal, round(found.kld, 2)
    (True, 0.01)
    """

    free: float
    free_error: float
    train: ErrorDistribution
    test: ErrorDistribution

    def __new__(
        cls,
        gaussian: float,
        free: float,
        free_error: float,
        train: ErrorDistribution,
        test: ErrorDistribution,
    ) -> "KLDivergence":
        found = super().__new__(cls, gaussian)
        found.free, found.free_error, found.train, found.test = free, free_error, train, test
        return found

    def __getnewargs__(self) -> Any:
        return float(self), self.free, self.free_error, self.train, self.test

    @property
    def kld(self) -> float:
        """Divergence by the Gaussian formula (4.15) as a plain float."""
        return float(self)

    @property
    def agrees(self) -> bool:
        """Whether the nonparametric estimate is within 10 % plus three standard errors."""
        return abs(self - self.free) <= AGREED * max(self, self.free) + 3 * self.free_error

    @property
    def trusted(self) -> bool:
        """Whether both error distributions are near normal and both estimates agree."""
        return self.train.normal and self.test.normal and self.agrees

    def to_dict(self) -> dict[str, Any]:
        """Convert the divergence to plain JSON values.

        Returns
        -------
        dict
            Both estimates, the diagnostics, and the summaries of the two sides; an infinite
            "gaussian" is None.
        """
        return {
            "gaussian": float(self) if math.isfinite(self) else None,
            "free": self.free,
            "free_error": self.free_error,
            "agrees": self.agrees,
            "trusted": self.trusted,
            "train": asdict(self.train),
            "test": asdict(self.test),
        }

    def __repr__(self) -> str:
        word = "near normal" if self.trusted else "errors are NOT normal: believe the latter"
        return (
            f"KL {float(self):.4g} by the Gaussian formula (4.15), {self.free:.4g} +- "
            f"{self.free_error:.2g} nonparametric ({word})"
        )


def kl_divergence(train_errors: Column, test_errors: Column) -> KLDivergence:
    """Compute the KL divergence of training errors from test errors.

    Errors are predicted minus true ratings. A model that has memorised its training data has
    smaller errors there than on new rows.

    Parameters
    ----------
    train_errors : array_like of shape (n,)
        Errors on rows that the model learned from; at least 20 finite numbers.
    test_errors : array_like of shape (m,)
        Errors on rows that it did not learn from; at least 20 finite numbers.

    Returns
    -------
    KLDivergence
        The divergence in nats by the Gaussian formula, a float, with a nonparametric estimate
        beside it. It is infinite if one side is constant and the other differs.

    Notes
    -----
    **Guarantee.** No privacy guarantee: the divergence is an average over rows, and a single rating
    may be exposed while the average is near 0. The Gaussian formula (4.15) is exact for two normal
    distributions; `trusted` says whether it applies. The nonparametric estimate compares fractions
    of rows in bins between the quantiles of both sides. Differences within a bin are lost, so it is
    too low for distributions that hardly overlap. Its bias under equality, (bins - 1) (1/n + 1/m) /
    2, is subtracted, and negative results are set to 0.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 4.2.3, equation (4.15) (divergence of two normal distributions).
       Its definition (4.14) takes the ratio of two logarithms; the divergence is the mean of the
       logarithm of the ratio. https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> kl_divergence(rng.normal(0, 0.8, 50_000), rng.normal(0, 0.9, 50_000))
    KL 0.01232 by the Gaussian formula (4.15), 0.01178 +- 0.00098 nonparametric (near normal)
    """
    train, test = (
        checked_errors("kl_divergence", name, errors)
        for name, errors in (("train_errors", train_errors), ("test_errors", test_errors))
    )
    distributions = _distribution(train), _distribution(test)
    free, error = _binned(train, test)
    return KLDivergence(_gaussian(*distributions), free, error, *distributions)


def checked_errors(owner: str, name: str, errors: Any) -> np.ndarray:
    """A column of errors as float64; ValueError if it is short or not finite."""
    column: np.ndarray = np.asarray(errors)
    if column.ndim != 1 or column.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: {name} must be one column of numbers.")
    if column.size < LEAST:
        raise ValueError(f"{owner}: {name} must have at least {LEAST} rows, not {column.size}.")
    column = column.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(column))
    if bad.size:
        raise ValueError(f"{owner}: {name} must be finite, but row {bad[0]} is not.")
    return column


def _distribution(errors: np.ndarray) -> ErrorDistribution:
    """Moments of the errors and their Kolmogorov-Smirnov distance from a normal distribution."""
    from scipy.special import ndtr

    mean, deviation = float(errors.mean()), float(errors.std())
    if errors.min() == errors.max():
        return ErrorDistribution(errors.size, mean, 0.0, 0.0, 0.0, 0.5)
    ordered = np.sort((errors - mean) / deviation)
    bell = ndtr(ordered)
    steps = np.arange(errors.size + 1) / errors.size
    distance = max(float((steps[1:] - bell).max()), float((bell - steps[:-1]).max()))
    skewness, kurtosis = float((ordered**3).mean()), float((ordered**4).mean()) - 3
    return ErrorDistribution(errors.size, mean, deviation, skewness, kurtosis, distance)


def _gaussian(train: ErrorDistribution, test: ErrorDistribution) -> float:
    """Divergence of two normal distributions, (4.15), training errors from test errors."""
    if not (train.deviation and test.deviation):
        same = (train.mean, train.deviation) == (test.mean, test.deviation)
        return 0.0 if same else math.inf
    ratio = (train.deviation / test.deviation) ** 2
    shift = ((train.mean - test.mean) / test.deviation) ** 2
    return (ratio - 1 - math.log(ratio) + shift) / 2


def _binned(train: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """Histogram estimate of the divergence, less its bias, and its standard error."""
    n, m = train.size, test.size
    bins = int(min(MOST_BINS, max(4, 2 * min(n, m) ** (1 / 3))))
    # Both sides count equally, or the larger one would choose all the bins.
    sides = [np.quantile(side, np.arange(1, bins) / bins) for side in (train, test)]
    edges = np.unique((sides[0] + sides[1]) / 2)
    p, q = (_fractions(side, edges) for side in (train, test))
    logs = np.log(p / q)
    found = float(p @ logs)
    surplus = edges.size / 2 * (1 / n + 1 / m)
    variance = float(p @ (logs - found) ** 2) / n + float(q @ (p / q - 1) ** 2) / m
    return max(found - surplus, 0.0), math.sqrt(variance)


def _fractions(errors: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Fraction of rows in each bin, with half a row added so that no bin is empty."""
    counts = np.bincount(np.searchsorted(edges, errors, "right"), minlength=edges.size + 1) + 0.5
    return np.asarray(counts / counts.sum(), np.float64)
