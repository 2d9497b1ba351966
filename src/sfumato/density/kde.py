"""Kernel density estimation and synthetic data from one mergeable sketch, optionally private."""

from typing import Any

import numpy as np

from sfumato.core.estimator_mixins import DensityMixin
from sfumato.core.linear_algebra import one_numpy_thread
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import one_of
from sfumato.density.backends import described
from sfumato.density.base import LIMITS
from sfumato.density.evaluation_grid import log_integral
from sfumato.density.single_sketch import METHODS, Drawing
from sfumato.privacy.parameters import Privacy

__all__ = ["SketchDensity", "SketchSampler"]

LAST_DIGIT = 2.0**-52  # rounding error of a mean of kernel values up to 1


class SketchDensity(DensityMixin, Drawing):
    """Kernel density estimation from a sketch, private when epsilon is given.

    Use it for data too large to store, for data that arrive in parts or from several machines, or
    for densities that may be published. Memory is that of the sketch and independent of the number
    of points; a query costs time proportional to the rows of the sketch.

    `score_samples` returns the logarithm of the mean kernel value k(x, q) over the data, divided by
    the integral of the kernel over R^d where that is finite ("gaussian", "exponential"); it is then
    a log density. The "p-stable" kernel falls as 1 / distance and has no finite integral, so its
    mean is returned as it is, a number up to 1. Means are clipped to the range from `floor_` to 1,
    so that no result is infinite.

    Parameters
    ----------
    bandwidth : float, default=1.0
        Length scale of the kernel in the units of the data, above 0.
    kernel : {"p-stable", "gaussian", "exponential"}, default="p-stable"
        Kernel k(r) of the distance r in bandwidths: "gaussian" is exp(-r**2 / 2), "exponential" is
        exp(-r), and "p-stable" is the collision probability of Gaussian projections in buckets of
        one bandwidth, which falls as 1 / r.
    backend : {"auto", "race", "grid", "slices", "fourier"}, default="auto"
        Sketch that stores the kernel sums. "auto" chooses by public numbers alone: a grid for few
        columns and not too fine a bandwidth, slices up to 3 columns, else "race" for "p-stable" and
        "fourier" for the other kernels. "race" has the "p-stable" kernel only.
    rows : int or None, default=None
        Number of rows (hash functions, directions or frequencies) of the sketch, from 1 to 2**20.
        None chooses it from `epsilon`, `delta` and `expected_size`; a grid has one.
    width : int, default=1024
        Counters per row of the "race" backend, from 2 to 2**31; the other backends ignore it.
    expected_size : int or None, default=None
        Public guess of the number of points, used to choose `rows`; None stands for 65,536.
    epsilon : float or None, default=None
        Privacy parameter, above 0. None fits without privacy.
    delta : float, default=0.0
        Privacy parameter of (epsilon, delta)-differential privacy, from 0 up to but not including
        1; 0 is pure differential privacy. Needs `epsilon`.
    bounds : pair (low, high) or None, default=None
        Public limits of the columns, each side a number or one number per column. Points outside
        are clipped to them. Required with `epsilon`; None takes the range of the data.
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
        Seed of the hash functions and of samples, never of noise. None uses seed 0 for the hash
        functions, so that separately fitted estimators can merge, and fresh randomness for samples.

    Attributes
    ----------
    backend_ : str
        Sketch that is used, one of the choices of `backend` except "auto".
    bounds_ : tuple
        Limits (low, high) to which points are clipped, one number per column.
    clipped_ : int
        Number of training points outside the bounds. Raw data: only without `epsilon`.
    floor_ : float
        Smallest mean kernel value that is returned: with `epsilon` the standard deviation of the
        noise of one estimate over the noisy number of points, at most 1; else 2**-52.
    n_features_in_ : int
        Number of columns.
    release_ : Release
        The released sketch. Only with `epsilon`.
    sketch_ : Sketch
        The sketch of the training points. Only without `epsilon`.
    statement_ : PrivacyStatement
        What the release guarantees. Only with `epsilon`.

    Notes
    -----
    **Guarantee.** Without `epsilon`, estimates come from a mergeable sketch whose size does not
    grow with the data. With `epsilon`, the estimator stores nothing but the release of the sketch,
    so that the object, its file and all its results are (epsilon, delta)-differentially private for
    `unit` and `relation` as `statement_` says.

    References
    ----------
    .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, sections 3 (private sketch) and 4
       (applications). https://arxiv.org/abs/2006.09352

    Examples
    --------
    >>> import numpy as np
    >>> points = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> model = SketchDensity(bandwidth=0.5, epsilon=1, bounds=(-4, 4)).fit(points)
    >>> bool(model.score_samples([[0, 0]])[0] > model.score_samples([[3, 3]])[0])
    True
    >>> model.statement_.epsilon, hasattr(model, "sketch_"), model.sample(5).shape
    (1.0, False, (5, 2))
    """

    floor_: float

    @one_numpy_thread
    def score_samples(self, X: Matrix) -> np.ndarray:
        """Compute the log density at each point.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log density; for the "p-stable" kernel the log of the mean kernel value. Mean kernel
            values are clipped to [`floor_`, 1] first.
        """
        mean = np.clip(self._mean(self._queries(X)), self.floor_, 1.0)
        setting = described(self._summary)  # as fitted, even if parameters were changed since
        log_volume = log_integral(setting.kernel, setting.bandwidth, setting.dimension)
        return np.asarray(np.log(mean) - log_volume)

    def density(self, X: Matrix) -> np.ndarray:
        """Compute the density at each point.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite.

        Returns
        -------
        ndarray of shape (n_samples,)
            The exponential of `score_samples`.
        """
        return np.asarray(np.exp(self.score_samples(X)))

    def score(self, X: Matrix, y: Column | None = None) -> float:
        """Compute the total log density of points.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite.
        y : array_like or None, default=None
            Ignored; present for scikit-learn's API.

        Returns
        -------
        float
            The sum of `score_samples`.
        """
        return float(np.sum(self.score_samples(X)))

    def sample(
        self, n_samples: int = 1, *, method: str = "matched", random_state: Any = None
    ) -> np.ndarray:
        """Draw synthetic points from the sketch or release.

        Parameters
        ----------
        n_samples : int, default=1
            Number of points, from 0 up.
        method : {"matched", "rejection", "mcmc"}, default="matched"
            "matched" draws points whose kernel sums are those of the sketch, as `SketchSampler`, so
            that they resemble the data; they are spread more evenly than independent draws, in a
            random order. The others draw from the positive part of the estimated
            density, which the kernel smooths ("p-stable" far beyond the data): "rejection" gives
            independent points in few dimensions, "mcmc" a population in any dimension.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws; None uses that of the estimator.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Points within the bounds. They cost no further privacy.
        """
        method = one_of(METHODS).check(self._owner, "method", method)
        return self._draw(method, n_samples, random_state)

    def _learned(self) -> None:
        super()._learned()
        noise = self.release_.noise_error() / self._size if hasattr(self, "release_") else 0.0
        self.floor_ = min(max(float(noise), LAST_DIGIT), 1.0)


class SketchSampler(Drawing):
    """Synthetic points from a sketch, private when epsilon is given.

    Use it to publish data that resemble the training points. It fits the same sketch as
    `SketchDensity`, and `sample` reads nothing but that sketch or its release.

    Parameters
    ----------
    method : {"matched", "rejection", "mcmc"}, default="matched"
        "matched" draws points whose kernel sums are those of the release, which undoes the
        smoothing of the kernel, spread more evenly than independent draws; "rejection" and "mcmc"
        draw from the smoothed density, as `SketchDensity.sample`.
    bandwidth : float, default=1.0
        Length scale of the kernel in the units of the data, above 0.
    kernel : {"p-stable", "gaussian", "exponential"}, default="p-stable"
        Kernel k(r) of the distance r in bandwidths: "gaussian" is exp(-r**2 / 2), "exponential" is
        exp(-r), and "p-stable" is the collision probability of Gaussian projections in buckets of
        one bandwidth, which falls as 1 / r.
    backend : {"auto", "race", "grid", "slices", "fourier"}, default="auto"
        Sketch that stores the kernel sums. "auto" chooses by public numbers alone: a grid for few
        columns and not too fine a bandwidth, slices up to 3 columns, else "race" for "p-stable" and
        "fourier" for the other kernels. "race" has the "p-stable" kernel only.
    rows : int or None, default=None
        Number of rows (hash functions, directions or frequencies) of the sketch, from 1 to 2**20.
        None chooses it from `epsilon`, `delta` and `expected_size`; a grid has one.
    width : int, default=1024
        Counters per row of the "race" backend, from 2 to 2**31; the other backends ignore it.
    expected_size : int or None, default=None
        Public guess of the number of points, used to choose `rows`; None stands for 65,536.
    epsilon : float or None, default=None
        Privacy parameter, above 0. None fits without privacy.
    delta : float, default=0.0
        Privacy parameter of (epsilon, delta)-differential privacy, from 0 up to but not including
        1; 0 is pure differential privacy. Needs `epsilon`.
    bounds : pair (low, high) or None, default=None
        Public limits of the columns, each side a number or one number per column. Points outside
        are clipped to them. Required with `epsilon`; None takes the range of the data.
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
        Seed of the hash functions and of samples, never of noise. None uses seed 0 for the hash
        functions, so that separately fitted estimators can merge, and fresh randomness for samples.

    Attributes
    ----------
    backend_ : str
        Sketch that is used, one of the choices of `backend` except "auto".
    bounds_ : tuple
        Limits (low, high) to which points are clipped, one number per column.
    clipped_ : int
        Number of training points outside the bounds. Raw data: only without `epsilon`.
    n_features_in_ : int
        Number of columns.
    release_ : Release
        The released sketch. Only with `epsilon`.
    sketch_ : Sketch
        The sketch of the training points. Only without `epsilon`.
    statement_ : PrivacyStatement
        What the release guarantees. Only with `epsilon`.

    Notes
    -----
    **Guarantee.** With `epsilon`, points are drawn from the release alone, so that any number of
    them is (epsilon, delta)-differentially private as `statement_` says. How similar they are to
    the data is measured, not proved: on mixtures of three Gaussians (60,000 points, epsilon 1) the
    Kolmogorov distance of the marginals to fresh data was .02 in two, .03 in four and .08 in eight
    dimensions ("matched"); draws from the smoothed density gave .21, .26 and .32, uniform points
    .29, .28 and .34.

    References
    ----------
    .. [1] Chen, Welling, Smola. "Super-Samples from Kernel Herding". UAI 2010 (samples by the
       distance of kernel sums). https://arxiv.org/abs/1203.3472

    Examples
    --------
    >>> points = np.random.default_rng(0).normal([1.0, -1.0], 0.5, (20_000, 2))
    >>> model = SketchSampler(bandwidth=0.5, epsilon=1, bounds=(-4, 4), random_state=0).fit(points)
    >>> model.sample(10_000).mean(axis=0).round()
    array([ 1., -1.])
    """

    LIMITS = {**LIMITS, "method": one_of(METHODS)}

    def __init__(
        self,
        *,
        method: str = "matched",
        bandwidth: float = 1.0,
        kernel: str = "p-stable",
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

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> np.ndarray:
        """Draw synthetic points by the method of the estimator.

        Parameters
        ----------
        n_samples : int, default=1
            Number of points, from 0 up.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws; None uses that of the estimator, and fresh randomness if that is None
            too.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Points within the bounds. They cost no further privacy.
        """
        return self._draw(self._check()["method"], n_samples, random_state)
