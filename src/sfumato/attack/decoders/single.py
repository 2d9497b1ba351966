"""The single decoder: each item alone against the release.

The attack that looks at nothing but how popular items are among known users.
"""

from typing import Any

import numpy as np

from sfumato.attack.channels.factory import channel, users_and_items
from sfumato.attack.decoders.priors import Fixed, believed, checked_prior
from sfumato.attack.numerics import THREADS, Progress, in_blocks, sigmoid
from sfumato.core.typing import Ids

__all__ = ["popularity", "single_decoder"]

BLOCK = 64  # users at a time


def single_decoder(
    released: Any,
    candidates: Ids,
    prior: Any = None,
    *,
    sizes: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Scores of items, users x candidates: the log-likelihood ratio of each item by itself.

    Thesis 3.4.1.

    as of `joint_decoder`.

    Parameters
    ----------
    released : object
        TODO.
    candidates : array_like or scalar
        TODO.
    prior : object, default=None
        TODO.
    sizes : object, default=None
        TODO.
    threads : int or None, default=None
        TODO.
    progress : callable or None, default=None
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** For BLIP without a prior it is (3.27), where an item's coinciding bits count once
    and the share of ones is that of the row, but no less than flips alone would give; for other
    mechanisms the same test in their own law, the rest of the profile being noise. With a prior,
    the prior log odds are added.

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 0, 0, 0, 1, 0, 0]], bool)
    >>> seen = BitChannel(bits, [[0, 1], [1, 2], [6, 7]], 0.1)
    >>> single_decoder(seen, None).argmax(axis=1)
    array([0])
    """
    seen = channel(released, candidates)
    believes, expected = believed("single_decoder", prior, seen, sizes)
    threads = THREADS.check("single_decoder", "threads", threads)
    out = np.empty((seen.users, seen.items))

    def work(rows: slice) -> None:
        out[rows] = seen.single(rows, expected)
        if prior is not None:
            out[rows] += believes.log_odds(out[rows], rows)

    in_blocks(seen.users, BLOCK, work, threads, progress)
    return out


def popularity(released: Any, candidates: Ids, prior: Any) -> np.ndarray:
    """Scores of items by their prior alone: what an attacker knows without any release.

    Thesis 3.5.2.

    as of `joint_decoder`.

    Parameters
    ----------
    released : object
        TODO.
    candidates : array_like or scalar
        TODO.
    prior : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** Every user gets the prior. What other attacks find beyond it, the release told.

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> seen = BitChannel(np.zeros((2, 8), bool), [[0, 1], [2, 3]], 0.5)
    >>> popularity(seen, None, [0.25, 0.5])
    array([[0.25, 0.5 ],
           [0.25, 0.5 ]])
    """
    users, items = users_and_items(released, candidates)
    if prior is None:
        raise ValueError("popularity: prior must be given; without one all items are alike.")
    told = checked_prior("popularity", prior, items)
    if isinstance(told, Fixed):
        return np.tile(np.asarray(prior, np.float64), (users, 1))
    alone = sigmoid(told.log_odds(np.zeros((1, items)), slice(0, 1)))
    return np.repeat(alone, users, axis=0)
