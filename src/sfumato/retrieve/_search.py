"""Searching rows that are held: a scan for a short-list, and better scores for what is on it."""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels import rerank, signed
from sfumato.kernels.scan import hamming_nearest
from sfumato.kernels.scan_weighted import weighted_best
from sfumato.retrieve._fitted import Fitted
from sfumato.retrieve._held import Held
from sfumato.retrieve._space import lengths

__all__ = ["Plan", "padding", "search"]

ROOM = 1 << 20  # entries of the short-lists of one batch of queries


class Plan(NamedTuple):
    """What is asked for: the k best of a short-list, how that is made, and how it is scored."""

    k: int
    shortlist: int
    scan: str
    rerank: str | None


def search(
    held: Held,
    fitted: Fitted,
    queries: np.ndarray,
    plan: Plan,
    alive: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids of the k best of each query, best first, padded by -inf and -1.

    Guarantee: a query's answer does not depend on the queries that are asked with it, and equal
    scores stand in the order of rows.
    """
    scores, ids = padding(len(queries), plan.k)
    size = min(plan.k if plan.rerank is None else max(plan.shortlist, plan.k), held.living)
    step = max(1, ROOM // max(size, 1))
    for start in range(0, len(queries) if size else 0, step):
        part = slice(start, start + step)
        batch = _Batch(held, fitted, fitted.space.targets(queries[part]), alive)
        found, answers = batch.answer(plan, size)
        scores[part, : found.shape[1]] = answers
        ids[part, : found.shape[1]] = np.where(found >= 0, held.ids[found], -1)
    return scores, ids


def padding(queries: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids where nothing was found."""
    return np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64)


class _Batch:
    """Some queries, and what has been computed for them."""

    def __init__(
        self, held: Held, fitted: Fitted, targets: np.ndarray, alive: np.ndarray | None
    ) -> None:
        self.held, self.encoder, self.space, self.alive = held, *fitted[:2], alive
        self.targets, self.points = targets, fitted.space.asked(targets)
        self.factors = None if held.factors is None else _still(held.factors[: held.count])
        self._weights: tuple[np.ndarray, np.ndarray] | None = None

    def answer(self, plan: Plan, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and scores of at most k, best first."""
        found, scores = self._hamming(size) if plan.scan == "hamming" else self._asymmetric(size)
        if plan.rerank is None:
            return found, scores
        starts, rows = _ascending(found)
        shape = (len(found), min(plan.k, size))
        best, scores = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
        if plan.rerank == "exact":
            assert self.held.vectors is not None
            vectors = _still(self.held.vectors[: self.held.count])
            rerank.products(vectors, self.targets, starts, rows, best, scores)
        else:
            weights, offsets = self.weights()
            factors = _still(np.empty(0, np.float32)) if self.factors is None else self.factors
            signed.best(self.held.words, factors, weights, starts, rows, best, scores)
            scores += offsets[:, None]
        return best, scores

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the bits, and what is added to every score of a query."""
        if self._weights is None:
            weights, offsets = self.encoder.query_weights(self.points)
            self._weights = weights, offsets * np.float32(self.space.longest or 1)
        return self._weights

    def _hamming(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        held = self.held
        blocks = held.words if held.short is None else held.short
        words = self.encoder.query_words(self.points)
        found, apart = hamming_nearest(blocks, held.count, self.alive, words, size)
        cosines = np.cos(apart * (math.pi / self.encoder.bits))
        if self.space.longest:
            cosines *= self.space.longest * lengths(self.targets)[:, None]
        return found, np.where(found >= 0, cosines, -np.inf).astype(np.float32)

    def _asymmetric(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        held, (weights, offsets) = self.held, self.weights()
        found, scores = weighted_best(
            held.words, held.count, self.alive, weights, self.factors, size
        )
        return found, scores + offsets[:, None]


def _ascending(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that were found, ascending for each query, and where each query's begin."""
    rows = np.sort(found, axis=1)
    there = rows >= 0
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(there.sum(axis=1), out=starts[1:])
    return starts, rows[there]


def _still(array: np.ndarray) -> np.ndarray:
    """The array as one that is not written, mapped or not, so that kernels are compiled once."""
    view = array[:]
    view.flags.writeable = False
    return view
