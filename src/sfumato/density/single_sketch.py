"""Estimators that stand on one kernel-sum sketch, or on its release.

Estimators of points alone, which may come in parts: data larger than memory. Estimators that draw
points: like those learned from, or from the smoothed density.
"""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np

from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import check_random_state, integer
from sfumato.density.backends import Setting, described
from sfumato.density.base import KernelEstimator
from sfumato.density.combined import CombinedRelease
from sfumato.density.evaluation_grid import field_of
from sfumato.density.sampling import Match, by_population, by_rejection, matched
from sfumato.privacy.release import Release
from sfumato.sketch.base import Sketch

__all__ = ["METHODS", "Drawing", "SingleSketch", "Streamed"]

UNPRIVATE = "clipped_", "sketch_"
PRIVATE = "release_", "statement_"


class SingleSketch(KernelEstimator, in_files=False):
    """An estimator whose points all go into one sketch; `_learned` sees the result of every fit."""

    def fit(self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None) -> Self:
        """Learn from points, one a row; with epsilon, release the sketch and forget it.

        y is not used; sample_weight, integers, only without epsilon. With epsilon a row with a cell
        that is no number is dropped, one outside the bounds clipped, and none is refused.

        Parameters
        ----------
        X : array_like
            TODO.
        y : array_like or None, default=None
            TODO.
        sample_weight : array_like or None, default=None
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        points, weights = self._training_rows(X, sample_weight, plain)
        setting = self._setting(plain, points, weights)
        sketch = self._empty(setting).update(points, weights)
        self._take(self._kept(sketch, plain), setting)
        return self

    def partial_fit(
        self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None
    ) -> Self:
        """Learn from further points; the bounds stay those of the first call. Not with epsilon.

        Parameters
        ----------
        X : array_like
            TODO.
        y : array_like or None, default=None
            TODO.
        sample_weight : array_like or None, default=None
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        self._refuse_private("partial_fit", plain)
        if not hasattr(self, "sketch_"):
            return self.fit(X, y, sample_weight)
        points = self._train(X, reset=False)
        self.sketch_.update(points, self._weights(sample_weight, len(points)))
        self._learned()
        return self

    def merge(self, other: Self) -> Self:
        """Take in what another estimator of the same public numbers learned. Not with epsilon.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
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
        """The estimator that answers from a release, made here or elsewhere, at no further cost.

        Parameters
        ----------
        release : object
            TODO.
        **parameters : object
            TODO.

        Returns
        -------
        Self
            The estimator that answers from a release, made here or elsewhere, at no further cost.
        """
        if not isinstance(release, Release | CombinedRelease):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release, not {kind}.")
        setting = described(release)
        told = release.statement
        cost = dict(epsilon=told.epsilon, delta=told.delta, privacy=None)
        fixed = {**setting.parameters(), **cost}
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


DROWNED = 30  # mean kernel values are some tenths: noise of this part is a tenth of them


class Streamed(SingleSketch, in_files=False):
    """An estimator that can learn from batches, of which it holds one at a time."""

    def fit_batches(self, batches: Iterable[Any]) -> Self:
        """Learn as `fit` does from all the batches together; bounds must be given.

        Parameters
        ----------
        batches : iterable
            Each a table of points as `fit` takes it; those without rows are left out. With epsilon
            no row is refused, as in `fit`, and bounds of one number per column make a release of
            noise alone even where no batch comes.

        Returns
        -------
        Self
            The object itself.

        Notes
        -----
        **Guarantee.** The same model as `fit` on all rows, byte for byte without epsilon, and one
        release for all batches with it: the budget is charged once, after the last of them, so that
        a batch which fails or is stopped costs nothing.

        Examples
        --------
        >>> from sfumato.density import SketchDensity
        >>> parts = ([[x], [x + 1.0]] for x in (0.0, 5.0))
        >>> SketchDensity(bounds=(0, 10)).fit_batches(parts).sketch_.total
        4
        """
        plain = self._check()
        if plain["bounds"] is None:
            raise ValueError(
                f"{self._owner}: bounds must be given to learn from batches; the first does not "
                "know the others'."
            )
        sketch: Any = None
        for points in self._batches(batches, plain):
            if sketch is None:
                setting = self._setting(plain, points)
                sketch = self._empty(setting)
            sketch.update(points)
        if sketch is None:
            raise ValueError(f"{self._owner}: batches must hold at least one row.")
        self._take(self._kept(sketch, plain), setting)
        return self

    def _batches(self, batches: Iterable[Any], plain: dict[str, Any]) -> Iterator[np.ndarray]:
        """The points of every batch; with epsilon of one without rows at the least."""
        first = True
        for number, part in enumerate(batches):
            if not len(part) and plain["epsilon"] is None:
                continue
            try:
                points, _ = self._training_rows(part, None, plain, reset=first)
            except ValueError as error:
                error.add_note(f"(rows of batch {number}, the first being 0)")
                raise
            first = False
            yield points
        if first and plain["epsilon"] is not None:
            yield self._training_rows([], None, plain)[0]

    def _take(self, kept: Any, setting: Setting) -> None:
        super()._take(kept, setting)
        if hasattr(self, "release_"):
            self._warn_of_noise()

    def _warn_of_noise(self) -> None:
        """Say so where noise drowns the answers, by numbers that were released anyway."""
        noise, size = float(self.release_.noise_error()), float(self.release_.size())
        if noise > size / DROWNED:
            warnings.warn(
                f"{self._owner}: epsilon {self.statement_.epsilon:g} is too small here: an answer "
                f"has noise of about {noise:.3g} points, more than a thirtieth of the noisy count "
                "of all (release_.size()). A larger epsilon, more data, fewer rows of the sketch, "
                "or a wider bandwidth would help; input_report tells the curator how many rows "
                "could be read.",
                UserWarning,
                stacklevel=4,  # whoever called fit, fit_batches or from_release
            )

    def _learned(self) -> None:
        super()._learned()
        if described(self._told).dimension != self.n_features_in_:  # of a file that was forged
            raise ValueError(f"{self._owner}: the columns are not those of what was learned.")


SMOOTHED = {"rejection": by_rejection, "mcmc": by_population}
METHODS = ("matched", *SMOOTHED)


class Drawing(Streamed, in_files=False):
    """An estimator whose sketch or release alone tells which points to draw."""

    _match: Match | None = None

    def _drawn(self, method: str, n_samples: Any, random_state: Any) -> np.ndarray:
        """So many points by one of METHODS, within the bounds; random_state: ours unless given."""
        count = integer(0).check(self._owner, "n_samples", n_samples)
        self._check_fitted()
        field = field_of(self._owner, self)
        given = self.random_state if random_state is None else random_state
        rng = check_random_state(self._owner, given)
        if method in SMOOTHED:
            return SMOOTHED[method](field.values, field.bounds, count, rng)
        self._refuse_other_distances()
        if self._match is None:  # found once, since it takes as long as a million draws
            # The seed of the hashes, so that the same release and random_state give the same draws.
            self._match = matched(field, np.random.default_rng(field.setting.seed))
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
