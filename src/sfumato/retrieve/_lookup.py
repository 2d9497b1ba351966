"""Looking up in tables: the rows that share a bucket with a query, and the best of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sfumato.kernels import rerank, tables
from sfumato.retrieve._buckets import Buckets, listed, words

__all__ = ["Asked", "Without", "best", "candidates"]

ROOM = 1 << 19  # bytes of marks in one batch of queries, so that they stay in cache


class Without(NamedTuple):
    """Rows that query q must not get: rows[starts[q] : starts[q + 1]]."""

    starts: np.ndarray
    rows: np.ndarray


class Asked(NamedTuple):
    """Keys of queries in every table, the rows that may be found, and those that each may not."""

    keys: np.ndarray
    alive: np.ndarray | None
    without: Without | None

    def batches(self, buckets: Buckets) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Some queries at a time: which, where each one's rows start, and the rows, ascending."""
        step = max(ROOM // (8 * words(buckets.count) or 1), 1)
        for at in range(0, len(self.keys), step):
            part = slice(at, min(at + step, len(self.keys)))
            marks = buckets.marks(self.keys[part])
            if self.alive is not None:
                marks &= self.alive
            if self.without is not None:
                starts, rows = self.without
                tables.clear(starts, rows, np.arange(part.start, part.stop), marks)
            yield part, *listed(marks)


def candidates(buckets: Buckets, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """The rows of query q, ascending, at rows[starts[q] : starts[q + 1]]."""
    starts, found = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for _, begins, rows in asked.batches(buckets):
        starts.append(begins[1:] + starts[-1][-1])
        found.append(rows)
    return np.concatenate(starts), np.concatenate(found)


def best(
    buckets: Buckets,
    asked: Asked,
    vectors: np.ndarray,
    targets: np.ndarray,
    k: int,
    *,
    euclidean: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and rows of the k best candidates, best first, padded by -inf and -1.

    Scores are inner products with `vectors`, or minus the distances from them.
    """
    scores = np.full((len(targets), k), -np.inf, np.float32)
    places = np.full((len(targets), k), -1, np.int64)
    still = vectors[: buckets.count]
    still.flags.writeable = False  # mapped or not, so that the kernel is compiled once
    score = rerank.nearest if euclidean else rerank.products
    for part, starts, rows in asked.batches(buckets):
        score(still, targets[part], starts, rows, places[part], scores[part])
    return scores, places
