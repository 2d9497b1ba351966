"""PCA: principal components from the eigenvectors of the covariance, in one pass or as a stream."""

from typing import Any, Self

import numpy as np

from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.estimator_data import validate_data
from sfumato.core.estimator_mixins import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import flag
from sfumato.errors import ParameterError
from sfumato.mine.decompose.matrices import fixed_signs

__all__ = ["PCA", "ComponentEstimator", "component_count"]

COLUMNS = 2**14  # of which the covariance takes 2 GiB
FAR = 1e140  # squares of numbers up to here can be summed


def component_count(owner: str, n: Any, variances: np.ndarray) -> int:
    """Number of components: given, all for None, or the fewest that have a fraction of it all."""
    columns = variances.size
    if n is None:
        return int(columns)
    whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
    if whole and 1 <= n <= columns:
        return int(n)
    if not whole and isinstance(n, float | np.floating) and 0 < n < 1:
        total = variances.sum()
        sums = np.cumsum(variances)
        return min(int(np.searchsorted(sums, n * total)) + 1, int(columns))
    raise ParameterError.of(
        owner,
        "n_components",
        f"must be an integer from 1 to {columns} (the number of columns), a fraction of the "
        f"variance between 0 and 1, or None, not {n!r:.100}.",
    )


class ComponentEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of estimators that project on principal components."""

    n_features_in_: int
    n_components_: int
    components_: np.ndarray
    mean_: np.ndarray
    explained_variance_: np.ndarray
    explained_variance_ratio_: np.ndarray
    n_components: Any
    whiten: bool

    @property
    def _owner(self) -> str:
        return type(self).__name__

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def transform(self, X: Matrix) -> np.ndarray:
        """Project rows on the components.

        Parameters
        ----------
        X : array_like of shape (n, columns)
            Rows of finite numbers.

        Returns
        -------
        ndarray of shape (n, n_components)
            Coordinates along each component, from the mean; with `whiten` divided by their
            standard deviation.
        """
        self._check_fitted()
        points = self._rows(X, reset=False) - self.mean_
        found = points @ self.components_.T
        return np.asarray(found / self._deviations() if self.whiten else found)

    def inverse_transform(self, X: Matrix) -> np.ndarray:
        """Map coordinates back to rows.

        Parameters
        ----------
        X : array_like of shape (n, n_components)
            Coordinates, as `transform` returns them.

        Returns
        -------
        ndarray of shape (n, columns)
            The nearest rows in the space of the components.
        """
        self._check_fitted()
        given = np.asarray(X, np.float64)
        if given.ndim != 2 or given.shape[1] != self.n_components_:
            raise ValueError(
                f"{self._owner}: X must have {self.n_components_} columns, not the shape "
                f"{given.shape}."
            )
        given = given * self._deviations() if self.whiten else given
        return np.asarray(given @ self.components_ + self.mean_)

    def _deviations(self) -> np.ndarray:
        """Standard deviations along the components; 1 where there is none, so as to keep zeros."""
        least = np.finfo(np.float64).eps * self.explained_variance_.max(initial=0.0)
        inside = self.explained_variance_ > least
        return np.asarray(np.sqrt(np.where(inside, self.explained_variance_, 1.0)))

    def _solve(self, covariance: np.ndarray) -> None:
        """Set the components from a covariance matrix: its eigenvectors, largest value first."""
        values, vectors = np.linalg.eigh(covariance)
        values, rows = np.maximum(values[::-1], 0.0), vectors[:, ::-1].T
        n = component_count(self._owner, self.n_components, values)
        total = float(values.sum())
        self.n_components_ = n
        self.components_ = rows[:n] * fixed_signs(rows[:n])[:, np.newaxis]
        self.explained_variance_ = values[:n]
        self.explained_variance_ratio_ = values[:n] / total if total else np.zeros(n)

    def _rows(self, X: Any, *, reset: bool) -> np.ndarray:
        return validate_data(self, X, reset=reset)

    def _check_fitted(self) -> None:
        if not hasattr(self, "components_"):
            raise not_fitted(f"{self._owner}: not fitted yet; call fit first.")


class PCA(ComponentEstimator):
    """Principal components of rows: orthogonal directions of largest variance.

    Parameters
    ----------
    n_components : int, float or None, default=None
        Number of components, or the fraction of the variance, between 0 and 1, that they must have;
        None for as many as columns.
    whiten : bool, default=False
        Whether `transform` divides by the standard deviation along each component.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, columns)
        Orthonormal directions, by decreasing variance; the largest number of each is positive.
    explained_variance_ : ndarray of shape (n_components,)
        Variance along each, by n - 1.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Its fraction of the variance of all columns; zeros if no column varies.
    mean_ : ndarray of shape (columns,)
        Mean of each column.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of columns.
    n_samples_ : int
        Number of rows.

    Notes
    -----
    **Guarantee.** Components are the eigenvectors of the covariance of all rows, which is summed
    block by block around the running mean: so `partial_fit` and `merge` give what one `fit` on all
    rows gives, up to rounding. A constant column has no part in a component of positive variance.
    Memory is for the square of the number of columns; of wider tables take `svd`.

    References
    ----------
    .. [1] Chan, Golub, LeVeque. "Algorithms for computing the sample variance". The American
       Statistician 37, 1983, equation (2.1). https://doi.org/10.1080/00031305.1983.10483115

    Examples
    --------
    >>> model = PCA(n_components=1).fit([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.2]])
    >>> model.components_.round(2), model.explained_variance_ratio_.round(3)
    (array([[0.69, 0.73]]), array([0.999]))
    """

    n_samples_: int
    _scatter: np.ndarray

    def __init__(self, n_components: Any = None, *, whiten: bool = False) -> None:
        self.n_components = n_components
        self.whiten = whiten

    def fit(self, X: Matrix, y: Column | None = None) -> Self:
        """Find the components of a table.

        Parameters
        ----------
        X : array_like of shape (n, columns)
            Rows of finite numbers.
        y : array_like or None, default=None
            Not used.

        Returns
        -------
        Self
            The object itself.
        """
        return self._add(self._training(X, reset=True), first=True)

    def partial_fit(self, X: Matrix, y: Column | None = None) -> Self:
        """Add rows, and find the components of all rows so far.

        Parameters
        ----------
        X : array_like of shape (n, columns)
            Further rows of finite numbers.
        y : array_like or None, default=None
            Not used.

        Returns
        -------
        Self
            The object itself.
        """
        first = not hasattr(self, "n_samples_")
        return self._add(self._training(X, reset=first), first=first)

    def merge(self, other: Self) -> Self:
        """Add the rows of another fitted object, in place.

        Parameters
        ----------
        other : Self
            Fitted to other rows of as many columns. It is not changed.

        Returns
        -------
        Self
            The object itself, now of all rows.
        """
        if not isinstance(other, PCA):
            raise TypeError(f"PCA: cannot merge with {type(other).__name__}.")
        self._check_fitted()
        other._check_fitted()
        if other.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"PCA: cannot merge, columns are {self.n_features_in_} here and "
                f"{other.n_features_in_} there."
            )
        return self._join(other.n_samples_, other.mean_, other._scatter)

    def _training(self, X: Any, *, reset: bool) -> np.ndarray:
        flag.check("PCA", "whiten", self.whiten)
        rows = self._rows(X, reset=reset)
        if rows.shape[1] > COLUMNS:
            raise ValueError(
                f"PCA: X must have at most {COLUMNS} columns, not {rows.shape[1]}; take svd."
            )
        if max(float(rows.max()), -float(rows.min())) > FAR:
            raise ValueError(f"PCA: X must be within {FAR:g}; scale it.")
        return rows

    def _add(self, rows: np.ndarray, *, first: bool) -> Self:
        mean = rows.mean(axis=0)
        centred = rows - mean
        scatter = centred.T @ centred
        if first:
            return self._finish(len(rows), mean, scatter)
        return self._join(len(rows), mean, scatter)

    def _join(self, size: int, mean: np.ndarray, scatter: np.ndarray) -> Self:
        """Add sums of other rows: their scatter, and that of the two means."""
        total = self.n_samples_ + size
        apart = mean - self.mean_
        between = np.outer(apart, apart) * (self.n_samples_ * size / total)
        return self._finish(
            total, self.mean_ + apart * (size / total), self._scatter + scatter + between
        )

    def _finish(self, size: int, mean: np.ndarray, scatter: np.ndarray) -> Self:
        self._solve(scatter / max(size - 1, 1))
        self.n_samples_, self.mean_, self._scatter = size, mean, scatter
        return self
