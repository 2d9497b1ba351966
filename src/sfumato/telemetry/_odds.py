"""What one report says for a value: its likelihood, by how many of the value's cells it marks.

Under a value whose set in cohort j is S_j, against reports that depend on no value, a report has
the likelihood base ratio**ones, where `ones` is how many cells of S_j it marks:

- bits: ratio = high (1 - low) / (low (1 - high)), base = ((1 - high) / (1 - low))**size of S_j;
- symbol (one of k cells): k high if it is in S_j, else k low;
- subset (w of k cells): k high / w if it holds the one cell of S_j, else k (1 - high) / (k - w),
  since all subsets with the cell are alike, and so are all without.

A value that is no candidate is, where the scheme knows its values, any of those that are left, each
as likely; else its set is as likely to be any cells as any others.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sfumato.telemetry._scheme import Scheme

__all__ = ["Odds", "chances_of", "left_over", "marked_cells", "odds_of"]

_DOUBT = 2.0**-24  # in place of a chance of 0 or 1, whose ratios would be infinite


@dataclass(frozen=True)
class Odds:
    """The numbers behind a likelihood: base[j, v] ratio**ones under candidate v of cohort j.

    `other` is the likelihood without a candidate, by how many of all cells are marked. Where
    `held` is given, which says how many of the values that are left hold cell i of cohort j, it is
    clear (1 + (ratio - 1) times the sum of held over marked cells) instead.
    """

    ratio: float
    clear: float
    base: np.ndarray
    other: np.ndarray
    held: np.ndarray | None


def chances_of(scheme: Scheme) -> tuple[float, float]:
    """high and low, kept off 0 and 1."""
    return min(float(scheme.high), 1 - _DOUBT), max(float(scheme.low), _DOUBT)


def marked_cells(scheme: Scheme, size: int = 1) -> int:
    """How many cells a symbol or subset marks, always."""
    return round(size * float(scheme.high) + (scheme.cells - size) * float(scheme.low))


def odds_of(scheme: Scheme, members: np.ndarray) -> Odds:
    """The odds of a scheme for candidates whose sets are members (M, m, s)."""
    (high, low), cells = chances_of(scheme), scheme.cells
    sizes = np.ascontiguousarray((members >= 0).sum(axis=2).T)
    held = left_over(scheme, members)
    if scheme.kind == "bits":
        ratio, clear = high * (1 - low) / (low * (1 - high)), (1 - high) / (1 - low)
        return Odds(ratio, clear, clear**sizes, _random_sets(cells, sizes, ratio, clear), held)
    if scheme.kind == "symbol":
        ratio, clear = high / low, cells * low
    else:
        marked = marked_cells(scheme)
        ratio = high * (cells - marked) / ((1 - high) * marked)
        clear = cells * (1 - high) / (cells - marked)
    return Odds(ratio, clear, np.full(sizes.shape, clear), np.ones(cells + 1), held)


def left_over(scheme: Scheme, members: np.ndarray) -> np.ndarray | None:
    """Of the scheme's own values that are no candidates, the part that holds each cell (m, k).

    None where the scheme takes any value; all zero where none is left.
    """
    values = getattr(scheme, "domain", None)
    if values is None:
        return None
    named = {row.tobytes() for row in np.ascontiguousarray(members, np.int32)}
    domain = np.ascontiguousarray(scheme.members(values), np.int32)
    left = domain[[row.tobytes() not in named for row in domain]]
    v, j, c = np.nonzero(left >= 0)
    held = np.zeros((scheme.cohorts, scheme.cells))
    np.add.at(held, (j, left[v, j, c]), 1 / max(len(left), 1))
    return held


def _random_sets(cells: int, sizes: np.ndarray, ratio: float, clear: float) -> np.ndarray:
    """The mean likelihood over all sets of a size, by how many of all cells are marked.

    It is the elementary symmetric polynomial of the cells' factors over the number of its terms;
    sizes are as frequent as among the candidates.
    """
    marks, out = np.arange(cells + 1), np.zeros(cells + 1)
    for size, times in zip(*np.unique(sizes, return_counts=True), strict=True):
        for ones in range(int(size) + 1):
            ways = _log_choose(marks, ones) + _log_choose(cells - marks, size - ones)
            chance = np.exp(ways - _log_choose(np.array(cells), size))
            out += times / sizes.size * chance * ratio**ones * clear ** int(size)
    return out


def _log_choose(n: np.ndarray, k: int) -> np.ndarray:
    """The log of n over k, minus infinity where k exceeds n."""
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(np.maximum(n - k, 0) + 1.0)
    return np.where(n < k, -np.inf, ways)
