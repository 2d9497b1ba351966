"""Joint decoding by Gibbs sampling: chains of profiles of one user, and how well they agree."""

from typing import Any

import numpy as np

from sfumato.attack.channels.factory import Channel
from sfumato.kernels.attack.gibbs import BLOCK

__all__ = ["Chain", "padded", "r_hat", "reordered"]


class Chain:
    """A walk over profiles coded as slots (3.34).

    Parameters: chosen, the candidates; log_odds, of each; slots, most items of a profile; begin,
    the items to start with, as places in chosen; key, of all that is drawn.
    """

    def __init__(
        self,
        seen: Channel,
        row: int,
        chosen: np.ndarray,
        log_odds: np.ndarray,
        *,
        slots: int,
        begin: np.ndarray,
        key: int,
    ) -> None:
        self._draws, self._key = np.random.default_rng(key), np.uint64(key)
        inside = begin[:slots]
        self._state = seen.state(row, chosen, inside)
        self.order = self._state.order
        self._odds = np.exp(reordered(chosen, log_odds, self.order))
        within = np.isin(self.order, chosen[inside])
        self._slots = np.full(slots, -1, np.int64)
        self._slots[: inside.size] = np.flatnonzero(within)
        self._live, self._weight = padded(chosen.size), padded(chosen.size)
        self._live[: chosen.size] = np.where(within, 0.0, self._odds)
        self._state.weigh(self._live, self._weight)
        self._clock = np.array([0, inside.size])
        self._entered = np.zeros(chosen.size, np.int64)

    def walk(self, steps: int) -> np.ndarray:
        """Take so many steps; after how many each candidate, by `order`, was in the profile."""
        counts = np.zeros(self.order.size, np.int64)
        every = self._state.every or steps
        for start in range(0, steps, max(every, 1)):
            if self._state.every:
                self._state.refresh(self._slots[self._slots >= 0], self._draws)
            self._state.walk(*self._arrays(), min(every, steps - start), self._entered, counts)
        return counts

    def _arrays(self) -> tuple[Any, ...]:
        return self._odds, self._live, self._weight, self._slots, self._clock, self._key


def padded(size: int) -> np.ndarray:
    """Zeros for so many candidates and the rest of their last block."""
    return np.zeros(-(-size // BLOCK) * BLOCK)


def reordered(chosen: np.ndarray, values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Values of the chosen candidates in another order of them."""
    by_id = np.argsort(chosen)
    return np.asarray(values[by_id[np.searchsorted(chosen, order, sorter=by_id)]])


def r_hat(shares: np.ndarray, steps: int) -> np.ndarray:
    """Of each candidate: how much wider all chains together are than each by itself; 1 is agreed.

    Parameters: shares, chains x candidates, the share of steps in which a candidate was present;
    steps, of each chain. 1 too for a candidate whose presence never changed, and agreed.

    Gelman and Rubin 1992, for indicators, whose variance in a chain is share (1 - share).
    """
    inner = (shares * (1 - shares)).mean(axis=0) * steps / (steps - 1)
    between = shares.var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt((steps - 1) / steps + between / inner)
    return np.where(between == 0, 1.0, ratio)
