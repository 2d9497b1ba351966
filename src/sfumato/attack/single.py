"""The single decoder: each item alone against the release."""

from typing import Any

import numpy as np

from sfumato.attack._blocks import THREADS, Progress, in_blocks
from sfumato.attack._channel import channel
from sfumato.attack._priors import believed

__all__ = ["single_decoder"]

BLOCK = 64  # users at a time


def single_decoder(
    released: Any,
    candidates: Any,
    prior: Any = None,
    *,
    sizes: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Scores of items, users x candidates: the log-likelihood ratio of each item by itself.

    Guarantee: for BLIP without a prior it is (3.27), where an item's coinciding bits count once and
    the share of ones is that of the row, but no less than flips alone would give; for other
    mechanisms the same test in their own law, the rest of the profile being noise. With a prior,
    the prior log odds are added.
    Parameters: as of `joint_decoder`.

    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 0, 0, 0, 1, 0, 0]], bool)
    >>> seen = BitChannel(bits, [[0, 1], [1, 2], [6, 7]], 0.1)
    >>> single_decoder(seen, None).argmax(axis=1)
    array([0])

    Thesis 3.4.1.
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
