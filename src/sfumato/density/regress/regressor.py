"""Linear and quadratic regression from moments or counts of angles, optionally private."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.core.arrays import column_of
from sfumato.core.bounds import BOUNDS, Box
from sfumato.core.estimator_data import check_feature_names, target_numbers
from sfumato.core.estimator_mixins import RegressorMixin
from sfumato.core.linear_algebra import one_numpy_thread
from sfumato.core.row_values import numbers_of
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, integer, one_of, optional
from sfumato.density.base import KernelEstimator, hash_seed
from sfumato.density.classify.kernel_classes import Planned
from sfumato.density.engine_points import PointReading, PointRows, no_rows
from sfumato.density.regress.chosen_degree import (
    ReleasedAdaptiveMoments,
    moments_of_chosen_degree,
)
from sfumato.density.regress.least_squares import (
    BITS,
    METHODS,
    Degree,
    RegressionSetting,
    around,
    chosen,
    least_squares,
    number_bits,
    of_either_degree,
    scaled,
)
from sfumato.density.regress.surrogate_loss import (
    minimised,
    searched,
    suggested_rows,
    surrogate_rows,
)
from sfumato.density.single_sketch import SingleSketch
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import Release
from sfumato.sketch.kernel_sums.moments import Moments, ReleasedMoments
from sfumato.sketch.kernel_sums.polynomial_features import Polynomials

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["SketchRegressor"]


class SketchRegressor(RegressorMixin, SingleSketch):
    """Linear or quadratic least squares, private when epsilon is given.

    Method "statistics" computes sums of products of scaled columns (`sfumato.sketch.Moments`) and
    solves for weights, accounting for the known noise. Method "angles" counts angles of rows and
    fits the squared loss to all counts; it is linear, about as good as least squares if rows are
    close to normal or uniform in their box, and noisier than "statistics" with `epsilon`. Method
    "surrogate" minimises the published surrogate loss on the same counts, and is the weakest: R2 of
    0.79 where least squares and angles reach 0.88, and with wide bounds 0.5 at epsilon 10 and below
    0 at epsilon 1, where angles reach 0.82 and 0.56 (means of 5 draws of 1500 uniform rows of 4
    columns, scored on as many others).

    Parameters
    ----------
    method : {"auto", "statistics", "angles", "surrogate"}, default="auto"
        Method; "auto" is "statistics", or "angles" if there would be more than 65,536 sums.
    degree : {1, 2, "auto"}, default="auto"
        1 fits weights of columns, 2 also of squares and products of two of them. "auto" chooses:
        without `epsilon` by generalised cross-validation; with it 2 if there are at most epsilon /
        40 sums per row, 1 if at most epsilon / 10, else the mean of the target alone, by a noisy
        number of rows. That and the noisy sum of the target take a sixteenth of epsilon. 2 is not
        considered where there would be more than 2**14 sums. It is 1 for other methods, and with a
        `delta` above 0.
    rows : int or None, default=None
        Number of hash functions of the angles, from 1 to 2**20. None chooses it by public numbers:
        up to 4096 without `epsilon`, 64 per unit of it at `delta` 0, and four times that for the
        surrogate.
    epsilon : float or None, default=None
        Privacy parameter, above 0. None fits without privacy.
    delta : float, default=0.0
        Privacy parameter of (epsilon, delta)-differential privacy, from 0 up to but not including
        1; 0 is pure differential privacy. Needs `epsilon`.
    bounds : pair (low, high) or None, default=None
        Public limits of the columns, each side a number or one number per column. Points outside
        are clipped to them. Required with `epsilon`; None takes the range of the data.
    target_bounds : pair (low, high) of float or None, default=None
        Public limits of the target. Targets outside are clipped to them, and predictions stay
        within them. Required with `epsilon`; None takes the range of the data.
    ledger : Ledger, path_like or None, default=None
        Privacy ledger that is charged before noise is drawn; needs `dataset`. None leaves the cost
        unaccounted.
    dataset : str or None, default=None
        Name of the data set in the ledger that is charged.
    unit : str or None, default=None
        Unit of privacy, such as "event" or "user". None takes that of the data set in the ledger,
        else "event".
    relation : {"add/remove", "replace"} or None, default=None
        Adjacency of data sets. None takes that of the data set in the ledger, else "add/remove".
    contributions : int or None, default=None
        Largest number of rows of one unit, from 1 to 2**31. Required unless the unit is an event or
        item, which has one row.
    release_id : str or None, default=None
        Name under which the ledger stores the release, so that a retry returns the same bytes at no
        cost; needs `ledger`.
    privacy : Privacy or None, default=None
        One object in place of `epsilon`, `delta`, `ledger`, `dataset`, `unit`, `relation`,
        `contributions` and `release_id`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the hash functions of the angles, and of the surrogate's search; never of noise.
        None uses seed 0, so that separately fitted estimators can merge.

    Attributes
    ----------
    backend_ : str
        The same as `method_`.
    bounds_ : tuple
        Limits (low, high) to which points are clipped, one number per column.
    clipped_ : int
        Number of training points outside the bounds. Raw data: only without `epsilon`.
    coef_ : ndarray of shape (n_features,)
        Coefficients of the columns in their own units. Not at degree 2.
    degree_ : int
        1 or 2; 0 if the prediction is the mean of the target, since noise would hide all else.
    features_ : list of tuple of int
        Columns whose product is each feature of `weights_`; the empty tuple is the constant.
    intercept_ : float
        Prediction at the origin of the columns, in the units of the target. Not at degree 2.
    method_ : str
        "statistics", "angles" or "surrogate".
    n_features_in_ : int
        Number of columns.
    release_ : Release
        The released sketch. Only with `epsilon`.
    sketch_ : Sketch
        The sketch of the training points. Only without `epsilon`.
    statement_ : PrivacyStatement
        What the release guarantees. Only with `epsilon`.
    target_bounds_ : tuple of float
        Limits (low, high) of the target.
    weights_ : ndarray of shape (n_weights,)
        Weights of the features, for columns and target scaled to [-1, 1].

    Notes
    -----
    **Guarantee.** With `epsilon`, the estimator stores nothing but one release, so that the object,
    its file and all its predictions are (epsilon, delta)-differentially private for `unit` and
    `relation` as `statement_` says. Rows outside the public bounds are clipped to them, and
    predictions stay within `target_bounds`.

    References
    ----------
    .. [1] Wang. "Revisiting Differentially Private Linear Regression: Optimal and Adaptive
       Prediction & Estimation in Unbounded Domain". UAI 2018 (least squares from noisy sums).
       https://arxiv.org/abs/1803.02596
    .. [2] Coleman, Gupta, Chen, Shrivastava. "STORM: Foundations of End-to-End Empirical Risk
       Minimization on the Edge". 2020 (surrogate loss). https://arxiv.org/abs/2006.14554

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> points = rng.uniform(-1, 1, (20_000, 3))
    >>> target = points @ [1.0, -2.0, 0.5] + rng.normal(0, 0.1, 20_000)
    >>> model = SketchRegressor(epsilon=1, bounds=(-1, 1), target_bounds=(-4, 4), degree=1)
    >>> bool(np.abs(model.fit(points, target).coef_ - [1.0, -2.0, 0.5]).max() < 0.2)
    True
    """

    LIMITS: dict[str, Limit] = {  # type: ignore[misc]
        **KernelEstimator.LIMITS,
        "method": one_of(("auto", *METHODS)),
        "degree": Degree(),
        "target_bounds": optional(BOUNDS),
        "rows": optional(integer(1, 2**20)),
    }
    method_: str
    degree_: int
    target_bounds_: tuple[float, float]
    weights_: np.ndarray
    features_: list[tuple[int, ...]]
    coef_: np.ndarray
    intercept_: float

    def __init__(
        self,
        *,
        method: str = "auto",
        degree: int | str = "auto",
        rows: int | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        bounds: Any = None,
        target_bounds: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        unit: str | None = None,
        relation: str | None = None,
        contributions: int | None = None,
        release_id: str | None = None,
        privacy: Privacy | None = None,
        random_state: Any = None,
    ) -> None:
        self._store(locals())

    @one_numpy_thread
    def fit(self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None) -> Self:
        """Fit the regression; with epsilon, release the sketch and discard the data.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Training points, one per row. With `epsilon`, rows with a cell that is not a number are
            dropped and rows outside `bounds` are clipped; no row raises an error.
        y : array_like of shape (n_samples,) or None, default=None
            Targets; required. With `epsilon`, rows whose target is not a number are dropped and
            targets outside `target_bounds` are clipped.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights, integers from 0 up; None weighs every row 1. Not with `epsilon`.

        Returns
        -------
        Self
            The fitted estimator.
        """
        plain = self._check()
        table, weights = self._learned_from(X, y, sample_weight, plain)
        setting = self._public(plain, table if weights is None else table[weights > 0])
        rows, outside = setting.sketch_rows(table)
        sketch = setting.empty().update(rows, weights)
        setting, summary = self._summed(sketch, setting, plain)
        self._settle(setting)
        self._take(summary, setting)  # type: ignore[arg-type]
        self._count_outside(outside)
        return self

    @one_numpy_thread
    def fit_rows(
        self, source: Any, *, engine: "Engine", columns: Sequence[str], target: str
    ) -> Self:
        """Fit the regression to rows on an engine, whose partitions fill sketches.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine. `bounds` and `target_bounds` must be given. With
            `epsilon` no row is refused.
        engine : Engine
            Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        columns : sequence of str
            Names of the columns of numbers.
        target : str
            Name of the column of targets.

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
        >>> import pyarrow as pa
        >>> from sfumato.engine import LocalEngine
        >>> rows = {"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.0, 5.0, 7.0]}
        >>> model = SketchRegressor(bounds=(0, 4), target_bounds=(0, 10))
        >>> model = model.fit_rows(rows, engine=LocalEngine(), columns=["x"], target="y")
        >>> model.predict(pa.table({"x": [4.0]})).round(2)
        array([9.])
        """
        plain, names = self._check(), list(columns)
        for name in ("bounds", "target_bounds"):
            if plain[name] is None:
                raise ValueError(
                    f"{self._owner}: {name} must be given to learn from parts; the first does not "
                    "know the others'."
                )
        setting = self._public(plain, np.empty((0, len(names) + 1)))
        private = plain["epsilon"] is not None
        box = Box.of(self._owner, plain["bounds"], len(names))
        reading = PointReading(self._owner, tuple(names), box, private, beside=target)
        sketch, outside = PointRows(engine, source, reading).fold(
            lambda: (setting.empty(), 0), _AddingTargets(setting, private), _merged
        )
        reading.require_rows(sketch.total)
        setting, summary = self._summed(sketch, setting, plain)
        check_feature_names(self, no_rows(names), reset=True)
        self.n_features_in_: int = len(names)
        self._settle(setting)
        self._take(summary, setting)  # type: ignore[arg-type]
        self._count_outside(outside)
        return self

    @one_numpy_thread
    def partial_fit(
        self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None
    ) -> Self:
        """Add further rows to the sketch; not with epsilon.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Further training points, without NaN.
        y : array_like of shape (n_samples,) or None, default=None
            Targets; required.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights, integers from 0 up; None weighs every row 1. Not with `epsilon`.

        Returns
        -------
        Self
            The fitted estimator.

        Notes
        -----
        Bounds that are not given stay those of the first call.
        """
        plain = self._check()
        self._refuse_private("partial_fit", plain)
        if not hasattr(self, "sketch_"):
            return self.fit(X, y, sample_weight)
        points = self._train(X, reset=False)
        table = np.column_stack([points, self._target(y, points)])
        rows, outside = self._current().sketch_rows(table)
        before = self.clipped_
        self.sketch_.update(rows, self._weights(sample_weight, len(points)))
        self._learned()
        self._count_outside(before + outside)
        return self

    def merge(self, other: Self) -> Self:
        if isinstance(other, SketchRegressor) and hasattr(self, "target_bounds_"):
            mine, yours = self.target_bounds_, getattr(other, "target_bounds_", None)
            if yours is not None and mine != yours:
                raise ValueError(
                    "SketchRegressor: cannot merge, target_bounds_ differ; give both the same."
                )
        before = getattr(self, "clipped_", 0) + getattr(other, "clipped_", 0)
        super().merge(other)
        self._count_outside(before)
        return self

    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """Build a regression that answers from an existing release of moments.

        Parameters
        ----------
        release : Release
            Release of `sfumato.sketch.Moments` whose last column is the target, or the `release_`
            of another regression of the method "statistics".
        **parameters : object
            Further parameters of the constructor, such as `random_state`.

        Returns
        -------
        Self
            The fitted estimator, with the epsilon and delta of the release. It costs no further
            privacy.
        """
        if not isinstance(release, ReleasedMoments | ReleasedAdaptiveMoments):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a ReleasedMoments, not {kind}.")
        (*low, least), (*high, most) = release.bounds
        statement = release.statement
        model = cls(
            method="statistics",
            degree=release.degree if isinstance(release, ReleasedMoments) else "auto",
            epsilon=statement.epsilon,
            delta=statement.delta,
            bounds=(low, high),
            target_bounds=(least, most),
            **parameters,
        )
        plain = model._check()
        model.n_features_in_ = len(low)
        setting = model._public(plain, np.empty((0, len(low) + 1)))
        model._settle(replace(setting, degree=release.degree))
        model._take(release, setting)  # type: ignore[arg-type]
        return model

    @one_numpy_thread
    def predict(self, X: Matrix) -> np.ndarray:
        """Predict the target at every point.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions within `target_bounds_`. Points outside `bounds_` are clipped first.
        """
        points = self._queries(X)
        inside, _ = Box(*self.bounds_).clip(points)
        predicted = self._polynomials.values(scaled(inside, self.bounds_)) @ self.weights_
        low, high = self.target_bounds_
        return np.asarray(low + (np.clip(predicted, -1.0, 1.0) + 1) / 2 * (high - low))

    @property
    def _polynomials(self) -> Polynomials:
        return Polynomials.of(self.n_features_in_, self.degree_)

    def _check(self) -> dict[str, Any]:
        plain = super()._check()
        if plain["epsilon"] is not None and plain["target_bounds"] is None:
            raise ValueError(
                f"{self._owner}: target_bounds must be given with epsilon: public limits "
                "(low, high) of the target, never taken from private data."
            )
        if plain["target_bounds"] is not None and len(plain["target_bounds"][0]) != 1:
            raise ValueError(f"{self._owner}: target_bounds must be two numbers.")
        return plain

    def _learned_from(
        self, X: Any, y: Any, sample_weight: Any, plain: dict[str, Any]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Rows with their targets last, and their weights; with epsilon by the public rule."""
        if plain["epsilon"] is None:
            points = self._train(X)
            weights = self._weights(sample_weight, len(points))
            return np.column_stack([points, self._target(y, points)]), weights
        self._refuse_weights(sample_weight)
        points = self._private_points(X, plain)
        (low,), (high,) = plain["target_bounds"]
        target = np.clip(self._private_target(y, len(points)), low, high)
        table = np.column_stack([points, target])
        return table[~np.isnan(table).any(axis=1)], None

    def _private_target(self, y: Any, rows: int) -> np.ndarray:
        """All targets as numbers, NaN for those that are not; refuses only what is public."""
        numbers = numbers_of(column_of(self._owner, y))
        if len(numbers) != rows:
            raise ValueError(f"{self._owner}: y must have one number for each row of X.")
        return numbers

    def _target_masks(
        self, y: Any, plain: dict[str, Any], rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        target = self._private_target(y, rows)
        (low,), (high,) = plain["target_bounds"] or ((-np.inf,), (np.inf,))
        return np.isnan(target), np.clip(target, low, high) != target

    def _target(self, y: Any, points: np.ndarray) -> np.ndarray:
        if y is None:
            raise ValueError(f"{self._owner}: requires y to be passed, but the target y is None.")
        try:
            return target_numbers(y, len(points))
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            # NumPy's message quotes the text of the cell, which may be personal data.
            raise ValueError(f"{self._owner}: y must hold numbers, and one is text.") from None

    def _public(self, plain: dict[str, Any], table: np.ndarray) -> RegressionSetting:
        """The public configuration; with epsilon rows give only their number of columns."""
        columns = table.shape[1] - 1
        method, degree = chosen(plain, columns)
        given, target = plain["bounds"], plain["target_bounds"]
        bounds = (
            around(table[:, :-1]) if given is None else Box.of(self._owner, given, columns).bounds
        )
        (low,), (high,) = around(table[:, -1:]) if target is None else target
        bits = number_bits(plain)
        seed = hash_seed(plain["random_state"])
        suggested = surrogate_rows if method == "surrogate" else suggested_rows
        rows = plain["rows"] or suggested(columns, plain["epsilon"], plain["delta"])
        return RegressionSetting(method, degree, bounds, (low, high), rows, seed, bits)

    def _summed(
        self, sketch: Any, setting: RegressionSetting, plain: dict[str, Any]
    ) -> tuple[RegressionSetting, Any]:
        """The sketch or its release, and the configuration with the degree that was chosen."""
        undecided = plain["degree"] == "auto" and setting.backend == "statistics"
        if plain["epsilon"] is None or plain["delta"] or not undecided:
            return setting, self._release_if_private(sketch, plain)
        planned = Planned("Moments", lambda request: moments_of_chosen_degree(sketch, request))
        released = self._release_if_private(planned, plain)
        return replace(setting, degree=released.degree), released

    def _settle(self, setting: RegressionSetting) -> None:
        self.method_, self.degree_ = setting.backend, setting.degree
        self.target_bounds_ = setting.target

    def _current(self) -> RegressionSetting:
        """The configuration of the sketch that is being filled."""
        return RegressionSetting(
            self.method_,
            self.degree_,
            self.bounds_,
            self.target_bounds_,
            int(self.rows or 1),
            0,
            BITS,
        )

    def _learned(self) -> None:
        super()._learned()
        if self.method_ == "statistics":
            matrix, size = self._summary.matrix(), self._summary.size()
            if hasattr(self, "release_"):
                self.weights_ = least_squares(matrix, size, self._summary.noise_error())
            elif self.degree == "auto" and self.degree_ == 2:
                self.weights_ = of_either_degree(matrix, size, self.n_features_in_)
            else:
                self.weights_ = least_squares(matrix, size, (0.0, 0.0))
        else:
            read = searched if self.method_ == "surrogate" else minimised
            self.weights_ = read(self._summary)
        self.features_ = self._polynomials.features
        if self.degree_ < 2:
            self._unscale()

    def _unscale(self) -> None:
        """Derive the coefficients of columns in their own units."""
        low, high = (np.array(side) for side in self.bounds_)
        least, most = self.target_bounds_
        weights = self.weights_[1:] if self.degree_ else np.zeros(len(low))
        self.coef_ = weights * (most - least) / (high - low)
        middle = (least + most) / 2 + self.weights_[0] * (most - least) / 2
        self.intercept_ = float(middle - self.coef_ @ ((low + high) / 2))

    def _count_outside(self, outside: int) -> None:
        if self.method_ != "statistics" and hasattr(self, "sketch_"):
            self.clipped_ = outside

    def _state(self) -> dict[str, Any]:
        more = {"target": list(self.target_bounds_), "degree": self.degree_}
        if hasattr(self, "sketch_"):
            more["clipped"] = self.clipped_
        return {**super()._state(), **more}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.method_ = self.backend_
        most = 2 if self.method_ == "statistics" else 1
        self.degree_ = integer(0, most).check("file", "degree", state["degree"])
        (low,), (high,) = BOUNDS.check("file", "target", state["target"])
        self.target_bounds_ = low, high
        self.clipped_: int = integer(0).check("file", "clipped", state.get("clipped", 0))

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        for part in parts.values():
            has_moments = isinstance(part, Moments | ReleasedMoments | ReleasedAdaptiveMoments)
            if has_moments != (self.method_ == "statistics") or (
                has_moments
                and (part.degree, part.dimension) != (self.degree_, self.n_features_in_ + 1)
            ):
                raise ValueError("the part is not of the method, degree or columns.")
        outside = self.__dict__.pop("clipped_", 0)  # of a file; a sketch of angles stores no bounds
        super()._restore_parts(parts)
        self._count_outside(outside)


@dataclass(frozen=True)
class _AddingTargets:
    """Function that adds points and their targets to a sketch, with the number of those outside."""

    setting: RegressionSetting
    private: bool

    def __call__(self, made: tuple[Any, int], points: np.ndarray, target: Any) -> tuple[Any, int]:
        if self.private:
            target = np.clip(target, *self.setting.target)
        rows, outside = self.setting.sketch_rows(np.column_stack([points, target]))
        return made[0].update(rows), made[1] + outside


def _merged(left: tuple[Any, int], right: tuple[Any, int]) -> tuple[Any, int]:
    return left[0].merge(right[0]), left[1] + right[1]
