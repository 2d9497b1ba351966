"""Answers about the least item of each bin (one-permutation MinHash), as decoders see them."""

from functools import cached_property
from typing import Any

import numpy as np

from sfumato.attack.channels.profile_size import SIGMAS, Sizes, release_sizes
from sfumato.core.tables import described
from sfumato.kernels.attack import belief_propagation as propagate
from sfumato.kernels.attack import gibbs_min_hash as gibbs_symbols

__all__ = ["SymbolChannel"]

LEAST_CHANCE = 1e-12  # of a wrong answer: certainty would forbid an item for good


class SymbolChannel:
    """Released symbols of bins, each of the item of least rank, and all candidates' symbols.

    Parameters
    ----------
    answers : object
        Users x bins, from 0 to `empty`; places, ranks and symbols, one an item: its bin, its rank
        there, and the answer if it is the least.
    positions : object
        TODO.
    ranks : object
        TODO.
    symbols : object
        TODO.
    chance : float
        The probability of each wrong answer.
    empty : int
        The answer of a bin without items.
    sizes : Sizes or None, default=None
        What is known of profile sizes, else read off the empty bins.

    Examples
    --------
    >>> seen = SymbolChannel([[1, 2]], [0, 0, 1], [5, 7, 1], [1, 0, 1], 0.1, empty=2)
    >>> seen.single(slice(0, 1), np.ones(1)).round(2)
    array([[ 2.08,  0.  , -2.08]])
    """

    def __init__(
        self,
        answers: Any,
        positions: Any,
        ranks: Any,
        symbols: Any,
        chance: float,
        *,
        empty: int,
        sizes: Sizes | None = None,
    ) -> None:
        self._answers = np.asarray(answers, np.int64)
        self.users, self._bins = self._answers.shape
        positions, symbols = np.asarray(positions, np.int64), np.asarray(symbols, np.int64)
        self._order = np.lexsort((np.asarray(ranks), positions))
        self._positions, self._symbols = positions[self._order], symbols[self._order]
        self._starts = np.searchsorted(self._positions, np.arange(self._bins + 1))
        self.items, self._empty, self._given = positions.size, int(empty), sizes
        self._wrong = max(float(chance), LEAST_CHANCE)
        self._right = 1 - self._wrong * self._empty

    def __repr__(self) -> str:
        return described(self, users=self.users, items=self.items, bins=self._bins)

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "SymbolChannel":
        """The channel of released minima to these items.

        Parameters
        ----------
        released : object
            TODO.
        items : ndarray
            TODO.

        Returns
        -------
        SymbolChannel
            The channel of released minima to these items.
        """
        told = (released.positions(items), released.ranks(items), released.symbols(items))
        empty, sizes = 1 << released.code_bits, release_sizes(released)
        return cls(released.codes, *told, float(released.chance), empty=empty, sizes=sizes)

    @cached_property
    def sizes(self) -> Sizes:
        """What the empty bins tell about how many items there are."""
        return self._given or self._occupancy()

    def _occupancy(self) -> Sizes:
        if self._right <= self._wrong * (1 + 1e-9):
            nothing = np.full(self.users, np.inf)
            return Sizes(np.full(self.users, np.nan), nothing, nothing)
        share = (self._answers == self._empty).mean(axis=1)
        error = np.sqrt(np.maximum(share * (1 - share), 1 / self._bins) / self._bins)

        def items(share: np.ndarray) -> np.ndarray:
            bare = (share - self._wrong) / (self._right - self._wrong)
            return np.asarray(
                np.log(np.clip(bare, 0.5 / self._bins, 1)) / np.log1p(-1 / self._bins)
            )

        told = items(share)
        reach = items(share - error) - told
        return Sizes(told, reach, items(share - SIGMAS * error))

    def single(self, rows: slice, sizes: np.ndarray) -> np.ndarray:
        """Each item in its bin, every other candidate being as likely as any.

        Parameters
        ----------
        rows : slice
            TODO.
        sizes : ndarray
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        share = np.clip(sizes[rows] / self.items, 1e-9, 1 - 1e-9)[:, None]
        chances = np.broadcast_to(share, (share.size, self.items))
        return self._ratios(rows, np.ascontiguousarray(chances))

    def messages(self, rows: slice) -> "_SymbolMessages":
        """Exact ratios for these users: bins do not share items.

        Parameters
        ----------
        rows : slice
            TODO.

        Returns
        -------
        _SymbolMessages
            TODO.
        """
        return _SymbolMessages(self, rows)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "_SymbolState":
        """A changing profile of one user: of the chosen candidates, at first those `inside`.

        Parameters
        ----------
        row : int
            TODO.
        chosen : ndarray
            TODO.
        inside : ndarray
            TODO.

        Returns
        -------
        _SymbolState
            A changing profile of one user: of the chosen candidates, at first those `inside`.
        """
        return _SymbolState(self, row, chosen, inside)

    def _fits(self, rows: slice | int, at: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """P(answer | an item is the least of its bin), and P(answer | its bin is empty)."""
        answers = np.atleast_2d(self._answers[rows])[:, self._positions[at]]
        empty = np.where(answers == self._empty, self._right, self._wrong)
        return np.where(answers == self._symbols[at], self._right, self._wrong), empty

    def _ratios(self, rows: slice, chances: np.ndarray) -> np.ndarray:
        """Log-likelihood ratios, items in the order they were given."""
        answers, out = self._answers[rows], np.empty(chances.shape)
        bare = np.where(answers == self._empty, self._right, self._wrong)
        propagate.bins(self._starts, self._fits(rows)[0], bare, chances[:, self._order], out)
        told = np.empty_like(out)
        told[:, self._order] = out
        return told


class _SymbolMessages:
    def __init__(self, seen: SymbolChannel, rows: slice) -> None:
        self._seen, self._rows = seen, rows

    def sweep(self, log_odds: np.ndarray) -> np.ndarray:
        return self._seen._ratios(self._rows, 1 / (1 + np.exp(-log_odds)))


class _SymbolState:
    every = 0

    def __init__(
        self, seen: SymbolChannel, row: int, chosen: np.ndarray, inside: np.ndarray
    ) -> None:
        rank = np.empty(seen.items, np.int64)
        rank[seen._order] = np.arange(seen.items)
        self.order = chosen[np.argsort(rank[chosen])]
        at = rank[self.order]
        bins = seen._positions[at]
        first, last = (np.searchsorted(bins, bins, side) for side in ("left", "right"))
        fits, empty = (np.log(part[0]) for part in seen._fits(row, at))
        within = np.isin(self.order, chosen[inside])
        self._arrays = (first, last, fits, empty, within, np.zeros(at.size))

    def weigh(self, live: np.ndarray, weight: np.ndarray) -> None:
        *state, gains = self._arrays
        gibbs_symbols.gain_symbols(*state, live, weight, gains)

    def walk(self, *arrays: Any) -> None:
        gibbs_symbols.walk_symbols(*self._arrays, *arrays)

    def climb(self, *arrays: Any) -> None:
        gibbs_symbols.climb_symbols(*self._arrays, *arrays)

    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None:
        pass  # answers are what they are
