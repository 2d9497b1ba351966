"""Cosine sketch: angles of vectors from the signs of random projections; and private codes."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Annotated, Any, Self, Unpack, cast

import numpy as np

from sfumato.core.arrays import LARGEST, private_points
from sfumato.core.storage import Cells
from sfumato.core.validation import fraction, integer, one_of, positive
from sfumato.kernels.sketch import codes as kernels
from sfumato.kernels.sketch import projections
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

__all__ = ["CosineSketch", "ReleasedCosineSketch", "calibrated", "rows_request", "sensitivity"]

SCALE = 2**12  # directions are rounded to multiples of 1 / SCALE
GRAM = 2048  # columns up to which the inner products of all pairs are computed
STEPS = integer(1, 2**20)  # in a bound
UNITS = ("item of a profile", "user")
COVERS = "all codes; the number of rows and their order are public"


class ReleasedCosineSketch(Release):
    """Private codes of rows, for the angles between them; made by `CosineSketch.release_rows`.

    It has the bits, dimension and seed of the sketch, the `bound` and `step` of the numbers of a
    row, and `sigma`, the scale of the noise on the integer projections.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differentially private with a public seed, as its `statement`
    says.

    Noise turns rows toward right angles: the cosine shrinks by a factor r / sqrt(r**2 + noise**2)
    for each of both rows, where r is the row's norm after clipping. If the norms are public they
    can be given, and the estimate is corrected. The noise grows with the square root of the number
    of bits, so that few bits, about (r / noise of one bit)**2, are best.

    References
    ----------
    .. [1] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002. For
       Gaussian directions the noise acts as one more coordinate of each row.
       https://doi.org/10.1145/509907.509965

    Examples
    --------
    >>> from sfumato.sketch import CosineSketch
    >>> sketch = CosineSketch(1024, dimension=2)
    >>> released = sketch.release_rows([[8, 0], [8, 8]], 8, 1e-6, bound=8)
    >>> released.cosine(released, norms=([8, 11.3], [8, 11.3])).shape
    (2, 2)
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
        """One code per row, in the order of the rows; read-only."""
        return self._codes

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on a projection, in the unit of the rows."""
        return self.sigma * self.step / SCALE

    def __len__(self) -> int:
        return len(self._codes)

    def hamming(self, other: Self) -> np.ndarray:
        """Count the bits in which all pairs of codes differ.

        Parameters
        ----------
        other : Self
            Release of the same bits, dimension and seed; may be the release itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Hamming distances, int32.
        """
        self._check_same(other, "compare")
        panels = side_by_side(other._codes)
        out = np.empty((len(self), panels.shape[0] * panels.shape[2]), np.int32)
        kernels.hamming(self._codes, panels, out)
        return out[:, : len(other)]

    def angle(self, other: Self, norms: tuple[Any, Any] | None = None) -> np.ndarray:
        """Estimate the angles of all pairs of rows.

        Parameters
        ----------
        other : Self
            Release of the same bits, dimension and seed; may be the release itself.
        norms : tuple or None, default=None
            Norms of the rows here and of the rows of `other` after clipping, from public knowledge;
            each a number or an array with one per row. None estimates the angles of the rows with
            their noise, which lie between the true angles and a right angle.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Angles in radians, from 0 to pi.
        """
        noisy = self.hamming(other) * (math.pi / self.bits)
        if norms is None:
            return np.asarray(noisy)
        shrinkage = self._shrinkage(other, norms)
        return np.asarray(np.arccos(np.clip(np.cos(noisy) / shrinkage, -1, 1)))

    def cosine(self, other: Self, norms: tuple[Any, Any] | None = None) -> np.ndarray:
        """Estimate the cosines of the angles of all pairs of rows.

        Parameters
        ----------
        other : Self
            Release of the same bits, dimension and seed; may be the release itself.
        norms : tuple or None, default=None
            Public norms of the rows, as in `angle`; with them the estimate is corrected for the
            noise.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Cosines of `angle`.
        """
        return np.asarray(np.cos(self.angle(other, norms)))

    def similarity(self, other: Self) -> np.ndarray:
        """Compute the fraction of equal bits of all pairs of codes.

        Parameters
        ----------
        other : Self
            Release of the same bits, dimension and seed; may be the release itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Fractions from 0 to 1.
        """
        return 1 - self.hamming(other) / self.bits

    def error_bound(
        self,
        confidence: float = 0.99,
        other: Self | None = None,
        norms: tuple[Any, Any] | None = None,
    ) -> Any:
        """Bound the error of the angle of a pair of different rows.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each pair, between 0 and 1.
        other : Self or None, default=None
            The other release, used with `norms`; None for this one.
        norms : tuple or None, default=None
            Public norms of the rows, as in `angle`.

        Returns
        -------
        float or ndarray
            Bound in radians. Without norms, one number for the angle of the rows with their noise,
            by Hoeffding's inequality for the independent bits. With norms, an array of shape (rows,
            rows of other) for the angles without noise.
        """
        miss = 1 - fraction.check(type(self).__name__, "confidence", confidence)
        bound = math.pi * math.sqrt(math.log(2 / miss) / (2 * self.bits))
        if norms is None:
            return bound
        # |cos x - cos y| <= |x - y|; and angles whose cosines differ by t differ most next to 0.
        difference = np.minimum(bound / self._shrinkage(other or self, norms), 2.0)
        return np.arccos(1 - difference)

    def _shrinkage(self, other: Self, norms: tuple[Any, Any]) -> np.ndarray:
        """The factor by which the noise shrinks the cosine of each pair."""
        left, right = (
            _row_shrinkage(length, release.noise)
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


def rows_request(
    owner: str, epsilon: float | Privacy | None, delta: float, options: ReleaseOptions
) -> ReleaseRequest:
    """The request of a release of rows, whose unit is one number of a row or an entire row."""
    epsilon, delta, options = release_parameters(owner, epsilon, delta, options)
    given = {"contributions": 1, **options}
    if options.get("ledger") is None:
        given = {"unit": UNITS[0], **given}
    request = ReleaseRequest.of(owner, epsilon, delta, cast(ReleaseOptions, given))
    fraction.check(owner, "delta", delta)
    if request.unit not in UNITS:
        raise ValueError(f"{owner}: unit must be one of {UNITS} for rows, not {request.unit!r}.")
    return request


def calibrated(
    rows: np.ndarray,
    normals: np.ndarray,
    shape: dict[str, Any],
    bound: float,
    step: float | None,
    request: ReleaseRequest,
) -> CalibratedRelease[ReleasedCosineSketch]:
    """The release of rows: signs of integer projections with calibrated noise."""
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
    """Squared L2 sensitivity of the projections to one unit, for a bound of 1.

    One number of a row changes them by a multiple of its direction, directions[i], so at most by
    the longest. A row g of numbers from -1 to 1 changes them by sum_ij g_i g_j <d_i, d_j> <=
    sum_ij |<d_i, d_j>| (squared norm); beyond 2048 numbers, by at most the sum of all lengths.
    """
    squares = np.einsum("ij,ij->i", directions, directions, dtype=np.int64)
    if unit == UNITS[0]:
        return max(int(squares.max()), 1)
    if len(directions) > GRAM:
        return int((np.ceil(np.sqrt(squares)) + 1).astype(np.int64).sum()) ** 2
    # Integers below 2**53, whose sums and products are exact in float64, in any order.
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
        # However the quotient is rounded, the projected number is an integer within the steps.
        numbers = np.trunc(np.clip(part, -limit, limit) / step).astype(np.int64)
        numbers = np.clip(numbers, -steps, steps)
        cells = np.empty((len(part), bits), np.int64)
        projections.project_whole(numbers, directions, cells)
        noise.add_gaussian(cells, sigma, source=source)
        signs = np.zeros((len(part), -(-bits // 8) * 8))
        signs[:, :bits] = cells
        kernels.pack_signs(signs, out[start : start + at_once])
    return out


def _row_shrinkage(norms: Any, added: float) -> np.ndarray:
    """The factor by which noise of this length shrinks the cosines of rows of these norms."""
    length = np.atleast_1d(np.asarray(norms, np.float64))
    if length.ndim != 1 or not (np.isfinite(length).all() and (length > 0).all()):
        raise ValueError("ReleasedCosineSketch: norms must be finite numbers above 0.")
    return np.asarray(length / np.hypot(length, added))


KINDS = ("random", "sign", "orthogonal", "frame", "super-bit")
UNPROVED = "CosineSketch: no bound is proved for {!r} directions; use 'random' or 'super-bit'."


class CosineSketch(CodeTable):
    """Angles between rows from short binary codes (random hyperplane hashes).

    Bit j of a code is the side of the j-th hyperplane on which the row lies; the number of bits in
    which two codes differ estimates the angle. It cannot merge.

    Parameters
    ----------
    bits : int, default=256
        Bits per code, from 1 to 2**16; bits times dimension is at most 2**26.
    dimension : int, default=0
        Numbers per row, up to 2**20; 0 takes it from the first rows.
    directions : {"random", "sign", "orthogonal", "frame", "super-bit"}, default="random"
        Normals of the hyperplanes.

        - "random": independent Gaussian vectors.
        - "sign": entries +1 or -1. Angles of sparse rows are biased; no bound.
        - "orthogonal": smaller variance; at most `dimension` bits.
        - "super-bit": orthogonal in batches of `dimension`. Smaller variance, any number of bits.
        - "frame": a tight frame of unit vectors; at least `dimension` bits. No bound is proved.
    seed : int, default=0
        Seed of the directions, which are made when first needed and never stored; n orthogonal ones
        of n numbers take time n**3, half a second for 1,024.

    Notes
    -----
    **Guarantee.** ``|angle - true| <= error_bound(c)`` with probability at least c for each pair of
    rows. The estimate is unbiased, except for "sign".

    A row of zeros has the code 0, which is at 90 degrees to any other on average. The codes do not
    depend on how rows are divided into updates.

    References
    ----------
    .. [1] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002.
       https://doi.org/10.1145/509907.509965
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equations (2.16) to (2.19) (cosine sketches) and (5.9) (tight frame).
       https://theses.hal.science/tel-01430156
    .. [3] Ji, Li, Yan, Zhang, Tian. "Super-Bit Locality-Sensitive Hashing". NIPS 2012.

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
        """Build the sketch of shortest codes with a given error bound.

        Parameters
        ----------
        error : float
            Bound on the error of an angle in radians, above 0.
        confidence : float, default=0.99
            Probability with which the bound holds for each pair, between 0 and 1.
        dimension : int, default=0
            Numbers per row; 0 takes it from the first rows.
        directions : {"random", "orthogonal", "super-bit"}, default="random"
            Normals of the hyperplanes, as in `CosineSketch`; other kinds have no bound and are
            refused.
        seed : int, default=0
            Seed of the directions.

        Returns
        -------
        Self
            An empty sketch with ``error_bound(confidence) <= error``.
        """
        part = positive.check("CosineSketch", "error", error) / math.pi
        miss = 1 - fraction.check("CosineSketch", "confidence", confidence)
        hoeffding, chebyshev = math.log(2 / miss) / 2 / part**2, 1 / (4 * miss * part**2)
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
        """Directions, one per row, of shape (bits, dimension)."""
        return dense(self._directions(self.dimension), self.bits)

    def hamming(self, other: Self) -> np.ndarray:
        """Count the bits in which all pairs of codes differ.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included; may be the sketch itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Hamming distances, int32.
        """
        return self._compare(other, kernels.hamming)

    def angle(self, other: Self) -> np.ndarray:
        """Estimate the angles of all pairs of rows.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included; may be the sketch itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Angles in radians, from 0 to pi.
        """
        return self.hamming(other) * (math.pi / self.bits)

    def cosine(self, other: Self) -> np.ndarray:
        """Estimate the cosines of the angles of all pairs of rows.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included; may be the sketch itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Cosines of `angle`; biased toward 0, since the angle has a variance.
        """
        return np.asarray(np.cos(self.angle(other)))

    def similarity(self, other: Self) -> np.ndarray:
        """Compute the fraction of equal bits of all pairs of codes.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included; may be the sketch itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Fractions: 1 for the same direction, 0 for the opposite one.
        """
        return 1 - self.hamming(other) / self.bits

    def error_bound(self, confidence: float = 0.99, angle: float | None = None) -> float:
        """Bound the error of an angle.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each pair, between 0 and 1.
        angle : float or None, default=None
            True angle, from 0 to pi, for the narrower bound at that angle; it is exact for
            "random" directions. None bounds the error at any angle.

        Returns
        -------
        float
            Bound in radians.

        Raises
        ------
        ValueError
            No bound is proved for the directions ("sign", "frame").

        Notes
        -----
        Without an angle, Hoeffding's inequality is used for independent bits or batches, and
        Chebyshev's for orthogonal ones, whose variance is at most that of independent bits.
        """
        miss = 1 - fraction.check("CosineSketch", "confidence", confidence)
        differ = 0.5 if angle is None else _differing(angle)
        if self.directions == "random":
            if angle is not None:
                return math.pi * _binomial(self.bits, differ, miss)
            return math.pi * math.sqrt(math.log(2 / miss) / (2 * self.bits))
        if self.directions in ("orthogonal", "super-bit"):
            batch = min(self.bits, self.dimension or self.bits)
            batches = math.sqrt(batch * math.log(2 / miss) / (2 * self.bits))
            return math.pi * min(math.sqrt(differ * (1 - differ) / (self.bits * miss)), batches)
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
        """Release private codes of rows, one row per user.

        Noise is added to the projections before their signs are taken. Only the parameters of the
        sketch are used: its directions must be "random", and its dimension given when it is built.

        Parameters
        ----------
        rows : array_like of shape (n, dimension)
            Numbers, one row per user.
        epsilon : float, Privacy or None, default=None
            Privacy loss of the release, above 0. A `sfumato.privacy.Privacy` here, or as the
            option `privacy`, replaces `epsilon`, `delta` and the options except `source`.
        delta : float, default=0.0
            Failure probability of the privacy guarantee, between 0 and 1; required.
        bound : float
            Public bound on the absolute value of a number, above 0. Larger numbers are clipped.
        step : float or None, default=None
            Numbers are rounded toward 0 to a multiple of it, from bound / 2**20 to bound; None
            takes bound / 256.
        **options : dict
            `ledger`, `dataset`, `unit`, `relation`, `contributions` (default 1), `release_id`,
            `privacy` and `source`, as in `CountMin.release`. The unit is "item of a profile"
            (default), one number of a row, or "user", an entire row.

        Returns
        -------
        ReleasedCosineSketch
            The released codes, in the order of the rows.

        Notes
        -----
        **Guarantee.** (epsilon, delta)-differentially private for one unit, with a public seed. The
        unit "item of a profile" is one number of a row, present or 0; the unit "user" is a row,
        present or all zeros. Under the relation "replace" the sensitivity doubles. The number of
        rows and their order are public.

        Numbers and directions (to 2**-12) are rounded, so projections are integers. They get
        discrete Gaussian noise for their exact L2 sensitivity [1]_, as in [2]_, and the signs are
        computed from those alone. Each row is read on its own and none is refused: a value that is
        not a number counts as 0, and so does a row that does not have `dimension` numbers.

        References
        ----------
        .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS
           2020, Theorem 14 (multivariate discrete Gaussian). https://arxiv.org/abs/2004.00010
        .. [2] Kenthapadi, Korolova, Mironov, Mishra. "Privacy via the Johnson-Lindenstrauss
           Transform". JPC 2013 (noise on projections). https://arxiv.org/abs/1204.2606

        Examples
        --------
        >>> sketch = CosineSketch(64, dimension=3)
        >>> released = sketch.release_rows([[1, 0, 0], [1, 1, 0]], 2, 1e-6, bound=1)
        >>> released.codes.shape, released.statement.unit
        ((2, 1), 'item of a profile')
        """
        request = rows_request("CosineSketch", epsilon, delta, options)
        normals = self._released_normals()
        matrix = private_points("CosineSketch", rows, self.dimension)
        if matrix.shape[1] != self.dimension:
            raise ValueError(
                f"CosineSketch: rows must have {self.dimension} columns (its dimension), not "
                f"{matrix.shape[1]}."
            )
        matrix = np.clip(np.where(np.isnan(matrix), 0, matrix), -LARGEST, LARGEST)
        shape = dict(bits=self.bits, dimension=self.dimension, seed=self.seed)
        return calibrated(matrix, normals, shape, bound, step, request).publish(request)

    def _released_normals(self) -> np.ndarray:
        """The directions; ValueError if they cannot be released or are not known yet."""
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


def _differing(angle: float) -> float:
    """The probability that a bit differs at this angle."""
    if not 0 <= angle <= math.pi:
        raise ValueError(f"CosineSketch: angle must be from 0 to pi, not {angle!r}.")
    return angle / math.pi


def _binomial(count: int, p: float, miss: float) -> float:
    """The smallest t with P(|X / count - p| > t) <= miss for X binomial."""
    if p in (0, 1):
        return 0.0
    x = np.arange(count + 1)
    factorials = np.cumsum(np.log(np.maximum(x, 1)))
    choose = factorials[-1] - factorials - factorials[::-1]
    probabilities = np.exp(choose + x * math.log(p) + (count - x) * math.log1p(-p))
    deviations = np.abs(x / count - p)
    order = np.argsort(deviations)
    within = np.cumsum(probabilities[order])
    # A lattice point of the estimate, which rounding may put just beyond it.
    return float(deviations[order][min(int(np.searchsorted(within, 1 - miss)), count)]) + 1e-13
