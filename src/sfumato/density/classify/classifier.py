"""Classes by their likelihood, from tables or kernel sums that can be told with nobody's data.

What a classifier answers from tables or kernel sums of classes, and how these go to files.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from sfumato.core.arrays import column_of
from sfumato.core.bounds import Box
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, integer, one_of, optional, positive
from sfumato.density.backends import Setting, described
from sfumato.density.base import KernelEstimator
from sfumato.density.classify.encoding import (
    COLUMNS,
    LABELS,
    PRIORS,
    Bins,
    column_positions,
    labels_of,
    levels_of,
    listed_positions,
    positions_of,
    prior_shares,
    refuse_missing,
)
from sfumato.density.classify.kernel_classes import (
    Labelled,
    Planned,
    ReleasedClassKernels,
    column_joint,
    kernel_joint,
    planned_kernels,
    refuse_told,
)
from sfumato.density.classify.naive_bayes import (
    LabelledRows,
    ReleasedClassColumns,
    bare,
    check_cells,
    planned,
)
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import Release

__all__ = ["METHODS", "ClassAnswers", "SketchClassifier"]

METHODS = ("columns", "kernel")


class ClassAnswers(ClassifierMixin, KernelEstimator, in_files=False):  # type: ignore[misc]
    """A classifier that was fitted: by its release, or by what that would hold without noise."""

    priors: Any
    classes_: np.ndarray
    method_: str
    tables_: Any
    sketches_: list[Any]

    def predict_log_proba(self, X: Matrix) -> np.ndarray:
        """The log probability of every class, classes in the order of `classes_`.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            The log probability of every class, classes in the order of `classes_`.
        """
        joint = self._joint(self._queries(X))
        most = joint.max(axis=1, keepdims=True)
        return np.asarray(joint - most - np.log(np.exp(joint - most).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Matrix) -> np.ndarray:
        """The probability of every class.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            The probability of every class.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def decision_function(self, X: Matrix) -> np.ndarray:
        """The log odds of the second of two classes; of more, the log likelihood times prior.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            The log odds of the second of two classes; of more, the log likelihood times prior.
        """
        joint = self._joint(self._queries(X))
        return np.asarray(joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else joint)

    def predict(self, X: Matrix) -> np.ndarray:
        """The likeliest class of every point.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            The likeliest class of every point.
        """
        joint = self._joint(self._queries(X))
        return np.asarray(self.classes_[joint.argmax(axis=1)])

    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """The classifier that answers from a release of another, at no further cost.

        Parameters
        ----------
        release : Release
            TODO.
        **parameters : object
            TODO.

        Returns
        -------
        Self
            The classifier that answers from a release of another, at no further cost.
        """
        if not isinstance(release, ReleasedClassColumns | ReleasedClassKernels):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release of one, not {kind}.")
        told = release.statement
        public = _told(release)
        cost = dict(epsilon=told.epsilon, delta=told.delta, privacy=None)
        given = {**public, **cost, "classes": release.labels}
        refuse_told(cls.__name__, parameters, given)
        model = cls(**{**given, **parameters})
        model.bounds_ = public["bounds"]
        model.n_features_in_ = len(model.bounds_[0])
        model.backend_ = public.get("backend", "columns")
        model.classes_ = np.array(release.labels)
        model.method_ = "columns" if isinstance(release, ReleasedClassColumns) else "kernel"
        model._restore_parts({"release_": release})
        return model

    def _take(self, kept: Any, method: str, classes: np.ndarray, setting: Setting) -> None:
        for name in ("release_", "statement_", "tables_", "sketches_", "clipped_"):
            self.__dict__.pop(name, None)
        self.classes_, self.method_ = classes, method
        self.bounds_ = setting.bounds
        self.backend_ = setting.backend if method == "kernel" else "columns"
        if isinstance(kept, Release):
            self._restore_parts({"release_": kept})
        elif method == "columns":
            self.tables_ = kept
        else:
            self.sketches_ = kept

    def _joint(self, points: np.ndarray) -> np.ndarray:
        """The log of likelihood times prior, up to what all classes share."""
        if self.method_ == "kernel":
            return kernel_joint(self._owner, self._class_sums(), self.priors, points)
        held = self.release_ if hasattr(self, "release_") else self.tables_
        return column_joint(self._owner, held, self.priors, points)

    def _class_sums(self) -> list[Any]:
        return self.release_.parts if hasattr(self, "release_") else self.sketches_

    def _parts(self) -> dict[str, Any]:
        if hasattr(self, "sketches_"):
            return {f"class_{k}": sketch for k, sketch in enumerate(self.sketches_)}
        return {n: getattr(self, n) for n in ("release_", "tables_") if hasattr(self, n)}

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        held = parts.get("release_", parts.get("tables_"))
        if held is not None and held.labels != labels_of(self.classes_):
            raise ValueError("the release is of other classes.")
        if held is None and len(parts) != len(self.classes_):
            raise ValueError("there must be one sketch for each class.")
        if "release_" in parts:
            self.release_ = parts["release_"]
            self.statement_ = self.release_.statement
        elif "tables_" in parts:
            self.tables_ = parts["tables_"]
        else:
            self.sketches_ = list(parts.values())

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "labels": list(labels_of(self.classes_)),
            "method": self.method_,
            "clipped": getattr(self, "clipped_", None),  # the curator's: none with privacy
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.classes_ = np.array(LABELS.check(self._owner, "classes", state["labels"]))
        self.method_ = one_of(METHODS).check(self._owner, "method", state["method"])
        if state["clipped"] is not None:
            self.clipped_ = integer(0).check(self._owner, "clipped", state["clipped"])


def _told(release: ReleasedClassColumns | ReleasedClassKernels) -> dict[str, Any]:
    """The parameters of an estimator that made this release."""
    if isinstance(release, ReleasedClassKernels):
        return described(release.parts[0]).parameters()
    named = [column for column, levels in enumerate(release.levels) if levels]
    return dict(bounds=release.bounds, bins=release.bins, categorical=named or None)


ALIKE = 4  # times as wide as the narrowest column may be the widest, for one bandwidth
FEW = 3  # columns up to which kernel sums tell classes better than columns one by one
PART = 1 / 16  # of the longest side of the bounds: the bandwidth unless told


class SketchClassifier(ClassAnswers):
    """Classification by class-conditional likelihood, private when epsilon is given.

    method: "columns" counts, for each class, cells of every column (equal parts of the bounds, or
    codes of categories), smooths them as their noise asks, and adds up the columns' log ratios,
    weighed by sums of products of two columns so that what they tell twice counts once, and
    calibrated by a histogram of scores: three steps that take 15, 3 and 2 twentieths of epsilon.
    "kernel" takes the mean kernel value of a sketch for each class. "auto" is "kernel" up to three
    columns, none of them categorical, whose bounds are wide alike (the widest at most four times
    the narrowest: one bandwidth must suit them all), else "columns".

    Learned: release_ and statement_ with epsilon, else what the release would hold without noise,
    and clipped_ (for the curator only); classes_, method_, bounds_, n_features_in_, and backend_,
    the sketch of method "kernel", or "columns".

    Parameters
    ----------
    method : str, default="auto"
        TODO.
    classes : object, default=None
        The public list, required with epsilon.
    priors : object, default="estimated"
        "estimated" from the release, None for equal ones, or one number per class.
    bins : int, default=32
        Parts of a column.
    categorical : object, default=None
        Numbers or names of columns that hold codes 0, 1, ... up to their upper bound.
    bandwidth : float or None, default=None
        None for a sixteenth of the longest side of the bounds; all others as in `SketchDensity`.
    kernel : str, default="gaussian"
        TODO.
    backend : str, default="auto"
        TODO.
    rows : int or None, default=None
        TODO.
    width : int, default=1024
        TODO.
    expected_size : int or None, default=None
        TODO.
    epsilon : float or None, default=None
        TODO.
    delta : float, default=0.0
        TODO.
    bounds : object, default=None
        TODO.
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
        TODO.

    Attributes
    ----------
    backend_ : str
        TODO.
    bounds_ : Pair
        TODO.
    classes_ : ndarray
        TODO.
    clipped_ : int
        TODO.
    method_ : str
        TODO.
    n_features_in_ : int
        TODO.
    release_ : Any
        TODO.
    sketch_ : Any
        TODO.
    sketches_ : list
        TODO.
    statement_ : Any
        TODO.
    tables_ : Any
        TODO.

    Notes
    -----
    **Guarantee.** With epsilon, the estimator keeps nothing but one release, so that the whole
    object, its file and all its answers are (epsilon, delta)-private as `statement_` says. A row
    belongs to one class, so that every class has the whole epsilon under "add/remove"; "replace"
    takes twice the noise. The list of classes is public: one without rows has a likelihood of noise
    and a small prior, and no error tells.

    References
    ----------
    .. [1] Coleman and Shrivastava 2021, section 4.2 (kernel); Fisher 1936 and Platt 1999 (columns).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> points = np.concatenate([rng.normal(-1, 1, (5000, 5)), rng.normal(1, 1, (5000, 5))])
    >>> labels = np.repeat(["left", "right"], 5000)
    >>> told = SketchClassifier(epsilon=1, bounds=(-5, 5), classes=["left", "right"])
    >>> told.fit(points, labels).predict([[-1] * 5, [1] * 5]).tolist()
    ['left', 'right']
    """

    LIMITS: dict[str, Limit] = {  # type: ignore[misc]
        **KernelEstimator.LIMITS,
        "bandwidth": optional(positive),
        "classes": optional(LABELS),
        "priors": PRIORS,
        "method": one_of(("auto", *METHODS)),
        "bins": integer(2, 2**12),
        "categorical": COLUMNS,
    }

    def __init__(
        self,
        *,
        method: str = "auto",
        classes: Any = None,
        priors: Any = "estimated",
        bins: int = 32,
        categorical: Any = None,
        bandwidth: float | None = None,
        kernel: str = "gaussian",
        backend: str = "auto",
        rows: int | None = None,
        width: int = 1024,
        expected_size: int | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        bounds: Any = None,
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

    def fit(self, X: Matrix, y: Column, sample_weight: Column | None = None) -> Self:
        """Learn from points, one a row, and their classes; with epsilon, release and forget them.

        sample_weight, integers, only without epsilon. With epsilon a row with a cell that is no
        number or a label that is not in `classes` is dropped, one outside the bounds clipped, and
        none is refused.

        Parameters
        ----------
        X : array_like
            TODO.
        y : array_like
            TODO.
        sample_weight : array_like or None, default=None
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        return self._fit(X, y, sample_weight, self._check())

    @available_if(lambda self: self.method == "kernel" and not self._private)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: Matrix, y: Column, classes: Any = None, sample_weight: Column | None = None
    ) -> Self:
        """Learn from further points: only by method "kernel" and without epsilon.

        classes: all there will be, at the first call, unless the parameter names them; bounds that
        are not given are those of the first points.
        """
        plain = self._check()
        if not hasattr(self, "sketches_"):
            named = classes if plain["classes"] is None else plain["classes"]
            known = optional(LABELS).check(self._owner, "classes", named)
            return self._fit(X, y, sample_weight, {**plain, "classes": known})
        points = self._train(X, reset=False)
        labels = self._labels(y, len(points))
        data = Labelled(
            points,
            positions_of(self._owner, labels, self.classes_),
            self._weights(sample_weight, len(points)),
        )
        for k, sketch in enumerate(self.sketches_):
            sketch.update(*data.of(k))
        self.clipped_ = sum(sketch.clipped for sketch in self.sketches_)
        return self

    def merge(self, other: Self) -> Self:
        """Take in what another of the same public numbers learned: only by method "kernel".

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
            if not hasattr(one, "sketches_"):
                raise ValueError(
                    f"{self._owner}: merge needs method 'kernel' without epsilon: its sketches "
                    "merge; releases do not, and columns are weighed by all rows together."
                )
        if self.bounds_ != other.bounds_ or not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"{self._owner}: cannot merge, bounds_ or classes_ differ; give both the same."
            )
        for mine, theirs in zip(self.sketches_, other.sketches_, strict=True):
            mine.merge(theirs)
        self.clipped_ = sum(sketch.clipped for sketch in self.sketches_)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, plain: dict[str, Any]) -> Self:
        read = self._open_rows if plain["epsilon"] is None else self._private_rows
        classes, data = read(X, y, sample_weight, plain)
        points, weights = data.points, data.weights
        names = list(map(str, getattr(self, "feature_names_in_", ())))
        asked = column_positions(self._owner, plain["categorical"], names, points.shape[1])
        plain = {**plain, "categorical": asked}
        prior_shares(self._owner, plain["priors"], np.ones(len(classes)))
        setting = self._setting(self._public(plain, points, weights), points)
        method = _method(plain, setting)
        fill = self._columns if method == "columns" else self._kernels
        self._take(fill(plain, setting, classes, data), method, classes, setting)
        if plain["epsilon"] is None:
            self.clipped_ = Box(*setting.bounds).clip(points)[1]
        return self

    def _open_rows(
        self, X: Any, y: Any, sample_weight: Any, plain: dict[str, Any]
    ) -> tuple[np.ndarray, Labelled]:
        """Classes, given or found, and all rows; one that cannot be used is told by its number."""
        points = self._train(X)
        labels = self._labels(y, len(points))
        known = np.unique(labels) if plain["classes"] is None else np.array(plain["classes"])
        positions = positions_of(self._owner, labels, known)
        return known, Labelled(points, positions, self._weights(sample_weight, len(points)))

    def _private_rows(
        self, X: Any, y: Any, sample_weight: Any, plain: dict[str, Any]
    ) -> tuple[np.ndarray, Labelled]:
        """The public classes, and rows by the public rule, which refuses none."""
        self._refuse_weights(sample_weight)
        if plain["classes"] is None:
            raise ValueError(
                f"{self._owner}: classes must be given with epsilon: the public list of labels, "
                "never taken from private data."
            )
        points = self._private_points(X, plain)
        positions = self._private_places(y, plain, len(points))
        kept = ~np.isnan(points).any(axis=1) & (positions >= 0)
        return np.array(plain["classes"]), Labelled(points[kept], positions[kept], None)

    def _private_places(self, y: Any, plain: dict[str, Any], rows: int) -> np.ndarray:
        column = column_of(self._owner, y)
        positions = listed_positions(self._owner, column, plain["classes"])
        if len(positions) != rows:
            raise ValueError(f"{self._owner}: y must have one label for each row of X.")
        return positions

    def _beside(self, y: Any, plain: dict[str, Any], rows: int) -> tuple[np.ndarray, np.ndarray]:
        if plain["classes"] is None:
            return super()._beside(y, plain, rows)
        return self._private_places(y, plain, rows) < 0, np.zeros(rows, bool)

    def _labels(self, y: Any, rows: int) -> np.ndarray:
        if y is None:
            raise ValueError(f"{self._owner}: requires y to be passed, but the target y is None.")
        refuse_missing(self._owner, y)
        labels = column_or_1d(y, warn=True)
        refuse_missing(self._owner, labels)  # of a matrix of one column
        check_classification_targets(labels)
        if len(labels) != rows:
            raise ValueError(
                f"{self._owner}: y must have one label per row, {rows}, not {len(labels)}."
            )
        return np.asarray(labels)

    def _public(
        self, plain: dict[str, Any], points: np.ndarray, weights: np.ndarray | None
    ) -> dict[str, Any]:
        """The parameters with bounds and bandwidth, those of the data only without epsilon."""
        bounds = plain["bounds"]
        if bounds is None:
            used = points if weights is None else points[weights > 0]
            low, high = used.min(axis=0), used.max(axis=0)
            high = np.where(high > low, high, low + 1)
            low[list(plain["categorical"] or ())] = 0
            bounds = low, high
        bounds = Box.of(self._owner, bounds, points.shape[1]).bounds
        side = float(np.subtract(bounds[1], bounds[0]).max())
        return {**plain, "bounds": bounds, "bandwidth": plain["bandwidth"] or PART * side}

    def _columns(
        self, plain: dict[str, Any], setting: Setting, classes: np.ndarray, data: Labelled
    ) -> Any:
        levels = levels_of(self._owner, plain["categorical"], setting.bounds)
        cut = Bins(setting.bounds, plain["bins"], levels)
        check_cells(self._owner, len(classes), cut)
        rows = LabelledRows(cut.codes(data.points), data.positions, data.weights)
        labels = labels_of(classes)
        told = dict(labels=labels, bounds=setting.bounds, bins=cut.bins, levels=levels)
        if plain["epsilon"] is None:
            return bare(told, rows)
        return self._kept(Planned(self._owner, lambda terms: planned(told, rows, terms)), plain)

    def _kernels(
        self, plain: dict[str, Any], setting: Setting, classes: np.ndarray, data: Labelled
    ) -> Any:
        sketches = [self._empty(setting) for _ in classes]
        for k, sketch in enumerate(sketches):
            sketch.update(*data.of(k))
        if plain["epsilon"] is None:
            return sketches
        labels, empty = labels_of(classes), self._empty(setting)
        return self._kept(
            Planned(self._owner, lambda terms: planned_kernels(labels, sketches, empty, terms)),
            plain,
        )


def _method(plain: dict[str, Any], setting: Setting) -> str:
    """The method that was asked for; "auto" by the number of columns and their bounds alone."""
    if plain["method"] != "auto":
        return str(plain["method"])
    sides = Box(*setting.bounds).widths
    few = setting.dimension <= FEW and plain["categorical"] is None
    return "kernel" if few and sides.max() <= ALIKE * sides.min() else "columns"
