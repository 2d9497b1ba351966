"""Points with public bounds: a box to clip them to, and readers of queries and of private rows."""

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
    """Convert query points to a float64 matrix; infinite coordinates are allowed, NaN is not.

    Parameters
    ----------
    owner : str
        Name of the class or function for error messages.
    data : array_like of shape (n, dimension)
        Rows of numbers: NumPy array, Arrow table or list array, pandas or polars frame, or list of
        lists.
    dimension : int
        Required number of columns.

    Returns
    -------
    ndarray of shape (n, dimension)
        One point per row.

    Examples
    --------

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
    """Convert private rows to points and integer weights (None: all ones); drop invalid rows.

    Each row is read on its own, so none is refused or changes another. Coordinates are clipped to
    1e150 in size.
    """
    matrix = private_points(owner, data, dimension)
    if matrix.shape[1] != dimension:
        raise ValueError(f"{owner}: rows must have {dimension} columns, not {matrix.shape[1]}.")
    weighted = integer_weights(owner, weights, len(matrix), low=-WEIGHT.high, clip=clip)
    if np.isnan(matrix.min(initial=0.0)):
        valid = ~np.isnan(matrix).any(axis=1)
        matrix, weighted = matrix[valid], None if weighted is None else weighted[valid]
    return np.clip(matrix, -LARGEST, LARGEST), weighted


class _BoundsLimit:
    """The limit of a `bounds` parameter; stored as a pair of equally long tuples of floats."""

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
    """Public bounds of every coordinate of a point.

    Parameters
    ----------
    low, high : tuple of float
        One finite number per column, low below high.

    Examples
    --------
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
        """Build the box of a pair (low, high); one number applies to all `dimension` columns."""
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
        """The pair (low, high), as parameters and files store it."""
        return self.low, self.high

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return len(self.low)

    @property
    def widths(self) -> np.ndarray:
        """Length of every side."""
        return np.asarray(np.array(self.high) - np.array(self.low))

    @property
    def centre(self) -> np.ndarray:
        """Centre of the box."""
        return np.asarray(np.array(self.low) + self.widths / 2)

    def clip(self, points: np.ndarray) -> tuple[np.ndarray, int]:
        """Clip points to the box; return them and the number of points that changed."""
        inside = np.clip(points, self.low, self.high)
        moved = inside != points
        return inside, int(moved.any(axis=1).sum()) if moved.any() else 0  # by rows is slow

    def steps(self, points: np.ndarray, bits: int) -> np.ndarray:
        """Quantize clipped points to integers from 0 (low) to 2**bits - 1 (high).

        Each coordinate takes one subtraction, one product and one rounding, none of which depends
        on the machine or on other points.
        """
        scaled = points - np.array(self.low)
        scaled *= self._rates(bits)
        np.rint(scaled, out=scaled)
        return np.asarray(np.minimum(scaled, 2.0**bits - 1))

    def values(self, steps: np.ndarray, bits: int) -> np.ndarray:
        """The coordinates of quantized points, the inverse of `steps` up to rounding."""
        return np.asarray(np.array(self.low) + steps * (self.widths / (2.0**bits - 1)))

    def _rates(self, bits: int) -> np.ndarray:
        return np.asarray((2.0**bits - 1) / self.widths)


def _numbers(side: Any) -> np.ndarray:
    # One long text among many numbers would make NumPy pad all of them to its length.
    if isinstance(side, list | tuple) and not all(np.isscalar(each) for each in side):
        raise TypeError
    if isinstance(side, list | tuple | str) and any(isinstance(each, str) for each in side):
        raise TypeError
    numbers = np.atleast_1d(plain_numbers(side))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iuf":
        raise TypeError
    return numbers.astype(np.float64)


def _refuse_pairs(owner: str, name: str, value: Any) -> None:
    """Refuse one (low, high) per column: tuples in a list, or not two of them."""
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
