"""What answers about bins say of sets: bins full and alike, undone, and how much that varies."""

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Answers", "Compared"]

KINDS = ((0, 0), (0, 1), (0, -1), (-1, 0), (-1, -1))  # of a pair of symbols; the last is "empty"


@dataclass(frozen=True)
class Answers:
    """How bins were answered for: one of `codes` symbols or "empty", each wrong one by `chance`.

    An answer counts (1[it is s] - chance) / kept for the symbol s, which is right on average.
    """

    bins: int
    codes: int
    chance: float

    @property
    def kept(self) -> float:
        """How much likelier the right answer is than each wrong one."""
        return 1 - (self.codes + 1) * self.chance

    @property
    def worth(self) -> np.ndarray:
        """What each answer (down) counts for each symbol (across)."""
        return np.asarray((np.eye(self.codes + 1) - self.chance) / self.kept)

    @property
    def chances(self) -> np.ndarray:
        """How likely each answer (across) is to each symbol (down)."""
        return np.asarray(np.eye(self.codes + 1) * self.kept + self.chance)

    def full(self, told: np.ndarray) -> np.ndarray:
        """How many bins are full, on average, where so many are told to be."""
        return np.asarray((told - self.bins * self.codes * self.chance) / self.kept)

    def noise(self, full: np.ndarray) -> np.ndarray:
        """The variance that answers bring to `full`."""
        wrong, full = self.codes * self.chance, np.clip(full, 0, self.bins)
        each = full * self.chance * (1 - self.chance) + (self.bins - full) * wrong * (1 - wrong)
        return np.asarray(each / self.kept**2)

    def items(self, full: np.ndarray) -> np.ndarray:
        """How many items fill so many bins on average; finite where all are full."""
        return np.asarray(np.log1p(-self._share(full)) / math.log1p(-1 / self.bins))

    def slope(self, full: np.ndarray) -> np.ndarray:
        """How many items one more full bin stands for."""
        return np.asarray(-1 / (self.bins * (1 - self._share(full)) * math.log1p(-1 / self.bins)))

    def occupancy(self, items: np.ndarray) -> np.ndarray:
        """The variance of how many bins so many items fill, by their hashes."""
        n, items = self.bins, np.maximum(items, 0.0)
        empty, pairs = (1 - 1 / n) ** items, (1 - 2 / n) ** items
        return np.asarray(np.maximum(n * empty + n * (n - 1) * pairs - (n * empty) ** 2, 0.0))

    def _share(self, full: np.ndarray) -> np.ndarray:
        return np.minimum(full / self.bins, 1 - 0.5 / self.bins)


class Compared:
    """What pairs of answers to two releases count for, by their kind.

    A pair is of equal symbols, of different ones, of a symbol here and "empty" there, the other way
    round, or twice "empty". worth[kind] is what it counts for a bin alike, for one full here or
    there, for one full here and for one full there; chances[true, told] how kinds are answered.
    """

    def __init__(self, here: Answers, there: Answers) -> None:
        self.here, self.there = here, there
        self.worth = np.array([self._worth(*kind) for kind in KINDS])
        self.chances = np.array([self._chances(*kind) for kind in KINDS])
        self.undo = np.linalg.inv(self.chances)

    def variance(self, cases: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """That of the answers alone, for what moves with the four counts by these slopes.

        cases: how many bins were answered in each kind, from which how many are follows.
        """
        worth = slopes @ self.worth.T
        each = worth**2 @ self.chances.T - (worth @ self.chances.T) ** 2
        return np.asarray((np.maximum(cases @ self.undo, 0.0) * each).sum(axis=-1))

    def _worth(self, left: int, right: int) -> tuple[float, ...]:
        codes = self.here.codes
        mine, yours = self.here.worth[left, :codes], self.there.worth[right, :codes]
        here, there = float(mine.sum()), float(yours.sum())
        # Different minima have equal symbols with chance 1 / codes, which is undone.
        alike = (float(mine @ yours) - here * there / codes) / (1 - 1 / codes)
        return alike, here + there - here * there, here, there

    def _chances(self, left: int, right: int) -> tuple[float, ...]:
        mine, yours = self.here.chances[left], self.there.chances[right]
        equal = float(mine[:-1] @ yours[:-1])
        full, also = float(mine[:-1].sum()), float(yours[:-1].sum())
        return equal, full * also - equal, full * yours[-1], mine[-1] * also, mine[-1] * yours[-1]
