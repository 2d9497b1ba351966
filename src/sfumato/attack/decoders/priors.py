"""Priors of an attacker before the release: log-odds that a profile contains each item."""

from typing import Any, Protocol

import numpy as np

from sfumato.attack.channels.factory import Channel
from sfumato.attack.channels.profile_size import likely_sizes
from sfumato.attack.numerics import log_odds

__all__ = ["Fixed", "Prior", "believed", "checked_prior"]


class Prior(Protocol):
    """Prior log-odds of items, possibly dependent on the likelihood ratios of the other items.

    `personal` is True if they are; `total` is the expected number of items, None if unknown.
    """

    personal: bool
    total: float | None

    def log_odds(self, ratios: np.ndarray, rows: slice) -> np.ndarray:
        """Log-odds (users x items) given the log-likelihood ratios of all items of these users."""
        ...


class Fixed:
    """Independent items: log-odds of shape (1 or users) x (1 or items)."""

    personal = False

    def __init__(self, probabilities: np.ndarray, total: float | None) -> None:
        self.total: float | None
        self._log_odds, self.total = log_odds(probabilities), total

    def log_odds(self, ratios: np.ndarray, rows: slice) -> np.ndarray:
        own = self._log_odds[rows] if len(self._log_odds) > 1 else self._log_odds
        return np.array(np.broadcast_to(own, ratios.shape))


def believed(owner: str, prior: Any, observed: Channel, sizes: Any) -> tuple[Prior, np.ndarray]:
    """Prior as decoders use it, and the expected size of each profile, at least 1.

    None is a flat prior: equally likely items, as many as the release's size estimate.
    """
    made = None if prior is None else checked_prior(owner, prior, observed.items)
    if sizes is None and made is not None:
        sizes = made.total
    expected = np.clip(likely_sizes(owner, observed.sizes, sizes), 1.0, observed.items)
    if made is None:
        made = Fixed(expected[:, None] / observed.items, None)
    return made, expected


def checked_prior(owner: str, prior: Any, items: int) -> Prior:
    """Probabilities or a learned prior; ValueError unless it is for `items` candidates."""
    if hasattr(prior, "log_odds"):
        if len(prior) != items:
            raise ValueError(
                f"{owner}: prior was learned for {len(prior)} candidates, and there are {items}."
            )
        return prior  # type: ignore[no-any-return]
    probabilities = np.asarray(prior, np.float64)
    if probabilities.shape != (items,):
        raise ValueError(
            f"{owner}: prior must be one probability for each of {items} candidates, not an array "
            f"of shape {probabilities.shape}."
        )
    if not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError(f"{owner}: prior must be probabilities from 0 to 1.")
    return Fixed(probabilities[None], float(probabilities.sum()))
