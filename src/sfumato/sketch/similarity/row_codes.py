"""Base class of sketches that store one short code per row: they append and compare."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.arrays import rows as checked
from sfumato.core.validation import integer
from sfumato.kernels.alignment import aligned
from sfumato.kernels.sketch.layout import PANEL
from sfumato.sketch.base import Merging, Sketch, refused
from sfumato.sketch.projection.directions import MOST_ENTRIES, directions, project_all

__all__ = ["DIMENSION", "ROWS", "CodeTable", "side_by_side"]

Compare = Callable[[np.ndarray, np.ndarray, np.ndarray], object]

ROWS = 2**18  # projected numbers at a time: 2 MiB
DIMENSION = integer(0, 2**20)
COLUMNS = integer(1, DIMENSION.high)


class CodeTable(Sketch, in_files=False):
    """A growing table of codes; a subclass defines how rows are encoded and codes compared."""

    dimension: int
    seed: int
    _codes: np.ndarray
    _reason: ClassVar[str]
    _measure: ClassVar[str]  # the parameter with the length of a code
    _room: np.ndarray | None = None  # begins with _codes and has space for more
    _panels: np.ndarray | None = None

    @property
    def merging(self) -> Merging:
        return refused(self._reason)

    @property
    def codes(self) -> np.ndarray:
        """One code per row, in the order of the updates; read-only."""
        view = self._codes.view()
        view.flags.writeable = False
        return view

    def __len__(self) -> int:
        return len(self._codes)

    def __bool__(self) -> bool:
        return True

    def update(self, rows: Any) -> Self:
        """Append the codes of rows.

        Parameters
        ----------
        rows : array_like of shape (n, dimension)
            Finite numbers: NumPy array, Arrow table, data frame or list of lists.

        Returns
        -------
        Self
            The sketch itself.
        """
        matrix = self._matrix(rows)
        codes = self._encode(matrix)
        size, grown = len(self), len(self) + len(codes)
        if self._room is None or len(self._room) < grown:
            # Doubling keeps the cost of many small updates linear.
            self._room = aligned((max(grown, 2 * size), *codes.shape[1:]), codes.dtype)
            self._room[:size] = self._codes
        self._room[size:grown] = codes
        self._codes = self._room[:grown]
        if len(matrix):
            self.__dict__["dimension"] = matrix.shape[1]
        return self

    def encode(self, rows: Any) -> np.ndarray:
        """Encode rows without storing them; the sketch is not changed.

        Parameters
        ----------
        rows : array_like of shape (n, dimension)
            Finite numbers: NumPy array, Arrow table, data frame or list of lists.

        Returns
        -------
        ndarray of shape (n, length)
            One code per row, in the form of `codes`.
        """
        return self._encode(self._matrix(rows))

    def _matrix(self, rows: Any) -> np.ndarray:
        matrix = checked(type(self).__name__, rows, self.dimension or None)
        if len(matrix) and not self.dimension:
            columns = COLUMNS.check(type(self).__name__, "columns of rows", matrix.shape[1])
            self._check_dimension(columns)
        return matrix

    def _encode(self, matrix: np.ndarray) -> np.ndarray:
        out = np.empty((len(matrix), *self._codes.shape[1:]), self._codes.dtype)
        if not len(matrix):
            return out
        panels, step = self._directions(matrix.shape[1]), max(1, ROWS // self._length)
        for start in range(0, len(matrix), step):
            part = slice(start, start + step)
            self._write_codes(project_all(matrix[part], panels), start, out[part])
        return out

    def _write_codes(self, values: np.ndarray, start: int, out: np.ndarray) -> None:
        """Write the codes of projected rows; `start` is the first row number, for errors."""
        raise NotImplementedError

    def _compare(self, other: Self, kernel: Compare) -> np.ndarray:
        """The kernel's count for each pair of a code here (row) and there (column)."""
        self._check_same(other, "compare")
        if len(other) < len(self):  # the longer side is padded to full panels
            return other._compare(self, kernel).T
        panels = side_by_side(other._codes)
        out = np.empty((len(self), panels.shape[0] * panels.shape[2]), np.int32)
        kernel(self._codes, panels, out)
        return out[:, : len(other)]

    @property
    def _length(self) -> int:
        return int(getattr(self, self._measure))

    @property
    def _kind(self) -> str:
        """Kind of the directions."""
        raise NotImplementedError

    def _directions(self, dimension: int) -> np.ndarray:
        if not dimension:
            raise ValueError(
                f"{type(self).__name__}: dimension is not known yet; give it, or update first."
            )
        # Another thread may replace the attribute, so it is read only once.
        panels = self._panels
        if panels is None or panels.shape[1] != dimension:
            panels = self._panels = directions(self._kind, self._length, dimension, self.seed)
        return panels

    def _to_agree(self, other: Self) -> Iterable[str]:
        # Without a dimension there are no rows yet, so any dimension is compatible.
        known = self.dimension and other.dimension
        return (name for name in self._limits if known or name != "dimension")

    def _check_parameters(self) -> None:
        self._check_dimension(self.dimension)

    def _check_dimension(self, dimension: int) -> None:
        """Raise ValueError if other parameters do not allow this dimension; 0 is not known yet."""
        if self._length * dimension > MOST_ENTRIES:
            raise ValueError(
                f"{type(self).__name__}: {self._measure} times dimension must be at most "
                f"{MOST_ENTRIES}, not {self._length} times {dimension}."
            )

    def _check_state(self) -> None:
        super()._check_state()
        if len(self) and not self.dimension:
            raise ValueError("there are codes of rows, but their dimension is 0.")


def side_by_side(codes: np.ndarray) -> np.ndarray:
    """Transposed panels of 16 codes, which a kernel compares with one code at a time."""
    padded = np.zeros((PANEL * -(-len(codes) // PANEL), codes.shape[1]), codes.dtype)
    padded[: len(codes)] = codes
    panels = padded.reshape(-1, PANEL, codes.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(panels)
