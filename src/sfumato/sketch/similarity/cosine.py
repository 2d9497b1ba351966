"""Cosine sketch: the angle between vectors from short codes of bits, each the side of a plane.

Released cosine sketches: angles between rows, from the signs of projections that got noise.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any, Self, Unpack, cast

import numpy as np

from sfumato.core.arrays import LARGEST, private_points
from sfumato.core.storage import Cells
from sfumato.core.validation import fraction, integer, one_of, positive
from sfumato.kernels.sketch import codes as kernels
from sfumato.kernels.sketch.projections import project_whole
from sfumato.privacy.accounting.calibration import gaussian_sigma_l2
from sfumato.privacy.accounting.losses import Concentrated
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.parameters import Privacy, release_parameters
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseOptions, ReleaseRequest
from sfumato.privacy.rounding import UP
from sfumato.sketch.base import SEED
from sfumato.sketch.projection.directions import dense
from sfumato.sketch.similarity.row_codes import DIMENSION, ROWS, CodeTable, side_by_side

__all__ = ["CosineSketch", "ReleasedCosineSketch", "plan", "rows_terms", "sensitivity"]

SCALE = 2**12  # directions are rounded to a multiple of its inverse
GRAM = 2048  # columns up to which the inner products of all pairs are computed
STEPS = integer(1, 2**20)  # in a bound
UNITS = ("item of a profile", "user")
COVERS = "all codes; that there are so many rows, in this order, is public"


class ReleasedCosineSketch(Release):
    """One code a row; the bits in which two codes differ estimate the angle of the noisy rows.

    Made by `CosineSketch.release_rows`.

    bits, dimension and seed of the sketch; bound and step of the numbers of a row; sigma, of the
    noise on the projections in integers.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy with a public seed, as its `statement`
    says. Noise turns rows toward right angles: a cosine shrinks by r / sqrt(r**2 + noise**2) for
    each of both rows, where r is the row's norm after clipping. Where the norms are public they can
    be given, and the estimate is free of that. The noise grows with the root of the number of bits,
    so that few bits, about (r / noise of one bit)**2, do best.

    References
    ----------
    .. [1] Charikar 2002; for Gaussian directions the noise is one more coordinate of each row.

    Examples
    --------
    >>> from sfumato.sketch import CosineSketch
    >>> sketch = CosineSketch(1024, dimension=2)
    >>> told = sketch.release_rows([[8, 0], [8, 8]], 8, 1e-6, bound=8)
    >>> cosine = told.cosine(told, norms=([8, 11.3], [8, 11.3]))[0, 1]
    """

    bits: Annotated[int, integer(1, 2**16)]
    dimension: Annotated[int, integer(1, 2**20)]
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
        """How many bits differ, for each row here (down) and there (across).

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            How many bits differ, for each row here (down) and there (across).
        """
        self._check_same(other, "compare")
        panels = side_by_side(other._codes)
        out = np.empty((len(self), panels.shape[0] * panels.shape[2]), np.int32)
        kernels.hamming(self._codes, panels, out)
        return out[:, : len(other)]

    def angle(self, other: Self, norms: tuple[Any, Any] | None = None) -> np.ndarray:
        """The angle in radians between each row here and there.

        Parameters
        ----------
        other : Self
            TODO.
        norms : tuple or None, default=None
            Of the rows here and there after clipping, each one number or one a row, from public
            knowledge. Without them it is the angle of the rows with their noise, which lies between
            the true one and a right angle.

        Returns
        -------
        ndarray
            The angle in radians between each row here and there.
        """
        shown = self.hamming(other) * (math.pi / self.bits)
        if norms is None:
            return np.asarray(shown)
        return np.asarray(np.arccos(np.clip(np.cos(shown) / self._shrink(other, norms), -1, 1)))

    def cosine(self, other: Self, norms: tuple[Any, Any] | None = None) -> np.ndarray:
        """The cosine of the angle; with norms, that of the rows without noise.

        Parameters
        ----------
        other : Self
            TODO.
        norms : tuple or None, default=None
            TODO.

        Returns
        -------
        ndarray
            The cosine of the angle; with norms, that of the rows without noise.
        """
        return np.asarray(np.cos(self.angle(other, norms)))

    def similarity(self, other: Self) -> np.ndarray:
        """The share of equal bits.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            The share of equal bits.
        """
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

        confidence;

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.
        other : Self or None, default=None
            The release compared to (None: this one).
        norms : tuple or None, default=None
            As in `angle`.

        Returns
        -------
        object
            What the angle of one pair of different rows may be off by, with this probability.
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


def rows_terms(
    owner: str, epsilon: float | Privacy | None, delta: float, options: ReleaseOptions
) -> ReleaseRequest:
    """The terms of a release of rows, whose unit is one number of a row or a whole row."""
    epsilon, delta, options = release_parameters(owner, epsilon, delta, options)
    given = {"contributions": 1, **options}
    if options.get("ledger") is None:
        given = {"unit": UNITS[0], **given}
    request = ReleaseRequest.of(owner, epsilon, delta, cast(ReleaseOptions, given))
    fraction.check(owner, "delta", delta)
    if request.unit not in UNITS:
        raise ValueError(f"{owner}: unit must be one of {UNITS} for rows, not {request.unit!r}.")
    return request


def plan(
    rows: np.ndarray,
    normals: np.ndarray,
    shape: dict[str, Any],
    bound: float,
    step: float | None,
    request: ReleaseRequest,
) -> CalibratedRelease[ReleasedCosineSketch]:
    """The release of these rows: integers times integers, plus noise, and their signs."""
    bound = positive.check(request.owner, "bound", bound)
    step = positive.check(request.owner, "step", bound / 256 if step is None else step)
    steps = STEPS.check(request.owner, "bound / step", Fraction(bound) // Fraction(step))
    directions = np.rint(normals.T * SCALE).astype(np.int32)
    norm_squared = sensitivity(directions, request.unit) * (steps * request.events) ** 2
    sigma = gaussian_sigma_l2(request.epsilon, request.delta, norm_squared=norm_squared)
    if sigma > noise.LARGEST:
        raise ValueError(
            f"{request.owner}: the noise would be too large for 64 bits; raise epsilon or step."
        )
    request.check_room(8 * len(rows) * -(-shape["bits"] // 64))
    rho = float(Fraction(norm_squared) / (2 * sigma**2)) * UP

    def codes(source: Source) -> dict[str, np.ndarray]:
        return {"_codes": _codes(rows, step, steps, directions, sigma, source)}

    return CalibratedRelease(
        ReleasedCosineSketch,
        {**shape, "bound": bound, "step": step, "sigma": float(sigma)},
        Concentrated(rho, relation=request.relation),
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
    # Integers below 2**53, whose sums and products float64 holds exactly in any order.
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
        # However the quotient was rounded, what is projected is an integer within the steps.
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

    Parameters
    ----------
    bits : int, default=256
        TODO.
    dimension : int, default=0
        TODO.
    directions : str, default="random"
        TODO.
    seed : int, default=0
        TODO.

    References
    ----------
    .. [1] Charikar 2002; thesis (2.16) to (2.19) and (5.9); super-bits: Ji, Li, Yan, Zhang and Tian
       2012.

    Examples
    --------
    >>> sketch = CosineSketch(bits=1024).update([[1, 0, 0], [1, 1, 0]])
    >>> bool(abs(sketch.angle(sketch)[0, 1] - np.pi / 4) < sketch.error_bound(0.99))
    True
    """

    bits: Annotated[int, integer(1, 2**16)]
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
        """The shortest code whose error bound is `error`, in radians.

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        dimension : int, default=0
            TODO.
        directions : str, default="random"
            TODO.
        seed : int, default=0
            TODO.

        Returns
        -------
        Self
            The shortest code whose error bound is `error`, in radians.
        """
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
        """How many bits differ, for each row here (down) and there (across).

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            How many bits differ, for each row here (down) and there (across).
        """
        return self._compare(other, kernels.hamming)

    def angle(self, other: Self) -> np.ndarray:
        """The angle in radians, from 0 to pi, between each row here and there.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            The angle in radians, from 0 to pi, between each row here and there.
        """
        return self.hamming(other) * (math.pi / self.bits)

    def cosine(self, other: Self) -> np.ndarray:
        """The cosine of the angle; biased towards 0, since the mean of a cosine is.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            The cosine of the angle; biased towards 0, since the mean of a cosine is.
        """
        return np.asarray(np.cos(self.angle(other)))

    def similarity(self, other: Self) -> np.ndarray:
        """The share of equal bits: 1 for the same direction, 0 for the opposite.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            The share of equal bits: 1 for the same direction, 0 for the opposite.
        """
        return 1 - self.hamming(other) / self.bits

    def error_bound(self, confidence: float = 0.99, angle: float | None = None) -> float:
        """What the angle of one pair may be off by, in radians, with this probability.

        confidence;

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.
        angle : float or None, default=None
            The true one, gives the narrower bound at that angle: exact for random directions.
            Without it: Hoeffding's inequality for independent bits or batches, Chebyshev's for
            orthogonal ones, whose variance is at most that of independent bits.

        Returns
        -------
        float
            What the angle of one pair may be off by, in radians, with this probability.
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
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        *,
        bound: float,
        step: float | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> ReleasedCosineSketch:
        """Private codes of rows, one a user: signs of projections that got noise before.

        The sketch lends its parameters and is not changed; its directions are "random" and its
        dimension is given when it is built.

        Parameters
        ----------
        rows : object
            A matrix; epsilon above 0; delta between 0 and 1.
        epsilon : float, Privacy or None, default=None
            TODO.
        delta : float, default=0.0
            TODO.
        bound : float
            Of a number's size, public.
        step : float or None, default=None
            At most bound, 1/256 of it by default.
        **options : dict
            Ledger and dataset, unit, relation, release_id (docs/privacy.md).

        Returns
        -------
        ReleasedCosineSketch
            TODO.

        Notes
        -----
        **Guarantee.** (epsilon, delta)-private for one unit, with a public seed. Numbers are cut to
        -bound..bound and rounded toward 0 to a multiple of the step; directions are rounded to
        2**-12; so projections are integers, which get discrete Gaussian noise for their exact L2
        sensitivity, see `released_cosine.sensitivity` (Canonne, Kamath and Steinke 2020, theorem
        14); the signs are computed from those alone. The unit is "item of a profile" (unless the
        ledger says otherwise), one number of a row that is 0 or not, or "user", a row that is zero
        or not; exchanging moves twice as far. How many rows there are, and their order, is public.
        Each is read by itself and none is refused: what is no number counts as 0, and so do all
        numbers of a row that is no row of so many.

        References
        ----------
        .. [1] Thesis 3.2 (noise on projections): Kenthapadi, Korolova, Mironov and Mishra 2013.

        Examples
        --------
        >>> sketch = CosineSketch(64, dimension=3)
        >>> told = sketch.release_rows([[1, 0, 0], [1, 1, 0]], 2, 1e-6, bound=1)
        >>> told.codes.shape, told.statement.unit
        ((2, 1), 'item of a profile')
        """
        request = rows_terms("CosineSketch", epsilon, delta, options)
        normals = self._released_normals()
        matrix = private_points("CosineSketch", rows, self.dimension)
        if matrix.shape[1] != self.dimension:
            raise ValueError(
                f"CosineSketch: rows must have {self.dimension} columns (its dimension), not "
                f"{matrix.shape[1]}."
            )
        matrix = np.clip(np.where(np.isnan(matrix), 0, matrix), -LARGEST, LARGEST)
        shape = dict(bits=self.bits, dimension=self.dimension, seed=self.seed)
        return plan(matrix, normals, shape, bound, step, request).publish(request)

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
