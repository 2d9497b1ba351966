"""Points of a space with public bounds, clipped to a box: queries read whole, data row by row."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sfumato.core.arrays import LARGEST, WEIGHT, integer_weights, matrix_of, private_points
from sfumato.core.ids import plain_numbers
from sfumato.errors import ParameterError

__all__ = ["BOUNDS", "Box", "Pair", "points", "weighed_points"]

Pair = tuple[tuple[float, ...], tuple[float, ...]]
WANTED = "a pair (low, high), each a finite number or one for each column, every low below its high"
SHOWN = 8  # columns whose bounds an error repeats


def points(owner: str, data: Any, dimension: int) -> np.ndarray:
    """A float64 matrix, a point in each row; infinite coordinates are let through, NaN are not.

    Parameters: owner, whom errors name; data, rows of numbers as NumPy array, Arrow table or list
    array, pandas or polars frame, or list of lists; dimension, how many columns there must be.

    >>> points("example", [[1, 2], [3, float("inf")]], 2)
    array([[ 1.,  2.],
           [ 3., inf]])
    """
    matrix = matrix_of(owner, data, dimension)
    if np.isnan(matrix.min(initial=0.0)):
        column = int(np.isnan(matrix).any(axis=0).argmax())
        raise ValueError(
            f"{owner}: points must be numbers; column {column} holds NaN. Fill or drop such rows "
            "first."
        )
    return matrix


def weighed_points(
    owner: str, data: Any, dimension: int, weights: Any, clip: int | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Points and whole weights to add, None for all ones, without the rows that are no points.

    Each row is read by itself, so that none is refused or changes another; numbers end at 1e150.
    """
    matrix = private_points(owner, data, dimension)
    if matrix.shape[1] != dimension:
        raise ValueError(f"{owner}: rows must have {dimension} columns, not {matrix.shape[1]}.")
    weighted = integer_weights(owner, weights, len(matrix), low=-WEIGHT.high, clip=clip)
    if np.isnan(matrix.min(initial=0.0)):
        kept = ~np.isnan(matrix).any(axis=1)
        matrix, weighted = matrix[kept], None if weighted is None else weighted[kept]
    return np.clip(matrix, -LARGEST, LARGEST), weighted


class _BoundsLimit:
    """The limit of a `bounds` parameter; kept as a pair of equally long tuples of floats."""

    def check(self, owner: str, name: str, value: Any) -> Pair:
        _refuse_pairs(owner, name, value)
        try:
            low, high = (_numbers(side) for side in value)
            low, high = np.broadcast_arrays(low, high)
        except (TypeError, ValueError, OverflowError):
            raise _refuse(owner, name, value) from None
        if not low.size or not (
            (low >= -LARGEST).all()
            and (high <= LARGEST).all()
            and (high - low >= 1 / LARGEST).all()
        ):
            raise _refuse(owner, name, value)
        return tuple(map(float, low)), tuple(map(float, high))

    def bad(self) -> list[Any]:
        inf, nan = float("inf"), float("nan")
        pairs = [[(0, 1), (2, 3)], ((0, 1),) * 3]
        sides = [(0, 0), (1, 0), (0, inf), (nan, 1), ((0, 1), 1), ((0, 0), (1,) * 3), ()]
        return [None, 1, *sides, *pairs]


BOUNDS = _BoundsLimit()


@dataclass(frozen=True)
class Box:
    """Where points may be: the public bounds of every coordinate.

    Parameters: low and high, a finite number for each column, low below high.

    >>> box = Box.of("example", (0, [1, 10]), 2)
    >>> box
    Box(low=(0.0, 0.0), high=(1.0, 10.0))
    >>> box.clip(np.array([[0.5, 3.0], [2.0, -np.inf]]))
    (array([[0.5, 3. ],
           [1. , 0. ]]), 1)
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, owner: str, bounds: Any, dimension: int | None = None) -> Self:
        """The box of a pair (low, high); a single number counts for all `dimension` columns."""
        low, high = BOUNDS.check(owner, "bounds", bounds)
        if dimension is not None and len(low) == 1:
            low, high = low * dimension, high * dimension
        if dimension is not None and len(low) != dimension:
            raise ValueError(
                f"{owner}: bounds must be for {dimension} columns (its dimension), not {len(low)}."
            )
        return cls(low, high)

    @property
    def bounds(self) -> Pair:
        """As parameters and files keep it."""
        return self.low, self.high

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return len(self.low)

    @property
    def widths(self) -> np.ndarray:
        """The length of every side."""
        return np.asarray(np.array(self.high) - np.array(self.low))

    @property
    def centre(self) -> np.ndarray:
        """The point in the middle."""
        return np.asarray(np.array(self.low) + self.widths / 2)

    def clip(self, points: np.ndarray) -> tuple[np.ndarray, int]:
        """The points, each moved to the nearest of the box, and how many had to be moved."""
        inside = np.clip(points, self.low, self.high)
        return inside, int((inside != points).any(axis=1).sum())

    def steps(self, points: np.ndarray, bits: int) -> np.ndarray:
        """Coordinates of clipped points as integers from 0 (low) to 2**bits - 1 (high).

        Each comes from one subtraction, one product and one rounding, none of which depends on the
        machine or on the other points.
        """
        scaled = points - np.array(self.low)
        scaled *= self._rates(bits)
        np.rint(scaled, out=scaled)
        return np.asarray(np.minimum(scaled, 2.0**bits - 1))

    def values(self, steps: np.ndarray, bits: int) -> np.ndarray:
        """The coordinates that stand at these steps."""
        return np.asarray(np.array(self.low) + steps * (self.widths / (2.0**bits - 1)))

    def _rates(self, bits: int) -> np.ndarray:
        return np.asarray((2.0**bits - 1) / self.widths)


def _numbers(side: Any) -> np.ndarray:
    # One long text among many numbers would make NumPy give all of them its length.
    if isinstance(side, list | tuple) and not all(np.isscalar(each) for each in side):
        raise TypeError
    if isinstance(side, list | tuple | str) and any(isinstance(each, str) for each in side):
        raise TypeError
    numbers = np.atleast_1d(plain_numbers(side))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        raise TypeError
    return numbers.astype(np.float64)


def _refuse_pairs(owner: str, name: str, value: Any) -> None:
    """Refuse a (low, high) for each column: tuples in a list, or other than two of them."""
    sides = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(sides, list | tuple) or not sides or not all(map(_is_pair, sides)):
        return
    # Two lists in a list are a low and a high, as files have them.
    if len(sides) != 2 or (isinstance(sides, list) and all(isinstance(s, tuple) for s in sides)):
        lows, highs = ([side[end] for side in sides] for end in (0, 1))
        shown = f"({lows}, {highs})" if len(sides) <= SHOWN else "([low, ...], [high, ...])"
        problem = f"must be {WANTED}, and looks like a pair for each column. Give the lows first: "
        raise ParameterError.of(owner, name, f"{problem}{shown}.")


def _is_pair(side: Any) -> bool:
    if isinstance(side, np.ndarray):
        return bool(side.shape == (2,))
    return isinstance(side, list | tuple) and len(side) == 2 and all(map(np.isscalar, side))


def _refuse(owner: str, name: str, value: Any) -> ParameterError:
    return ParameterError.of(owner, name, f"must be {WANTED}, not {value!r:.80}.")
