"""Linear algebra of codes: frames of directions, signs along them, sums of atoms, and batches."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.core.arrays import rows as any_rows
from sfumato.kernels import top_k as top
from sfumato.kernels.alignment import aligned
from sfumato.kernels.retrieve import sign_codes as sides
from sfumato.sketch.projection.directions import MOST_ENTRIES, dense, directions

__all__ = [
    "MOST_ENTRIES",
    "Basis",
    "Batch",
    "Product",
    "batches",
    "check_finite",
    "frame",
    "matrix",
    "packed",
    "padded",
]


def frame(kind: str, bits: int, dimension: int, seed: int) -> np.ndarray:
    """Directions of a code, one per row, float32.

    kind is "gaussian", "orthogonal", "super-bit" or "tight".

    **Guarantee.** The numbers are equal on every machine. Those of "tight" satisfy W W^T = I for W
    with the directions as columns (thesis, equation (5.9), tight frame); where bits < dimension
    no frame can, and orthonormal directions are used, as section 5.1.1 advises.

    >>> w = frame("tight", 6, 2, seed=0)
    >>> np.round(w.T @ w, 6) + 0.0
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if kind == "tight" and bits < dimension:
        kind = "orthogonal"
    return dense(directions(kind, bits, dimension, seed), bits).astype(np.float32)


def padded(count: int, multiple: int) -> int:
    """The smallest multiple that is at least the count."""
    return -(-count // multiple) * multiple


@dataclass(frozen=True)
class Product:
    """Inner products of vectors with the rows of a matrix, laid out once for the kernel.

    **Guarantee.** Each is summed in a fixed order, so it does not depend on other vectors. Columns
    past the matrix' rows, up to a multiple of 32, are 0.

    >>> Product.of(np.eye(2, dtype=np.float32))(np.ones((4, 2), np.float32))[0, :3]
    array([1., 1., 0.], dtype=float32)
    """

    panels: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Self:
        """The product with these float32 rows."""
        count, length = rows.shape
        filled = np.zeros((padded(count, top.WIDE), length), np.float32)
        filled[:count] = rows
        panels = aligned((len(filled) // top.WIDE, length, top.WIDE), np.float32)
        panels[...] = filled.reshape(-1, top.WIDE, length).transpose(0, 2, 1)
        return cls(panels)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied array would not start on a cache line, as the kernels need it.
        rows = self.panels.transpose(0, 2, 1).reshape(-1, self.panels.shape[1])
        return type(self).of, (np.ascontiguousarray(rows),)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """All products of each vector."""
        out = aligned((len(vectors), len(self.panels) * top.WIDE), np.float32)
        top.every(self.panels, vectors, out)
        return out


ROOM = 2**18  # numbers of a batch and its products: they stay in the second cache


class Basis:
    """Directions, whose signs a code starts from, and atoms, which reconstruct vectors.

    Codes are float32 +1 and -1, with columns of 0 up to a multiple of 32; batches have rows up to a
    multiple of 4. No result depends on other rows of a batch. directions and atoms are float32
    (bits, dimension), or one array as both.

    >>> basis = Basis(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
    >>> starts, along = basis.start(np.full((4, 2), 0.5, np.float32))
    >>> starts[0, :3]
    array([1., 1., 0.], dtype=float32)
    """

    def __init__(self, directions: np.ndarray, atoms: np.ndarray) -> None:
        self.directions, self.atoms = directions, atoms
        self.bits, self.dimension = atoms.shape
        self._along = Product.of(directions)
        self.weigh = self._along if atoms is directions else Product.of(atoms)

    @property
    def height(self) -> int:
        """Number of rows of a batch."""
        row = 3 * padded(self.bits, top.WIDE) + self.dimension
        return padded(max(1, ROOM // row), top.ABREAST)

    def start(self, unit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Signs of unit vectors along the directions, and their products with the atoms."""
        along = self._along(unit)
        starts = aligned(along.shape, np.float32)
        signs(along, self.bits, starts)
        return starts, along if self.weigh is self._along else self.weigh(unit)

    def sign_words(self, unit: np.ndarray) -> np.ndarray:
        """Packed signs of unit vectors along the directions."""
        return packed(self._along(unit), self.bits)

    def sums(self, words: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield for each batch of packed codes its slice, the sums W b, and their lengths.

        A length is 0 where W b is 0 up to rounding. ValueError for words of other codes.
        """
        wide = -(-self.bits // 64)
        if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != wide:
            raise ValueError(
                f"Codes: words must be uint64 of shape (n, {wide}), as encode makes them, not "
                f"{words.dtype} of shape {words.shape}."
            )
        for start in range(0, len(words), self.height):
            part = np.ascontiguousarray(words[start : start + self.height])
            codes = np.zeros((padded(len(part), top.ABREAST), padded(self.bits, top.WIDE)), "f4")
            sides.unpack(part, self.bits, codes)
            sums = self.sum(codes)[: len(part)]
            squares = np.empty(len(part))
            sides.products(sums, sums, squares)
            squares[squares < self._nothing] = 0
            yield slice(start, start + len(part)), sums[:, : self.dimension], np.sqrt(squares)

    @cached_property
    def sum(self) -> Product:
        """Sums W b of codes, with columns of 0 up to a multiple of 32."""
        return Product.of(np.pad(self.atoms.T, ((0, 0), (0, -self.bits % top.WIDE))))

    @cached_property
    def _nothing(self) -> float:
        return float(np.square(self.atoms, dtype=np.float64).sum()) * 1e-11


def signs(values: np.ndarray, bits: int, out: np.ndarray) -> None:
    """Write 1 where a value is above 0, else -1, and 0 past the bits of a code.

    By NumPy, which a first call need not wait for; `sign_search.encode` does it by its kernel.
    """
    np.greater(values, 0, out=out, casting="unsafe")
    out *= 2
    out -= 1
    out[:, bits:] = 0


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Bit j of a row, lowest first, says that its value j is above 0.

    >>> packed(np.array([[0.5, -0.5, 2.0]]), 3)
    array([[5]], dtype=uint64)
    """
    out = np.zeros((len(values), 8 * -(-bits // 64)), np.uint8)
    out[:, : -(-bits // 8)] = np.packbits(values[:, :bits] > 0, axis=1, bitorder="little")
    return out.view(np.uint64)


class Batch(NamedTuple):
    """Rows `part` of a matrix as unit vectors (or zeros) and lengths, padded with zero rows."""

    part: slice
    unit: np.ndarray
    lengths: np.ndarray

    @property
    def size(self) -> int:
        """Number of rows without padding."""
        return int(self.part.stop - self.part.start)


def matrix(owner: str, values: Any, dimension: int | None = None) -> np.ndarray:
    """Validate a matrix of numbers of this dimension, one vector per row; arrays are not copied.

    >>> matrix("example", [[1, 2], [3, 4]], 2).shape
    (2, 2)
    """
    plain = type(values) is np.ndarray or (
        isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray)
    )
    if not plain or values.dtype.kind != "f" or values.ndim != 2:
        values = any_rows(owner, values, dimension)
    if dimension is not None and values.shape[1] != dimension:
        raise ValueError(
            f"{owner}: rows must have {dimension} columns, as those it was fitted to, not "
            f"{values.shape[1]}."
        )
    return np.asarray(values)


def batches(
    owner: str, values: np.ndarray, centre: np.ndarray, height: int = 1024
) -> Iterator[Batch]:
    """Yield the rows of a matrix in order, `height` at a time."""
    for start in range(0, len(values), height):
        with np.errstate(over="ignore"):  # what float32 cannot represent is found below
            rows = np.ascontiguousarray(values[start : start + height], np.float32)
        unit = np.zeros((padded(len(rows), top.ABREAST), len(centre)), np.float32)
        lengths = np.zeros(len(unit))
        sides.normalise(rows, centre, lengths, unit)
        check_finite(owner, rows, lengths, start)
        yield Batch(slice(start, start + len(rows)), unit, lengths)


def check_finite(owner: str, rows: np.ndarray, lengths: np.ndarray, first: int = 0) -> None:
    """Raise ValueError for a number that is not finite, as lengths show; errors count from first.

    >>> check_finite("example", np.ones((1, 2)), np.ones(1))
    """
    if not math.isfinite(lengths[0] if lengths.size == 1 else lengths.sum()):
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(
            f"{owner}: numbers must be finite in float32; row {first + row}, column {column} "
            f"is not. Drop or fill such rows first."
        )
