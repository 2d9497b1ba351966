"""Fitted state of UserNeighbours, and its conversion to and from a file."""

import math
from typing import Any

import numpy as np

from sfumato.core.ids import kind_of
from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, between, flag, one_of, optional
from sfumato.recommend.base import Estimator
from sfumato.recommend.catalogue import SortedCatalogue
from sfumato.recommend.neighbours.popularity_shrinkage import PopularityPrior
from sfumato.recommend.neighbours.profiles import COMMON, THREADS, Profiles, RawProfiles
from sfumato.recommend.neighbours.rating_neighbours import RatingNeighbours

__all__ = ["UserNeighboursFile"]

KIND = one_of(("integers", "text"))
# What `fit` estimates beside the popularity of items: the shrinkage of scores.
FACTOR = between(0, math.inf)
ESTIMATES: dict[str, Limit] = {
    "between": optional(FACTOR),
    "overdispersion": FACTOR,
}


class UserNeighboursFile(Estimator, in_files=False):
    """What `UserNeighbours.fit` sets, and its file.

    Guarantee: a file has whole histories, exact, and what was estimated from them; a model of a
    release has no file, since the release has one.
    """

    profiles_: Profiles
    crowd_: PopularityPrior
    _settings: dict[str, Any]  # the parameters that the model was fitted with
    _rated: RatingNeighbours | None

    def _adopt(self, profiles: Any, prior: PopularityPrior, rated: RatingNeighbours | None) -> None:
        """Set what was learned from the profiles."""
        self.profiles_, self.crowd_, self._rated = profiles, prior, rated
        self._known = SortedCatalogue(profiles.users_)
        self.mean_, self.low_, self.high_ = 0.0, 0.0, 1.0
        if rated is not None:
            self.mean_, self.low_, self.high_ = rated.mean_, rated.low_, rated.high_

    def to_bytes(self) -> bytes:
        self._check_fitted()
        if not isinstance(self.profiles_, RawProfiles):
            raise ValueError(
                "UserNeighbours: a model of released profiles is not saved; save the release, and "
                "fit to it again."
            )
        return super().to_bytes()

    def _layout(self) -> dict[str, Cells]:
        crowd = {name: Cells(np.float64, (-1,)) for name in ("crowd_mean", "crowd_variance")}
        profiles: Any = self.__dict__.get("profiles_")
        kinds = self._kinds
        if profiles is not None:
            kinds = kind_of(profiles.users_), kind_of(profiles.items_)
        rated = {"rated": Cells(np.uint8, (-1,))} if self._settings["predicts"] == "ratings" else {}
        return {**RawProfiles._layout(*kinds), **crowd, **rated}

    def _arrays(self) -> dict[str, np.ndarray]:
        crowd = {"crowd_mean": self.crowd_.mean, "crowd_variance": self.crowd_.variance}
        if self._rated is not None:
            crowd["rated"] = np.frombuffer(self._rated.to_bytes(), np.uint8)
        return {**self.profiles_._arrays(), **crowd}  # type: ignore[attr-defined]

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        mean, variance = arrays.pop("crowd_mean"), arrays.pop("crowd_variance")
        if not mean.shape == variance.shape == (len(self.catalogue_),) or (variance < 0).any():
            raise ValueError("mean and variance must be one for each item.")
        inner = arrays.pop("rated", None)
        profiles = RawProfiles._from_arrays(arrays, **self._built)
        rated = None if inner is None else RatingNeighbours.from_bytes(inner.tobytes())
        if rated is not None and rated.user_kind_ != kind_of(profiles.users_):
            raise ValueError("the model of ratings must be of the same users.")
        if rated is not None and rated.catalogue_ != self.catalogue_:
            raise ValueError("the model of ratings must be of the same catalogue.")
        self._adopt(profiles, PopularityPrior(mean, variance, **self._estimates), rated)
        del self._kinds, self._built, self._estimates

    def _state(self) -> dict[str, Any]:
        profiles: Any = self.profiles_
        estimates = {
            "between": self.crowd_.between,
            "overdispersion": self.crowd_.overdispersion,
        }
        return {
            **super()._state(),
            **estimates,
            "users": kind_of(profiles.users_),
            "items": kind_of(profiles.items_),
            "rated": profiles._rated,
            "least_common": profiles.least_common,
            "threads": profiles.threads,
            "fitted": self._settings,
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._kinds = tuple(KIND.check("state", name, state[name]) for name in ("users", "items"))
        built: dict[str, Limit] = {"rated": flag, "least_common": COMMON, "threads": THREADS}
        self._built, self._estimates, self._settings = (
            {name: limit.check("state", name, given[name]) for name, limit in limits.items()}
            for given, limits in (
                (state, built),
                (state, ESTIMATES),
                (state["fitted"], self.LIMITS),
            )
        )
