"""Answers of fitted classifiers: probabilities, classes, files, and what a release alone gives."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from sfumato.core.arrays import (
    table_columns,
)
from sfumato.core.estimator_data import (
    check_feature_names,
)
from sfumato.core.estimator_mixins import ClassifierMixin
from sfumato.core.linear_algebra import one_numpy_thread
from sfumato.core.typing import Matrix
from sfumato.core.validation import integer, one_of
from sfumato.density.backends import Setting, described
from sfumato.density.base import KernelEstimator
from sfumato.density.classify.categories import (
    CATEGORIES,
    CategoryList,
    category_lists,
    with_codes,
    with_listed_bounds,
)
from sfumato.density.classify.encoding import (
    LABELS,
    labels_of,
)
from sfumato.density.classify.kernel_classes import (
    ReleasedClassKernels,
    column_joint,
    kernel_joint,
    logistic_joint,
    refuse_conflicting,
)
from sfumato.density.classify.naive_bayes import (
    ReleasedClassColumns,
)
from sfumato.privacy.release import Release

__all__ = ["METHODS", "ClassAnswers"]

METHODS = ("columns", "kernel", "logistic")


class ClassAnswers(ClassifierMixin, KernelEstimator, in_files=False):
    """Predictions of a fitted classifier from its release or its tables, and their files."""

    priors: Any
    categories_: dict[int, tuple[str | int, ...]]
    classes_: np.ndarray
    method_: str
    tables_: Any
    sketches_: list[Any]

    @one_numpy_thread
    def predict_log_proba(self, X: Matrix) -> np.ndarray:
        """Compute the log probability of every class.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite, with listed categories.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities, classes in the order of `classes_`.
        """
        joint = self._joint(self._queries(X))
        largest = joint.max(axis=1, keepdims=True)
        return np.asarray(
            joint - largest - np.log(np.exp(joint - largest).sum(axis=1, keepdims=True))
        )

    def predict_proba(self, X: Matrix) -> np.ndarray:
        """Compute the probability of every class.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite, with listed categories.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities, classes in the order of `classes_`; each row sums to 1.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Compute the decision values of every point.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite, with listed categories.

        Returns
        -------
        ndarray
            The log odds of the second class if there are two, of shape (n_samples,); otherwise the
            log of likelihood times prior of every class, of shape (n_samples, n_classes).
        """
        joint = self._joint(self._queries(X))
        return np.asarray(joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else joint)

    def predict(self, X: Matrix) -> np.ndarray:
        """Predict the most probable class of every point.

        Parameters
        ----------
        X : array_like of shape (n_samples, n_features)
            Query points, all finite, with listed categories.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, from `classes_`.
        """
        joint = self._joint(self._queries(X))
        return np.asarray(self.classes_[joint.argmax(axis=1)])

    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """Build a classifier that answers from the release of another.

        Parameters
        ----------
        release : Release
            The `release_` of a classifier.
        **parameters : object
            Further parameters of the constructor; those that the release determines are refused,
            except `random_state` and a mapping `categorical` of positions to lists of categories
            that fit the codes of the release.

        Returns
        -------
        Self
            The fitted classifier, with the epsilon and delta of the release. It costs no further
            privacy.
        """
        if not isinstance(release, ReleasedClassColumns | ReleasedClassKernels):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release of one, not {kind}.")
        statement = release.statement
        public = _parameters_of(release)
        cost = dict(epsilon=statement.epsilon, delta=statement.delta, privacy=None)
        given = {**public, **cost, "classes": release.labels}
        listed = isinstance(parameters.get("categorical"), Mapping)
        if listed:
            given.pop("categorical", None)
        refuse_conflicting(cls.__name__, parameters, given)
        model = cls(**{**given, **parameters})
        model.bounds_ = public["bounds"]
        model.n_features_in_ = len(model.bounds_[0])
        model.categories_ = model._lists_beside(release) if listed else {}
        model.backend_ = public.get("backend", "columns")
        model.classes_ = np.array(release.labels)
        model.method_ = "columns" if isinstance(release, ReleasedClassColumns) else "kernel"
        model._restore_parts({"release_": release})
        return model

    def _lists_beside(self, release: Release) -> dict[int, tuple[str | int, ...]]:
        """The lists of the parameter `categorical`, which must fit the codes of the release."""
        categorical, columns = self._check()["categorical"], self.n_features_in_
        lists = category_lists(self._owner, categorical, [], columns)
        fits = with_listed_bounds(self._owner, self.bounds_, lists, columns) == self.bounds_
        if isinstance(release, ReleasedClassColumns):
            coded = [at for at, levels in enumerate(release.levels) if levels]
            fits = fits and coded == sorted(categorical)
        if not fits:
            raise ValueError(
                f"{self._owner}: categorical must name the columns of codes of the release, with "
                "as many categories as each has codes."
            )
        return {at: listed.categories for at, listed in lists.items()}

    def _matrix(self, X: Any, *, reset: bool) -> np.ndarray:
        if not reset and self._lists:
            check_feature_names(self, X, reset=False)
            columns = table_columns(X)
            if columns is not None and len(columns) != self.n_features_in_:
                raise ValueError(
                    f"{self._owner}: X has {len(columns)} columns, but {self.n_features_in_} are "
                    "expected."
                )
            X = with_codes(self._owner, X, self._lists, self._names)
        elif not reset and self._is_matrix(X):
            return np.asarray(X)
        return super()._matrix(X, reset=reset)

    def _is_matrix(self, X: Any) -> bool:
        """Whether X is what scikit-learn's checks, which take longer than a prediction, return."""
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2
        if not plain or hasattr(self, "feature_names_in_"):
            return False
        return bool(len(X) and X.shape[1] == self.n_features_in_ and X.flags.c_contiguous)

    @property
    def _lists(self) -> dict[int, CategoryList]:
        """The fitted lists of categories by position of their columns."""
        return {at: CategoryList(one) for at, one in getattr(self, "categories_", {}).items()}

    @property
    def _names(self) -> list[str]:
        """Names of the fitted columns, empty if they have none."""
        return list(map(str, getattr(self, "feature_names_in_", ())))

    def _take(self, summary: Any, method: str, classes: np.ndarray, setting: Setting) -> None:
        """Replace the fitted state by this release, tables or sketches."""
        for name in ("release_", "statement_", "tables_", "sketches_", "clipped_"):
            self.__dict__.pop(name, None)
        self.classes_, self.method_ = classes, method
        self.bounds_ = setting.bounds
        self.backend_: str = setting.backend if method == "kernel" else "columns"
        if isinstance(summary, Release):
            self._restore_parts({"release_": summary})
        elif method in ("columns", "logistic"):
            self.tables_ = summary
        else:
            self.sketches_ = summary

    def _joint(self, points: np.ndarray) -> np.ndarray:
        """The log of likelihood times prior, up to a constant of all classes."""
        if self.method_ == "kernel":
            return kernel_joint(self._owner, self._class_sums(), self.priors, points)
        if self.method_ == "logistic":
            return logistic_joint(self._owner, self.tables_, self.priors, points)
        tables = self.release_ if hasattr(self, "release_") else self.tables_
        return column_joint(self._owner, tables, self.priors, points)

    def _class_sums(self) -> list[Any]:
        return self.release_.parts if hasattr(self, "release_") else self.sketches_

    def _parts(self) -> dict[str, Any]:
        if hasattr(self, "sketches_"):
            return {f"class_{k}": sketch for k, sketch in enumerate(self.sketches_)}
        return {n: getattr(self, n) for n in ("release_", "tables_") if hasattr(self, n)}

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        stored = parts.get("release_", parts.get("tables_"))
        if stored is not None and stored.labels != labels_of(self.classes_):
            raise ValueError("the release is of other classes.")
        if stored is None and len(parts) != len(self.classes_):
            raise ValueError("there must be one sketch for each class.")
        if "release_" in parts:
            self.release_: Any = parts["release_"]
            self.statement_: Any = self.release_.statement
        elif "tables_" in parts:
            self.tables_ = parts["tables_"]
        else:
            self.sketches_ = list(parts.values())

    def _state(self) -> dict[str, Any]:
        lists = [[at, list(one.categories)] for at, one in self._lists.items()]
        return {
            **super()._state(),
            "labels": list(labels_of(self.classes_)),
            "method": self.method_,
            "clipped": getattr(self, "clipped_", None),  # the curator's: none with privacy
            **({"categories": lists} if lists else {}),
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.classes_ = np.array(LABELS.check(self._owner, "classes", state["labels"]))
        self.method_ = one_of(METHODS).check(self._owner, "method", state["method"])
        if state["clipped"] is not None:
            self.clipped_: int = integer(0).check(self._owner, "clipped", state["clipped"])
        columns = integer(0, self.n_features_in_ - 1)
        self.categories_ = {
            columns.check("file", "categories", at): CATEGORIES.check("file", "categories", one)
            for at, one in state.get("categories", [])
        }
        bounds = with_listed_bounds(self._owner, self.bounds_, self._lists, self.n_features_in_)
        if bounds != self.bounds_:
            raise ValueError("the lists of categories do not fit the bounds.")


def _parameters_of(release: ReleasedClassColumns | ReleasedClassKernels) -> dict[str, Any]:
    """The parameters of an estimator that made this release."""
    if isinstance(release, ReleasedClassKernels):
        return described(release.parts[0]).parameters()
    named = [column for column, levels in enumerate(release.levels) if levels]
    return dict(bounds=release.bounds, bins=release.bins, categorical=named or None)
