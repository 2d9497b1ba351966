"""Count sketch: signed counts of keys under additions and removals, unbiased, in fixed memory.

A released Count sketch: private signed counts of keys, unbiased.
"""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import integer_weights, real_weights
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.hashing import BLOCK, KeyColumn, hash_column
from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Ids
from sfumato.core.validation import fraction, integer, one_of
from sfumato.errors import ParameterError
from sfumato.kernels.sketch import counters
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import (
    EXACT,
    SEED,
    KeyedSketch,
    Merging,
    WeighedRelease,
    check_heaviest,
    heaviest,
    rounding,
)
from sfumato.sketch.concentration import norm_shortfall, row_miss, smallest_width
from sfumato.sketch.frequency.heavy_hitters import Candidates, largest, shown
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

__all__ = ["CountSketch", "ReleasedCountSketch"]


class ReleasedCountSketch(NoisyTable):
    """Total weights of keys that may leave the curator; made by `CountSketch.release`.

    those of the sketch, and the law and scale of the noise. It does not know whether keys were
    integers or text: ask with the type that was counted.

    Notes
    -----
    **Guarantee.** As its statement says; estimates by the mean are unbiased; |estimate - true| <=
    error_bound(c) with probability c per key, over seeds and noise. No key is remembered.

    References
    ----------
    .. [1] Pagh and Thorup 2022; Zhao, Qiao, Redberg, Agrawal, El Abbadi and Wang 2022.

    Examples
    --------
    >>> from sfumato.sketch import CountSketch
    >>> told = CountSketch(1024).update(["tea", "rum"], [5000, -5000]).release(1, weight=5000)
    >>> told.estimate(["tea", "rum"]).shape
    (2,)
    """

    width: Annotated[int, integer(2, 2**31)]
    depth: Annotated[int, integer(1, 32)]
    combine: Annotated[str, one_of(("mean", "median"))]
    version = 2  # a key has one hash, whatever its type
    _of = "CountSketch"

    def estimate(self, keys: Column) -> np.ndarray:
        """The total weight of every key.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            The total weight of every key.
        """
        column = KeyColumn(keys)
        out, slots = np.empty(column.size), np.empty(min(BLOCK, column.size), np.uint32)
        for start, hashes in column.blocks(self.seed):
            part = out[start : start + hashes.size]
            if self.combine == "mean":
                counters.mean(self._table, hashes, slots, part)
            else:
                part[:] = self._median(hashes)
        return out

    @renamed_arguments(k="n")
    def heavy_hitters(self, n: int, candidates: Ids | None = None) -> tuple[list[Any], np.ndarray]:
        """The n candidates of the largest weight, whatever its sign, and their estimates by median.

        Parameters
        ----------
        n : int
            How many.
        candidates : array_like, scalar or None, default=None
            A public column of keys to choose among, such as the catalogue: which keys occurred is
            not released.

        Returns
        -------
        tuple
            The n candidates of the largest weight, whatever its sign, and their estimates by
            median.
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
        """What an estimate may be off by, with this probability for each key.

        A part of the chance 1 - confidence goes to F2 being told too low by all noisy rows; where
        so few cells cannot tell it, the bound is infinite. The rest goes to collisions past
        Chebyshev's bound or noise past its tail: in the mean of the rows, or in half of them.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            What an estimate may be off by, with this probability for each key.
        """
        miss = 1 - fraction.check("ReleasedCountSketch", "confidence", confidence)
        low = miss * moment_share(self.width, self.depth, miss)
        moment, distribution = self._largest_moment(low), self._distribution
        alike = self.depth if self.combine == "mean" else 1  # rows whose errors are averaged
        chance = miss - low if self.combine == "mean" else row_miss(self.depth, miss - low)
        return narrowest(
            lambda p: math.sqrt(moment / (self.width * alike * p)),
            lambda p: distribution.mean_tail_bound(alike, p),
            chance,
        )

    def _largest_moment(self, miss: float) -> float:
        """A bound of F2 that holds with chance 1 - miss: E row of squares = F2 + width variance."""
        width, distribution = self.width, self._distribution
        spread = SecondMomentVariance(
            2 / width,
            4 * distribution.variance,
            width * (distribution.fourth - distribution.variance**2),
        )
        told = self._squares(np.zeros(self.depth)) - width * distribution.variance
        return largest_moment(float(told.max()), spread, all_rows_short(self.depth, miss))

    def _median(self, hashes: np.ndarray) -> np.ndarray:
        out, slots = np.empty(hashes.size), np.empty(hashes.size, np.uint32)
        rows = np.empty((self.depth, hashes.size), np.int64)
        counters.median(self._table, hashes, slots, rows, out)
        return out


WIDEN = 2**31  # weights of this total size need 64-bit cells
LARGEST_SUM = 1e250  # of real weights in a cell; each is at most 1e200
SCALE = 1e120  # the squares of such cells overflow


class CountSketch(WeighedRelease[ReleasedCountSketch], KeyedSketch):
    """The total weight of every key of a turnstile stream, with errors of both signs.

    Parameters
    ----------
    width : int
        Cells per row, up to 2**31.
    depth : int, default=4
        Rows.
    seed : int, default=0
        Of all hashes.
    combine : str, default="mean"
        "mean" or, robust where few keys are huge, "median".
    cells : str, default="integer"
        "integer" (32 bits, 64 once needed; merges exactly) or "real" (float64; merges up to
        rounding).
    track : int, default=0
        How many of the largest keys to remember for `heavy_hitters` (keys are stored as text, and
        told as integers where they are; estimates merge exactly, which keys are remembered may
        depend on the order). Integer weights are below 2**31 in size; when the sum of their sizes
        passes 2**63 - 1 the update raises and changes nothing.

    Notes
    -----
    **Guarantee.** Estimates are unbiased; |estimate - true| <= error_bound(c) with probability c
    per key. Each row adds noise of variance (sum of the other keys' squares) / width, their mean
    that divided by depth.

    References
    ----------
    .. [1] Charikar, Chen and Farach-Colton 2002; the mean and its variance: thesis 2.3.2.5 and 4.2.

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
    combine: Annotated[str, one_of(("mean", "median"))]
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
        """The smallest table whose error bound is `error` times the norm of all counts.

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        **parameters : object
            TODO.

        Returns
        -------
        Self
            The smallest table whose error bound is `error` times the norm of all counts.
        """
        error = fraction.check("CountSketch", "error", error)
        miss = 1 - fraction.check("CountSketch", "confidence", confidence)
        combine = parameters.get("combine", "mean")

        def width(depth: int) -> int:
            return smallest_width(lambda w: _off(w, depth, combine, miss) <= error, 2**31)

        # For the mean only width times depth counts, more or less.
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
        """Add every key's weight, or one; a negative weight removes.

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
        weighted = self._checked(weights, column.size, clip)
        scratch = np.empty(min(BLOCK, column.size), np.uint32)
        self._note_keys(column)
        heavy = self._candidates() if self.track else None
        for rows, hashes in self._hashes(column):
            if weighted is None:
                counters.add_one_signed(self._table, hashes, scratch)
            else:
                counters.add_signed(self._table, hashes, scratch, weighted[rows])
            if heavy is not None:
                heavy.offer(hashes, column, rows.start, self._median)
        if heavy is not None:
            self._track_these(heavy)
        return self

    def estimate(self, keys: Column) -> np.ndarray:
        """The total weight of every key.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            The total weight of every key.
        """
        column = self._key_column(keys)
        out = np.empty(column.size, np.float64)
        slots = np.empty(min(BLOCK, column.size), np.uint32)
        for rows, hashes in self._hashes(column):
            if self.combine == "mean":
                counters.mean(self._table, hashes, slots, out[rows])
            else:
                out[rows] = self._median(hashes)
        return out

    @renamed_arguments(k="n")
    def heavy_hitters(self, n: int, candidates: Ids | None = None) -> tuple[list[Any], np.ndarray]:
        """The n keys of the largest weight, whatever its sign, and their estimates, largest first.

        They are found and estimated by the median of the rows even where `combine` is the mean: one
        huge key that shares a cell would lift any other into a list by means.

        Parameters
        ----------
        n : int
            How many.
        candidates : array_like, scalar or None, default=None
            A column of keys to choose among; without it the keys that the sketch tracked.

        Returns
        -------
        tuple
            The n keys of the largest weight, whatever its sign, and their estimates, largest first.
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
        """What an estimate may be off by, with this probability for each key (Chebyshev).

        The norm of all counts is read off the rows, and half of the chance goes to its being too
        low. The sum of the weights' sizes bounds it for certain, which is better for few keys and
        small tables; real cells do not know it, so that their bound may then be infinite.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            What an estimate may be off by, with this probability for each key (Chebyshev).
        """
        miss = 1 - fraction.check("CountSketch", "confidence", confidence)
        norm = float(np.linalg.norm(self._table.astype(np.float64) / SCALE, axis=1).max()) * SCALE
        told = norm * _off(self.width, self.depth, self.combine, miss)
        if self.cells == "real":
            return told if norm else math.inf if self.keys else 0.0
        certain = self.mass / math.sqrt(self.width * _share(self.depth, self.combine, miss))
        return certain if math.isnan(told) else min(certain, told)

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
        .. [1] Pagh, Thorup. "Improved Utility Analysis of Private CountSketch". NeurIPS 2022,
           https://arxiv.org/abs/2205.08397.

        Examples
        --------
        >>> released = CountSketch(1024).update(["tea", "milk", "tea"]).release(epsilon=1)
        >>> released.heavy_hitters(1, candidates=["tea", "milk", "rum"])[1].size
        1
        """
        touched = TableSensitivity(self.depth, weight, times=request.events)
        shape = dict(width=self.width, depth=self.depth, seed=self.seed, combine=self.combine)
        return planned(ReleasedCountSketch, shape, self._table, request, touched, noise)

    def _check_releasable(self) -> None:
        if self.cells == "real":
            raise ValueError(
                "CountSketch: cannot be released, float64 sums round by amounts that depend on "
                "other events; count whole weights in integer cells."
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
        # No cell exceeds the sum of the weights' sizes, so guarding that keeps cells from wrapping.
        self._grow(integer(0).check("CountSketch", "mass", self.mass + added))
        self.heaviest = max(self.heaviest, heaviest(sizes, size))
        return weighted

    def _grow(self, mass: int) -> None:
        if self.cells == "integer" and mass >= WIDEN and self._table.dtype != np.int64:
            self._table = self._table.astype(np.int64)
        self.mass = mass

    def _median(self, hashes: np.ndarray) -> np.ndarray:
        out, slots = np.empty(hashes.size, np.float64), np.empty(hashes.size, np.uint32)
        rows = np.empty((self.depth, hashes.size), self._table.dtype)
        counters.median(self._table, hashes, slots, rows, out)
        return out

    def _track_these(self, heavy: Candidates) -> None:
        """Keep the three arrays of the candidates at once, or Ctrl-C might part them."""
        self.__dict__.update(
            zip(("_hashes_kept", "_ends", "_letters"), heavy.arrays(), strict=True)
        )

    def _candidates(self) -> Candidates:
        return Candidates(self.track, self._hashes_kept, self._ends, self._letters)

    def _join(self, other: Self) -> None:
        mass = integer(0).check("CountSketch", "mass", self.mass + other.mass)
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


def _share(depth: int, combine: str, miss: float) -> float:
    """What an error t has chance F2 / (width share t**2) with."""
    return depth * miss if combine == "mean" else row_miss(depth, miss)


def _off(width: int, depth: int, combine: str, miss: float) -> float:
    """The bound of an estimate's error over the root of the largest row's sum of squares."""
    short = norm_shortfall(width, depth, miss / 2)
    if short >= 1:
        return math.inf
    return 1 / math.sqrt((1 - short) * width * _share(depth, combine, miss / 2))
