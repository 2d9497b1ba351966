"""What an attacker believes before seeing a release: prior log odds of items."""

from typing import Any, Protocol

import numpy as np

from sfumato.attack.channels.factory import Channel
from sfumato.attack.channels.profile_size import likely_sizes
from sfumato.attack.numerics import log_odds

__all__ = ["Fixed", "Prior", "believed", "checked_prior"]


class Prior(Protocol):
    """Log odds of items, which may depend on what the release says about the others.

    personal: whether they do; total: the items of a profile to expect, None where unknown.
    """

    personal: bool
    total: float | None

    def log_odds(self, ratios: np.ndarray, rows: slice) -> np.ndarray:
        """Users x items, given the log-likelihood ratios of all items of these users (rows)."""
        ...


class Fixed:
    """Items that are independent of each other: log odds of (1 or users) x (1 or items)."""

    personal = False

    def __init__(self, chances: np.ndarray, total: float | None) -> None:
        self._log_odds, self.total = log_odds(chances), total

    def log_odds(self, ratios: np.ndarray, rows: slice) -> np.ndarray:
        own = self._log_odds[rows] if len(self._log_odds) > 1 else self._log_odds
        return np.array(np.broadcast_to(own, ratios.shape))


def believed(owner: str, prior: Any, seen: Channel, sizes: Any) -> tuple[Prior, np.ndarray]:
    """The prior as decoders use it, and the expected size of each profile, at least 1.

    None is flat: each item as likely as any other, as many as the release tells.
    """
    made = None if prior is None else checked_prior(owner, prior, seen.items)
    if sizes is None and made is not None:
        sizes = made.total
    expected = np.clip(likely_sizes(owner, seen.sizes, sizes), 1.0, seen.items)
    if made is None:
        made = Fixed(expected[:, None] / seen.items, None)
    return made, expected


def checked_prior(owner: str, prior: Any, items: int) -> Prior:
    """Probabilities or a learned prior, refused unless they are of these many candidates."""
    if hasattr(prior, "log_odds"):
        if len(prior) != items:
            raise ValueError(
                f"{owner}: prior was learned for {len(prior)} candidates, and there are {items}."
            )
        return prior  # type: ignore[no-any-return]
    chances = np.asarray(prior, np.float64)
    if chances.shape != (items,):
        raise ValueError(
            f"{owner}: prior must be one probability for each of {items} candidates, not an array "
            f"of shape {chances.shape}."
        )
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError(f"{owner}: prior must hold probabilities from 0 to 1.")
    return Fixed(chances[None], float(chances.sum()))
