"""Anomalies: points that are strange to histograms which can be told with nobody's data."""

import math
import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.metaestimators import available_if

from sfumato.core.bounds import Box
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, between, integer
from sfumato.density.base import KernelEstimator, hash_seed
from sfumato.density.classify.kernel_classes import Planned, refuse_told
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

__all__ = ["SketchAnomalyDetector"]

MOST = 0.1  # of the points may be past the threshold of contamination="auto"


class _Contamination:
    """ "auto", or a share above 0 up to one half."""

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


class SketchAnomalyDetector(OutlierMixin, SingleSketch):  # type: ignore[misc]
    """Unsupervised anomaly detection from histograms of slices, private when epsilon is given.

    What `score_samples` tells: minus the root mean square, over slices, of the surprise (the
    negative log of a cell's share of the points, in nats) past the slice's entropy; the lower, the
    stranger. Slices are all columns, with half of the weight, and `projections` sums of two
    columns; cells that hold less than their noise count as that.

    The threshold: contamination is the share of the points that is past it, by the points' scores;
    with epsilon, by a noisy histogram of them, which takes a tenth of the budget. "auto", not with
    epsilon, is 3.2 (the root of 10) times the root mean square score, so that at most a tenth is
    past it (Markov); the table alone tells it, and so `merge` and `partial_fit` are possible.

    Learned: release_ and statement_ with epsilon, else sketch_ and clipped_; offset_, bounds_,
    n_features_in_.

    Parameters
    ----------
    contamination : object, default=0.1
        Above 0 up to 0.5, or "auto".
    projections : int, default=32
        From 0.
    bins : int, default=64
        Cells of a histogram, from 2.
    epsilon : float or None, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    delta : float, default=0.0
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    bounds : object, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    ledger : object, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    dataset : str or None, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    unit : str or None, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    relation : str or None, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    contributions : int or None, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    release_id : str or None, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    privacy : Privacy or None, default=None
        Random_state as in `SketchDensity`; bounds may be wide, if only they are public.
    random_state : object, default=None
        TODO.

    Attributes
    ----------
    backend_ : str
        TODO.
    bounds_ : Pair
        TODO.
    clipped_ : int
        TODO.
    n_features_in_ : int
        TODO.
    offset_ : float
        TODO.
    release_ : Any
        TODO.
    sketch_ : Any
        TODO.
    statement_ : Any
        TODO.

    Notes
    -----
    **Guarantee.** With epsilon, the estimator keeps nothing but one release, so that the whole
    object, its file, its scores and its threshold are (epsilon, delta)-private as `statement_`
    says. Without, it keeps a table that merges bit for bit.

    References
    ----------
    .. [1] After LODA: Pevny 2016.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> usual = rng.normal(size=(20_000, 4))
    >>> told = SketchAnomalyDetector(epsilon=2, bounds=(-10, 10), contamination=0.01).fit(usual)
    >>> told.predict([[0, 0, 0, 0], [9, -9, 9, 9]]).tolist()
    [1, -1]
    """

    LIMITS: dict[str, Limit] = {  # type: ignore[misc]
        **{
            name: limit
            for name, limit in KernelEstimator.LIMITS.items()
            if name not in ("bandwidth", "kernel", "backend", "rows", "width", "expected_size")
        },
        "contamination": _Contamination(),
        "projections": integer(0, 2**16),
        "bins": integer(2, 2**12),
    }
    offset_: float

    def __init__(
        self,
        *,
        contamination: Any = 0.1,
        projections: int = 32,
        bins: int = 64,
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
        """Learn from points, one a row; with epsilon, release the table and forget it.

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
        bounds = self._box(plain, points, weights)
        table = SliceTable(
            bounds,
            projections=plain["projections"],
            bins=plain["bins"],
            seed=hash_seed(plain["random_state"]),
        ).update(points, weights)
        inside = table.box.clip(points)[0]
        if plain["epsilon"] is not None:
            planned = Planned(self._owner, lambda terms: planned_slices(table, inside, terms))
            self._take_table(self._kept(planned, plain))
            return self
        self._take_table(table)
        if plain["contamination"] != "auto":
            self._set_offset(-self._surprise.scores(inside), weights, plain["contamination"])
        return self

    @available_if(lambda self: self.contamination == "auto" and not self._private)  # type: ignore[untyped-decorator]
    def partial_fit(
        self, X: Matrix, y: Column | None = None, sample_weight: Column | None = None
    ) -> Self:
        """Learn from further points; only with contamination "auto" and without epsilon."""
        return super().partial_fit(X, y, sample_weight)

    def score_samples(self, X: Matrix) -> np.ndarray:
        """Minus the surprise of every point: the lower, the stranger.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        inside = self._told.box.clip(self._queries(X))[0]
        return np.asarray(-self._surprise.scores(inside))

    def decision_function(self, X: Matrix) -> np.ndarray:
        """The score less the threshold: below 0 for anomalies.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            The score less the threshold: below 0 for anomalies.
        """
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Matrix) -> np.ndarray:
        """-1 for anomalies, 1 for all others.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """The detector that answers from a release of another, at no further cost.

        Parameters
        ----------
        release : Release
            TODO.
        **parameters : object
            TODO.

        Returns
        -------
        Self
            The detector that answers from a release of another, at no further cost.
        """
        if not isinstance(release, ReleasedSliceTable):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release of one, not {kind}.")
        told = release.statement
        given = {
            **described_slices(release),
            "epsilon": told.epsilon,
            "delta": told.delta,
            "privacy": None,
        }
        refuse_told(cls.__name__, parameters, given)
        model = cls(**{**given, **parameters})
        model._check()
        model.n_features_in_ = len(release.bounds[0])
        model._take_table(release)
        return model

    @property
    def _surprise(self) -> Surprise:
        told = self._told
        if isinstance(told, ReleasedSliceTable):
            return told.surprise
        return Surprise(told, told._table, 0.0)

    def _take_table(self, kept: Any) -> None:
        for name in ("release_", "statement_", "sketch_", "clipped_", "offset_"):
            self.__dict__.pop(name, None)
        self.bounds_, self.backend_ = kept.bounds, "slices"
        self._restore_parts({"release_" if isinstance(kept, Release) else "sketch_": kept})
        if hasattr(self, "release_"):
            self._warn_of_noise()

    def _warn_of_noise(self) -> None:
        """Say so where noise hides the threshold or the slices, by numbers released anyway."""
        told, size = self.release_, float(self.release_.size())
        cell, score = (
            math.sqrt(NoiseDistribution(told.noise, scale).variance)
            for scale in (told.scale, told.score_scale)
        )
        # The threshold adds up cells of scores; a slice is noise where its mean cell is.
        past = math.sqrt(SCORE_CELLS) * score
        if past > float(self.contamination) * size or cell > size / told.bins:
            warnings.warn(
                f"{self._owner}: epsilon {self.statement_.epsilon:g} is too small here: the "
                f"threshold has noise of about {past:.3g} points and a cell of a slice {cell:.3g}, "
                "too much by the noisy count of points (release_.size()). A larger epsilon, more "
                "data, a larger contamination, fewer projections or fewer bins would help; "
                "input_report tells the curator how many rows could be read.",
                UserWarning,
                stacklevel=4,  # whoever called fit or from_release
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
            self.offset_ = -float(np.sqrt(self._surprise.mean_square / MOST))

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
                "scores of all points, which are not kept."
            )

    def _box(
        self, plain: dict[str, Any], points: np.ndarray, weights: np.ndarray | None
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Public bounds, or without epsilon those of the points."""
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
