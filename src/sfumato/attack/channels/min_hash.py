"""Likelihood of randomized answers about the minimum of each bin (one-permutation MinHash)."""

from functools import cached_property
from typing import Any

import numpy as np

from sfumato.attack.channels.profile_size import SIGMAS, Sizes, release_sizes
from sfumato.core.tables import described
from sfumato.kernels.attack import belief_propagation as propagate
from sfumato.kernels.attack import gibbs_min_hash as gibbs_symbols

__all__ = ["SymbolChannel"]

LEAST_PROBABILITY = 1e-12  # of a false answer: at 0, one answer could rule an item out permanently


class SymbolChannel:
    """Likelihood of released minima: a randomized symbol of the item of lowest rank in each bin.

    Parameters
    ----------
    answers : array_like of int, shape (n_users, n_bins)
        Released symbols, from 0 to `empty`.
    positions : array_like of int, shape (n_items,)
        Bin of each item.
    ranks : array_like of int, shape (n_items,)
        Rank of each item; the lowest rank in a bin is its minimum.
    symbols : array_like of int, shape (n_items,)
        Symbol of a bin whose minimum is this item.
    chance : float
        Probability of each false symbol.
    empty : int
        Symbol of a bin without items.
    sizes : Sizes or None, default=None
        Estimated profile sizes. If None, they are estimated from the fraction of empty bins.

    Examples
    --------
    >>> observed = SymbolChannel([[1, 2]], [0, 0, 1], [5, 7, 1], [1, 0, 1], 0.1, empty=2)
    >>> observed.single(slice(0, 1), np.ones(1)).round(2)
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
        self.users: Any
        self.users, self._bins = self._answers.shape
        positions, symbols = np.asarray(positions, np.int64), np.asarray(symbols, np.int64)
        self._order = np.lexsort((np.asarray(ranks), positions))
        self._positions, self._symbols = positions[self._order], symbols[self._order]
        self._starts = np.searchsorted(self._positions, np.arange(self._bins + 1))
        self.items: Any
        self.items, self._empty, self._given = positions.size, int(empty), sizes
        self._false = max(float(chance), LEAST_PROBABILITY)
        self._true = 1 - self._false * self._empty

    def __repr__(self) -> str:
        return described(self, users=self.users, items=self.items, bins=self._bins)

    @classmethod
    def of_release(cls, released: Any, items: np.ndarray) -> "SymbolChannel":
        """Build the channel of released minima for these candidates.

        Parameters
        ----------
        released : ReleasedMinima
            Released profiles.
        items : ndarray of shape (n_items,)
            Identifiers of the candidates.

        Returns
        -------
        SymbolChannel
            Users and items in the order given.
        """
        codes = (released.positions(items), released.ranks(items), released.symbols(items))
        empty, sizes = 1 << released.code_bits, release_sizes(released)
        return cls(released.codes, *codes, float(released.chance), empty=empty, sizes=sizes)

    @cached_property
    def sizes(self) -> Sizes:
        """Profile sizes estimated from the empty bins, with standard errors and upper bounds."""
        return self._given or self._occupancy()

    def _occupancy(self) -> Sizes:
        """Debias the fraction of empty bins, then invert it to a number of items."""
        if self._true <= self._false * (1 + 1e-9):
            nothing = np.full(self.users, np.inf)
            return Sizes(np.full(self.users, np.nan), nothing, nothing)
        empty = (self._answers == self._empty).mean(axis=1)
        error = np.sqrt(np.maximum(empty * (1 - empty), 1 / self._bins) / self._bins)

        def items(fraction: np.ndarray) -> np.ndarray:
            bare = (fraction - self._false) / (self._true - self._false)
            return np.asarray(
                np.log(np.clip(bare, 0.5 / self._bins, 1)) / np.log1p(-1 / self._bins)
            )

        estimates = items(empty)
        errors = items(empty - error) - estimates
        return Sizes(estimates, errors, items(empty - SIGMAS * error))

    def single(self, rows: slice, sizes: np.ndarray) -> np.ndarray:
        """Compute the log-likelihood ratio of each item by itself.

        All other candidates are taken as equally likely.

        Parameters
        ----------
        rows : slice
            Users to decode.
        sizes : ndarray of shape (n_users,)
            Expected size of each profile.

        Returns
        -------
        ndarray of shape (n_rows, n_items)
            Log-likelihood ratios.
        """
        prior = np.clip(sizes[rows] / self.items, 1e-9, 1 - 1e-9)[:, None]
        probabilities = np.broadcast_to(prior, (prior.size, self.items))
        return self._ratios(rows, np.ascontiguousarray(probabilities))

    def messages(self, rows: slice) -> "_SymbolMessages":
        """Start message passing for these users; exact, because bins have no items in common.

        Parameters
        ----------
        rows : slice
            Users to decode.

        Returns
        -------
        _SymbolMessages
            Message state, with a method `sweep`.
        """
        return _SymbolMessages(self, rows)

    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> "_SymbolState":
        """Start a profile of one user that a Gibbs sampler or a hill climber changes.

        Parameters
        ----------
        row : int
            Index of the user.
        chosen : ndarray of int
            Indices of the candidates that may be in the profile.
        inside : ndarray of int
            Positions in `chosen` of the items in the initial profile.

        Returns
        -------
        _SymbolState
            The profile with the likelihood gain of each candidate.
        """
        return _SymbolState(self, row, chosen, inside)

    def _fits(self, rows: slice | int, at: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """P(answer | the item is the minimum of its bin) and P(answer | its bin is empty)."""
        answers = np.atleast_2d(self._answers[rows])[:, self._positions[at]]
        empty = np.where(answers == self._empty, self._true, self._false)
        return np.where(answers == self._symbols[at], self._true, self._false), empty

    def _ratios(self, rows: slice, probabilities: np.ndarray) -> np.ndarray:
        """Log-likelihood ratios given prior probabilities, items in the given order."""
        answers, out = self._answers[rows], np.empty(probabilities.shape)
        bare = np.where(answers == self._empty, self._true, self._false)
        likely = probabilities[:, self._order]
        propagate.bins(self._starts, self._fits(rows)[0], bare, likely, out)
        ratios = np.empty_like(out)
        ratios[:, self._order] = out
        return ratios


class _SymbolMessages:
    def __init__(self, channel: SymbolChannel, rows: slice) -> None:
        self._channel, self._rows = channel, rows

    def sweep(self, log_odds: np.ndarray) -> np.ndarray:
        return self._channel._ratios(self._rows, 1 / (1 + np.exp(-log_odds)))


class _SymbolState:
    every = 0

    def __init__(
        self, channel: SymbolChannel, row: int, chosen: np.ndarray, inside: np.ndarray
    ) -> None:
        rank = np.empty(channel.items, np.int64)
        rank[channel._order] = np.arange(channel.items)
        self.order: np.ndarray = chosen[np.argsort(rank[chosen])]
        at = rank[self.order]
        bins = channel._positions[at]
        first, last = (np.searchsorted(bins, bins, side) for side in ("left", "right"))
        fits, empty = (np.log(part[0]) for part in channel._fits(row, at))
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
        pass  # the released answers are fixed
