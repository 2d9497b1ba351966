"""Exact choices: one of many with chances exp(-cost), and coins of such chances, in batches.

A chance that is no fraction is never rounded. A uniform real number is known by its first 64 bits,
and a bound of each chance by whole numbers below and above it; the rare number that lies between
those is told more bits, against tighter bounds, until the comparison is certain.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from sfumato.privacy._cks import Bits
from sfumato.privacy._laws import exp_bounds
from sfumato.privacy._source import Source, SystemSource

__all__ = ["exp_choices", "exp_coins"]

Bounds = tuple[int, int]
Cuts = Callable[[int], list[Bounds]]


def exp_choices(costs: Sequence[Fraction], trials: int, source: Source | None) -> np.ndarray:
    """Indices, each chosen with chance proportional to exp(-cost), the least cost being 0."""
    source = source or SystemSource()

    def cuts(bits: int) -> list[Bounds]:
        masses = _masses(costs, bits + 64)
        least, most = sum(low for low, _ in masses), sum(high for _, high in masses)
        found, below, above = [], 0, 0
        for low, high in masses[:-1]:
            below, above = below + low, above + high
            found.append(((below << bits) // most, -(-(above << bits) // least)))
        return found

    return _passed(cuts, _words(trials, source), Bits(source))


def exp_coins(costs: Sequence[Fraction], trials: int, source: Source | None) -> np.ndarray:
    """A row of coins per trial, each True with chance exp(-cost), cost >= 0."""
    source = source or SystemSource()
    words = _words((trials, len(costs)), source)
    lows, highs = _edges(_masses(costs, 64), 64)
    coins = words < lows
    more = Bits(source)
    for trial, coin in np.argwhere(~coins & (words <= highs)):
        one = partial(_masses, costs[coin : coin + 1])
        coins[trial, coin] = _resolve(one, words[trial, coin], more) == 0
    return coins


def _passed(cuts: Cuts, words: np.ndarray, more: Bits, bits: int = 64) -> np.ndarray:
    """How many cuts each uniform number has passed, its first bits being given as a word."""
    lows, highs = _edges(cuts(bits), bits)
    least, most = np.searchsorted(highs, words), np.searchsorted(lows, words, side="right")
    for i in np.flatnonzero(least != most):
        least[i] = _resolve(cuts, words[i], more, bits)
    return least


def _resolve(cuts: Cuts, word: Any, more: Bits, bits: int = 64) -> int:
    """How many cuts a uniform number that begins with this word has passed, by more of its bits."""
    prefix = int(word)
    while True:
        bounds = cuts(bits)
        passed = sum(high <= prefix for _, high in bounds)
        if passed == sum(low <= prefix for low, _ in bounds):
            return passed
        prefix, bits = prefix << 64 | more.take(64), bits + 64


def _edges(bounds: list[Bounds], bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Words below the first array are surely below a cut, words above the second surely not."""
    last = (1 << bits) - 1
    lows = np.array([min(low, last) for low, _ in bounds], np.uint64)
    return lows, np.array([min(high - 1, last) for _, high in bounds], np.uint64)


def _masses(costs: Sequence[Fraction], digits: int) -> list[Bounds]:
    """Whole numbers around 2**digits exp(-cost)."""
    one = (1 << digits, 1 << digits)
    known = {cost: exp_bounds(cost, digits) if cost else one for cost in set(costs)}
    return [known[cost] for cost in costs]


def _words(shape: Any, source: Source) -> np.ndarray:
    words = np.empty(shape, np.uint64)
    source.fill(words)
    return words
