"""Search of stored rows: a scan for a short-list, then re-ranking of it."""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.retrieve import rerank
from sfumato.kernels.retrieve import rerank as signed
from sfumato.kernels.retrieve.hamming_scan import frozen, hamming_nearest
from sfumato.kernels.retrieve.weighted_scan import weighted_best
from sfumato.retrieve.binary.store import StoredRows
from sfumato.retrieve.binary.training import Fitted
from sfumato.retrieve.metric import LEAN, Lift, lengths

__all__ = ["SearchPlan", "check_answers", "padding", "search"]

ROOM = 1 << 20  # entries of the short-lists, or of the weights, of one batch of queries
MOST = 1 << 28  # answers of one call, 12 bytes each
TINY = 1e-300  # in place of the length of a zero query


class SearchPlan(NamedTuple):
    """Options of a search: number of results, short-list, scan and re-ranking."""

    k: int
    shortlist: int
    scan: str
    rerank: str | None


def search(
    stored: StoredRows,
    fitted: Fitted,
    queries: np.ndarray,
    plan: SearchPlan,
    alive: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids of the k best of each query, best first, padded by -inf and -1.

    **Guarantee.** A query's answer does not depend on other queries of the batch, and rows of equal
    codes stay in their order.
    """
    scores, ids = padding(len(queries), plan.k)
    size = min(plan.k if plan.rerank is None else max(plan.shortlist, plan.k), stored.living)
    step = max(1, ROOM // max(size, fitted.encoder.bits, fitted.encoder.dimension_))
    for start in range(0, len(queries) if size else 0, step):
        part = slice(start, start + step)
        batch = _Batch(stored, fitted, fitted.space.targets(queries[part]), alive)
        found, answers = batch.answer(plan, size)
        scores[part, : found.shape[1]] = answers
        ids[part, : found.shape[1]] = np.where(found >= 0, stored.ids[found], -1)
    return scores, ids


def check_answers(owner: str, queries: int, name: str, number: int) -> None:
    """Raise ValueError where the answers alone would take gigabytes."""
    if queries * number > MOST:
        raise ValueError(
            f"{owner}: {name} times the number of queries must be at most 2**28, not {number} * "
            f"{queries}; take a smaller {name}, or pass fewer queries at a time."
        )


def padding(queries: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and ids of an empty result."""
    return np.full((queries, k), -np.inf, np.float32), np.full((queries, k), -1, np.int64)


class _Batch:
    """Some queries, and what was computed for them."""

    def __init__(
        self, stored: StoredRows, fitted: Fitted, targets: np.ndarray, alive: np.ndarray | None
    ) -> None:
        self.stored, self.encoder, self.lift = stored, fitted.encoder, fitted.space.lift
        self.targets, self.alive = targets, alive
        self.factors = None if stored.factors is None else frozen(stored.factors[: stored.count])
        self._weights: tuple[np.ndarray, np.ndarray] | None = None

    def answer(self, plan: SearchPlan, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and scores of at most k, best first."""
        if plan.rerank is None:
            return self._hamming(size) if plan.scan == "hamming" else self._asymmetric(size)
        # Tilted queries find more, but their angles estimate products worse: for short-lists only.
        near = self._near(size, LEAN) if plan.scan == "hamming" else self._asymmetric(size)
        starts, rows = _ascending(near[0])
        shape = (len(self.targets), min(plan.k, size))
        best, scores = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
        if plan.rerank == "exact":
            assert self.stored.vectors is not None
            vectors = frozen(self.stored.vectors[: self.stored.count])
            rerank.products(vectors, self.targets, starts, rows, best, scores)
        else:
            weights, offsets = self.weights()
            factors = frozen(np.empty(0, np.float32)) if self.factors is None else self.factors
            signed.best(self.stored.words, factors, weights, starts, rows, best, scores)
            scores += offsets[:, None]
        return best, scores

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the bits, and the offset of every score of a query."""
        if self._weights is None:
            weights, offsets = self.encoder.query_weights(
                _encoder_queries(self.lift, self.targets, 0)
            )
            if self.lift is not None:  # it centres already; the encoder's own centre is near 0
                offsets = self.lift.along(self.targets) + self.lift.radius * offsets
            self._weights = weights, offsets.astype(np.float32)
        return self._weights

    def _near(self, size: int, lean: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows whose codes differ least from those of queries, and the number of different bits."""
        stored, queries = self.stored, _encoder_queries(self.lift, self.targets, lean)
        if self.lift is not None:  # as the points, which an encoder's centre is subtracted from
            queries = queries / np.maximum(lengths(queries), TINY)[:, None]
        blocks = stored.words if stored.short is None else stored.short
        words = self.encoder.query_words(queries)
        return hamming_nearest(blocks, stored.count, self.alive, words, size)

    def _hamming(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        found, apart = self._near(size, 0)
        scores = np.cos(apart * (math.pi / self.encoder.bits))
        if self.lift is not None:
            scores *= self.lift.radius * lengths(self.targets)[:, None]
            scores += self.lift.along(self.targets)[:, None]
        return found, np.where(found >= 0, scores, -np.inf).astype(np.float32)

    def _asymmetric(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        stored, (weights, offsets) = self.stored, self.weights()
        rows = stored.words, stored.count, self.alive
        precision = self.encoder.precision
        found, scores = weighted_best(*rows, weights, self.factors, size, precision=precision)
        return found, scores + offsets[:, None]


def _encoder_queries(lift: Lift | None, targets: np.ndarray, lean: float) -> np.ndarray:
    """Queries as the encoder takes them: lifted where vectors are."""
    return targets if lift is None else lift.lifted_queries(targets, lean)


def _ascending(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of the queries, and the rows found, ascending for each query."""
    rows = np.sort(found, axis=1)
    there = rows >= 0
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(there.sum(axis=1), out=starts[1:])
    return starts, rows[there]
