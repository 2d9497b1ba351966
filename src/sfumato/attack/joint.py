"""The joint decoder: whole profiles against the release, by messages or by Gibbs sampling."""

from typing import Any

import numpy as np

from sfumato._require import one_of
from sfumato.attack._blocks import THREADS, Progress, in_blocks
from sfumato.attack._channel import channel
from sfumato.attack._odds import sigmoid
from sfumato.attack._priors import believed
from sfumato.attack._propagation import propagated
from sfumato.attack._sampling import Plan, Sampler

__all__ = ["chain_agreement", "joint_decoder"]

BLOCK = 16  # users whose messages are held at a time


def joint_decoder(
    released: Any,
    candidates: Any,
    prior: Any = None,
    *,
    method: str = "propagation",
    sizes: Any = None,
    candidates_per_item: int = 6,
    burn_in: int = 1000,
    samples: int = 19000,
    chains: int = 1,
    random_state: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Scores of items, users x candidates: the probability that each is in the profile, all told.

    Guarantee: "gibbs" samples the exact posterior of profiles of up to c_max items (the release's
    upper bound of the size) among the prefiltered candidates, where items are independent before
    the release is seen; its scores are the marginals (3.33). "propagation" computes them by
    messages, for all candidates and without sampling error: exactly for minima and approximately
    for the others, where on MovieLens it found as much as chains or more at every noise level, and
    faster. The same random_state gives the same scores, whatever the threads.
    Parameters: released, released profiles or a channel; candidates, a column of items (None with a
    channel); prior, a probability an item (`item_prior`), what `learn_prior` made, or None, where
    all items are as likely; sizes, of known profiles, for a release that does not tell them (as of
    `expected_sizes`; else the sum of the prior). Of "gibbs" alone: candidates_per_item, how many
    candidates for each expected item the single decoder keeps; burn_in and samples, steps of each
    chain that are dropped and kept; chains, of which the mean is taken; random_state, of the
    chains. threads, up to all cores; progress, called with users done and users.

    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 1, 0, 0, 1, 1, 0]], bool)
    >>> seen = BitChannel(bits, [[0, 1], [1, 2], [5, 6], [3, 4]], 0.05)
    >>> told = joint_decoder(seen, None, [0.5] * 4)
    >>> told.round(2)
    array([[0.95, 0.95, 1.  , 0.  ]])
    >>> bool(np.abs(joint_decoder(seen, None, [0.5] * 4, method="gibbs") - told).max() < 0.02)
    True

    Thesis 3.4.2 and (3.30) to (3.35), where sets of many items are counted more often than they
    should be, once for each of their codings; belief propagation: Sejdinovic and Johnson 2010.
    """
    owner = "joint_decoder"
    method = one_of(("propagation", "gibbs")).check(owner, "method", method)
    plan = Plan(candidates_per_item, burn_in, samples, chains, random_state).checked(owner)
    threads = THREADS.check(owner, "threads", threads)
    seen = channel(released, candidates)
    believes, expected = believed(owner, prior, seen, sizes)
    out = np.empty((seen.users, seen.items))
    if method == "gibbs":
        sampler = Sampler(seen, believes, expected, plan)

        def work(rows: slice) -> None:
            out[rows] = sampler.marginals(rows)
    else:

        def work(rows: slice) -> None:
            out[rows] = sigmoid(propagated(seen, rows, believes)[0])

    in_blocks(seen.users, BLOCK, work, threads, progress)
    return out


def chain_agreement(
    released: Any,
    candidates: Any,
    prior: Any = None,
    *,
    sizes: Any = None,
    candidates_per_item: int = 6,
    burn_in: int = 1000,
    samples: int = 19000,
    chains: int = 4,
    random_state: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """R-hat of the chains of `joint_decoder(method="gibbs")`, users x candidates; near 1 is good.

    Each chain is cut into halves, so that one that still drifts is seen too. Candidates that were
    not sampled have NaN.
    Parameters: as of `joint_decoder`.

    >>> from sfumato.attack import BitChannel
    >>> seen = BitChannel(np.eye(1, 4, dtype=bool), [[0, 1], [1, 2]], 0.3)
    >>> bool((chain_agreement(seen, None) < 1.01).all())
    True

    Gelman and Rubin 1992.
    """
    owner = "chain_agreement"
    plan = Plan(candidates_per_item, burn_in, samples, chains, random_state).checked(owner)
    threads = THREADS.check(owner, "threads", threads)
    seen = channel(released, candidates)
    believes, expected = believed(owner, prior, seen, sizes)
    sampler, out = (
        Sampler(seen, believes, expected, plan),
        np.full((seen.users, seen.items), np.nan),
    )

    def work(rows: slice) -> None:
        sampler.agreement(rows, out)

    in_blocks(seen.users, BLOCK, work, threads, progress)
    return out
