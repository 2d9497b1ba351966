"""First centres of private clusters: from noisy cells of a public partition, or without any data.

All positions are in half boxes: from -1 to 1 in every column.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.mine.cluster.kmeans.lloyd import Lloyd
from sfumato.mine.cluster.kmeans.starts import Start
from sfumato.mine.cluster.private.noisy_sums import NoisyClusters

__all__ = ["Partition", "centres_of", "spread_centres"]

CLEAR = 3.0  # standard deviations of noise above which a cell counts as occupied
CANDIDATES = 64  # random positions per centre, of which the furthest is taken
STARTS = 10


@dataclass(frozen=True)
class Partition:
    """A partition of the box into at most `cells` cells that sees no data.

    A grid where every column can be cut, else the sides of random planes through the centre.
    """

    cells: int
    dimension: int
    seed: int

    @cached_property
    def cuts(self) -> int:
        """Intervals of each column of the grid; 1 where there are too many columns."""
        cuts = int(self.cells ** (1 / self.dimension) * (1 + 1e-12))
        return cuts if cuts > 1 else 1

    @cached_property
    def size(self) -> int:
        """Number of cells."""
        return int(self.cuts**self.dimension) if self.cuts > 1 else 2 ** len(self._planes)

    @cached_property
    def _planes(self) -> np.ndarray:
        planes = max(self.cells.bit_length() - 1, 0)
        rng = np.random.default_rng(self.seed)
        return rng.normal(size=(planes, self.dimension))

    def labels(self, rows: np.ndarray) -> np.ndarray:
        """The cell of each row; it depends on this row alone."""
        if self.cuts > 1:
            inside = np.minimum(((rows + 1) * (self.cuts / 2)).astype(np.int64), self.cuts - 1)
            return np.asarray(inside @ (self.cuts ** np.arange(self.dimension)))
        found = np.zeros(len(rows), np.int64)
        for bit, plane in enumerate(self._planes):
            side = np.zeros(len(rows))
            for column, part in zip(rows.T, plane, strict=True):  # one order of sums for all rows
                side += column * part
            found |= (side > 0).astype(np.int64) << bit
        return found


def spread_centres(size: int, dimension: int, seed: int, given: np.ndarray) -> np.ndarray:
    """Add centres to those given until there are `size`, each far from the others; no data."""
    rng = np.random.default_rng(seed)
    centres = list(given)
    while len(centres) < size:
        # Away from the sides, where half of a cluster's points would be.
        found = rng.uniform(-0.75, 0.75, (CANDIDATES, dimension))
        apart = np.full(CANDIDATES, 1.0)
        for centre in centres:
            distance = np.square(found - centre).sum(axis=1)
            apart = distance if centre is centres[0] else np.minimum(apart, distance)
        centres.append(found[apart.argmax()])
    return np.array(centres).reshape(size, dimension)


def centres_of(noisy: NoisyClusters, size: int, seed: int) -> np.ndarray:
    """Centres of weighted k-means over the occupied cells of a noisy partition."""
    occupied = noisy.clear(CLEAR)
    counts = noisy.counts[occupied]
    means = noisy.means(np.zeros((len(noisy.cells), noisy.dimension)))[occupied]
    if len(means) <= size:
        return spread_centres(size, noisy.dimension, seed, means)
    start = Start(size, "k-means++", STARTS, len(means), 0.0, np.random.default_rng(seed))
    lloyd = Lloyd(np.ascontiguousarray(means), counts, start.centres(means, counts))
    lloyd.run(100, 0.0)
    return lloyd.centres
