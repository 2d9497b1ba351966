"""How likely each candidate makes each report: reports sorted, grouped and streamed in blocks."""

from collections.abc import Iterator
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import sparse

from sfumato.kernels import mixture
from sfumato.telemetry._odds import Odds, odds_of
from sfumato.telemetry._scheme import Scheme

__all__ = ["Likely", "Marks", "Symbols", "likely_of"]

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
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        by_cohort = np.ascontiguousarray(self.members.transpose(1, 0, 2))
        k = len(self.odds.other) - 1
        room = min(k, self.values * by_cohort.shape[2])
        cells = np.zeros((len(by_cohort), room + 1), np.int32)
        places = np.empty(by_cohort.shape, np.int32)
        mixture.locate(by_cohort, np.zeros(k, np.int32), cells, places)
        return cells, places

    def _starts(self, rows: slice) -> np.ndarray:
        return np.searchsorted(self._cohorts[rows], np.arange(self.members.shape[1] + 1))

    def expect(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chances, gradient = np.empty(len(self.weights)), np.zeros(self.values + 1)
        mixture.expectations(
            self._payload,
            self._starts(slice(None)),
            *self._places,
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
                *self._places,
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
        part.__dict__["_places"] = self._places
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
