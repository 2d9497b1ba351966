"""p-stable sketch: distances of vectors from codes of quantized projections."""

import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.validation import fraction, integer, positive
from sfumato.kernels.sketch import codes as buckets
from sfumato.sketch.base import SEED
from sfumato.sketch.similarity.row_codes import DIMENSION, CodeTable

__all__ = ["PStableSketch"]

MAX_BUCKET = 2.0**53  # beyond it float64 does not resolve single buckets
KINDS = {1: "cauchy", 2: "gaussian"}
WIDEST = 200.0  # base-2 logarithm of the largest ratio of distance to width that is searched


class PStableSketch(CodeTable):
    """Distances of rows from short codes of integers (locality-sensitive hashes).

    The fraction of equal integers in two codes estimates the distance of the rows. It cannot merge.

    Parameters
    ----------
    width : float
        Width of a bucket in the unit of the distances, above 0. Distances far above it cannot be
        distinguished.
    dimension : int, default=0
        Numbers per row, up to 2**20; 0 takes it from the first rows.
    hashes : int, default=64
        Integers per code, from 1 to 2**16; hashes times dimension is at most 2**26.
    p : int, default=2
        2 for the Euclidean distance (Gaussian w), 1 for the sum of absolute differences (Cauchy w).
    seed : int, default=0
        Seed of w and a, which are made when first needed and never stored.

    Notes
    -----
    **Guarantee.** Two rows at distance D agree in each hash with probability
    ``collision_probability(D)``, independently. So
    ``|similarity - collision_probability(D)| <= error_bound(c)`` with probability at least c for
    each pair, and `distance_range` contains D with probability at least c.

    Entry j of a code is floor((w_j . x + a_j) / width), modulo 2**32, with a_j uniform in
    [0, width). Rows that are more than 2**53 widths from the origin raise ValueError.

    References
    ----------
    .. [1] Datar, Immorlica, Indyk, Mirrokni. "Locality-Sensitive Hashing Scheme Based on p-Stable
       Distributions". SoCG 2004. https://doi.org/10.1145/997817.997857
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.3.3.4 (p-stable distributions).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> sketch = PStableSketch(4.0, hashes=4096).update([[0, 0], [3, 4]])
    >>> sketch.distance(sketch).round(1).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """

    width: Annotated[float, positive]
    dimension: Annotated[int, DIMENSION]
    hashes: Annotated[int, integer(1, 2**16)]
    p: Annotated[int, integer(1, 2)]
    seed: Annotated[int, SEED]
    _measure = "hashes"
    _no_release = (
        "a row decides every number of its own code, and by how much is not bounded; no mechanism "
        "is proved that keeps such codes useful."
    )
    _reason = "the code of a sum is no function of the codes of its parts; update with the rows."

    def __init__(
        self, width: float, *, dimension: int = 0, hashes: int = 64, p: int = 2, seed: int = 0
    ) -> None:
        self._set_parameters(width=width, dimension=dimension, hashes=hashes, p=p, seed=seed)
        self._allocate()

    @classmethod
    def from_error(
        cls,
        error: float,
        confidence: float = 0.99,
        *,
        width: float,
        dimension: int = 0,
        p: int = 2,
        seed: int = 0,
    ) -> Self:
        """Build the sketch of shortest codes with a given error of the similarity.

        Parameters
        ----------
        error : float
            Bound on the error of `similarity`, between 0 and 1.
        confidence : float, default=0.99
            Probability with which the bound holds for each pair, between 0 and 1.
        width : float
            Width of a bucket.
        dimension : int, default=0
            Numbers per row; 0 takes it from the first rows.
        p : int, default=2
            2 for the Euclidean distance, 1 for the sum of absolute differences.
        seed : int, default=0
            Seed of the hash functions.

        Returns
        -------
        Self
            An empty sketch with ``error_bound(confidence) <= error``.
        """
        error = fraction.check("PStableSketch", "error", error)
        miss = 1 - fraction.check("PStableSketch", "confidence", confidence)
        hashes = max(1, math.ceil(math.log(2 / miss) / 2 / error**2 - 1e-9))
        return cls(width, dimension=dimension, hashes=hashes, p=p, seed=seed)

    def collision_probability(self, distance: Any) -> Any:
        """Compute the probability that one hash of two rows agrees.

        Parameters
        ----------
        distance : float or array_like
            Distance of the rows, at least 0.

        Returns
        -------
        float or ndarray
            Probability for each distance; it decreases from 1 at distance 0.
        """
        ratio = np.asarray(distance, np.float64) / self.width
        if not (ratio >= 0).all():
            raise ValueError("PStableSketch: distance must be at least 0.")
        return collision_probability(ratio, self.p)[()]

    def similarity(self, other: Self) -> np.ndarray:
        """Compute the fraction of equal hashes of all pairs of rows.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included; may be the sketch itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            Fraction of equal integers in both codes, an estimate of the collision probability.
        """
        return self._equal(other) / self.hashes

    def distance(self, other: Self) -> np.ndarray:
        """Estimate the distances of all pairs of rows.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included; may be the sketch itself.

        Returns
        -------
        ndarray of shape (rows, rows of other)
            The distance whose collision probability is the similarity; infinite if that is 0.
        """
        fractions = np.arange(self.hashes + 1) / self.hashes
        return np.asarray(self.width * _ratio(fractions, self.p)[self._equal(other)])

    def distance_range(
        self, other: Self, confidence: float = 0.99
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute confidence intervals of the distances of all pairs of rows.

        Parameters
        ----------
        other : Self
            Sketch of the same parameters, the seed included; may be the sketch itself.
        confidence : float, default=0.99
            Probability with which the interval contains the distance of a pair, between 0 and 1.

        Returns
        -------
        tuple
            Lower and upper limits, arrays of shape (rows, rows of other), by the Clopper-Pearson
            interval of the collision probability. Upper limits may be infinite.
        """
        from scipy.special import betaincinv  # here, since its import takes a quarter of a second

        miss = 1 - fraction.check("PStableSketch", "confidence", confidence)
        same, all_ = np.arange(self.hashes + 1), self.hashes
        # The beta quantiles are undefined if none or all agree; the limits are then exact.
        low = np.where(same > 0, betaincinv(np.maximum(same, 1), all_ - same + 1, miss / 2), 0)
        different = np.maximum(all_ - same, 1)
        high = np.where(same < all_, betaincinv(same + 1, different, 1 - miss / 2), 1)
        equal = self._equal(other)
        near, far = (self.width * _ratio(limit, self.p) for limit in (high, low))
        return near[equal], far[equal]

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of a similarity.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each pair, between 0 and 1.

        Returns
        -------
        float
            Bound on ``|similarity - collision_probability|``, by Hoeffding's inequality.
        """
        miss = 1 - fraction.check("PStableSketch", "confidence", confidence)
        return math.sqrt(math.log(2 / miss) / (2 * self.hashes))

    def _equal(self, other: Self) -> np.ndarray:
        return self._compare(other, buckets.equal)

    def _write_codes(self, values: np.ndarray, start: int, out: np.ndarray) -> None:
        far = buckets.fill(values, self._offsets(), self.width, MAX_BUCKET, out)
        if far >= 0:
            raise ValueError(
                f"PStableSketch: row {start + far} is more than 2**53 bucket widths out; widen the "
                f"buckets or scale the rows."
            )

    @property
    def _kind(self) -> str:
        return KINDS[self.p]

    def _offsets(self) -> np.ndarray:
        # Coordinates are the keys 0 and up, so negative keys are free for the hashes.
        words = hash_column(range(-1, -1 - self.hashes, -1), self.seed)
        return (words >> np.uint64(11)) * (2.0**-53 * self.width)

    def _layout(self) -> dict[str, Cells]:
        return {"_codes": Cells(np.int32, (-1, self.hashes), "")}


def collision_probability(ratio: np.ndarray, p: int) -> np.ndarray:
    """P(same bucket) if projections differ by ratio Z widths, for p-stable Z with |Z| of density f.

    It is the integral of f(t / r) / r (1 - t) over t from 0 to 1: with a uniform offset, a
    difference of t widths stays in one bucket with probability 1 - t.
    """
    from scipy.special import erf

    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        inverse = 1 / ratio
        if p == 2:
            tail = ratio * math.sqrt(2 / math.pi) * np.expm1(-(inverse**2) / 2)
            probability = erf(inverse / math.sqrt(2)) + tail
        else:
            # log(1 + 1 / r**2), without overflow of the square
            log = 2 * np.log(np.hypot(1, inverse))
            probability = (2 * np.arctan(inverse) - ratio * log) / math.pi
        return np.where(ratio == 0, 1.0, np.where(np.isinf(ratio), 0.0, probability))


def _ratio(probabilities: np.ndarray, p: int) -> np.ndarray:
    """The distance in widths of each collision probability, by bisection."""
    low, high = np.full(probabilities.shape, -WIDEST), np.full(probabilities.shape, WIDEST)
    for _ in range(60):
        middle = (low + high) / 2
        near = collision_probability(2.0**middle, p) > probabilities
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    far = np.where(probabilities <= 0, math.inf, 2.0**low)
    return np.where(probabilities >= 1, 0.0, far)
