"""What attacks recovered of released profiles at one epsilon: figures over many users."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.attack.reconstruction import Reconstruction

__all__ = ["BY_POPULARITY", "BY_TASTE", "POPULARITY", "Point", "Recovered"]

POPULARITY = "popularity alone"
NUMBERS = (
    "epsilon",
    "delta",
    "profile_epsilon",
    "recovery",
    "by_popularity",
    "privacy",
    "utility",
    "utility_error",
    "utility_by_chance",
    "item_nats",
    "profile_nats",
)
BY_POPULARITY, BY_TASTE = "joint, popularity", "joint, taste"


@dataclass(frozen=True)
class Recovered:
    """What one attack recovered.

    recovery: the share of a profile among as many items as the profile has, those the attack ranks
    first: its mean over users, the standard error of that, and its 10 % and 90 % quantiles low and
    high; cosine and its spread, precision and recall: of reconstructions of the size that the
    attacker estimates; average_precision: over the first 10 ranks.
    """

    recovery: float
    error: float
    low: float
    high: float
    cosine: float
    cosine_error: float
    cosine_low: float
    cosine_high: float
    precision: float
    recall: float
    average_precision: float

    @classmethod
    def of(cls, granted: list[Reconstruction], estimated: list[Reconstruction]) -> "Recovered":
        """From reconstructions of the true sizes and of estimated ones, of parts of the users."""
        weights = np.array([part.users for part in estimated])
        return cls(
            *_spread(np.concatenate([part.cosines for part in granted])),
            *_spread(np.concatenate([part.cosines for part in estimated])),
            *(
                float(np.average([getattr(part, name) for part in estimated], weights=weights))
                for name in ("precision", "recall", "average_precision")
            ),
        )


@dataclass(frozen=True)
class Point:
    """What was measured at one epsilon.

    delta: of the statement; profile_epsilon: the loss for a whole profile of mean size, at that
    delta; attacks: what each recovered; shares: attacks x users, the share of each profile that was
    recovered; utility: the recall of nearest neighbours, with its standard error, and what chance
    would give; item_nats, profile_nats: what the release tells about an item and about a profile.
    """

    epsilon: float
    delta: float
    profile_epsilon: float
    attacks: dict[str, Recovered]
    shares: np.ndarray
    utility: float
    utility_error: float
    utility_by_chance: float
    item_nats: float
    profile_nats: float

    @property
    def strongest(self) -> str:
        """The attack that recovers most; popularity where no other recovers more."""
        return max(self.attacks, key=lambda name: self.attacks[name].recovery)

    @property
    def recovery(self) -> float:
        """The mean share of a profile that the strongest attack recovers."""
        return self.attacks[self.strongest].recovery

    @property
    def by_popularity(self) -> float:
        """The most that is recovered by attackers who know no more of items than popularity."""
        return max(attack.recovery for name, attack in self.attacks.items() if name != BY_TASTE)

    @property
    def privacy(self) -> float:
        """1 - mean cosine of the reconstruction under the best attack (3.5.4)."""
        return 1 - max(attack.cosine for attack in self.attacks.values())

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values, None for those that are not finite."""
        told = {name: _finite(getattr(self, name)) for name in NUMBERS}
        attacks = {
            name: {key: _finite(value) for key, value in asdict(attack).items()}
            for name, attack in self.attacks.items()
        }
        return {**told, "strongest": self.strongest, "attacks": attacks}


def _spread(values: np.ndarray) -> tuple[float, float, float, float]:
    low, high = np.quantile(values, (0.1, 0.9))
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return float(values.mean()), error, float(low), float(high)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
