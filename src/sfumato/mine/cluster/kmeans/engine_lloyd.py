"""Lloyd's iterations on an engine: rows stay in their partitions, sums of clusters are folded.

Starts are tried on a sample that depends on the rows alone, not on their partitions: the distinct
rows with the smallest hashes, each with the number of its copies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core.arrays import LARGEST
from sfumato.core.hashing import hash_column
from sfumato.kernels.mine.cluster import nearest_centres as kernels

if TYPE_CHECKING:
    from sfumato.engine import Engine, Rows

__all__ = ["ColumnMoments", "EngineLloyd", "EngineRows", "Sums"]

OWNER = "KMeans"
ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplies the hash of the columns so far
ROUNDING = 1e-14  # relative moves of centres that the order of sums explains
NO_WEIGHTS = np.empty(0)
Batches = Iterator[pa.RecordBatch]


class ColumnMoments(NamedTuple):
    """Number of rows, and for each column their mean and sum of squared deviations."""

    rows: int
    mean: np.ndarray
    squares: np.ndarray

    @property
    def variance(self) -> float:
        """Mean variance of the columns."""
        return float((self.squares / max(self.rows, 1)).mean())


@dataclass(frozen=True)
class RowSample:
    """Distinct rows with the smallest hashes, by hash, and the number of copies of each."""

    hashes: np.ndarray
    points: np.ndarray
    copies: np.ndarray


class Sums(NamedTuple):
    """Of each cluster the sum and number of its rows; and the inertia of all."""

    sums: np.ndarray
    counts: np.ndarray
    inertia: float


class EngineRows:
    """Columns of numbers of an engine, kept in their partitions until `unpersist`."""

    def __init__(self, engine: "Engine", source: Any, columns: Sequence[str]) -> None:
        self.columns: list[str] = list(columns)
        self._rows: Rows = engine.rows(source, self.columns).persist()

    def moments(self) -> ColumnMoments:
        """Count the rows and measure their columns; refuse what is no finite number."""
        return self._rows.fold(partial(_moments, self.columns), _joined)

    def sample(self, size: int) -> RowSample:
        """Gather the distinct rows with the smallest hashes."""
        fold = partial(_sampled, self.columns, size)
        found: RowSample = self._rows.fold(fold, partial(_smallest, size))
        return found

    def sums(self, centres: np.ndarray) -> Sums:
        """Assign all rows to their nearest centres."""
        return self._rows.fold(partial(_summed, self.columns, centres), _added)

    def furthest(self, centres: np.ndarray, size: int) -> "Furthest":
        """Find the rows that are furthest from their centres."""
        fold = partial(_furthest, self.columns, centres, size)
        found: Furthest = self._rows.fold(fold, partial(_further, size))
        return found

    def unpersist(self) -> None:
        self._rows.unpersist()


class EngineLloyd:
    """Centres of rows in partitions, one pass over them per iteration."""

    def __init__(self, rows: EngineRows, centres: np.ndarray) -> None:
        self.rows: EngineRows
        self.rows, self.centres = rows, np.array(centres, np.float64)

    def run(self, max_iter: int, tol: float, progress: Any = None) -> tuple[int, Sums]:
        """Iterate until the squared moves are at most `tol`.

        Returns the number of iterations, and the sums of the last centres.
        """
        for done in range(1, max_iter + 1):
            moved = self._update(self.rows.sums(self.centres))
            if progress is not None:
                progress(done, max_iter)
            if moved <= max(tol, float(np.square(ROUNDING * self.centres).sum())):
                break
        return done, self.rows.sums(self.centres)

    def _update(self, found: Sums) -> float:
        """Move every centre to the mean of its rows; return the sum of squared moves."""
        sums, counts = self._filled(found)
        full = counts > 0
        fresh = self.centres.copy()
        fresh[full] = sums[full] / counts[full, np.newaxis]
        moved = float(np.square(fresh - self.centres).sum())
        self.centres = fresh
        return moved

    def _filled(self, found: Sums) -> tuple[np.ndarray, np.ndarray]:
        """Sums and counts, with the furthest rows in clusters that have none."""
        sums, counts = found.sums.copy(), found.counts.copy()
        empty = np.flatnonzero(counts == 0)
        if empty.size:
            far = self.rows.furthest(self.centres, empty.size)
            rows = zip(empty, far.squared, far.points, far.labels, strict=False)
            for cluster, squared, point, own in rows:
                if squared > 0 and counts[own] > 1:
                    sums[own], counts[own] = sums[own] - point, counts[own] - 1
                    sums[cluster], counts[cluster] = point, 1
        return sums, counts


def _points(columns: list[str], batch: pa.RecordBatch) -> np.ndarray:
    """The rows of a batch as float64; refuse what is no finite number."""
    points = np.empty((batch.num_rows, len(columns)))
    for at, name in enumerate(columns):
        column = batch.column(name)
        if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
            raise TypeError(f"{OWNER}: column {name!r} must be of numbers, not {column.type}.")
        points[:, at] = column.to_numpy(zero_copy_only=False)
        if not (np.abs(points[:, at]) <= LARGEST).all():  # NaN fails, too
            raise ValueError(
                f"{OWNER}: column {name!r} must be finite and at most {LARGEST:g} in size; a row "
                "is NaN, null, inf or larger. Drop or fill such rows first."
            )
    return points


def _moments(columns: list[str], batches: Batches) -> ColumnMoments:
    found = ColumnMoments(0, np.zeros(len(columns)), np.zeros(len(columns)))
    for batch in batches:
        if batch.num_rows:
            points = _points(columns, batch)
            mean = points.mean(axis=0)
            squares = np.square(points - mean).sum(axis=0)
            found = _joined(found, ColumnMoments(len(points), mean, squares))
    return found


def _joined(left: ColumnMoments, right: ColumnMoments) -> ColumnMoments:
    """The moments of two parts."""
    rows = left.rows + right.rows
    if not rows:
        return left
    apart = right.mean - left.mean
    squares = left.squares + right.squares + np.square(apart) * (left.rows * right.rows / rows)
    return ColumnMoments(rows, left.mean + apart * (right.rows / rows), squares)


def _sampled(columns: list[str], size: int, batches: Batches) -> RowSample:
    nothing = np.empty(0, np.uint64), np.empty((0, len(columns))), np.empty(0, np.int64)
    found = RowSample(*nothing)
    for batch in batches:
        points = _points(columns, batch)
        copies = np.ones(len(points), np.int64)
        found = _smallest(size, found, RowSample(_hashes(points), points, copies))
    return found


def _hashes(points: np.ndarray) -> np.ndarray:
    """One hash for each row."""
    out = np.zeros(len(points), np.uint64)
    for column in points.T:
        out = hash_column(out * ODD + hash_column(np.ascontiguousarray(column)))
    return out


def _smallest(size: int, left: RowSample, right: RowSample) -> RowSample:
    """The smallest hashes of both; those of equal rows are one.

    A hash among the smallest of all is among the smallest of every part, so its count is exact.
    """
    hashes, first, at = np.unique(
        np.concatenate([left.hashes, right.hashes]), return_index=True, return_inverse=True
    )
    copies = np.bincount(at, np.concatenate([left.copies, right.copies]), hashes.size)
    points = np.concatenate([left.points, right.points])[first[:size]]
    return RowSample(hashes[:size], points, copies[:size].astype(np.int64))


def _assigned(points: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The nearest centre of each row, and the squared distance to it."""
    labels, squared = np.empty(len(points), np.int32), np.empty(len(points))
    kernels.nearest(points, centres, labels, squared)
    kernels.within(points, NO_WEIGHTS, centres, labels, squared)
    return labels, squared


def _summed(columns: list[str], centres: np.ndarray, batches: Batches) -> Sums:
    k = len(centres)
    found = Sums(np.zeros(centres.shape), np.zeros(k, np.int64), 0.0)
    for batch in batches:
        points = _points(columns, batch)
        labels, squared = _assigned(points, centres)
        sums = np.stack([np.bincount(labels, column, k) for column in points.T], axis=1)
        found = _added(found, Sums(sums, np.bincount(labels, minlength=k), float(squared.sum())))
    return found


def _added(left: Sums, right: Sums) -> Sums:
    return Sums(left.sums + right.sums, left.counts + right.counts, left.inertia + right.inertia)


class Furthest(NamedTuple):
    """Rows by falling distance to their centres, equal ones by their values."""

    squared: np.ndarray
    points: np.ndarray
    labels: np.ndarray


def _furthest(columns: list[str], centres: np.ndarray, size: int, batches: Batches) -> Furthest:
    found = Furthest(np.empty(0), np.empty((0, len(columns))), np.empty(0, np.int32))
    for batch in batches:
        points = _points(columns, batch)
        labels, squared = _assigned(points, centres)
        found = _further(size, found, Furthest(squared, points, labels))
    return found


def _further(size: int, left: Furthest, right: Furthest) -> Furthest:
    both = Furthest(*(np.concatenate(pair) for pair in zip(left, right, strict=True)))
    order = np.lexsort((*both.points.T[::-1], -both.squared))[:size]
    return Furthest(both.squared[order], both.points[order], both.labels[order])
