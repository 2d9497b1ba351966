"""Unsupervised anomaly detection from histograms of projections, optionally private."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.core.bounds import Box
from sfumato.core.estimator import available_if
from sfumato.core.estimator_data import check_feature_names
from sfumato.core.estimator_mixins import OutlierMixin
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, between, integer, optional
from sfumato.density.base import KernelEstimator, hash_seed
from sfumato.density.classify.kernel_classes import Planned, refuse_conflicting
from sfumato.density.engine_points import PointReading, PointRows, no_rows
from sfumato.density.projection_histograms import (
    SCORE_CELLS,
    ReleasedSliceTable,
    SliceTable,
    Surprise,
    described_slices,
    planned_slices,
)
from sfumato.density.single_sketch import SingleSketch
from sfumato.errors import ParameterError
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import Release

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["SketchAnomalyDetector"]

PROJECTIONS, FEW = 32, 4  # sums by default; columns up to which they are worth their noise
# Cells, up to so many columns per epsilon; and up to as many as the first, sums are worth it.
BINS = ((45.0, 128), (90.0, 64), (math.inf, 16))
RAW_BINS = 64  # cells without noise, which are not smoothed
MOST = 0.1  # largest fraction of points past the threshold of contamination="auto"


class _Contamination:
    """ "auto", or a fraction above 0 up to one half."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        if isinstance(value, str) and value == "auto":
            return value
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not 0 < value <= 0.5:
            wanted = "'auto' or a number above 0 up to 0.5"
            raise ParameterError.of(owner, name, f"must be {wanted}, not {value!r}.")
        return float(value)

    def bad(self) -> list[Any]:
        return ["many", 0, 0.6, -0.1, None, True, float("nan")]


class SketchAnomalyDetector(OutlierMixin, SingleSketch):
    """Anomaly detection from histograms of projections, private when epsilon is given.

    Each slice is a histogram of one column, or of one of `projections` random weighted sums of two
    columns. The surprise of a point in a slice is the negative log of the fraction of points in its
    cell, in nats. The score of a point is minus the root mean square, over slices, of log(1 +
    exp(x)), where x is the surprise in excess of the slice's entropy; the lower, the more
    anomalous. Columns and sums have half of the weight each. Noisy histograms are shrunk towards
    bells of each slice's mean and width, as far as all slices together show more than their noise;
    where noise dominates, mean and width are those of the box, so that scores fall with the
    distance from its centre. Memory and time per point are proportional to the number of slices.

    Parameters
    ----------
    contamination : float or "auto", default=0.1
        Fraction of the training points below the threshold, above 0 up to 0.5. With `epsilon` the
        threshold comes from a noisy histogram of the scores, which takes a tenth of the budget.
        "auto" sets its square to the mean of the largest tenth of squared surprises, over points
        and slices, so that at most a tenth of the points is below it (Markov's inequality of what
        exceeds a constant). It is computed from the histograms alone, so `merge` and `partial_fit`
        are possible. Not with `epsilon`.
    projections : int or None, default=None
        Number of sums of two columns, from 0 to 2**16; none are used if there is one column. None
        stands for 32, and for 0 with `epsilon` and more than 4 columns, or more than 45 slices per
        unit of epsilon: every slice adds to the noise of all.
    bins : int or None, default=None
        Cells of a histogram, from 2 to 2**12. None stands for 64; with `epsilon`, which smooths
        them, for 128 up to 45 columns per unit of epsilon, 64 up to 90, and 16 beyond.
    epsilon : float or None, default=None
        Privacy parameter, above 0. None fits without privacy.
    delta : float, default=0.0
        Privacy parameter of (epsilon, delta)-differential privacy, from 0 up to but not including
        1; 0 is pure differential privacy. Needs `epsilon`.
    bounds : pair (low, high) or None, default=None
        Public limits of the columns, each side a number or one number per column. Points outside
        are clipped to them. They may be wide. Required with `epsilon`; None takes the range of the
        data.
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
        Seed of the projections, never of noise. None uses seed 0, so that separately fitted
        estimators can merge.

    Attributes
    ----------
    backend_ : str
        Always "slices".
    bounds_ : tuple
        Limits (low, high) to which points are clipped, one number per column.
    clipped_ : int
        Number of training points outside the bounds. Raw data: only without `epsilon`.
    n_features_in_ : int
        Number of columns.
    offset_ : float
        Threshold of `score_samples`: lower scores are anomalies.
    release_ : ReleasedSliceTable
        The released histograms. Only with `epsilon`.
    sketch_ : SliceTable
        The histograms of the training points. Only without `epsilon`.
    statement_ : PrivacyStatement
        What the release guarantees. Only with `epsilon`.

    Notes
    -----
    **Guarantee.** With `epsilon`, the estimator stores nothing but one release, so that the object,
    its file, its scores and its threshold are (epsilon, delta)-differentially private for `unit`
    and `relation` as `statement_` says. Without `epsilon`, it stores exact histograms, which are
    not private; merging them gives the same counts as fitting all points at once.

    References
    ----------
    .. [1] Pevný. "Loda: Lightweight On-line Detector of Anomalies". Machine Learning 102, 2016
       (mean surprise over random projections). https://doi.org/10.1007/s10994-015-5521-0
    .. [2] Morris. "Parametric Empirical Bayes Inference". JASA 78, 1983 (means shrunk by what all
       of them show). https://doi.org/10.1080/01621459.1983.10477920

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> usual = rng.normal(size=(20_000, 4))
    >>> model = SketchAnomalyDetector(epsilon=2, bounds=(-10, 10), contamination=0.01).fit(usual)
    >>> model.predict([[0, 0, 0, 0], [9, -9, 9, 9]]).tolist()
    [1, -1]
    """

    LIMITS: dict[str, Limit] = {  # type: ignore[misc]
        **{
            name: limit
            for name, limit in KernelEstimator.LIMITS.items()
            if name not in ("bandwidth", "kernel", "backend", "rows", "width", "expected_size")
        },
        "contamination": _Contamination(),
        "projections": optional(integer(0, 2**16)),
        "bins": optional(integer(2, 2**12)),
    }
    version = 2  # offsets are of excesses cut softly
    offset_: float

    def __init__(
        self,
        *,
        contamination: Any = 0.1,
        projections: int | None = None,
        bins: int | None = None,
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

    def fit(self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None) -> Self:
        """Fit the detector to points; with epsilon, release the histograms and discard them.

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
        """
        plain = self._check()
        points, weights = self._training_rows(X, sample_weight, plain)
        table = self._slices(plain, self._box(plain, points, weights)).update(points, weights)
        inside = table.box.clip(points)[0]
        if plain["epsilon"] is not None:
            planned = Planned(self._owner, lambda request: planned_slices(table, inside, request))
            self._take_table(self._release_if_private(planned, plain))
            return self
        self._take_table(table)
        if plain["contamination"] != "auto":
            self._set_offset(-self._surprise.scores(inside), weights, plain["contamination"])
        return self

    def fit_rows(self, source: Any, *, engine: "Engine", columns: Sequence[str]) -> Self:
        """Fit the detector to rows on an engine, whose partitions fill histograms.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine. `bounds` must be given, and `contamination`
            "auto" without `epsilon`. With `epsilon` no row is refused.
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
        and one release with it. The budget is charged once, by the caller's process, after all rows
        were read, so that a source that fails costs nothing; noise is added there, once to the
        histograms and once to the scores, of all partitions. A partition that is computed again
        changes nothing. With `epsilon` there are two passes over the rows, which the engine keeps.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from sfumato.engine import LocalEngine
        >>> rows = {"x": [0.1, 0.2, 0.3] * 50 + [9.0]}
        >>> model = SketchAnomalyDetector(bounds=(0, 10), contamination="auto")
        >>> model = model.fit_rows(rows, engine=LocalEngine(), columns=["x"])
        >>> model.predict(pa.table({"x": [0.2, 9.0]})).tolist()
        [1, -1]
        """
        plain, names = self._check(), list(columns)
        self._check_parts(plain)
        box, private = (
            Box.of(self._owner, plain["bounds"], len(names)),
            plain["epsilon"] is not None,
        )
        empty = self._slices(plain, box.bounds)
        reading = PointReading(self._owner, tuple(names), box, private)
        rows = PointRows(engine, source, reading)
        try:
            if private:
                rows.persist()
            table = rows.fold(
                empty.copy,
                lambda slices, points, _: slices.update(points),
                lambda left, right: left.merge(right),
            )
            summary = self._released_parts(table, empty, rows, plain) if private else table
        finally:
            rows.unpersist()
        reading.require_rows(table.total)
        check_feature_names(self, no_rows(names), reset=True)
        self.n_features_in_: int = len(names)
        self._take_table(summary)
        return self

    def _check_parts(self, plain: dict[str, Any]) -> None:
        """Raise ValueError for what partitions cannot learn."""
        if plain["bounds"] is None:
            raise ValueError(
                f"{self._owner}: bounds must be given to learn from parts; the first does not know "
                "the others'."
            )
        if plain["epsilon"] is None and plain["contamination"] != "auto":
            raise ValueError(
                f"{self._owner}: contamination must be 'auto' for fit_rows without epsilon: any "
                "other threshold is of the scores of all points, which no partition has."
            )

    def _released_parts(
        self, table: SliceTable, empty: SliceTable, rows: PointRows, plain: dict[str, Any]
    ) -> Any:
        """The release of the histograms of all partitions."""

        def scored(surprise: Surprise) -> np.ndarray:
            known = replace(surprise, slices=empty)  # what travels is noisy or public
            return rows.total(lambda points, _: known.counted(known.scores(points)), (SCORE_CELLS,))

        return self._release_if_private(
            Planned(self._owner, lambda request: planned_slices(table, scored, request)), plain
        )

    def _slices(self, plain: dict[str, Any], bounds: Any) -> SliceTable:
        """An empty table of this configuration; what is None follows from public numbers."""
        columns, epsilon = len(bounds[0]), plain["epsilon"]
        projections, bins = plain["projections"], plain["bins"]
        if projections is None:
            worth = epsilon is None or (
                columns <= FEW and columns + PROJECTIONS <= BINS[0][0] * epsilon
            )
            projections = PROJECTIONS if worth else 0
        if bins is None and epsilon is None:
            bins = RAW_BINS
        elif bins is None:
            bins = next(number for most, number in BINS if columns <= most * epsilon)
        return SliceTable(
            bounds,
            projections=projections,
            bins=bins,
            seed=hash_seed(plain["random_state"]),
        )

    @available_if(lambda self: self.contamination == "auto" and not self._private)
    def partial_fit(
        self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None
    ) -> Self:
        """Add further points; only with contamination "auto" and without epsilon.

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
        """
        return super().partial_fit(X, y, sample_weight)

    def score_samples(self, X: Matrix) -> np.ndarray:
        """Compute the score of every point, minus its excess surprise.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores up to 0 in nats; the lower, the more anomalous.
        """
        inside = self._summary.box.clip(self._queries(X))[0]
        return np.asarray(-self._surprise.scores(inside))

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Compute the score of every point minus the threshold.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite.

        Returns
        -------
        ndarray of shape (n_samples,)
            `score_samples` minus `offset_`; negative for anomalies.
        """
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Matrix) -> np.ndarray:
        """Classify points as anomalies or usual points.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite.

        Returns
        -------
        ndarray of shape (n_samples,)
            -1 for anomalies, 1 for all others.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """Build a detector that answers from the release of another.

        Parameters
        ----------
        release : Release
            The `release_` of a detector.
        **parameters : object
            Further parameters of the constructor; those that the release determines are refused,
            except `random_state`.

        Returns
        -------
        Self
            The fitted detector, with the epsilon and delta of the release. It costs no further
            privacy.
        """
        if not isinstance(release, ReleasedSliceTable):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release of one, not {kind}.")
        statement = release.statement
        given = {
            **described_slices(release),
            "epsilon": statement.epsilon,
            "delta": statement.delta,
            "privacy": None,
        }
        refuse_conflicting(cls.__name__, parameters, given)
        model = cls(**{**given, **parameters})
        model._check()
        model.n_features_in_ = len(release.bounds[0])
        model._take_table(release)
        return model

    @property
    def _surprise(self) -> Surprise:
        summary = self._summary
        if isinstance(summary, ReleasedSliceTable):
            return summary.surprise
        return Surprise(summary, summary._table, 0.0)

    def _take_table(self, summary: Any) -> None:
        """Replace the fitted state by this table or release."""
        for name in ("release_", "statement_", "sketch_", "clipped_", "offset_"):
            self.__dict__.pop(name, None)
        self.bounds_, self.backend_ = summary.bounds, "slices"
        self._restore_parts({"release_" if isinstance(summary, Release) else "sketch_": summary})
        if hasattr(self, "release_"):
            self._warn_of_noise()

    def _warn_of_noise(self) -> None:
        """Warn if noise dominates the threshold or the slices, judged by released numbers alone."""
        release, size = self.release_, float(self.release_.size())
        cell, score = (
            math.sqrt(NoiseDistribution(release.noise, scale).variance)
            for scale in (release.scale, release.score_scale)
        )
        # The threshold adds up cells of scores; a slice is noise where its mean cell is.
        past = math.sqrt(SCORE_CELLS) * score
        if past > float(self.contamination) * size or cell > size / release.bins:
            warnings.warn(
                f"{self._owner}: epsilon {self.statement_.epsilon:g} is too small here: the "
                f"threshold has noise of about {past:.3g} points and a cell of a slice {cell:.3g}, "
                "too much by the noisy count of points (release_.size()). A larger epsilon, more "
                "data, a larger contamination, fewer projections or fewer bins would help; "
                "input_report shows the curator how many rows could be read.",
                UserWarning,
                stacklevel=4,  # the caller of fit or from_release
            )

    def _check(self) -> dict[str, Any]:
        plain = super()._check()
        if plain["epsilon"] is not None and plain["contamination"] == "auto":
            raise ValueError(
                f"{self._owner}: contamination must be a number with epsilon, not 'auto', which "
                "needs histograms without noise."
            )
        return plain

    def _learned(self) -> None:
        super()._learned()
        if hasattr(self, "release_"):
            self.offset_ = -self.release_.threshold(float(self.contamination))
        elif self.contamination == "auto":
            self.offset_ = -float(np.sqrt(self._surprise.largest_mean(MOST)))

    def _set_offset(
        self, scores: np.ndarray, weights: np.ndarray | None, contamination: float
    ) -> None:
        if weights is not None:
            scores = np.repeat(scores, weights)
        self.offset_ = float(np.percentile(scores, 100 * contamination))

    def _refuse_private(self, verb: str, plain: dict[str, Any]) -> None:
        super()._refuse_private(verb, plain)
        if plain["contamination"] != "auto":
            raise ValueError(
                f"{self._owner}: {verb} needs contamination 'auto': any other threshold is of the "
                "scores of all points, which are not stored."
            )

    def _box(
        self, plain: dict[str, Any], points: np.ndarray, weights: np.ndarray | None
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The given bounds, or without epsilon those of the points."""
        if plain["bounds"] is not None:
            return Box.of(self._owner, plain["bounds"], points.shape[1]).bounds
        used = points if weights is None else points[weights > 0]
        low, high = used.min(axis=0), used.max(axis=0)
        return tuple(map(float, low)), tuple(map(float, np.where(high > low, high, low + 1)))

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "offset": self.offset_}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.offset_ = between(-math.inf, math.inf, above=True).check(
            "file", "offset", state["offset"]
        )
