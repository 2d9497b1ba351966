"""Releases of several parties that answer as one, at no cost beyond their own."""

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
    "pilot_scale",
    "block_scale",
    "level_scale",
)  # parameters that may differ between parties
DISJOINT = (
    "each party's release by that party's own statement; and all together only as far as no unit "
    "is in the data of two parties, which is an assumption"
)
SHARED = "all releases together, for a unit that may be in the data of every party"


class CombinedRelease:
    """Releases of several parties that answer queries as one; made by `combine`.

    Parameters
    ----------
    releases : sequence of Release
        Releases of one kind and of the same public parameters.
    statement : PrivacyStatement
        What the releases guarantee together.

    Notes
    -----
    **Guarantee.** Every estimate is the sum of the estimates of the releases, so that its
    expectation is the kernel sum over the points of all parties; the variances of their noises add.
    It stores the releases and nothing else, and costs no privacy beyond theirs.

    Examples
    --------
    >>> from sfumato.sketch import KernelFourier
    >>> parts = [[[1.0], [2.0]], [[2.0], [3.0]]]
    >>> releases = [KernelFourier(1.0, (0, 9)).update(part).release(epsilon=0.5) for part in parts]
    >>> together = combine(releases)
    >>> len(together.releases), together.dimension
    (2, 1)
    """

    def __init__(self, releases: Sequence[Any], statement: PrivacyStatement) -> None:
        self.releases, self.statement = tuple(releases), statement

    @property
    def parameters(self) -> dict[str, Any]:
        """The public parameters that all releases have in common."""
        return _common(self.releases[0])

    @property
    def dimension(self) -> int:
        """Number of columns of a point."""
        return int(self.releases[0].dimension)

    def estimate(self, queries: Matrix, **options: Any) -> np.ndarray:
        """Estimate the sum of kernels between each query and the points of all parties.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_features)
            Query points.
        **options : object
            Further options of the releases' own method, such as another bandwidth.

        Returns
        -------
        ndarray of shape (n_queries,)
            Estimated kernel sums; noise may make them negative.
        """
        return np.asarray(sum(each.estimate(queries, **options) for each in self.releases))

    def mean(self, queries: Matrix, **options: Any) -> np.ndarray:
        """Estimate the mean kernel value over the points of all parties.

        Parameters
        ----------
        queries : array_like of shape (n_queries, n_features)
            Query points.
        **options : object
            Further options of the releases' own method, such as another bandwidth.

        Returns
        -------
        ndarray of shape (n_queries,)
            `estimate` divided by `size`.
        """
        return np.asarray(self.estimate(queries, **options) / (self.size() or math.nan))

    def size(self) -> float:
        """Estimate the number of points of all parties.

        Returns
        -------
        float
            Noisy number of points, or their total weight.
        """
        return float(sum(each.size() for each in self.releases))

    def noise_error(self) -> float:
        """Compute the standard deviation of the noise of an estimate.

        Returns
        -------
        float
            Root of the sum of the parties' noise variances, since their noises are independent. The
            error of hashing is not included.
        """
        return math.hypot(*(each.noise_error() for each in self.releases))

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the error of an estimate.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability that the bound holds for one query, between 0 and 1.

        Returns
        -------
        float
            Sum of the bounds of all releases, each at an equal part of the failure probability.

        Notes
        -----
        **Guarantee.** ``|estimate - true| <= error_bound(c)`` with probability at least ``c`` for
        each query, by a union bound over the releases.
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
    """Combine releases of several parties into one that answers for all.

    Parameters
    ----------
    releases : sequence of Release
        Releases of one kind and of the same public parameters, unit and relation; noise and scale
        may differ. Each party added all of the noise itself.
    disjoint : bool, default=False
        Whether no unit is in the data of two parties. The statement then gives the largest epsilon,
        and names this assumption.

    Returns
    -------
    CombinedRelease
        The releases, answering as one.

    Notes
    -----
    **Guarantee.** Only the releases are used, so that the guarantee of each party stands unchanged.
    For a unit in the data of several parties, the epsilons and deltas add up, as the statement
    says.

    References
    ----------
    .. [1] McSherry. "Privacy Integrated Queries: An Extensible Platform for Privacy-Preserving Data
       Analysis". SIGMOD 2009, Theorem 4 (parallel composition).
       https://doi.org/10.1145/1559845.1559850

    Examples
    --------
    >>> from sfumato.sketch import KernelFourier
    >>> parts = [[[1.0], [2.0]], [[2.0], [3.0]]]
    >>> releases = [KernelFourier(1.0, (0, 9)).update(part).release(epsilon=0.5) for part in parts]
    >>> combine(releases).statement.epsilon, combine(releases, disjoint=True).statement.epsilon
    (1.0, 0.5)
    """
    flag.check("combine", "disjoint", disjoint)
    releases = list(releases)
    _check_compatible(releases)
    return CombinedRelease(releases, _statement([each.statement for each in releases], disjoint))


def _check_compatible(releases: list[Any]) -> None:
    """Raise unless the releases are of one kind, of the same parameters, and distinct."""
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


def _statement(statements: list[PrivacyStatement], disjoint: bool) -> PrivacyStatement:
    """The guarantee of the releases together; no ledger accounts for several budgets."""
    together = max if disjoint else math.fsum
    delta = together([each.delta for each in statements])
    if delta >= 1:
        raise ValueError("combine: the deltas of all releases add up to 1 or more.")
    return PrivacyStatement(
        unit=statements[0].unit,
        relation=statements[0].relation,
        mechanism=f"a sum of {len(statements)} releases with noise of their own: "
        f"{statements[0].mechanism}",
        epsilon=together([each.epsilon for each in statements]),
        delta=delta,
        loss={},
        proof="proved" if all(each.proof == "proved" for each in statements) else "measured",
        covers=DISJOINT if disjoint else SHARED,
        source=INSECURE if any(each.insecure for each in statements) else SYSTEM,
        contributions=max(each.contributions for each in statements),
    )
