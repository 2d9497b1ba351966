"""The single decoder, which tests each item by itself, and the popularity baseline."""

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
    """Score each item by its own log-likelihood ratio.

    Fast, and a lower limit of what an attacker can do; `joint_decoder` also uses how items explain
    the release together.

    Parameters
    ----------
    released : ReleasedBlip, ReleasedJlt, ReleasedSigns, ReleasedMinima or channel
        Released profiles, or a channel such as `BitChannel`.
    candidates : array_like or scalar
        Items that a profile may contain; None with a channel, which has its own.
    prior : array_like of shape (n_candidates,), TastePrior or None, default=None
        Prior probability of each candidate, or a prior from `learn_prior`; its log-odds are added.
    sizes : array_like, SizePrior, float or None, default=None
        Sizes of known profiles, as in `expected_sizes`.
    threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : callable or None, default=None
        Called as progress(users_done, users) while the decoder runs.

    Returns
    -------
    ndarray of shape (n_users, n_candidates)
        Log-likelihood ratio of each item; with a prior, the posterior log-odds.

    Notes
    -----
    **Guarantee.** For BLIP without a prior, the score is that of the single decoder (3.27), with an
    item's coinciding bits counted once and the fraction of ones taken from the row, clipped to the
    range that flips allow. For other mechanisms it is the same test under their own noise
    distribution, with the other items of the profile as noise.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.4.1, equations (3.27) to (3.29) (scores of the single
       decoder). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 0, 0, 0, 1, 0, 0]], bool)
    >>> observed = BitChannel(bits, [[0, 1], [1, 2], [6, 7]], 0.1)
    >>> single_decoder(observed, None).argmax(axis=1)
    array([0])
    """
    observed = channel(released, candidates)
    believes, expected = believed("single_decoder", prior, observed, sizes)
    threads = THREADS.check("single_decoder", "threads", threads)
    out = np.empty((observed.users, observed.items))

    def work(rows: slice) -> None:
        out[rows] = observed.single(rows, expected)
        if prior is not None:
            out[rows] += believes.log_odds(out[rows], rows)

    in_blocks(observed.users, BLOCK, work, threads, progress)
    return out


def popularity(released: Any, candidates: Ids, prior: Any) -> np.ndarray:
    """Score items by their prior probability alone.

    This is the baseline of an attacker who ignores the release. What other attacks recover beyond
    it was leaked by the release.

    Parameters
    ----------
    released : ReleasedBlip, ReleasedJlt, ReleasedSigns, ReleasedMinima or channel
        Released profiles, or a channel; only the number of users is read.
    candidates : array_like or scalar
        Items that a profile may contain; None with a channel, which has its own.
    prior : array_like of shape (n_candidates,) or TastePrior
        Prior probability of each candidate, or a prior from `learn_prior`.

    Returns
    -------
    ndarray of shape (n_users, n_candidates)
        The prior probabilities, equal for all users.

    Raises
    ------
    ValueError
        If `prior` is None or is not for these candidates.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.5.2 (reconstruction from popularity).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> observed = BitChannel(np.zeros((2, 8), bool), [[0, 1], [2, 3]], 0.5)
    >>> popularity(observed, None, [0.25, 0.5])
    array([[0.25, 0.5 ],
           [0.25, 0.5 ]])
    """
    users, items = users_and_items(released, candidates)
    if prior is None:
        raise ValueError("popularity: prior must be given; without one all items are equal.")
    own = checked_prior("popularity", prior, items)
    if isinstance(own, Fixed):
        return np.tile(np.asarray(prior, np.float64), (users, 1))
    alone = sigmoid(own.log_odds(np.zeros((1, items)), slice(0, 1)))
    return np.repeat(alone, users, axis=0)
