"""Errors of estimates from a table's own cells: the interval for a key at hand.

A key that is in cell J of a row reads its own weight plus the load L[J] of all other keys. J is
uniform and independent of the loads, so any other cell of the row shows what the error could have
been. Whatever noise a release added to the cells is part of the loads.
"""

import math
from collections.abc import Callable

import numpy as np

__all__ = ["CellErrors", "drawn", "signed"]

DRAWS = 2**14  # keys that are simulated
STRATA = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 15 / 16, 31 / 32, 63 / 64)  # of the rows' spread
FEWEST = 100  # simulated keys in a stratum


def _smallest(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows[0])


def _median(rows: np.ndarray) -> np.ndarray:
    depth = rows.shape[0]
    return np.asarray((rows[(depth - 1) // 2].astype(np.float64) + rows[depth // 2]) / 2)


def _mean(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows.mean(axis=0, dtype=np.float64))


COMBINED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "smallest": _smallest,
    "median": _median,
    "mean": _mean,
}


def _combined(rows: np.ndarray, combine: str | int) -> np.ndarray:
    return np.asarray(rows[combine]) if isinstance(combine, int) else COMBINED[combine](rows)


def _spread(rows: np.ndarray, combine: str | int) -> np.ndarray:
    """How far the sorted rows of each key are apart; it does not depend on the key's weight."""
    depth = rows.shape[0]
    if combine == "smallest" or isinstance(combine, int):
        first = combine if isinstance(combine, int) else 0
        last = min(first + max(depth // 2, 1), depth - 1)
        return np.asarray(rows[last] - rows[first], np.float64)
    low = (depth - 1) // 4 if combine == "median" else 0
    return np.asarray(rows[depth - 1 - low] - rows[low], np.float64)


def drawn(table: np.ndarray, rows: int | None = None) -> np.ndarray:
    """Cells of DRAWS simulated keys, of shape (rows, DRAWS): an even sample of each table row.

    A table of one row is sampled `rows` times.
    """
    random = np.random.default_rng(0)  # answers repeat
    depth, width = table.shape
    even = np.arange(DRAWS) * width // DRAWS
    picks = [random.permutation(even) for _ in range(rows or depth)]
    return np.stack([table[r if rows is None else 0, at] for r, at in enumerate(picks)])


def signed(loads: np.ndarray) -> np.ndarray:
    """The loads with a random sign each, as a key with random signs reads them."""
    signs = np.random.default_rng(1).integers(0, 2, loads.shape, np.int8) * np.int8(2) - np.int8(1)
    return np.asarray(loads * signs)


class CellErrors:
    """Distribution of the error of keys, given how far the rows of each are apart.

    Parameters
    ----------
    loads : ndarray of shape (depth, n)
        Cells of simulated keys, as `drawn` and `signed` give them.
    combine : {"smallest", "median", "mean"} or int
        How the rows of a key make its raw estimate, which is its weight plus the error; an integer
        is the position of one row in their order.
    symmetric : bool or None, default=None
        Whether errors of both signs are equally likely. None: unless `combine` is "smallest".

    Notes
    -----
    The error and the spread of the rows do not depend on the weight of a key, so among simulated
    keys of a similar spread the error is distributed as that of the key at hand. Beyond the last
    limit the spread itself is the unit of the error: there a key shares cells with heavy ones.
    """

    def __init__(
        self, loads: np.ndarray, combine: str | int, symmetric: bool | None = None
    ) -> None:
        rows = np.sort(loads, axis=0)
        self.combine = combine
        self.symmetric: bool = combine != "smallest" if symmetric is None else symmetric
        self._errors = _combined(rows, combine).astype(np.float64)
        self._spreads = _spread(rows, combine)
        self._limits = self._separating(np.quantile(self._spreads, STRATA, method="higher"))
        self._stratum = self._stratum_of(self._spreads)

    def interval(self, rows: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Limits of the weight of keys with these sorted rows, of shape (depth, keys)."""
        errors = np.array([self._window(s, confidence) for s in range(self.strata)])
        raw, stratum, unit = self.placed(rows)
        low, high = (errors[stratum] * unit[:, None]).T
        return raw - high, raw - low

    @property
    def strata(self) -> int:
        """Number of the strata of spreads."""
        return int(self._limits.size) + 1

    def placed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Raw estimate, stratum and unit of the error of keys with these sorted rows."""
        spreads = _spread(rows, self.combine)
        stratum = self._stratum_of(spreads)
        return _combined(rows, self.combine), stratum, self._unit(stratum, spreads)

    def of_stratum(self, stratum: int) -> np.ndarray:
        """The errors of a stratum in its units, in order; with both signs if symmetric."""
        inside = self._stratum == stratum
        found = self._errors[inside] / self._unit(self._stratum[inside], self._spreads[inside])
        return np.sort(np.concatenate([found, -found]) if self.symmetric else found)

    def typical(self) -> float:
        """The median of the errors' distances to their median."""
        return float(np.median(np.abs(self._errors - np.median(self._errors))))

    def quantile(self, probability: float) -> float:
        """What the error of any key exceeds with one minus this probability."""
        return float(np.quantile(self._errors, probability, method="higher"))

    def _unit(self, stratum: np.ndarray, spreads: np.ndarray) -> np.ndarray:
        last = (stratum == self._limits.size) & (self._limits.size > 0)
        return np.where(last, spreads, 1.0)

    def _window(self, stratum: int, confidence: float) -> tuple[float, float]:
        """The shortest range of the errors of a stratum that has this part of them and one more."""
        found = self.of_stratum(stratum)
        if self.symmetric:
            found = found[found.size // 2 :]  # the sizes of the errors
        needed = min(math.ceil(confidence * (found.size + 1)), found.size)
        if self.symmetric:
            return -found[needed - 1], found[needed - 1]
        starts, ends = found[: found.size - needed + 1], found[needed - 1 :]
        at = int(np.argmin(ends - starts))
        return starts[at], ends[at]

    def _stratum_of(self, spreads: np.ndarray) -> np.ndarray:
        return np.asarray(np.searchsorted(self._limits, spreads, side="right"))

    def _separating(self, limits: np.ndarray) -> np.ndarray:
        """The limits above 0 that leave enough simulated keys between them."""
        found: list[float] = []
        ordered, before = np.sort(self._spreads), 0
        for limit in sorted(set(limits[limits > 0].tolist())):  # np.unique imports numpy.ma
            below = int(np.searchsorted(ordered, limit))
            if below - before >= FEWEST and ordered.size - below >= FEWEST:
                found.append(limit)
                before = below
        return np.array(found)
