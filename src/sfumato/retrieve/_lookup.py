"""Looking up in tables: the rows that share a bucket with a query, and the best of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sfumato.kernels import rerank, tables
from sfumato.kernels.scan import frozen
from sfumato.retrieve._buckets import Buckets, listed, words
from sfumato.retrieve._index_ids import whole_ids
from sfumato.retrieve._search import padding
from sfumato.retrieve._tabled import Learned, Tabled

__all__ = ["Asked", "Without", "best", "candidates"]

ROOM = 1 << 19  # bytes of marks in one batch of queries, so that they stay in cache
MOST = 1 << 21  # keys and hashes of one batch of queries


class Without(NamedTuple):
    """Rows that query q must not get: rows[starts[q] : starts[q + 1]]."""

    starts: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, owner: str, now: Tabled, queries: int, given: Any) -> "Without":
        """From (starts, ids); ids that are not in the index are passed over."""
        wanted = f"{queries + 1} starts that rise from 0 to the number of ids"
        wrong = ValueError(f"{owner}: without must be (starts, ids): {wanted}.")
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise wrong
        starts, column = np.asarray(given[0]), whole_ids(owner, given[1])
        if starts.shape != (queries + 1,) or starts.dtype.kind not in "iu":
            raise wrong
        starts = starts.astype(np.int64)
        if starts[0] != 0 or starts[-1] != column.size or (np.diff(starts) < 0).any():
            raise wrong
        rows = now.places(column)
        known = np.concatenate(([0], np.cumsum(rows >= 0)))
        return cls(known[starts], rows[rows >= 0])


class Asked(NamedTuple):
    """Queries, as scores are computed from them, and the rows that all or each of them may get."""

    learned: Learned
    targets: np.ndarray
    probes: int
    alive: np.ndarray | None
    without: Without | None = None

    def batches(self, buckets: Buckets) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Some queries at a time: which, where each one's rows start, and the rows, ascending."""
        step = max(ROOM // (8 * words(buckets.count) or 1), 1)
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
        """The keys of some queries at a time, and the first of these."""
        size = self.learned.bands.shape[0] * self.probes + self.learned.hashes
        step = max(MOST // size, 1)
        for first in range(0, len(self.targets), step):
            yield first, self.learned.asked(self.targets[first : first + step], self.probes)


def candidates(buckets: Buckets, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """The rows of query q, ascending, at rows[starts[q] : starts[q + 1]]."""
    starts, found = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for _, begins, rows in asked.batches(buckets):
        starts.append(begins[1:] + starts[-1][-1])
        found.append(rows)
    return np.concatenate(starts), np.concatenate(found)


def best(
    buckets: Buckets, asked: Asked, vectors: np.ndarray, k: int, *, euclidean: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and rows of the k best candidates, best first, padded by -inf and -1.

    Scores are inner products with `vectors`, or minus the distances from them.
    """
    # A list longer than the rows there are would only be sorted in vain.
    most = min(k, buckets.count)
    scores, places = padding(len(asked.targets), most)
    still = frozen(vectors[: buckets.count])
    score = rerank.nearest if euclidean else rerank.products
    for part, starts, rows in asked.batches(buckets):
        score(still, asked.targets[part], starts, rows, places[part], scores[part])
    all_scores, all_places = padding(len(asked.targets), k)
    all_scores[:, :most], all_places[:, :most] = scores, places
    return all_scores, all_places
