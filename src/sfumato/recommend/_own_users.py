"""Users' vectors from their own events and released item vectors alone: never released themselves.

No user's vector depends on another's events, to the last bit: all is summed and solved user by
user, in the order of their own events.
"""

import numpy as np

from sfumato.kernels import least_squares as kernels
from sfumato.recommend._alternate import Learned
from sfumato.recommend._private_events import GRID, Events

__all__ = ["own_vectors"]


def own_vectors(events: Events, known: Learned) -> np.ndarray:
    """(users, 1 + components): ridge regressions of own ratings on noisy item vectors.

    The ridges are the variance of residuals over that of users' biases, and over 1, which is that
    of users' components by the scale of the items'. Users without events have zeros.
    """
    size, width = events.sizes["users"], known.items.shape[1]
    x = np.concatenate([np.ones((len(known.items), 1)), known.items[:, 1:]], axis=1)
    left = events.ratings / 2.0**GRID - known.mean - known.items[events.items, 0]
    gram, out = np.zeros((size, width, width)), np.zeros((size, width))
    kernels.grams(events.users, events.items, left, x, gram, out)
    ridge = np.full(width, known.residual)
    ridge[0] /= known.user_bias
    kernels.solve(gram, ridge, out)
    return out
