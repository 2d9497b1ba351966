"""The nodes of a grid over a box: where they are, and where points and queries are among them."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.hashing import hash_column
from sfumato.kernels import grid
from sfumato.sketch._points import Box

__all__ = ["MOST", "Nodes"]

MOST = 2**24  # nodes, of 8 bytes each
STEP = 1 << grid.PLACE_BITS  # steps from node to node
BITS = 15  # of a point's shares, over all axes
PER_BANDWIDTH = {"p-stable": 3.0, "gaussian": 2.0, "exponential": 3.0}
# In one column nodes are cheap, and values that repeat, as ages do, need them close.
ALONG_A_LINE = {"p-stable": 12.0, "gaussian": 4.0, "exponential": 12.0}


@dataclass(frozen=True)
class Nodes:
    """Equal spaces along every axis of a box, moved by a public part of one.

    Parameters: box, of 1 to 3 axes; spaces, along every axis; seed, of the part by which they move.
    """

    box: Box
    spaces: tuple[int, ...]
    seed: int

    @classmethod
    def of(
        cls, box: Box, bandwidth: float, kernel: str, resolution: float | None, seed: int
    ) -> "Nodes":
        """So many spaces that `resolution` of them, or as the kernel needs, make a bandwidth."""
        usual = ALONG_A_LINE if box.dimension == 1 else PER_BANDWIDTH
        per_bandwidth = usual[kernel] if resolution is None else resolution
        with np.errstate(over="ignore"):  # infinitely many are too many
            spaces = np.maximum(np.ceil(box.widths / bandwidth * per_bandwidth - 1e-9), 1)
        return cls(box, tuple(int(min(count, MOST)) for count in spaces), seed)

    @property
    def shape(self) -> tuple[int, ...]:
        """Nodes along every axis: past the nearest of any place there is one more."""
        return tuple(count + 3 for count in self.spaces)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Binary digits of a point's shares along one axis."""
        return BITS // len(self.spaces)

    @property
    def unit(self) -> int:
        """What the shares of one point sum to."""
        return 1 << (self.bits * len(self.spaces))

    @property
    def longest(self) -> int:
        """The most that the squares of one point's shares sum to, wherever it is."""
        return int(_longest(self.bits) ** len(self.spaces))

    @cached_property
    def spacing(self) -> np.ndarray:
        """The distance of neighbouring nodes along every axis."""
        return np.asarray(self.box.widths / np.array(self.spaces))

    @cached_property
    def _moved(self) -> np.ndarray:
        """Steps from the first node to the box: half a space to one and a half."""
        words = hash_column(range(len(self.spaces)), self.seed)
        steps = (words >> np.uint64(64 - grid.PLACE_BITS)).astype(np.int64)
        return np.asarray(steps + STEP // 2)

    def steps(self, inside: np.ndarray) -> np.ndarray:
        """Places of clipped points in whole steps.

        One subtraction, one product and one rounding, the same on every machine.
        """
        rates = np.array(self.spaces) * float(STEP) / self.box.widths
        steps = np.rint((inside - np.array(self.box.low)) * rates).astype(np.int64)
        return np.asarray(steps + self._moved)

    def places(self, inside: np.ndarray) -> np.ndarray:
        """Places of clipped queries, in nodes."""
        rates = np.array(self.spaces) / self.box.widths
        return np.asarray((inside - np.array(self.box.low)) * rates + self._moved / STEP)


@lru_cache(maxsize=4)
def _longest(bits: int) -> int:
    """The most along one axis, over all places between nodes: whole numbers, one by one."""
    places = range(-STEP // 2, STEP // 2)
    return int(max(sum(grid.part(node, far, bits, 3) ** 2 for node in range(3)) for far in places))
