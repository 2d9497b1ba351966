"""KernelFeatures: a feature map of a kernel for linear models, by random frequencies."""

from typing import Any, Self

import numpy as np

from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.estimator_data import validate_data
from sfumato.core.estimator_mixins import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    checked_values,
    integer,
    optional,
    positive,
    random_seed,
)
from sfumato.sketch import KernelFourier
from sfumato.sketch.kernel_sums.radial_kernels import KERNEL
from sfumato.sketch.kernel_sums.stratified_sampling import STRATA

__all__ = ["KernelFeatures"]

OWNER = "KernelFeatures"
LIMITS: dict[str, Limit] = {
    "bandwidth": optional(positive),
    "kernel": KERNEL,
    "rows": integer(1, 2**20),
    "strata": STRATA,
    "random_state": RANDOM_STATE,
}
PAIRED = 1000  # rows whose distances choose a bandwidth


class KernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random Fourier features: a linear model on them learns what one with the kernel would.

    It is `KernelFourier.transform` as a transformer of scikit-learn. Not private by itself: without
    `bandwidth` it keeps a distance of training rows, and their ranges.

    Parameters
    ----------
    bandwidth : float or None, default=None
        Length scale of the kernel in the units of the columns, above 0; None is the median distance
        of pairs of training rows.
    kernel : {"p-stable", "gaussian", "exponential"}, default="gaussian"
        Kernel, as in `SketchDensity`.
    rows : int, default=512
        Number of frequencies, from 1 to 2**20; there are twice as many features.
    strata : {"stratified", "independent"}, default="stratified"
        How frequencies are drawn, as in `KernelFourier`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the frequencies; None is seed 0.

    Attributes
    ----------
    bandwidth_ : float
        Length scale that is used.
    n_features_in_ : int
        Number of columns.
    sketch_ : KernelFourier
        The empty sketch that holds frequencies and bounds.

    Notes
    -----
    **Guarantee.** Inner products of transformed rows estimate the kernel of the rows without bias
    over seeds; see `KernelFourier.transform`.

    References
    ----------
    .. [1] Rahimi, Recht. "Random Features for Large-Scale Kernel Machines". NIPS 2007.

    Examples
    --------
    A line on the features separates a disc from its ring, which no line on the columns does:

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> inside = (X**2).sum(axis=1) < 1.4
    >>> model = make_pipeline(KernelFeatures(rows=128), LogisticRegression()).fit(X, inside)
    >>> bool(model.score(X, inside) > 0.95)
    True
    """

    bandwidth_: float
    n_features_in_: int
    sketch_: KernelFourier

    def __init__(
        self,
        bandwidth: float | None = None,
        *,
        kernel: str = "gaussian",
        rows: int = 512,
        strata: str = "stratified",
        random_state: Any = None,
    ) -> None:
        self.bandwidth, self.kernel, self.rows = bandwidth, kernel, rows
        self.strata, self.random_state = strata, random_state

    def fit(self, X: Matrix, y: Column | None = None) -> Self:
        """Draw frequencies for the ranges of the columns.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Training rows, all finite.
        y : array_like or None, default=None
            Not used.

        Returns
        -------
        Self
            The object itself.
        """
        plain = checked_values(OWNER, LIMITS, self.get_params(deep=False))
        rows = np.asarray(validate_data(self, X, reset=True), np.float64)
        low, high = rows.min(axis=0), rows.max(axis=0)
        self.bandwidth_ = plain["bandwidth"] or _median_distance(rows)
        # A frequency needs no more than a side of the box to be exact; see `check_turns`.
        wide = np.maximum(high - low, self.bandwidth_)
        wide = np.maximum(wide, np.maximum(abs(low), abs(high)) * 2.0**-40)
        seed = 0 if self.random_state is None else random_seed(OWNER, self.random_state)
        self.sketch_ = KernelFourier(
            self.bandwidth_,
            (low.tolist(), (low + wide).tolist()),
            rows=plain["rows"],
            kernel=plain["kernel"],
            strata=plain["strata"],
            seed=seed,
        )
        return self

    def transform(self, X: Matrix) -> np.ndarray:
        """Map rows to features.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Rows, all finite, within the training range or not.

        Returns
        -------
        ndarray of shape (n_samples, 2 * rows)
            Features of the type of X, float32 or else float64; each row of length 1.
        """
        if not hasattr(self, "sketch_"):
            raise not_fitted(f"{OWNER}: not fitted yet; call fit first.")
        rows = np.asarray(validate_data(self, X, reset=False))
        kind = np.float32 if rows.dtype == np.float32 else np.float64
        return self.sketch_.transform(rows).astype(kind, copy=False)

    @property
    def _n_features_out(self) -> int:
        return 2 * self.sketch_.rows


def _median_distance(rows: np.ndarray) -> float:
    """The median distance of pairs of some rows, 1 if they are all alike."""
    some = rows[:: max(1, len(rows) // PAIRED)][:PAIRED]
    half = len(some) // 2
    apart = np.linalg.norm(some[:half] - some[half : 2 * half], axis=1)
    found = float(np.median(apart)) if half else 0.0
    return found if found > 0 else 1.0
