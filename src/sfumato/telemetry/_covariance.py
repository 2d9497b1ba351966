"""How the shares of marked cells vary: their covariance within a cohort, for every kind of scheme.

A share is (marks / reports - low) / (high - low), without bias the part of the clients whose value
has the cell. Clients enter a cohort at random, so its reports are independent draws from all
clients, and cells of one cohort vary together as the marks of one report do, divided by reports.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.telemetry._blocks import Blocks
from sfumato.telemetry._design import Design

__all__ = ["Cells"]

DENSE = 2**26  # entries of all blocks together: half a GiB; beyond it cells are weighted alone


@dataclass(frozen=True)
class Cells:
    """The shares of all cells, and the weights (inverse covariances) that a model gives them.

    `shares` (cohorts, cells) lacks nothing but noise; `uniform` is the share of a cell that an
    unknown string has on average; cohorts without reports have weight 0.
    """

    scheme: Any
    shares: np.ndarray
    reports: np.ndarray
    size: float
    single: bool  # whether no candidate has two cells in one cohort

    @classmethod
    def counted(cls, data: Any, design: Design) -> "Cells":
        scheme, reports = data.scheme, np.asarray(data.reports, np.float64)
        low, gap = float(scheme.low), float(scheme.high) - float(scheme.low)
        marks = np.asarray(data.cells, np.float64) / np.maximum(reports, 1)[:, None]
        return cls(scheme, (marks - low) / gap, reports, design.size, design.members.shape[2] == 1)

    @property
    def uniform(self) -> float:
        return self.size / int(self.scheme.cells)

    @property
    def gap(self) -> float:
        return float(self.scheme.high) - float(self.scheme.low)

    @property
    def together(self) -> float:
        """The chance that two given cells are both in a random set."""
        k = int(self.scheme.cells)
        return self.size * max(self.size - 1, 0) / (k * (k - 1)) if k > 1 else 0.0

    @property
    def dense(self) -> bool:
        return bool(self.shares.size * self.shares.shape[1] <= DENSE)

    def spread(self) -> float:
        """The variance of a cell of one random set; cells of a set sum up, so 1 has none."""
        k = int(self.scheme.cells)
        return self.uniform * (1 - self.uniform) * k / max(k - 1, 1)

    def weights(self, blocks: Blocks, counts: np.ndarray, other: float, extra: float) -> np.ndarray:
        """The inverse covariance of every cohort: (m, k, k), or (m, k) where cells are too many.

        Parameters: blocks, the design; counts, the shares of the candidates; other, the share of
        unknown strings; extra, the sum of squared shares of unknown strings, which fall on fixed
        cells and so vary beyond the noise.
        """
        marked = blocks @ counts + other * self.uniform
        if not self.dense:
            return self.alone(marked, extra)
        out = np.empty((*marked.shape, marked.shape[1]))
        for part in blocks.parts:
            if self.scheme.kind == "bits" and not self.single:
                both = blocks.pairs(part, counts) + other * self.together
                out[part] = self._inverse_of_pairs(both, marked[part], self.reports[part], extra)
            else:
                out[part] = self._inverse(marked[part], self.reports[part], extra)
        out[self.reports <= 0] = 0
        return out

    def alone(self, marked: np.ndarray, extra: float = 0.0) -> np.ndarray:
        """The weight (m, k) of every cell by itself, given the shares of clients that have it."""
        chance = np.clip(float(self.scheme.low) + self.gap * marked, 0, 1)
        # Of symbols the sum is known, and 1 / chance is then an inverse of diag - chance chance'.
        own = chance if self.scheme.kind == "symbol" else chance * (1 - chance)
        reports = np.maximum(self.reports, 1)[:, None]
        variance = np.maximum(own, self._least) / (reports * self.gap**2) + extra * self.spread()
        return np.where(self.reports[:, None] > 0, 1 / variance, 0.0)

    @property
    def _least(self) -> float:
        """Of a variance: it would be 0 where a cell without noise is empty."""
        return float(0.5 / (self.reports.sum() + 1))

    def _inverse_of_pairs(
        self, both: np.ndarray, marked: np.ndarray, reports: np.ndarray, extra: float
    ) -> np.ndarray:
        """Inverse covariances of bits (c, k, k), from the shares of clients with both of two."""
        k, spread = marked.shape[1], self.spread() * extra
        covariance = both - marked[:, :, None] * marked[:, None]
        covariance /= np.maximum(reports, 1)[:, None, None]
        covariance -= spread / k
        own = self._own(marked) / (np.maximum(reports, 1)[:, None] * self.gap**2)
        covariance[:, np.arange(k), np.arange(k)] = own + spread * (1 - 1 / k)
        return _inverted(covariance)

    def _inverse(self, marked: np.ndarray, reports: np.ndarray, extra: float) -> np.ndarray:
        """The same of any kind whose values, or reports, have one cell, in closed form.

        Two different cells, of shares p and r, vary together as a + b (p + r) + c p r, so that the
        covariance is a diagonal and [1 p] B [1 p]'. Sherman, Morrison and Woodbury invert it.
        """
        k, spread = marked.shape[1], self.spread() * extra
        level, slope, curve = self._between
        scale = 1 / (np.maximum(reports, 1) * self.gap**2)
        own = self._own(marked)
        rest = own - level - 2 * slope * marked - curve * marked**2
        diagonal = rest * scale[:, None] + spread
        inner = scale[:, None, None] * np.array([[level, slope], [slope, curve]])
        inner[:, 0, 0] -= spread / k
        if self.scheme.kind != "bits":  # marks of a report sum up: 1 has no variance and no signal
            inner[:, 0, 0] += (own.sum(1) * scale + spread * (k - 1)) / k**2
        basis = np.stack([np.ones(marked.shape), marked], axis=2)
        solved = basis / diagonal[:, :, None]
        core = _inverted(np.eye(2) + inner @ (basis.transpose(0, 2, 1) @ solved)) @ inner
        out = -(solved @ core) @ solved.transpose(0, 2, 1)
        out[:, np.arange(k), np.arange(k)] += 1 / diagonal
        return np.asarray(out)

    def _own(self, marked: np.ndarray) -> np.ndarray:
        chance = np.clip(float(self.scheme.low) + self.gap * marked, 0, 1)
        return np.maximum(chance * (1 - chance), self._least)

    @property
    def _between(self) -> tuple[float, float, float]:
        """a, b and c of the covariance a + b (p + r) + c p r of two cells of one report."""
        low, high, k = float(self.scheme.low), float(self.scheme.high), int(self.scheme.cells)
        if self.scheme.kind == "bits":
            return 0.0, 0.0, -(self.gap**2)
        taken = high + (k - 1) * low if self.scheme.kind == "subset" else 1.0  # cells of a report
        with_own = high * (taken - 1) / max(k - 1, 1)
        without = (taken - 1) * (high * (taken - 2) + (1 - high) * taken)
        without /= max((k - 1) * (k - 2), 1)
        return without - low**2, with_own - without - low * self.gap, -(self.gap**2)


def _inverted(matrices: np.ndarray) -> np.ndarray:
    """Inverses; where one has none, as without noise and with few reports, the pseudoinverses."""
    try:
        return np.asarray(np.linalg.inv(matrices))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrices))
