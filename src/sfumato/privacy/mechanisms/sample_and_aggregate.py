"""Sample and aggregate: any function of a table, made private by evaluation on disjoint blocks."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.core.hashing import KeyColumn
from sfumato.core.row_values import numbers_of
from sfumato.core.tables import described
from sfumato.core.validation import integer, number, one_of, rational
from sfumato.privacy.accounting.losses import LaplaceNoise, Loss
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.mechanisms.contribution_bounding import numbered
from sfumato.privacy.mechanisms.smooth_sensitivity import SmoothMedian
from sfumato.privacy.noise.discrete import LARGEST, discrete_laplace, uniform
from sfumato.privacy.random_source import Source, SystemSource

__all__ = ["SampleAndAggregate"]


@dataclass(frozen=True)
class SampleAndAggregate(Mechanism):
    """Noisy mean or median of a function's results on random disjoint blocks of the rows.

    Use it for functions whose sensitivity is unknown; the more blocks, the less noise per block.

    Parameters
    ----------
    function : callable
        Called with an array of some of the rows (possibly none), returns one number. It must depend
        on these rows alone: it may not remember other blocks.
    epsilon : object
        Above 0; for the median from 1/1024 to below 64.
    blocks : int
        Number of blocks, from 1 to 2**20.
    low : object
        Public lower bound of the results, an integer multiple of `step`.
    high : object
        Public upper bound of the results, an integer multiple of `step`.
    step : object, optional
        Results are rounded toward zero to multiples of it; 1 by default.
    aggregate : str, default="mean"
        "mean" or "median".
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one row under add/remove or replace; with
    `units` (a column that names the unit of each row) for one unit with all its rows. Each unit
    goes to one block by fresh random bits that do not depend on the data. Neighbours whose other
    units are assigned equally differ in one block, so in one of the `blocks` results, by at most
    high - low. The mean takes discrete Laplace noise for that, the median is a `SmoothMedian` of
    the results. A block on which the function fails, or returns no number, counts as `low`. The
    running time is not protected.

    References
    ----------
    .. [1] Nissim, Raskhodnikova, Smith. "Smooth Sensitivity and Sampling in Private Data Analysis".
       STOC 2007, section 4 (sample and aggregate). https://doi.org/10.1145/1250790.1250803
    .. [2] Smith. "Privacy-preserving Statistical Estimation with Optimal Convergence Rates". STOC
       2011 (the mean). https://doi.org/10.1145/1993636.1993743

    Examples
    --------
    >>> typical = SampleAndAggregate(np.median, epsilon=1, blocks=50, low=0, high=120)
    >>> 0 <= typical.run(np.arange(1000) % 100) <= 120
    True
    """

    function: Callable[[np.ndarray], Any]
    epsilon: Any
    blocks: int
    low: Any
    high: Any
    step: Any = Fraction(1)
    aggregate: str = "mean"
    domain = "an array of numbers, taken as float64; rows along the first axis, finite ones count"
    LIMITS = {
        "epsilon": rational,
        "blocks": integer(1, 2**20),
        "low": number,
        "high": number,
        "step": rational,
        "aggregate": one_of(("mean", "median")),
    }

    def __repr__(self) -> str:
        return described(self, **{each.name: getattr(self, each.name) for each in fields(self)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            kind = type(self.function).__name__
            raise TypeError(f"SampleAndAggregate: function must be callable, not a {kind}.")
        for name in ("low", "high"):
            self._check_steps(name)
        if self.high <= self.low:
            raise ValueError(
                f"SampleAndAggregate: high must be above low ({self.low}), not {self.high}."
            )
        if self.aggregate == "median":
            SmoothMedian.LIMITS["epsilon"].check("SampleAndAggregate", "epsilon", self.epsilon)
        if self._scale > LARGEST:
            raise ValueError(
                f"SampleAndAggregate: epsilon must be at least {self.sensitivity} steps / 2**40, "
                f"not {self.epsilon}; or give a larger step."
            )

    @property
    def sensitivity(self) -> int:
        """Largest change of the sum of the results by one unit, in steps."""
        return int((self.high - self.low) / self.step)

    def run(self, value: Any, *, units: Any = None, source: Source | None = None) -> float:
        """Return the noisy aggregate once, without charging a ledger.

        Parameters
        ----------
        value : object
            Array of numbers, rows along the first axis; rows that are not finite are ignored.
        units : object, default=None
            Column of keys that name the unit of each row; None makes every row a unit.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        float
            Noisy mean or median of the results, a multiple of `step` (divided by `blocks` for the
            mean).
        """
        return float(self.sample(value, 1, units=units, source=source)[0])

    def sample(
        self, value: Any, trials: int, *, units: Any = None, source: Source | None = None
    ) -> np.ndarray:
        """Return the noisy aggregate many times independently, as an audit needs.

        Parameters
        ----------
        value : object
            Array of numbers, rows along the first axis; rows that are not finite are ignored.
        trials : int
            Number of answers, at least 1.
        units : object, default=None
            Column of keys that name the unit of each row; None makes every row a unit.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        ndarray
            Answers, one float per trial.
        """
        rows, trials, source = _rows(value), self._trials(trials), source or SystemSource()
        rows, of_unit = _finite(rows, _units(rows, units))
        count = int(of_unit.max(initial=-1)) + 1
        positions = uniform(self.blocks, trials * count, source=source).reshape(trials, count)
        lots, which = _distinct(positions)
        answers = [self._answers(rows, lot[of_unit]) for lot in lots]
        if self.aggregate == "mean":
            sums = np.array([sum(each) for each in answers])[which]
            noisy = sums + discrete_laplace(self._scale, trials, source=source)
            return np.asarray(noisy * float(self.step / self.blocks))
        middles = np.empty(trials, np.int64)
        for lot, same in enumerate(_groups(which, len(answers))):
            middles[same] = self._median.sample(answers[lot], same.size, source=source)
        return np.asarray(middles * float(self.step))

    def _protected_unit(self, how: dict[str, Any]) -> str | None:
        return "event" if how.get("units") is None else None

    def _loss(self) -> Loss:
        if self.aggregate == "median":
            return self._median.loss()
        return LaplaceNoise(self._scale, self.sensitivity, relation=self.relation)

    def _sentence(self) -> str:
        noise = f"discrete Laplace noise, scale {float(self._scale):.6g} steps on their sum"
        if self.aggregate == "median":
            noise = "discrete Cauchy noise of smooth sensitivity"
        return (
            f"{self.aggregate} of {self.blocks} answers from {float(self.low):g} to "
            f"{float(self.high):g} about disjoint random blocks, in steps of {float(self.step):g}; "
            f"{noise}"
        )

    @property
    def _scale(self) -> Fraction:
        return Fraction(self.sensitivity) / Fraction(self.epsilon)

    @cached_property
    def _median(self) -> SmoothMedian:
        low, high = int(self.low / self.step), int(self.high / self.step)
        # One unit replaces one answer; the number of answers is public.
        return SmoothMedian(float(self.epsilon), low, high, relation=self.relation)

    def _check_steps(self, name: str) -> None:
        """Check that a bound is an integer multiple of the step."""
        bound = getattr(self, name)
        if (bound / self.step).denominator != 1 or abs(bound / self.step) >= 2**40:
            wanted = f"an integer of steps of {self.step}, fewer than 2**40"
            raise ValueError(f"SampleAndAggregate: {name} must be {wanted}, not {bound}.")

    def _answers(self, rows: np.ndarray, block: np.ndarray) -> list[int]:
        """Return the function's result on each block, in steps within the bounds."""
        return [self._evaluate(rows[part]) for part in _groups(block, self.blocks)]

    def _evaluate(self, rows: np.ndarray) -> int:
        """Return the function's result on one block, in steps; `low` where it fails."""
        low, high = int(self.low / self.step), int(self.high / self.step)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # a warning would disclose rows of a block
                result = float(self.function(rows))
            if result in (float("inf"), float("-inf")):
                return high if result > 0 else low
            return min(max(int(Fraction(result) / self.step), low), high)
        except KeyboardInterrupt:
            raise
        except BaseException:  # a failure must look like an answer
            return low


def _groups(codes: np.ndarray, size: int) -> list[np.ndarray]:
    """Return the indices of each code from 0 to size - 1, in order."""
    ends = np.cumsum(np.bincount(codes, minlength=size))
    return np.split(np.argsort(codes, kind="stable"), ends[:-1])


def _distinct(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows and which one each row is: an audit repeats few rows often."""
    if positions.shape[1] > 64 or not positions.size:
        return positions, np.arange(positions.shape[0])
    rows, which = np.unique(positions, axis=0, return_inverse=True)
    return rows, which.reshape(-1)


def _rows(value: Any) -> np.ndarray:
    """Convert a value to float64 rows, each number read by itself; NaN where it is none."""
    if isinstance(value, list | tuple) and any(not hasattr(row, "__len__") for row in value):
        return numbers_of(list(value))
    try:
        rows = np.asanyarray(value)
    except (TypeError, ValueError, OverflowError):
        rows = np.asarray(None)
    if rows.ndim == 0:
        raise ValueError("SampleAndAggregate: value must be an array of rows of numbers.")
    return numbers_of(rows)


def _finite(rows: np.ndarray, of_unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows whose numbers are all finite, and their units."""
    finite = np.isfinite(rows).all(axis=tuple(range(1, rows.ndim)))
    return rows[finite], of_unit[finite]


def _units(rows: np.ndarray, units: Any) -> np.ndarray:
    """Number the unit of each row from 0 up."""
    if units is None:
        return np.arange(rows.shape[0])
    named = KeyColumn(units, name="SampleAndAggregate: units")
    if named.size != rows.shape[0]:
        raise ValueError("SampleAndAggregate: units must name one unit for each row.")
    return numbered(named)
