"""Private counting of itemsets: noise for each size, baskets cut to a public number of items.

Nothing here is a promise by itself: the proof is that of `PrivateItemsets`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.hashing import hash_column
from sfumato.core.ids import texts
from sfumato.kernels.mine.itemsets import truncated_baskets as kernels
from sfumato.mine.itemsets.methods.candidates import Supports
from sfumato.mine.itemsets.sources.baskets import BasketChunk, Baskets
from sfumato.privacy.accounting.gaussian_steps import Budget
from sfumato.privacy.accounting.losses import Approximate, Loss, Pure
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import Source

if TYPE_CHECKING:
    from sfumato.engine import Rows

__all__ = ["GRID", "CutBaskets", "CutRows", "NoisePlan"]

GRID = 64  # parts of a basket that counts are rounded to: Gaussian steps are sized by integers


@dataclass(frozen=True)
class NoisePlan:
    """Noise of all stages by public numbers: a first count of items, then one for each size.

    A basket of at most m items adds GRID to at most m counts of items and to the number of baskets
    in the first stage, and to at most binomial(m, k) counts of itemsets of size k in a later one.
    The stages have equal parts of the budget: larger itemsets have more noise, and their estimates
    rest on those of smaller ones.
    """

    epsilon: float
    delta: float
    max_items: int
    max_size: int
    open: bool  # whether items come from the baskets, not from a vocabulary

    @cached_property
    def changes(self) -> list[int]:
        """Number of counts that one basket changes, by stage."""
        sizes = range(1, self.max_size + 1) if self.max_size > 1 else range(0)
        return [self.max_items + 1, *(math.comb(self.max_items, k) for k in sizes)]

    @cached_property
    def _budget(self) -> Budget:
        return Budget.of(self.epsilon, self.delta / 2 if self.open else self.delta)

    @cached_property
    def scales(self) -> list[Fraction]:
        """Scale of Laplace noise, or sigma of Gaussian noise, by stage, in parts of a basket."""
        part = Fraction(1, len(self.changes))
        if self.delta:
            return [Fraction(self._budget.sigma(GRID**2 * n, part)) for n in self.changes]
        return [GRID * n / (part * Fraction(self.epsilon)) for n in self.changes]

    @property
    def loss(self) -> Loss:
        """Loss of all stages together."""
        if self.open:
            return Approximate(self.epsilon, self.delta)
        return self._budget.loss if self.delta else Pure(self.epsilon)

    @property
    def kind(self) -> str:
        return "Gaussian" if self.delta else "Laplace"

    @cached_property
    def release_threshold(self) -> int:
        """Noisy count from which an item that is not in a vocabulary is named, in parts.

        An item of one basket alone has count GRID; noise exceeds t with probability at most
        exp(-t**2 / (2 sigma**2)), so that of max_items such items one is named with probability at
        most delta / 2.
        """
        nats = math.log(2 * self.max_items / self.delta)
        return GRID + math.ceil(float(self.scales[0]) * math.sqrt(2 * nats) * (1 + 1e-9)) + 1

    def deviations(self) -> np.ndarray:
        """Standard deviation of the noise on counts of sizes 1, 2, ..., in baskets."""
        factor = 1.0 if self.delta else math.sqrt(2)
        stages = self.scales[1:] or self.scales
        return np.array([factor * float(scale) / GRID for scale in stages])

    def noise_threshold(self, stage: int, candidates: int) -> float:
        """Noisy count that one of so many candidates in no basket reaches on average, in parts."""
        scale = float(self.scales[stage])
        if self.delta:
            return scale * NormalDist().inv_cdf(1 - 1 / max(candidates, 2))
        return scale * math.log(max(candidates, 2) / 2)

    def add(self, stage: int, counts: np.ndarray, source: Source) -> np.ndarray:
        """Return counts in parts of a basket, with the noise of a stage."""
        cells = np.ascontiguousarray(counts, np.int64) * GRID
        draw = noise.add_gaussian if self.delta else noise.add_laplace
        draw(cells, self.scales[stage], source=source)
        return cells


class CutBaskets:
    """Baskets by the canonical text of their items, cut to at most `max_items` different ones."""

    def __init__(self, baskets: Any, max_items: int, seed: int) -> None:
        self.baskets: Baskets
        self.max_items: int
        self.baskets, self.max_items = Baskets._by_row(baskets), max_items
        self.size: int
        baskets, self.size = self.baskets, self.baskets.size
        self.names: Any = texts(baskets.items)
        self._hashes = hash_column(self.names, seed, name="items")
        blank = pc.equal(pc.utf8_trim_whitespace(self.names), "")
        self._named = ~np.asarray(blank)

    def own_items(self) -> pa.Array:
        """Return the different texts of the items in order of text; they are private."""
        words = self.names.filter(pa.array(self._named)).unique()
        return words.take(pc.sort_indices(words))

    def item_counts(self, items: pa.Array, *, sampled: bool) -> np.ndarray:
        """Return the number of cut baskets with each of these items."""
        counts = np.zeros(len(items), np.int64)
        for chunk in self._cut(items, sampled):
            counts += np.bincount(chunk.items, minlength=counts.size)
        return counts

    def counts(self, items: pa.Array, itemsets: np.ndarray) -> np.ndarray:
        """Return the number of cut baskets with all items of each row of positions in `items`.

        The rows are rising, and in lexicographic order.
        """
        supports = Supports([itemsets], len(items))
        for chunk in self._cut(items, sampled=False):
            supports.add(chunk)
        return supports.counts[0] if itemsets.size else np.zeros(0, np.int64)

    def _cut(self, items: pa.Array, sampled: bool) -> Iterator[BasketChunk]:
        found = pc.fill_null(pc.index_in(self.names, value_set=items), -1)
        places = np.where(self._named, np.asarray(found), -1).astype(np.int32)
        best = np.empty(self.max_items, np.uint64)
        for offsets, codes in self.baskets.read():
            ends, out = np.empty_like(offsets), np.empty(codes.size, np.int32)
            latest = np.full(len(items), -1, np.int64)
            how = (self._hashes, places, latest, sampled, self.max_items, best)
            size = kernels.cut(offsets, codes, *how, ends, out)
            yield BasketChunk(ends, out[:size])


class CutRows:
    """`CutBaskets` of rows of an engine: the same counts, as sums over partitions."""

    def __init__(self, rows: "Rows", column: str, max_items: int, seed: int) -> None:
        self._rows, self._how = rows, (column, max_items, seed)
        self.size: int = int(self._total(lambda cut: np.int64(cut.size)))

    def own_items(self) -> pa.Array:
        """Return the different texts of the items in order of text; they are private."""

        def both(left: pa.Array, right: pa.Array) -> pa.Array:
            return pa.concat_arrays([left, right]).unique()

        words = self._rows.fold(_OfPart(*self._how, lambda cut: cut.own_items()), both)
        return words.take(pc.sort_indices(words))

    def item_counts(self, items: pa.Array, *, sampled: bool) -> np.ndarray:
        """Return the number of cut baskets with each of these items."""
        return np.asarray(self._total(lambda cut: cut.item_counts(items, sampled=sampled)))

    def counts(self, items: pa.Array, itemsets: np.ndarray) -> np.ndarray:
        """Return the number of cut baskets with all items of each row of positions in `items`."""
        return np.asarray(self._total(lambda cut: cut.counts(items, itemsets)))

    def _total(self, of: "Callable[[CutBaskets], Any]") -> Any:
        return self._rows.fold(_OfPart(*self._how, of), np.add)


@dataclass(frozen=True)
class _OfPart:
    """Fold to what a function makes of the cut baskets of a partition."""

    column: str
    max_items: int
    seed: int
    of: Callable[[CutBaskets], Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Any:
        parts = [batch.column(self.column) for batch in batches if batch.num_rows]
        baskets = pa.chunked_array(parts) if parts else []
        return self.of(CutBaskets(baskets, self.max_items, self.seed))
