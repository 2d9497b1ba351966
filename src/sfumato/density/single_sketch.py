"""Base classes of estimators over one kernel-sum sketch or its release.

`SingleSketch` fits and merges one sketch, `Streamed` also learns from batches larger than memory,
and `Drawing` also draws synthetic points.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.arrays import private_points
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import check_random_state, integer
from sfumato.density.backends import Setting, described, make
from sfumato.density.base import KernelEstimator
from sfumato.density.combined import CombinedRelease
from sfumato.density.evaluation_grid import field_of, means_of
from sfumato.density.sampling import Match, by_population, by_rejection, matched
from sfumato.privacy.release import Release
from sfumato.sketch.base import Sketch

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["METHODS", "Drawing", "SingleSketch", "Streamed"]

UNPRIVATE = "clipped_", "sketch_"  # fitted without epsilon
PRIVATE = "release_", "statement_"  # fitted with epsilon


class SingleSketch(KernelEstimator, in_files=False):
    """An estimator that puts all points into one sketch; `_learned` runs after each change."""

    _means: Callable[[np.ndarray], np.ndarray] | None = None

    def fit(self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None) -> Self:
        """Fit the estimator to points; with epsilon, release the sketch and discard it.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Training points, one per row. With `epsilon`, rows with a cell that is not a number are
            dropped and rows outside `bounds` are clipped; no row raises an error.
        y : array_like or None, default=None
            Ignored; present for scikit-learn's API.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights, integers from 0 up; None weighs every row 1. Not with `epsilon`.

        Returns
        -------
        Self
            The fitted estimator.

        Notes
        -----
        Each call with `epsilon` is a new release at the full cost, charged before any noise is
        drawn, unless `release_id` names one that the ledger stores.
        """
        plain = self._check()
        points, weights = self._training_rows(X, sample_weight, plain)
        setting = self._setting(plain, points, weights)
        sketch = self._empty(setting).update(points, weights)
        self._take(self._release_if_private(sketch, plain), setting)
        return self

    def partial_fit(
        self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None
    ) -> Self:
        """Add further points to the sketch; not with epsilon.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Further training points, without NaN.
        y : array_like or None, default=None
            Ignored; present for scikit-learn's API.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights, integers from 0 up; None weighs every row 1. Not with `epsilon`.

        Returns
        -------
        Self
            The fitted estimator.

        Notes
        -----
        The first call is `fit`; bounds that are not given stay those of its points. A release
        cannot be updated: to learn privately from batches use `fit_batches` where there is one, or
        update a sketch and release it once.
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
        """Merge another fitted estimator into this one; not with epsilon.

        Parameters
        ----------
        other : Self
            Fitted estimator of the same class, parameters and bounds; it is not changed.

        Returns
        -------
        Self
            This estimator, equal to one fitted to the points of both.

        Raises
        ------
        ValueError
            If the bounds or parameters of the sketches differ, or if one of the estimators is
            private.
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
        """Build an estimator that answers from an existing release.

        Parameters
        ----------
        release : Release or CombinedRelease
            Release of a kernel-sum sketch, made here or elsewhere.
        **parameters : object
            Further parameters of the constructor; those that the release determines are refused,
            except `random_state`.

        Returns
        -------
        Self
            The fitted estimator, with the epsilon and delta of the release. It costs no further
            privacy.
        """
        if not isinstance(release, Release | CombinedRelease):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release, not {kind}.")
        setting = described(release)
        statement = release.statement
        cost = dict(epsilon=statement.epsilon, delta=statement.delta, privacy=None)
        fixed = {**setting.parameters(), **cost}
        conflicting = sorted(parameters.keys() & fixed.keys() - {"random_state"})
        if conflicting:
            raise ValueError(
                f"{cls.__name__}: {conflicting[0]} is that of the release; leave it out."
            )
        model = cls(**{**fixed, **parameters})
        model.n_features_in_ = setting.dimension
        model._take(release, setting)
        return model

    @property
    def _summary(self) -> Any:
        """The sketch or release that answers queries."""
        self._check_fitted()
        return self.release_ if hasattr(self, "release_") else self.sketch_

    @property
    def _size(self) -> float:
        """Estimated number of points, at least one."""
        return max(float(self._summary.size()), 1.0)

    def _mean(self, points: np.ndarray) -> np.ndarray:
        """Mean kernel value at each point; may be negative where there is noise."""
        if not hasattr(self, "release_"):  # a sketch, which may change
            return means_of(self._summary)(points)
        if self._means is None:
            self._means = means_of(self.release_)
        return self._means(points)

    def _take(self, summary: Any, setting: Setting) -> None:
        """Replace the fitted state by this sketch or release."""
        for name in (*UNPRIVATE, *PRIVATE):
            self.__dict__.pop(name, None)
        self.bounds_, self.backend_ = setting.bounds, setting.backend
        self._restore_parts({"sketch_" if isinstance(summary, Sketch) else "release_": summary})

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        if len(parts) != 1 or not parts.keys() <= {"sketch_", "release_"}:
            raise ValueError(f"{self._owner}: there must be one sketch or one release.")
        super()._restore_parts(parts)
        if "release_" in parts:
            self.statement_: Any = self.release_.statement
        self._learned()

    def _learned(self) -> None:
        """Update the values derived from the sketch or release; runs whenever that changed."""
        self.__dict__.pop("_means", None)
        if hasattr(self, "sketch_"):
            self.clipped_: int = int(self.sketch_.clipped)

    def _refuse_private(self, verb: str, plain: dict[str, Any]) -> None:
        """Raise if this verb would need the raw sketch of a private estimator."""
        if plain["epsilon"] is not None or hasattr(self, "release_"):
            raise ValueError(
                f"{self._owner}: {verb} is not private; update and merge sketches, release the "
                f"result once, and take {self._owner}.from_release."
            )


DROWNED = 30  # mean kernel values are some tenths: noise of 1 / 30 is a tenth of them
SURE = 2.5  # deviations of its noise by which a count may be too large by chance


class Streamed(SingleSketch, in_files=False):
    """An estimator that can learn from batches, with one batch in memory at a time."""

    def fit_batches(self, batches: Iterable[Any]) -> Self:
        """Fit the estimator to batches of points, one in memory at a time.

        Parameters
        ----------
        batches : iterable of array_like
            Each a table of points as `fit` takes it; empty ones are skipped. `bounds` must be
            given. With `epsilon` no row is refused, and bounds of one number per column give a
            release of noise alone even if there is no batch.

        Returns
        -------
        Self
            The fitted estimator.

        Notes
        -----
        **Guarantee.** The model equals that of `fit` on all rows: byte for byte without `epsilon`,
        and one release for all batches with it. The budget is charged once, after the last batch,
        so that a batch that fails costs nothing.

        Examples
        --------
        >>> from sfumato.density import SketchDensity
        >>> parts = ([[x], [x + 1.0]] for x in (0.0, 5.0))
        >>> SketchDensity(bounds=(0, 10)).fit_batches(parts).sketch_.total
        4
        """
        plain = self._check()
        self._require_public_bounds(plain)
        sketch: Any = None
        for points in self._batches(batches, plain):
            if sketch is None:
                setting = self._setting(plain, points)
                sketch = self._empty(setting)
            sketch.update(points)
        if sketch is None:
            raise ValueError(f"{self._owner}: batches must hold at least one row.")
        self._take(self._release_if_private(sketch, plain), setting)
        return self

    def fit_rows(self, source: Any, *, engine: "Engine", columns: Sequence[str]) -> Self:
        """Fit the estimator to rows on an engine, whose partitions fill sketches.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine. `bounds` must be given. With `epsilon` no row is
            refused.
        engine : Engine
            Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        columns : sequence of str
            Names of the columns of numbers.

        Returns
        -------
        Self
            The fitted estimator.

        Notes
        -----
        **Guarantee.** The model equals that of `fit` on all rows: byte for byte without `epsilon`,
        and one release with it, of the sketch of all partitions. The budget is charged and noise
        added once, by the caller's process, after all rows were read, so that a source that fails
        costs nothing and a partition that is computed again changes nothing.

        Examples
        --------
        >>> from sfumato.density import SketchDensity
        >>> from sfumato.engine import LocalEngine
        >>> points = {"x": [0.0, 1.0, 5.0]}
        >>> model = SketchDensity(bounds=(0, 10))
        >>> model.fit_rows(points, engine=LocalEngine(), columns=["x"]).sketch_.total
        3
        """
        plain = self._check()
        self._require_public_bounds(plain)
        names = list(columns)
        setting = self._setting(plain, np.empty((0, len(names))))
        private = plain["epsilon"] is not None
        rows = engine.rows(source, names, private=private)
        sketch = rows.fold(
            _PointSketch(self._owner, setting, private), lambda left, right: left.merge(right)
        )
        if plain["epsilon"] is None and not sketch.total:
            raise ValueError(f"{self._owner}: the source must hold at least one row.")
        summary = self._release_if_private(sketch, plain)
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, object)
        self._take(summary, setting)
        return self

    def _require_public_bounds(self, plain: dict[str, Any]) -> None:
        if plain["bounds"] is None:
            raise ValueError(
                f"{self._owner}: bounds must be given to learn from parts; the first does not know "
                "the others'."
            )

    def _batches(self, batches: Iterable[Any], plain: dict[str, Any]) -> Iterator[np.ndarray]:
        """The points of every batch; with epsilon at least one batch, without rows if need be."""
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

    def _take(self, summary: Any, setting: Setting) -> None:
        super()._take(summary, setting)
        if hasattr(self, "release_"):
            self._warn_of_noise()

    def _warn_of_noise(self) -> None:
        """Warn if noise dominates the estimates, judged by released numbers alone."""
        noise, size = float(self.release_.noise_error()), float(self.release_.size())
        unsure = float(getattr(self.release_, "_size_error", 0.0))  # the count is noisy, too
        if noise > (size - SURE * unsure) / DROWNED:
            warnings.warn(
                f"{self._owner}: epsilon {self.statement_.epsilon:g} is too small here: noise of "
                f"about {max(noise, unsure):.3g} points hides most of what an answer could tell, "
                f"beside the noisy count of all, {size:.3g} (release_.size()). A larger epsilon, "
                "more data, fewer rows of the sketch, or a wider bandwidth would help; "
                "input_report shows the curator how many rows could be read.",
                UserWarning,
                stacklevel=4,  # the caller of fit, fit_batches or from_release
            )

    def _learned(self) -> None:
        super()._learned()
        if described(self._summary).dimension != self.n_features_in_:  # of a forged file
            raise ValueError(f"{self._owner}: the columns are not those of what was learned.")


@dataclass(frozen=True)
class _PointSketch:
    """Fold to the sketch of the rows of a partition, each of which is read by itself."""

    owner: str
    setting: Setting
    private: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Any:
        sketch = make(self.setting)
        for batch in batches:
            sketch.update(self._points(pa.Table.from_batches([batch])))
        return sketch

    def _points(self, table: pa.Table) -> np.ndarray:
        """The points of a table; rows that are not all numbers are dropped, or else refused."""
        points = private_points(self.owner, table, self.setting.dimension)
        bad = np.isnan(points).any(axis=1)
        if self.private:
            low, high = self.setting.bounds
            return np.asarray(np.clip(points[~bad], low, high))
        if bad.any():
            raise ValueError(
                f"{self.owner}: X must be finite; a row holds NaN, null or text. Drop or fill such "
                "rows first."
            )
        return points


SMOOTHED = {"rejection": by_rejection, "mcmc": by_population}
METHODS = ("matched", *SMOOTHED)


class Drawing(Streamed, in_files=False):
    """An estimator whose sketch or release can generate points."""

    _match: Match | None = None

    def _draw(self, method: str, n_samples: Any, random_state: Any) -> np.ndarray:
        """Draw points within the bounds by one of METHODS; random_state None is the estimator's."""
        count = integer(0).check(self._owner, "n_samples", n_samples)
        self._check_fitted()
        field = field_of(self._owner, self)
        given = self.random_state if random_state is None else random_state
        rng = check_random_state(self._owner, given)
        if method in SMOOTHED:
            return SMOOTHED[method](field.values, field.bounds, count, rng)
        self._refuse_other_distances()
        if self._match is None:  # computed once: it takes as long as a million draws
            # The seed of the hashes, so that the same release and random_state give the same draws.
            self._match = matched(field, np.random.default_rng(field.setting.seed))
        return self._match.drawn(field, count, rng)

    def _refuse_other_distances(self) -> None:
        """Raise unless the kernel is one of plain Euclidean distance."""
        family = getattr(self._summary, "kernel", None)
        if getattr(family, "p", 2) != 2 or getattr(family, "transform", None) is not None:
            raise ValueError(
                f"{self._owner}: method must be 'mcmc' or 'rejection' for a Race over other than "
                "plain Euclidean distance, not 'matched'."
            )

    def _learned(self) -> None:
        super()._learned()
        self.__dict__.pop("_match", None)
