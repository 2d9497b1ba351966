"""Search of stored rows: a scan for a short-list, then re-ranking of it."""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.alignment import frozen
from sfumato.kernels.retrieve import cell_scan, hamming_scan, rerank, weighted_scan
from sfumato.kernels.retrieve.layout import BLOCK
from sfumato.retrieve.binary.partition import CellPartition
from sfumato.retrieve.binary.store import StoredRows
from sfumato.retrieve.binary.training import Fitted
from sfumato.retrieve.encoders.base import CodeEncoder
from sfumato.retrieve.metric import LEAN, Lift, lengths

__all__ = ["Probed", "SearchPlan", "check_answers", "padding", "search"]

ROOM = 1 << 20  # entries of the short-lists, or of the weights, of one batch of queries
MOST = 1 << 28  # answers of one call, 12 bytes each
SHORTLIST = 1000  # rows that a scan of all codes finds for a re-ranking
NO_FACTORS = frozen(np.empty(0, np.float32))
TINY = 1e-300  # in place of the length of a zero query


class Probed(NamedTuple):
    """Cells of an index, and how many of them a query probes."""

    partition: CellPartition
    number: int


class SearchPlan(NamedTuple):
    """Options of a search: number of results, short-list, scan, re-ranking and cells."""

    k: int
    shortlist: int | None
    scan: str
    rerank: str | None
    cells: Probed | None

    def size(self, encoder: CodeEncoder) -> int:
        """Number of rows that the scan finds."""
        if self.rerank is None:
            return self.k
        usual = SHORTLIST
        if self.cells is not None:
            some = 64 * encoder.leading_words < encoder.bits
            usual = max(100, 10 * self.k) * (3 if some or self.scan == "hamming" else 1)
        return max(usual if self.shortlist is None else self.shortlist, self.k)


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
    size = min(plan.size(fitted.encoder), stored.living)
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
    scores, ids = np.empty((queries, k), np.float32), np.empty((queries, k), np.int64)
    scores.fill(-np.inf)
    ids.fill(-1)
    return scores, ids


class _Batch:
    """Some queries, and what was computed for them."""

    def __init__(
        self, stored: StoredRows, fitted: Fitted, targets: np.ndarray, alive: np.ndarray | None
    ) -> None:
        self.stored, self.encoder, self.lift = stored, fitted.encoder, fitted.space.lift
        self.normalised, self.paraboloid = fitted.normalised, fitted.space.paraboloid
        self.targets, self.alive = targets, alive
        self.space, self.distances = fitted.space, fitted.distances
        self.queries = fitted.space.moved(targets).astype(np.float32, copy=False)
        self.factors, self.shifts = stored.frozen_factors, stored.frozen_shifts
        self._weights: tuple[np.ndarray, np.ndarray] | None = None

    def answer(self, plan: SearchPlan, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and scores of at most k, best first."""
        found, scores = self._answer(plan, size)
        if self.paraboloid is not None and plan.rerank != "exact":
            scores = self.paraboloid.negated_distances(self.targets, scores)
        return found, scores

    def _answer(self, plan: SearchPlan, size: int) -> tuple[np.ndarray, np.ndarray]:
        if plan.cells is not None:
            starts, rows, found = self._in_cells(plan.cells, plan, size)
            if plan.rerank is None:
                return self._scored(plan.scan, found)
        elif plan.rerank is None:
            return self._hamming(size) if plan.scan == "hamming" else self._asymmetric(size)
        else:
            # Tilted queries find more, but their angles estimate products worse: for short-lists.
            near = self._near(size, LEAN) if plan.scan == "hamming" else self._asymmetric(size)
            starts, rows = _listed(near[0])
        return self._ranked(plan.rerank, min(plan.k, size), starts, rows)

    def _ranked(
        self, by: str, k: int, starts: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best k of the rows found, by their true scores or by those of their codes."""
        best, scores = padding(len(self.targets), k)[::-1]
        if by == "exact":
            assert self.stored.frozen_vectors is not None
            true = rerank.dots if self.paraboloid is None else rerank.nearest
            true(self.stored.frozen_vectors, self.targets, starts, rows, best, scores)
        else:
            (weights, _), (before, after) = self.weights(), self._offsets()
            factors = NO_FACTORS if self.factors is None else self.factors
            shifts = NO_FACTORS if self.shifts is None else self.shifts
            rerank.best(
                self.stored.words, factors, shifts, weights, before, starts, rows, best, scores
            )  # fmt: skip
            scores += after[:, None]
        return best, scores

    def _offsets(self) -> tuple[np.ndarray, np.ndarray]:
        """Parts of every score of a query, to be added before the factor of a row and after it."""
        offsets = self.weights()[1]
        none = np.zeros_like(offsets)
        return (offsets, none) if self.normalised else (none, offsets)

    def _in_cells(
        self, cells: Probed, plan: SearchPlan, size: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of the best codes in the cells that queries probe, and these as candidates."""
        stored, count = self.stored, len(self.targets)
        assert stored.cells is not None
        probed = cells.partition.cells(self.space.cell_queries(self.targets), cells.number)
        blocks, factors, planes = self._planes(plan.scan, whole=plan.rerank is None)
        shifts = NO_FACTORS if self.shifts is None else self.shifts
        found, starts = (
            np.empty((count, 2 * size + BLOCK), np.uint64),
            np.empty(count + 1, np.int64),
        )
        rows = np.empty(count * size, np.int64)
        cell_scan.scan(
            blocks, hamming_scan.marks(self.alive), factors, shifts, *stored.cells, probed, *planes,
            size, found, starts, rows,
        )  # fmt: skip
        return starts, rows, found[:, :size]

    def _planes(
        self, scan: str, *, whole: bool
    ) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Blocks to scan, their factors, and the queries' weights of (leading) bits as planes."""
        stored, encoder = self.stored, self.encoder
        if scan == "asymmetric":
            factors = NO_FACTORS if self.factors is None else self.factors
            words = stored.words.shape[1] if whole else encoder.leading_words
            weights = self.weights()[0][:, : 64 * words]
            before = self._offsets()[0]
            planes = weighted_scan.round_weights(weights, words, encoder.precision, before)
            return stored.words, factors, planes
        words, bits = self._query_words(0 if whole else LEAN), encoder.bits
        every = np.full(words.shape, ~np.uint64(0))
        every[:, -1] >>= np.uint64(-bits % 64)
        steps = np.ones(len(words), np.float32)
        blocks = stored.words if stored.short is None else stored.short
        return blocks, NO_FACTORS, (np.stack([words, every], axis=1), steps, bits * steps)

    def _scored(self, scan: str, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of candidates, best first, and their scores."""
        rows, scores = weighted_scan.listed(found)
        if scan == "asymmetric":
            return rows, scores + self._offsets()[1][:, None]
        apart = (self.encoder.bits - np.where(rows >= 0, scores, 0)).astype(np.int32) // 2
        return rows, self._angular(rows, apart)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the bits, and the offset of every score of a query."""
        if self._weights is None:
            queries = _encoder_queries(self.lift, self.queries, 0)
            if self.distances:  # small beside the centre, which would take all bits of the weights
                queries = queries - self.encoder.centre_
            weights, _, offsets = self.encoder.padded_weights(queries)
            if self.lift is not None:  # it centres already; the encoder's own centre is near 0
                offsets = self.lift.along(self.queries) + self.lift.radius * offsets
                offsets = offsets.astype(np.float32)
            if self.distances:  # <q, x> = 1 - |q - x|^2 / 2 of unit vectors
                offsets += np.float32((1 + np.square(self.encoder.centre_, dtype="f8").sum()) / 2)
            self._weights = weights, offsets
        return self._weights

    def _query_words(self, lean: float) -> np.ndarray:
        """Signs of the queries, of which those of lifted vectors are tilted."""
        queries = _encoder_queries(self.lift, self.queries, lean)
        if self.lift is not None:  # as the points, which an encoder's centre is subtracted from
            queries = queries / np.maximum(lengths(queries), TINY)[:, None]
        return self.encoder.query_words(queries)

    def _near(self, size: int, lean: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows whose codes differ least from those of queries, and the number of different bits."""
        stored = self.stored
        blocks = stored.words if stored.short is None else stored.short
        words = self._query_words(lean)
        return hamming_scan.hamming_nearest(blocks, stored.count, self.alive, words, size)

    def _hamming(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        found, apart = self._near(size, 0)
        return found, self._angular(found, apart)

    def _angular(self, found: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """Scores of rows by the number of bits in which they differ from queries."""
        scores = np.cos(apart * (math.pi / self.encoder.bits))
        if self.lift is not None:
            scores *= self.lift.radius * lengths(self.queries)[:, None]
            scores += self.lift.along(self.queries)[:, None]
        return np.where(found >= 0, scores, -np.inf).astype(np.float32)

    def _asymmetric(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        stored, (before, after) = self.stored, self._offsets()
        found, scores = weighted_scan.weighted_best(
            stored.words, stored.count, self.alive, self.weights()[0], self.factors, size,
            precision=self.encoder.precision, offsets=before if self.normalised else None,
            shifts=self.shifts,
        )  # fmt: skip
        return found, scores + after[:, None]


def _encoder_queries(lift: Lift | None, targets: np.ndarray, lean: float) -> np.ndarray:
    """Queries as the encoder takes them: lifted where vectors are."""
    return targets if lift is None else lift.lifted_queries(targets, lean)


def _listed(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of the queries, and the rows found of each."""
    there = found >= 0
    starts = np.zeros(len(found) + 1, np.int64)
    np.cumsum(there.sum(axis=1), out=starts[1:])
    return starts, found[there]
