"""Count-Min: counts of keys in fixed memory, never too low; and its private release."""

import math
from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import integer_weights
from sfumato.core.hashing import BLOCK
from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Key, Keys
from sfumato.core.validation import fraction, integer, one_of
from sfumato.kernels.sketch import counters
from sfumato.kernels.sketch import counters as conservative
from sfumato.kernels.sketch import salsa as compact
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import (
    COUNT,
    EXACT,
    SEED,
    KeyedSketch,
    Merging,
    WeighedRelease,
    answers_to,
    check_heaviest,
    heaviest,
    refused,
)
from sfumato.sketch.concentration import row_miss
from sfumato.sketch.frequency.cell_bounds import (
    CentredRow,
    bound_of_centred_rows,
    bound_of_minima,
    less_others,
    middles,
)
from sfumato.sketch.frequency.cell_errors import CellErrors, drawn
from sfumato.sketch.frequency.noisy_table import (
    NoisyTable,
    SecondMomentVariance,
    TableSensitivity,
    all_rows_short,
    calibrated,
    largest_moment,
    moment_fraction,
    narrowest,
)
from sfumato.sketch.frequency.shrunk_counts import Placed, ShrunkCounts

__all__ = ["CountMin", "ReleasedCountMin"]


class ReleasedCountMin(NoisyTable, ShrunkCounts):
    """Private counts of keys; made by `CountMin.release`.

    It has the parameters of the sketch, and the distribution (`noise`) and `scale` of the noise. It
    can be queried, compared, saved and published, and takes no updates.

    Notes
    -----
    **Guarantee.** Private as its `statement` says. ``|estimate - true| <= error_bound(c)`` with
    probability at least c for each key, over seeds and noise.

    The minimum of noisy cells would be biased downward. Instead each row gives its cell less a
    quantile of its other cells, and one of these in order is taken: the smallest, the second, the
    fourth, ... or the median, the one with the smallest errors in simulated keys. The quantile is
    that which makes the chosen row of an absent key as often too high as too low. So the smallest
    is chosen where heavy keys raise the cells, and the median where noise does. Few cells hold
    heavy keys, so they do not shift a quantile, as they would a mean.

    References
    ----------
    .. [1] Pagh, Thorup. "Improved Utility Analysis of Private CountSketch". NeurIPS 2022.
       https://arxiv.org/abs/2205.08397
    .. [2] Deng, Rafiei. "New Estimation Algorithms for Streaming Data: Count-min Can Do More".
       2007. It subtracts the mean of the other cells.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # for tests only: omit it
    >>> from sfumato.sketch import CountMin
    >>> counts = CountMin(1024, depth=5).update(["tea"] * 5000)
    >>> released = counts.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(released.estimate(["tea"])[0] - 5000) < released.error_bound(0.999999))
    True
    """

    width: Annotated[int, integer(2, 2**32)]
    depth: Annotated[int, integer(1, 32)]
    version = 2  # a key has one hash, whatever its type
    _of = "CountMin"

    def estimate(self, keys: Keys) -> Any:
        """Estimate the count of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types; 7, "7" and 7.0 are the same key.

        Returns
        -------
        ndarray of shape (n,) or float
            One of the rows, each less what an absent key reads there, float64; may be negative. One
            number for one key.
        """
        return answers_to(keys, self.seed, np.float64, self._estimates)

    def estimate_total(self) -> float:
        """Estimate the sum of all counts.

        Returns
        -------
        float
            The mean over rows of the sum of their cells; unbiased.
        """
        return self._total

    @cached_property
    def _total(self) -> float:
        return float(self._sums.mean())

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|estimate - true|``, computed from the release alone.

        Notes
        -----
        A key that is in cell J of a row reads its count plus the load of all other keys, and of the
        noise, in J. J is uniform and independent of the loads. The cells show all loads but that of
        J, and no cell is below its load. So a row is off by more than t with probability at most
        (cells so far from the quantile) / width, where the one of J counts too. The estimate is too
        high only if the chosen row and all above it are, and too low only if it and all below it
        are. The few cells of heavy keys hardly count: the bound is that of the residual stream
        [2]_. The failure probability is divided by the number of rows to choose among, since
        the choice depends on the cells.

        If the table is too narrow for this confidence, the part of the row is divided among three
        events: a large mean of all noise, and so an error of the total F1; an underestimate
        of F2 by all noisy rows; and a bad median. The median is bad if half of the rows are, each
        with probability p: noise beyond its exact tail bound, or collisions beyond Markov's bound
        F1 / (width p) and Chebyshev's sqrt(F2 (1 - 1 / width) / (width p)). The distance of the
        mean of the cells from their quantile is added. If a row below the median is chosen, its
        error downward is at most the quantile, and the noise of any row beyond its tail bound.

        References
        ----------
        .. [2] Minton, Price. "Improved Concentration Bounds for Count-Sketch". SODA 2014 (residual
           norms). https://arxiv.org/abs/1207.5200
        """
        miss = 1 - fraction.check("ReleasedCountMin", "confidence", confidence)
        # Which candidates have a bound by cells is public, so that each has one bound of the two.
        each = miss / len(CentredRow.candidates(self.depth))
        found = bound_of_centred_rows(self._table, each, self._row)
        return found if found < math.inf else self._bound_by_moments(each)

    def _bound_by_moments(self, miss: float) -> float:
        """The bound by F1, F2 and the tail of the noise, for estimates that subtract the mean.

        These are `(middle - total / width) / (1 - 1 / width)` for the median of the key's cells.
        """
        mean_noise = self._distribution.mean_tail_bound(self.depth * self.width, miss / 16)
        total = max(self.estimate_total() + self.width * mean_noise, 0.0)
        remaining = miss * 15 / 16
        below = 0.0
        if self._row.position is not None:
            remaining /= 2
            tail = self._distribution.tail_bound(remaining / self.depth)
            below = float(middles(self._table, self._row)[1].max()) + tail
        low = remaining * moment_fraction(self.width - 1, self.depth, remaining)
        moment = min(total**2, self._largest_moment(low))

        def collisions(p: float) -> float:
            chebyshev = math.sqrt(moment * (1 - 1 / self.width) / (self.width * p))
            return min(total / (self.width * p), chebyshev)

        bad_row = row_miss(self.depth, remaining - low)
        row = narrowest(collisions, self._distribution.tail_bound, bad_row)
        above = (row + mean_noise) / (1 - 1 / self.width) + self._farthest_mean()
        return max(above, below)

    def _farthest_mean(self) -> float:
        """How far an estimate that subtracts the mean of other cells can be from one that does not.

        With M the median of a key's cells, it subtracts (total - M) / (width - 1).
        """
        low, high = (each.astype(np.float64) for each in middles(self._table, self._row))
        ends = np.array([self._table.min(), self._table.max()], np.float64)
        means = (self._total - ends) / (self.width - 1)
        return float(max(means.max() - low.min(), high.max() - means.min(), 0.0))

    @cached_property
    def _row(self) -> CentredRow:
        """The candidate whose errors are smallest in keys simulated from the cells."""

        def error(row: CentredRow) -> float:
            simulated = np.sort(drawn(less_others(self._table, row)), axis=0)
            return float(np.abs(row.chosen(simulated)).mean())

        return min(CentredRow.candidates(self.depth), key=error)

    @cached_property
    def _less_others(self) -> np.ndarray:
        """What each cell says of the weight of a key in it."""
        return less_others(self._table, self._row)

    def _estimates(self, hashes: np.ndarray, out: np.ndarray) -> None:
        out[:] = self._row.chosen(sorted_rows(self._less_others, hashes))

    def _error_distribution(self) -> CellErrors:
        position = self._row.position
        combine = "median" if position is None else position
        return CellErrors(drawn(self._less_others), combine, symmetric=False)

    def _limits_of(
        self, hashes: np.ndarray, confidence: float, errors: CellErrors
    ) -> tuple[np.ndarray, np.ndarray]:
        return errors.interval(sorted_rows(self._less_others, hashes), confidence)

    _lowest = 0.0

    def _known_errors(self) -> CellErrors:
        return self._error_distribution()

    def _placed(self, hashes: np.ndarray, errors: CellErrors) -> Placed:
        return Placed(*errors.placed(sorted_rows(self._less_others, hashes)))

    @cached_property
    def _sums(self) -> np.ndarray:
        return np.asarray(self._table.sum(axis=1, dtype=np.float64))

    def _largest_moment(self, miss: float) -> float:
        """Upper bound on F2 with probability 1 - miss, from rows centred at their mean.

        E[sum of squared centred cells] = (1 - 1 / width) F2 + (width - 1) variance of the noise.
        """
        width, distribution = self.width, self._distribution
        grow = width / (width - 1)
        fourth = (
            (width - 1)
            / width
            * ((width - 1) * distribution.fourth - (width - 3) * distribution.variance**2)
        )
        variance = SecondMomentVariance(
            2 / (width - 1), 4 * distribution.variance * grow, fourth * grow**2
        )
        estimates = self._squares(self._sums / width) - (width - 1) * distribution.variance
        deviations = all_rows_short(self.depth, miss)
        return largest_moment(float(estimates.max()) * grow, variance, deviations)


def sorted_rows(
    table: np.ndarray, hashes: np.ndarray, medians: np.ndarray | None = None
) -> np.ndarray:
    """The cells of each key in order, of shape (depth, keys); their medians go to an array."""
    slots = np.empty(hashes.size, np.uint32)
    rows = np.empty((table.shape[0], hashes.size), table.dtype)
    counters.middle(
        table, hashes, slots, rows, np.empty(hashes.size) if medians is None else medians
    )
    return rows


def _random_levels(raw: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """How far below and above a logarithmic cell the count may be, as a level is raised at random.

    A count of n has variance n (n - 1) (BASE - 1) / 2, nearly that of (n - 1/2) times a number.
    """
    step = (conservative.BASE - 1) * raw + 1  # to the next level
    part = NormalDist().inv_cdf((1 + confidence) / 2) * ((conservative.BASE - 1) / 2) ** 0.5
    middle = np.maximum(raw - 0.5, 0)
    above = middle * part / (1 - part) if part < 1 else np.full(middle.shape, np.inf)
    return middle * part / (1 + part), np.where(raw > 0, np.maximum(above, step), 0.0)


TOTAL = integer(0)
WIDEN = 2**31  # a total from here on needs 64-bit cells
SPANS = ((2**8, 1), (2**16, 2), (2**32, 4))  # (total, bytes that a compact cell may join below it)
UNPROVED = "CountMin: no bound is proved for logarithmic cells; use compact ones."
REFUSED = "{} cells depend on the order of the stream; build one sketch over all of it."
UNRELEASED = {
    "compact": "which cells are joined depends on the counts, so that one event may change many",
    "conservative": "what an event changes depends on all events before it",
    "logarithmic": "what an event changes depends on all events before it",
}


class CountMin(ShrunkCounts, WeighedRelease[ReleasedCountMin], KeyedSketch):
    """Approximate counts of keys in fixed memory, never too low.

    Use it for counts of keys that are only added; `CountSketch` also takes removals. Memory is
    width x depth cells, whatever the number of keys.

    Parameters
    ----------
    width : int
        Cells per row, from 2 to 2**32. The error is inversely proportional to it.
    depth : int, default=4
        Rows, from 1 to 32, each with its own hash function. The probability of a large error
        decreases exponentially with it.
    seed : int, default=0
        Seed of the hash functions. Sketches merge only if their seeds are equal.
    cells : {"plain", "compact", "conservative", "logarithmic"}, default="plain"
        Kind of the cells.

        - "plain": 32 bits each, 64 once the total needs them. Merges exactly.
        - "compact": 8 bits each; neighbours join when one overflows. About a quarter of the memory
          for the same width, but slower. Merges exactly. The width must be a multiple of 8.
        - "conservative": plain cells that are raised only as far as necessary, so errors are
          smaller. Cannot merge.
        - "logarithmic": 8 bits each, raised at random, the smallest. Counts end at 4.1e9. Cannot
          merge.

    Attributes
    ----------
    total : int
        Sum of all counts.
    heaviest : int
        Largest weight of a single event.

    Notes
    -----
    **Guarantee.** ``true <= estimate``, and ``estimate <= true + error_bound(c)`` with probability
    at least c for each key. Logarithmic cells satisfy neither: their estimates are unbiased except
    for collisions, within about 20 %.

    Weights are non-negative integers. An update that would raise the total above 2**63 - 1 raises
    ValueError and changes nothing.

    References
    ----------
    .. [1] Cormode, Muthukrishnan. "An Improved Data Stream Summary: The Count-Min Sketch and its
       Applications". J. Algorithms 2005, Theorem 1 (error of an estimate).
    .. [2] Ben Basat, Einziger, Mitzenmacher, Vargaftik. "SALSA: Self-Adjusting Lean Streaming
       Analytics". ICDE 2021 (compact cells, merged by sum).
    .. [3] Estan, Varghese. "New Directions in Traffic Measurement and Accounting". SIGCOMM 2002
       (conservative cells).
    .. [4] Pitel, Fouquier. "Count-Min-Log Sketch: Approximately Counting with Approximate
       Counters". 2015 (logarithmic cells).

    Examples
    --------
    >>> counts = CountMin(width=1024).update(["tea", "milk", "tea"])
    >>> counts.estimate(["tea", "rum"])
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
        """Build the smallest sketch with a given error bound.

        Parameters
        ----------
        error : float
            Error bound as a fraction of the total, between 0 and 1.
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.
        seed : int, default=0
            Seed of the hash functions.
        cells : {"plain", "compact", "conservative", "logarithmic"}, default="plain"
            Kind of the cells, as in `CountMin`; "logarithmic" has no bound and is refused. Compact
            cells are sized for the worst case, eight joined into one, and mostly do better.

        Returns
        -------
        Self
            An empty sketch with ``error_bound(confidence) <= error * total`` for any total.
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
        """Add keys to the counts.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.
        weights : array_like of shape (n,) or None, default=None
            Amount to add for each key, integers from 0 to 2**31 - 1; None adds 1 for each.
        clip : int or None, default=None
            Public bound to which weights are clipped. Each weight is then read on its own and none
            is refused, as a private release needs: a value that is not a number counts as 0.

        Returns
        -------
        Self
            The sketch itself.
        """
        hashed = self._hashed(keys)
        weighted = integer_weights("CountMin", weights, hashed.size, clip=clip)
        self._count(hashed.size if weighted is None else int(weighted.sum()))
        self._weigh(heaviest(weighted, hashed.size))
        scratch = np.empty(min(BLOCK, hashed.size), np.uint32)
        for rows, hashes in hashed.blocks:
            self._add(hashes, scratch, None if weighted is None else weighted[rows])
        self._note_keys(hashed)
        return self

    def add(self, key: Key, weight: int = 1) -> Self:
        """Add one key to the counts.

        Parameters
        ----------
        key : scalar
            Key of any type, a text too; `update` takes a column of keys.
        weight : int, default=1
            Amount to add, from 0 to 2**31 - 1.

        Returns
        -------
        Self
            The sketch itself, as after ``update([key], [weight])``.
        """
        hashes = self._key_hash(key)
        weight = COUNT.check("CountMin", "weight", weight)
        self._count(weight)
        self._weigh(weight)
        weights = None if weight == 1 else np.full(1, weight, np.int64)
        self._add(hashes, np.empty(1, np.uint32), weights)
        self._note_key()
        return self

    def estimate(self, keys: Keys) -> Any:
        """Estimate the count of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types, counted or not.

        Returns
        -------
        ndarray of shape (n,), int or float
            Estimates, int64, never below the true counts; with logarithmic cells float64, of both
            signs of error. One number for one key.
        """
        dtype = np.float64 if self.cells == "logarithmic" else np.int64
        return answers_to(keys, self.seed, dtype, self._estimates)

    def _estimates(self, hashes: np.ndarray, out: np.ndarray) -> None:
        if self.cells == "compact":
            compact.smallest(self._table, self._joined, hashes, out)
        elif self.cells == "logarithmic":
            conservative.smallest_value(self._table, hashes, conservative.VALUES, out)
        else:
            counters.smallest(self._table, hashes, np.empty(hashes.size, np.uint32), out)

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.

        Returns
        -------
        float
            Bound on ``estimate - true``.

        Raises
        ------
        ValueError
            The cells are logarithmic; no bound is proved for them.

        Notes
        -----
        A key that is in cell J of a row reads its count plus the load of all other keys in J. J is
        uniform and independent of the loads, which are at most what the cells hold. So a row is too
        high by more than t with probability at most (cells above t) / width, and an estimate only
        if all rows are: the bound is the smallest t for which the product is at most
        1 - confidence. The few cells of heavy keys hardly count. Compact cells are read as blocks
        of all neighbours that may join at this total.

        What a conservative cell holds depends on the order of the stream. Its bound is Markov's for
        the plain cell, which is never lower: total / width (1 - confidence) ** (-1 / depth).
        """
        miss = 1 - fraction.check("CountMin", "confidence", confidence)
        if self.cells == "logarithmic":
            raise ValueError(UNPROVED)
        if self.cells == "conservative":
            return float(self.total / self.width * miss ** (-1 / self.depth))
        return bound_of_minima(self._loads(self._span().bit_length() - 1), miss)

    def _loads(self, level: int = 0) -> np.ndarray:
        """What the cells hold as numbers; compact ones as blocks of 2**level or more of them."""
        if self.cells == "logarithmic":
            return np.asarray(conservative.VALUES[self._table])
        if self.cells != "compact":
            return self._table
        out = np.empty((self.depth, self.width >> level), np.int64)
        compact.blocks(self._table, self._joined, level, out)
        return out

    def _error_distribution(self) -> dict[int, CellErrors]:
        """By the level of a compact counter, which its neighbours join; others have one."""
        if self.cells == "plain":
            return {0: CellErrors(drawn(self._table), "smallest")}
        levels = range(4) if self.cells == "compact" else range(1)
        smallest = (drawn(self._loads(level)).min(axis=0)[None] for level in levels)
        return {level: CellErrors(each, "smallest") for level, each in enumerate(smallest)}

    def _limits_of(
        self, hashes: np.ndarray, confidence: float, errors: dict[int, CellErrors]
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.cells == "plain":
            low, high = errors[0].interval(sorted_rows(self._table, hashes), confidence)
        elif self.cells == "compact":
            low, high = self._compact_limits(hashes, confidence, errors)
        else:
            low, high = self._order_limits(hashes, confidence, errors[0])
        return np.maximum(low, 0), np.maximum(high, 0)

    _lowest = 0.0

    def _known_errors(self) -> CellErrors:
        if self.cells != "plain":
            raise ValueError(
                f"CountMin: {self.cells} cells have no posterior, since their errors depend on the "
                "count; use plain ones."
            )
        return self._error_distribution()[0]

    def _placed(self, hashes: np.ndarray, errors: CellErrors) -> Placed:
        return Placed(*errors.placed(sorted_rows(self._table, hashes)))

    def _compact_limits(
        self, hashes: np.ndarray, confidence: float, errors: dict[int, CellErrors]
    ) -> tuple[np.ndarray, np.ndarray]:
        raw = np.empty(hashes.size, np.int64)
        self._estimates(hashes, raw)
        level = np.searchsorted([limit for limit, _ in SPANS], raw, side="right")
        limits = np.empty((2, hashes.size))
        for at, each in errors.items():
            limits[:, level == at] = each.interval(raw[None, level == at], confidence)
        return limits[0], limits[1]

    def _order_limits(
        self, hashes: np.ndarray, confidence: float, errors: CellErrors
    ) -> tuple[np.ndarray, np.ndarray]:
        """Limits for cells that depend on the order: an unseen key has the largest errors."""
        raw = np.empty(hashes.size, np.float64 if self.cells == "logarithmic" else np.int64)
        self._estimates(hashes, raw)
        low, high = raw - errors.quantile(confidence), raw.astype(np.float64)
        if self.cells == "logarithmic":
            below, above = _random_levels(raw, confidence)
            low, high = low - below, high + above
        return low, high

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
        .. [1] Pagh, Thorup. "Improved Utility Analysis of Private CountSketch". NeurIPS 2022.
           https://arxiv.org/abs/2205.08397

        Examples
        --------
        >>> released = CountMin(1024).update(["tea", "milk", "tea"]).release(epsilon=1)
        >>> released.statement.epsilon, released.statement.ledger
        (1.0, 'unaccounted')
        """
        # Replacing an event changes two cells per row; weights are non-negative, so none by 2 w.
        both = 2 if request.relation == "replace" else 1
        sensitivity = TableSensitivity(both * self.depth, weight, times=request.contributions)
        shape = dict(width=self.width, depth=self.depth, seed=self.seed)
        return calibrated(ReleasedCountMin, shape, self._table, request, sensitivity, noise)

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

    def _count(self, added: int) -> None:
        """Raise the total; no cell exceeds it, so checking it keeps every cell from overflow."""
        self._grow(TOTAL.check("CountMin", "total", self.total + added))

    def _grow(self, total: int) -> None:
        """Set the total, after widening the cells to 64 bits if it needs them."""
        if total >= WIDEN and self._table.dtype == np.int32:
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
        self._count(other.total)
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
        else:  # the total is checked against overflow, and no cell exceeds it
            fits = self.cells == "logarithmic" or (
                self._table.min() >= 0 and self._table.max() <= self.total
            )
        if self.total < 0 or not fits:
            raise ValueError("a cell holds more than the total.")
        check_heaviest(self.heaviest, self.total)
