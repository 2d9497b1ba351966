"""Classification by class-conditional likelihood from tables or kernel sums, optionally private."""

import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.core.arrays import (
    Readers,
    column_of,
    private_points,
    table_columns,
    without_rows,
)
from sfumato.core.bounds import Box
from sfumato.core.estimator import available_if
from sfumato.core.estimator_data import (
    check_classification_targets,
    check_feature_names,
    column_or_1d,
)
from sfumato.core.linear_algebra import one_numpy_thread
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, integer, one_of, optional, positive
from sfumato.density.backends import Setting, make
from sfumato.density.base import KernelEstimator
from sfumato.density.classify.categories import (
    CATEGORICAL,
    category_lists,
    with_codes,
    with_listed_bounds,
)
from sfumato.density.classify.class_answers import METHODS, ClassAnswers
from sfumato.density.classify.encoding import (
    LABELS,
    PRIORS,
    Bins,
    column_positions,
    labels_of,
    levels_of,
    listed_positions,
    positions_of,
    prior_probabilities,
    refuse_missing,
)
from sfumato.density.classify.engine_rows import ClassPositions, EngineLabelled
from sfumato.density.classify.kernel_classes import (
    Labelled,
    Planned,
    planned_kernels,
)
from sfumato.density.classify.logistic import ClassLogits, fitted_logits
from sfumato.density.classify.naive_bayes import (
    bare,
    check_cells,
    planned,
)
from sfumato.density.engine_points import PointReading, PointRows, no_rows
from sfumato.privacy.parameters import Privacy

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["SketchClassifier"]


MAX_WIDTH_RATIO = 4  # of the widest to the narrowest column, for one bandwidth
FEW = 3  # columns up to which kernel sums separate classes better than single columns
CLEAR = 3  # deviations of noise that the number of rows must exceed
PART = 1 / 16  # default bandwidth over the longest side of the bounds


class SketchClassifier(ClassAnswers):
    """Classification by class-conditional likelihood, private when epsilon is given.

    Method "columns" counts, for each class, the cells of every column (equal parts of the bounds,
    or codes of categories) and smooths them by their noise. It adds up the log ratios of the
    columns, weighted by sums of products of two columns so that redundant columns count once, and
    calibrates the score by a histogram. These three steps take 15, 3 and 2 twentieths of epsilon.
    Method "kernel" compares the mean kernel value of one sketch per class. Method "logistic", for
    use without privacy, is a multinomial logistic regression on the columns and, with less weight,
    on the evidence of their cells; it needs all rows at once.

    Parameters
    ----------
    method : {"auto", "columns", "kernel", "logistic"}, default="auto"
        Method; "auto" is "kernel" for up to three columns, none of them categorical, whose bounds
        are of similar width (the widest at most four times the narrowest, since one bandwidth must
        suit all), else "columns" with `epsilon` or on an engine, and "logistic" without.
    classes : list of int or str, or None, default=None
        Public list of the labels. Required with `epsilon`; None takes the labels of the data.
    priors : "estimated", sequence of float or None, default="estimated"
        Prior probabilities: "estimated" from the release, None for equal ones, or one number above
        0 per class, in sorted order of the classes.
    bins : int, default=32
        Cells of a numeric column, from 2 to 2**12.
    categorical : list of int or str, dict or None, default=None
        Positions or names of the columns that contain codes 0, 1, ... up to their upper bound; or a
        mapping of such columns to the public lists of their categories, two or more texts or
        integers, as in ``{"city": ["Paris", "Rome"]}`` (None for a column of codes). A cell is read
        as its position in the list, where 7 and "7" are one category; a cell that is not listed is
        a missing one. The bounds of such a column follow from its list.
    bandwidth : float or None, default=None
        Length scale of the kernel in the units of the data, above 0; None is a sixteenth of the
        longest side of the bounds.
    kernel : {"p-stable", "gaussian", "exponential"}, default="gaussian"
        Kernel of method "kernel", as in `SketchDensity`.
    backend : {"auto", "race", "grid", "slices", "fourier"}, default="auto"
        Sketch of method "kernel", as in `SketchDensity`.
    rows : int or None, default=None
        Rows of the sketch of method "kernel", as in `SketchDensity`.
    width : int, default=1024
        Counters per row of the "race" backend, from 2 to 2**31.
    expected_size : int or None, default=None
        Public guess of the number of points, used to choose `rows`; None stands for 65,536.
    epsilon : float or None, default=None
        Privacy parameter, above 0. None fits without privacy.
    delta : float, default=0.0
        Privacy parameter of (epsilon, delta)-differential privacy, from 0 up to but not including
        1; 0 is pure differential privacy. Needs `epsilon`.
    bounds : pair (low, high) or None, default=None
        Public limits of the columns, each side a number or one number per column; of columns with a
        list of categories they may be left out. Points outside are clipped to them. Required with
        `epsilon`; None takes the range of the data.
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
        One object in place of `epsilon`, `delta` and the six parameters before this one.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the hash functions, never of noise. None uses seed 0, so that separately fitted
        estimators can merge.

    Attributes
    ----------
    backend_ : str
        Sketch of method "kernel", or "columns".
    bounds_ : tuple
        Limits (low, high) to which points are clipped, one number per column.
    categories_ : dict of int to tuple
        The public lists of categories by position of their columns.
    classes_ : ndarray of shape (n_classes,)
        The sorted labels.
    clipped_ : int
        Number of training points outside the bounds. Raw data: only without `epsilon`.
    method_ : str
        "columns", "kernel" or "logistic".
    n_features_in_ : int
        Number of columns.
    release_ : ReleasedClassColumns or ReleasedClassKernels
        The released tables or sketches. Only with `epsilon`.
    sketch_ : Sketch
        Not set by this estimator; see `sketches_`.
    sketches_ : list of Sketch
        One sketch per class. Only for method "kernel" without `epsilon`.
    statement_ : PrivacyStatement
        What the release guarantees. Only with `epsilon`.
    tables_ : ClassColumns or ClassLogits
        The tables without noise, or the weights. Only for methods "columns" and "logistic" without
        `epsilon`.

    Notes
    -----
    **Guarantee.** With `epsilon`, the estimator stores nothing but one release, so that the object,
    its file and all its predictions are (epsilon, delta)-differentially private for `unit` and
    `relation` as `statement_` says. A row belongs to one class, so that every class has all of
    epsilon under "add/remove"; "replace" takes twice the noise. The list of classes is public: a
    class without rows has a likelihood of noise and a small prior, and no error reveals it.

    References
    ----------
    .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, section 4 (applications:
       classification). https://arxiv.org/abs/2006.09352
    .. [2] Fisher. "The Use of Multiple Measurements in Taxonomic Problems". Annals of Eugenics
       7(2), 1936 (weights of columns). https://doi.org/10.1111/j.1469-1809.1936.tb02137.x
    .. [3] Platt. "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
       Likelihood Methods". Advances in Large Margin Classifiers, 1999 (calibration).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> points = np.concatenate([rng.normal(-1, 1, (5000, 5)), rng.normal(1, 1, (5000, 5))])
    >>> labels = np.repeat(["left", "right"], 5000)
    >>> model = SketchClassifier(epsilon=1, bounds=(-5, 5), classes=["left", "right"])
    >>> model.fit(points, labels).predict([[-1] * 5, [1] * 5]).tolist()
    ['left', 'right']
    """

    LIMITS: dict[str, Limit] = {  # type: ignore[misc]
        **KernelEstimator.LIMITS,
        "bandwidth": optional(positive),
        "classes": optional(LABELS),
        "priors": PRIORS,
        "method": one_of(("auto", *METHODS)),
        "bins": integer(2, 2**12),
        "categorical": CATEGORICAL,
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

    @one_numpy_thread
    def fit(self, X: Matrix, y: Column, sample_weight: Column | None = None) -> Self:
        """Fit the classifier; with epsilon, release tables or sketches and discard the data.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Training points, one per row. With `epsilon`, rows with a cell that is not a number, or
            not in the list of its column, are dropped and rows outside `bounds` are clipped; no row
            raises an error.
        y : array_like of shape (n_samples,)
            Class labels. With `epsilon`, rows whose label is not in `classes` are dropped.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights, integers from 0 up; None weighs every row 1. Not with `epsilon`.

        Returns
        -------
        Self
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight, self._check())

    @one_numpy_thread
    def fit_rows(
        self, source: Any, *, engine: "Engine", columns: Sequence[str], label: str
    ) -> Self:
        """Fit the classifier to rows on an engine, whose partitions fill tables or sketches.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine. `bounds` and `classes` must be given. With
            `epsilon` no row is refused.
        engine : Engine
            Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        columns : sequence of str
            Names of the columns of the points.
        label : str
            Name of the column of class labels.

        Returns
        -------
        Self
            The fitted estimator.

        Notes
        -----
        **Guarantee.** The model equals that of `fit` on all rows: byte for byte without `epsilon`,
        and one release with it. The budget is charged once, by the caller's process, after all rows
        were read, so that a source that fails costs nothing; noise is added there, once per table,
        to sums of all partitions. A partition that is computed again changes nothing.

        Method "kernel" makes one pass over the rows, and "columns" three; the engine keeps the rows
        between these.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from sfumato.engine import LocalEngine
        >>> rows = {"x": [0.1, 0.2, 0.8, 0.9], "kind": ["a", "a", "b", "b"]}
        >>> model = SketchClassifier(bounds=(0, 1), classes=["a", "b"])
        >>> model = model.fit_rows(rows, engine=LocalEngine(), columns=["x"], label="kind")
        >>> model.predict(pa.table({"x": [0.15, 0.85]})).tolist()
        ['a', 'b']
        """
        names = list(columns)
        plain = self._resolved(no_rows(names), self._check())
        for name in ("bounds", "classes"):
            if plain[name] is None:
                raise ValueError(
                    f"{self._owner}: {name} must be given to learn from parts; the first does not "
                    "know the others'."
                )
        check_feature_names(self, no_rows(names), reset=True)
        self.n_features_in_: int = len(names)
        reading = PointReading(
            self._owner,
            tuple(names),
            Box.of(self._owner, plain["bounds"], len(names)),
            plain["epsilon"] is not None,
            self._readers(plain),
            label,
            ClassPositions(self._owner, plain["classes"]),
        )
        rows = PointRows(engine, source, reading)
        try:
            self._learn(plain, np.array(plain["classes"]), EngineLabelled(rows, reading))
        finally:
            rows.unpersist()
        self._warn_of_noise(stacklevel=4)
        return self

    @available_if(lambda self: self.method == "kernel" and not self._private)
    @one_numpy_thread
    def partial_fit(
        self, X: Matrix, y: Column, classes: Any = None, sample_weight: Column | None = None
    ) -> Self:
        """Add further points; only by method "kernel" and without epsilon.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Further training points, without NaN.
        y : array_like of shape (n_samples,)
            Class labels.
        classes : list of int or str, or None, default=None
            All labels there will be, at the first call, unless the parameter `classes` names them.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights, integers from 0 up; None weighs every row 1. Not with `epsilon`.

        Returns
        -------
        Self
            The fitted estimator.

        Notes
        -----
        Bounds that are not given are those of the points of the first call.
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
        """Merge another fitted classifier into this one; only by method "kernel".

        Parameters
        ----------
        other : Self
            Fitted estimator of the same class, parameters and bounds; it is not changed.

        Returns
        -------
        Self
            This classifier, equal to one fitted to the points of both.

        Raises
        ------
        ValueError
            If bounds or classes differ, or if one of the classifiers is private or of another
            method, whose weights depend on all rows together.
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
        same = self.bounds_ == other.bounds_ and self._lists == other._lists
        if not same or not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"{self._owner}: cannot merge, bounds_, categories_ or classes_ differ; give both "
                "the same."
            )
        for mine, theirs in zip(self.sketches_, other.sketches_, strict=True):
            mine.merge(theirs)
        self.clipped_ = sum(sketch.clipped for sketch in self.sketches_)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, plain: dict[str, Any]) -> Self:
        plain = self._resolved(X, plain)
        read = self._open_rows if plain["epsilon"] is None else self._private_rows
        classes, data = read(X, y, sample_weight, plain)
        self._learn(plain, classes, data)
        self._warn_of_noise(stacklevel=5)
        return self

    def _learn(
        self, plain: dict[str, Any], classes: np.ndarray, data: Labelled | EngineLabelled
    ) -> None:
        """Fill tables or sketches with the rows, release them if private, and take them over."""
        points, weights = data.points, data.weights
        categorical = column_positions(
            self._owner, plain["categorical"], self._names, points.shape[1]
        )
        plain = {**plain, "categorical": categorical}
        prior_probabilities(self._owner, plain["priors"], np.ones(len(classes)))
        setting = self._setting(self._public(plain, points, weights), points)
        method = _method(plain, setting, on_engine=isinstance(data, EngineLabelled))
        if method == "logistic" and plain["epsilon"] is not None:
            raise ValueError(
                f"{self._owner}: method 'logistic' has no private release; take 'columns', or fit "
                "without epsilon."
            )
        fills = {"columns": self._columns, "kernel": self._kernels, "logistic": self._logits}
        fill = fills[method]
        self._take(fill(plain, setting, classes, data), method, classes, setting)
        self.categories_ = {at: listed.categories for at, listed in plain["lists"].items()}
        if plain["epsilon"] is None:
            own = plain["bounds"] is None and weights is None  # those of the points themselves
            self.clipped_: int = 0 if own else data.outside(Box(*setting.bounds))

    def _warn_of_noise(self, *, stacklevel: int) -> None:
        """Warn if the release may be noise alone, judged by released numbers alone."""
        if not hasattr(self, "release_"):
            return
        total, noise = self.release_.noisy_total()
        if total <= CLEAR * noise:
            warnings.warn(
                f"{self._owner}: epsilon {self.statement_.epsilon:g} is too small here: the noisy "
                f"number of rows of all classes, {total:.3g}, is hardly more than its noise of "
                f"about {noise:.3g}; there are few rows, or most were dropped because of classes "
                "or bounds of other data or of text in a column without a list in categorical "
                "(input_report shows the curator how many rows could be read).",
                UserWarning,
                stacklevel=stacklevel,  # the caller of fit
            )

    def _require_bounds(self, plain: dict[str, Any]) -> None:
        given = plain["categorical"]
        if not isinstance(given, dict) or not any(given.values()) or "lists" in plain:
            super()._require_bounds(plain)

    def _resolved(self, X: Any, plain: dict[str, Any]) -> dict[str, Any]:
        plain = {**plain, "lists": {}}
        if not isinstance(plain["categorical"], dict):
            return plain
        columns = self._width(X, plain)
        if columns is None:
            return plain
        check_feature_names(self, X, reset=True)
        lists = category_lists(self._owner, plain["categorical"], self._names, columns)
        if lists:
            bounds = with_listed_bounds(self._owner, plain["bounds"], lists, columns)
            plain |= {"lists": lists, "bounds": bounds}
        self._require_bounds(plain)
        return plain

    def _width(self, X: Any, plain: dict[str, Any]) -> int | None:
        """Number of columns, of private rows without looking at them; None if X is no table."""
        if plain["epsilon"] is None:
            columns = table_columns(X)
            return None if columns is None else len(columns)
        empty = private_points(self._owner, without_rows(X), self._columns_given(plain))
        width = int(empty.shape[1])
        numbers = [one for one in plain["categorical"] if not isinstance(one, str)]
        if isinstance(X, list | tuple) and numbers and max(numbers) >= width:
            raise ValueError(
                f"{self._owner}: bounds must be for every column of a list of rows, with 0 and the "
                "last code for a column with a list of categories; or give X as a table."
            )
        return width

    def _columns_given(self, plain: dict[str, Any]) -> int | None:
        if plain.get("lists"):
            return len(plain["bounds"][0])
        return super()._columns_given(plain)

    def _readers(self, plain: dict[str, Any]) -> Readers:
        return {at: listed.codes for at, listed in plain["lists"].items()}

    def _open_rows(
        self, X: Any, y: Any, sample_weight: Any, plain: dict[str, Any]
    ) -> tuple[np.ndarray, Labelled]:
        """Classes, given or found, and all rows; errors give the number of an unusable row."""
        points = self._train(with_codes(self._owner, X, plain["lists"], self._names))
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
        positions = self._private_positions(y, plain, len(points))
        mask = ~np.isnan(points).any(axis=1) & (positions >= 0)
        return np.array(plain["classes"]), Labelled(points[mask], positions[mask], None)

    def _private_positions(self, y: Any, plain: dict[str, Any], rows: int) -> np.ndarray:
        """Indices of the labels in the public list, -1 for others."""
        column = column_of(self._owner, y)
        positions = listed_positions(self._owner, column, plain["classes"])
        if len(positions) != rows:
            raise ValueError(f"{self._owner}: y must have one label for each row of X.")
        return positions

    def _target_masks(
        self, y: Any, plain: dict[str, Any], rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        if plain["classes"] is None:
            return super()._target_masks(y, plain, rows)
        return self._private_positions(y, plain, rows) < 0, np.zeros(rows, bool)

    def _labels(self, y: Any, rows: int) -> np.ndarray:
        if y is None:
            raise ValueError(f"{self._owner}: requires y to be passed, but the target y is None.")
        refuse_missing(self._owner, y)
        labels = column_or_1d(y)
        refuse_missing(self._owner, labels)  # of a matrix of one column
        check_classification_targets(labels)
        if len(labels) != rows:
            raise ValueError(
                f"{self._owner}: y must have one label per row, {rows}, not {len(labels)}."
            )
        return labels

    def _public(
        self, plain: dict[str, Any], points: np.ndarray, weights: np.ndarray | None
    ) -> dict[str, Any]:
        """The parameters with bounds and bandwidth, from the data only without epsilon."""
        bounds = plain["bounds"]
        if bounds is None:
            low, high = _range(points if weights is None else points[weights > 0])
            high = np.where(high > low, high, low + 1)
            low[list(plain["categorical"] or ())] = 0
            for at, listed in plain.get("lists", {}).items():
                high[at] = len(listed.categories) - 1
            bounds = low, high
        bounds = Box.of(self._owner, bounds, points.shape[1]).bounds
        side = float(np.subtract(bounds[1], bounds[0]).max())
        return {**plain, "bounds": bounds, "bandwidth": plain["bandwidth"] or PART * side}

    def _columns(
        self, plain: dict[str, Any], setting: Setting, classes: np.ndarray, data: Any
    ) -> Any:
        """Tables of columns, or their release."""
        levels = levels_of(self._owner, plain["categorical"], setting.bounds)
        cut = Bins(setting.bounds, plain["bins"], levels)
        check_cells(self._owner, len(classes), cut)
        rows = data.coded(cut, len(classes))
        labels = labels_of(classes)
        parameters = dict(labels=labels, bounds=setting.bounds, bins=cut.bins, levels=levels)
        if plain["epsilon"] is None:
            return bare(parameters, rows)
        return self._release_if_private(
            Planned(self._owner, lambda request: planned(parameters, rows, request)), plain
        )

    def _logits(
        self, plain: dict[str, Any], setting: Setting, classes: np.ndarray, data: Any
    ) -> ClassLogits:
        """Weights of a logistic regression on the rows."""
        if isinstance(data, EngineLabelled):
            raise ValueError(
                f"{self._owner}: method 'logistic' needs all rows at once; on an engine take "
                "'columns' or 'kernel'."
            )
        levels = levels_of(self._owner, plain["categorical"], setting.bounds)
        cut = Bins(setting.bounds, plain["bins"], levels)
        check_cells(self._owner, len(classes), cut)
        counts = data.coded(cut, len(classes)).counts(len(classes), cut.total)
        labels = labels_of(classes)
        parameters = dict(labels=labels, bounds=setting.bounds, bins=cut.bins, levels=levels)
        return fitted_logits(parameters, data.points, data.positions, data.weights, counts)

    def _kernels(
        self, plain: dict[str, Any], setting: Setting, classes: np.ndarray, data: Any
    ) -> Any:
        """One sketch per class, or their joint release."""
        self._empty(setting)  # whose errors name the estimator
        sketches = data.filled(partial(make, setting), len(classes))
        if plain["epsilon"] is None:
            return sketches
        labels, empty = labels_of(classes), self._empty(setting)
        return self._release_if_private(
            Planned(self._owner, lambda request: planned_kernels(labels, sketches, empty, request)),
            plain,
        )


def _range(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest value of every column, of several rows at once: single ones are slow."""
    rows, columns = points.shape
    group = max(min(512 // columns, rows), 1)
    many = points[: rows // group * group].reshape(-1, group * columns)
    some = [*(each.reshape(group, columns) for each in (many.min(axis=0), many.max(axis=0)))]
    ends = np.concatenate([*some, points[rows // group * group :]])
    return ends.min(axis=0), ends.max(axis=0)


def _method(plain: dict[str, Any], setting: Setting, *, on_engine: bool = False) -> str:
    """The chosen method; "auto" is decided by the number of columns, their bounds and epsilon."""
    if plain["method"] != "auto":
        return str(plain["method"])
    sides = Box(*setting.bounds).widths
    few = setting.dimension <= FEW and plain["categorical"] is None
    if few and sides.max() <= MAX_WIDTH_RATIO * sides.min():
        return "kernel"
    return "columns" if plain["epsilon"] is not None or on_engine else "logistic"
