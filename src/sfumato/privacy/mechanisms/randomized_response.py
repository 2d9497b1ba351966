"""Randomized response: every bit or symbol is randomized by itself, before anybody observes it."""

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

GRID = 2**32  # probabilities are multiples of its inverse


@dataclass(frozen=True)
class _Response(Mechanism):
    """Base of response mechanisms: a column in, a column of the same, public length out.

    Every probability is a multiple of 1 / GRID, and `_fits(n)` says whether n of them satisfy
    epsilon, as all do from some n up to `_most`, beyond which answers would favour what is not
    true.
    """

    relation: str = field(default="replace", kw_only=True)
    cells: int = field(default=1, kw_only=True)
    LIMITS: ClassVar[dict[str, Any]] = {"epsilon": positive, "cells": integer(1, 2**31)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._fits(self._most):
            owner, epsilon = type(self).__name__, vars(self)["epsilon"]
            raise ValueError(
                f"{owner}: epsilon must be larger, not {epsilon!r}: the answers would carry no "
                "information."
            )

    @property
    def sensitivity(self) -> int:
        """Largest number of entries that one unit changes."""
        return self.cells

    def _protected_unit(self, how: dict[str, Any]) -> None:
        return None

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """Randomize every entry, without charging a ledger.

        Parameters
        ----------
        value : object
            One entry or an array of entries, as `domain` describes them.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        object
            An int for a single entry, else an ndarray of the same shape.
        """
        entries = self._entries(value)
        answers = self._answer(entries.reshape(-1), source or SystemSource()).reshape(entries.shape)
        return int(answers) if answers.ndim == 0 else answers

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        repeated = np.repeat(self._entries(value)[np.newaxis], self._trials(trials), axis=0)
        return np.asarray(self.run(repeated, source=source))

    @lru_cache(256)  # noqa: B019  the responses of releases are few
    def _least(self) -> Fraction:
        """Return the smallest probability that satisfies epsilon, by bisection."""
        low, high = 0, self._most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(middle) else (middle, high)
        return Fraction(high, GRID)

    @property
    def _most(self) -> int:
        """Largest number of grid steps to try."""
        raise NotImplementedError

    def _fits(self, n: int) -> bool:
        """Return whether a probability of n grid steps satisfies epsilon."""
        raise NotImplementedError

    def _entries(self, value: Any) -> np.ndarray:
        raise NotImplementedError

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True)
class BinaryResponse(_Response):
    """Binary randomized response: every bit is flipped with one probability.

    The local model for a yes-or-no question, or for sets of bits.

    Parameters
    ----------
    epsilon : float
        Above 0.
    relation : str, default="replace"
        Adjacency of data sets: "add/remove" or "replace".
    cells : int, default=1
        Largest number of bits that one unit changes, from 1 to 2**31.

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one unit under `relation`, also towards the
    curator: pure epsilon = cells ln((1 - p) / p) for the flip probability p in use, a multiple of
    2**-32 rounded toward 1/2, so never above the requested epsilon [1]_. Bits are flipped
    independently, so the losses of the changed bits add up.

    References
    ----------
    .. [1] Warner. "Randomized Response: A Survey Technique for Eliminating Evasive Answer Bias".
       JASA 1965. https://doi.org/10.1080/01621459.1965.10480775

    Examples
    --------
    >>> survey = BinaryResponse(epsilon=float(np.log(3)))
    >>> survey.flip_probability - Fraction(1, 4) <= Fraction(1, 2**32)
    True
    >>> answers = survey.run([1, 0, 0, 1, 1])
    >>> estimate, std_error = survey.estimate(answers.sum(), 5)
    """

    epsilon: float
    domain = "a bit or an array of bits, clipped to 0 or 1, 0 if no number; the shape is public"

    @cached_property
    def flip_probability(self) -> Fraction:
        """Probability of a flip in use: the smallest multiple of 2**-32 that satisfies epsilon."""
        return self._least()

    def estimate(self, count: Any, n: Any) -> tuple[Any, Any]:
        """Estimate without bias how many of n bits were 1.

        Parameters
        ----------
        count : object
            Number of answers that are 1, from 0 to n: one count or an array, as of a table's
            columns.
        n : object
            Number of answers, at least 1.

        Returns
        -------
        tuple
            Estimated count, and its standard error from the flips alone (not from sampling people).
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
        """Largest number of grid steps below probability 1/2."""
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
    """K-ary randomized response: every symbol is retained or replaced by a uniform other one.

    Parameters
    ----------
    symbols : int
        Number of symbols, from 2 to 65536.
    epsilon : float
        Above 0.
    relation : str, default="replace"
        Adjacency of data sets: "add/remove" or "replace".
    cells : int, default=1
        Largest number of symbols that one unit changes, from 1 to 2**31.

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one unit under `relation`, also towards the
    curator. Each other symbol has a probability c, a multiple of 2**-32 rounded up, and the true
    one a probability a, so pure epsilon = cells ln(a / c), never above the requested epsilon. At
    high epsilon no other response is more useful [1]_. Between two symbols an answer is a function
    of a bit flipped with probability c / (a + c), and that is the loss: with probability a + c it
    is the symbol that the bit indicates, else a uniform one of the others.

    References
    ----------
    .. [1] Kairouz, Oh, Viswanath. "Extremal Mechanisms for Local Differential Privacy". NIPS 2014
       (optimality of randomized response). https://arxiv.org/abs/1407.1338

    Examples
    --------
    >>> answers = KaryResponse(4, epsilon=2).run([0, 3, 1, 1, 2])
    >>> estimates, std_errors = KaryResponse(4, epsilon=2).estimate([120, 80, 70, 30])
    >>> round(float(estimates.sum()))
    300
    """

    symbols: int
    epsilon: float
    domain = "a symbol or an array of them, 0 to symbols - 1; the shape is public"
    LIMITS = {**_Response.LIMITS, "symbols": integer(2, 2**16)}

    @cached_property
    def wrong_probability(self) -> Fraction:
        """Probability of each other symbol: the smallest multiple of 2**-32 for epsilon."""
        return self._least()

    @property
    def change_probability(self) -> Fraction:
        """Probability that a symbol is replaced."""
        return (self.symbols - 1) * self.wrong_probability

    def estimate(self, counts: Any) -> tuple[np.ndarray, np.ndarray]:
        """Estimate without bias how often each symbol was the true one.

        Parameters
        ----------
        counts : object
            Number of answers per symbol, an array of `symbols` integers.

        Returns
        -------
        tuple
            Estimated counts, and their standard errors from the responses alone, at these
            estimates.
        """
        counts = np.asarray(plain("KaryResponse", "counts", counts))
        if counts.shape != (self.symbols,):
            raise ValueError(
                f"KaryResponse: counts must be {self.symbols} numbers, one per symbol."
            )
        counts, n = _counts("KaryResponse", counts, counts.sum())
        correct, other = 1 - float(self.change_probability), float(self.wrong_probability)
        estimates = (counts - n * other) / (correct - other)
        likely = np.clip(estimates, 0, n)
        variance = likely * correct * (1 - correct) + (n - likely) * other * (1 - other)
        return estimates, np.sqrt(variance) / (correct - other)

    def _sentence(self) -> str:
        probability = f"{float(self.change_probability):.6g}"
        return f"one of {self.symbols} symbols, changed with probability {probability}"

    @property
    def _most(self) -> int:
        """Largest number of grid steps for each other symbol that still favours the true one."""
        return (GRID - 1) // self.symbols

    def _loss(self) -> Loss:
        return self._flips(int(self.wrong_probability * GRID))

    def _flips(self, wrong: int) -> Flips:
        """Return the loss where each other symbol has `wrong` grid steps of probability."""
        right = GRID - (self.symbols - 1) * wrong
        return Flips(Fraction(wrong, right + wrong), self.cells, relation=self.relation)

    def _fits(self, wrong: int) -> bool:
        return self._flips(wrong).epsilon <= self.epsilon

    def _entries(self, value: Any) -> np.ndarray:
        return entries("KaryResponse", value, self.symbols - 1)

    def _answer(self, entries: np.ndarray, source: Source) -> np.ndarray:
        """Map GRID equally likely words: `wrong` to each symbol, all others to the true one."""
        words = np.empty(entries.size, np.uint32)
        source.fill(words)
        drawn = (words // np.uint32(self.wrong_probability * GRID)).astype(np.int64)
        return np.where(drawn < self.symbols, drawn, entries)


def _counts(owner: str, count: Any, n: Any) -> tuple[np.ndarray, int]:
    """Check counts of answers, from 0 to n each; as floats that represent them exactly."""
    n = integer(1, 2**53).check(owner, "n", n)
    counts = integer_values(owner, count, -1, n + 1)
    if counts.size and not 0 <= int(counts.min()) <= int(counts.max()) <= n:
        raise ValueError(f"{owner}: count must be integers from 0 to {n}, and some are not.")
    return counts.astype(np.float64)[()], n
