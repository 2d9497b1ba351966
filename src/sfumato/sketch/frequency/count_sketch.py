"""Count sketch: unbiased signed counts of keys in fixed memory; and its private release."""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import integer_weights, real_weights
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.hashing import BLOCK, KeyColumn, hash_column
from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Ids, Key, Keys
from sfumato.core.validation import fraction, integer, one_of
from sfumato.errors import ParameterError
from sfumato.kernels.sketch import counters
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import (
    EXACT,
    SEED,
    SIGNED,
    KeyedSketch,
    Merging,
    WeighedRelease,
    answers_to,
    check_heaviest,
    heaviest,
    rounding,
)
from sfumato.sketch.concentration import norm_shortfall, row_miss, smallest_width
from sfumato.sketch.frequency.cell_bounds import bound_of_means, bound_of_medians
from sfumato.sketch.frequency.cell_errors import CellErrors, drawn, signed
from sfumato.sketch.frequency.heavy_hitters import Candidates, largest, shown
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

__all__ = ["CountSketch", "ReleasedCountSketch"]

COMBINE = one_of(("mean", "median"))


class SignedTable(ShrunkCounts):
    """What a count sketch and its release have in common: estimates from a table with signs."""

    combine: str
    _table: np.ndarray

    def interval(
        self, keys: Keys, confidence: float = 0.95, *, combine: str | None = None
    ) -> tuple[Any, Any]:
        """Compute a confidence interval of the weight of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types. Ask for a column: the table is sampled once for all of them, which
            takes a few milliseconds.
        confidence : float, default=0.95
            Approximate probability with which the interval of a key contains the true weight,
            between 0 and 1.
        combine : {"mean", "median"} or None, default=None
            The estimates meant: "median" for those of `heavy_hitters`. None stands for those of
            `estimate`.

        Returns
        -------
        tuple
            Lower and upper limits, two float64 arrays of shape (n,); two numbers for one key. The
            estimate is in the middle.

        Notes
        -----
        The interval is that of the key at hand, from the cells alone; `error_bound` bounds the
        error of any key, with proof. Other cells of a row show how much a key's own cell may hold
        of other keys (and of the noise of a release), so keys are simulated from them [1]_. Their
        errors are sorted by how far the rows of a key are apart: rows that agree have a short
        interval, rows that share cells with heavy keys a long one.

        The probability is over seeds, for a key that was not chosen by its estimate. Errors of a
        few integers only, mostly 0, cannot have the exact probability; theirs is higher.

        References
        ----------
        .. [1] Ting. "Count-Min: Optimal Estimation and Tight Error Bounds using Empirical Error
           Distributions". KDD 2018. https://doi.org/10.1145/3219819.3219975
        """
        owner = type(self).__name__
        confidence = fraction.check(owner, "confidence", confidence)
        if combine is not None:
            combine = COMBINE.check(owner, "combine", combine)
        return self._intervals(keys, confidence, self._error_distribution(combine))

    def _estimates(self, hashes: np.ndarray, out: np.ndarray) -> None:
        if self.combine == "mean":
            counters.mean(self._table, hashes, np.empty(hashes.size, np.uint32), out)
        else:
            out[:] = self._median(hashes)

    def _median(self, hashes: np.ndarray) -> np.ndarray:
        return self._sorted_rows(hashes)[1]

    def _sorted_rows(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cells of each key times its signs, in order, and their median."""
        out, slots = np.empty(hashes.size), np.empty(hashes.size, np.uint32)
        rows = np.empty((self.depth, hashes.size), self._table.dtype)
        counters.median(self._table, hashes, slots, rows, out)
        return rows, out

    def _error_distribution(self, combine: str | None = None) -> CellErrors:
        return CellErrors(signed(drawn(self._table)), combine or self.combine)

    def _limits_of(
        self, hashes: np.ndarray, confidence: float, errors: CellErrors
    ) -> tuple[np.ndarray, np.ndarray]:
        return errors.interval(self._sorted_rows(hashes)[0], confidence)

    def _known_errors(self) -> CellErrors:
        return self._error_distribution()

    def _placed(self, hashes: np.ndarray, errors: CellErrors) -> Placed:
        return Placed(*errors.placed(self._sorted_rows(hashes)[0]))

    def _bound_by_cells(self, miss: float) -> float:
        """The bound that the other cells of each row prove; infinite for a narrow table."""
        bound = bound_of_means if self.combine == "mean" else bound_of_medians
        return bound(self._table, miss)


class ReleasedCountSketch(NoisyTable, SignedTable):
    """Private total weights of keys; made by `CountSketch.release`.

    It has the parameters of the sketch, and the distribution (`noise`) and `scale` of the noise. It
    can be queried, compared, saved and published, and takes no updates. No key is stored.

    Notes
    -----
    **Guarantee.** Private as its `statement` says. ``|estimate - true| <= error_bound(c)`` with
    probability at least c for each key, over seeds and noise. Estimates by the mean are unbiased.

    References
    ----------
    .. [1] Pagh, Thorup. "Improved Utility Analysis of Private CountSketch". NeurIPS 2022.
       https://arxiv.org/abs/2205.08397
    .. [2] Zhao, Qiao, Redberg, Agrawal, El Abbadi, Wang. "Differentially Private Linear Sketches:
       Efficient Implementations and Applications". NeurIPS 2022.

    Examples
    --------
    >>> from sfumato.sketch import CountSketch
    >>> sketch = CountSketch(1024).update(["tea", "rum"], [5000, -5000])
    >>> released = sketch.release(1, weight=5000)
    >>> released.estimate(["tea", "rum"]).shape
    (2,)
    """

    width: Annotated[int, integer(2, 2**31)]
    depth: Annotated[int, integer(1, 32)]
    combine: Annotated[str, COMBINE]
    version = 2  # a key has one hash, whatever its type
    _of = "CountSketch"

    def estimate(self, keys: Keys) -> Any:
        """Estimate the total weight of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types; 7, "7" and 7.0 are the same key.

        Returns
        -------
        ndarray of shape (n,) or float
            Estimates of both signs of error, float64: mean or median of the rows, as `combine`
            says. One number for one key.
        """
        return answers_to(keys, self.seed, np.float64, self._estimates)

    @renamed_arguments(k="n")
    def heavy_hitters(self, n: int, candidates: Ids | None = None) -> tuple[list[Any], np.ndarray]:
        """Select the candidates of largest absolute weight.

        Parameters
        ----------
        n : int
            Number of keys, at least 1.
        candidates : array_like, scalar or None, default=None
            Public keys to select from, such as a catalogue. Required: the release does not contain
            which keys occurred.

        Returns
        -------
        tuple
            List of up to n keys, largest absolute weight first, and the array of their estimates,
            by the median of the rows.
        """
        n = integer(1).check("ReleasedCountSketch", "n", n)
        if candidates is None:
            raise ParameterError(
                "ReleasedCountSketch: a release remembers no keys; give candidates, a public "
                "column of keys to choose among.",
                owner="ReleasedCountSketch",
                parameter="candidates",
            )
        return largest(n, KeyColumn(candidates), self.seed, self._median)

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|estimate - true|``, computed from the release alone. Infinite if the table
            is too small to bound the second moment F2.

        Notes
        -----
        A key that is in cell J of a row reads its weight plus the load of all other keys in J, with
        its own sign. J and the sign are uniform and independent of the loads. So a row is off by
        more than t with probability (loads above t in size) / width, and the cells show all loads
        but that of J. Half of the rows must be off, all on one side, for the median to be. The few
        cells of heavy keys therefore do not count: the bound is that of the residual norm
        [1]_, [2]_, but no heavy key need be known. For the mean, loads above the best cut are
        charged their probability, and the others enter Chebyshev's inequality.

        The noise is part of the loads. If the table is too narrow for this confidence, a part of
        the failure probability is for an underestimate of F2 by all noisy rows. The remainder is
        for collisions beyond Chebyshev's bound or noise beyond its tail bound, in the mean of the
        rows or in half of them.

        References
        ----------
        .. [1] Charikar, Chen, Farach-Colton. "Finding Frequent Items in Data Streams". ICALP 2002.
        .. [2] Minton, Price. "Improved Concentration Bounds for Count-Sketch". SODA 2014.
           https://arxiv.org/abs/1207.5200
        """
        miss = 1 - fraction.check("ReleasedCountSketch", "confidence", confidence)
        found = self._bound_by_cells(miss)
        return found if found < math.inf else self._bound_by_moment(miss)

    def _bound_by_moment(self, miss: float) -> float:
        """The bound by F2 and the tail of the noise."""
        low = miss * moment_fraction(self.width, self.depth, miss)
        moment, distribution = self._largest_moment(low), self._distribution
        averaged = self.depth if self.combine == "mean" else 1  # rows whose errors are averaged
        probability = miss - low if self.combine == "mean" else row_miss(self.depth, miss - low)
        return narrowest(
            lambda p: math.sqrt(moment / (self.width * averaged * p)),
            lambda p: distribution.mean_tail_bound(averaged, p),
            probability,
        )

    def _largest_moment(self, miss: float) -> float:
        """Upper bound on F2 with probability 1 - miss; E[row of squares] = F2 + width variance."""
        width, distribution = self.width, self._distribution
        variance = SecondMomentVariance(
            2 / width,
            4 * distribution.variance,
            width * (distribution.fourth - distribution.variance**2),
        )
        estimates = self._squares(np.zeros(self.depth)) - width * distribution.variance
        return largest_moment(float(estimates.max()), variance, all_rows_short(self.depth, miss))


MASS = integer(0)
WIDEN = 2**31  # a sum of absolute weights from here on needs 64-bit cells
LARGEST_SUM = 1e250  # of real weights in a cell; a single weight is at most 1e200
SCALE = 1e120  # the squares of such cells overflow


class CountSketch(SignedTable, WeighedRelease[ReleasedCountSketch], KeyedSketch):
    """Unbiased total weights of keys under additions and removals, in fixed memory.

    Memory is width x depth cells, whatever the number of keys. Use `CountMin` instead if weights
    are never negative and estimates must not be too low.

    Parameters
    ----------
    width : int
        Cells per row, from 2 to 2**31. The variance is inversely proportional to it.
    depth : int, default=4
        Rows, from 1 to 32, each with its own hash and sign functions.
    seed : int, default=0
        Seed of the hash functions. Sketches merge only if their seeds are equal.
    combine : {"mean", "median"}, default="mean"
        How estimates of the rows are combined. The median is robust if a few keys are very heavy.
    cells : {"integer", "real"}, default="integer"
        "integer": 32 bits each, 64 once needed; merges exactly. "real": float64, for real weights;
        merges up to rounding, and cannot be released.
    track : int, default=0
        Number of heavy keys to store for `heavy_hitters`, up to 2**20. With it, the cells still
        merge exactly, but which keys are stored may depend on the order.

    Attributes
    ----------
    mass : int
        Sum of the absolute integer weights.
    heaviest : int
        Largest absolute integer weight of a single event.

    Notes
    -----
    **Guarantee.** Estimates of a row and of the mean are unbiased, and
    ``|estimate - true| <= error_bound(c)`` with probability at least c for each key. A row has
    variance (sum of the squared weights of the other keys) / width, the mean of the rows that
    divided by depth.

    Integer weights are below 2**31 in absolute value. An update that would raise the sum of the
    absolute weights above 2**63 - 1 raises ValueError and changes nothing.

    References
    ----------
    .. [1] Charikar, Chen, Farach-Colton. "Finding Frequent Items in Data Streams". ICALP 2002.
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, sections 2.3.2.5 (mean of rows) and 4.2 (its variance).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> basket = CountSketch(width=1024, track=2).update(["tea", "milk", "tea"], [3, 1, -1])
    >>> basket.estimate(["tea", "milk"])
    array([2., 1.])
    >>> basket.heavy_hitters(1)
    (['tea'], array([2.]))
    """

    width: Annotated[int, integer(2, 2**31)]
    depth: Annotated[int, integer(1, 32)]
    seed: Annotated[int, SEED]
    combine: Annotated[str, COMBINE]
    cells: Annotated[str, one_of(("integer", "real"))]
    track: Annotated[int, integer(0, 2**20)]
    mass: int
    heaviest: int
    keys: str
    _table: np.ndarray
    _hashes_kept: np.ndarray
    _ends: np.ndarray
    _letters: np.ndarray
    version = 3  # a key has one hash, whatever its type
    _scalars = {"mass": 0, "heaviest": 0, "keys": ""}

    def __init__(
        self,
        width: int,
        depth: int = 4,
        *,
        seed: int = 0,
        combine: str = "mean",
        cells: str = "integer",
        track: int = 0,
    ) -> None:
        self._set_parameters(
            width=width, depth=depth, seed=seed, combine=combine, cells=cells, track=track
        )
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, **parameters: Any) -> Self:
        """Build the smallest sketch with a given error bound.

        Parameters
        ----------
        error : float
            Error bound as a fraction of the Euclidean norm of all total weights, between 0 and 1.
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.
        **parameters : object
            Other parameters of `CountSketch`: seed, combine, cells, track.

        Returns
        -------
        Self
            An empty sketch of that error.
        """
        error = fraction.check("CountSketch", "error", error)
        miss = 1 - fraction.check("CountSketch", "confidence", confidence)
        combine = parameters.get("combine", "mean")

        def width(depth: int) -> int:
            return smallest_width(
                lambda w: _relative_bound(w, depth, combine, miss) <= error, 2**31
            )

        # For the mean only width times depth matters, approximately.
        depths = range(4, 5) if combine == "mean" else range(1, 33)
        depth = min(depths, key=lambda rows: rows * width(rows))
        return cls(width(depth), depth, **parameters)

    @property
    def merging(self) -> Merging:
        if self.track:
            return rounding("the cells merge exactly; which keys are tracked may differ.")
        return EXACT if self.cells == "integer" else rounding("float64 cells, each sum rounded.")

    def update(
        self, keys: Column, weights: Column | None = None, *, clip: int | None = None
    ) -> Self:
        """Add weights of keys; a negative weight removes.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.
        weights : array_like of shape (n,) or None, default=None
            Weight to add for each key: integers below 2**31 in absolute value, or with real cells
            numbers up to 1e200. None adds 1 for each.
        clip : int or None, default=None
            Public bound to which the absolute values of integer weights are clipped. Each weight is
            then read on its own and none is refused, as a private release needs: a value that is
            not a number counts as 0.

        Returns
        -------
        Self
            The sketch itself.
        """
        column = self._key_column(keys) if self.track else None  # candidates are read from it
        hashed = self._hashed(keys if column is None else column)
        weighted = self._checked(weights, hashed.size, clip)
        scratch = np.empty(min(BLOCK, hashed.size), np.uint32)
        self._note_keys(hashed)
        heavy = None if column is None else self._candidates()
        for rows, hashes in hashed.blocks:
            self._add(hashes, scratch, None if weighted is None else weighted[rows])
            if heavy is not None and column is not None:
                heavy.offer(hashes, column, rows.start, self._median)
        if heavy is not None:
            self._track_these(heavy)
        return self

    def add(self, key: Key, weight: float = 1) -> Self:
        """Add the weight of one key; a negative one removes.

        Parameters
        ----------
        key : scalar
            Key of any type, a text too; `update` takes a column of keys.
        weight : float, default=1
            Weight to add: an integer below 2**31 in absolute value, or with real cells a number up
            to 1e200.

        Returns
        -------
        Self
            The sketch itself, as after ``update([key], [weight])``.
        """
        hashes = self._key_hash(key)
        if self.track or self.cells == "real":
            return self.update([key], [weight])
        exact = SIGNED.check("CountSketch", "weight", weight)
        self._weigh_events(abs(exact), abs(exact))
        self._note_key()
        weights = None if exact == 1 else np.full(1, exact, np.int64)
        self._add(hashes, np.empty(1, np.uint32), weights)
        return self

    def estimate(self, keys: Keys) -> Any:
        """Estimate the total weight of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types; 7, "7" and 7.0 are the same key.

        Returns
        -------
        ndarray of shape (n,) or float
            Estimates of both signs of error, float64: mean or median of the rows, as `combine`
            says. One number for one key.
        """
        return answers_to(keys, self.seed, np.float64, self._estimates)

    @renamed_arguments(k="n")
    def heavy_hitters(self, n: int, candidates: Ids | None = None) -> tuple[list[Any], np.ndarray]:
        """Select the keys of largest absolute weight.

        Parameters
        ----------
        n : int
            Number of keys, at least 1.
        candidates : array_like, scalar or None, default=None
            Keys to select from; None selects from the tracked keys, which needs `track` above 0.

        Returns
        -------
        tuple
            List of up to n keys, largest absolute weight first, and the array of their estimates.
            Tracked keys that are digits are returned as integers.

        Notes
        -----
        Keys are ranked and estimated by the median of the rows, even if `combine` is "mean": by
        means, one very heavy key would lift any other key in the same cell into the list.
        """
        n = integer(1).check("CountSketch", "n", n)
        if candidates is not None:
            return largest(n, self._key_column(candidates), self.seed, self._median)
        if not self.track:
            raise ParameterError(
                "CountSketch: track is 0; build it with track=n or give candidates.",
                owner="CountSketch",
                parameter="candidates",
            )
        tracked = self._candidates()
        value = self._median(tracked.hashes)
        best = np.argsort(-np.abs(value), kind="stable")[:n]
        return [shown(tracked.names[i]) for i in best], value[best]

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each key, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|estimate - true|``.

        Notes
        -----
        A key that is in cell J of a row reads its weight plus the load of all other keys in J, with
        its own sign. J and the sign are uniform and independent of the loads. So a row is off by
        more than t with probability (loads above t in size) / width, and the cells show all loads
        but that of J. Half of the rows must be off, all on one side, for the median to be. The few
        cells of heavy keys therefore do not count: the bound is that of the residual norm
        [1]_, [2]_, but no heavy key need be known. For the mean, loads above the best cut are
        charged their probability, and the others enter Chebyshev's inequality.

        If the table is too narrow for this confidence, the bound is Chebyshev's. The norm of all
        weights is then estimated by the rows, and half of the failure probability is for its being
        too low. The sum of the absolute weights also bounds the norm, with certainty. It is not
        recorded for real cells, whose bound may therefore be infinite.

        References
        ----------
        .. [1] Charikar, Chen, Farach-Colton. "Finding Frequent Items in Data Streams". ICALP 2002.
        .. [2] Minton, Price. "Improved Concentration Bounds for Count-Sketch". SODA 2014.
           https://arxiv.org/abs/1207.5200
        """
        miss = 1 - fraction.check("CountSketch", "confidence", confidence)
        found = self._bound_by_cells(miss)
        return found if found < math.inf else self._bound_by_norm(miss)

    def _bound_by_norm(self, miss: float) -> float:
        """Chebyshev's bound, by the norm of all weights."""
        norm = float(np.linalg.norm(self._table.astype(np.float64) / SCALE, axis=1).max()) * SCALE
        estimated = norm * _relative_bound(self.width, self.depth, self.combine, miss)
        if self.cells == "real":
            return estimated if norm else math.inf if self.keys else 0.0
        certain = self.mass / math.sqrt(self.width * _effective(self.depth, self.combine, miss))
        return certain if math.isnan(estimated) else min(certain, estimated)

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedCountSketch]:
        """**Guarantee.** (epsilon, delta)-private for one unit: an event of absolute weight at most
        w changes one cell in each row by at most w, so the sensitivities are L1 = depth w and
        L2 = sqrt(depth) w [1]_. Several events of one unit may all change the same cell. At delta 0
        the noise is discrete Laplace, otherwise discrete Laplace or discrete Gaussian, whichever
        has the smaller variance.

        Only integer cells can be released. Tracked keys are not part of the release.

        References
        ----------
        .. [1] Pagh, Thorup. "Improved Utility Analysis of Private CountSketch". NeurIPS 2022.
           https://arxiv.org/abs/2205.08397

        Examples
        --------
        >>> released = CountSketch(1024).update(["tea", "milk", "tea"]).release(epsilon=1)
        >>> released.heavy_hitters(1, candidates=["tea", "milk", "rum"])[1].size
        1
        """
        sensitivity = TableSensitivity(self.depth, weight, times=request.events)
        shape = dict(width=self.width, depth=self.depth, seed=self.seed, combine=self.combine)
        return calibrated(ReleasedCountSketch, shape, self._table, request, sensitivity, noise)

    def _check_releasable(self) -> None:
        if self.cells == "real":
            raise ValueError(
                "CountSketch: cannot be released, float64 sums round by amounts that depend on "
                "other events; count integer weights in integer cells."
            )

    def _layout(self) -> dict[str, Cells]:
        integer = np.int32 if self.mass < WIDEN else np.int64
        dtype = integer if self.cells == "integer" else np.float64
        cells = {"_table": Cells(dtype, (self.depth, self.width))}
        if self.track:
            cells["_hashes_kept"] = Cells(np.uint64, (-1,), "")
            cells["_ends"] = Cells(np.int64, (-1,), "")
            cells["_letters"] = Cells(np.uint8, (-1,), "")
        return cells

    def _checked(self, weights: Any, size: int, clip: int | None) -> np.ndarray | None:
        if self.cells == "real":
            return real_weights("CountSketch", weights, size)
        weighted = integer_weights("CountSketch", weights, size, low=-(2**31) + 1, clip=clip)
        sizes = None if weighted is None else np.abs(weighted)
        added = size if sizes is None else int(sizes.sum())
        self._weigh_events(added, heaviest(sizes, size))
        return weighted

    def _weigh_events(self, added: int, most: int) -> None:
        """Record the sum of absolute weights and the largest, before any cell changes."""
        # No cell exceeds the sum of absolute weights, so checking that prevents overflow.
        self._grow(MASS.check("CountSketch", "mass", self.mass + added))
        self._weigh(most)

    def _add(self, hashes: np.ndarray, scratch: np.ndarray, weights: np.ndarray | None) -> None:
        if weights is None:
            counters.add_one_signed(self._table, hashes, scratch)
        else:
            counters.add_signed(self._table, hashes, scratch, weights)

    def _grow(self, mass: int) -> None:
        if mass >= WIDEN and self.cells == "integer" and self._table.dtype != np.int64:
            self._table = self._table.astype(np.int64)
        self.mass = mass

    def _track_these(self, heavy: Candidates) -> None:
        """Store the three arrays of the candidates at once, so that Ctrl-C cannot separate them."""
        self.__dict__.update(
            zip(("_hashes_kept", "_ends", "_letters"), heavy.arrays(), strict=True)
        )

    def _candidates(self) -> Candidates:
        return Candidates(self.track, self._hashes_kept, self._ends, self._letters)

    def _join(self, other: Self) -> None:
        mass = MASS.check("CountSketch", "mass", self.mass + other.mass)
        if self.cells == "real" and not np.abs(self._table + other._table).max() <= LARGEST_SUM:
            raise ValueError(f"CountSketch: cannot merge, a cell would pass {LARGEST_SUM:g}.")
        self._grow(mass)
        self.heaviest = max(self.heaviest, other.heaviest)
        self.keys = self.keys or other.keys
        self._table += other._table
        if self.track:
            heavy = self._candidates()
            heavy.absorb(other._candidates(), self._median)
            self._track_these(heavy)

    def _check_state(self) -> None:
        super()._check_state()
        largest = self.mass if self.cells == "integer" else LARGEST_SUM
        if self.mass < 0 or not (-largest <= self._table.min() and self._table.max() <= largest):
            raise ValueError("a cell is out of range.")
        check_heaviest(self.heaviest, self.mass)
        if self.track:
            self._check_tracked()

    def _check_tracked(self) -> None:
        ends = np.concatenate([[0], self._ends])
        if (
            self._ends.size != self._hashes_kept.size
            or self._ends.size > self.track
            or (ends[1:] < ends[:-1]).any()  # a difference could wrap
            or ends[-1] != self._letters.size
        ):
            raise ValueError("the tracked keys do not fit together.")
        names = self._candidates().names
        hashes = hash_column(names, self.seed) if names else self._hashes_kept
        if (hashes != self._hashes_kept).any() or (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("the tracked keys are not those of their hashes, in order.")


def _effective(depth: int, combine: str, miss: float) -> float:
    """The e for which an error t has probability at most miss if F2 / (width t**2) <= e."""
    return depth * miss if combine == "mean" else row_miss(depth, miss)


def _relative_bound(width: int, depth: int, combine: str, miss: float) -> float:
    """The error bound of an estimate, relative to the norm of the row with the largest norm."""
    short = norm_shortfall(width, depth, miss / 2)
    if short >= 1:
        return math.inf
    return 1 / math.sqrt((1 - short) * width * _effective(depth, combine, miss / 2))
