"""Estimators that draw points: like those learned from, or from the smoothed density."""

from typing import Any

import numpy as np

from sfumato._require import whole
from sfumato.density._field import field_of
from sfumato.density._matching import Match, matched
from sfumato.density._sampling import by_population, by_rejection, generator
from sfumato.density._streamed import Streamed

__all__ = ["METHODS", "Drawing"]

SMOOTHED = {"rejection": by_rejection, "mcmc": by_population}
METHODS = ("matched", *SMOOTHED)


class Drawing(Streamed, in_files=False):
    """An estimator whose sketch or release alone tells which points to draw."""

    _match: Match | None = None

    def _drawn(self, method: str, n_samples: Any, random_state: Any) -> np.ndarray:
        """So many points by one of METHODS, within the bounds; random_state: ours unless given."""
        count = whole(0).check(self._owner, "n_samples", n_samples)
        self._check_fitted()
        field = field_of(self._owner, self)
        rng = generator(self.random_state if random_state is None else random_state)
        if method in SMOOTHED:
            return SMOOTHED[method](field.values, field.bounds, count, rng)
        self._refuse_other_distances()
        if self._match is None:  # found once, since it takes as long as a million draws
            # The seed of the hashes, so that the same release and random_state give the same draws.
            self._match = matched(field, generator(field.setting.seed))
        return self._match.drawn(field, count, rng)

    def _refuse_other_distances(self) -> None:
        family = getattr(self._told, "kernel", None)
        if getattr(family, "p", 2) != 2 or getattr(family, "transform", None) is not None:
            raise ValueError(
                f"{self._owner}: method must be 'mcmc' or 'rejection' for a Race over other than "
                "plain Euclidean distance, not 'matched'."
            )

    def _learned(self) -> None:
        super()._learned()
        self.__dict__.pop("_match", None)
