"""Buckets: which rows share a key in at least one of several tables, in sorted arrays."""

from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.tables import described
from sfumato.core.typing import Column
from sfumato.core.validation import integer
from sfumato.kernels.retrieve import bucket_tables as kernels
from sfumato.sketch.base import SEED

__all__ = ["Buckets", "Run", "band_keys", "coefficients", "listed", "words"]

MOST_ROWS = 2**31 - 1  # rows are kept in 32 bits
TABLES = integer(1, 2**20)


class Run(NamedTuple):
    """Some rows in all tables; laid out as kernels/tables.py says."""

    first: np.ndarray
    keys: np.ndarray
    starts: np.ndarray
    rows: np.ndarray

    def check(self, tables: int, count: int, *, deep: bool) -> None:
        """Raise ValueError for arrays that could lead a kernel out of bounds; deep reads them."""
        types = [array.dtype for array in self] == [np.int64, np.uint64, np.int64, np.int32]
        sizes = [array.size for array in self]
        fits = types and sizes == [tables + 1, sizes[1], sizes[1] + 1, tables * count]
        if not fits or not _rising(self.first, sizes[1]) or any(a.ndim != 1 for a in self):
            raise ValueError("the tables of the index do not go together.")
        if deep and not (_rising(self.starts, sizes[3]) and _within(self.rows, count)):
            raise ValueError("the tables of the index lead out of it.")

    def still(self) -> "Run":
        """The same arrays, not to be written, so that kernels are compiled once for all runs."""
        for array in self:
            array.flags.writeable = False
        return self


class Buckets:
    """Rows by their keys, one key in each of several tables; a row is found by any of its keys.

    Rows that came together are a sorted run; a run joins the one before it unless that is more than
    twice as large, so that n rows are in at most log2(n) + 1 runs and each is moved at most
    log1.5(n) times. Bands: Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4.

    Parameters
    ----------
    tables : int
        How many keys each row has, from 1 up. Keys are integers of 64 bits, as `band_keys` makes of
        signatures.

    Notes
    -----
    **Guarantee.** `rows_of` gives exactly the rows that share a key with a query in at least one
    table, each once, ascending. Rows are numbered in the order they came. A call that raises
    changes nothing, and a `copy` does not change with the original.

    Examples
    --------
    >>> shelf = Buckets(2).add([[7, 1], [8, 1], [9, 2]])
    >>> shelf.rows_of([[7, 2], [0, 1]])
    (array([0, 2, 4]), array([0, 2, 0, 1]))
    """

    def __init__(self, tables: int) -> None:
        self.tables = TABLES.check("Buckets", "tables", tables)
        self.count = 0
        self.runs: tuple[Run, ...] = ()  # never changed, so that readers keep theirs

    @classmethod
    def over(cls, tables: int, count: int, runs: tuple[Run, ...]) -> Self:
        """The buckets of runs that are there already, together `count` rows.

        Parameters
        ----------
        tables : int
            TODO.
        count : int
            TODO.
        runs : tuple
            TODO.

        Returns
        -------
        Self
            The buckets of runs that are there already, together `count` rows.
        """
        buckets = cls(tables)
        buckets.count, buckets.runs = count, runs
        return buckets

    def __repr__(self) -> str:
        return described(self, tables=self.tables, count=self.count)

    @property
    def nbytes(self) -> int:
        """Bytes of all runs."""
        return sum(int(array.nbytes) for run in self.runs for array in run)

    def copy(self) -> "Buckets":
        """The same buckets, which later change on their own.

        Returns
        -------
        Buckets
            The same buckets, which later change on their own.
        """
        return Buckets.over(self.tables, self.count, self.runs)

    def add(self, keys: Column) -> Self:
        """Add rows with these keys, a matrix with a row of `tables` integers for each.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        keys = self._keys(keys)
        if self.count + len(keys) > MOST_ROWS:
            raise ValueError(f"Buckets: at most {MOST_ROWS} rows fit; split them among indexes.")
        if not len(keys):
            return self
        runs = [*self.runs, _sorted(keys, self.count)]
        while len(runs) > 1 and len(runs[-2].rows) <= 2 * len(runs[-1].rows):
            right, left = runs.pop(), runs.pop()
            runs.append(_merged(left, right))
        self.runs, self.count = tuple(runs), self.count + len(keys)
        return self

    def whole(self) -> Run:
        """All rows as one run.

        Returns
        -------
        Run
            All rows as one run.
        """
        runs = list(self.runs) or [_sorted(np.empty((0, self.tables), np.uint64), 0)]
        while len(runs) > 1:
            right, left = runs.pop(), runs.pop()
            runs.append(_merged(left, right))
        return runs[0]

    def compact(self, alive: np.ndarray) -> Self:
        """Forget rows and number those left anew; alive, a boolean for each row.

        Parameters
        ----------
        alive : ndarray
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        alive = np.asarray(alive)
        if alive.dtype != bool or alive.shape != (self.count,):
            raise ValueError(f"Buckets: alive must be a boolean mask with {self.count} entries.")
        first, keys, starts, rows = self.whole()
        kept = np.concatenate(([0], np.cumsum(alive[rows])))[starts]
        filled = np.diff(kept) > 0
        rows = (np.cumsum(alive) - 1).astype(np.int32)[rows[alive[rows]]]
        first = np.concatenate(([0], np.cumsum(filled)))[first]
        starts = np.append(kept[:-1][filled], kept[-1])
        self.runs, self.count = (Run(first, keys[filled], starts, rows).still(),), int(alive.sum())
        return self

    def marks(self, asked: np.ndarray) -> np.ndarray:
        """uint64 (queries, words): bit i where row i is in a bucket that a query asks for.

        Parameters
        ----------
        asked : ndarray
            Uint64 (queries, tables, probes), the keys to look up in each table.

        Returns
        -------
        ndarray
            TODO.
        """
        if asked.dtype != np.uint64 or asked.ndim != 3 or asked.shape[1] != self.tables:
            raise ValueError(f"Buckets: keys must be uint64 (queries, {self.tables}, probes).")
        out = np.zeros((len(asked), words(self.count)), np.uint64)
        for run in self.runs:
            kernels.mark(*run, asked, out)
        return out

    def pairs(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each query and each row in a bucket that it asks for, the places of both.

        A row that shares several keys with a query comes as often.

        Parameters
        ----------
        keys : ndarray
            TODO.

        Returns
        -------
        tuple
            Of each query and each row in a bucket that it asks for, the places of both.
        """
        keys = self._keys(keys)
        at, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for first, known, starts, rows in self.runs:
            positions = np.empty((*keys.shape, 1), np.int64)
            kernels.find(first, known, keys[:, :, None], positions)
            asked = np.nonzero(positions >= 0)[0]
            met = positions[positions >= 0]
            sizes = starts[met + 1] - starts[met]
            at.append(np.repeat(asked, sizes))
            within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            found.append(rows[np.repeat(starts[met], sizes) + within].astype(np.int64))
        return np.concatenate(at), np.concatenate(found)

    def rows_of(self, keys: Column) -> tuple[np.ndarray, np.ndarray]:
        """The rows that share a key with query q, at rows[starts[q] : starts[q + 1]].

        Parameters
        ----------
        keys : array_like
            One row of `tables` integers for each query; a bit for each pair of a query and a row is
            needed while this runs, so ask in parts where both are many.

        Returns
        -------
        tuple
            The rows that share a key with query q, at rows[starts[q] : starts[q + 1]].
        """
        return listed(self.marks(self._keys(keys)[:, :, None]))

    def _keys(self, keys: Any) -> np.ndarray:
        found = integer_values("Buckets", "keys", keys)
        if len(found) and found.shape[1] != self.tables:
            raise ValueError(
                f"Buckets: keys must have {self.tables} columns, one a table, not {found.shape[1]}."
            )
        return found.astype(np.uint64, copy=False).reshape(-1, self.tables)


def words(count: int) -> int:
    """How many 64-bit words hold a bit for each row."""
    return -(-count // 64)


def coefficients(tables: int, rows: int, seed: int) -> np.ndarray:
    """Multipliers that turn the hashes of a band into one key, from a seed alone.

    Two bands that differ get one key with probability about 2**-63 for most differences, and at
    most 2**-32 for any of 32-bit hashes: a sum of products with random 64-bit numbers.
    """
    numbers = hash_column(range(tables * rows), seed) | np.uint64(1)
    return numbers.reshape(tables, rows)


def band_keys(codes: Any, bands: int, *, seed: int = 0) -> np.ndarray:
    """Keys for `Buckets`, uint64 (rows, bands): one a band of columns, equal where all of them are.

    Parameters
    ----------
    codes : object
        A matrix of integers of up to 32 bits, such as signatures of MinHash; a band is columns //
        bands of them, and what is left over is not used.
    bands : int
        From 1 to the number of columns.
    seed : int, default=0
        Of how columns become keys: keys of one seed can be compared.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Bands that are equal have one key; bands that differ have one with probability at
    most 2**-32.

    Examples
    --------
    >>> keys = band_keys([[1, 2, 3, 4], [1, 2, 4, 3]], bands=2)
    >>> keys[0] == keys[1]
    array([ True, False])
    """
    codes = integer_values("band_keys", "codes", codes)
    bands = integer(1, max(codes.shape[1], 1)).check("band_keys", "bands", bands)
    if codes.size and int(codes.max()) - int(codes.min()) >= 2**32:
        raise ValueError("band_keys: codes must be of up to 32 bits; hash longer ones first.")
    rows = codes.shape[1] // bands
    out = np.empty((len(codes), bands), np.uint64)
    kernels.combine(codes, coefficients(bands, rows, SEED.check("band_keys", "seed", seed)), out)
    return out


def integer_values(owner: str, name: str, values: Any) -> np.ndarray:
    """A contiguous matrix of integers; ValueError for anything else."""
    found = np.asarray(values)
    if not found.size and found.ndim < 3:
        return np.empty((0, found.shape[1] if found.ndim == 2 else 0), np.uint64)
    if found.ndim != 2 or found.dtype.kind not in "iu":
        raise ValueError(
            f"{owner}: {name} must be a matrix of integers, not {found.dtype} of shape "
            f"{found.shape}."
        )
    return np.ascontiguousarray(found, found.dtype.newbyteorder("="))


def _sorted(keys: np.ndarray, row: int) -> Run:
    """A run of new rows, numbered from `row` on."""
    size, tables = keys.shape
    first, found, starts = np.zeros(tables + 1, np.int64), [], []
    rows = np.empty(size * tables, np.int32)
    spare = np.empty(size, np.uint64), np.empty(size, np.int32)
    for t in range(tables):
        column = keys[:, t].copy()  # it is sorted in place
        part = rows[t * size : (t + 1) * size]
        part[:] = np.arange(row, row + size)
        kernels.sort(column, part, *spare)
        distinct, begins = np.empty(size, np.uint64), np.empty(size, np.int64)
        count = kernels.group(column, t * size, distinct, begins)
        first[t + 1] = first[t] + count
        found.append(distinct[:count].copy())
        starts.append(begins[:count].copy())
    ends = np.append(np.concatenate(starts), rows.size)
    return Run(first, np.concatenate(found), ends, rows).still()


def _merged(left: Run, right: Run) -> Run:
    keys = np.empty(left.keys.size + right.keys.size, np.uint64)
    starts = np.empty(keys.size + 1, np.int64)
    rows = np.empty(left.rows.size + right.rows.size, np.int32)
    first = np.empty_like(left.first)
    count = kernels.merge(*left, *right, first, keys, starts, rows)
    return Run(first, keys[:count].copy(), starts[: count + 1].copy(), rows).still()


def listed(marks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The set bits of each row of marks, one after the other, and where each row begins."""
    counts = np.bitwise_count(marks).sum(1, dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(counts)))
    rows = np.empty(starts[-1], np.int64)
    kernels.extract(marks, starts[:-1].copy(), rows)
    return starts, rows


def _rising(starts: np.ndarray, end: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == end and (np.diff(starts) >= 0).all())


def _within(rows: np.ndarray, count: int) -> bool:
    return not rows.size or bool(rows.min() >= 0 and rows.max() < count)
