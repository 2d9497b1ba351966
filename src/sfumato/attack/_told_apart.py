"""How well one score tells members from others: area, hits at few false alarms, advantage."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack._rate import Rate, binomial_rate, mean_rank_rate, widest_gap_rate

__all__ = ["ALARM_RATES", "ToldApart", "told_apart"]

ALARM_RATES = (0.001, 0.01)
POINTS = 160


@dataclass(frozen=True)
class ToldApart:
    """What a score, higher for members, tells; every rate with its interval.

    auc: the chance that a member scores above another, ties counting half; tpr: the share
    of members found at each allowed rate of false alarms, 0.001 and 0.01; advantage: the largest
    difference of the two rates over all thresholds, so it is above 0 also by chance; curve: points
    (false alarms, members found), for a figure.
    """

    members: int
    others: int
    auc: Rate
    tpr: dict[float, Rate]
    advantage: Rate
    curve: tuple[tuple[float, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        return {
            "members": self.members,
            "others": self.others,
            "auc": self.auc.to_dict(),
            "tpr": {f"{allowed:g}": rate.to_dict() for allowed, rate in self.tpr.items()},
            "advantage": self.advantage.to_dict(),
            "curve": [list(point) for point in self.curve],
        }


def told_apart(members: np.ndarray, others: np.ndarray, confidence: float) -> ToldApart:
    """Measure a score on members and on others, neither of which may be empty.

    Guarantee: where the score was fixed before and rows are independent, each interval holds the
    true rate with at least this confidence. Of rows with equal scores as large a share is called
    members as the allowed false alarms permit, as an attacker would who tosses a coin.
    """
    members, others = np.sort(members), np.sort(others)
    size = members.size, others.size
    both = np.concatenate([members, others])
    gap = _below(members, both) / size[0] - _below(others, both) / size[1]
    return ToldApart(
        *size,
        auc=mean_rank_rate(_area(members, others), min(size), confidence),
        tpr={
            allowed: binomial_rate(_hits(members, others, allowed)[1], size[0], confidence)
            for allowed in ALARM_RATES
        },
        advantage=widest_gap_rate(max(float(-gap.min()), 0.0), *size, confidence),
        curve=_curve(members, others),
    )


def _below(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.searchsorted(ordered, values, "left")


def _area(members: np.ndarray, others: np.ndarray) -> float:
    ends = (np.searchsorted(others, members, side).sum() for side in ("left", "right"))
    return float(sum(ends)) / (2 * members.size * others.size)


def _hits(members: np.ndarray, others: np.ndarray, allowed: float) -> tuple[int, int]:
    """The most false alarms that are allowed, and how many members are found at that price."""
    alarms = min(int(allowed * others.size + 1e-9), others.size - 1)
    threshold = others[others.size - 1 - alarms]
    (found, tied), (alarmed, alike) = (_above(side, threshold) for side in (members, others))
    return alarms, found + int(tied * (alarms - alarmed) / alike)


def _above(ordered: np.ndarray, threshold: float) -> tuple[int, int]:
    """How many scores are above a threshold, and how many equal it."""
    left, right = (int(np.searchsorted(ordered, threshold, side)) for side in ("left", "right"))
    return ordered.size - right, right - left


def _curve(members: np.ndarray, others: np.ndarray) -> tuple[tuple[float, float], ...]:
    rates = np.geomspace(1 / others.size, 1, POINTS)
    counts = sorted({_hits(members, others, float(rate)) for rate in rates})
    points = [(alarms / others.size, hits / members.size) for alarms, hits in counts]
    return (*points, (1.0, 1.0))
