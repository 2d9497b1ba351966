"""The paper's regression: weights by asking a sketch of angles for their surrogate loss.

With z = (1, x, y) and q = (w, -1), the residual of a row is q . z. The chance that b signs of
random directions agree for z and q, plus that for z and -q, is least at a right angle, so that its
sum over rows is a surrogate of the squared loss: that of residuals over the length of q. The paper
inserts z and -z and asks at q. A code of -z at q is a code of z at -q, so z is inserted once here
and asked for at q and -q: the same sum, for half the sensitivity.

What little the loss tells is less than what hashing and noise leave open, and the least value found
is one of luck at long weights. Two things are ours: a pull of half the deviation of a loss times
the square of the weights' length, and the end of the search (`sfumato.density._search`). Rows are
four times as many as `sfumato.density._angles` asks for, which reads the same counts far better.
"""

from typing import Any

import numpy as np

from sfumato.density._angles import BITS, LONGEST, MOST, suggested_rows
from sfumato.density._search import least

__all__ = ["searched", "surrogate_loss", "surrogate_rows"]

PULL = 0.5  # deviations of a loss, for weights of length 1
MORE = 4  # times the hashes of angles, since they err by more than their noise


def surrogate_rows(columns: int, epsilon: float | None, delta: float) -> int:
    """How many hashes, by public numbers."""
    return min(MORE * suggested_rows(columns, epsilon, delta), MOST)


def surrogate_loss(told: Any, weights: np.ndarray) -> np.ndarray:
    """The mean surrogate loss of weights of (1, x), one vector a row, by a sketch or a release."""
    ones = np.ones((len(weights), 1))
    asked = np.hstack([weights, -ones, 0 * ones])  # 0 for what makes a row one of length 1
    both = told.estimate(np.vstack([asked, -asked])).reshape(2, -1).sum(axis=0)
    return np.asarray(both / _count(told))


def searched(told: Any) -> np.ndarray:
    """Weights of (1, x), at most 2 long, whose surrogate loss and pull are small together."""
    pull = PULL * _error(told)
    return least(
        lambda weights: surrogate_loss(told, weights) + pull * (weights**2).sum(axis=1),
        told.kernel.dimension - 2,
        LONGEST,
        2 * pull,  # the curvature of the pull alone
        told.seed,
    )


def _noise(told: Any) -> float:
    return float(told.noise_error()) if hasattr(told, "noise_error") else 0.0


def _count(told: Any) -> float:
    return max(float(told.size()), _noise(told), 1.0)


def _error(told: Any) -> float:
    """Deviation of a loss: by hashing, were all rows alike and at right angles, and by noise."""
    hashing = 2 * 2.0**-BITS / told.rows
    return float(np.sqrt(hashing + 2 * (_noise(told) / _count(told)) ** 2))
