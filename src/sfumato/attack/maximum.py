"""The likeliest profile (MAP): items added and removed one by one while the posterior rises."""

import math
from typing import Any

import numpy as np

from sfumato._require import whole
from sfumato.attack._blocks import THREADS, Progress, in_blocks
from sfumato.attack._chains import padded, reordered
from sfumato.attack._channel import Channel, channel
from sfumato.attack._priors import believed

__all__ = ["map_decoder"]

BLOCK = 16  # users at a time
SWEEPS = 30  # over all candidates, at most
ROUNDS = 10  # of expecting the vectors behind signs
FEWEST = 64  # candidates looked at, at least
BEHIND = 1e4  # log odds below all others, of those that were not


def map_decoder(
    released: Any,
    candidates: Any,
    prior: Any = None,
    *,
    sizes: Any = None,
    candidates_per_item: int = 6,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Scores of items, users x candidates: log odds given the likeliest profile of the others.

    Guarantee: no profile that differs by one prefiltered item is likelier than the one found (for
    signs: under the vector that is expected behind them). It is a baseline: one profile stands for
    all that are nearly as likely, so a score is surer than it should be.
    Parameters: as of `joint_decoder`; a prior that `learn_prior` made is used as the single decoder
    uses it.

    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 1, 0, 0, 1, 1, 0]], bool)
    >>> seen = BitChannel(bits, [[0, 1], [1, 2], [5, 6], [3, 4]], 0.05)
    >>> (map_decoder(seen, None, [0.5] * 4) > 0).tolist()
    [[True, True, True, False]]

    Thesis 2.4.7; Huang, Du and Chen 2005.
    """
    owner = "map_decoder"
    each = whole(1).check(owner, "candidates_per_item", candidates_per_item)
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
