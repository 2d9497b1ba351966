"""What sketches share that keep one short code for each row: they append, compare, never merge."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.kernels.codebooks import PANEL
from sfumato.kernels.lanes import aligned
from sfumato.sketch._base import Merging, Sketch, refused
from sfumato.sketch._directions import MOST_ENTRIES, directions
from sfumato.sketch._rows import rows as checked

__all__ = ["ROWS", "_CodeTable", "side_by_side"]  # the underscore keeps it from files

ROWS = 2**18  # projected numbers at a time: 2 MiB


class _CodeTable(Sketch):
    """A growing table of codes; a subclass says how a row is encoded and two codes compared."""

    dimension: int
    seed: int
    _codes: np.ndarray
    _reason: ClassVar[str]
    _room: np.ndarray | None = None  # starts with _codes and has space for more
    _panels: np.ndarray | None = None

    @property
    def merging(self) -> Merging:
        return refused(self._reason)

    @property
    def codes(self) -> np.ndarray:
        """One code for each row seen, in order; read-only."""
        view = self._codes.view()
        view.flags.writeable = False
        return view

    def __len__(self) -> int:
        return len(self._codes)

    def __bool__(self) -> bool:
        return True

    def update(self, rows: Any) -> Self:
        """Append the codes of the rows."""
        codes = self.encode(rows)
        size, grown = len(self), len(self) + len(codes)
        if self._room is None or len(self._room) < grown:
            # Doubling keeps the cost of many small updates linear.
            self._room = aligned((max(grown, 2 * size), *codes.shape[1:]), codes.dtype)
            self._room[:size] = self._codes
        self._room[size:grown] = codes
        self._codes = self._room[:grown]
        return self

    def encode(self, rows: Any) -> np.ndarray:
        """The codes of the rows, one a row, not stored."""
        before = self.dimension
        matrix = checked(type(self).__name__, rows, before or None)
        if not len(matrix):
            return self._codes[:0].copy()
        try:
            self.dimension = self._limits["dimension"].check(
                type(self).__name__, "dimension", matrix.shape[1]
            )
            self._check_parameters()
            return self._encode(matrix)
        except BaseException:
            self.dimension = before
            raise

    def _encode(self, matrix: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _directions(self, kind: str, count: int) -> np.ndarray:
        if not self.dimension:
            raise ValueError(
                f"{type(self).__name__}: dimension is not known yet; give it, or update first."
            )
        if self._panels is None or self._panels.shape[1] != self.dimension:
            self._panels = directions(kind, count, self.dimension, self.seed)
        return self._panels

    def _check_size(self, parameter: str, count: int) -> None:
        if count * self.dimension > MOST_ENTRIES:
            raise ValueError(
                f"{type(self).__name__}: {parameter} times dimension must be at most "
                f"{MOST_ENTRIES}, not {count} times {self.dimension}."
            )

    def _check_comparable(self, other: Sketch) -> None:
        name = type(self).__name__
        if type(other) is not type(self):
            raise TypeError(f"{name}: cannot compare with {type(other).__name__}.")
        for parameter, mine in self.parameters.items():
            yours = getattr(other, parameter)
            if mine != yours:
                raise ValueError(
                    f"{name}: cannot compare, {parameter} is {mine!r} here and {yours!r} there."
                )


def side_by_side(codes: np.ndarray) -> np.ndarray:
    """Panels of 16 codes, transposed, that a kernel compares to one code at a time."""
    padded = np.zeros((PANEL * -(-len(codes) // PANEL), codes.shape[1]), codes.dtype)
    padded[: len(codes)] = codes
    panels = padded.reshape(-1, PANEL, codes.shape[1]).transpose(0, 2, 1)
    return np.ascontiguousarray(panels)
