"""Searching rows that are held: a scan for a short-list, and better scores for what is on it."""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.retrieve import rerank
from sfumato.kernels.retrieve import rerank as signed
from sfumato.kernels.retrieve.hamming_scan import frozen, hamming_nearest
from sfumato.kernels.retrieve.weighted_scan import weighted_best
from sfumato.retrieve.binary.store import Held
from sfumato.retrieve.binary.training import Fitted
from sfumato.retrieve.metric import LEAN, Lift, lengths

__all__ = ["SearchPlan", "check_answers", "padding", "search"]

ROOM = 1 << 20  # entries of the short-lists, or of the weights, of one batch of queries
MOST = 1 << 28  # answers of one call, 12 bytes each
TINY = 1e-300  # instead of the length of no query at all


class SearchPlan(NamedTuple):
    """What is asked for: the k best of a short-list, how that is made, and how it is scored."""

    k: int
    shortlist: int
    scan: str
    rerank: str | None


def search(
    held: Held,
    fitted: Fitted,
    queries: np.ndarray,
    plan: SearchPlan,
    alive: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids of the k best of each query, best first, padded by -inf and -1.

    Guarantee: a query's answer does not depend on the queries that are asked with it, and rows of
    equal codes stand in their order.
    """
    scores, ids = padding(len(queries), plan.k)
    size = min(plan.k if plan.rerank is None else max(plan.shortlist, plan.k), held.living)
    step = max(1, ROOM // max(size, fitted.encoder.bits, fitted.encoder.dimension_))
    for start in range(0, len(queries) if size else 0, step):
        part = slice(start, start + step)
        batch = _Batch(held, fitted, fitted.space.targets(queries[part]), alive)
        found, answers = batch.answer(plan, size)
        scores[part, : found.shape[1]] = answers
        ids[part, : found.shape[1]] = np.where(found >= 0, held.ids[found], -1)
    return scores, ids


def check_answers(owner: str, queries: int, name: str, number: int) -> None:
    """Raise ValueError where the answers alone would take gigabytes."""
    if queries * number > MOST:
        raise ValueError(
            f"{owner}: {name} times the number of queries must be at most 2**28, not {number} * "
            f"{queries}; take a smaller {name}, or ask fewer queries at a time."
        )


def padding(queries: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids where nothing was found."""
    return np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64)


class _Batch:
    """Some queries, and what has been computed for them."""

    def __init__(
        self, held: Held, fitted: Fitted, targets: np.ndarray, alive: np.ndarray | None
    ) -> None:
        self.held, self.encoder, self.lift = held, fitted.encoder, fitted.space.lift
        self.targets, self.alive = targets, alive
        self.factors = None if held.factors is None else frozen(held.factors[: held.count])
        self._weights: tuple[np.ndarray, np.ndarray] | None = None

    def answer(self, plan: SearchPlan, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and scores of at most k, best first."""
        if plan.rerank is None:
            return self._hamming(size) if plan.scan == "hamming" else self._asymmetric(size)
        # Leaning queries find more, and their angles tell products less: for a short-list alone.
        near = self._near(size, LEAN) if plan.scan == "hamming" else self._asymmetric(size)
        starts, rows = _ascending(near[0])
        shape = (len(self.targets), min(plan.k, size))
        best, scores = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
        if plan.rerank == "exact":
            assert self.held.vectors is not None
            vectors = frozen(self.held.vectors[: self.held.count])
            rerank.products(vectors, self.targets, starts, rows, best, scores)
        else:
            weights, offsets = self.weights()
            factors = frozen(np.empty(0, np.float32)) if self.factors is None else self.factors
            signed.best(self.held.words, factors, weights, starts, rows, best, scores)
            scores += offsets[:, None]
        return best, scores

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the bits, and what is added to every score of a query."""
        if self._weights is None:
            weights, offsets = self.encoder.query_weights(_asked(self.lift, self.targets, 0))
            if self.lift is not None:  # which left next to nothing for an encoder's own centre
                offsets = self.lift.along(self.targets) + self.lift.radius * offsets
            self._weights = weights, offsets.astype(np.float32)
        return self._weights

    def _near(self, size: int, lean: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows whose codes differ least from those of queries, and in how many bits."""
        held, asked = self.held, _asked(self.lift, self.targets, lean)
        if self.lift is not None:  # as the points, which an encoder's centre is subtracted from
            asked = asked / np.maximum(lengths(asked), TINY)[:, None]
        blocks = held.words if held.short is None else held.short
        words = self.encoder.query_words(asked)
        return hamming_nearest(blocks, held.count, self.alive, words, size)

    def _hamming(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        found, apart = self._near(size, 0)
        scores = np.cos(apart * (math.pi / self.encoder.bits))
        if self.lift is not None:
            scores *= self.lift.radius * lengths(self.targets)[:, None]
            scores += self.lift.along(self.targets)[:, None]
        return found, np.where(found >= 0, scores, -np.inf).astype(np.float32)

    def _asymmetric(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        held, (weights, offsets) = self.held, self.weights()
        rows = held.words, held.count, self.alive
        precision = self.encoder.precision
        found, scores = weighted_best(*rows, weights, self.factors, size, precision=precision)
        return found, scores + offsets[:, None]


def _asked(lift: Lift | None, targets: np.ndarray, lean: float) -> np.ndarray:
    """Queries as the encoder sees them."""
    return targets if lift is None else lift.asked(targets, lean)


def _ascending(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that were found, ascending for each query, and where each query's begin."""
    rows = np.sort(found, axis=1)
    there = rows >= 0
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(there.sum(axis=1), out=starts[1:])
    return starts, rows[there]
