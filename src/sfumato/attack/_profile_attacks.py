"""The attacks on one release that an audit makes, and what each recovers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.attack._profile_point import BY_POPULARITY, BY_TASTE, POPULARITY
from sfumato.attack._sizes import expected_sizes
from sfumato.attack.joint import joint_decoder
from sfumato.attack.popularity import popularity
from sfumato.attack.reconstruction import (
    Reconstruction,
    SizePrior,
    Truth,
    item_prior,
    reconstruction,
    size_prior,
)
from sfumato.attack.single import single_decoder
from sfumato.attack.taste import TastePrior, learn_prior
from sfumato.data.interactions import Interactions
from sfumato.profile import ReleasedProfiles

__all__ = ["Attacker", "Tell"]

LEARNED_USERS, LEARNED_CELLS = 4000, 1 << 24  # that tastes are learned from: users, users x items
QUICK = 0.2  # of the time of all attacks goes by before that by taste
Tell = Callable[[float], None]  # is told which share of the work is done
Pair = tuple[Reconstruction, Reconstruction]


@dataclass(frozen=True)
class Attacker:
    """Who sees releases, and knows the profiles of some other users.

    candidates: all items; prior: how popular each is; taste: which go together; sizes: how many a
    profile has; learned: how many of the known users taste was learned from.
    """

    candidates: np.ndarray
    prior: np.ndarray
    taste: TastePrior
    sizes: SizePrior
    learned: int

    @classmethod
    def who_knows(cls, known: Interactions, candidates: np.ndarray) -> "Attacker":
        """The attacker who has seen these profiles; tastes are learned from some of very many."""
        coded = known.coded()
        most = min(LEARNED_USERS, max(LEARNED_CELLS // candidates.size, 1))
        some = np.random.default_rng(0).permutation(coded.user_ids.size)[:most]
        taste = learn_prior(known.filter(np.isin(coded.user_codes, some)), candidates)
        prior, sizes = item_prior(known, candidates), size_prior(known)
        return cls(candidates, prior, taste, sizes, some.size)

    def recovered(self, seen: ReleasedProfiles, truth: Truth, tell: Tell) -> dict[str, Pair]:
        """By each attack: reconstructions of the true sizes, and of those that are estimated."""
        estimated = expected_sizes(seen, self.sizes)

        def measured(scores: np.ndarray) -> Pair:
            granted = reconstruction(scores, truth, truth.sizes)
            return granted, reconstruction(scores, truth, estimated)

        def early(done: int, total: int) -> None:
            tell(QUICK * done / total)

        def late(done: int, total: int) -> None:
            tell(QUICK + (1 - QUICK) * done / total)

        told = (seen, self.candidates)
        single = measured(single_decoder(*told, sizes=self.sizes))
        with_prior = measured(single_decoder(*told, self.prior, sizes=self.sizes))
        joint = joint_decoder(*told, self.prior, sizes=self.sizes, progress=early)
        taste = joint_decoder(*told, self.taste, sizes=self.sizes, progress=late)
        return {
            POPULARITY: measured(popularity(*told, self.prior)),
            "single, no prior": single,
            "single, popularity": with_prior,
            BY_POPULARITY: measured(joint),
            BY_TASTE: measured(taste),
        }
