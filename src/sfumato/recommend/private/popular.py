"""PrivatePopular: the same list for everybody, by noisy counts of items."""

import math
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, fraction, integer, optional, positive
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.parameters import PRIVACY, Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.inputs import Budget
from sfumato.recommend.private.lists import (
    ListPlan,
    PrivateLists,
    catalogue_of,
    default_per_user,
    sigmas,
    user_request,
)
from sfumato.recommend.private.released_lists import ReleasedLists
from sfumato.recommend.private.user_sums import COUNT, ItemSets, count_sensitivity, presence

__all__ = ["PER_USER", "PrivatePopular", "ReleasedPopular"]

PER_USER = integer(1, 2**15)


class PrivatePopular(PrivateLists):
    """Most popular items by differentially private counts, with all of the budget.

    The baseline that every other private list must beat. The result of `fit` is `release_`, which
    may be published.

    Parameters
    ----------
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float or None, default=None
        Privacy parameter delta, between 0 and 1. Required unless `privacy` gives it.
    per_user : int or None, default=None
        Number of items from which on a user's items count less, from 1 to 32768; must be public.
        Each of a user's k items counts ``min(1, sqrt(per_user / k))``. None chooses 32 per unit of
        epsilon, from 8 to 256.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta and the ledger arguments of `fit`.

    Attributes
    ----------
    release_ : ReleasedPopular
        The private release.

    Notes
    -----
    **Guarantee.** `release_` is (epsilon, delta)-differentially private for one user with any
    number of events, under add/remove adjacency. A user adds the same integer ``w`` to the count of
    each of k different items of the catalogue, the integer square root of ``4096**2 * per_user //
    max(k, per_user)``, so that the squares of all k sum up to at most ``4096**2 * per_user``; and
    to the number of users an integer of at most a fifth of that norm. What a user adds depends on
    that user's rows alone. Discrete Gaussian noise for this norm, rounding included, is added to
    all numbers. The catalogue must be public; nothing else of the data is stored. Rows may be
    filtered beforehand by their own content only, such as the rating.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020.
       https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> baskets = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> model = PrivatePopular(epsilon=1, delta=1e-6)
    >>> model = model.fit(baskets, catalogue=["tea", "milk", "rum"])
    >>> model.statement.proof, model.recommend_fold_in(["tea"], n=2)[0].size
    ('proved', 2)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "epsilon": positive,
        "delta": fraction,
        "per_user": optional(PER_USER),
        "privacy": PRIVACY,
    }
    release_: "ReleasedPopular"

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        per_user: int | None = None,
        privacy: Privacy | None = None,
    ) -> None:
        self.epsilon: float | None
        self.delta: float | None
        self.epsilon, self.delta = epsilon, delta
        self.per_user: int | None
        self.privacy: Privacy | None
        self.per_user, self.privacy = per_user, privacy

    def _planned(self, catalogue: Any, paid: dict[str, Any], source: Source | None) -> ListPlan:
        owner, settings = type(self).__name__, self._limited()
        items = catalogue_of(owner, catalogue)
        request = user_request(owner, {**settings, "privacy": self.privacy}, paid, source)
        per_user = settings["per_user"] or default_per_user(request.epsilon)
        budget = Budget.of(request.epsilon, request.delta)
        noises = sigmas(owner, budget, self._steps(count_sensitivity(per_user)))
        request.check_room(self._room(len(items)))
        return ListPlan(
            request, items, lambda sets: self._calibrated(sets, items, per_user, noises, budget)
        )

    def _steps(self, norm: int) -> list[tuple[int, Fraction]]:
        """Return norm and fraction of the budget of every sum that may be released."""
        return [(norm, Fraction(1))]

    def _room(self, items: int) -> int:
        """Return the bytes of the largest release for this many items."""
        return 8 * items

    def _calibrated(self, *parts: Any) -> CalibratedRelease[Any]:
        """Return the release of item sets, catalogue, per_user, sigmas and budget, not yet made."""
        return _calibrated(*parts)


class ReleasedPopular(ReleasedLists):
    """Differentially private counts of items; made by `PrivatePopular.fit`.

    It may be published, and recommends without access to the data.

    Attributes
    ----------
    items : int
        Number of items in the catalogue.
    kind : {"integers", "text"}
        Type of the item ids.
    per_user : int
        Number of items from which on a user's items count less.
    scale : float
        Scale of the noise on every cell; 4096 cells' units are one user.

    Notes
    -----
    **Guarantee.** That of its `statement`, for all numbers together. All results are computed from
    the noisy numbers, the public catalogue and the arguments of the call (post-processing), and
    cost no further budget. No user's history is stored.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import PrivatePopular
    >>> baskets = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> model = PrivatePopular(epsilon=1, delta=1e-6)
    >>> release = model.fit(baskets, catalogue=["tea", "milk", "rum"]).release_
    >>> release.items, release.counts(["tea", "rum"]).shape
    (3, (2,))
    """

    per_user: Annotated[int, PER_USER]
    scale: Annotated[float, positive]
    _cells: np.ndarray
    _of = "PrivatePopular"

    def _check_parameters(self) -> None:
        if self.scale > noise.LARGEST:
            raise ValueError(f"{type(self).__name__}: scale must be at most 2**40.")

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.int64, (self.items + 1,)), **Catalogue.layout(self.kind)}

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on the count of an item."""
        return math.sqrt(self._variance) / COUNT

    @property
    def users(self) -> float:
        """Noisy number of users with items of the catalogue."""
        return float(self._sums[self.items] / presence(self.per_user))

    def counts(self, items: Ids) -> np.ndarray:
        """Estimate how many users have each item, users of many items counting less.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the catalogue.

        Returns
        -------
        ndarray of shape (n,)
            Noisy counts, which may be negative. Each of a user's k items counts ``min(1,
            sqrt(per_user / k))``.
        """
        return np.asarray(self._popular[self._positions(items)])

    @property
    def _variance(self) -> float:
        """Variance of the noise on a cell."""
        return self.scale**2

    @property
    def _sums(self) -> np.ndarray:
        """Noisy sums: of all items, then of users."""
        return self._cells

    @property
    def _popular(self) -> np.ndarray:
        """Noisy counts of all items."""
        return np.asarray(self._sums[: self.items] / COUNT)

    def _popularity(self) -> np.ndarray:
        return self._popular / max(self.users, 1.0)


def _calibrated(
    sets: ItemSets, items: Catalogue, per_user: int, noises: list[int], budget: Budget
) -> CalibratedRelease[ReleasedPopular]:
    """Return the release with its parameters, loss, mechanism and function that adds the noise."""
    (sigma,) = noises

    def noisy(source: Source) -> dict[str, np.ndarray]:
        cells = sets.counts(len(items), per_user)
        noise.add_gaussian(cells, sigma, source=source)
        return {"_cells": cells, **{name: each.copy() for name, each in items.arrays().items()}}

    parameters = dict(items=len(items), kind=items.kind, per_user=per_user, scale=float(sigma))
    mechanism = (
        f"discrete Gaussian noise, sigma {sigma:.6g}, on {COUNT} times the counts of {len(items)} "
        f"items and of users; each of a user's k items counts min(1, sqrt({per_user} / k))"
    )
    return CalibratedRelease(ReleasedPopular, parameters, budget.loss, mechanism, noisy)
