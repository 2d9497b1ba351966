"""Bands of signatures: the S-curve of a construction, and the bands that fit a threshold best."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.tables import described
from sfumato.core.validation import fraction, integer, optional, positive
from sfumato.errors import ParameterError
from sfumato.retrieve.lsh.amplification import Sensitive

__all__ = ["THRESHOLD", "SCurve", "UpTo", "choose_bands"]

COUNT = integer(1, 2**20)
PERMUTATIONS = integer(1, 2**16)
NODES = 128  # of the quadrature of areas: exact to 1e-9 up to 4,096 permutations
KINDS = ("and", "or")


@dataclass(frozen=True)
class UpTo:
    """Limit of a parameter: a number above 0, up to `high` included."""

    high: float = 1.0

    def check(self, owner: str, name: str, value: Any) -> float:
        number = positive.check(owner, name, value)
        if number > self.high:
            wanted = f"must be a number above 0 and at most {self.high:g}, not {value!r}."
            raise ParameterError.of(owner, name, wanted)
        return number

    def bad(self) -> list[Any]:
        return [*positive.bad(), self.high + 1]


THRESHOLD = UpTo()


class SCurve:
    """Probability that a pair becomes a candidate, as a function of its similarity.

    A construction combines independent hashes of a locality-sensitive family step by step: "and"
    demands that all of n agree, "or" that at least one does. `and_or` are bands of rows, the usual
    construction; longer cascades are steeper and need more hashes.

    Parameters
    ----------
    *steps : tuple of (str, int)
        Steps in the order of their application, as ("and", 4), ("or", 4); numbers from 1 to 2**20.

    Attributes
    ----------
    steps : tuple
        The steps.

    Notes
    -----
    **Guarantee.** `probability(s)` is exact if one hash agrees with probability s, as MinHash does
    for Jaccard similarity s (1 - angle / pi for cosine sketches). `family` states the same as a
    (d1, d2, p1, p2)-sensitive family of any base family.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", sections 3.4.2 and 3.6.3.
       http://www.mmds.org

    Examples
    --------
    >>> curve = SCurve.and_or(rows=5, bands=10)
    >>> curve.probability([0.4, 0.6, 0.8]).round(4)
    array([0.0978, 0.5549, 0.9811])
    >>> cascade = SCurve(("or", 4), ("and", 4), ("and", 4), ("or", 4))
    >>> cascade.hashes, round(cascade.family(0.2, 0.8).far_agree, 6)
    (256, 0.000871)
    """

    def __init__(self, *steps: tuple[str, int]) -> None:
        for step in steps:
            if not (isinstance(step, Sequence) and len(step) == 2 and step[0] in KINDS):
                raise ValueError(
                    f'SCurve: a step must be ("and", n) or ("or", n), not {step!r:.100}.'
                )
        self.steps: tuple[tuple[str, int], ...] = tuple(
            (kind, COUNT.check("SCurve", kind, n)) for kind, n in steps
        )

    @classmethod
    def and_or(cls, rows: int, bands: int) -> "SCurve":
        """Build bands of rows: all rows of at least one band agree.

        Parameters
        ----------
        rows : int
            Hashes of a band, 1 to 2**20.
        bands : int
            Number of bands, 1 to 2**20.

        Returns
        -------
        SCurve
            The curve ``1 - (1 - s**rows)**bands``.
        """
        return cls(("and", rows), ("or", bands))

    @classmethod
    def or_and(cls, bands: int, rows: int) -> "SCurve":
        """Build the mirror image of bands: at least one hash of each of several groups agrees.

        Parameters
        ----------
        bands : int
            Hashes of a group, 1 to 2**20.
        rows : int
            Number of groups, 1 to 2**20.

        Returns
        -------
        SCurve
            The curve ``(1 - (1 - s)**bands)**rows``.
        """
        return cls(("or", bands), ("and", rows))

    def then(self, other: "SCurve") -> "SCurve":
        """Apply another construction to this one.

        Parameters
        ----------
        other : SCurve
            Construction whose hashes are copies of this one.

        Returns
        -------
        SCurve
            The cascade.
        """
        return SCurve(*self.steps, *other.steps)

    def __repr__(self) -> str:
        return described(self, steps=self.steps)

    def __eq__(self, other: object) -> bool:
        return self.steps == other.steps if isinstance(other, SCurve) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.steps)

    @property
    def hashes(self) -> int:
        """Number of hashes that the construction needs."""
        return math.prod(n for _, n in self.steps)

    @property
    def rows(self) -> int:
        """Hashes of a band; only of `and_or`."""
        return self._shape[0]

    @property
    def bands(self) -> int:
        """Number of bands; only of `and_or`."""
        return self._shape[1]

    @property
    def _shape(self) -> tuple[int, int]:
        if [kind for kind, _ in self.steps] != ["and", "or"]:
            raise ValueError("SCurve: only bands of rows (and_or) have rows and bands.")
        return self.steps[0][1], self.steps[1][1]

    def probability(self, similarity: Any) -> np.ndarray:
        """Compute the probability that pairs become candidates.

        Parameters
        ----------
        similarity : array_like
            Probabilities that one hash agrees, from 0 to 1.

        Returns
        -------
        ndarray
            One probability each, to full precision also where it is small.
        """
        agree = np.asarray(similarity, np.float64)
        if not ((agree >= 0) & (agree <= 1)).all():
            raise ValueError("SCurve: similarity must be from 0 to 1; another number is given.")
        for kind, n in self.steps:
            with np.errstate(divide="ignore"):  # log1p(-1): at least one agrees for sure
                agree = agree**n if kind == "and" else -np.expm1(n * np.log1p(-agree))
        return agree

    def family(self, near: float, far: float, base: Sensitive | None = None) -> Sensitive:
        """State the construction as a (d1, d2, p1, p2)-sensitive family.

        Parameters
        ----------
        near : float
            Distance d1 up to which pairs are near.
        far : float
            Distance d2 from which pairs are far.
        base : Sensitive or None, default=None
            The family of one hash at these distances; None for one that agrees with probability 1 -
            distance, as MinHash does.

        Returns
        -------
        Sensitive
            Distances and the probabilities p1 and p2.
        """
        found = Sensitive(near, far, 1 - near, 1 - far) if base is None else base
        for kind, n in self.steps:
            found = found.every(n) if kind == "and" else found.some(n)
        return found

    @functools.cached_property
    def threshold(self) -> float:
        """Similarity at which the probability is 1/2, exactly.

        It is not the steepest point of the curve, but near it.
        """
        return self._solved(lambda s, p: p - 0.5)

    @property
    def approximate_threshold(self) -> float:
        """The usual approximation ``(ln 2 / bands)**(1 / rows)`` of `threshold`; only of and_or."""
        rows, bands = self._shape
        return float((math.log(2) / bands) ** (1 / rows))

    @functools.cached_property
    def fixed_point(self) -> float:
        """Similarity t with probability t, between 0 and 1: higher ones rise, lower ones fall.

        NaN if there is none, as for a single step.
        """
        kinds = {kind for kind, n in self.steps if n > 1}
        if kinds != set(KINDS):
            return math.nan
        return self._solved(lambda s, p: (p - s) / (s * (1 - s)))

    def _solved(self, rises: Any) -> float:
        """Bisect for the similarity from which a function of it and its probability is positive."""
        low, high = 0.0, 1.0
        for _ in range(200):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            below = rises(middle, float(self.probability(middle))) < 0
            low, high = (middle, high) if below else (low, middle)
        return (low + high) / 2

    def areas(self, threshold: float) -> tuple[float, float]:
        """Integrate the false positives below a threshold and the false negatives above it.

        Parameters
        ----------
        threshold : float
            Similarity from which pairs are wanted, above 0 and at most 1.

        Returns
        -------
        false_positive : float
            Integral of the probability from 0 to the threshold.
        false_negative : float
            Integral of 1 - probability from the threshold to 1.
        """
        split = THRESHOLD.check("SCurve", "threshold", threshold)
        nodes, weights = _quadrature()
        below = split * (weights @ self.probability(split * nodes))
        above = (1 - split) * (weights @ (1 - self.probability(split + (1 - split) * nodes)))
        return float(below), float(above)


def choose_bands(
    threshold: float,
    permutations: int = 128,
    *,
    false_positive_weight: float = 0.5,
    false_negative_weight: float = 0.5,
    recall: float | None = None,
) -> SCurve:
    """Choose bands and rows of a signature for a similarity threshold.

    Parameters
    ----------
    threshold : float
        Similarity from which pairs are wanted, above 0 and at most 1.
    permutations : int, default=128
        Length of the signatures, 1 to 2**16; bands times rows is at most that.
    false_positive_weight : float, default=0.5
        Weight of the area below the curve left of the threshold, above 0.
    false_negative_weight : float, default=0.5
        Weight of the area above the curve right of the threshold, above 0.
    recall : float or None, default=None
        Instead of weighing areas: the longest bands that find a pair at the threshold with at least
        this probability, between 0 and 1.

    Returns
    -------
    SCurve
        The curve, with its `bands` and `rows`.

    Notes
    -----
    **Guarantee.** Of all bands and rows, the weighted sum of both areas is the smallest; or, with
    `recall`, a pair at or above the threshold is found with at least this probability.

    A pair at the threshold itself is found with a probability near 1/2 when areas are weighed;
    pairs that must not be missed call for `recall`.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 3.4.2.
       http://www.mmds.org

    Examples
    --------
    >>> curve = choose_bands(0.6, permutations=50)
    >>> curve.bands, curve.rows
    (10, 5)
    >>> choose_bands(0.8, recall=0.99).rows
    6
    """
    owner = "choose_bands"
    split = THRESHOLD.check(owner, "threshold", threshold)
    size = PERMUTATIONS.check(owner, "permutations", permutations)
    weights = (
        positive.check(owner, "false_positive_weight", false_positive_weight),
        positive.check(owner, "false_negative_weight", false_negative_weight),
    )
    wanted = optional(fraction).check(owner, "recall", recall)
    if wanted is not None:
        return _by_recall(split, size, wanted)
    costs = [_lowest(split, rows, size // rows, weights) for rows in range(1, size + 1)]
    _, rows, bands = min(costs)
    return SCurve.and_or(rows, bands)


@functools.cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss and Legendre from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return (nodes + 1) / 2, weights / 2


def _lowest(
    threshold: float, rows: int, most: int, weights: tuple[float, float]
) -> tuple[float, int, int]:
    """The lowest weighted area of up to `most` bands of so many rows, with rows and bands."""
    nodes, parts = _quadrature()
    bands = np.arange(1, most + 1)
    missed = [
        np.exp(np.outer(bands, np.log1p(-np.minimum(at**rows, 1 - 1e-16)))) @ parts
        for at in (threshold * nodes, threshold + (1 - threshold) * nodes)
    ]
    areas = threshold * (1 - missed[0]), (1 - threshold) * missed[1]
    costs = weights[0] * areas[0] + weights[1] * areas[1]
    best = int(np.argmin(costs))
    return float(costs[best]), rows, best + 1


def _by_recall(threshold: float, size: int, recall: float) -> SCurve:
    rows = np.arange(size, 0, -1)
    with np.errstate(divide="ignore"):  # log1p(-1) at a threshold of 1
        found = -np.expm1(size // rows * np.log1p(-(threshold**rows)))
    if (found >= recall).any():
        longest = int(rows[np.argmax(found >= recall)])
        return SCurve.and_or(longest, size // longest)
    raise ValueError(
        f"choose_bands: {size} permutations cannot reach a recall of {recall} at a threshold of "
        f"{threshold}; take more permutations."
    )
