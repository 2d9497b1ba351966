"""What the counts of cells tell of the counts of values: their information, for every kind."""

from collections.abc import Iterator

import numpy as np
from scipy import linalg

from sfumato.telemetry._odds import chances_of, left_over, marked_cells
from sfumato.telemetry._scheme import Scheme

__all__ = ["count_information"]

_DENSE = 2048  # cells; of more, only those that a candidate uses are looked at


def count_information(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray, *, diagonal: bool = False
) -> np.ndarray:
    """J = sum over cohorts of E[b | v]' E[b b']^-1 E[b | w] / m, for values v and w.

    b are the marks of one report and, for kind "bits", a constant 1, whose sum is the reports of
    the cohort. E[b b'] is summed over all clients. Only the diagonal where that is asked for.
    Parameters: members (M, m, s); counts (M + 1,), the last that of values without a set of their
    own, whose set is random.
    """
    size = len(counts)
    out = np.zeros(size if diagonal else (size, size))
    for expected, second in _moments(scheme, members, counts):
        root = linalg.cholesky(second, lower=True, check_finite=False)
        half = linalg.solve_triangular(root, expected, lower=True, check_finite=False)
        out += (half**2).sum(axis=0) if diagonal else half.T @ half
    return out / scheme.cohorts


def _moments(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each cohort E[b | v] (marks, M + 1), and the sum over clients of E[b b']."""
    (high, low), k, total = chances_of(scheme), scheme.cells, counts.sum()
    size = (members >= 0).sum() / members[:, :, 0].size
    held = left_over(scheme, members)
    always, either, both = _pair_chances(scheme, high, low)
    for j in range(scheme.cohorts):
        inside = np.zeros((k + 1, len(members) + 1))  # the row of cell -1 is cut off
        inside[members[:, j].T, np.arange(len(members))] = 1
        inside[:k, -1] = size / k if held is None else held[j]
        inside = inside[_looked_at(k, members[:, j])]
        own = inside @ counts
        pairs = (inside[:, :-1] * counts[:-1]) @ inside[:, :-1].T
        pairs += counts[-1] * size * (size - 1) / (k * max(k - 1, 1))
        second = total * always + either * (own + own[:, None]) + both * pairs
        np.fill_diagonal(second, total * low + (high - low) * own)
        expected = low + (high - low) * inside
        yield _with_one(expected, second, counts) if scheme.kind == "bits" else (expected, second)


def _pair_chances(scheme: Scheme, high: float, low: float) -> tuple[float, float, float]:
    """The chance of two marks in one report: always, + more if one is the value's, + if both."""
    if scheme.kind == "bits":
        return low * low, low * (high - low), (high - low) ** 2
    if scheme.kind == "symbol":
        return 0.0, 0.0, 0.0
    k, w = scheme.cells, marked_cells(scheme)
    neither = (w - 1) * (high * (w - 2) + (1 - high) * w) / max((k - 1) * (k - 2), 1)
    return neither, high * (w - 1) / (k - 1) - neither, 0.0


def _looked_at(k: int, own: np.ndarray) -> np.ndarray:
    return np.arange(k) if k <= _DENSE else np.unique(own[own >= 0])


def _with_one(
    expected: np.ndarray, second: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same with a constant 1 before the marks, so that the number of reports is known."""
    edge = expected @ counts
    corner = np.array([[counts.sum()]])
    second = np.block([[corner, edge[None]], [edge[:, None], second]])
    return np.vstack([np.ones(expected.shape[1]), expected]), second
