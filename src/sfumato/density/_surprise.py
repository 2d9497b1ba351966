"""How strange points are to histograms of slices: surprise beyond what is usual in each."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.density._slice_table import Slices, blocks_of
from sfumato.density._spline import smoothed

__all__ = ["SCORE_CELLS", "Surprise"]

FEWEST = 0.5  # points that a cell counts as at least, besides its noise
SCORE_CELLS = 32  # of a histogram of scores, from 0 to the largest that there can be


@dataclass(frozen=True)
class Surprise:
    """The root of the mean square over slices of the surprise past the slice's entropy, in nats.

    Surprise is the negative log of a cell's share; a cell counts as at least its noise. table: of
    slices by cells, with noise of this variance, which is smoothed as it asks.
    """

    slices: Slices
    table: np.ndarray
    variance: float

    @cached_property
    def size(self) -> float:
        """How many points there are, by the mean of the slices' sums, at least one."""
        return max(float(self.table.sum(axis=1).mean()), 1.0)

    @cached_property
    def _shares(self) -> np.ndarray:
        cells = self.table.astype(np.float64)
        smooth, left = smoothed(cells, np.full(len(cells), self.variance))
        least = np.maximum(smooth, np.sqrt(np.maximum(left, 0)) + FEWEST)
        return np.asarray(least / self.size)

    @cached_property
    def squares(self) -> np.ndarray:
        """The squared surprise of each cell past its slice's entropy; 0 where it is less."""
        surprise = -np.log(self._shares)
        told = self._shares / self._shares.sum(axis=1, keepdims=True)
        usual = (told * surprise).sum(axis=1, keepdims=True)
        return np.asarray(np.maximum(surprise - usual, 0.0) ** 2)

    @property
    def mean_square(self) -> float:
        """The mean squared score of the counted points, exact where there is no noise.

        The slices tell it without knowing how they go together, since a mean is linear.
        """
        return float(self.slices.weights @ (self.table * self.squares).sum(axis=1) / self.size)

    @cached_property
    def most(self) -> float:
        """A score that none is above, from the table alone."""
        return max(float(np.sqrt(self.squares.max(axis=1) @ self.slices.weights)), 1e-6)

    def counted(self, scores: np.ndarray) -> np.ndarray:
        """How many scores are in each of the equal cells from 0 to `most`."""
        cells = np.minimum(scores / self.most * SCORE_CELLS, SCORE_CELLS - 1).astype(np.int64)
        return np.bincount(cells, minlength=SCORE_CELLS).astype(np.int64)

    def quantile(self, cells: np.ndarray, share: float) -> float:
        """The score that this share of the points is past, by noisy cells of scores.

        From the usual end, where a few cells hold most points: at the strange end many cells hold
        noise alone.
        """
        below = np.cumsum(cells) / self.size
        reached = below >= 1 - share
        place = int(reached.argmax()) if reached.any() else SCORE_CELLS - 1
        before = below[place - 1] if place else 0.0
        part = np.clip((1 - share - before) / max(below[place] - before, 1e-12), 0, 1)
        return float((place + part) * self.most / SCORE_CELLS)

    def scores(self, inside: np.ndarray) -> np.ndarray:
        """The surprise of clipped points, from 0 up."""
        out = np.empty(len(inside))
        for block in blocks_of(len(inside), self.slices.slices):
            codes = self.slices.codes(inside[block])
            # One slice after another: a product of matrices rounds a row by where it stands among
            # the others, so that one person's row could move another's score into the next cell.
            total = np.zeros(len(codes))
            for squares, weight, cells in zip(
                self.squares, self.slices.weights, codes.T, strict=True
            ):
                total += weight * squares[cells]
            out[block] = np.sqrt(total)
        return out
