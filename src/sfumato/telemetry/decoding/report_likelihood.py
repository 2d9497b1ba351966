"""Likelihoods of reports under each candidate and "other", grouped and streamed in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

import numpy as np
import scipy

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
    "cells_of_others",
    "likely_of",
    "marked_cells",
    "odds_of",
    "probabilities_of",
    "usable",
]

_MARGIN = 2.0**-24  # instead of a probability of 0 or 1, whose ratios would be infinite


@dataclass(frozen=True)
class Odds:
    """Constants of a likelihood: base[j, v] ratio**ones under candidate v of cohort j.

    `other` is the likelihood without a candidate, by the number of marked cells. If `other_cells`
    is given, the fraction of the remaining values that have cell i of cohort j, it is
    clear (1 + (ratio - 1) times the sum of other_cells over marked cells) instead.
    """

    ratio: float
    clear: float
    base: np.ndarray
    other: np.ndarray
    other_cells: np.ndarray | None


def probabilities_of(scheme: Scheme) -> tuple[float, float]:
    """Return high and low, clipped away from 0 and 1."""
    return min(float(scheme.high), 1 - _MARGIN), max(float(scheme.low), _MARGIN)


def marked_cells(scheme: Scheme, size: int = 1) -> int:
    """Return the number of cells that every symbol or subset marks."""
    return round(size * float(scheme.high) + (scheme.cells - size) * float(scheme.low))


def odds_of(scheme: Scheme, members: np.ndarray) -> Odds:
    """Return the odds of a scheme for candidates whose sets are members (M, m, s)."""
    (high, low), cells = probabilities_of(scheme), scheme.cells
    sizes = np.ascontiguousarray((members >= 0).sum(axis=2).T)
    other_cells = cells_of_others(scheme, members)
    if scheme.kind == "bits":
        ratio, clear = high * (1 - low) / (low * (1 - high)), (1 - high) / (1 - low)
        return Odds(
            ratio, clear, clear**sizes, _random_sets(cells, sizes, ratio, clear), other_cells
        )
    if scheme.kind == "symbol":
        ratio, clear = high / low, cells * low
    else:
        marked = marked_cells(scheme)
        ratio = high * (cells - marked) / ((1 - high) * marked)
        clear = cells * (1 - high) / (cells - marked)
    return Odds(ratio, clear, np.full(sizes.shape, clear), np.ones(cells + 1), other_cells)


def cells_of_others(scheme: Scheme, members: np.ndarray) -> np.ndarray | None:
    """Return the fraction of domain values that are no candidates having each cell (m, k).

    None if the scheme takes any value; all zero if every value is a candidate.
    """
    values = getattr(scheme, "domain", None)
    if values is None:
        return None
    named = {row.tobytes() for row in np.ascontiguousarray(members, np.int32)}
    domain = np.ascontiguousarray(scheme.members(values), np.int32)
    others = domain[[row.tobytes() not in named for row in domain]]
    v, j, c = np.nonzero(others >= 0)
    other_cells = np.zeros((scheme.cohorts, scheme.cells))
    np.add.at(other_cells, (j, others[v, j, c]), 1 / max(len(others), 1))
    return other_cells


def _random_sets(cells: int, sizes: np.ndarray, ratio: float, clear: float) -> np.ndarray:
    """Return the mean likelihood over all sets of a size, by the number of marked cells.

    It is the elementary symmetric polynomial of the cells' factors over the number of its terms;
    sizes are as frequent as among the candidates.
    """
    marks, out = np.arange(cells + 1), np.zeros(cells + 1)
    for size, times in zip(*np.unique(sizes, return_counts=True), strict=True):
        for ones in range(int(size) + 1):
            ways = _log_choose(marks, ones) + _log_choose(cells - marks, size - ones)
            probability = np.exp(ways - _log_choose(np.array(cells), size))
            out += times / sizes.size * probability * ratio**ones * clear ** int(size)
    return out


def _log_choose(n: np.ndarray, k: int) -> np.ndarray:
    """Return the log of n over k, minus infinity where k exceeds n."""
    ways = (
        scipy.special.gammaln(n + 1.0)
        - scipy.special.gammaln(k + 1.0)
        - scipy.special.gammaln(np.maximum(n - k, 0) + 1.0)
    )
    return np.where(n < k, -np.inf, ways)


_ROWS = 8192  # of a block of likelihoods


def likely_of(
    scheme: Scheme, members: np.ndarray, cohorts: np.ndarray, payload: np.ndarray
) -> Likely:
    """Return the reports of a scheme with their likelihoods under values with these sets."""
    odds = odds_of(scheme, members)
    if scheme.kind == "symbol":
        symbols = np.ascontiguousarray(payload).view("<u4")[:, 0]
        return Symbols(odds, members, cohorts, symbols)
    return Marks(odds, members, cohorts, payload)


class Likely(Protocol):
    """Distinct reports with weights, and their likelihoods under M values and "other"."""

    weights: np.ndarray
    values: int
    others: bool  # whether there can be a value that is no candidate

    def expect(self, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability p of each row under fractions (M + 1,), and sum weight L / p."""
        ...

    def deviations(self, probabilities: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of rows and sqrt(weight) (likelihood / probability - 1) (M + 1, rows).

        In float32: likelihoods of weak reports differ little, but these retain the difference.
        """
        ...

    def sample(self, rows: int) -> Likely:
        """Return about this number of rows, evenly spaced in order, with the same total weight."""
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
        self.others: bool = odds.other_cells is None or bool(odds.other_cells.any())
        if weights is None:
            cohorts, payload, weights = _grouped(cohorts, payload)
        self._cohorts, self._payload, self.weights = cohorts, payload, weights
        self._flat = _without_candidate(odds, cohorts, payload)

    @cached_property
    def _positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Cells that candidates use in each cohort, and the positions of their own among these."""
        by_cohort = np.ascontiguousarray(self.members.transpose(1, 0, 2))
        k = len(self.odds.other) - 1
        room = min(k, self.values * by_cohort.shape[2])
        cells = np.zeros((len(by_cohort), room + 1), np.int32)
        positions = np.empty(by_cohort.shape, np.int32)
        mixture.locate(by_cohort, np.zeros(k, np.int32), cells, positions)
        return cells, positions

    def _starts(self, rows: slice) -> np.ndarray:
        """Return where each cohort starts among these rows."""
        return np.searchsorted(self._cohorts[rows], np.arange(self.members.shape[1] + 1))

    def expect(self, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        probabilities, gradient = np.empty(len(self.weights)), np.zeros(self.values + 1)
        mixture.expectations(
            self._payload,
            self._starts(slice(None)),
            *self._positions,
            self.odds.base,
            self.odds.ratio,
            self._flat,
            self.weights,
            fractions,
            probabilities,
            gradient,
        )
        return probabilities, gradient

    def deviations(self, probabilities: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
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
                probabilities[rows],
                out,
            )
            yield rows, out

    def sample(self, rows: int) -> Marks:
        chosen = _spaced(len(self.weights), rows)
        weights = self.weights[chosen] * (self.weights.sum() / self.weights[chosen].sum())
        part = Marks(self.odds, self.members, self._cohorts[chosen], self._payload[chosen], weights)
        part.__dict__["_positions"] = self._positions
        return part


class Symbols:
    """Reports of one cell each, for which the counts of cells are sufficient."""

    def __init__(
        self, odds: Odds, members: np.ndarray, cohorts: np.ndarray, symbols: np.ndarray
    ) -> None:
        self.values, k = len(members), len(odds.other) - 1
        self.others: bool = odds.other_cells is None or bool(odds.other_cells.any())
        cells, weights = np.unique(cohorts * np.int64(k) + symbols, return_counts=True)
        self.weights = weights.astype(np.float64)
        self._clear, self._more = odds.clear, odds.clear * (odds.ratio - 1)
        self._inside = _indicator(members, k)[cells].tocsr()
        flat = odds.other[1]
        if odds.other_cells is not None:
            flat = odds.clear + self._more * odds.other_cells.reshape(-1)[cells]
        self._flat = np.broadcast_to(flat, self.weights.shape)

    def expect(self, fractions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = self._more * (self._inside @ fractions[:-1])
        probabilities = self._clear * fractions[:-1].sum() + inside + fractions[-1] * self._flat
        pull = self.weights / probabilities
        gradient = self._clear * pull.sum() + self._more * (self._inside.T @ pull)
        return probabilities, np.append(gradient, pull @ self._flat)

    def deviations(self, probabilities: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in _slices(len(self.weights)):
            inside = self._clear + self._more * self._inside[rows].toarray().T
            likelihoods = np.vstack([inside, self._flat[rows]])
            root = np.sqrt(self.weights[rows])
            yield rows, (root * (likelihoods / probabilities[rows] - 1)).astype(np.float32)

    def sample(self, rows: int) -> Symbols:
        return self  # cells are few, and their counts are not


def _without_candidate(odds: Odds, cohorts: np.ndarray, payload: np.ndarray) -> np.ndarray:
    """Return the likelihood of every report under a value that is no candidate."""
    out = np.empty(len(payload))
    if odds.other_cells is None:
        marks = np.empty(len(payload), np.int64)
        mixture.marks(payload, marks)
        return np.asarray(odds.other[np.minimum(marks, len(odds.other) - 1)])
    for rows in _slices(len(payload)):
        bits = np.unpackbits(
            payload[rows], axis=1, bitorder="little", count=odds.other_cells.shape[1]
        )
        out[rows] = (bits * odds.other_cells[cohorts[rows]]).sum(axis=1)
    return odds.clear * (1 + (odds.ratio - 1) * out)


def _indicator(members: np.ndarray, cells: int) -> scipy.sparse.csr_matrix:
    """Return a matrix with 1 in row j k + i, column v where cell i is in S_j(v)."""
    values, cohorts, _ = members.shape
    v, j, c = np.nonzero(members >= 0)
    rows = j * cells + members[v, j, c]
    return scipy.sparse.csr_matrix((np.ones(len(v)), (rows, v)), shape=(cohorts * cells, values))


def _grouped(cohorts: np.ndarray, payload: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort reports by cohort; merge equal ones if a payload is one machine word."""
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
    """Return slices of _ROWS rows."""
    return (slice(start, min(start + _ROWS, rows)) for start in range(0, rows, _ROWS))


def _spaced(rows: int, wanted: int) -> np.ndarray:
    """Return about this number of evenly spaced rows."""
    if rows <= wanted:
        return np.arange(rows)
    return (np.arange(wanted) * rows) // wanted


_CACHED = 2**28  # bytes of likelihoods that are stored; more are computed again at every read


def usable(reports: Reports) -> np.ndarray:
    """Return a mask of the reports that a client can have sent, by the rule of `Counts`."""
    return fitting(reports.scheme, reports)[0]


def symbols_of(reports: Reports) -> np.ndarray:
    """Return the cell of every report of kind "symbol"."""
    return np.ascontiguousarray(reports.payload).view("<u4")[:, 0].astype(np.int64)


class ReportLikelihoods:
    """Likelihoods of reports under candidates; the last column is that of "other", if there is one.

    Each row is scaled to a maximum of 1, which does not affect comparisons. "Other" is a value that
    is no candidate: if the scheme knows its values, any of the remaining ones, and there is no
    "other" if none remains; else one with random cells.
    """

    def __init__(self, reports: Reports, design: Design, *, other: bool) -> None:
        self._reports, self._scheme = reports, reports.scheme
        self._members = np.ascontiguousarray(design.members.transpose(1, 0, 2))
        self._odds = odds_of(self._scheme, design.members)
        self._powers = self._odds.ratio ** np.arange(1.0 + self._members.shape[2])
        other_cells = self._odds.other_cells
        self.other: bool = other and (other_cells is None or bool(other_cells.any()))
        self.columns: int = len(design) + self.other
        self._cache: np.ndarray | None = None

    def cached(self) -> Self:
        """Compute and store all likelihoods if they fit in memory."""
        if 4 * len(self._reports) * self.columns <= _CACHED:
            self._cache = self.block(slice(None))
        return self

    def block(self, rows: slice) -> np.ndarray:
        """Return the likelihoods of these rows, float32."""
        if self._cache is not None:
            return self._cache[rows]
        sent = self._reports.take(rows)
        out = np.empty((len(sent), self.columns))
        named = out[:, : self.columns - self.other]
        columns = (sent.cohorts, self._members, self._odds.base, self._powers, named)
        if self._scheme.kind == "symbol":
            paired.of_symbols(symbols_of(sent), *columns)
        else:
            paired.of_bits(sent.payload, *columns)
        if self.other:
            out[:, -1] = self._unnamed(sent)
        out /= out.max(axis=1, keepdims=True, initial=0)
        return out.astype(np.float32)

    def _unnamed(self, sent: Reports) -> np.ndarray:
        """Return the likelihood of "other": a sum over marked cells, or by their number."""
        odds, symbol = self._odds, self._scheme.kind == "symbol"
        if odds.other_cells is None:
            if symbol:
                return np.full(len(sent), odds.other[1])
            marks = np.empty(len(sent), np.int64)
            mixture.marks(sent.payload, marks)
            return np.asarray(odds.other[np.minimum(marks, self._scheme.cells)])
        # Known values have one cohort.
        weights = odds.clear * (odds.ratio - 1) * odds.other_cells[0]
        if symbol:
            return np.asarray(odds.clear + weights[symbols_of(sent)])
        out, spare = np.empty(len(sent)), 8 * self._scheme.payload_bytes - len(weights)
        paired.weighted_marks(sent.payload, np.append(weights, np.zeros(spare)), out)
        return out + odds.clear
