"""The joint decoder: whole profiles against the release, by messages or by Gibbs sampling.

Joint decoding by messages between items, prior and release, for a block of users at a time. Chains
of profiles for the users of a channel: their marginals, and how well they agree.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack.channels.factory import Channel, channel
from sfumato.attack.decoders.gibbs_chains import Chain, r_hat
from sfumato.attack.decoders.priors import Prior, believed
from sfumato.attack.numerics import THREADS, Progress, in_blocks, sigmoid
from sfumato.core.typing import Ids
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    checked_values,
    integer,
    one_of,
    random_seed,
)

__all__ = ["Sampler", "SamplingPlan", "chain_agreement", "joint_decoder", "propagated"]

ROUNDS, SWEEPS = 12, 2  # of the prior, and of messages between two of them
CLOSE = 2e-3  # largest change of a belief in a round at which messages have settled


def propagated(seen: Channel, rows: slice, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Posterior log odds of items and the prior part of them (users x items each).

    Items tell the release how likely they are, the release tells each item what it makes of it,
    the others given; a personal prior learns from all of that, until beliefs settle.
    """
    messages = seen.messages(rows)
    shape = (rows.stop - rows.start, seen.items)
    log_odds = prior.log_odds(np.zeros(shape), rows)
    beliefs = sigmoid(log_odds)
    for _ in range(ROUNDS):
        for _ in range(SWEEPS):
            ratios = messages.sweep(log_odds)
        if prior.personal:
            log_odds = prior.log_odds(ratios, rows)
        last, beliefs = beliefs, sigmoid(log_odds + ratios)
        if np.abs(beliefs - last).max() < CLOSE:
            break
    return log_odds + ratios, log_odds


FEWEST = 64  # candidates that chains are given at least
LIMITS: dict[str, Limit] = {
    "candidates_per_item": integer(1),
    "burn_in": integer(0, 2**40),
    "samples": integer(2, 2**40),
    "chains": integer(1, 2**20),
    "random_state": RANDOM_STATE,
}


@dataclass(frozen=True)
class SamplingPlan:
    """How many candidates, steps and chains; the parameters of `joint_decoder`."""

    candidates_per_item: int
    burn_in: int
    samples: int
    chains: int
    random_state: Any  # once checked, an int

    def checked(self, owner: str) -> "SamplingPlan":
        """The same, each in its plain type; ValueError where one is outside its limits."""
        given = checked_values(owner, LIMITS, vars(self))
        return SamplingPlan(**given | {"random_state": random_seed(owner, self.random_state)})


class Sampler:
    """Chains of all users of a channel."""

    def __init__(
        self, seen: Channel, prior: Prior, expected: np.ndarray, plan: SamplingPlan
    ) -> None:
        self._seen, self._prior, self._expected, self._plan = seen, prior, expected, plan
        draws = np.random.default_rng(plan.random_state)
        self._keys = draws.integers(2**63, size=(seen.users, plan.chains))
        self._shuffled = draws.permutation(seen.items)  # ids may stand in order of popularity

    def marginals(self, rows: slice) -> np.ndarray:
        """The share of samples that hold each item, the single decoder's belief as one more."""
        scores, log_odds = self._single(rows)
        out = sigmoid(scores)
        for at, row in enumerate(range(rows.start, rows.stop)):
            order, counts = self._walk(row, scores[at], log_odds[at])
            out[at, order] += counts.sum(axis=(0, 1))
        return out / (1 + self._plan.samples * self._plan.chains)

    def agreement(self, rows: slice, out: np.ndarray) -> None:
        """R-hat of halves of chains, into the rows of out."""
        scores, log_odds = self._single(rows)
        half = self._plan.samples // 2
        for at, row in enumerate(range(rows.start, rows.stop)):
            order, counts = self._walk(row, scores[at], log_odds[at])
            out[row, order] = r_hat(counts[:, :2].reshape(-1, order.size) / half, half)

    def _single(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """What candidates are chosen by, and prior log odds, which a personal prior has settled."""
        if self._prior.personal:
            return propagated(self._seen, rows, self._prior)
        ratios = self._seen.single(rows, self._expected)
        log_odds = self._prior.log_odds(ratios, rows)
        return ratios + log_odds, log_odds

    def _walk(
        self, row: int, scores: np.ndarray, log_odds: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Candidates, and counts of chains x (first half, second half, odd step) x candidates."""
        plan, size = self._plan, self._expected[row]
        many = min(max(FEWEST, math.ceil(plan.candidates_per_item * size)), self._seen.items)
        chosen = self._shuffled[np.argsort(-scores[self._shuffled], kind="stable")[:many]]
        slots = self._slots(row, many)
        parts = (plan.samples // 2, plan.samples // 2, plan.samples % 2)
        counts = np.empty((plan.chains, len(parts), many), np.int64)
        for at, key in enumerate(self._keys[row]):
            begin = np.arange(many)
            if at:  # the first chain starts from the likeliest items, others far from it
                begin = np.random.default_rng(key).permutation(many)
            begin = begin[: round(size)]
            chain = Chain(
                self._seen, row, chosen, log_odds[chosen], slots=slots, begin=begin, key=int(key)
            )
            chain.walk(plan.burn_in)
            counts[at] = [chain.walk(steps) for steps in parts]
        return chain.order, counts

    def _slots(self, row: int, many: int) -> int:
        """c_max: the release's bound, or three times what is expected where it tells little."""
        bound = min(self._seen.sizes.most[row], 3 * self._expected[row] + 20)
        return int(min(max(math.ceil(bound), 1), many))


BLOCK = 16  # users whose messages are held at a time


def joint_decoder(
    released: Any,
    candidates: Ids,
    prior: Any = None,
    *,
    method: str = "propagation",
    sizes: Any = None,
    candidates_per_item: int = 6,
    burn_in: int = 1000,
    samples: int = 19000,
    chains: int = 1,
    random_state: RandomState = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """Scores of items, users x candidates: the probability that each is in the profile, all told.

    Parameters
    ----------
    released : object
        Released profiles or a channel.
    candidates : array_like or scalar
        A column of items (None with a channel).
    prior : object, default=None
        A probability an item (`item_prior`), what `learn_prior` made, or None, where all items are
        as likely.
    method : str, default="propagation"
        TODO.
    sizes : object, default=None
        Of known profiles, for a release that does not tell them (as of `expected_sizes`; else the
        sum of the prior). Of "gibbs" alone: candidates_per_item, how many candidates for each
        expected item the single decoder keeps.
    candidates_per_item : int, default=6
        TODO.
    burn_in : int, default=1000
        Steps of each chain that are dropped and kept.
    samples : int, default=19000
        Steps of each chain that are dropped and kept.
    chains : int, default=1
        Of which the mean is taken.
    random_state : int, Generator or None, default=0
        Of the chains.
    threads : int or None, default=None
        Up to all cores.
    progress : callable or None, default=None
        Called with users done and users.

    Returns
    -------
    ndarray
        TODO.

    Notes
    -----
    **Guarantee.** "gibbs" samples the exact posterior of profiles of up to c_max items (the
    release's upper bound of the size) among the prefiltered candidates, where items are independent
    before the release is seen; its scores are the marginals (3.33). "propagation" computes them by
    messages, for all candidates and without sampling error: exactly for minima and approximately
    for the others, where on MovieLens it found as much as chains or more at every noise level, and
    faster. The same random_state gives the same scores, whatever the threads.

    References
    ----------
    .. [1] Thesis 3.4.2 and (3.30) to (3.35), where sets of many items are counted more often than
       they should be, once for each of their codings; belief propagation: Sejdinovic and Johnson
       2010.

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> bits = np.array([[1, 1, 1, 0, 0, 1, 1, 0]], bool)
    >>> seen = BitChannel(bits, [[0, 1], [1, 2], [5, 6], [3, 4]], 0.05)
    >>> told = joint_decoder(seen, None, [0.5] * 4)
    >>> told.round(2)
    array([[0.95, 0.95, 1.  , 0.  ]])
    >>> bool(np.abs(joint_decoder(seen, None, [0.5] * 4, method="gibbs") - told).max() < 0.02)
    True
    """
    owner = "joint_decoder"
    method = one_of(("propagation", "gibbs")).check(owner, "method", method)
    plan = SamplingPlan(candidates_per_item, burn_in, samples, chains, random_state).checked(owner)
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
    candidates: Ids,
    prior: Any = None,
    *,
    sizes: Any = None,
    candidates_per_item: int = 6,
    burn_in: int = 1000,
    samples: int = 19000,
    chains: int = 4,
    random_state: RandomState = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """R-hat of the chains of `joint_decoder(method="gibbs")`, users x candidates; near 1 is good.

    Each chain is cut into halves, so that one that still drifts is seen too. Candidates that were
    not sampled have NaN.

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
    candidates_per_item : int, default=6
        TODO.
    burn_in : int, default=1000
        TODO.
    samples : int, default=19000
        TODO.
    chains : int, default=4
        TODO.
    random_state : int, Generator or None, default=0
        TODO.
    threads : int or None, default=None
        TODO.
    progress : callable or None, default=None
        TODO.

    Returns
    -------
    ndarray
        TODO.

    References
    ----------
    .. [1] Gelman and Rubin 1992.

    Examples
    --------
    >>> from sfumato.attack import BitChannel
    >>> seen = BitChannel(np.eye(1, 4, dtype=bool), [[0, 1], [1, 2]], 0.3)
    >>> bool((chain_agreement(seen, None) < 1.01).all())
    True
    """
    owner = "chain_agreement"
    plan = SamplingPlan(candidates_per_item, burn_in, samples, chains, random_state).checked(owner)
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
