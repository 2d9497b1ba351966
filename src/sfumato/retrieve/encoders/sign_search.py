"""Encoders that differ in how the bits of a code are chosen."""

from typing import Any, ClassVar

import numpy as np

from sfumato.core.validation import Limit, integer, one_of
from sfumato.kernels.alignment import aligned
from sfumato.kernels.retrieve import anti_sparse as antisparse
from sfumato.kernels.retrieve import sign_codes as sides
from sfumato.kernels.retrieve import sign_search as exhaustive
from sfumato.kernels.retrieve import sign_search as flips
from sfumato.retrieve.encoders.base import CodeEncoder, Codes, pack
from sfumato.retrieve.encoders.linear import Product, batches, check_finite, matrix

__all__ = [
    "AntiSparseEncoder",
    "OptimalEncoder",
    "SignEncoder",
    "SignFlipEncoder",
    "TightFrameEncoder",
]

FLOAT32 = np.dtype(np.float32)
FEW = 16  # rows that one kernel encodes in a call; the kernels of more are compiled sooner
MOST_STEPS = 50  # per bit of an anti-sparse representation; one per dimension is usual


class SignEncoder(CodeEncoder):
    """Signs along directions that need not be a frame."""

    kind = "project_and_sign"
    LIMITS: ClassVar[dict[str, Limit]] = {
        **CodeEncoder.LIMITS,
        "directions": one_of(("random", "orthogonal", "super-bit")),
    }
    directions: str

    @property
    def _frame(self) -> str:
        return "gaussian" if self.directions == "random" else self.directions

    def _check_dimension(self, dimension: int) -> None:
        super()._check_dimension(dimension)
        if self.directions == "orthogonal" and self.bits > dimension:
            raise ValueError(
                f"{self.kind}: only {dimension} directions can be orthogonal, not {self.bits}; use "
                f"directions='super-bit'."
            )


class TightFrameEncoder(CodeEncoder):
    """Signs along a tight frame."""

    kind = "tight_frame"


class AntiSparseEncoder(CodeEncoder):
    """Signs of the anti-sparse representation: thesis, equation (5.8)."""

    kind = "anti_sparse"
    LIMITS: ClassVar[dict[str, Limit]] = {**CodeEncoder.LIMITS, "bits": integer(1, 2**10)}

    def _check_dimension(self, dimension: int) -> None:
        super()._check_dimension(dimension)
        if self.bits < dimension:
            raise ValueError(
                f"{self.kind}: bits must be at least the dimension {dimension}, not {self.bits}, "
                f"for a vector to have a representation; use tight_frame."
            )

    def _prepare(self) -> None:
        self._columns = np.ascontiguousarray(self.atoms_.T, np.float64)

    def _choose(self, unit: np.ndarray, projections: np.ndarray, starts: np.ndarray) -> np.ndarray:
        steps = np.empty(len(unit), np.int64)
        antisparse.spread(self._columns, unit, MOST_STEPS * self.bits, steps, starts)
        return starts


class OptimalEncoder(CodeEncoder):
    """The best of all codes: thesis, equation (5.6)."""

    kind = "optimal"
    LIMITS: ClassVar[dict[str, Limit]] = {**CodeEncoder.LIMITS, "bits": integer(1, 20)}

    def _prepare(self) -> None:
        if self.bits <= self.dimension_:
            return  # directions are orthonormal, and signs the best code
        halves = np.arange(2 ** (self.bits - 1), dtype=np.uint64)[:, None]
        centroids = np.zeros((len(halves), self.dimension_), np.float32)
        for part, sums, lengths in self._basis.sums(halves):
            far = lengths > 0
            centroids[part][far] = sums[far] / lengths[far, None]
        self._centroids = Product.of(centroids)

    def _choose(self, unit: np.ndarray, projections: np.ndarray, starts: np.ndarray) -> np.ndarray:
        if self.bits > self.dimension_:
            positions = np.empty(len(unit), np.int64)
            exhaustive.nearest(self._centroids.panels, unit, positions)
            sides.unpack(positions.view(np.uint64)[:, None], self.bits, starts)
        return starts


class SignFlipEncoder(CodeEncoder):
    """Signs along a tight frame, improved by the flips of thesis, equation (5.12)."""

    kind = "qolsh"
    LIMITS: ClassVar[dict[str, Limit]] = {
        **CodeEncoder.LIMITS,
        "bits": integer(1, 2**12),  # the table of inner products takes 4 bits**2 bytes, twice
        "flips": integer(0, 2**16),
        "together": integer(1, 2),
    }
    flips: int
    together: int

    def _prepare(self) -> None:
        atoms = np.pad(self.atoms_.astype(np.float64), ((0, -self.bits % 32), (0, 0)))
        self._gram = aligned((len(atoms), len(atoms)), np.float32)
        self._gram[...] = atoms @ atoms.T
        self._squares = np.ascontiguousarray(self._gram.diagonal())
        self._products = Product.of(self._gram)

    def _choose(self, unit: np.ndarray, projections: np.ndarray, starts: np.ndarray) -> np.ndarray:
        products = self._products(starts)
        flips.improve_pairs(projections, products, self._gram, self.flips, starts)
        return starts

    def encode(self, X: Any) -> Codes:
        if self.together == 2:
            return super().encode(X)
        rows = matrix(self.kind, X, self._fitted())
        return self._few(rows) if len(rows) < FEW else self._many(rows)

    def _many(self, rows: np.ndarray) -> Codes:
        """Codes of rows, a step of many at a time; bit for bit those of `_few`."""
        codes, short = self._empty(len(rows))
        scratch = np.empty((2, len(self._gram)), np.float32)
        for batch in batches(self.kind, rows, self.centre_, self._basis.height):
            sides, along = self._basis.start(batch.unit)
            if codes.short is not None:
                pack(sides, batch, self.bits, short)
            sums = np.empty(batch.size)
            flips.improve(
                along, self._products(sides), self._gram, self._squares, self.flips, scratch, sums,
                sides,
            )  # fmt: skip
            pack(sides, batch, self.bits, codes.words)
            if self.factor is not None:
                codes.factors[batch.part, 0] = self._nearest_factors(sides, along, sums, batch)
        return codes

    def _empty(self, count: int) -> tuple[Codes, np.ndarray]:
        """Codes to be filled, and their plain signs, of no rows where they are not stored."""
        words = np.empty((count, self._words), np.uint64)
        short = np.empty_like(words) if self.short else words[:0]
        factors = np.empty((count, int(self.factor is not None)), np.float32)
        return Codes(words, factors, short if self.short else None), short

    def _few(self, rows: np.ndarray) -> Codes:
        """Codes of rows in one call of a kernel, which many rows need not wait for."""
        if rows.dtype is not FLOAT32 or not rows.flags.c_contiguous:
            with np.errstate(over="ignore"):  # what float32 cannot represent is found below
                rows = np.ascontiguousarray(rows, np.float32)
        (codes, short), lengths = self._empty(len(rows)), np.empty(len(rows))
        flips.encode(
            rows, self.centre_, self._basis.weigh.panels, self._gram, self._squares, self._slope,
            self._along, self.bits, self.flips, lengths, codes.words, short,
            codes.factors.reshape(-1),
        )  # fmt: skip
        check_finite(self.kind, rows, lengths)
        return codes
