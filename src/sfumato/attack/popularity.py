"""The attack that looks at nothing but how popular items are among known users."""

from typing import Any

import numpy as np

from sfumato.attack._channel import users_and_items
from sfumato.attack._odds import sigmoid
from sfumato.attack._priors import Fixed, checked_prior

__all__ = ["popularity"]


def popularity(released: Any, candidates: Any, prior: Any) -> np.ndarray:
    """Scores of items by their prior alone: what an attacker knows without any release.

    Guarantee: every user gets the prior. What other attacks find beyond it, the release told.
    Parameters: as of `joint_decoder`.

    >>> from sfumato.attack import BitChannel
    >>> seen = BitChannel(np.zeros((2, 8), bool), [[0, 1], [2, 3]], 0.5)
    >>> popularity(seen, None, [0.25, 0.5])
    array([[0.25, 0.5 ],
           [0.25, 0.5 ]])

    Thesis 3.5.2.
    """
    users, items = users_and_items(released, candidates)
    if prior is None:
        raise ValueError("popularity: prior must be given; without one all items are alike.")
    told = checked_prior("popularity", prior, items)
    if isinstance(told, Fixed):
        return np.tile(np.asarray(prior, np.float64), (users, 1))
    alone = sigmoid(told.log_odds(np.zeros((1, items)), slice(0, 1)))
    return np.repeat(alone, users, axis=0)
