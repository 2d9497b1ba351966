"""Randomized response: every bit or symbol is noised by itself, before anybody sees it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato._require import positive, whole
from sfumato.privacy import noise
from sfumato.privacy._columns import whole_numbers
from sfumato.privacy._source import Source, SystemSource
from sfumato.privacy.loss import Flips, Loss
from sfumato.privacy.mechanism import Mechanism

__all__ = ["BinaryResponse", "KaryResponse"]

GRID = 2**32  # chances are multiples of its inverse


@dataclass(frozen=True)
class _Response(Mechanism):
    """A column in, a column of the same length out; its length is public."""

    relation: str = field(default="replace", kw_only=True)

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """An answer for each entry: an int for one entry, else an array of the same shape."""
        entries = self._entries(value)
        answers = self._answer(entries.reshape(-1), source or SystemSource()).reshape(entries.shape)
        return int(answers) if answers.ndim == 0 else answers

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        repeated = np.repeat(self._entries(value)[np.newaxis], self._trials(trials), axis=0)
        return np.asarray(self.run(repeated, source=source))

    def _entries(self, value: Any) -> np.ndarray:
        raise NotImplementedError

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True)
class BinaryResponse(_Response):
    """Every bit is flipped with one chance: the local model for yes or no, or for sets of bits.

    Guarantee: pure epsilon = cells ln((1 - p) / p) for the flip chance p that runs, a multiple of
    2**-32 rounded toward 1/2, so never above the epsilon asked for (Warner 1965; every bit answers
    for itself, so the loss of the changed bits adds up).
    Parameters: epsilon above 0; cells, how many bits one unit changes at most; relation.

    >>> asked = BinaryResponse(epsilon=math.log(3))
    >>> asked.flip_probability - Fraction(1, 4) <= Fraction(1, 2**32)
    True
    >>> answers = asked.run([1, 0, 0, 1, 1])
    >>> about, error = asked.estimate(answers.sum(), 5)
    """

    epsilon: float
    cells: int = field(default=1, kw_only=True)
    domain = "a bit or an array of bits, 0 or 1 (or bool); the shape is public"
    LIMITS: ClassVar[dict[str, Any]] = {"epsilon": positive, "cells": whole(1, 2**31)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._fits(GRID // 2 - 1):
            raise ValueError(_too_small(self))

    @property
    def sensitivity(self) -> int:
        """How many bits one unit changes, at most."""
        return self.cells

    @cached_property
    def flip_probability(self) -> Fraction:
        """The chance that runs: the least multiple of 2**-32 that keeps the promise."""
        return Fraction(_least(self._fits, GRID // 2 - 1), GRID)

    def estimate(self, count: Any, n: Any) -> tuple[Any, Any]:
        """How many of n bits were 1, without bias, given how many answers are; and its error.

        The standard error is that of the flips alone: it counts no sampling of people. One count
        or an array of them, as of the columns of a table.
        """
        count, n = _counts("BinaryResponse", count, n)
        p = float(self.flip_probability)
        return (count - n * p) / (1 - 2 * p), np.sqrt(n * p * (1 - p)) / (1 - 2 * p)

    def _sentence(self) -> str:
        return f"each bit flipped with probability {float(self.flip_probability):.6g}"

    def _loss(self) -> Loss:
        return Flips(self.flip_probability, self.cells, relation=self.relation)

    def _fits(self, n: int) -> bool:
        return Flips(Fraction(n, GRID), self.cells).epsilon <= self.epsilon

    def _entries(self, value: Any) -> np.ndarray:
        bits = np.asarray(value)
        return whole_numbers(
            "BinaryResponse", bits.astype(np.int8) if bits.dtype == bool else bits, 0, 1
        )

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        words = noise.flips(self.flip_probability, entries.size, source=source)
        flipped = np.unpackbits(words.view(np.uint8), bitorder="little", count=entries.size)
        return entries.astype(np.uint8) ^ flipped


@dataclass(frozen=True)
class KaryResponse(_Response):
    """Every symbol is kept, or else becomes one of the others, all equally likely.

    Guarantee: each other symbol has a chance c, a multiple of 2**-32 rounded up, and the true one a
    chance a, so pure epsilon = cells ln(a / c), never above the epsilon asked for (Kairouz, Oh and
    Viswanath 2014, who show that at high epsilon no other answer is more useful). Between two
    symbols an answer is a function of a bit flipped with probability c / (a + c), and that is the
    loss: with chance a + c it is the symbol that the bit says, else one of the others, all alike.
    Parameters: symbols, how many there are, 2 to 65536; epsilon above 0; cells, how many symbols
    one unit changes at most; relation.

    >>> answers = KaryResponse(4, epsilon=2).run([0, 3, 1, 1, 2])
    >>> about, error = KaryResponse(4, epsilon=2).estimate([120, 80, 70, 30])
    >>> round(float(about.sum()))
    300
    """

    symbols: int
    epsilon: float
    cells: int = field(default=1, kw_only=True)
    domain = "a symbol or an array of them, 0 to symbols - 1; the shape is public"
    LIMITS: ClassVar[dict[str, Any]] = {
        "symbols": whole(2, 2**16),
        "epsilon": positive,
        "cells": whole(1, 2**31),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._fits(self._most):
            raise ValueError(_too_small(self))

    @property
    def sensitivity(self) -> int:
        """How many symbols one unit changes, at most."""
        return self.cells

    @cached_property
    def wrong_probability(self) -> Fraction:
        """The chance of each other symbol: the least multiple of 2**-32 that keeps the promise."""
        return Fraction(_least(self._fits, self._most), GRID)

    @property
    def change_probability(self) -> Fraction:
        """The chance that a symbol is not kept."""
        return (self.symbols - 1) * self.wrong_probability

    def estimate(self, counts: Any) -> tuple[np.ndarray, np.ndarray]:
        """How often each symbol was meant, without bias, given how often it was answered.

        The standard errors are those of the answers alone, at the estimated frequencies.
        """
        counts = np.asarray(counts)
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
        return whole_numbers("KaryResponse", value, 0, self.symbols - 1)

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        """Of GRID equally likely words, `wrong` lead to each symbol, and the rest to the true."""
        words = np.empty(entries.size, np.uint32)
        source.fill(words)
        drawn = (words // np.uint32(self.wrong_probability * GRID)).astype(np.int64)
        return np.where(drawn < self.symbols, drawn, entries)


def _least(fits: Callable[[int], bool], most: int) -> int:
    """The least n from 1 to most that fits, where `most` does and all above a fitting one do."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _too_small(response: BinaryResponse | KaryResponse) -> str:
    owner, epsilon = type(response).__name__, response.epsilon
    return f"{owner}: epsilon must be larger, not {epsilon!r}: the answers would tell nothing."


def _counts(owner: str, count: Any, n: Any) -> tuple[np.ndarray, int]:
    """Counts of answers, from 0 to n each, as floats that still hold them exactly."""
    n = whole(1, 2**53).check(owner, "n", n)
    return whole_numbers(owner, count, 0, n).astype(np.float64)[()], n
