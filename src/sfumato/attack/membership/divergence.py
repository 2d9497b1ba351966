"""How far a model's errors on what it learned from are from its errors on what it never saw."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.core.typing import Column

__all__ = ["ErrorLaw", "KLDivergence", "checked_errors", "kl_divergence"]

LEAST = 20
MOST_BINS = 128
# Past these a law is visibly not normal; at 100,000 rows a p-value would refuse far closer ones.
SKEWNESS, KURTOSIS, DISTANCE = 0.5, 1.0, 0.05
AGREED = 0.1


@dataclass(frozen=True)
class ErrorLaw:
    """The errors of one side in five figures.

    kurtosis: the excess over a normal law; distance: the largest difference between the
    distribution function and that of the normal law of the same mean and deviation.
    """

    rows: int
    mean: float
    deviation: float
    skewness: float
    kurtosis: float
    distance: float

    @property
    def normal(self) -> bool:
        """True where all three signs of another law are small."""
        return (
            abs(self.skewness) <= SKEWNESS
            and abs(self.kurtosis) <= KURTOSIS
            and self.distance <= DISTANCE
        )


class KLDivergence(float):
    """A divergence by (4.15), which is a number of nats, with all that is needed to believe it.

    free: the estimate that assumes no law; free_error: its standard error; train, test: the two
    laws; trusted: False where the formula must not be believed. Laws that look normal can still
    differ in their tails, so the two estimates must also agree.

    Parameters
    ----------
    gaussian : object
        TODO.
    free : float
        TODO.
    free_error : float
        TODO.
    train : ErrorLaw
        TODO.
    test : ErrorLaw
        TODO.
    """

    free: float
    free_error: float
    train: ErrorLaw
    test: ErrorLaw

    def __new__(
        cls, gaussian: float, free: float, free_error: float, train: ErrorLaw, test: ErrorLaw
    ) -> "KLDivergence":
        found = super().__new__(cls, gaussian)
        found.free, found.free_error, found.train, found.test = free, free_error, train, test
        return found

    def __getnewargs__(self) -> Any:
        return float(self), self.free, self.free_error, self.train, self.test

    @property
    def kld(self) -> float:
        """The divergence by (4.15) as a plain float."""
        return float(self)

    @property
    def agrees(self) -> bool:
        """Whether the free estimate differs by at most a tenth and three standard errors."""
        return abs(self - self.free) <= AGREED * max(self, self.free) + 3 * self.free_error

    @property
    def trusted(self) -> bool:
        """Whether the formula may be believed: both laws are near normal, and it agrees."""
        return self.train.normal and self.test.normal and self.agrees

    def to_dict(self) -> dict[str, Any]:
        """The divergence as plain JSON values.

        Returns
        -------
        dict
            The divergence as plain JSON values.
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
            f"KL {float(self):.4g} by (4.15), {self.free:.4g} +- {self.free_error:.2g} free of any "
            f"law ({word})"
        )


def kl_divergence(train_errors: Column, test_errors: Column) -> KLDivergence:
    """The Kullback-Leibler divergence, in nats, of training errors from test errors.

    Thesis section 4.2.3. Its (4.14) takes the ratio of two logarithms, which is a slip: the
    divergence is the mean of the logarithm of the ratio, and (4.15) is that of two normal laws.

    predicted minus true rating, of rows that were learned from and of rows that were not; at least
    20 finite numbers each. Where one side is constant (4.15) is infinite.

    Parameters
    ----------
    train_errors : array_like
        TODO.
    test_errors : array_like
        TODO.

    Returns
    -------
    KLDivergence
        The Kullback-Leibler divergence, in nats, of training errors from test errors.

    Notes
    -----
    **Guarantee.** None of privacy. It is an average over rows: a single rating may be betrayed
    while the average is near 0. Formula (4.15) is exact for two normal laws; `trusted` says whether
    it may be believed here. The free estimate compares shares of rows in bins laid between the
    quantiles of both sides. It cannot see what differs inside a bin, so it is low where laws hardly
    overlap; the surplus that chance alone would give, (bins - 1) (1/n + 1/m) / 2, is taken off, and
    below 0 it is told as 0.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0)
    >>> kl_divergence(draws.normal(0, 0.8, 50_000), draws.normal(0, 0.9, 50_000))
    KL 0.01232 by (4.15), 0.01178 +- 0.00098 free of any law (near normal)
    """
    train, test = (
        checked_errors("kl_divergence", name, errors)
        for name, errors in (("train_errors", train_errors), ("test_errors", test_errors))
    )
    distributions = _distribution(train), _distribution(test)
    free, error = _binned(train, test)
    return KLDivergence(_gaussian(*distributions), free, error, *distributions)


def checked_errors(owner: str, name: str, errors: Any) -> np.ndarray:
    """A column of errors, refused where it is short or not finite."""
    column: np.ndarray = np.asarray(errors)
    if column.ndim != 1 or column.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: {name} must be one column of numbers.")
    if column.size < LEAST:
        raise ValueError(f"{owner}: {name} must hold at least {LEAST} rows, not {column.size}.")
    column = column.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(column))
    if bad.size:
        raise ValueError(f"{owner}: {name} must be finite, but row {bad[0]} is not.")
    return column


def _distribution(errors: np.ndarray) -> ErrorLaw:
    from scipy.special import ndtr

    mean, deviation = float(errors.mean()), float(errors.std())
    if errors.min() == errors.max():
        return ErrorLaw(errors.size, mean, 0.0, 0.0, 0.0, 0.5)
    ordered = np.sort((errors - mean) / deviation)
    bell = ndtr(ordered)
    steps = np.arange(errors.size + 1) / errors.size
    distance = max(float((steps[1:] - bell).max()), float((bell - steps[:-1]).max()))
    skewness, kurtosis = float((ordered**3).mean()), float((ordered**4).mean()) - 3
    return ErrorLaw(errors.size, mean, deviation, skewness, kurtosis, distance)


def _gaussian(train: ErrorLaw, test: ErrorLaw) -> float:
    """(4.15): of the normal law of the training errors from that of the test errors."""
    if not (train.deviation and test.deviation):
        same = (train.mean, train.deviation) == (test.mean, test.deviation)
        return 0.0 if same else math.inf
    ratio = (train.deviation / test.deviation) ** 2
    shift = ((train.mean - test.mean) / test.deviation) ** 2
    return (ratio - 1 - math.log(ratio) + shift) / 2


def _binned(train: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """The divergence over bins of equal mass, less its surplus by chance; its standard error."""
    n, m = train.size, test.size
    bins = int(min(MOST_BINS, max(4, 2 * min(n, m) ** (1 / 3))))
    # Each side has half of the say, or the larger one would choose all the bins.
    sides = [np.quantile(side, np.arange(1, bins) / bins) for side in (train, test)]
    edges = np.unique((sides[0] + sides[1]) / 2)
    p, q = (_shares(side, edges) for side in (train, test))
    logs = np.log(p / q)
    found = float(p @ logs)
    surplus = edges.size / 2 * (1 / n + 1 / m)
    spread = float(p @ (logs - found) ** 2) / n + float(q @ (p / q - 1) ** 2) / m
    return max(found - surplus, 0.0), math.sqrt(spread)


def _shares(errors: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The share of rows in each bin; half a row more each, so that no bin is empty."""
    counts = np.bincount(np.searchsorted(edges, errors, "right"), minlength=edges.size + 1) + 0.5
    return np.asarray(counts / counts.sum(), np.float64)
