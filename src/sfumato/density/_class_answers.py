"""What a classifier answers from tables or kernel sums of classes, and how these go to files."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from sfumato._require import one_of, whole
from sfumato.density._backend import Setting, described
from sfumato.density._class_columns import ReleasedClassColumns
from sfumato.density._class_joint import column_joint, kernel_joint, refuse_told
from sfumato.density._class_kernels import ReleasedClassKernels
from sfumato.density._class_labels import LABELS, labels_of
from sfumato.density._estimator import KernelEstimator
from sfumato.sketch._release import Release

__all__ = ["METHODS", "ClassAnswers"]

METHODS = ("columns", "kernel")


class ClassAnswers(ClassifierMixin, KernelEstimator, in_files=False):  # type: ignore[misc]
    """A classifier that was fitted: by its release, or by what that would hold without noise."""

    priors: Any
    classes_: np.ndarray
    method_: str
    tables_: Any
    sketches_: list[Any]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The log probability of every class, classes in the order of `classes_`."""
        joint = self._joint(self._queries(X))
        most = joint.max(axis=1, keepdims=True)
        return np.asarray(joint - most - np.log(np.exp(joint - most).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def decision_function(self, X: Any) -> np.ndarray:
        """The log odds of the second of two classes; of more, the log likelihood times prior."""
        joint = self._joint(self._queries(X))
        return np.asarray(joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else joint)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of every point."""
        joint = self._joint(self._queries(X))
        return np.asarray(self.classes_[joint.argmax(axis=1)])

    @classmethod
    def from_release(cls, release: Release, **parameters: Any) -> Self:
        """The classifier that answers from a release of another, at no further cost."""
        if not isinstance(release, ReleasedClassColumns | ReleasedClassKernels):
            kind = type(release).__name__
            raise TypeError(f"{cls.__name__}: from_release takes a release of one, not {kind}.")
        told = release.statement
        public = _told(release)
        given = {**public, "epsilon": told.epsilon, "delta": told.delta, "classes": release.labels}
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
            self.clipped_ = whole(0).check(self._owner, "clipped", state["clipped"])


def _told(release: ReleasedClassColumns | ReleasedClassKernels) -> dict[str, Any]:
    """The parameters of an estimator that made this release."""
    if isinstance(release, ReleasedClassKernels):
        return described(release.parts[0]).parameters()
    named = [column for column, levels in enumerate(release.levels) if levels]
    return dict(bounds=release.bounds, bins=release.bins, categorical=named or None)
