"""Logistic regression by Newton's method, for a few dozen features of many rows."""

import numpy as np

__all__ = ["logistic"]

ROUNDS = 30
STILL = 1e-7


def logistic(features: np.ndarray, second: np.ndarray, ridge: float = 1.0) -> np.ndarray:
    """Weights of features, for the log-odds that `second` is 1.

    Guarantee: the loss never rises from one round to the next, since a step that would raise it is
    halved.
    Parameters: features, a row of numbers for each of them; second, 0 or 1; ridge, on
    all weights.

    >>> import numpy as np
    >>> logistic(np.ones((1, 4)), np.array([1, 1, 1, 0]), ridge=1e-9).round(3)  # odds 3 to 1
    array([1.099])
    """
    weights = np.zeros(len(features))
    loss = _loss(features, second, weights, ridge)
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-(weights @ features)))
        slope = features @ (second - chance) - ridge * weights
        bend = (features * (chance * (1 - chance))) @ features.T
        step = np.linalg.solve(bend + ridge * np.eye(weights.size), slope)
        size, found = _shorten(features, second, weights, step, ridge, loss)
        weights = weights + size * step
        if loss - found <= STILL * (1 + abs(loss)):
            break
        loss = found
    return weights


def _shorten(
    features: np.ndarray,
    second: np.ndarray,
    weights: np.ndarray,
    step: np.ndarray,
    ridge: float,
    loss: float,
) -> tuple[float, float]:
    """The longest of the step, its half, its quarter and so on that does not raise the loss."""
    size = 1.0
    for _ in range(ROUNDS):
        found = _loss(features, second, weights + size * step, ridge)
        if found <= loss:
            return size, found
        size /= 2
    return 0.0, loss


def _loss(features: np.ndarray, second: np.ndarray, weights: np.ndarray, ridge: float) -> float:
    odds = weights @ features
    return float(np.logaddexp(0, odds).sum() - odds @ second + ridge / 2 * weights @ weights)
