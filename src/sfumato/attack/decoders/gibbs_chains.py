"""Joint decoding by Gibbs sampling: chains over one user's profiles, and their R-hat."""

from typing import Any

import numpy as np

from sfumato.attack.channels.factory import Channel
from sfumato.kernels.attack import gibbs

__all__ = ["Chain", "padded", "r_hat", "reordered"]


class Chain:
    """A Gibbs chain over profiles coded as slots; a step changes one slot, as in (3.34).

    Takes the candidates `chosen` with their prior `log_odds`; `slots`, the most items of a profile;
    `begin`, positions in `chosen` of the initial items; and `key`, the random seed.
    """

    def __init__(
        self,
        observed: Channel,
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
        self._state = observed.state(row, chosen, inside)
        self.order: np.ndarray = self._state.order
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
        """Take steps; return for each candidate, by `order`, how many of them it was present in."""
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
    """Zeros for `size` candidates, padded to a multiple of BLOCK."""
    return np.zeros(-(-size // gibbs.BLOCK) * gibbs.BLOCK)


def reordered(chosen: np.ndarray, values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Values of the chosen candidates, in another order of these candidates."""
    by_id = np.argsort(chosen)
    return np.asarray(values[by_id[np.searchsorted(chosen, order, sorter=by_id)]])


def r_hat(fractions: np.ndarray, steps: int) -> np.ndarray:
    """R-hat of each candidate (Gelman and Rubin 1992): 1 where the chains agree.

    Takes `fractions`, chains x candidates, the fraction of steps in which a candidate was present,
    and the steps of each chain. An indicator has the variance f (1 - f) within a chain. A candidate
    whose presence never changed in any chain has 1.
    """
    inner = (fractions * (1 - fractions)).mean(axis=0) * steps / (steps - 1)
    between = fractions.var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt((steps - 1) / steps + between / inner)
    return np.where(between == 0, 1.0, ratio)
