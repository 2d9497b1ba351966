"""Alternating least squares over tables of vectors, and the penalty that held-out rows prefer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.random import Generator

from sfumato.core.linear_algebra import one_blas_thread
from sfumato.kernels.alignment import aligned
from sfumato.kernels.recommend import als
from sfumato.recommend.ranking import CatalogueVectors, ExcludedItems

__all__ = [
    "ConfidenceRows",
    "ImplicitAlternation",
    "choose_regularization",
    "initial",
    "noise_level",
    "padded",
    "solve",
]

LANES = 16
START = 0.1  # length of the initial vectors, about
PARTS = 8  # parts of the rows for each thread, so that all end at about the same time


class ConfidenceRows(NamedTuple):
    """Weights from one side, one row per user or per item, and the total confidence of each."""

    starts: np.ndarray
    positions: np.ndarray
    weights: np.ndarray
    totals: np.ndarray

    @classmethod
    def of(cls, weights: scipy.sparse.csr_matrix) -> Self:
        """Take a sparse matrix of weights; every pair has a confidence of 1 more."""
        starts = weights.indptr.astype(np.int64, copy=False)
        positions = weights.indices.astype(np.int32, copy=False)
        return cls(starts, positions, weights.data, _totals(weights, 1))


class ImplicitAlternation:
    """Vectors of users and items that are solved in turn.

    `plain` holds factors, solver, cg_steps and threads; `weights` are confidences less 1.
    """

    def __init__(
        self, weights: scipy.sparse.csr_matrix, plain: dict[str, Any], random: Generator
    ) -> None:
        users, items = weights.shape
        self.plain = plain
        self.users: np.ndarray = initial(users, plain["factors"], random)
        self.items: np.ndarray = aligned((items, self.users.shape[1]), np.float32)
        self.sides: tuple[ConfidenceRows, ConfidenceRows] = (
            ConfidenceRows.of(weights),
            ConfidenceRows.of(weights.T.tocsr()),
        )

    def epoch(self, ridge: float) -> None:
        """Solve all items, then all users, with this penalty per unit of confidence."""
        # Users come last, so that their vectors solve the equations of the final items.
        of_users, of_items = self.sides
        solve(self.plain, of_items, ridge * of_items.totals, self.users, self.items)
        solve(self.plain, of_users, ridge * of_users.totals, self.items, self.users)

    def loss(self, ridge: float) -> float:
        """Return the loss over all pairs: those without an interaction by the Gram matrices."""
        p, q = self.users, self.items
        own = np.empty(len(p))
        als.losses(*self.sides[0][:3], p.reshape(-1), q.reshape(-1), own)
        lengths = [
            side.totals @ np.einsum("ij,ij->i", table, table, dtype=np.float64)
            for side, table in zip(self.sides, (p, q), strict=True)
        ]
        every = np.vdot(np.float64(p.T @ p), np.float64(q.T @ q))
        return float(own.sum() + every + ridge * sum(lengths))


def initial(users: int, factors: int, random: Generator) -> np.ndarray:
    """Return the initial vectors of users."""
    start = random.standard_normal((users, factors), np.float32)
    return padded(start * np.float32(START / factors**0.5))


def solve(
    plain: dict[str, Any],
    side: ConfidenceRows,
    ridges: np.ndarray,
    table: np.ndarray,
    out: np.ndarray,
    gram: np.ndarray | None = None,
) -> None:
    """Solve all rows of one side for the vectors of the other, in threads."""
    size, count = table.shape[1], len(out)
    square, penalties = aligned(size * size, np.float32), np.asarray(ridges, np.float32)
    with one_blas_thread:
        square[:] = np.ravel(table.T @ table if gram is None else gram)
    exact = plain["solver"] == "cholesky"
    vectors = size + als.CHUNK + 3 if exact else 3

    def run(part: slice) -> None:
        room = aligned(vectors * size, np.float32)
        rows = side.starts[part.start : part.stop + 1], side.positions, side.weights
        columns = *rows, table.reshape(-1), square, penalties[part]
        if exact:
            als.cholesky(*columns, room, out[part].reshape(-1))
        else:
            als.conjugate_gradient(*columns, plain["cg_steps"], room, out[part].reshape(-1))

    if plain["threads"] == 1:
        run(slice(0, count))
        return
    step = -(-count // (PARTS * plain["threads"]))
    parts = [slice(at, min(at + step, count)) for at in range(0, count, step)]
    with ThreadPoolExecutor(plain["threads"]) as pool:
        list(pool.map(run, parts))


def padded(rows: np.ndarray) -> np.ndarray:
    """Return these rows as an aligned table, filled up with zeros to complete lanes."""
    table = aligned((len(rows), -(-rows.shape[1] // LANES) * LANES), np.float32)
    table[:, : rows.shape[1]] = rows
    return table


def noise_level(weights: scipy.sparse.csr_matrix) -> float:
    """Return about the largest singular value of noise in place of the users' items.

    The matrix is that of confidences of the given entries, each divided by the roots of the total
    confidences of its row and column. Noise of variances v has a largest singular value near
    sqrt(row sum of v) + sqrt(column sum of v); sums are averaged, weighted by themselves.
    """
    squares = weights.copy()
    squares.data = (1 + squares.data) ** 2
    row_totals, column_totals = _totals(weights, 1), _totals(weights, 0)
    rows = (squares @ (1 / column_totals)) / row_totals
    columns = (squares.T @ (1 / row_totals)) / column_totals
    return float((np.sqrt(rows @ rows) + np.sqrt(columns @ columns)) / np.sqrt(rows.sum()))


def _totals(weights: scipy.sparse.csr_matrix, axis: int) -> np.ndarray:
    """Return the total confidence of each row (axis 1) or column (axis 0)."""
    return np.asarray(weights.shape[axis] + np.ravel(weights.sum(axis=axis, dtype=np.float64)))


GRID = 0.2 * 2 ** (np.arange(6) / 2)  # regularizations from 0.2 to 1.1
USUAL = 0.4  # if too few users can be tested
FEWEST, MOST = 100, 2_000  # users whose lists are tested
HELD_OUT = 0.15  # of all rows
LENGTH = 10  # of lists
EPOCHS = 3  # for each regularization


def choose_regularization(
    weights: scipy.sparse.csr_matrix, plain: dict[str, Any], random: Generator
) -> float:
    """Return the regularization of GRID whose lists have the best NDCG on held-out rows.

    Vectors of one regularization are the start of the next, larger one, which only shrinks them.
    """
    out = random.random(weights.nnz) < HELD_OUT
    train, test = _part(weights, ~out), _part(weights, out)
    users = np.flatnonzero((np.diff(test.indptr) > 0) & (np.diff(train.indptr) > 0))
    if users.size < FEWEST:
        return USUAL
    users = np.sort(random.permutation(users)[:MOST])
    vectors, level = ImplicitAlternation(train, plain, random), noise_level(train)
    found: list[float] = []
    for regularization in GRID:
        for _ in range(EPOCHS if found else 2 * EPOCHS):
            vectors.epoch(regularization * level)
        found.append(_ndcg(vectors, train, test, users))
    return float(GRID[int(np.argmax(found))])


def _part(weights: scipy.sparse.csr_matrix, chosen: np.ndarray) -> scipy.sparse.csr_matrix:
    """Return the matrix with the chosen entries only."""
    starts = np.concatenate(([0], np.cumsum(chosen)))[weights.indptr]
    return scipy.sparse.csr_matrix(
        (weights.data[chosen], weights.indices[chosen], starts), weights.shape
    )


def _ndcg(
    vectors: ImplicitAlternation,
    train: scipy.sparse.csr_matrix,
    test: scipy.sparse.csr_matrix,
    users: np.ndarray,
) -> float:
    """Return the mean NDCG of the users' lists without their training items."""
    length = min(LENGTH, train.shape[1])
    excluded = ExcludedItems(train.indptr.astype(np.int64), train.indices.astype(np.int64), users)
    catalogue = CatalogueVectors.of(vectors.items)
    found = catalogue.best(vectors.users[users], length, excluded=excluded)[0]
    rows = np.repeat(users, length)
    hits = np.ravel(test[rows, np.maximum(found, 0).ravel()]).reshape(found.shape) > 0
    gains = 1 / np.log2(np.arange(2, length + 2))
    best = np.cumsum(gains)[np.minimum(np.diff(test.indptr)[users], length) - 1]
    return float(np.mean(((hits & (found >= 0)) @ gains) / best))
