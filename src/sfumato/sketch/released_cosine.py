"""Released cosine sketches: angles between rows, from the signs of projections that got noise."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any, Self, cast

import numpy as np

from sfumato._require import fraction, positive, whole
from sfumato.kernels import bits as kernels
from sfumato.kernels.projections import project_whole
from sfumato.privacy import noise
from sfumato.privacy._source import Source
from sfumato.privacy._upward import UP
from sfumato.privacy.calibrate import gaussian_sigma_l2
from sfumato.privacy.loss import Concentrated
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._code_table import ROWS, side_by_side
from sfumato.sketch._release import Options, Plan, Release, Terms

__all__ = ["ReleasedCosineSketch", "plan", "rows_terms", "sensitivity"]

SCALE = 2**12  # directions are rounded to a multiple of its inverse
GRAM = 2048  # columns up to which the inner products of all pairs are computed
STEPS = whole(1, 2**20)  # in a bound
UNITS = ("item of a profile", "user")
COVERS = "all codes; that there are so many rows, in this order, is public"


class ReleasedCosineSketch(Release):
    """One code a row; the bits in which two codes differ estimate the angle of the noisy rows.

    Made by `CosineSketch.release_rows`. Guarantee: (epsilon, delta)-differential privacy with a
    public seed, as its `statement` says. Noise turns rows toward right angles: a cosine shrinks by
    r / sqrt(r**2 + noise**2) for each of both rows, where r is the row's norm after clipping.
    Where the norms are public they can be given, and the estimate is free of that. The noise grows
    with the root of the number of bits, so that few bits, about (r / noise of one bit)**2, do best.
    Parameters: bits, dimension and seed of the sketch; bound and step of the numbers of a row;
    sigma, of the noise on the projections in whole numbers.

    >>> from sfumato.sketch import CosineSketch
    >>> sketch = CosineSketch(1024, dimension=2)
    >>> told = sketch.release_rows([[8, 0], [8, 8]], 8, 1e-6, bound=8)
    >>> cosine = told.cosine(told, norms=([8, 11.3], [8, 11.3]))[0, 1]

    Charikar 2002; for Gaussian directions the noise is one more coordinate of each row.
    """

    bits: Annotated[int, whole(1, 2**16)]
    dimension: Annotated[int, whole(1, 2**20)]
    seed: Annotated[int, SEED]
    bound: Annotated[float, positive]
    step: Annotated[float, positive]
    sigma: Annotated[float, positive]
    _codes: np.ndarray
    _of = "CosineSketch"

    @property
    def codes(self) -> np.ndarray:
        """One code for each row, in order; read-only."""
        return self._codes

    @property
    def noise(self) -> float:
        """The noise as a length: each row has one more coordinate of this size, at random."""
        return self.sigma * self.step / SCALE

    def __len__(self) -> int:
        return len(self._codes)

    def hamming(self, other: Self) -> np.ndarray:
        """How many bits differ, for each row here (down) and there (across)."""
        self._check_same(other, "compare")
        panels = side_by_side(other._codes)
        out = np.empty((len(self), panels.shape[0] * panels.shape[2]), np.int32)
        kernels.hamming(self._codes, panels, out)
        return out[:, : len(other)]

    def angle(self, other: Self, norms: tuple[Any, Any] | None = None) -> np.ndarray:
        """The angle in radians between each row here and there.

        Parameters: norms, of the rows here and there after clipping, each one number or one a row,
        from public knowledge. Without them it is the angle of the rows with their noise, which lies
        between the true one and a right angle.
        """
        shown = self.hamming(other) * (math.pi / self.bits)
        if norms is None:
            return np.asarray(shown)
        return np.asarray(np.arccos(np.clip(np.cos(shown) / self._shrink(other, norms), -1, 1)))

    def cosine(self, other: Self, norms: tuple[Any, Any] | None = None) -> np.ndarray:
        """The cosine of the angle; with norms, that of the rows without noise."""
        return np.asarray(np.cos(self.angle(other, norms)))

    def similarity(self, other: Self) -> np.ndarray:
        """The share of equal bits."""
        return 1 - self.hamming(other) / self.bits

    def error_bound(
        self,
        confidence: float = 0.99,
        other: Self | None = None,
        norms: tuple[Any, Any] | None = None,
    ) -> Any:
        """What the angle of one pair of different rows may be off by, with this probability.

        Hoeffding's inequality for the bits, which are independent, about the angle of the rows with
        their noise; with norms, carried over to the angle without it, as one number a pair.
        Parameters: confidence; other, the release compared to (None: this one); norms, as in
        `angle`.
        """
        miss = 1 - fraction.check(type(self).__name__, "confidence", confidence)
        off = math.pi * math.sqrt(math.log(2 / miss) / (2 * self.bits))
        if norms is None:
            return off
        # |cos x - cos y| <= |x - y|; and angles whose cosines differ by t differ most next to 0.
        differ = np.minimum(off / self._shrink(other or self, norms), 2.0)
        return np.arccos(1 - differ)

    def _shrink(self, other: Self, norms: tuple[Any, Any]) -> np.ndarray:
        """What the noise leaves of the cosine of each pair."""
        left, right = (
            _left_of(length, release.noise)
            for length, release in zip(norms, (self, other), strict=True)
        )
        return np.asarray(left[:, np.newaxis] * right)

    def _to_agree(self, other: Self) -> Iterable[str]:
        return ("bits", "dimension", "seed")  # the noise may differ

    def _layout(self) -> dict[str, Cells]:
        return {"_codes": Cells(np.uint64, (-1, -(-self.bits // 64)), "")}

    def _check_state(self) -> None:
        spare = -self.bits % 64
        if spare and (self._codes[:, -1] >> np.uint64(64 - spare)).any():
            raise ValueError("a code has more bits than it should.")


def rows_terms(owner: str, epsilon: float, delta: float, options: Options) -> Terms:
    """The terms of a release of rows, whose unit is one number of a row or a whole row."""
    given = {"contributions": 1, **options}
    if options.get("ledger") is None:
        given = {"unit": UNITS[0], **given}
    terms = Terms.of(owner, epsilon, delta, cast(Options, given))
    fraction.check(owner, "delta", delta)
    if terms.unit not in UNITS:
        raise ValueError(f"{owner}: unit must be one of {UNITS} for rows, not {terms.unit!r}.")
    return terms


def plan(
    rows: np.ndarray,
    normals: np.ndarray,
    shape: dict[str, Any],
    bound: float,
    step: float | None,
    terms: Terms,
) -> Plan[ReleasedCosineSketch]:
    """The release of these rows: whole numbers times whole numbers, plus noise, and their signs."""
    bound = positive.check(terms.owner, "bound", bound)
    step = positive.check(terms.owner, "step", bound / 256 if step is None else step)
    steps = STEPS.check(terms.owner, "bound / step", Fraction(bound) // Fraction(step))
    directions = np.rint(normals.T * SCALE).astype(np.int32)
    norm_squared = sensitivity(directions, terms.unit) * (steps * terms.events) ** 2
    sigma = gaussian_sigma_l2(terms.epsilon, terms.delta, norm_squared=norm_squared)
    if sigma > noise.LARGEST:
        raise ValueError(
            f"{terms.owner}: the noise would be too large for 64 bits; raise epsilon or step."
        )
    terms.check_room(8 * len(rows) * -(-shape["bits"] // 64))
    rho = float(Fraction(norm_squared) / (2 * sigma**2)) * UP

    def codes(source: Source) -> dict[str, np.ndarray]:
        return {"_codes": _codes(rows, step, steps, directions, sigma, source)}

    return Plan(
        ReleasedCosineSketch,
        {**shape, "bound": bound, "step": step, "sigma": float(sigma)},
        Concentrated(rho, relation=terms.relation),
        f"signs of projections with discrete Gaussian noise, sigma {float(sigma):g}",
        codes,
        covers=COVERS,
    )


def sensitivity(directions: np.ndarray, unit: str) -> int:
    """The most that a unit moves the projections: the square of an L2 norm, for a bound of 1.

    One number of a row moves them by a multiple of its direction, directions[i], so by the longest
    at most. A row g of numbers from -1 to 1 moves them by sum_ij g_i g_j <d_i, d_j> <=
    sum_ij |<d_i, d_j>|, squared already; beyond 2048 numbers, by the sum of all lengths at most.
    """
    squares = np.einsum("ij,ij->i", directions, directions, dtype=np.int64)
    if unit == UNITS[0]:
        return max(int(squares.max()), 1)
    if len(directions) > GRAM:
        return int((np.ceil(np.sqrt(squares)) + 1).astype(np.int64).sum()) ** 2
    # Whole numbers below 2**53, whose sums and products float64 holds exactly in any order.
    exact = directions.astype(np.float64)
    rows: list[int] = np.abs(exact @ exact.T).astype(np.int64).sum(axis=1).tolist()
    return max(sum(rows), 1)


def _codes(
    rows: np.ndarray,
    step: float,
    steps: int,
    directions: np.ndarray,
    sigma: Fraction,
    source: Source,
) -> np.ndarray:
    bits = directions.shape[1]
    out = np.zeros((len(rows), -(-bits // 64)), np.uint64)
    at_once, limit = max(1, ROWS // bits), (steps + 1) * step
    for start in range(0, len(rows), at_once):
        part = rows[start : start + at_once]
        # However the quotient was rounded, what is projected is a whole number within the steps.
        numbers = np.trunc(np.clip(part, -limit, limit) / step).astype(np.int64)
        numbers = np.clip(numbers, -steps, steps)
        cells = np.empty((len(part), bits), np.int64)
        project_whole(numbers, directions, cells)
        noise.add_gaussian(cells, sigma, source=source)
        signs = np.zeros((len(part), -(-bits // 8) * 8))
        signs[:, :bits] = cells
        kernels.pack_signs(signs, out[start : start + at_once])
    return out


def _left_of(norms: Any, added: float) -> np.ndarray:
    length = np.atleast_1d(np.asarray(norms, np.float64))
    if length.ndim != 1 or not (np.isfinite(length).all() and (length > 0).all()):
        raise ValueError("ReleasedCosineSketch: norms must be finite numbers above 0.")
    return np.asarray(length / np.hypot(length, added))
