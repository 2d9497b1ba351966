"""The error of an estimator before `fit`; loads scikit-learn, so import it where it is raised."""

from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from sfumato.errors import NotFittedError

__all__ = ["EstimatorNotFittedError"]


class EstimatorNotFittedError(NotFittedError, SklearnNotFittedError):  # type: ignore[misc]
    """An estimator was used before `fit`; also an instance of scikit-learn's NotFittedError."""
