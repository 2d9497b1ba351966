"""AMS: the sum of squared counts of a stream, and inner products of two, in fixed memory."""

from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato._require import fraction, one_of, whole
from sfumato.hashing import BLOCK
from sfumato.kernels import counters, moments
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._chebyshev import median_rows, row_miss
from sfumato.sketch._columns import whole_weights
from sfumato.sketch._heaviest import bounded_weight, check_heaviest, heaviest
from sfumato.sketch._keyed import KeyedSketch
from sfumato.sketch._noisy_table import Touched, planned
from sfumato.sketch._release import Options, Terms
from sfumato.sketch.released_ams import ReleasedAMS

__all__ = ["AMS"]


class AMS(KeyedSketch):
    """The second frequency moment F2 (the sum over keys of count squared) of a turnstile stream.

    Guarantee: |estimate - F2| <= error_bound(c) * F2 with probability c: the mean over a row has
    variance at most 2 F2**2 / width (Chebyshev), and the median of the rows is taken.
    Parameters: width, cells averaged, up to 2**24; depth, rows; seed, of all hashes; kind, "fast"
    (a key changes one cell a row) or "tug-of-war" (it changes all; the original). Weights are whole
    numbers below 2**31 in size; when the sum of their sizes passes 2**63 - 1 the update raises and
    changes nothing. Merges exactly.

    >>> round(AMS(width=1024).update([1, 1, 1, 2]).estimate())
    10

    Alon, Matias and Szegedy 1996; fast: Thorup and Zhang 2004; thesis 2.3.2.7.
    """

    width: Annotated[int, whole(2, 2**24)]
    depth: Annotated[int, whole(1, 32)]
    seed: Annotated[int, SEED]
    kind: Annotated[str, one_of(("fast", "tug-of-war"))]
    mass: int
    heaviest: int
    keys: str
    _table: np.ndarray
    version = 3  # a key has one hash, whatever its type
    _scalars = {"mass": 0, "heaviest": 0, "keys": ""}

    def __init__(
        self, width: int = 1024, depth: int = 5, *, seed: int = 0, kind: str = "fast"
    ) -> None:
        self._set_parameters(width=width, depth=depth, seed=seed, kind=kind)
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, **parameters: Any) -> Self:
        """The smallest sketch whose relative error is within `error` with this probability."""
        error = fraction.check("AMS", "error", error)
        miss = 1 - fraction.check("AMS", "confidence", confidence)
        width, depth = median_rows(2.0, error, miss)
        return cls(width, depth, **parameters)

    def update(self, keys: Any, weights: Any = None, *, clip: int | None = None) -> Self:
        """Add every key's weight, or one; a negative weight removes.

        Parameters: weights, whole numbers; clip, a public bound of their size that they are clipped
        to: each weight is then read by itself and none is refused, as a private release needs.
        """
        column = self._key_column(keys)
        weighted = whole_weights("AMS", weights, column.size, low=-(2**31) + 1, clip=clip)
        sizes = None if weighted is None else np.abs(weighted)
        added = column.size if sizes is None else int(sizes.sum())
        self.mass = whole(0).check("AMS", "mass", self.mass + added)
        self.heaviest = max(self.heaviest, heaviest(sizes, column.size))
        scratch = np.empty(min(BLOCK, column.size), np.uint32)
        for rows, hashes in self._hashes(column):
            each = np.ones(hashes.size, np.int64) if weighted is None else weighted[rows]
            if self.kind == "fast":
                counters.add_signed(self._table, hashes, scratch, each)
            else:
                moments.pull(self._table, hashes, each)
        self._note_keys(column)
        return self

    def estimate(self) -> float:
        """F2: the sum of the squared counts."""
        return self.inner(self)

    def inner(self, other: Self) -> float:
        """The inner product of the counts of two streams sketched alike.

        Its error is within error_bound(c) times the root of the product of both F2.
        """
        self._check_same(other, "compare")
        products = self._rows() * other._rows()
        row = products.sum(axis=1) if self.kind == "fast" else products.mean(axis=1)
        return float(np.median(row))

    def error_bound(self, confidence: float = 0.99) -> float:
        """The relative error of F2 that is kept with this probability."""
        miss = 1 - fraction.check("AMS", "confidence", confidence)
        return float(np.sqrt(2 / (self.width * row_miss(self.depth, miss))))

    def release(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        weight: int = 1,
        noise: str | None = None,
        **options: Unpack[Options],
    ) -> ReleasedAMS:
        """A private copy with noise on every cell.

        Guarantee: (epsilon, delta)-private for one unit: an event of weight at most w in size
        changes by at most w one cell in each row ("fast") or all cells ("tug-of-war", whose noise
        is that much larger), so L1 is w times that number and L2 w times its root. At delta 0 the
        noise is discrete Laplace, else whichever of that and discrete Gaussian has the smaller
        variance.
        Parameters: epsilon above 0; delta from 0 to 1; weight, the most that one event weighs in
        size, public, refused where the sketch holds a heavier one; noise, "laplace" or "gaussian",
        whichever is smaller unless told; options: ledger and dataset, unit, relation,
        contributions, release_id (docs/privacy.md).

        >>> AMS(256).update([1, 1, 1, 2]).release(epsilon=1, delta=1e-9).statement.unit
        'event'
        """
        weight = bounded_weight("AMS", weight, self.heaviest)
        terms = Terms.of("AMS", epsilon, delta, options)
        cells = self.depth * (1 if self.kind == "fast" else self.width)
        shape = dict(width=self.width, depth=self.depth, seed=self.seed, kind=self.kind)
        touched = Touched(cells, weight, times=terms.events)
        return planned(ReleasedAMS, shape, self._used(), terms, touched, noise).publish(terms)

    def _used(self) -> np.ndarray:
        """The cells without those that only fill up a word of signs."""
        cells = self._table.reshape(-1)[: self.depth * self.width]
        return cells.reshape(self.depth, self.width)

    def _rows(self) -> np.ndarray:
        return self._used().astype(np.float64)

    def _join(self, other: Self) -> None:
        most = max(self.heaviest, other.heaviest)
        super()._join(other)  # which adds up the heaviest of both: too much, until it is done
        self.heaviest = most

    def _check_state(self) -> None:
        super()._check_state()
        if self.mass < 0 or self._table.min() < -self.mass or self._table.max() > self.mass:
            raise ValueError("a cell is out of range.")
        check_heaviest(self.heaviest, self.mass)

    def _layout(self) -> dict[str, Cells]:
        shape: tuple[int, ...] = self.depth, self.width
        if self.kind == "tug-of-war":  # signs come 64 at a time
            shape = (64 * -(-self.depth * self.width // 64),)
        return {"_table": Cells(np.int64, shape)}
