"""How likely each candidate makes each report: reports sorted, grouped and streamed in blocks.

What one report says for a value: its likelihood, by how many of the value's cells it marks. What
reports say for each candidate and for "other": likelihoods, a row a report, in blocks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from sfumato.kernels.telemetry import decoding as mixture
from sfumato.kernels.telemetry import decoding as paired
from sfumato.telemetry.decoding.design import Design
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.reports.validation import fitting
from sfumato.telemetry.schemes.base import Scheme

__all__ = [
    "Likely",
    "Marks",
    "Odds",
    "ReportLikelihoods",
    "Symbols",
    "chances_of",
    "left_over",
    "likely_of",
    "marked_cells",
    "odds_of",
    "usable",
]

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


_ROWS = 8192  # of a block of likelihoods


def likely_of(
    scheme: Scheme, members: np.ndarray, cohorts: np.ndarray, payload: np.ndarray
) -> "Likely":
    """Reports of a scheme, each as likely as the values with these sets make it."""
    odds = odds_of(scheme, members)
    if scheme.kind == "symbol":
        symbols = np.ascontiguousarray(payload).view("<u4")[:, 0]
        return Symbols(odds, members, cohorts, symbols)
    return Marks(odds, members, cohorts, payload)


class Likely(Protocol):
    """Rows of equal reports with their weights, and what M values and "other" make of them."""

    weights: np.ndarray
    values: int
    others: bool  # whether there can be a value that is no candidate

    def expect(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The chance of each row under shares (M + 1,), and sum of weight likelihood / chance."""
        ...

    def deviations(self, chances: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Rows, some thousand at a time, and sqrt(weight) (likelihood / chance - 1) (M + 1, rows).

        In float32: the likelihoods of weak reports differ little, but these keep the difference.
        """
        ...

    def sample(self, rows: int) -> "Likely":
        """About so many rows, evenly spaced in the sorted order; weights keep their sum."""
        ...


class Marks:
    """Reports that mark any number of cells: bits and subsets."""

    def __init__(
        self,
        odds: Odds,
        members: np.ndarray,
        cohorts: np.ndarray,
        payload: np.ndarray,
        weights: np.ndarray | None = None,
    ) -> None:
        self.odds, self.members, self.values = odds, members, len(members)
        self.others = odds.held is None or bool(odds.held.any())
        if weights is None:
            cohorts, payload, weights = _grouped(cohorts, payload)
        self._cohorts, self._payload, self.weights = cohorts, payload, weights
        self._flat = _without_candidate(odds, cohorts, payload)

    @cached_property
    def _positions(self) -> tuple[np.ndarray, np.ndarray]:
        by_cohort = np.ascontiguousarray(self.members.transpose(1, 0, 2))
        k = len(self.odds.other) - 1
        room = min(k, self.values * by_cohort.shape[2])
        cells = np.zeros((len(by_cohort), room + 1), np.int32)
        positions = np.empty(by_cohort.shape, np.int32)
        mixture.locate(by_cohort, np.zeros(k, np.int32), cells, positions)
        return cells, positions

    def _starts(self, rows: slice) -> np.ndarray:
        return np.searchsorted(self._cohorts[rows], np.arange(self.members.shape[1] + 1))

    def expect(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chances, gradient = np.empty(len(self.weights)), np.zeros(self.values + 1)
        mixture.expectations(
            self._payload,
            self._starts(slice(None)),
            *self._positions,
            self.odds.base,
            self.odds.ratio,
            self._flat,
            self.weights,
            shares,
            chances,
            gradient,
        )
        return chances, gradient

    def deviations(self, chances: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in _slices(len(self.weights)):
            out = np.empty((self.values + 1, rows.stop - rows.start), np.float32)
            mixture.deviations(
                self._payload[rows],
                self._starts(rows),
                *self._positions,
                self.odds.base,
                self.odds.ratio,
                self._flat[rows],
                self.weights[rows],
                chances[rows],
                out,
            )
            yield rows, out

    def sample(self, rows: int) -> "Marks":
        chosen = _spaced(len(self.weights), rows)
        weights = self.weights[chosen] * (self.weights.sum() / self.weights[chosen].sum())
        part = Marks(self.odds, self.members, self._cohorts[chosen], self._payload[chosen], weights)
        part.__dict__["_places"] = self._positions
        return part


class Symbols:
    """Reports of one cell each: all that they tell is how often each cell came."""

    def __init__(
        self, odds: Odds, members: np.ndarray, cohorts: np.ndarray, symbols: np.ndarray
    ) -> None:
        self.values, k = len(members), len(odds.other) - 1
        self.others = odds.held is None or bool(odds.held.any())
        cells, weights = np.unique(cohorts * np.int64(k) + symbols, return_counts=True)
        self.weights = weights.astype(np.float64)
        self._clear, self._more = odds.clear, odds.clear * (odds.ratio - 1)
        self._inside = _indicator(members, k)[cells].tocsr()
        held = odds.held
        flat = odds.other[1] if held is None else odds.clear + self._more * held.reshape(-1)[cells]
        self._flat = np.broadcast_to(flat, self.weights.shape)

    def expect(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = self._more * (self._inside @ shares[:-1])
        chances = self._clear * shares[:-1].sum() + inside + shares[-1] * self._flat
        pull = self.weights / chances
        gradient = self._clear * pull.sum() + self._more * (self._inside.T @ pull)
        return chances, np.append(gradient, pull @ self._flat)

    def deviations(self, chances: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in _slices(len(self.weights)):
            inside = self._clear + self._more * self._inside[rows].toarray().T
            likelihoods = np.vstack([inside, self._flat[rows]])
            root = np.sqrt(self.weights[rows])
            yield rows, (root * (likelihoods / chances[rows] - 1)).astype(np.float32)

    def sample(self, rows: int) -> "Symbols":
        return self  # cells are few, and their counts are not


def _without_candidate(odds: Odds, cohorts: np.ndarray, payload: np.ndarray) -> np.ndarray:
    """The likelihood of every report under a value that is no candidate."""
    out = np.empty(len(payload))
    if odds.held is None:
        marks = np.empty(len(payload), np.int64)
        mixture.marks(payload, marks)
        return np.asarray(odds.other[np.minimum(marks, len(odds.other) - 1)])
    for rows in _slices(len(payload)):
        bits = np.unpackbits(payload[rows], axis=1, bitorder="little", count=odds.held.shape[1])
        out[rows] = (bits * odds.held[cohorts[rows]]).sum(axis=1)
    return odds.clear * (1 + (odds.ratio - 1) * out)


def _indicator(members: np.ndarray, cells: int) -> sparse.csr_matrix:
    """1 in row j k + i, column v where cell i is in S_j(v)."""
    values, cohorts, _ = members.shape
    v, j, c = np.nonzero(members >= 0)
    rows = j * cells + members[v, j, c]
    return sparse.csr_matrix((np.ones(len(v)), (rows, v)), shape=(cohorts * cells, values))


def _grouped(cohorts: np.ndarray, payload: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Reports sorted by cohort; equal ones become one row where a payload is one machine word."""
    if payload.shape[1] > 8:
        order = np.argsort(cohorts, kind="stable")
        return cohorts[order], payload[order], np.ones(len(order))
    wide = np.zeros((len(payload), 8), np.uint8)
    wide[:, : payload.shape[1]] = payload
    words = wide.view(np.uint64)[:, 0]
    order = np.lexsort((words, cohorts))
    cohorts, words = cohorts[order], words[order]
    first = np.ones(len(order), bool)
    first[1:] = (cohorts[1:] != cohorts[:-1]) | (words[1:] != words[:-1])
    starts = np.flatnonzero(first)
    weights = np.diff(np.append(starts, len(order))).astype(np.float64)
    return cohorts[starts], payload[order[starts]], weights


def _slices(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + _ROWS, rows)) for start in range(0, rows, _ROWS))


def _spaced(rows: int, wanted: int) -> np.ndarray:
    if rows <= wanted:
        return np.arange(rows)
    return (np.arange(wanted) * rows) // wanted


_HELD = 2**28  # bytes of likelihoods that are kept; more are made again whenever they are read


def usable(reports: Reports) -> np.ndarray:
    """True where a client can have sent the report, by the rule of `Counts`: a mask."""
    return fitting(reports.scheme, reports)[0]


def symbols_of(reports: Reports) -> np.ndarray:
    return np.ascontiguousarray(reports.payload).view("<u4")[:, 0].astype(np.int64)


class ReportLikelihoods:
    """Likelihoods of reports under candidates; the last column is that of "other", if there is one.

    Each row is scaled so that its largest is 1, which no comparison of candidates sees. "Other" is
    a value that is no candidate: where the scheme knows its values, any of those that are left,
    and there is no "other" if none is; else one whose cells are drawn at random.
    """

    def __init__(self, reports: Reports, design: Design, *, other: bool) -> None:
        self._reports, self._scheme = reports, reports.scheme
        self._members = np.ascontiguousarray(design.members.transpose(1, 0, 2))
        self._odds = odds_of(self._scheme, design.members)
        self._powers = self._odds.ratio ** np.arange(1.0 + self._members.shape[2])
        left = self._odds.held
        self.other = other and (left is None or bool(left.any()))
        self.columns = len(design) + self.other
        self._kept: np.ndarray | None = None

    def held(self) -> Self:
        """Keep all likelihoods if they are not too many."""
        if 4 * len(self._reports) * self.columns <= _HELD:
            self._kept = self.block(slice(None))
        return self

    def block(self, rows: slice) -> np.ndarray:
        """The likelihoods of these rows, float32."""
        if self._kept is not None:
            return self._kept[rows]
        sent = self._reports.take(rows)
        out = np.empty((len(sent), self.columns))
        named = out[:, : self.columns - self.other]
        distribution = (sent.cohorts, self._members, self._odds.base, self._powers, named)
        if self._scheme.kind == "symbol":
            paired.of_symbols(symbols_of(sent), *distribution)
        else:
            paired.of_bits(sent.payload, *distribution)
        if self.other:
            out[:, -1] = self._unnamed(sent)
        out /= out.max(axis=1, keepdims=True, initial=0)
        return out.astype(np.float32)

    def _unnamed(self, sent: Reports) -> np.ndarray:
        """The likelihood of "other": a sum over marked cells, or by how many are marked."""
        odds, symbol = self._odds, self._scheme.kind == "symbol"
        if odds.held is None:
            if symbol:
                return np.full(len(sent), odds.other[1])
            marks = np.empty(len(sent), np.int64)
            mixture.marks(sent.payload, marks)
            return np.asarray(odds.other[np.minimum(marks, self._scheme.cells)])
        weights = odds.clear * (odds.ratio - 1) * odds.held[0]  # known values have one cohort
        if symbol:
            return np.asarray(odds.clear + weights[symbols_of(sent)])
        out, spare = np.empty(len(sent)), 8 * self._scheme.payload_bytes - len(weights)
        paired.weighted_marks(sent.payload, np.append(weights, np.zeros(spare)), out)
        return out + odds.clear
