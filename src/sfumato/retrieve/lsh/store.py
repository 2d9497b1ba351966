"""Rows of an LSH index as immutable snapshots, and the lookup and ranking of candidates."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.kernels.alignment import aligned, frozen
from sfumato.kernels.retrieve import bucket_tables as tables
from sfumato.kernels.retrieve import rerank
from sfumato.retrieve.binary.search import padding
from sfumato.retrieve.binary.store import bits_of, check_ids, extended, mask_of
from sfumato.retrieve.lsh.buckets import Buckets, Run, listed, words
from sfumato.retrieve.lsh.hash_families import Bands, Hyperplanes, RandomLines, SetMinima
from sfumato.retrieve.metric import Lift, Space
from sfumato.retrieve.row_ids import RowIds, taken_names

__all__ = ["BandHashes", "BandQueries", "Tabled", "Without", "best", "candidates"]

ROOM = 1 << 22  # hashes that are computed at a time
MOST = 1 << 26  # numbers in all directions together: 512 MiB


class BandHashes(NamedTuple):
    """Hash functions of the bands, and the transformation of vectors before hashing."""

    space: Space
    lift: Lift | None
    dimension: int
    bands: Bands

    @classmethod
    def of(cls, parameters: dict[str, Any], lift: Lift | None, dimension: int) -> Self:
        """Build the hash functions for the parameters of an index."""
        bands, rows, seed = (parameters[name] for name in ("bands", "rows", "seed"))
        metric = parameters["metric"]
        if metric == "jaccard":
            return cls(Space(metric), None, dimension, Bands(SetMinima(), bands, rows, seed))
        if bands * rows * dimension > MOST:
            raise ValueError(
                f"LshIndex: bands times rows times the dimension must be at most 2**26, not "
                f"{bands} * {rows} * {dimension}; take fewer bands or rows."
            )
        known = (bands, rows), dimension + (lift is not None), seed
        if metric == "euclidean":
            family: Any = RandomLines(*known, parameters["width"])
        else:
            family = Hyperplanes(*known, parameters["directions"])
        return cls(Space(metric), lift, dimension, Bands(family, bands, rows, seed))

    def keys(self, vectors: np.ndarray) -> np.ndarray:
        """Keys of vectors, uint64 (n, bands), computed in bounded memory."""
        out = np.empty((len(vectors), self.bands.shape[0]), np.uint64)
        points = self.targets if self.lift is None else self.lift.points
        step = max(ROOM // max(self.hashes, vectors.shape[1]), 1)
        for at in range(0, len(vectors), step):
            part = slice(at, at + step)
            out[part] = self.bands.keys(_exact(points(vectors[part])))
        return out

    def targets(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors that scores are computed from, float32; signatures of sets are unchanged."""
        return vectors if self.space.metric == "jaccard" else self.space.targets(vectors)

    def probe_keys(self, targets: np.ndarray, probes: int) -> np.ndarray:
        """Keys to look up for the targets of queries, uint64 (q, bands, probes)."""
        exact = _exact(targets)
        return self.bands.probe_keys(
            exact if self.lift is None else self.lift.lifted_queries(exact), probes
        )

    @property
    def hashes(self) -> int:
        """Number of hashes of a vector."""
        return self.bands.shape[0] * self.bands.shape[1]

    @property
    def dtype(self) -> type[np.generic]:
        """Type of the numbers of stored vectors: the minima of sets are integers."""
        return np.uint32 if self.space.metric == "jaccard" else np.float32


def _exact(points: np.ndarray) -> np.ndarray:
    """Numbers as the hash functions take them."""
    return points if points.dtype == np.uint32 else points.astype(np.float64)


@dataclass(frozen=True)
class Tabled:
    """Snapshot of an index: `count` rows, of which those with a bit in `alive` can be found.

    ids and vectors may be longer than `count`; alive is None where no row was removed.
    """

    learned: BandHashes
    count: int
    living: int
    ids: np.ndarray
    vectors: np.ndarray | None
    alive: np.ndarray | None
    by_id: Buckets
    buckets: Buckets
    names: RowIds

    @classmethod
    def empty(cls, learned: BandHashes, *, keep: bool) -> Self:
        """Snapshot without rows."""
        vectors = aligned((0, learned.dimension), learned.dtype) if keep else None
        by_id, buckets = Buckets(1), Buckets(learned.bands.shape[0])
        ids = aligned(0, np.int64)
        return cls(learned, 0, 0, ids, vectors, None, by_id, buckets, RowIds())

    @property
    def nbytes(self) -> int:
        """Bytes of tables, ids and vectors, and of the lookup of ids."""
        stored = [self.ids, self.vectors, self.alive]
        arrays = sum(int(array.nbytes) for array in stored if array is not None)
        return arrays + self.buckets.nbytes + self.by_id.nbytes

    def rows(self) -> np.ndarray:
        """The living rows, ascending."""
        return np.flatnonzero(self._mask())

    def positions(self, ids: np.ndarray) -> np.ndarray:
        """Living row of each id, -1 for an unknown id."""
        out = np.full(ids.size, -1, np.int64)
        at, rows = self.by_id.pairs(ids.astype(np.uint64)[:, None])
        lives = self._mask()[rows]
        out[at[lives]] = rows[lives]
        return out

    def appended(self, ids: np.ndarray, vectors: np.ndarray) -> "Tabled":
        """Snapshot with these rows appended; none of the ids may be alive."""
        total, alive, stored = self.count + ids.size, self.alive, self.vectors
        if alive is not None:
            alive = bits_of(np.append(self._mask(), np.ones(ids.size, bool)))
        if stored is not None:
            stored = extended(stored, self.count, self.learned.targets(vectors))
        return replace(
            self,
            count=total,
            living=self.living + ids.size,
            ids=extended(self.ids, self.count, ids),
            vectors=stored,
            alive=alive,
            by_id=self.by_id.copy().add(ids.astype(np.uint64)[:, None]),
            buckets=self.buckets.copy().add(self.learned.keys(vectors)),
        )

    def removed(self, rows: np.ndarray) -> "Tabled":
        """Snapshot without these living, distinct rows."""
        mask = self._mask()
        mask[rows] = False
        return replace(self, alive=bits_of(mask), living=self.living - rows.size)

    def compacted(self) -> "Tabled":
        """Snapshot of the living rows alone, copied if any was removed."""
        if self.alive is None:
            return self
        mask = self._mask()
        ids = self.ids[: self.count][mask]
        return replace(
            self,
            count=self.living,
            ids=ids,
            vectors=None if self.vectors is None else self.vectors[: self.count][mask],
            alive=None,
            by_id=self.by_id.copy().compact(mask),
            buckets=self.buckets.copy().compact(mask),
            names=self.names.of_rows(ids),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of a file; no row may be removed."""
        ids = self.ids[: self.count]
        out = {"ids": ids, **self.names.arrays(ids)}
        if self.names.kind == "text":
            out["ids"] = np.arange(self.count)  # numbered anew
        if self.learned.lift is not None:
            out["centre"] = self.learned.lift.centre
        if self.vectors is not None:
            out["vectors"] = self.vectors[: self.count]
        return {**out, **self.buckets.whole()._asdict()}

    @classmethod
    def restored(
        cls,
        learned: BandHashes,
        count: int,
        arrays: dict[str, np.ndarray],
        *,
        keep: bool,
        check: bool,
    ) -> Self:
        """Rows of a file; ValueError where its arrays are inconsistent."""
        names = taken_names(arrays)
        run = Run(*(arrays[name] for name in Run._fields))
        run.check(learned.bands.shape[0], count, deep=check)
        layout: dict[str, tuple[Any, tuple[int, ...]]] = {"ids": (np.int64, (count,))}
        if keep:
            layout["vectors"] = learned.dtype, (count, learned.dimension)
        found = {name: arrays[name] for name in arrays.keys() - {*Run._fields, "centre"}}
        if {name: (array.dtype, array.shape) for name, array in found.items()} != layout:
            raise ValueError("an array is missing, or has the wrong type or shape.")
        ids = found["ids"]
        by_id = Buckets(1).add(ids.astype(np.uint64)[:, None])
        buckets = Buckets.over(learned.bands.shape[0], count, (run,) if count else ())
        if check:
            check_ids(ids)
        texts = RowIds.restored(names, ids)
        return cls(learned, count, count, ids, found.get("vectors"), None, by_id, buckets, texts)

    def _mask(self) -> np.ndarray:
        if self.alive is None:
            return np.ones(self.count, bool)
        return mask_of(self.alive, self.count)


MARK_BYTES = 1 << 19  # bytes of marks in one batch of queries, so that they stay in cache
BATCH_HASHES = 1 << 21  # keys and hashes of one batch of queries


class Without(NamedTuple):
    """Rows excluded for query q: rows[starts[q] : starts[q + 1]]."""

    starts: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, owner: str, now: Tabled, queries: int, given: Any) -> "Without":
        """Build from (starts, ids); ids that are not in the index are ignored."""
        wanted = f"{queries + 1} starts that rise from 0 to the number of ids"
        invalid = ValueError(f"{owner}: without must be (starts, ids): {wanted}.")
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise invalid
        starts, column = np.asarray(given[0]), now.names.numbers(owner, given[1])
        if starts.shape != (queries + 1,) or starts.dtype.kind not in "iu":
            raise invalid
        starts = starts.astype(np.int64)
        if starts[0] != 0 or starts[-1] != column.size or (np.diff(starts) < 0).any():
            raise invalid
        rows = now.positions(column)
        known = np.concatenate(([0], np.cumsum(rows >= 0)))
        return cls(known[starts], rows[rows >= 0])


class BandQueries(NamedTuple):
    """Queries of a search, and the rows that all or each of them may return."""

    learned: BandHashes
    targets: np.ndarray
    probes: int
    alive: np.ndarray | None
    without: Without | None = None

    def batches(self, buckets: Buckets) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield the slice, row offsets and ascending candidate rows of some queries at a time."""
        step = max(MARK_BYTES // (8 * words(buckets.count) or 1), 1)
        for first, keys in self._keys():
            for at in range(0, len(keys), step):
                marks = buckets.marks(keys[at : at + step])
                part = slice(first + at, first + at + len(marks))
                if self.alive is not None:
                    marks &= self.alive
                if self.without is not None:
                    tables.clear(*self.without, np.arange(part.start, part.stop), marks)
                yield part, *listed(marks)

    def _keys(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the first query of each batch and the keys of the batch."""
        size = self.learned.bands.shape[0] * self.probes + self.learned.hashes
        step = max(BATCH_HASHES // size, 1)
        for first in range(0, len(self.targets), step):
            yield first, self.learned.probe_keys(self.targets[first : first + step], self.probes)


def candidates(buckets: Buckets, queries: BandQueries) -> tuple[np.ndarray, np.ndarray]:
    """Candidate rows of query q, ascending, at rows[starts[q] : starts[q + 1]]."""
    starts, found = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for _, begins, rows in queries.batches(buckets):
        starts.append(begins[1:] + starts[-1][-1])
        found.append(rows)
    return np.concatenate(starts), np.concatenate(found)


def best(
    buckets: Buckets, queries: BandQueries, vectors: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and rows of the k best candidates, best first, padded by -inf and -1.

    Scores are inner products with `vectors`, negated distances, or fractions of equal minima.
    """
    # A list longer than the rows there are would only be sorted in vain.
    most = min(k, buckets.count)
    scores, positions = padding(len(queries.targets), most)
    still = frozen(vectors[: buckets.count])
    metric = queries.learned.space.metric
    score = {"euclidean": rerank.nearest, "jaccard": rerank.matches}.get(metric, rerank.products)
    for part, starts, rows in queries.batches(buckets):
        score(still, queries.targets[part], starts, rows, positions[part], scores[part])
    all_scores, all_positions = padding(len(queries.targets), k)
    all_scores[:, :most], all_positions[:, :most] = scores, positions
    return all_scores, all_positions
