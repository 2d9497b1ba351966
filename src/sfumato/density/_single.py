"""Estimators that stand on one kernel-sum sketch, or on its release."""

from typing import Any, Self

import numpy as np

from sfumato.density._backend import Setting, described
from sfumato.density._estimator import KernelEstimator
from sfumato.density.parties import Combined
from sfumato.sketch._base import Sketch
from sfumato.sketch._release import Release

__all__ = ["SingleSketch"]

UNPRIVATE = "clipped_", "sketch_"
PRIVATE = "release_", "statement_"


class SingleSketch(KernelEstimator, in_files=False):
    """An estimator whose points all go into one sketch; `_learned` sees the result of every fit."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from points, one a row; with epsilon, release the sketch and forget it.

        y is not used; sample_weight, whole numbers, only without epsilon. With epsilon a row with a
        cell that is no number is dropped, one outside the bounds clipped, and none is refused.
        """
        plain = self._check()
        points, weights = self._training_rows(X, sample_weight, plain)
        setting = self._setting(plain, points, weights)
        sketch = self._empty(setting).update(points, weights)
        self._take(self._kept(sketch, plain), setting)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further points; the bounds stay those of the first call. Not with epsilon."""
        plain = self._check()
        self._refuse_private("partial_fit", plain)
        if not hasattr(self, "sketch_"):
            return self.fit(X, y, sample_weight)
        points = self._train(X, reset=False)
        self.sketch_.update(points, self._weights(sample_weight, len(points)))
        self._learned()
        return self

    def merge(self, other: Self) -> Self:
        """Take in what another estimator of the same public numbers learned. Not with epsilon."""
        if type(other) is not type(self):
            raise TypeError(f"{self._owner}: cannot merge with {type(other).__name__}.")
        for one in (self, other):
            one._check_fitted()
            one._refuse_private("merge", one._check())
        if self.bounds_ != other.bounds_:
            raise ValueError(
                f"{self._owner}: cannot merge, bounds_ differ; give both the same bounds."
            )
        self.sketch_.merge(other.sketch_)
        self._learned()
        return self

    @classmethod
    def from_release(cls, release: Any, **parameters: Any) -> Self:
        """The estimator that answers from a release, made here or elsewhere, at no further cost."""
        if not isinstance(release, Release | Combined):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release, not {kind}.")
        setting = described(release)
        told = release.statement
        fixed = {**setting.parameters(), "epsilon": told.epsilon, "delta": told.delta}
        strange = sorted(parameters.keys() & fixed.keys() - {"random_state"})
        if strange:
            raise ValueError(f"{cls.__name__}: {strange[0]} is that of the release; leave it out.")
        model = cls(**{**fixed, **parameters})
        model.n_features_in_ = setting.dimension
        model._take(release, setting)
        return model

    @property
    def _told(self) -> Any:
        """The sketch or release that answers."""
        self._check_fitted()
        return self.release_ if hasattr(self, "release_") else self.sketch_

    @property
    def _size(self) -> float:
        """How many points there are, as the sketch or release tells it, at least one."""
        return max(float(self._told.size()), 1.0)

    def _mean(self, points: np.ndarray) -> np.ndarray:
        """The mean kernel value at each point, of either sign with privacy."""
        return np.asarray(self._told.estimate(points)) / self._size

    def _take(self, kept: Any, setting: Setting) -> None:
        for name in (*UNPRIVATE, *PRIVATE):
            self.__dict__.pop(name, None)
        self.bounds_, self.backend_ = setting.bounds, setting.backend
        self._restore_parts({"sketch_" if isinstance(kept, Sketch) else "release_": kept})

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        if len(parts) != 1 or not parts.keys() <= {"sketch_", "release_"}:
            raise ValueError(f"{self._owner}: there must be one sketch or one release.")
        super()._restore_parts(parts)
        if "release_" in parts:
            self.statement_ = self.release_.statement
        self._learned()

    def _learned(self) -> None:
        """What follows from the sketch or release; called whenever that changed."""
        if hasattr(self, "sketch_"):
            self.clipped_ = int(self.sketch_.clipped)

    def _refuse_private(self, verb: str, plain: dict[str, Any]) -> None:
        if plain["epsilon"] is not None or hasattr(self, "release_"):
            raise ValueError(
                f"{self._owner}: {verb} is not private; update and merge sketches, release the "
                f"result once, and take {self._owner}.from_release."
            )
