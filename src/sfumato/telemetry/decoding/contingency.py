"""The table of shares that makes pairs of reports most likely, and how well it is known.

Report r has likelihoods x_r over the rows of the table and y_r over its columns, so it has the
likelihood x_r' P y_r. Expectation maximisation multiplies P by the mean of x_r y_r' / (x_r' P y_r)
(Fanti, Pihur and Erlingsson 2016, section III), accelerated as in Varadhan and Roland 2008.

Are two variables that the same clients reported independent? A test that needs no table.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.stats import chi2

from sfumato.telemetry.decoding.weighted_least_squares import nonnegative

__all__ = [
    "Independence",
    "RatioPairs",
    "Ratios",
    "Shares",
    "Solved",
    "independence",
    "maximize_table",
    "solve_table",
]

_ROWS = 2048  # of a block: two blocks of ratios stay in the cache
_LEAST = 1e-12  # a share of exactly 0 could never grow again
_READS = 1000
_GAIN = 0.3  # of the log-likelihood in an accelerated step: near enough for a step of Newton's
_WORK = 4e11  # multiplications for the information: beyond, it is taken from evenly spaced rows


class Ratios(Protocol):
    """Likelihood ratios: a row a report, a column a candidate, in blocks of rows."""

    @property
    def columns(self) -> int: ...

    def block(self, rows: slice) -> np.ndarray: ...


@dataclass(frozen=True)
class RatioPairs:
    """Ratios of both sides, row by row, and how many clients each row stands for."""

    first: Ratios
    second: Ratios
    weights: np.ndarray

    def blocks(self, rows: int = _ROWS) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for start in range(0, len(self.weights), rows):
            part = slice(start, start + rows)
            yield self.first.block(part), self.second.block(part), self.weights[part]

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def alone(self, side: Ratios) -> "RatioPairs":
        """One side: the other becomes a single column that every report fits equally well."""
        return RatioPairs(side, _Ones(len(self.weights)), self.weights)


@dataclass(frozen=True)
class _Ones:
    rows: int
    columns: int = 1

    def block(self, rows: slice) -> np.ndarray:
        return np.ones((len(range(self.rows)[rows]), 1), np.float32)


@dataclass(frozen=True)
class Shares:
    """Where the climb ended: the table, its log-likelihood, and how often all rows were read."""

    table: np.ndarray
    log_likelihood: float
    reads: int


def maximize_table(pairs: RatioPairs, start: np.ndarray | None = None) -> Shares:
    """Climb from a table of shares (equal ones) until a step gains nothing that could be seen."""
    reads = 0

    def climb(table: np.ndarray) -> tuple[np.ndarray, float]:
        nonlocal reads
        reads += 1
        gain, likelihood = _mean_gain(pairs, table)
        return _shares(table * gain), likelihood

    table = _shares(
        np.ones((pairs.first.columns, pairs.second.columns)) if start is None else start
    )
    before = -np.inf
    while True:
        once, here = climb(table)
        if here - before < _GAIN or reads >= _READS:
            return Shares(once, here, reads)
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
    """Go on along the bend of two steps, unless that leads below what the first one reached."""
    change, bend = once - table, (twice - once) - (once - table)
    far = np.sqrt(np.sum(change**2) / max(float(np.sum(bend**2)), 1e-300))
    if far <= 1:
        return twice
    landed, likelihood = climb(_shares(table + 2 * far * change + far**2 * bend))
    return landed if likelihood >= reached else twice


def _mean_gain(pairs: RatioPairs, table: np.ndarray) -> tuple[np.ndarray, float]:
    """The mean of x_r y_r' / (x_r' P y_r), and the log-likelihood of P."""
    gain, likelihood = np.zeros(table.shape), 0.0
    narrow = table.astype(np.float32)
    for x, y, weights in pairs.blocks():
        chance = np.einsum("ij,ij->i", x @ narrow, y).astype(np.float64)
        likelihood += float(weights @ np.log(chance))
        gain += x.T @ (y * (weights / chance).astype(np.float32)[:, None])
    return gain / pairs.total, likelihood


def _shares(table: np.ndarray) -> np.ndarray:
    kept = np.maximum(table, _LEAST)
    return np.asarray(kept / kept.sum())


@dataclass(frozen=True)
class Solved:
    """A table of most likelihood, shares freed of the bound at 0, and the errors of the latter.

    The covariance, cell by cell, is of errors against the shares of the very clients that reported.
    The information gives those against a population that they were drawn from; an efficient
    estimate and the clients' own shares differ by what is left when the spread of the latter is
    taken off.
    """

    likely: np.ndarray
    free: np.ndarray
    covariance: np.ndarray
    log_likelihood: float


def solve_table(pairs: RatioPairs, start: np.ndarray) -> Solved:
    """Climb, then take one Newton step with the bound at 0 and one without.

    Shares at 0 cannot fall, so those beside them fall instead: the table of most likelihood is
    biased, and intervals about it miss. A step that lets shares be negative is not.
    """
    table = maximize_table(pairs, start).table
    shares, gain = table.ravel(), _mean_gain(pairs, table)[0].ravel()
    curve = _even(_information(pairs, table))
    inverse = np.linalg.inv(curve)
    edge = inverse.sum(axis=1)
    spread = inverse - np.outer(edge, edge) / edge.sum()
    own = np.diag(shares) - np.outer(shares, shares)
    free = shares + spread @ (gain - 1)
    likely = _shares(nonnegative(curve, curve @ shares + gain - 1, closed=True))
    likely, height = likely.reshape(table.shape), _mean_gain(pairs, likely.reshape(table.shape))[1]
    return Solved(likely, free.reshape(table.shape), (spread - own) / pairs.total, height)


def _information(pairs: RatioPairs, table: np.ndarray) -> np.ndarray:
    """The mean over clients of u u', where u holds x_r y_r' / (x_r' P y_r) cell by cell."""
    cells, seen = table.size, 0.0
    total = np.zeros((cells, cells))
    every = max(1, round(len(pairs.weights) * cells**2 / _WORK))
    for x, y, weights in pairs.blocks(2048 * every):
        wide, other = x[::every].astype(np.float64), y[::every].astype(np.float64)
        chance = np.einsum("ij,ij->i", wide @ table, other)
        scaled = wide * (np.sqrt(weights[::every]) / chance)[:, None]
        rows = (scaled[:, :, None] * other[:, None, :]).reshape(len(wide), cells)
        total += rows.T @ rows
        seen += float(weights[::every].sum())
    return total / seen


def _even(information: np.ndarray) -> np.ndarray:
    """What reports do not tell apart gets a huge error rather than none: a trace of ridge."""
    return information + 1e-10 * np.diag(np.maximum(np.diag(information), 1e-300))


_FLAT = 1e-9  # of the largest variance: below this a direction carries no information


@dataclass(frozen=True)
class Independence:
    """The score statistic against the product of the marginals, with its chance if independent.

    `likelihood_ratio` is twice what the table of shares gains in log-likelihood over the product
    of the marginals; its law depends on how many shares are 0, so it comes without a p-value.
    """

    statistic: float
    degrees: int
    p_value: float
    likelihood_ratio: float


def independence(
    pairs: RatioPairs, first: np.ndarray, second: np.ndarray, likelihood_ratio: float
) -> Independence:
    """Test the pairs at the shares of the two sides."""
    within_first, within_second, across = _moments(pairs, first, second)
    inverse_first, rank_first = _inverse(within_first)
    inverse_second, rank_second = _inverse(within_second)
    statistic = pairs.total * np.sum(inverse_first @ across * (across @ inverse_second))
    degrees = rank_first * rank_second
    chance = float(chi2.sf(statistic, degrees)) if degrees else 1.0
    return Independence(float(statistic), degrees, chance, float(likelihood_ratio))


def _moments(
    pairs: RatioPairs, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances within the first side, within the second, and across."""
    wide = len(first) + len(second)
    total, square = np.zeros(wide), np.zeros((wide, wide))
    for x, y, weights in pairs.blocks():
        left, right = x.astype(np.float64), y.astype(np.float64)
        scores = np.hstack([left / (left @ first)[:, None], right / (right @ second)[:, None]]) - 1
        total += weights @ scores
        square += scores.T @ (scores * weights[:, None])
    mean = total / pairs.total
    spread = square / pairs.total - np.outer(mean, mean)
    cut = len(first)
    return spread[:cut, :cut], spread[cut:, cut:], spread[:cut, cut:]


def _inverse(spread: np.ndarray) -> tuple[np.ndarray, int]:
    """The inverse on the directions that vary, and how many there are."""
    values, vectors = np.linalg.eigh(spread)
    kept = values > _FLAT * max(float(values[-1]), 1e-300)
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, int(kept.sum())
