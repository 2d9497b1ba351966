"""Hash tables in sorted arrays: the rows that share a key in at least one of several tables."""

from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Column
from sfumato.core.validation import integer
from sfumato.kernels.retrieve import bucket_tables as kernels
from sfumato.kernels.seed_keys import integer_hashes
from sfumato.sketch.base import SEED

__all__ = ["Buckets", "Run", "band_keys", "coefficients", "listed", "words"]

MOST_ROWS = 2**31 - 1  # row numbers have 32 bits
TABLES = integer(1, 2**20)


class Run(NamedTuple):
    """Some rows in all tables, in the layout of `kernels.retrieve.bucket_tables`."""

    first: np.ndarray
    keys: np.ndarray
    starts: np.ndarray
    rows: np.ndarray

    def check(self, tables: int, count: int, *, deep: bool) -> None:
        """Raise ValueError for arrays that would lead a kernel out of bounds; `deep` reads them."""
        types = [array.dtype for array in self] == [np.int64, np.uint64, np.int64, np.int32]
        sizes = [array.size for array in self]
        fits = types and sizes == [tables + 1, sizes[1], sizes[1] + 1, tables * count]
        if not fits or not _rising(self.first, sizes[1]) or any(a.ndim != 1 for a in self):
            raise ValueError("the tables of the index do not go together.")
        if deep and not (_rising(self.starts, sizes[3]) and _within(self.rows, count)):
            raise ValueError("the tables of the index lead out of it.")

    def still(self) -> "Run":
        """Make the arrays read-only, so that kernels are compiled once for all runs."""
        for array in self:
            array.flags.writeable = False
        return self


class Buckets:
    """Rows indexed by one key in each of several tables; any shared key finds a row.

    Memory is 4 bytes per row and table, plus 16 per distinct key.

    Parameters
    ----------
    tables : int
        Number of keys per row, 1 to 2**20. Keys are 64-bit integers, as made by `band_keys` from
        signatures.

    Attributes
    ----------
    count : int
        Number of rows.

    Notes
    -----
    **Guarantee.** `rows_of` returns exactly the rows that share a key with a query in at least one
    table, each once, ascending. Rows are numbered in the order of insertion. A call that raises
    changes nothing, and a `copy` does not change with the original.

    Rows inserted together form a sorted run. A run is merged with its predecessor unless that is
    more than twice as large, so n rows are in at most log2(n) + 1 runs and each row is moved at
    most log1.5(n) times.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 3.4 (banding).
       http://www.mmds.org

    Examples
    --------
    >>> buckets = Buckets(2).add([[7, 1], [8, 1], [9, 2]])
    >>> buckets.rows_of([[7, 2], [0, 1]])
    (array([0, 2, 4]), array([0, 2, 0, 1]))
    """

    def __init__(self, tables: int) -> None:
        self.tables: int = TABLES.check("Buckets", "tables", tables)
        self.count = 0
        self.runs: tuple[Run, ...] = ()  # never changed, so that readers keep theirs

    @classmethod
    def over(cls, tables: int, count: int, runs: tuple[Run, ...]) -> Self:
        """Build buckets from existing runs.

        Parameters
        ----------
        tables : int
            Number of keys per row.
        count : int
            Number of rows of all runs together.
        runs : tuple of Run
            The runs, as of another object's `runs`.

        Returns
        -------
        Self
            The buckets; the arrays of the runs are not copied.
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
        """Copy the buckets; the arrays are shared until either changes.

        Returns
        -------
        Buckets
            The copy.
        """
        return Buckets.over(self.tables, self.count, self.runs)

    def add(self, keys: Column) -> Self:
        """Add rows with these keys.

        Parameters
        ----------
        keys : array_like of shape (n, tables)
            One row of integers per row to add.

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
        """Merge all rows into one run.

        Returns
        -------
        Run
            The merged run; this object is not changed.
        """
        runs = list(self.runs) or [_sorted(np.empty((0, self.tables), np.uint64), 0)]
        while len(runs) > 1:
            right, left = runs.pop(), runs.pop()
            runs.append(_merged(left, right))
        return runs[0]

    def compact(self, alive: np.ndarray) -> Self:
        """Delete rows and renumber the others.

        Parameters
        ----------
        alive : ndarray of bool with shape (count,)
            True for each row to retain.

        Returns
        -------
        Self
            The object itself.
        """
        alive = np.asarray(alive)
        if alive.dtype != bool or alive.shape != (self.count,):
            raise ValueError(f"Buckets: alive must be a boolean mask with {self.count} entries.")
        first, keys, starts, rows = self.whole()
        retained = np.concatenate(([0], np.cumsum(alive[rows])))[starts]
        filled = np.diff(retained) > 0
        rows = (np.cumsum(alive) - 1).astype(np.int32)[rows[alive[rows]]]
        first = np.concatenate(([0], np.cumsum(filled)))[first]
        starts = np.append(retained[:-1][filled], retained[-1])
        self.runs, self.count = (Run(first, keys[filled], starts, rows).still(),), int(alive.sum())
        return self

    def marks(self, keys: np.ndarray) -> np.ndarray:
        """Mark the rows in the buckets that each query looks up.

        Parameters
        ----------
        keys : ndarray of shape (n_queries, tables, probes)
            Keys to look up in each table, uint64.

        Returns
        -------
        ndarray of shape (n_queries, words)
            Bit sets, uint64: bit i of a query, lowest first, is set if row i is in one of its
            buckets.
        """
        if keys.dtype != np.uint64 or keys.ndim != 3 or keys.shape[1] != self.tables:
            raise ValueError(f"Buckets: keys must be uint64 (queries, {self.tables}, probes).")
        out = np.zeros((len(keys), words(self.count)), np.uint64)
        for run in self.runs:
            kernels.mark(*run, keys, out)
        return out

    def pairs(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find all pairs of a query and a row that share a key.

        A row that shares several keys with a query occurs as often.

        Parameters
        ----------
        keys : ndarray of shape (n_queries, tables)
            Keys of the queries.

        Returns
        -------
        queries : ndarray of shape (n_pairs,)
            Index of the query of each pair.
        rows : ndarray of shape (n_pairs,)
            Row number of each pair.
        """
        keys = self._keys(keys)
        at, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for first, known, starts, rows in self.runs:
            positions = np.empty((*keys.shape, 1), np.int64)
            kernels.find(first, known, keys[:, :, None], positions)
            which = np.nonzero(positions >= 0)[0]
            met = positions[positions >= 0]
            sizes = starts[met + 1] - starts[met]
            at.append(np.repeat(which, sizes))
            within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            found.append(rows[np.repeat(starts[met], sizes) + within].astype(np.int64))
        return np.concatenate(at), np.concatenate(found)

    def rows_of(self, keys: Column) -> tuple[np.ndarray, np.ndarray]:
        """Find the rows that share a key with each query.

        Parameters
        ----------
        keys : array_like of shape (n_queries, tables)
            Keys of the queries. This takes one bit of memory for each pair of a query and a row, so
            split the queries where both are many.

        Returns
        -------
        starts : ndarray of shape (n_queries + 1,)
            Offsets: the rows of query q are ``rows[starts[q] : starts[q + 1]]``.
        rows : ndarray of shape (starts[-1],)
            Row numbers, ascending for each query, each once.
        """
        return listed(self.marks(self._keys(keys)[:, :, None]))

    def _keys(self, keys: Any) -> np.ndarray:
        found = integer_values("Buckets", "keys", keys)
        if len(found) and found.shape[1] != self.tables:
            raise ValueError(
                f"Buckets: keys must have {self.tables} columns (tables), not {found.shape[1]}."
            )
        return found.astype(np.uint64, copy=False).reshape(-1, self.tables)


def words(count: int) -> int:
    """Number of 64-bit words for one bit per row."""
    return -(-count // 64)


def coefficients(tables: int, rows: int, seed: int) -> np.ndarray:
    """Multipliers that combine the hashes of a band into one key, from a seed alone.

    Two different bands get equal keys with probability about 2**-63 for most differences, and at
    most 2**-32 for any of 32-bit hashes: a sum of products with random 64-bit numbers.
    """
    numbers = integer_hashes(tables * rows, seed) | np.uint64(1)
    return numbers.reshape(tables, rows)


def band_keys(codes: Any, bands: int, *, seed: int = 0) -> np.ndarray:
    """Compute one key per band of columns, equal where all columns of the band are equal.

    Parameters
    ----------
    codes : array_like of shape (n, columns)
        Integers of up to 32 bits, such as MinHash signatures. A band is ``columns // bands``
        consecutive columns; remaining columns are ignored.
    bands : int
        Number of bands, 1 to the number of columns.
    seed : int, default=0
        Seed of the keys; only keys of one seed can be compared.

    Returns
    -------
    ndarray of shape (n, bands)
        Keys for `Buckets`, uint64.

    Notes
    -----
    **Guarantee.** Equal bands have equal keys; different bands have equal keys with probability at
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
    """Validate a contiguous matrix of integers; ValueError for anything else."""
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
    """Sort new rows, numbered from `row`, into a run."""
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
    """Offsets and positions of the set bits of each row of marks."""
    counts = np.bitwise_count(marks).sum(1, dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(counts)))
    rows = np.empty(starts[-1], np.int64)
    kernels.extract(marks, starts[:-1].copy(), rows)
    return starts, rows


def _rising(starts: np.ndarray, end: int) -> bool:
    return bool(starts[0] == 0 and starts[-1] == end and (np.diff(starts) >= 0).all())


def _within(rows: np.ndarray, count: int) -> bool:
    return not rows.size or bool(rows.min() >= 0 and rows.max() < count)
