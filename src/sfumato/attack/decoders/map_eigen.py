"""Two baseline decoders: the most likely profile (MAP), and eigen-analysis of all releases."""

import math
from typing import Any

import numpy as np

from sfumato.attack.channels.bloom_bits import BitChannel
from sfumato.attack.channels.factory import Channel, channel
from sfumato.attack.channels.gaussian import VectorChannel
from sfumato.attack.decoders.gibbs_chains import padded, reordered
from sfumato.attack.decoders.priors import believed
from sfumato.attack.numerics import THREADS, Progress, in_blocks
from sfumato.core.typing import Ids
from sfumato.core.validation import integer

__all__ = ["eigen_decoder", "map_decoder"]

BLOCK = 16  # users at a time
SWEEPS = 30  # over all candidates, at most
ROUNDS = 10  # estimates of the vectors behind signs
FEWEST = 64  # candidates retained, at least
BEHIND = 1e4  # subtracted from the log-odds of items that were not retained


def map_decoder(
    released: Any,
    candidates: Ids,
    prior: Any = None,
    *,
    sizes: Any = None,
    candidates_per_item: int = 6,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Score items by their log-odds given the most likely profile (MAP).

    Items are added and removed one at a time while the posterior probability rises.

    Parameters
    ----------
    released : ReleasedBlip, ReleasedJlt, ReleasedSigns, ReleasedMinima or channel
        Released profiles, or a channel such as `BitChannel`.
    candidates : array_like or scalar
        Items that a profile may contain; None with a channel, which has its own.
    prior : array_like of shape (n_candidates,), TastePrior or None, default=None
        Prior probability of each candidate, or a prior from `learn_prior`, applied as in
        `single_decoder`. None makes all items equally likely.
    sizes : array_like, SizePrior, float or None, default=None
        Sizes of known profiles, as in `expected_sizes`.
    candidates_per_item : int, default=6
        Number of candidates that the single decoder retains per expected item, at least 1.
    threads : int or None, default=None
        Number of threads; None uses all cores.
    progress : callable or None, default=None
        Called as progress(users_done, users) while the decoder runs.

    Returns
    -------
    ndarray of shape (n_users, n_candidates)
        Log-odds of each item given the other items of the profile found; items that were not
        retained rank below all others.

    Notes
    -----
    **Guarantee.** No profile that differs by one retained item has a higher posterior probability
    than the one found (for signs: given the expected vector behind them). It is a baseline: one
    profile stands for all that are nearly as likely, so the scores are overconfident.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.4.7 (maximum a posteriori reconstruction).
       https://theses.hal.science/tel-01430156
    .. [2] Huang, Du, Chen. "Deriving private information from randomized data". SIGMOD 2005.
       https://doi.org/10.1145/1066157.1066163

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 1, 0, 0, 1, 1, 0]], bool)
    >>> observed = BitChannel(bits, [[0, 1], [1, 2], [5, 6], [3, 4]], 0.05)
    >>> (map_decoder(observed, None, [0.5] * 4) > 0).tolist()
    [[True, True, True, False]]
    """
    owner = "map_decoder"
    each = integer(1).check(owner, "candidates_per_item", candidates_per_item)
    threads = THREADS.check(owner, "threads", threads)
    observed = channel(released, candidates)
    believes, expected = believed(owner, prior, observed, sizes)
    out = np.empty((observed.users, observed.items))

    def work(rows: slice) -> None:
        ratios = observed.single(rows, expected)
        log_odds = believes.log_odds(ratios, rows)
        out[rows] = ratios + log_odds - BEHIND
        for at, row in enumerate(range(rows.start, rows.stop)):
            many = min(max(FEWEST, math.ceil(each * expected[row])), observed.items)
            chosen = np.argsort(-out[row], kind="stable")[:many]
            order, found = _climb(observed, row, chosen, log_odds[at, chosen])
            out[row, order] = found

    in_blocks(observed.users, BLOCK, work, threads, progress)
    return out


def _climb(
    observed: Channel, row: int, chosen: np.ndarray, log_odds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates and their log-odds given the others, at a local maximum of the posterior."""
    state = observed.state(row, chosen, np.zeros(0, np.int64))
    live, weight = padded(chosen.size), padded(chosen.size)
    live[: chosen.size] = 1.0
    state.weigh(live, weight)
    out, own = np.empty(chosen.size), reordered(chosen, log_odds, state.order)
    for _ in range(ROUNDS if state.every else 1):
        if state.every:
            state.refresh(np.flatnonzero(live[: chosen.size] == 0), None)
        state.climb(own, live, weight, SWEEPS, out)
    return state.order, out


TINY = 1e-12
NORMAL_MIDDLE = 0.6745  # median absolute value of a standard Gaussian


def eigen_decoder(
    released: Any, candidates: Ids, prior: Any = None, *, sizes: Any = None
) -> np.ndarray:
    """Score items by single decoding of spectrally filtered releases.

    All releases together show the directions in which profiles differ. Each row is projected onto
    the directions whose variance exceeds what noise of this strength can produce (the
    Marchenko-Pastur edge), shrunk according to the noise, and tested against each codeword as a
    Gaussian row. The more users are released, the better it works.

    Parameters
    ----------
    released : ReleasedBlip, ReleasedJlt, BitChannel or VectorChannel
        Released profiles that are linear in the profile except for noise: JLT, or BLIP after
        debiasing, where items with common bits deviate from linearity.
    candidates : array_like or scalar
        Items that a profile may contain; None with a channel, which has its own.
    prior : array_like of shape (n_candidates,), TastePrior or None, default=None
        Prior probability of each candidate, or a prior from `learn_prior`; its log-odds are added.
    sizes : array_like, SizePrior, float or None, default=None
        Sizes of known profiles, as in `expected_sizes`.

    Returns
    -------
    ndarray of shape (n_users, n_candidates)
        Log-likelihood ratios, plus the prior log-odds if a prior is given.

    Raises
    ------
    TypeError
        If the release is not linear (signs or minima).

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.4.7 (reconstruction by eigen-analysis).
       https://theses.hal.science/tel-01430156
    .. [2] Guo, Wu. "On the use of spectral filtering for privacy preserving data mining". SAC 2006.
    .. [3] Huang, Du, Chen. "Deriving private information from randomized data". SIGMOD 2005.
       https://doi.org/10.1145/1066157.1066163

    Examples
    --------
    >>> from sfumato.attack import VectorChannel
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.normal(size=(40, 200)) / 200**0.5
    >>> kind = rng.integers(2, size=100)  # profiles are items 0 to 9, or items 10 to 19
    >>> has = (np.arange(40) // 10 == kind[:, None]).astype(float)
    >>> observed = VectorChannel(has @ codes + 0.3 * rng.normal(size=(100, 200)), codes, 0.3)
    >>> best = np.argsort(-eigen_decoder(observed, None, sizes=10), axis=1)[:, :10]
    >>> bool((best // 10 == kind[:, None]).mean() > 0.95)
    True
    """
    owner = "eigen_decoder"
    observed = channel(released, candidates)
    if not isinstance(observed, BitChannel | VectorChannel):
        raise TypeError(
            f"{owner}: released must be linear in the profile but for noise (Blip or Jlt), not of "
            f"{type(observed).__name__}; joint_decoder takes all mechanisms."
        )
    believes = believed(owner, prior, observed, sizes)[0]
    if not observed.users:
        return np.zeros((0, observed.items))
    out = _filtered_ratios(*observed.debiased())
    if prior is not None:
        out += believes.log_odds(out, slice(0, observed.users))
    return out


def _filtered_ratios(rows: np.ndarray, codes: np.ndarray, noise: float) -> np.ndarray:
    """Log-likelihood ratios of codewords in rows after the spectral filter."""
    centre = rows.mean(axis=0)
    filtered = centre + _filtered(rows - centre, noise)
    base = codes - codes.mean(axis=0)  # the mean codeword does not distinguish items
    scores = (filtered - filtered.mean(axis=1, keepdims=True)) @ base.T
    powers = np.square(base).sum(axis=1)
    # Most items are absent from a profile, so the median score shows the noise alone.
    middle = np.median(np.abs(scores / np.sqrt(powers)), axis=1, keepdims=True)
    variance = np.maximum((middle / NORMAL_MIDDLE) ** 2, TINY)
    return np.asarray((scores - powers / 2) / variance, np.float64)


def _filtered(rows: np.ndarray, noise: float) -> np.ndarray:
    """Rows projected on their principal directions, each shrunk by its noise fraction.

    The Gram matrices of users and of components have the same eigenvalues: the smaller is
    decomposed.
    """
    users, length = rows.shape
    gram = rows.T @ rows if length < users else rows @ rows.T
    values, vectors = np.linalg.eigh(gram.astype(np.float64) / users)
    retained = values > noise * (1 + np.sqrt(length / users)) ** 2
    values, vectors = values[retained], vectors[:, retained]
    signal = np.clip(1 - noise * (1 + length / users) / values, 0, 1)
    shrink = np.asarray((vectors * signal) @ vectors.T, np.float32)
    return rows @ shrink if length < users else shrink @ rows
