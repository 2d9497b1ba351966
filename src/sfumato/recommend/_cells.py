"""FactorCells: a count sketch that holds the factors of all users and items."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sfumato._require import checked, one_of, whole
from sfumato.kernels import factor_block, factor_component
from sfumato.kernels.lanes import aligned

__all__ = ["LANES", "LIMITS", "FactorCells"]

LANES = {"block": 16, "component": 1}  # numbers of an entity that lie side by side
LIFT = 2.0  # a bias in blocks is stored as half of itself, so that it disturbs others less
LIMITS: dict[str, Any] = {
    "factors": whole(1, 4096),
    "depth": whole(1, 32),
    "width": whole(1, 2**32),
    "layout": one_of(tuple(LANES)),
    "readout": one_of(("mean", "median")),
    "seed": whole(0, 2**63 - 1),
}


@dataclass(frozen=True)
class FactorCells:
    """Rows of cells, `depth` of them, each of `width` blocks (or single numbers), all float32.

    A read-out is the mean or median over rows of sign * cell (4.1), (4.2). The bias of an entity is
    the part of its read-out along the unit vector `spread`, times `lift`; the components are the
    rest.
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
        table = aligned(self.depth * self.width * LANES[self.layout], np.float32)
        if self.table.size:
            table[:] = self.table
        object.__setattr__(self, "table", table)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied array starts anywhere; a table that is built starts a cache line.
        return FactorCells, (*self.shape.values(), self.table)

    @property
    def shape(self) -> dict[str, Any]:
        """All but the numbers, as plain values."""
        return {name: getattr(self, name) for name in LIMITS}

    def resized(self, factors: int) -> "FactorCells":
        """The same cells, of which so many numbers are read for every entity."""
        return FactorCells(**{**self.shape, "factors": factors}, table=self.table)

    def add_noise(self, deviation: float, random: np.random.Generator) -> None:
        """Noise on all cells, so that read-outs get this standard deviation."""
        # The mean of `depth` cells has 1 / depth of their variance.
        noise = random.standard_normal(self.table.size, np.float32)
        self.table[:] += noise * np.float32(deviation * self.depth**0.5)

    def descend(self, *columns: np.ndarray, clip: float, rate: float, weight: float) -> None:
        """One pass of (4.3), (4.4) over hashes of users and items, and what is to be predicted."""
        rates = np.array([rate, -rate * weight, self.lift], np.float32)
        given = self.width, np.float32(clip), rates, self.spread, self._scale
        if self._fast:
            kernel = factor_block.descender(self._blocks, self.depth)
            kernel(*columns, *given, self.table)
        elif self.readout == "mean":
            factor_component.descend_mean(*columns, self._keys, *given[:3], self.table)
        else:
            factor_component.descend(*columns, self._keys, *given, True, self.table)

    def vectors(self, hashes: np.ndarray) -> np.ndarray:
        """Components and, last, the bias: read-outs after a reflection, which keeps products."""
        out = self._read(hashes)[:, : self.factors]
        mirror = self.spread[: self.factors].astype(np.float64)
        mirror[-1] -= 1
        length = float(mirror @ mirror)
        if length > 0:
            out -= np.outer(out @ (mirror * (2 / length)), mirror).astype(np.float32)
        out[:, -1] *= np.float32(self.lift)
        return out

    def write(self, hashes: np.ndarray, vectors: np.ndarray) -> None:
        """Add vectors, as `vectors` gives them, to those of entities; single numbers only."""
        numbers = vectors.copy()
        numbers[:, [0, -1]] = numbers[:, [-1, 0]]  # the bias stands first in the cells
        for row, keys in enumerate(self._keys):
            for number, key in zip(numbers.T, keys, strict=True):
                products = hashes * key
                signs = 1 - 2 * (products >> np.uint64(16) & np.uint64(1)).astype(np.float32)
                np.add.at(self.table, self._places(row, products), number * signs)

    def touched(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The table in lines of whole blocks, and which of them hold numbers of these entities.

        None where they are so many that all lines cost less than a list of them.
        """
        lines = self.table.reshape(-1, LANES[self.layout])
        if 8 * hashes.size * self._keys.size >= len(lines):
            return lines, None
        rows = (self._places(row, hashes * keys[:, None]) for row, keys in enumerate(self._keys))
        return lines, np.concatenate([places.ravel() for places in rows])

    def _places(self, row: int, products: np.ndarray) -> np.ndarray:
        """The lines in a row of the sketch that these products of hash and key choose."""
        slots = (products >> np.uint64(32)) * np.uint64(self.width) >> np.uint64(32)
        return row * self.width + slots.astype(np.int64)

    def _read(self, hashes: np.ndarray) -> np.ndarray:
        out = np.empty((hashes.size, self.spread.size), np.float32)
        given = self.table, self._keys, self.width, hashes
        if self._fast:
            factor_block.read(*given, self._scale, out)
        else:
            factor_component.read(*given, self.readout == "median", self._scale, out)
        return out

    @property
    def _fast(self) -> bool:
        return self.layout == "block" and self.readout == "mean"

    @property
    def lift(self) -> float:
        """What the part along `spread` is multiplied by to be the bias."""
        return LIFT if self.layout == "block" else 1.0

    @cached_property
    def spread(self) -> np.ndarray:
        """The direction of the bias: even over the first block, so that resizing keeps it."""
        lanes = LANES[self.layout]
        spread = np.zeros(self._blocks * lanes, np.float32)
        over = min(lanes, self.factors)
        spread[:over] = over**-0.5
        return spread

    @cached_property
    def _scale(self) -> np.ndarray:
        scale = np.zeros(self.spread.size, np.float32)
        scale[: self.factors] = 1 / self.depth
        return scale

    @cached_property
    def _keys(self) -> np.ndarray:
        return factor_block.multipliers(self.depth, self._blocks)

    @property
    def _blocks(self) -> int:
        return -(-self.factors // LANES[self.layout])
