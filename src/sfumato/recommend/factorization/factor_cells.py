"""FactorCells: vectors of users and items in one count sketch, its read-outs and gradient steps."""

from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.validation import checked, integer, one_of
from sfumato.data.interactions import item_seed
from sfumato.kernels import hash as hashing
from sfumato.kernels.alignment import aligned, frozen
from sfumato.kernels.recommend import sgd_ranking
from sfumato.kernels.recommend import sgd_sketch_block as factor_block
from sfumato.kernels.recommend import sgd_sketch_component as factor_component
from sfumato.kernels.seed_keys import key_of
from sfumato.recommend.factorization.passes import NO_LOG, in_ratings
from sfumato.recommend.factorization.preferences import Negatives

__all__ = ["LANES", "LIMITS", "FactorCells", "LineReaders", "cells_of"]

LANES = {"block": 16, "component": 1, "half": 8}  # numbers of an entity stored together
BIAS_SCALE = 2.0  # in blocks half of a bias is stored, so that it disturbs others less
LIMITS: dict[str, Any] = {
    "factors": integer(1, 4096),
    "depth": integer(1, 32),
    "width": integer(1, 2**32),
    "layout": one_of(tuple(LANES)),
    "readout": one_of(("mean", "median")),
    "seed": integer(0, 2**63 - 1),
}


@dataclass(frozen=True)
class FactorCells:
    """Count sketch of vectors: `depth` rows of `width` blocks (or single numbers), all float32.

    A vector is read as the mean or median over rows of sign * cell (thesis, read-out of the count
    sketch, (4.1) and (4.2)). The bias of an entity is the projection of its read-out on the unit
    vector `bias_direction`, times `bias_scale`; the components are the orthogonal part.
    """

    factors: int
    depth: int
    width: int
    layout: str = "block"
    readout: str = "mean"
    seed: int = 0
    table: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32), repr=False)

    def __post_init__(self) -> None:
        checked(self, LIMITS)
        table = aligned(cells_of(self.shape), np.float32)
        if self.table.size:
            table[:] = self.table
        object.__setattr__(self, "table", table)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied array has any alignment; a table that is built starts at a cache line.
        return FactorCells, (*self.shape.values(), self.table)

    @property
    def shape(self) -> dict[str, Any]:
        """All fields but the table, as plain values."""
        return {name: getattr(self, name) for name in LIMITS}

    def resized(self, factors: int) -> "FactorCells":
        """Return the same cells, of which `factors` numbers are read per entity."""
        return FactorCells(**{**self.shape, "factors": factors}, table=self.table)

    def add_noise(self, deviation: float, random: np.random.Generator) -> None:
        """Add Gaussian noise to all cells so that read-outs get this standard deviation."""
        # The mean of `depth` cells has 1 / depth of their variance.
        noise = random.standard_normal(self.table.size, np.float32)
        self.table[:] += noise * np.float32(deviation * self.depth**0.5)

    def descend(
        self,
        *columns: np.ndarray,
        clip: float,
        rate: float,
        weight: float,
        biases: bool = True,
        log: np.ndarray = NO_LOG,
    ) -> float | None:
        """Run the gradient steps (4.3) and (4.4) over hashed users and items and their targets.

        `weight` is the penalty of components and, if `biases`, of biases. Returns a number that is
        finite if all that was written is, or None if that is not known.
        """
        back = 0.0 if biases else rate * weight
        rates = np.array([rate, -rate * weight, self.bias_scale, back], np.float32)
        given = self.width, np.float32(clip), rates, self.bias_direction, self._scale
        if self.layout == "block":
            kernel = factor_block.descender(self._blocks, self.depth, self.readout == "median")
            return float(kernel(*columns, *given, log, self.table))
        # Sixteen numbers are read at a time; those beyond the last count 0.
        keys = factor_block.multipliers(self.depth, -(-self.factors // 16) * 16)
        beyond = np.zeros(keys.shape[1] - self.factors, np.float32)
        whole = (np.append(each, beyond) for each in given[3:])
        median = self.readout == "median"
        factor_component.descend(*columns, keys, *given[:3], *whole, median, self.table)
        return None

    def log(self, rows: int) -> np.ndarray | None:
        """Return an array for the log of a pass; None if copies of tables are smaller or needed."""
        size = 2 * rows * self._keys.size * LANES["block"]
        return np.empty(size, np.float32) if self._fast and 2 * size <= self.table.size else None

    def undo(self, users: np.ndarray, items: np.ndarray, log: np.ndarray) -> None:
        """Write the log of a pass over these hashes back."""
        factor_block.undo(users, items, self._keys, self.width, log, self.table)

    def rank(
        self,
        *columns: np.ndarray,
        seed: int,
        negatives: Negatives | None,
        rates: np.ndarray,
        components: int,
    ) -> None:
        """Run ranking steps over hashed users and items and the numbers of their rows."""
        if negatives is not None:
            kernel = sgd_ranking.ranker(self._blocks, self.depth, LANES[self.layout])
            scale = _lanes(self.layout, self.depth, self._blocks, components)[0]
            given = np.uint64(seed), *negatives, self.width, rates, scale
            kernel(*columns, *given, self.table, self.table)

    def components(self, hashes: np.ndarray, count: int) -> np.ndarray:
        """Return the first `count` numbers of each entity, none of them a bias."""
        scale, numbers = _lanes(self.layout, self.depth, self._blocks, count)
        out = np.empty((hashes.size, scale.size), np.float32)
        given = self.table, self._keys, self.width, LANES[self.layout], hashes
        sgd_ranking.read(*given, scale, out)
        return np.asarray(out[:, numbers])

    def damp(self, hashes: np.ndarray, fraction: float) -> None:
        """Take this fraction off the biases of these entities, one after the other."""
        lanes = LANES[self.layout]  # the bias is in the first block
        given = np.ascontiguousarray(self._keys[:, :1]), self.width, np.float32(fraction)
        first = self.bias_direction[:lanes], self._scale[:lanes]
        if self._fast:
            factor_block.damp(hashes, *given, *first, self.table)
        else:
            median = self.readout == "median"
            factor_component.damp(hashes, *given, median, *first, self.table)

    def vectors(self, hashes: np.ndarray, size: int | None = None, unit: float = 1.0) -> np.ndarray:
        """Return components and, last, bias: read-outs after a reflection, which keeps products.

        They are `size` numbers, zeros before the bias if that is more than `factors`, and products
        and biases are multiplied by `unit`.
        """
        out = np.zeros((hashes.size, size or self.factors), np.float32)
        weights = self._weights(unit)
        if self._fast:
            given = self.table, self._keys, self.width, hashes, self._scale, self._mirror
            factor_block.vectors(*given, weights, self.factors, out)
            return out
        read, mirror = self._read(hashes), self._mirror
        read -= np.outer(read @ mirror.astype(np.float64), mirror).astype(np.float32)
        read *= weights
        out[:, : self.factors - 1] = read[:, : self.factors - 1]
        out[:, -1] = read[:, self.factors - 1]
        return out

    def pair(self, user: int, item: int, mean: float, unit: float) -> float | None:
        """Return the prediction for two integer ids; None where the block kernels do not apply."""
        if not self._fast:
            return None
        given = self._keys, self.width, self._scale, self._mirror, self._weights(unit)
        seeds = self._seeds[2]
        return float(factor_block.pair(self.table, *given, self.factors, seeds, user, item, mean))

    def hashed(self, ids: np.ndarray, side: int) -> np.ndarray:
        """Return the hashes of ids of users (side 0) or items (side 1)."""
        if ids.dtype == np.int64:
            out = np.empty(ids.size, np.uint64)
            hashing.integers(frozen(ids), self._seeds[side], out)
            return out
        seed = item_seed(self.seed) if side else self.seed
        return hash_column(ids, seed, name=("users", "items")[side])

    def line_readers(self, hashes: np.ndarray) -> "LineReaders":
        """Return which of these entities read each line of the table."""
        starts = np.zeros(self.depth * self.width + 2, np.int64)
        entities = np.empty(hashes.size * self._keys.size, np.int32)
        factor_block.by_line(hashes, self._keys, self.width, starts, entities)
        return LineReaders(self._keys, self.width, starts, entities, hashes.size)

    def write(self, hashes: np.ndarray, vectors: np.ndarray) -> None:
        """Add vectors, in the form of `vectors`, to the cells; layout "component" only."""
        numbers = vectors.copy()
        numbers[:, [0, -1]] = numbers[:, [-1, 0]]  # the bias comes first in the cells
        for row, keys in enumerate(self._keys):
            for number, key in zip(numbers.T, keys, strict=True):
                products = hashes * key
                signs = 1 - 2 * (products >> np.uint64(16) & np.uint64(1)).astype(np.float32)
                np.add.at(self.table, self._positions(row, products), number * signs)

    def region(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the table as lines of blocks, and the lines of these entities.

        None stands for all lines, where that costs less than a list of them.
        """
        lines = self.table.reshape(-1, LANES[self.layout])
        if 8 * hashes.size * self._keys.size >= len(lines):
            return lines, None
        products = hashes[:, None, None] * self._keys
        return lines, self._positions(np.arange(self.depth)[:, None], products).ravel()

    def _positions(self, row: int | np.ndarray, products: np.ndarray) -> np.ndarray:
        """Return the lines in a row of the sketch that these products of hash and key select."""
        slots = (products >> np.uint64(32)) * np.uint64(self.width) >> np.uint64(32)
        return row * self.width + slots.astype(np.int64)

    def _read(self, hashes: np.ndarray) -> np.ndarray:
        """Return the raw read-outs of these hashes."""
        out = np.empty((hashes.size, self.bias_direction.size), np.float32)
        given = self.table, self._keys, self.width, hashes, self.readout == "median"
        factor_component.read(*given, self._scale, out)
        return out

    @property
    def in_lines(self) -> bool:
        """Whether a vector lies in a few lines of the table, so that few vectors share one."""
        return self.layout != "component" and self.readout == "mean"

    @property
    def _fast(self) -> bool:
        """Whether the block kernels apply."""
        return self.layout == "block" and self.readout == "mean"

    @property
    def bias_scale(self) -> float:
        """Factor from the projection on `bias_direction` to the bias."""
        return BIAS_SCALE if self.layout == "block" else 1.0

    @cached_property
    def bias_direction(self) -> np.ndarray:
        """Unit vector of the bias, constant over the first block, so that resizing preserves it."""
        lanes = LANES[self.layout]
        bias_direction = np.zeros(self._blocks * lanes, np.float32)
        over = min(lanes, self.factors)
        bias_direction[:over] = over**-0.5
        return bias_direction

    @cached_property
    def _mirror(self) -> np.ndarray:
        """Vector m of the reflection x - (m.x) m that takes the bias to the last of the factors."""
        mirror = self.bias_direction.astype(np.float64)
        mirror[self.factors - 1] -= 1
        length = float(mirror @ mirror)
        return np.asarray(mirror * (2 / length) ** 0.5 if length else mirror, np.float32)

    def _weights(self, unit: float) -> np.ndarray:
        """Factors from reflected read-outs to vectors whose products are in this unit."""
        return _read_weights(self.factors, self.bias_direction.size, self.bias_scale, unit)

    @cached_property
    def _seeds(self) -> tuple[np.uint64, np.uint64, np.ndarray]:
        """Mixed seeds of the hashes of integer users and items, and both as an array."""
        both = key_of(self.seed), key_of(item_seed(self.seed))
        return *both, np.array(both, np.uint64)

    @cached_property
    def _scale(self) -> np.ndarray:
        """Weight of a cell in the mean over rows, 0 for unused lanes."""
        scale = np.zeros(self.bias_direction.size, np.float32)
        scale[: self.factors] = 1 / self.depth
        return scale

    @cached_property
    def _keys(self) -> np.ndarray:
        """Hash multipliers of each row and block."""
        return factor_block.multipliers(self.depth, self._blocks)

    @property
    def _blocks(self) -> int:
        """Number of blocks per entity."""
        return -(-self.factors // LANES[self.layout])


@dataclass(frozen=True)
class LineReaders:
    """Entities that read each line of a table: entities[starts[line] : starts[line + 1]]."""

    keys: np.ndarray
    width: int
    starts: np.ndarray
    entities: np.ndarray
    count: int

    def of(self, changes: list[np.ndarray]) -> np.ndarray:
        """Return all entities that read a line of one of these hashes, in rising order."""
        found = np.zeros(self.count, np.bool_)
        for hashes in changes:
            factor_block.readers_of(
                hashes, self.keys, self.width, self.starts, self.entities, found
            )
        return np.flatnonzero(found)


@cache
def _lanes(layout: str, depth: int, blocks: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each lane's weight in the mean over rows, and the lanes of `count` numbers."""
    lanes, numbers = LANES[layout], np.arange(count)
    at = numbers // lanes * LANES["block"] + numbers % lanes
    scale = np.zeros(blocks * LANES["block"], np.float32)
    scale[at] = 1 / depth
    return scale, at


@lru_cache(64)
def _read_weights(factors: int, size: int, bias_scale: float, unit: float) -> np.ndarray:
    """Return `size` numbers: `in_ratings` with the scale of biases, and zeros after it."""
    weights = np.zeros(size, np.float32)
    weights[:factors] = in_ratings(factors, unit)
    weights[factors - 1] *= np.float32(bias_scale)
    return weights


def cells_of(shape: dict[str, Any]) -> int:
    """Return the size of a table; one of half blocks ends in another that nobody owns."""
    lanes = LANES[shape["layout"]]
    return int(
        shape["depth"] * shape["width"] * lanes + (lanes if shape["layout"] == "half" else 0)
    )
