"""The mixins of `sklearn.base` for estimators that load scikit-learn only where it is used.

Each comes before `BaseEstimator` among the bases of a class, as in scikit-learn.
"""

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from sfumato.core.estimator import sklearn_setting
from sfumato.core.typing import Column, Matrix

__all__ = [
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "ClusterMixin",
    "DensityMixin",
    "OutlierMixin",
    "RegressorMixin",
    "TransformerMixin",
]


class ClassifierMixin:
    """Tags and score of a classifier."""

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        return tags

    def score(self, X: Matrix, y: Column, sample_weight: Column | None = None) -> float:
        """Compute the accuracy: the fraction of rows whose label is predicted.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Points.
        y : array_like of shape (n_samples,)
            Their true labels.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights of the rows; None weighs every row 1.

        Returns
        -------
        float
            The accuracy, from 0 to 1.
        """
        from sklearn import base

        return float(base.ClassifierMixin.score(self, X, y, sample_weight))


class RegressorMixin:
    """Tags and score of a regressor."""

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags()
        tags.target_tags.required = True
        return tags

    def score(self, X: Matrix, y: Column, sample_weight: Column | None = None) -> float:
        """Compute the coefficient of determination R2 of the predictions.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Points.
        y : array_like of shape (n_samples,)
            Their true targets.
        sample_weight : array_like of shape (n_samples,) or None, default=None
            Weights of the rows; None weighs every row 1.

        Returns
        -------
        float
            R2, at most 1; 0 for the mean of y, and less for what is worse.
        """
        from sklearn import base

        return float(base.RegressorMixin.score(self, X, y, sample_weight))


class ClusterMixin:
    """Tags of a clusterer, and its labels from a fit."""

    labels_: np.ndarray

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.estimator_type = "clusterer"
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = []
        return tags

    def fit_predict(self, X: Matrix, y: Column | None = None, **kwargs: Any) -> np.ndarray:
        """Fit, and return the cluster of each row.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Rows as `fit` takes them.
        y : array_like or None, default=None
            Not used.
        **kwargs : object
            Further arguments of `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Numbers of the clusters.
        """
        self.fit(X, **kwargs)  # type: ignore[attr-defined]
        return self.labels_


class DensityMixin:
    """Tags of a density estimator."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.estimator_type = "density_estimator"
        return tags


class OutlierMixin:
    """Tags of a detector of outliers, and its labels from a fit."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.estimator_type = "outlier_detector"
        return tags

    def fit_predict(self, X: Matrix, y: Column | None = None, **kwargs: Any) -> np.ndarray:
        """Fit, and classify the same rows.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Points as `fit` takes them.
        y : array_like or None, default=None
            Not used.
        **kwargs : object
            Further arguments of `fit`.

        Returns
        -------
        ndarray of shape (n_samples,)
            -1 for anomalies, 1 for all others.
        """
        return np.asarray(self.fit(X, **kwargs).predict(X))  # type: ignore[attr-defined]


class ClassNamePrefixFeaturesOutMixin:
    """Names of output columns: the name of the class and a number."""

    def get_feature_names_out(self, input_features: Column | None = None) -> np.ndarray:
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : array_like of str or None, default=None
            Names of the columns of `fit`, which are checked; None for those.

        Returns
        -------
        ndarray of shape (n_columns,)
            The name of the class in lower case, with a number.
        """
        from sklearn import base

        names = base.ClassNamePrefixFeaturesOutMixin.get_feature_names_out(self, input_features)
        return np.asarray(names)


class TransformerMixin:
    """Tags of a transformer, `fit_transform`, and output in the container that was chosen."""

    _sklearn_auto_wrap_output_keys: frozenset[str] = frozenset(("transform",))
    _sklearn_output_config: dict[str, str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "transform" in vars(cls):
            cls.transform = _contained(vars(cls)["transform"])  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags = TransformerTags()
        return tags

    def fit_transform(self, X: Matrix, y: Column | None = None, **fit_params: Any) -> np.ndarray:
        """Fit, and transform the same rows.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Rows as `fit` takes them.
        y : array_like or None, default=None
            As `fit` takes it.
        **fit_params : object
            Further arguments of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_columns)
            What `transform` returns.
        """
        found = self.fit(X, **fit_params) if y is None else self.fit(X, y, **fit_params)  # type: ignore[attr-defined]
        return found.transform(X)  # type: ignore[no-any-return]

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the container that `transform` and `fit_transform` return.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            "default" for arrays, or a data frame; None changes nothing.

        Returns
        -------
        Self
            The object itself.
        """
        if transform is not None:
            chosen = getattr(self, "_sklearn_output_config", {})
            self._sklearn_output_config = {**chosen, "transform": transform}
        return self


def _contained(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A `transform` whose result is put into the container of `set_output` or of the settings."""

    @functools.wraps(transform)
    def wrapped(self: Any, X: Any, *given: Any, **named: Any) -> Any:
        found = transform(self, X, *given, **named)
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        if (chosen or sklearn_setting("transform_output", "default")) == "default":
            return found
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", found, X, self)

    return wrapped
