"""The likeliest profile (MAP): items added and removed one by one while the posterior rises.

Eigen-analysis: noise outside the main directions of all releases is dropped first.
"""

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
ROUNDS = 10  # of expecting the vectors behind signs
FEWEST = 64  # candidates looked at, at least
BEHIND = 1e4  # log odds below all others, of those that were not


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
    """Scores of items, users x candidates: log odds given the likeliest profile of the others.

    as of `joint_decoder`; a prior that `learn_prior` made is used as the single decoder uses it.

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
    candidates_per_item : int, default=6
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
    **Guarantee.** No profile that differs by one prefiltered item is likelier than the one found
    (for signs: under the vector that is expected behind them). It is a baseline: one profile stands
    for all that are nearly as likely, so a score is surer than it should be.

    References
    ----------
    .. [1] Thesis 2.4.7; Huang, Du and Chen 2005.

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 1, 0, 0, 1, 1, 0]], bool)
    >>> seen = BitChannel(bits, [[0, 1], [1, 2], [5, 6], [3, 4]], 0.05)
    >>> (map_decoder(seen, None, [0.5] * 4) > 0).tolist()
    [[True, True, True, False]]
    """
    owner = "map_decoder"
    each = integer(1).check(owner, "candidates_per_item", candidates_per_item)
    threads = THREADS.check(owner, "threads", threads)
    seen = channel(released, candidates)
    believes, expected = believed(owner, prior, seen, sizes)
    out = np.empty((seen.users, seen.items))

    def work(rows: slice) -> None:
        ratios = seen.single(rows, expected)
        log_odds = believes.log_odds(ratios, rows)
        out[rows] = ratios + log_odds - BEHIND
        for at, row in enumerate(range(rows.start, rows.stop)):
            many = min(max(FEWEST, math.ceil(each * expected[row])), seen.items)
            chosen = np.argsort(-out[row], kind="stable")[:many]
            order, found = _climb(seen, row, chosen, log_odds[at, chosen])
            out[row, order] = found

    in_blocks(seen.users, BLOCK, work, threads, progress)
    return out


def _climb(
    seen: Channel, row: int, chosen: np.ndarray, log_odds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates and their log odds given the others of the profile that was climbed to."""
    state = seen.state(row, chosen, np.zeros(0, np.int64))
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
NORMAL_MIDDLE = 0.6745  # the median of a standard Gaussian's absolute value


def eigen_decoder(
    released: Any, candidates: Ids, prior: Any = None, *, sizes: Any = None
) -> np.ndarray:
    """Scores of items, users x candidates: single decoding of the releases after a spectral filter.

    All releases together show in which directions profiles differ; each row is kept along those
    where its variance is more than noise of this strength can give (the edge of Marchenko and
    Pastur), shrunk as the noise asks, and tested against each codeword as a Gaussian row. It is a
    baseline, for releases that are linear in the profile but for noise: JLT, and BLIP after its
    bits are debiased, where items that share bits bend the line. Signs and minima are refused.

    as of `joint_decoder`; the more users are released, the better it works.

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

    Returns
    -------
    ndarray
        TODO.

    References
    ----------
    .. [1] Thesis 2.4.7; Guo and Wu 2006; Huang, Du and Chen 2005.

    Examples
    --------
    >>> from sfumato.attack import VectorChannel
    >>> draws = np.random.default_rng(0)
    >>> codes = draws.normal(size=(40, 200)) / 200**0.5
    >>> kind = draws.integers(2, size=100)  # who has item 0 has items 0 to 9, the others 10 to 19
    >>> has = (np.arange(40) // 10 == kind[:, None]).astype(float)
    >>> seen = VectorChannel(has @ codes + 0.3 * draws.normal(size=(100, 200)), codes, 0.3)
    >>> best = np.argsort(-eigen_decoder(seen, None, sizes=10), axis=1)[:, :10]
    >>> bool((best // 10 == kind[:, None]).mean() > 0.95)
    True
    """
    owner = "eigen_decoder"
    seen = channel(released, candidates)
    if not isinstance(seen, BitChannel | VectorChannel):
        raise TypeError(
            f"{owner}: released must be linear in the profile but for noise (Blip or Jlt), not of "
            f"{type(seen).__name__}; joint_decoder takes all mechanisms."
        )
    believes = believed(owner, prior, seen, sizes)[0]
    if not seen.users:
        return np.zeros((0, seen.items))
    out = _filtered_ratios(*seen.debiased())
    if prior is not None:
        out += believes.log_odds(out, slice(0, seen.users))
    return out


def _filtered_ratios(rows: np.ndarray, codes: np.ndarray, noise: float) -> np.ndarray:
    """Log-likelihood ratios of codewords in rows whose noise was filtered out."""
    centre = rows.mean(axis=0)
    kept = centre + _filtered(rows - centre, noise)
    base = codes - codes.mean(axis=0)  # what all codewords share tells no item from another
    scores = (kept - kept.mean(axis=1, keepdims=True)) @ base.T
    powers = np.square(base).sum(axis=1)
    # Most items are in no one's profile, so the middle of the scores shows what chance does.
    middle = np.median(np.abs(scores / np.sqrt(powers)), axis=1, keepdims=True)
    spread = np.maximum((middle / NORMAL_MIDDLE) ** 2, TINY)
    return np.asarray((scores - powers / 2) / spread, np.float64)


def _filtered(rows: np.ndarray, noise: float) -> np.ndarray:
    """Rows along their main directions, each shrunk by the share of its variance that is noise.

    Users x users and components x components have the same variances: the smaller is decomposed.
    """
    users, length = rows.shape
    gram = rows.T @ rows if length < users else rows @ rows.T
    values, vectors = np.linalg.eigh(gram.astype(np.float64) / users)
    kept = values > noise * (1 + np.sqrt(length / users)) ** 2
    values, vectors = values[kept], vectors[:, kept]
    share = np.clip(1 - noise * (1 + length / users) / values, 0, 1)
    shrink = np.asarray((vectors * share) @ vectors.T, np.float32)
    return rows @ shrink if length < users else shrink @ rows
