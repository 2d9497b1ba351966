"""Data that several parties hold: their releases answer together, for what each promised alone."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Matrix
from sfumato.core.validation import flag, fraction
from sfumato.privacy.release import Release
from sfumato.privacy.statement import INSECURE, SYSTEM, PrivacyStatement

__all__ = ["CombinedRelease", "combine"]

OF_THE_NOISE = (
    "noise",
    "scale",
    "count_weight",
    "counts",
)  # parameters in which parties may differ
DISJOINT = (
    "each party's release by that party's own statement; and all together only as far as no unit "
    "is in the data of two parties, which is an assumption"
)
SHARED = "all releases together, for a unit that may be in the data of every party"


class CombinedRelease:
    """Releases of several parties, asked as one; made by `combine`.

    Parameters
    ----------
    releases : sequence
        TODO.
    statement : PrivacyStatement
        TODO.

    Notes
    -----
    **Guarantee.** Every answer is the sum of theirs, so that the mean of an estimate is the kernel
    sum over the points of all; the variances of their noises add. It holds the releases and nothing
    else, and costs nothing beyond them.
    """

    def __init__(self, releases: Sequence[Any], statement: PrivacyStatement) -> None:
        self.releases, self.statement = tuple(releases), statement

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters that all releases have in common."""
        return _common(self.releases[0])

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return int(self.releases[0].dimension)

    def estimate(self, queries: Matrix, **asked: Any) -> np.ndarray:
        """The sum of kernels between every query and the points of all parties.

        Parameters
        ----------
        queries : array_like
            And what else the releases may be asked, as another bandwidth.
        **asked : object
            TODO.

        Returns
        -------
        ndarray
            The sum of kernels between every query and the points of all parties.
        """
        return np.asarray(sum(each.estimate(queries, **asked) for each in self.releases))

    def mean(self, queries: Matrix, **asked: Any) -> np.ndarray:
        """The mean of the kernel over all points: `estimate` over `size`.

        Parameters
        ----------
        queries : array_like
            TODO.
        **asked : object
            TODO.

        Returns
        -------
        ndarray
            The mean of the kernel over all points: `estimate` over `size`.
        """
        return np.asarray(self.estimate(queries, **asked) / (self.size() or math.nan))

    def size(self) -> float:
        """The number of points of all parties, or their weight.

        Returns
        -------
        float
            The number of points of all parties, or their weight.
        """
        return float(sum(each.size() for each in self.releases))

    def noise_error(self) -> float:
        """The standard deviation of the noise of an estimate: noises of parties are independent.

        Returns
        -------
        float
            The standard deviation of the noise of an estimate: noises of parties are independent.
        """
        return math.hypot(*(each.noise_error() for each in self.releases))

    def error_bound(self, confidence: float = 0.99) -> float:
        """What an estimate may be off by: the sum of all bounds, each at its part of the chance.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            What an estimate may be off by: the sum of all bounds, each at its part of the chance.
        """
        miss = 1 - fraction.check("CombinedRelease", "confidence", confidence)
        each = 1 - miss / len(self.releases)
        return float(sum(release.error_bound(each) for release in self.releases))

    def __repr__(self) -> str:
        kind = type(self.releases[0]).__name__
        return described(self, self.statement.headline, releases=len(self.releases), of=kind)

    def __str__(self) -> str:
        return f"{self!r}\n{self.statement}"


def combine(releases: Sequence[Release], *, disjoint: bool = False) -> CombinedRelease:
    """The releases of parties that each added all of the noise, as one that answers for all.

    Parameters
    ----------
    releases : sequence
        Of one kind and of the same public parameters (noise and scale may differ), unit and
        relation.
    disjoint : bool, default=False
        True where it is known that no unit is in the data of two parties: the statement then names
        the largest epsilon and this assumption.

    Returns
    -------
    CombinedRelease
        The releases of parties that each added all of the noise, as one that answers for all.

    Notes
    -----
    **Guarantee.** Nothing but the releases is used, so that each party's promise stands as it is.
    For a unit in the data of several parties, epsilons and deltas add up, and the statement says
    so.

    References
    ----------
    .. [1] Parallel composition: McSherry 2009, theorem 4.

    Examples
    --------
    >>> from sfumato.sketch import KernelFourier
    >>> parts = [[[1.0], [2.0]], [[2.0], [3.0]]]
    >>> told = [KernelFourier(1.0, (0, 9)).update(part).release(epsilon=0.5) for part in parts]
    >>> combine(told).statement.epsilon, combine(told, disjoint=True).statement.epsilon
    (1.0, 0.5)
    """
    flag.check("combine", "disjoint", disjoint)
    releases = list(releases)
    _check_alike(releases)
    return CombinedRelease(releases, _statement([each.statement for each in releases], disjoint))


def _check_alike(releases: list[Any]) -> None:
    if not releases or not all(isinstance(each, Release) for each in releases):
        raise TypeError("combine: releases must be releases of sketches, at least one.")
    first = releases[0]
    for other in releases[1:]:
        if type(other) is not type(first):
            one, two = type(first).__name__, type(other).__name__
            raise TypeError(f"combine: releases must be of one kind, not {one} and {two}.")
        mine, yours = _common(first), _common(other)
        for name in ("unit", "relation"):
            mine[name], yours[name] = getattr(first.statement, name), getattr(other.statement, name)
        for name, value in mine.items():
            if yours[name] != value:
                raise ValueError(
                    f"combine: releases must agree, {name} is {value!r} in one and "
                    f"{yours[name]!r} in another."
                )
    if len({id(each) for each in releases}) < len(releases):
        raise ValueError("combine: a release must not be counted twice.")


def _common(release: Any) -> dict[str, Any]:
    return {name: at for name, at in release.parameters.items() if name not in OF_THE_NOISE}


def _statement(told: list[PrivacyStatement], disjoint: bool) -> PrivacyStatement:
    """What the releases promise together; that of several budgets is accounted by none."""
    together = max if disjoint else math.fsum
    delta = together([each.delta for each in told])
    if delta >= 1:
        raise ValueError("combine: the deltas of all releases add up to 1 or more.")
    return PrivacyStatement(
        unit=told[0].unit,
        relation=told[0].relation,
        mechanism=f"a sum of {len(told)} releases with noise of their own: {told[0].mechanism}",
        epsilon=together([each.epsilon for each in told]),
        delta=delta,
        loss={},
        proof="proved" if all(each.proof == "proved" for each in told) else "measured",
        covers=DISJOINT if disjoint else SHARED,
        source=INSECURE if any(each.insecure for each in told) else SYSTEM,
        contributions=max(each.contributions for each in told),
    )
