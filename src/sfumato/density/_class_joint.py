"""Likelihood times prior, from tables of columns or from kernel sums; and rows with classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.density._class_columns import Columns
from sfumato.density._evidence import contrasts
from sfumato.density._priors import prior_shares
from sfumato.sketch._release import Plan, Release, Terms

__all__ = ["Labelled", "Planned", "column_joint", "kernel_joint", "refuse_told"]

LAST_DIGIT = 2.0**-52  # a mean of kernels that are at most 1 has no smaller part


@dataclass(frozen=True)
class Labelled:
    """Points, the places of their classes, and whole weights or None for ones."""

    points: np.ndarray
    places: np.ndarray
    weights: np.ndarray | None

    def of(self, k: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The points and weights of one class."""
        mine = self.places == k
        return self.points[mine], None if self.weights is None else self.weights[mine]


@dataclass(frozen=True)
class Planned:
    """Something that is released as sketches are: by a plan that is made for the terms."""

    owner: str
    plan: Callable[[Terms], Plan[Any]]

    def release(self, epsilon: float, delta: float = 0.0, **options: Any) -> Release:
        """The release under these terms: charged before any noise is drawn."""
        terms = Terms.of(self.owner, epsilon, delta, options)  # type: ignore[arg-type]
        made: Release = self.plan(terms).publish(terms)
        return made


def refuse_told(owner: str, asked: dict[str, Any], told: dict[str, Any]) -> None:
    """Raise where parameters are asked for that the release itself tells."""
    strange = sorted(asked.keys() & told.keys() - {"random_state"})
    if strange:
        raise ValueError(f"{owner}: {strange[0]} is that of the release; leave it out.")


def column_joint(owner: str, held: Columns, priors: Any, points: np.ndarray) -> np.ndarray:
    """Log probabilities of classes, up to their sum: of each against the others, for itself."""
    classes = contrasts(len(held.labels))
    shares = prior_shares(owner, priors, held.sizes)
    counted = prior_shares(owner, "estimated", held.sizes)
    if not classes:
        return np.zeros((len(points), 1))
    odds = held.log_odds(points) + (_logit(shares) - _logit(counted))[classes]
    if len(held.labels) == 2:
        odds = np.hstack([-odds, odds])
    return np.asarray(-np.logaddexp(0, -odds))


def kernel_joint(owner: str, sums: list[Any], priors: Any, points: np.ndarray) -> np.ndarray:
    """The log of each class's mean kernel value, no lower than its noise, and of its prior."""
    sizes = np.array([max(float(one.size()), 1.0) for one in sums])
    noise = [one.noise_error() if hasattr(one, "statement") else 0.0 for one in sums]
    floor = np.maximum(np.array(noise) / sizes, LAST_DIGIT)
    means = np.column_stack([np.asarray(one.estimate(points)) for one in sums]) / sizes
    return np.asarray(np.log(np.maximum(means, floor)) + np.log(prior_shares(owner, priors, sizes)))


def _logit(shares: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares) - np.log1p(-shares))
