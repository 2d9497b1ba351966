"""Count-Min: how often each key was seen, in fixed memory, never too low.

A released Count-Min: private counts of keys, unbiased, with errors of both signs.
"""

import math
from functools import cached_property
from typing import Annotated, Self

import numpy as np

from sfumato.core.arrays import integer_weights
from sfumato.core.hashing import BLOCK, KeyColumn
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer, one_of
from sfumato.kernels.sketch import counters
from sfumato.kernels.sketch import counters as conservative
from sfumato.kernels.sketch import salsa as compact
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import (
    EXACT,
    SEED,
    KeyedSketch,
    Merging,
    WeighedRelease,
    check_heaviest,
    heaviest,
    refused,
)
from sfumato.sketch.concentration import row_miss
from sfumato.sketch.frequency.noisy_table import (
    NoisyTable,
    SecondMomentVariance,
    TableSensitivity,
    all_rows_short,
    largest_moment,
    moment_share,
    narrowest,
    planned,
)

__all__ = ["CountMin", "ReleasedCountMin"]


class ReleasedCountMin(NoisyTable):
    """Counts of keys that may leave the curator; made by `CountMin.release`.

    those of the sketch, and the law and scale of the noise. It does not know whether keys were
    integers or text: ask with the type that was counted.

    Notes
    -----
    **Guarantee.** As its statement says; and |estimate - true| <= error_bound(c) with probability c
    per key, over seeds and noise. The least of noisy cells would be too low; instead each row tells
    (cell - total / width) / (1 - 1 / width), which is unbiased, and the median row is taken.

    References
    ----------
    .. [1] Pagh and Thorup 2022; the mean of the other counts taken off: Deng and Rafiei 2007.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import CountMin
    >>> seen = CountMin(1024, depth=5).update(["tea"] * 5000)
    >>> told = seen.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate(["tea"])[0] - 5000) < told.error_bound(0.999999))
    True
    """

    width: Annotated[int, integer(2, 2**32)]
    depth: Annotated[int, integer(1, 32)]
    version = 2  # a key has one hash, whatever its type
    _of = "CountMin"

    def estimate(self, keys: Column) -> np.ndarray:
        """The count of every key.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            The count of every key.
        """
        column = KeyColumn(keys)
        out, slots = np.empty(column.size), np.empty(min(BLOCK, column.size), np.uint32)
        for start, hashes in column.blocks(self.seed):
            rows = np.empty((self.depth, hashes.size), np.int64)
            part = out[start : start + hashes.size]
            counters.middle(self._table, hashes, slots, rows, part)
        return (out - self.estimate_total() / self.width) / (1 - 1 / self.width)

    def estimate_total(self) -> float:
        """The sum of all counts: the mean of the sums of the rows.

        Returns
        -------
        float
            The sum of all counts: the mean of the sums of the rows.
        """
        return float(self._sums.mean())

    def error_bound(self, confidence: float = 0.99) -> float:
        """What an estimate may be off by, with this probability for each key.

        Parts of the chance 1 - confidence go to the mean of all noise, and with it the total F1, to
        F2 being told too low by all noisy rows, and to a bad median: half of the rows, each with
        chance p, have either noise past its exact tail or collisions past Markov's bound F1 /
        (width p) and past Chebyshev's sqrt(F2 (1 - 1 / width) / (width p)).

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            What an estimate may be off by, with this probability for each key.
        """
        miss = 1 - fraction.check("ReleasedCountMin", "confidence", confidence)
        mean_noise = self._distribution.mean_tail_bound(self.depth * self.width, miss / 16)
        total = max(self.estimate_total() + self.width * mean_noise, 0.0)
        rest = miss * 15 / 16
        low = rest * moment_share(self.width - 1, self.depth, rest)
        moment = min(total**2, self._largest_moment(low))

        def collisions(chance: float) -> float:
            chebyshev = math.sqrt(moment * (1 - 1 / self.width) / (self.width * chance))
            return min(total / (self.width * chance), chebyshev)

        row = narrowest(collisions, self._distribution.tail_bound, row_miss(self.depth, rest - low))
        return (row + mean_noise) / (1 - 1 / self.width)

    @cached_property
    def _sums(self) -> np.ndarray:
        return np.asarray(self._table.sum(axis=1, dtype=np.float64))

    def _largest_moment(self, miss: float) -> float:
        """A bound of F2 that holds with chance 1 - miss, from rows centred at their mean.

        Centred cells have E sum of squares = (1 - 1 / width) F2 + (width - 1) variance of noise.
        """
        width, distribution = self.width, self._distribution
        grow = width / (width - 1)
        fourth = (
            (width - 1)
            / width
            * ((width - 1) * distribution.fourth - (width - 3) * distribution.variance**2)
        )
        spread = SecondMomentVariance(
            2 / (width - 1), 4 * distribution.variance * grow, fourth * grow**2
        )
        told = self._squares(self._sums / width) - (width - 1) * distribution.variance
        return largest_moment(float(told.max()) * grow, spread, all_rows_short(self.depth, miss))


WIDEN = 2**31  # a total from here on needs 64-bit cells
SPANS = ((2**8, 1), (2**16, 2), (2**32, 4))  # below this total, a compact cell joins so many
UNPROVED = "CountMin: no bound is proved for logarithmic cells; use compact ones."
REFUSED = "{} cells depend on the order of the stream; build one sketch over all of it."
UNRELEASED = {
    "compact": "which cells are joined depends on the counts, so that one event may change many",
    "conservative": "what an event changes depends on all events before it",
    "logarithmic": "what an event changes depends on all events before it",
}


class CountMin(WeighedRelease[ReleasedCountMin], KeyedSketch):
    """Counts of keys, each too high by a bounded amount.

    Guarantee: true <= estimate; and estimate <= true + error_bound(c) with probability c per key.
    Logarithmic cells keep neither: their counts are unbiased up to collisions, within about 20 %.
    Parameters: width, cells per row, up to 2**32; depth, rows, each with its own hash; seed, of all
    hashes; cells, one of
    - "plain", 32 bits each, 64 once the total needs them; merges exactly;
    - "compact", 8 bits each, neighbours join when one is full: about a quarter of the memory for
      the same width, slower; merges exactly; width is a multiple of 8;
    - "conservative", plain cells raised only as far as needed: smaller errors; merge refused;
    - "logarithmic", 8 bits each, raised at random: smallest; counts end at 4.1e9; merge refused.
    Weights are integers from 0; a total past 2**63 - 1 raises and changes nothing.

    Parameters
    ----------
    width : int
        TODO.
    depth : int, default=4
        TODO.
    seed : int, default=0
        TODO.
    cells : str, default="plain"
        TODO.

    References
    ----------
    .. [1] Cormode and Muthukrishnan 2005, Theorem 1; compact: Basat et al. 2021 (SALSA, merging by
       sum); conservative: Estan and Varghese 2002; logarithmic: Pitel and Fouquier 2015.

    Examples
    --------
    >>> seen = CountMin(width=1024).update(["tea", "milk", "tea"])
    >>> seen.estimate(["tea", "rum"])
    array([2, 0])
    """

    width: Annotated[int, integer(2, 2**32)]
    depth: Annotated[int, integer(1, 32)]
    seed: Annotated[int, SEED]
    cells: Annotated[str, one_of(("plain", "compact", "conservative", "logarithmic"))]
    total: int
    heaviest: int
    keys: str
    _table: np.ndarray
    _joined: np.ndarray
    _draws: np.ndarray
    version = 3  # a key has one hash, whatever its type
    _scalars = {"total": 0, "heaviest": 0, "keys": ""}

    def __init__(self, width: int, depth: int = 4, *, seed: int = 0, cells: str = "plain") -> None:
        self._set_parameters(width=width, depth=depth, seed=seed, cells=cells)
        self._allocate()

    @classmethod
    def from_error(
        cls, error: float, confidence: float = 0.99, *, seed: int = 0, cells: str = "plain"
    ) -> Self:
        """The smallest table whose error bound is `error` times the total, however large that is.

        Compact cells are sized for the worst case, eight joined into one; they mostly do better.

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        seed : int, default=0
            TODO.
        cells : str, default="plain"
            TODO.

        Returns
        -------
        Self
            The smallest table whose error bound is `error` times the total, however large that is.
        """
        error = fraction.check("CountMin", "error", error)
        miss = 1 - fraction.check("CountMin", "confidence", confidence)
        if cells == "logarithmic":
            raise ValueError(UNPROVED)

        def width(depth: int) -> int:
            exact = float(miss ** (-1 / depth)) / error
            return 8 * math.ceil(exact) if cells == "compact" else max(2, math.ceil(exact))

        depth = min(range(1, 33), key=lambda rows: rows * width(rows))
        return cls(width(depth), depth, seed=seed, cells=cells)

    @property
    def merging(self) -> Merging:
        return EXACT if self.cells in ("plain", "compact") else refused(REFUSED.format(self.cells))

    def update(
        self, keys: Column, weights: Column | None = None, *, clip: int | None = None
    ) -> Self:
        """Count every key, by its weight or by one.

        Parameters
        ----------
        keys : array_like
            TODO.
        weights : array_like or None, default=None
            Integers.
        clip : int or None, default=None
            A public bound of their size that they are clipped to: each weight is then read by
            itself and none is refused, as a private release needs.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        weighted = integer_weights("CountMin", weights, column.size, clip=clip)
        added = column.size if weighted is None else int(weighted.sum())
        # No cell exceeds the total, so guarding the total keeps every cell from wrapping.
        self._grow(integer(0).check("CountMin", "total", self.total + added))
        self.heaviest = max(self.heaviest, heaviest(weighted, column.size))
        scratch = np.empty(min(BLOCK, column.size), np.uint32)
        for rows, hashes in self._hashes(column):
            self._add(hashes, scratch, None if weighted is None else weighted[rows])
        self._note_keys(column)
        return self

    def estimate(self, keys: Column) -> np.ndarray:
        """The count of every key; never below the true one unless cells are logarithmic.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            The count of every key; never below the true one unless cells are logarithmic.
        """
        column = self._key_column(keys)
        out = np.empty(column.size, np.float64 if self.cells == "logarithmic" else np.int64)
        scratch = np.empty(min(BLOCK, column.size), np.uint32)
        for rows, hashes in self._hashes(column):
            if self.cells == "compact":
                compact.smallest(self._table, self._joined, hashes, out[rows])
            elif self.cells == "logarithmic":
                conservative.smallest_value(self._table, hashes, conservative.VALUES, out[rows])
            else:
                counters.smallest(self._table, hashes, scratch, out[rows])
        return out

    def error_bound(self, confidence: float = 0.99) -> float:
        """What an estimate may be too high by, with this probability for each key.

        Markov: a row is t too high with p <= span total / (width t), where a compact cell joins at
        most span neighbours while the total is as it is. All rows must be: p ** depth.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            What an estimate may be too high by, with this probability for each key.
        """
        miss = 1 - fraction.check("CountMin", "confidence", confidence)
        if self.cells == "logarithmic":
            raise ValueError(UNPROVED)
        return float(self._span() * self.total / self.width * miss ** (-1 / self.depth))

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedCountMin]:
        """**Guarantee.** (epsilon, delta)-private for one unit: an event of weight at most w
        changes one cell in each row by at most w, so the sensitivities are L1 = depth w and
        L2 = sqrt(depth) w [1]_. Under the relation "replace" it changes two cells per row. At delta
        0 the noise is discrete Laplace, otherwise discrete Laplace or discrete Gaussian, whichever
        has the smaller variance. Only `cells="plain"` can be released.

        References
        ----------
        .. [1] Pagh, Thorup. "Improved Utility Analysis of Private CountSketch". NeurIPS 2022,
           https://arxiv.org/abs/2205.08397.

        Examples
        --------
        >>> released = CountMin(1024).update(["tea", "milk", "tea"]).release(epsilon=1)
        >>> released.statement.epsilon, released.statement.ledger
        (1.0, 'unaccounted')
        """
        both = 2 if request.relation == "replace" else 1  # weights are not negative: none adds up
        touched = TableSensitivity(both * self.depth, weight, times=request.contributions)
        shape = dict(width=self.width, depth=self.depth, seed=self.seed)
        return planned(ReleasedCountMin, shape, self._table, request, touched, noise)

    def _check_releasable(self) -> None:
        if self.cells in UNRELEASED:
            reason = UNRELEASED[self.cells]
            raise ValueError(f"CountMin: cannot be released, {reason}; count in plain cells.")

    def _span(self) -> int:
        if self.cells != "compact":
            return 1
        return next((span for limit, span in SPANS if self.total < limit), 8)

    def _check_parameters(self) -> None:
        if self.cells == "compact" and self.width % 8:
            raise ValueError(
                f"CountMin: width must be a multiple of 8 for compact cells, not {self.width}."
            )

    def _layout(self) -> dict[str, Cells]:
        shape = self.depth, self.width
        if self.cells == "compact":
            joined = Cells(np.uint8, (self.depth, self.width // 8), "")
            return {"_table": Cells(np.uint8, shape, ""), "_joined": joined}
        if self.cells == "logarithmic":
            return {"_table": Cells(np.uint8, shape, ""), "_draws": Cells(np.uint64, (1,), "")}
        return {"_table": Cells(np.int32 if self.total < WIDEN else np.int64, shape)}

    def _grow(self, total: int) -> None:
        """Set the total, widening the cells first where it needs that."""
        if self._table.dtype == np.int32 and total >= WIDEN:
            self._table = self._table.astype(np.int64)
        self.total = total

    def _add(self, hashes: np.ndarray, scratch: np.ndarray, weights: np.ndarray | None) -> None:
        if self.cells == "plain" and weights is None:
            counters.add_one(self._table, hashes, scratch)
            return
        if weights is None:
            weights = np.ones(hashes.size, np.int64)
        if self.cells == "plain":
            counters.add(self._table, hashes, scratch, weights)
        elif self.cells == "compact":
            compact.add(self._table, self._joined, hashes, weights)
        elif self.cells == "conservative":
            conservative.raise_cells(self._table, hashes, weights)
        else:
            draws = conservative.VALUES, self._draws
            conservative.raise_levels(self._table, hashes, weights, *draws)

    def _join(self, other: Self) -> None:
        total = integer(0).check("CountMin", "total", self.total + other.total)
        self._grow(total)
        self.heaviest = max(self.heaviest, other.heaviest)
        self.keys = self.keys or other.keys
        if self.cells == "compact":
            compact.merge(self._table, self._joined, other._table, other._joined)
        else:
            self._table += other._table

    def _check_state(self) -> None:
        super()._check_state()
        if self.cells == "compact":
            fits = compact.fits(self._table, self._joined, np.uint64(max(self.total, 0)))
        else:  # the total is guarded against wrapping, and cells within it are by that
            fits = self.cells == "logarithmic" or (
                self._table.min() >= 0 and self._table.max() <= self.total
            )
        if self.total < 0 or not fits:
            raise ValueError("a cell holds more than the total.")
        check_heaviest(self.heaviest, self.total)
