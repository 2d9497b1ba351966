"""What the passes of a method may take and what they did: memory limit, chunks, the record."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from sfumato.core.validation import integer
from sfumato.errors import ParameterError
from sfumato.mine.itemsets.sources.baskets import CHUNK_BYTES, BasketChunk, Baskets

__all__ = ["BLOCK_BYTES", "LONGEST", "OWNER", "ItemsetLevels", "Level", "Passes", "level_of"]

Level: TypeAlias = "tuple[np.ndarray, np.ndarray]"  # codes, one rising row each, and their counts
OWNER = "frequent_itemsets"
BLOCK_BYTES = 1 << 20  # of bits that are worked on together: they should stay in cache
LONGEST = 5_000  # items of a basket whose pairs are counted: 12.5 million pairs


class ItemsetLevels(list[Level]):
    """Itemsets by size, in lexicographic order of their codes.

    `exact` is False if an itemset may be missing or a count too low; `missed` is how many are
    expected to be missing, where the method can estimate it; `warning` is a sentence for the user.
    """

    exact: bool = True
    missed: float = 0.0
    warning: str | None = None


def level_of(codes: np.ndarray, counts: np.ndarray, min_count: int) -> Level:
    """The rows that are in at least so many baskets, in their order."""
    frequent = counts >= min_count
    return np.ascontiguousarray(codes[frequent], np.int32), counts[frequent].astype(np.int64)


class Passes:
    """Passes of one method over baskets, within a memory limit, with a record of each.

    Half of the limit is for tables and candidates (`budget`), an eighth for a chunk of baskets;
    the rest is left to what reads and converts chunks.

    Parameters
    ----------
    method : str
        Name of the method, for errors.
    baskets : Baskets
        Baskets to pass over.
    memory_limit : int or None
        Bytes; None for no limit.
    explain : list of dict or None
        Gets one record per pass.
    longest : int
        Number of items of a basket whose pairs are counted, the most frequent ones of a longer.
    """

    def __init__(
        self,
        method: str,
        baskets: Baskets,
        memory_limit: int | None,
        explain: list[dict[str, Any]] | None,
        longest: int = LONGEST,
    ) -> None:
        self.method: str
        self.baskets: Baskets
        self.limit: int | None
        self.explain: list[dict[str, Any]] | None
        self.method, self.baskets, self.limit, self.explain = method, baskets, memory_limit, explain
        self.size: int = baskets.size  # counts the items first, unless that is done
        self._before = baskets.passes - 1
        self.longest: int = integer(2).check(OWNER, "longest", longest)
        self.budget: int = sys.maxsize if memory_limit is None else memory_limit // 2
        self.tables: int | None = None if memory_limit is None else self.budget
        self.block_bytes: int = min(BLOCK_BYTES, self.budget // 4)
        # Reading takes several copies of a chunk: decoded, coded and arranged.
        self.chunk_bytes: int = (
            CHUNK_BYTES if memory_limit is None else min(CHUNK_BYTES, self.budget // 16)
        )

    def read(self, max_code: int, chunk_bytes: int | None = None) -> Iterator[BasketChunk]:
        """One pass over the items below a code."""
        return self.baskets.read(max(1, chunk_bytes or self.chunk_bytes), max_code)

    def reserve(self, what: str, wanted: int) -> None:
        """Refuse what does not fit into the budget of tables."""
        if self.limit is not None and wanted > self.budget:
            raise ParameterError.of(
                OWNER,
                "memory_limit",
                f"must be at least {2 * wanted} bytes for method {self.method!r}, not "
                f"{self.limit}: {what} take {wanted}, and half of the limit is for them; raise the "
                "limit or min_support, or lower max_size.",
            )

    @contextmanager
    def record(self, step: str) -> Iterator[dict[str, Any]]:
        """Time a pass; what it puts into the dictionary joins the record."""
        facts: dict[str, Any] = {}
        start = time.perf_counter()
        yield facts
        if self.explain is not None:
            seconds = time.perf_counter() - start
            about = {"pass": self.baskets.passes - self._before, "step": step}
            self.explain.append({**about, **facts, "seconds": round(seconds, 6)})

    def frequent_items(self, min_count: int) -> tuple[int, Level]:
        """Number of frequent items and their level; counted when the baskets were first read."""
        with self.record("count items") as facts:
            n = self.baskets.frequent(min_count)
            facts.update(candidates=self.baskets.items.size, frequent=n)
            facts.update(memory=8 * self.baskets.items.size)
        codes = np.arange(n, dtype=np.int32)[:, None]
        return n, (codes, self.baskets.item_counts[:n].astype(np.int64))
