"""Chains of profiles for the users of a channel: their marginals, and how well they agree."""

import math
from dataclasses import dataclass

import numpy as np

from sfumato._require import whole
from sfumato.attack._chains import Chain, r_hat
from sfumato.attack._channel import Channel
from sfumato.attack._odds import sigmoid
from sfumato.attack._priors import Prior
from sfumato.attack._propagation import propagated

__all__ = ["Plan", "Sampler"]

FEWEST = 64  # candidates that chains are given at least
LIMITS = {
    "candidates_per_item": whole(1),
    "burn_in": whole(0, 2**40),
    "samples": whole(2, 2**40),
    "chains": whole(1, 2**20),
    "random_state": whole(0),
}


@dataclass(frozen=True)
class Plan:
    """How many candidates, steps and chains; the parameters of `joint_decoder`."""

    candidates_per_item: int
    burn_in: int
    samples: int
    chains: int
    random_state: int

    def checked(self, owner: str) -> "Plan":
        """The same, each in its plain type; ValueError where one is outside its limits."""
        given = {
            name: limit.check(owner, name, getattr(self, name)) for name, limit in LIMITS.items()
        }
        return Plan(**given)


class Sampler:
    """Chains of all users of a channel."""

    def __init__(self, seen: Channel, prior: Prior, expected: np.ndarray, plan: Plan) -> None:
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
