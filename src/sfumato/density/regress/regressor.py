"""Regression from sums of products, or from counts of angles, told with nobody's data."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import column_or_1d

from sfumato.core.arrays import column_of
from sfumato.core.bounds import BOUNDS, Box
from sfumato.core.row_values import numbers_of
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, integer, one_of, optional
from sfumato.density.base import KernelEstimator, hash_seed
from sfumato.density.regress.least_squares import (
    BITS,
    METHODS,
    Degree,
    RegressionSetting,
    around,
    chosen,
    least_squares,
    number_bits,
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

__all__ = ["SketchRegressor"]


class SketchRegressor(RegressorMixin, SingleSketch):  # type: ignore[misc]
    """Linear or quadratic least squares, private when epsilon is given.

    method: "statistics" tells sums of products of scaled columns (`sfumato.sketch.Moments`) and
    solves for weights with what is known of the noise (`regress.least_squares`). "angles" counts
    angles of rows and fits the squared loss to all counts (`regress.surrogate_loss`): linear, about
    as good as least squares where rows are near to normal or even in their box; noisier than
    "statistics" with epsilon. "surrogate" asks the same counts for the published loss of weights
    after weights (`regress.surrogate_loss`), and is the weakest: R2 of 0.79 where least squares and
    angles had 0.88, and with wide bounds 0.5 at epsilon 10 and below 0 at 1, where angles had 0.82
    and 0.56 (means of 5 draws of 1500 even rows of 4 columns, scored on as many others). "auto" is
    "statistics", and "angles" where the sums would be more than 65536.

    Learned: release_ and statement_ with epsilon, else sketch_ and clipped_; weights_, of the
    features_ of columns scaled to -1 .. 1; coef_ and intercept_ at degree 1; method_, degree_,
    bounds_, target_bounds_, n_features_in_.

    Parameters
    ----------
    method : str, default="auto"
        TODO.
    degree : int or str, default="auto"
        1 for weights of columns, 2 for squares and products of two of them as well, "auto" for 2
        where there are at most 16 sums for each unit of epsilon, else 1, also without epsilon.
    rows : int or None, default=None
        Hash functions of the angles, by a public rule unless told: up to 4096 without epsilon, 64
        for each unit of it at delta 0, and four times that for the surrogate.
    epsilon : float or None, default=None
        TODO.
    delta : float, default=0.0
        TODO.
    bounds : object, default=None
        Required with epsilon, taken from the data without.
    target_bounds : object, default=None
        A pair of numbers,.
    ledger : object, default=None
        TODO.
    dataset : str or None, default=None
        TODO.
    unit : str or None, default=None
        TODO.
    relation : str or None, default=None
        TODO.
    contributions : int or None, default=None
        TODO.
    release_id : str or None, default=None
        TODO.
    privacy : Privacy or None, default=None
        TODO.
    random_state : object, default=None
        Also of the surrogate's search; all others as in `SketchDensity`.

    Attributes
    ----------
    backend_ : str
        TODO.
    bounds_ : Pair
        TODO.
    clipped_ : int
        TODO.
    coef_ : ndarray
        TODO.
    degree_ : int
        TODO.
    features_ : list
        TODO.
    intercept_ : float
        TODO.
    method_ : str
        TODO.
    n_features_in_ : int
        TODO.
    release_ : Any
        TODO.
    sketch_ : Any
        TODO.
    statement_ : Any
        TODO.
    target_bounds_ : tuple
        TODO.
    weights_ : ndarray
        TODO.

    Notes
    -----
    **Guarantee.** With epsilon, the estimator keeps nothing but one release, so that the whole
    object, its file and all its answers are (epsilon, delta)-private as `statement_` says. Rows
    outside the public bounds count as the nearest point inside, and predictions stay within
    `target_bounds`.

    References
    ----------
    .. [1] Vu and Slavkovic 2009 (noisy sums); Coleman, Gupta, Chen and Shrivastava 2020
       (surrogate).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> points = rng.uniform(-1, 1, (20_000, 3))
    >>> target = points @ [1.0, -2.0, 0.5] + rng.normal(0, 0.1, 20_000)
    >>> told = SketchRegressor(epsilon=1, bounds=(-1, 1), target_bounds=(-4, 4), degree=1)
    >>> bool(np.abs(told.fit(points, target).coef_ - [1.0, -2.0, 0.5]).max() < 0.2)
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

    def fit(self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None) -> Self:
        """Learn from points, one a row, and their targets; with epsilon, release and forget them.

        sample_weight, integers, only without epsilon. With epsilon a row with a cell or a target
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
        table, weights = self._learned_from(X, y, sample_weight, plain)
        setting = self._public(plain, table if weights is None else table[weights > 0])
        rows, outside = setting.fed(table)
        sketch = setting.empty().update(rows, weights)
        kept = self._kept(sketch, plain)
        self._settle(setting)
        self._take(kept, setting)  # type: ignore[arg-type]
        self._count_outside(outside)
        return self

    def partial_fit(
        self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None
    ) -> Self:
        """Learn from further rows; the bounds stay those of the first call. Not with epsilon.

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
        table = np.column_stack([points, self._target(y, points)])
        rows, outside = self._current().fed(table)
        before = self.clipped_
        self.sketch_.update(rows, self._weights(sample_weight, len(points)))
        self._learned()
        self._count_outside(before + outside)
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
        """The estimator that answers from a release of `Moments`, at no further cost.

        Parameters
        ----------
        release : Release
            TODO.
        **parameters : object
            TODO.

        Returns
        -------
        Self
            The estimator that answers from a release of `Moments`, at no further cost.
        """
        if not isinstance(release, ReleasedMoments):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a ReleasedMoments, not {kind}.")
        (*low, least), (*high, most) = release.bounds
        told = release.statement
        model = cls(
            method="statistics",
            degree=release.degree,
            epsilon=told.epsilon,
            delta=told.delta,
            bounds=(low, high),
            target_bounds=(least, most),
            **parameters,
        )
        plain = model._check()
        model.n_features_in_ = len(low)
        setting = model._public(plain, np.empty((0, len(low) + 1)))
        model._settle(setting)
        model._take(release, setting)  # type: ignore[arg-type]
        return model

    def predict(self, X: Matrix) -> np.ndarray:
        """The target at every point, within the target's bounds.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            The target at every point, within the target's bounds.
        """
        points = self._queries(X)
        inside, _ = Box(*self.bounds_).clip(points)
        told = self._made.values(scaled(inside, self.bounds_)) @ self.weights_
        low, high = self.target_bounds_
        return np.asarray(low + (np.clip(told, -1.0, 1.0) + 1) / 2 * (high - low))

    @property
    def _made(self) -> Polynomials:
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
        """Every target as a number, NaN where it is none; refused is only what is public."""
        numbers = numbers_of(column_of(self._owner, y))
        if len(numbers) != rows:
            raise ValueError(f"{self._owner}: y must have one number for each row of X.")
        return numbers

    def _beside(self, y: Any, plain: dict[str, Any], rows: int) -> tuple[np.ndarray, np.ndarray]:
        target = self._private_target(y, rows)
        (low,), (high,) = plain["target_bounds"] or ((-np.inf,), (np.inf,))
        return np.isnan(target), np.clip(target, low, high) != target

    def _target(self, y: Any, points: np.ndarray) -> np.ndarray:
        if y is None:
            raise ValueError(f"{self._owner}: requires y to be passed, but the target y is None.")
        try:
            numbers = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            # The sentence of NumPy holds the text of the cell, which may be a person's.
            raise ValueError(f"{self._owner}: y must hold numbers, and one is text.") from None
        check_consistent_length(points, numbers)
        return np.asarray(column_or_1d(numbers, warn=True))

    def _public(self, plain: dict[str, Any], table: np.ndarray) -> RegressionSetting:
        """What is public of a fit; with epsilon the rows give nothing but their columns."""
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

    def _settle(self, setting: RegressionSetting) -> None:
        self.method_, self.degree_ = setting.backend, setting.degree
        self.target_bounds_ = setting.target

    def _current(self) -> RegressionSetting:
        """The setting of the sketch that is being filled."""
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
            noise = self._told.noise_error() if hasattr(self, "release_") else (0.0, 0.0)
            self.weights_ = least_squares(self._told.matrix(), self._told.size(), noise)
        else:
            read = searched if self.method_ == "surrogate" else minimised
            self.weights_ = read(self._told)
        self.features_ = self._made.features
        if self.degree_ == 1:
            self._unscale()

    def _unscale(self) -> None:
        """Weights for columns as they were given."""
        low, high = (np.array(side) for side in self.bounds_)
        least, most = self.target_bounds_
        self.coef_ = self.weights_[1:] * (most - least) / (high - low)
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
        self.degree_ = integer(1, most).check("file", "degree", state["degree"])
        (low,), (high,) = BOUNDS.check("file", "target", state["target"])
        self.target_bounds_ = low, high
        self.clipped_ = integer(0).check("file", "clipped", state.get("clipped", 0))

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        for part in parts.values():
            told = isinstance(part, Moments | ReleasedMoments)
            if told != (self.method_ == "statistics") or (
                told and (part.degree, part.dimension) != (self.degree_, self.n_features_in_ + 1)
            ):
                raise ValueError("the part is not of the method, degree or columns.")
        outside = self.__dict__.pop("clipped_", 0)  # of a file; a sketch of angles keeps no bounds
        super()._restore_parts(parts)
        self._count_outside(outside)
