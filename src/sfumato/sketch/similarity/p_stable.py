"""p-stable sketch: the distance between vectors from codes of buckets, near ones collide more."""

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

REACH = 2.0**53  # buckets farther out are closer than the numbers that name them
KINDS = {1: "cauchy", 2: "gaussian"}
WIDEST = 200.0  # powers of two, of the ratios of distance to width that are told apart


class PStableSketch(CodeTable):
    """One code of integers for each row; the share of equal ones tells the distance of two rows.

    width of a bucket, in the unit of the distances: those far above it look alike;

    Parameters
    ----------
    width : float
        TODO.
    dimension : int, default=0
        Numbers in a row, up to 2**20, 0 to take it from the first rows.
    hashes : int, default=64
        Integers in a code, up to 2**16 (the product of both at most 2**26).
    p : int, default=2
        2 for Euclidean distance (Gaussian w) or 1 for the sum of absolute differences (Cauchy w).
    seed : int, default=0
        Of w and a, which are made when first needed and never stored. Rows more than 2**53 widths
        out raise. Merge is refused.

    Notes
    -----
    **Guarantee.** Two rows at distance D agree in each hash with probability
    collision_probability(D), independently; so |similarity - that| <= error_bound(c) with
    probability c for each pair, and `distance_range` holds the true distance with probability c.
    Entry j of a code is floor((w_j . x + a_j) / width), modulo 2**32, with a_j uniform in [0,
    width).

    References
    ----------
    .. [1] Datar, Immorlica, Indyk and Mirrokni 2004; thesis 2.3.3.4.

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
        """The shortest code whose similarity is within `error` of the collision probability.

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        width : float
            TODO.
        dimension : int, default=0
            TODO.
        p : int, default=2
            TODO.
        seed : int, default=0
            TODO.

        Returns
        -------
        Self
            The shortest code whose similarity is within `error` of the collision probability.
        """
        error = fraction.check("PStableSketch", "error", error)
        miss = 1 - fraction.check("PStableSketch", "confidence", confidence)
        hashes = max(1, math.ceil(math.log(2 / miss) / 2 / error**2 - 1e-9))
        return cls(width, dimension=dimension, hashes=hashes, p=p, seed=seed)

    def collision_probability(self, distance: Any) -> Any:
        """With which probability one hash of two rows at this distance agrees; 1 at distance 0.

        Parameters
        ----------
        distance : object
            TODO.

        Returns
        -------
        object
            TODO.
        """
        ratio = np.asarray(distance, np.float64) / self.width
        if not (ratio >= 0).all():
            raise ValueError("PStableSketch: distance must be at least 0.")
        return collision_probability(ratio, self.p)[()]

    def similarity(self, other: Self) -> np.ndarray:
        """The share of equal integers, for each row here (down) and there (across).

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            The share of equal integers, for each row here (down) and there (across).
        """
        return self._equal(other) / self.hashes

    def distance(self, other: Self) -> np.ndarray:
        """The distance whose collision probability is the similarity; infinite where that is 0.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        ndarray
            The distance whose collision probability is the similarity; infinite where that is 0.
        """
        shares = np.arange(self.hashes + 1) / self.hashes
        return np.asarray(self.width * _ratio(shares, self.p)[self._equal(other)])

    def distance_range(
        self, other: Self, confidence: float = 0.99
    ) -> tuple[np.ndarray, np.ndarray]:
        """The shortest and longest distance that are plausible for each pair (Clopper, Pearson).

        Parameters
        ----------
        other : Self
            TODO.
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        tuple
            The shortest and longest distance that are plausible for each pair (Clopper, Pearson).
        """
        from scipy.special import betaincinv  # here, since its import takes a quarter of a second

        miss = 1 - fraction.check("PStableSketch", "confidence", confidence)
        same, all_ = np.arange(self.hashes + 1), self.hashes
        # The beta quantiles are undefined where none or all agree; the ends are then exact.
        low = np.where(same > 0, betaincinv(np.maximum(same, 1), all_ - same + 1, miss / 2), 0)
        rest = np.maximum(all_ - same, 1)
        high = np.where(same < all_, betaincinv(same + 1, rest, 1 - miss / 2), 1)
        equal = self._equal(other)
        near, far = (self.width * _ratio(share, self.p) for share in (high, low))
        return near[equal], far[equal]

    def error_bound(self, confidence: float = 0.99) -> float:
        """What the similarity of one pair may be off by, with this probability (Hoeffding).

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            What the similarity of one pair may be off by, with this probability (Hoeffding).
        """
        miss = 1 - fraction.check("PStableSketch", "confidence", confidence)
        return math.sqrt(math.log(2 / miss) / (2 * self.hashes))

    def _equal(self, other: Self) -> np.ndarray:
        return self._compare(other, buckets.equal)

    def _write_codes(self, values: np.ndarray, start: int, out: np.ndarray) -> None:
        far = buckets.fill(values, self._offsets(), self.width, REACH, out)
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
    """P(same bucket) where the projections differ by ratio Z widths, Z stable and |Z| of density f.

    It is the integral of f(t / r) / r (1 - t) over t from 0 to 1: once the offset is uniform, a gap
    of t widths is not cut with probability 1 - t.
    """
    from scipy.special import erf

    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        inverse = 1 / ratio
        if p == 2:
            tail = ratio * math.sqrt(2 / math.pi) * np.expm1(-(inverse**2) / 2)
            chance = erf(inverse / math.sqrt(2)) + tail
        else:
            # log(1 + 1 / r**2), without squaring what would overflow
            log = 2 * np.log(np.hypot(1, inverse))
            chance = (2 * np.arctan(inverse) - ratio * log) / math.pi
        return np.where(ratio == 0, 1.0, np.where(np.isinf(ratio), 0.0, chance))


def _ratio(shares: np.ndarray, p: int) -> np.ndarray:
    """The distance, in widths, of each collision probability: by halving, as that decreases."""
    low, high = np.full(shares.shape, -WIDEST), np.full(shares.shape, WIDEST)
    for _ in range(60):
        middle = (low + high) / 2
        near = collision_probability(2.0**middle, p) > shares
        low, high = np.where(near, middle, low), np.where(near, high, middle)
    return np.where(shares >= 1, 0.0, np.where(shares <= 0, math.inf, 2.0**low))
