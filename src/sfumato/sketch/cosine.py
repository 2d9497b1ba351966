"""Cosine sketch: the angle between vectors from short codes of bits, each the side of a plane."""

import math
from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato._require import fraction, one_of, positive, whole
from sfumato.kernels import bits as kernels
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._code_table import DIMENSION, CodeTable
from sfumato.sketch._directions import dense
from sfumato.sketch._release import Options
from sfumato.sketch._rows import LARGEST, private_points
from sfumato.sketch.released_cosine import ReleasedCosineSketch, plan, rows_terms

__all__ = ["CosineSketch"]

KINDS = ("random", "sign", "orthogonal", "frame", "super-bit")
UNPROVED = "CosineSketch: no bound is proved for {!r} directions; use 'random' or 'super-bit'."


class CosineSketch(CodeTable):
    """One code of bits for each row; the bits in which two codes differ estimate the angle.

    Guarantee: |angle - true| <= error_bound(c) with probability c for each pair of rows. The
    estimate is unbiased but for "sign". A row of zeros has the code 0, at 90 degrees to any other
    on average. Rows are encoded alike however they are split into updates.
    Parameters: bits of a code, up to 2**16; dimension, numbers in a row, up to 2**20 (the product
    of both at most 2**26), 0 to take it from the first rows; directions, normals of the planes:
    - "random", independent Gaussian;
    - "sign", entries +1 or -1: angles of sparse rows are biased, no bound;
    - "orthogonal", at most `dimension` bits: less variance;
    - "super-bit", orthogonal in batches of `dimension`: less variance, any number of bits;
    - "frame", at least `dimension` bits: a tight frame of unit vectors, no bound proved;
    seed, of the directions, which are made when first needed (n orthogonal ones of n numbers in
    time n**3: half a second for 1,024) and never stored. Merge is refused.

    >>> sketch = CosineSketch(bits=1024).update([[1, 0, 0], [1, 1, 0]])
    >>> bool(abs(sketch.angle(sketch)[0, 1] - np.pi / 4) < sketch.error_bound(0.99))
    True

    Charikar 2002; thesis (2.16) to (2.19) and (5.9); super-bits: Ji, Li, Yan, Zhang and Tian 2012.
    """

    bits: Annotated[int, whole(1, 2**16)]
    dimension: Annotated[int, DIMENSION]
    directions: Annotated[str, one_of(KINDS)]
    seed: Annotated[int, SEED]
    _measure = "bits"
    _no_release = (
        "its codes are exact signs, and flipping them costs epsilon once for every bit, since one "
        "number of a row may turn them all; use release_rows(rows, ...), which adds noise before "
        "the signs are taken."
    )
    _reason = "the signs of a sum are no function of the signs of its parts; update with the rows."

    def __init__(
        self, bits: int = 256, *, dimension: int = 0, directions: str = "random", seed: int = 0
    ) -> None:
        self._set_parameters(bits=bits, dimension=dimension, directions=directions, seed=seed)
        self._allocate()

    @classmethod
    def from_error(
        cls,
        error: float,
        confidence: float = 0.99,
        *,
        dimension: int = 0,
        directions: str = "random",
        seed: int = 0,
    ) -> Self:
        """The shortest code whose error bound is `error`, in radians."""
        share = positive.check("CosineSketch", "error", error) / math.pi
        miss = 1 - fraction.check("CosineSketch", "confidence", confidence)
        hoeffding, chebyshev = math.log(2 / miss) / 2 / share**2, 1 / (4 * miss * share**2)
        needed = {
            "random": hoeffding,
            "orthogonal": chebyshev,
            "super-bit": min(chebyshev, (dimension or math.inf) * hoeffding),
        }.get(directions)
        if needed is None:
            raise ValueError(UNPROVED.format(directions))
        bits = max(1, math.ceil(needed - 1e-9))
        return cls(bits, dimension=dimension, directions=directions, seed=seed)

    @property
    def normals(self) -> np.ndarray:
        """The directions, one a row."""
        return dense(self._directions(self.dimension), self.bits)

    def hamming(self, other: Self) -> np.ndarray:
        """How many bits differ, for each row here (down) and there (across)."""
        return self._compare(other, kernels.hamming)

    def angle(self, other: Self) -> np.ndarray:
        """The angle in radians, from 0 to pi, between each row here and there."""
        return self.hamming(other) * (math.pi / self.bits)

    def cosine(self, other: Self) -> np.ndarray:
        """The cosine of the angle; biased towards 0, since the mean of a cosine is."""
        return np.asarray(np.cos(self.angle(other)))

    def similarity(self, other: Self) -> np.ndarray:
        """The share of equal bits: 1 for the same direction, 0 for the opposite."""
        return 1 - self.hamming(other) / self.bits

    def error_bound(self, confidence: float = 0.99, angle: float | None = None) -> float:
        """What the angle of one pair may be off by, in radians, with this probability.

        Parameters: confidence; angle, the true one, gives the narrower bound at that angle: exact
        for random directions. Without it: Hoeffding's inequality for independent bits or batches,
        Chebyshev's for orthogonal ones, whose variance is at most that of independent bits.
        """
        miss = 1 - fraction.check("CosineSketch", "confidence", confidence)
        share = 0.5 if angle is None else _share(angle)
        if self.directions == "random":
            if angle is not None:
                return math.pi * _binomial(self.bits, share, miss)
            return math.pi * math.sqrt(math.log(2 / miss) / (2 * self.bits))
        if self.directions in ("orthogonal", "super-bit"):
            batch = min(self.bits, self.dimension or self.bits)
            batches = math.sqrt(batch * math.log(2 / miss) / (2 * self.bits))
            return math.pi * min(math.sqrt(share * (1 - share) / (self.bits * miss)), batches)
        raise ValueError(UNPROVED.format(self.directions))

    def release_rows(
        self,
        rows: Any,
        epsilon: float,
        delta: float,
        *,
        bound: float,
        step: float | None = None,
        **options: Unpack[Options],
    ) -> ReleasedCosineSketch:
        """Private codes of rows, one a user: signs of projections that got noise before.

        The sketch lends its parameters and is not changed; its directions are "random" and its
        dimension is given when it is built. Guarantee: (epsilon, delta)-private for one unit, with
        a public seed. Numbers are cut to -bound..bound and rounded toward 0 to a multiple of the
        step; directions are rounded to 2**-12; so projections are whole numbers, which get discrete
        Gaussian noise for their exact L2 sensitivity, see `released_cosine.sensitivity` (Canonne,
        Kamath and Steinke 2020, theorem 14); the signs are computed from those alone. The unit is
        "item of a profile" (unless the ledger says otherwise), one number of a row that is 0 or
        not, or "user", a row that is zero or not; exchanging moves twice as far. How many rows
        there are, and their order, is public. Each is read by itself and none is refused: what is
        no number counts as 0, and so do all numbers of a row that is no row of so many.
        Parameters: rows, a matrix; epsilon above 0; delta between 0 and 1; bound, of a number's
        size, public; step, at most bound, 1/256 of it by default; options: ledger and dataset,
        unit, relation, release_id (docs/privacy.md).

        >>> sketch = CosineSketch(64, dimension=3)
        >>> told = sketch.release_rows([[1, 0, 0], [1, 1, 0]], 2, 1e-6, bound=1)
        >>> told.codes.shape, told.statement.unit
        ((2, 1), 'item of a profile')

        Thesis 3.2 (noise on projections): Kenthapadi, Korolova, Mironov and Mishra 2013.
        """
        terms = rows_terms("CosineSketch", epsilon, delta, options)
        normals = self._released_normals()
        matrix = private_points("CosineSketch", rows, self.dimension)
        if matrix.shape[1] != self.dimension:
            raise ValueError(
                f"CosineSketch: rows must have {self.dimension} columns (its dimension), not "
                f"{matrix.shape[1]}."
            )
        matrix = np.clip(np.where(np.isnan(matrix), 0, matrix), -LARGEST, LARGEST)
        shape = dict(bits=self.bits, dimension=self.dimension, seed=self.seed)
        return plan(matrix, normals, shape, bound, step, terms).publish(terms)

    def _released_normals(self) -> np.ndarray:
        """The directions; ValueError where there is no proof for them, or they are not known."""
        if self.directions != "random":
            raise ValueError(
                f"CosineSketch: directions must be 'random' to be released, not "
                f"{self.directions!r}: what noise does to the angle is known for Gaussian ones."
            )
        return self.normals

    def _write_codes(self, values: np.ndarray, start: int, out: np.ndarray) -> None:
        kernels.pack_signs(values, out)

    @property
    def _kind(self) -> str:
        return "gaussian" if self.directions == "random" else self.directions

    def _words(self) -> int:
        return -(-self.bits // 64)

    def _layout(self) -> dict[str, Cells]:
        return {"_codes": Cells(np.uint64, (-1, self._words()), "")}

    def _check_dimension(self, dimension: int) -> None:
        super()._check_dimension(dimension)
        if not dimension:
            return
        if self.directions == "orthogonal" and self.bits > dimension:
            raise ValueError(
                f"CosineSketch: only {dimension} directions can be orthogonal, not "
                f"{self.bits}; use 'super-bit'."
            )
        if self.directions == "frame" and self.bits < dimension:
            raise ValueError(
                f"CosineSketch: a frame of {dimension} dimensions needs as many bits, not "
                f"{self.bits}; use 'orthogonal'."
            )

    def _check_state(self) -> None:
        super()._check_state()
        spare = 64 * self._words() - self.bits
        if spare and (self._codes[:, -1] >> np.uint64(64 - spare)).any():
            raise ValueError("a code has more bits than it should.")


def _share(angle: float) -> float:
    if not 0 <= angle <= math.pi:
        raise ValueError(f"CosineSketch: angle must be from 0 to pi, not {angle!r}.")
    return angle / math.pi


def _binomial(count: int, share: float, miss: float) -> float:
    """The smallest t with P(|X / count - share| > t) <= miss for X binomial."""
    if share in (0, 1):
        return 0.0
    x = np.arange(count + 1)
    factorials = np.cumsum(np.log(np.maximum(x, 1)))
    choose = factorials[-1] - factorials - factorials[::-1]
    chance = np.exp(choose + x * math.log(share) + (count - x) * math.log1p(-share))
    away = np.abs(x / count - share)
    order = np.argsort(away)
    kept = np.cumsum(chance[order])
    # A lattice point of the estimate, which rounding may put just beyond it.
    return float(away[order][min(int(np.searchsorted(kept, 1 - miss)), count)]) + 1e-13
