"""Randomized response: every bit or symbol is noised by itself, before anybody sees it."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from sfumato.core.integer_columns import entries, integer_values, plain
from sfumato.core.validation import integer, positive
from sfumato.privacy.accounting.losses import Flips, Loss
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import Source, SystemSource

__all__ = ["BinaryResponse", "KaryResponse"]

GRID = 2**32  # chances are multiples of its inverse


@dataclass(frozen=True)
class _Response(Mechanism):
    """A column in, a column of the same length out; its length is public.

    Every chance is a multiple of 1 / GRID, and `_fits(n)` says whether n of them keep the promise,
    as all do from some n up to `_most`, beyond which answers would favour what is not true.
    """

    relation: str = field(default="replace", kw_only=True)
    cells: int = field(default=1, kw_only=True)
    LIMITS: ClassVar[dict[str, Any]] = {"epsilon": positive, "cells": integer(1, 2**31)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._fits(self._most):
            owner, epsilon = type(self).__name__, vars(self)["epsilon"]
            raise ValueError(
                f"{owner}: epsilon must be larger, not {epsilon!r}: the answers would tell nothing."
            )

    @property
    def sensitivity(self) -> int:
        """How many entries one unit changes, at most."""
        return self.cells

    def _hides(self, how: dict[str, Any]) -> None:
        return None

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """An answer for each entry: an int for one entry, else an array of the same shape.

        Parameters
        ----------
        value : object
            TODO.
        source : Source or None, default=None
            TODO.

        Returns
        -------
        object
            An answer for each entry: an int for one entry, else an array of the same shape.
        """
        entries = self._entries(value)
        answers = self._answer(entries.reshape(-1), source or SystemSource()).reshape(entries.shape)
        return int(answers) if answers.ndim == 0 else answers

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        repeated = np.repeat(self._entries(value)[np.newaxis], self._trials(trials), axis=0)
        return np.asarray(self.run(repeated, source=source))

    @lru_cache(256)  # noqa: B019  the responses of releases are few
    def _least(self) -> Fraction:
        """The least chance that keeps the promise."""
        low, high = 0, self._most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(middle) else (middle, high)
        return Fraction(high, GRID)

    @property
    def _most(self) -> int:
        raise NotImplementedError

    def _fits(self, n: int) -> bool:
        raise NotImplementedError

    def _entries(self, value: Any) -> np.ndarray:
        raise NotImplementedError

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True)
class BinaryResponse(_Response):
    """Every bit is flipped with one chance: the local model for yes or no, or for sets of bits.

    epsilon above 0;

    Parameters
    ----------
    epsilon : float
        TODO.
    relation : str, default="replace"
        TODO.
    cells : int, default=1
        How many bits one unit changes at most; relation.

    Notes
    -----
    **Guarantee.** Pure epsilon = cells ln((1 - p) / p) for the flip chance p that runs, a multiple
    of 2**-32 rounded toward 1/2, so never above the epsilon asked for (Warner 1965; every bit
    answers for itself, so the loss of the changed bits adds up).

    Examples
    --------
    >>> asked = BinaryResponse(epsilon=float(np.log(3)))
    >>> asked.flip_probability - Fraction(1, 4) <= Fraction(1, 2**32)
    True
    >>> answers = asked.run([1, 0, 0, 1, 1])
    >>> about, error = asked.estimate(answers.sum(), 5)
    """

    epsilon: float
    domain = "a bit or an array of bits, clipped to 0 or 1, 0 if no number; the shape is public"

    @cached_property
    def flip_probability(self) -> Fraction:
        """The chance that runs: the least multiple of 2**-32 that keeps the promise."""
        return self._least()

    def estimate(self, count: Any, n: Any) -> tuple[Any, Any]:
        """How many of n bits were 1, without bias, given how many answers are; and its error.

        The standard error is that of the flips alone: it counts no sampling of people. One count or
        an array of them, as of the columns of a table.

        Parameters
        ----------
        count : object
            TODO.
        n : object
            TODO.

        Returns
        -------
        tuple
            How many of n bits were 1, without bias, given how many answers are; and its error.
        """
        count, n = _counts("BinaryResponse", count, n)
        p = float(self.flip_probability)
        return (count - n * p) / (1 - 2 * p), np.sqrt(n * p * (1 - p)) / (1 - 2 * p)

    def _sentence(self) -> str:
        return f"each bit flipped with probability {float(self.flip_probability):.6g}"

    def _loss(self) -> Loss:
        return Flips(self.flip_probability, self.cells, relation=self.relation)

    @property
    def _most(self) -> int:
        return GRID // 2 - 1

    def _fits(self, n: int) -> bool:
        return Flips(Fraction(n, GRID), self.cells).epsilon <= self.epsilon

    def _entries(self, value: Any) -> np.ndarray:
        return entries("BinaryResponse", value, 1)

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        words = noise.flips(self.flip_probability, entries.size, source=source)
        flipped = np.unpackbits(words.view(np.uint8), bitorder="little", count=entries.size)
        return entries.astype(np.uint8) ^ flipped


@dataclass(frozen=True)
class KaryResponse(_Response):
    """Every symbol is kept, or else becomes one of the others, all equally likely.

    Parameters
    ----------
    symbols : int
        How many there are, 2 to 65536; epsilon above 0.
    epsilon : float
        TODO.
    relation : str, default="replace"
        TODO.
    cells : int, default=1
        How many symbols one unit changes at most; relation.

    Notes
    -----
    **Guarantee.** Each other symbol has a chance c, a multiple of 2**-32 rounded up, and the true
    one a chance a, so pure epsilon = cells ln(a / c), never above the epsilon asked for (Kairouz,
    Oh and Viswanath 2014, who show that at high epsilon no other answer is more useful). Between
    two symbols an answer is a function of a bit flipped with probability c / (a + c), and that is
    the loss: with chance a + c it is the symbol that the bit says, else one of the others, all
    alike.

    Examples
    --------
    >>> answers = KaryResponse(4, epsilon=2).run([0, 3, 1, 1, 2])
    >>> about, error = KaryResponse(4, epsilon=2).estimate([120, 80, 70, 30])
    >>> round(float(about.sum()))
    300
    """

    symbols: int
    epsilon: float
    domain = "a symbol or an array of them, 0 to symbols - 1; the shape is public"
    LIMITS = {**_Response.LIMITS, "symbols": integer(2, 2**16)}

    @cached_property
    def wrong_probability(self) -> Fraction:
        """The chance of each other symbol: the least multiple of 2**-32 that keeps the promise."""
        return self._least()

    @property
    def change_probability(self) -> Fraction:
        """The chance that a symbol is not kept."""
        return (self.symbols - 1) * self.wrong_probability

    def estimate(self, counts: Any) -> tuple[np.ndarray, np.ndarray]:
        """How often each symbol was meant, without bias, given how often it was answered.

        The standard errors are those of the answers alone, at the estimated frequencies.

        Parameters
        ----------
        counts : object
            TODO.

        Returns
        -------
        tuple
            How often each symbol was meant, without bias, given how often it was answered.
        """
        counts = np.asarray(plain("KaryResponse", "counts", counts))
        if counts.shape != (self.symbols,):
            raise ValueError(f"KaryResponse: counts must be {self.symbols} numbers, one a symbol.")
        counts, n = _counts("KaryResponse", counts, counts.sum())
        kept, other = 1 - float(self.change_probability), float(self.wrong_probability)
        meant = (counts - n * other) / (kept - other)
        likely = np.clip(meant, 0, n)
        spread = likely * kept * (1 - kept) + (n - likely) * other * (1 - other)
        return meant, np.sqrt(spread) / (kept - other)

    def _sentence(self) -> str:
        chance = f"{float(self.change_probability):.6g}"
        return f"one of {self.symbols} symbols, changed with probability {chance}"

    @property
    def _most(self) -> int:
        """The largest chance of each other symbol, in grid steps, that still favours the true."""
        return (GRID - 1) // self.symbols

    def _loss(self) -> Loss:
        return self._told(int(self.wrong_probability * GRID))

    def _told(self, wrong: int) -> Flips:
        right = GRID - (self.symbols - 1) * wrong
        return Flips(Fraction(wrong, right + wrong), self.cells, relation=self.relation)

    def _fits(self, wrong: int) -> bool:
        return self._told(wrong).epsilon <= self.epsilon

    def _entries(self, value: Any) -> np.ndarray:
        return entries("KaryResponse", value, self.symbols - 1)

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        """Of GRID equally likely words, `wrong` lead to each symbol, and the rest to the true."""
        words = np.empty(entries.size, np.uint32)
        source.fill(words)
        drawn = (words // np.uint32(self.wrong_probability * GRID)).astype(np.int64)
        return np.where(drawn < self.symbols, drawn, entries)


def _counts(owner: str, count: Any, n: Any) -> tuple[np.ndarray, int]:
    """Counts of answers, from 0 to n each, as floats that still hold them exactly."""
    n = integer(1, 2**53).check(owner, "n", n)
    counts = integer_values(owner, count, -1, n + 1)
    if counts.size and not 0 <= int(counts.min()) <= int(counts.max()) <= n:
        raise ValueError(f"{owner}: count must be integers from 0 to {n}, and some are not.")
    return counts.astype(np.float64)[()], n
