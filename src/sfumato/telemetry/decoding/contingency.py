"""Contingency tables from pairs of reports: maximum likelihood, covariance, independence test.

Report r has likelihoods x_r over the rows of the table and y_r over its columns, so its likelihood
is x_r' P y_r. Expectation maximisation multiplies P by the mean of x_r y_r' / (x_r' P y_r)
(Fanti, Pihur and Erlingsson 2016, section III), accelerated as in Varadhan and Roland 2008.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy

from sfumato.telemetry.decoding.weighted_least_squares import nonnegative

__all__ = [
    "Independence",
    "RatioPairs",
    "Ratios",
    "Solved",
    "TableFit",
    "independence",
    "maximize_table",
    "solve_table",
]

_ROWS = 2048  # of a block: two blocks of ratios stay in the cache
_LEAST = 1e-12  # a fraction of exactly 0 could never grow again
_READS = 1000
_GAIN = 0.3  # of the log-likelihood in an accelerated step: near enough for a step of Newton's
_WORK = 4e11  # multiplications for the information: beyond, it uses evenly spaced rows


class Ratios(Protocol):
    """Likelihood ratios in blocks: one row per report, one column per candidate."""

    @property
    def columns(self) -> int: ...

    def block(self, rows: slice) -> np.ndarray: ...


@dataclass(frozen=True)
class RatioPairs:
    """Ratios of both sides, row by row, and the number of clients that each row stands for."""

    first: Ratios
    second: Ratios
    weights: np.ndarray

    def blocks(self, rows: int = _ROWS) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield blocks of ratios of both sides and of weights."""
        for start in range(0, len(self.weights), rows):
            part = slice(start, start + rows)
            yield self.first.block(part), self.second.block(part), self.weights[part]

    @property
    def total(self) -> float:
        """Number of clients."""
        return float(self.weights.sum())

    def alone(self, side: Ratios) -> "RatioPairs":
        """Return one side; the other becomes a single column that all reports fit equally well."""
        return RatioPairs(side, _Ones(len(self.weights)), self.weights)


@dataclass(frozen=True)
class _Ones:
    """A single column of ones."""

    rows: int
    columns: int = 1

    def block(self, rows: slice) -> np.ndarray:
        return np.ones((len(range(self.rows)[rows]), 1), np.float32)


@dataclass(frozen=True)
class TableFit:
    """Result of expectation maximisation: table, log-likelihood, and passes over all rows."""

    table: np.ndarray
    log_likelihood: float
    reads: int


def maximize_table(pairs: RatioPairs, start: np.ndarray | None = None) -> TableFit:
    """Maximise the likelihood from a start (default: uniform) until a step gains little."""
    reads = 0

    def climb(table: np.ndarray) -> tuple[np.ndarray, float]:
        nonlocal reads
        reads += 1
        gain, likelihood = _mean_gain(pairs, table)
        return _normalized(table * gain), likelihood

    table = _normalized(
        np.ones((pairs.first.columns, pairs.second.columns)) if start is None else start
    )
    before = -np.inf
    while True:
        once, here = climb(table)
        if here - before < _GAIN or reads >= _READS:
            return TableFit(once, here, reads)
        before = here
        twice, reached = climb(once)
        table = _leap(climb, table, once, twice, reached)


def _leap(
    climb: Callable[[np.ndarray], tuple[np.ndarray, float]],
    table: np.ndarray,
    once: np.ndarray,
    twice: np.ndarray,
    reached: float,
) -> np.ndarray:
    """Extrapolate along two steps, unless that leads below what the first one achieved."""
    change, bend = once - table, (twice - once) - (once - table)
    far = np.sqrt(np.sum(change**2) / max(float(np.sum(bend**2)), 1e-300))
    if far <= 1:
        return twice
    landed, likelihood = climb(_normalized(table + 2 * far * change + far**2 * bend))
    return landed if likelihood >= reached else twice


def _mean_gain(pairs: RatioPairs, table: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the mean of x_r y_r' / (x_r' P y_r), and the log-likelihood of P."""
    gain, likelihood = np.zeros(table.shape), 0.0
    narrow = table.astype(np.float32)
    for x, y, weights in pairs.blocks():
        probability = np.einsum("ij,ij->i", x @ narrow, y).astype(np.float64)
        likelihood += float(weights @ np.log(probability))
        gain += x.T @ (y * (weights / probability).astype(np.float32)[:, None])
    return gain / pairs.total, likelihood


def _normalized(table: np.ndarray) -> np.ndarray:
    """Return a table with entries of at least _LEAST that sums to 1."""
    positive = np.maximum(table, _LEAST)
    return np.asarray(positive / positive.sum())


@dataclass(frozen=True)
class Solved:
    """Maximum-likelihood table, unconstrained fractions, and the covariance of the latter.

    The covariance is of errors against the fractions of the very clients that reported. The
    information gives that against a population that they were sampled from, from which the sampling
    covariance of the clients is subtracted.
    """

    likely: np.ndarray
    unconstrained: np.ndarray
    covariance: np.ndarray
    log_likelihood: float


def solve_table(pairs: RatioPairs, start: np.ndarray) -> Solved:
    """Maximise the likelihood, then take one Newton step with the bound at 0 and one without.

    Fractions at 0 cannot fall, so those beside them fall instead: the maximum-likelihood table is
    biased, and intervals about it miss. A step that allows negative fractions is unbiased.
    """
    table = maximize_table(pairs, start).table
    fractions, gain = table.ravel(), _mean_gain(pairs, table)[0].ravel()
    curve = _even(_information(pairs, table))
    inverse = np.linalg.inv(curve)
    edge = inverse.sum(axis=1)
    covariance = inverse - np.outer(edge, edge) / edge.sum()
    own = np.diag(fractions) - np.outer(fractions, fractions)
    unconstrained = fractions + covariance @ (gain - 1)
    likely = _normalized(nonnegative(curve, curve @ fractions + gain - 1, closed=True))
    likely, height = likely.reshape(table.shape), _mean_gain(pairs, likely.reshape(table.shape))[1]
    return Solved(
        likely, unconstrained.reshape(table.shape), (covariance - own) / pairs.total, height
    )


def _information(pairs: RatioPairs, table: np.ndarray) -> np.ndarray:
    """Return the mean over clients of u u', where u is x_r y_r' / (x_r' P y_r) cell by cell."""
    cells, weight = table.size, 0.0
    total = np.zeros((cells, cells))
    every = max(1, round(len(pairs.weights) * cells**2 / _WORK))
    for x, y, weights in pairs.blocks(2048 * every):
        wide, other = x[::every].astype(np.float64), y[::every].astype(np.float64)
        probability = np.einsum("ij,ij->i", wide @ table, other)
        scaled = wide * (np.sqrt(weights[::every]) / probability)[:, None]
        rows = (scaled[:, :, None] * other[:, None, :]).reshape(len(wide), cells)
        total += rows.T @ rows
        weight += float(weights[::every].sum())
    return total / weight


def _even(information: np.ndarray) -> np.ndarray:
    """Add a trace of ridge, so that what reports do not distinguish gets a huge error, not none."""
    return information + 1e-10 * np.diag(np.maximum(np.diag(information), 1e-300))


_FLAT = 1e-9  # of the largest variance: below this a direction carries no information


@dataclass(frozen=True)
class Independence:
    """Score test against the product of the marginals.

    `likelihood_ratio` is twice the gain in log-likelihood of the table over the product of the
    marginals; its distribution depends on how many fractions are 0, so it has no p-value.
    """

    statistic: float
    degrees: int
    p_value: float
    likelihood_ratio: float


def independence(
    pairs: RatioPairs, first: np.ndarray, second: np.ndarray, likelihood_ratio: float
) -> Independence:
    """Test the pairs for independence at the fractions of the two sides."""
    within_first, within_second, across = _moments(pairs, first, second)
    inverse_first, rank_first = _inverse(within_first)
    inverse_second, rank_second = _inverse(within_second)
    statistic = pairs.total * np.sum(inverse_first @ across * (across @ inverse_second))
    degrees = rank_first * rank_second
    p_value = float(scipy.special.chdtrc(degrees, statistic)) if degrees else 1.0
    return Independence(float(statistic), degrees, p_value, float(likelihood_ratio))


def _moments(
    pairs: RatioPairs, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariances within the first side, within the second, and across."""
    wide = len(first) + len(second)
    total, square = np.zeros(wide), np.zeros((wide, wide))
    for x, y, weights in pairs.blocks():
        left, right = x.astype(np.float64), y.astype(np.float64)
        scores = np.hstack([left / (left @ first)[:, None], right / (right @ second)[:, None]]) - 1
        total += weights @ scores
        square += scores.T @ (scores * weights[:, None])
    mean = total / pairs.total
    covariance = square / pairs.total - np.outer(mean, mean)
    cut = len(first)
    return covariance[:cut, :cut], covariance[cut:, cut:], covariance[:cut, cut:]


def _inverse(covariance: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the inverse on the directions that vary, and their number."""
    values, vectors = np.linalg.eigh(covariance)
    varying = values > _FLAT * max(float(values[-1]), 1e-300)
    return (vectors[:, varying] / values[varying]) @ vectors[:, varying].T, int(varying.sum())
