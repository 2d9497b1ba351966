"""Fixed-point encoding of bounded reals: clip, round toward zero, exact sensitivities."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sfumato.core.integer_columns import plain
from sfumato.core.row_values import number_of, numbers_of
from sfumato.core.validation import checked, integer, number, one_of, power_of_two
from sfumato.privacy.accounting.losses import RELATIONS

__all__ = ["FixedPoint"]

MAX_STEPS = 2**31  # steps to a bound, and rows, so that sums of them fit 64 bits


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Fixed-point encoding of real numbers from low to high, with exact sensitivities of sums.

    Use it to sum real numbers with a mechanism on integers. Infinite numbers are clipped; NaN and
    entries that are no number count as 0, as if they were absent. Each number is read by itself,
    whatever the type of the others.

    Parameters
    ----------
    low : object
        Public lower bound, within 2**53.
    high : object
        Public upper bound, within 2**53 and above `low`.
    step : object
        Distance of two encoded numbers, a power of two; each bound is less than 2**31 steps from 0.
    coordinates : int, default=1
        Largest number of coordinates of one unit, at least 1.

    Notes
    -----
    **Guarantee.** `encode` is monotone and exact, clip(x) / step rounded toward zero, so a number
    of one unit is at most `change("add/remove")` from 0, which stands for its absence, and at most
    `change("replace")` from any other; sums of encoded rows then have the sensitivities `l1` and
    `l2_squared`. Floats are only scaled by a power of two, cut toward zero and clipped to integers
    below 2**31, none of which rounds; up to 2**31 rows are accepted, so no sum can wrap.

    Examples
    --------
    >>> grid = FixedPoint(low=-1, high=1, step=2**-10, coordinates=2)
    >>> people = grid.encode([[0.5, -0.25], [9.0, 0.0], [-0.1, 0.3]])
    >>> from sfumato.privacy.mechanisms.additive import Laplace
    >>> noisy = Laplace(grid.l1("add/remove"), epsilon=1, cells=2).run(people.sum(axis=0))
    >>> grid.decode(people.sum(axis=0))
    array([1.40039062, 0.04980469])
    """

    low: Any
    high: Any
    step: Any
    coordinates: int = field(default=1)
    LIMITS: ClassVar[dict[str, Any]] = {
        "low": number,
        "high": number,
        "step": power_of_two,
        "coordinates": integer(1, 2**53),
    }

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)
        if self.low >= self.high:
            raise ValueError(f"FixedPoint: low must be below high ({self.high}), not {self.low}.")
        if self._lowest == self._highest:
            raise ValueError(
                f"FixedPoint: step must be smaller than {self.step}: all numbers would be one."
            )
        if max(abs(self._lowest), abs(self._highest)) >= MAX_STEPS:
            raise ValueError(
                f"FixedPoint: step must be larger than {self.step}: a bound is 2**31 steps away, "
                "or more."
            )

    @property
    def _lowest(self) -> int:
        return int(self.low / self.step)  # int cuts toward zero

    @property
    def _highest(self) -> int:
        return int(self.high / self.step)

    def encode(self, numbers: Any) -> np.ndarray:
        """Clip numbers, round them toward zero, and return them in steps.

        Parameters
        ----------
        numbers : object
            A number or a regular array of numbers, at most 2**31 rows.

        Returns
        -------
        ndarray
            Multiples of the step, int64, in the same shape.
        """
        if _length(numbers) > MAX_STEPS:  # before they are copied
            raise ValueError("FixedPoint: numbers must be at most 2**31 rows, or sums might wrap.")
        reals = _reals(numbers)
        # Integers past 2**53 may round to floats, but stay past it, where no bound is.
        with np.errstate(over="ignore", under="ignore"):  # to infinity, clipped; to below 1, cut
            steps = np.ldexp(np.where(np.isnan(reals), 0.0, reals), -self._exponent)
        # Rounding toward zero is monotone, so to clip after it is to clip before it.
        integers = np.clip(np.trunc(steps), self._lowest, self._highest)
        return np.asarray(integers, np.int64)

    def decode(self, steps: Any) -> Any:
        """Convert steps, noisy or not, back to real numbers.

        Parameters
        ----------
        steps : object
            An integer or an array of integers.

        Returns
        -------
        object
            A float, or a float64 ndarray of the same shape.
        """
        steps = np.asarray(plain("FixedPoint", "steps", steps))
        if steps.dtype.kind not in "iu":
            raise ValueError(f"FixedPoint: steps must be integers, not {steps.dtype}.")
        return np.ldexp(steps.astype(np.float64), self._exponent)[()]

    def change(self, relation: str) -> int:
        """Return the largest change of one encoded sum by one unit.

        Parameters
        ----------
        relation : str
            Adjacency: "add/remove" or "replace".

        Returns
        -------
        int
            Change of one coordinate, in steps.
        """
        if one_of(RELATIONS).check("FixedPoint", "relation", relation) == "replace":
            return self._highest - self._lowest
        return max(abs(self._lowest), abs(self._highest))

    def l1(self, relation: str) -> int:
        """Return the L1 sensitivity of a sum of encoded rows.

        Parameters
        ----------
        relation : str
            Adjacency: "add/remove" or "replace".

        Returns
        -------
        int
            ``coordinates * change``, in steps.
        """
        return self.coordinates * self.change(relation)

    def l2_squared(self, relation: str) -> int:
        """Return the square of the L2 sensitivity of a sum of encoded rows.

        Parameters
        ----------
        relation : str
            Adjacency: "add/remove" or "replace".

        Returns
        -------
        int
            ``coordinates * change**2``, in squared steps.
        """
        return int(self.coordinates * self.change(relation) ** 2)

    @property
    def _exponent(self) -> int:
        return int(self.step.numerator.bit_length() - self.step.denominator.bit_length())


def _length(numbers: Any) -> int:
    """Number of rows; 1 of a single number."""
    try:
        return len(numbers)
    except TypeError:
        return 1


def _reals(numbers: Any) -> np.ndarray:
    """Read each number by itself, in the given shape; NaN where it is none."""
    if isinstance(numbers, np.ndarray):
        return numbers_of(numbers)
    try:
        array = np.asanyarray(numbers)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("FixedPoint: numbers must be in one regular array.") from None
    if array.ndim == 0:
        return np.asarray(number_of(numbers))
    if array.ndim == 1:
        return numbers_of(numbers)
    return np.stack([_reals(row) for row in numbers])
