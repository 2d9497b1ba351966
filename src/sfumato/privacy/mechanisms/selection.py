"""One of a public list of candidates, chosen by private scores: exact laws, no float.

The promises are about the answer. The time that an answer takes grows with the number of different
scores, so whoever can time the curator learns about the data: answer where nobody can.

Exact choices: one of many with chances exp(-cost), and coins of such chances, in batches.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from sfumato.core.integer_columns import integer_values
from sfumato.core.validation import flag, integer, one_of, positive
from sfumato.privacy.accounting.losses import Loss, Pure
from sfumato.privacy.mechanisms.base import Stated
from sfumato.privacy.noise.discrete import LARGEST, discrete_laplace, uniform
from sfumato.privacy.noise.exact.distributions import exp_bounds
from sfumato.privacy.noise.exact.reference import Bits
from sfumato.privacy.random_source import Source, SystemSource

__all__ = ["Exponential", "PermuteAndFlip", "ReportNoisyMax", "exp_choices", "exp_coins"]

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
    """Integers around 2**digits exp(-cost)."""
    one = (1 << digits, 1 << digits)
    known = {cost: exp_bounds(cost, digits) if cost else one for cost in set(costs)}
    return [known[cost] for cost in costs]


def _words(shape: Any, source: Source) -> np.ndarray:
    words = np.empty(shape, np.uint64)
    source.fill(words)
    return words


@dataclass(frozen=True)
class _Selection(Stated):
    """Scores in, the index of the chosen candidate out; high scores are good.

    Parameters: sensitivity, the most that one unit changes any score by, an integer from 1 up;
    epsilon above 0; candidates, how many there are, a public number; monotone=True, if one unit
    more never lowers a score or never raises one (then half the noise suffices; not for "replace").
    """

    sensitivity: int = field()
    epsilon: float
    candidates: int = field(kw_only=True)
    monotone: bool = field(default=False, kw_only=True)
    domain = "one whole score per candidate, below 2**62 in size"
    LIMITS: ClassVar[dict[str, Any]] = {
        **Stated.LIMITS,
        "epsilon": positive,
        "candidates": integer(1, 2**31),
        "monotone": flag,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.monotone and self.relation == "replace":
            owner = type(self).__name__
            raise ValueError(
                f"{owner}: monotone must be False for 'replace': a replaced unit moves both ways."
            )

    @property
    def scale(self) -> Fraction:
        """The difference of scores that counts as a factor e."""
        return (1 if self.monotone else 2) * self.sensitivity / Fraction(self.epsilon)

    def run(self, value: Any, *, source: Source | None = None) -> int:
        """The index of the chosen candidate.

        Parameters
        ----------
        value : object
            TODO.
        source : Source or None, default=None
            TODO.

        Returns
        -------
        int
            The index of the chosen candidate.
        """
        return int(self.sample(value, 1, source=source)[0])

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        owner, trials = type(self).__name__, self._trials(trials)
        scores = integer_values(owner, value)
        if scores.shape != (self.candidates,):
            raise ValueError(f"{owner}: value must be {self.candidates} scores, one per candidate.")
        return self._choose(scores, trials, source or SystemSource())

    def _sentence(self) -> str:
        scale = f"{float(self.scale):.6g}"
        return f"{self._name()}, one of {self.candidates} candidates, scale {scale}"

    def _loss(self) -> Loss:
        return Pure(self.epsilon, relation=self.relation)

    def _costs(self, scores: np.ndarray) -> list[Fraction]:
        """How far each score is from the best one, in scales."""
        best, scale = int(scores.max()), self.scale
        return [(best - score) / scale for score in scores.tolist()]

    def _name(self) -> str:
        raise NotImplementedError

    def _choose(self, scores: np.ndarray, trials: int, source: Source) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True)
class Exponential(_Selection):
    """The exponential mechanism: the chance of a candidate is proportional to exp(score / scale).

    Parameters
    ----------
    sensitivity : int
        Relation. Give costs with a minus: the thesis that we follow writes exp(-epsilon u / (2 du))
        for a utility u (2.4.6.2), and that sign fits a cost only.
    epsilon : float
        Relation. Give costs with a minus: the thesis that we follow writes exp(-epsilon u / (2 du))
        for a utility u (2.4.6.2), and that sign fits a cost only.
    relation : str, default="add/remove"
        TODO.
    candidates : int
        Relation. Give costs with a minus: the thesis that we follow writes exp(-epsilon u / (2 du))
        for a utility u (2.4.6.2), and that sign fits a cost only.
    monotone : bool, default=False
        Relation. Give costs with a minus: the thesis that we follow writes exp(-epsilon u / (2 du))
        for a utility u (2.4.6.2), and that sign fits a cost only.

    Notes
    -----
    **Guarantee.** Pure epsilon, with scale = 2 sensitivity / epsilon: a score moves its weight by
    at most exp(epsilon / 2), and the sum of weights by no more (McSherry and Talwar 2007, theorem
    6). If monotone, all weights move the same way, so scale = sensitivity / epsilon. The chances
    are exact: a uniform number is compared with certain bounds of their running sums. (Rejection,
    with chance exp(-(best - score) / scale) for a random candidate, has the same law. But where
    most scores are poor it takes long, and its time tells how long.)

    Examples
    --------
    >>> teas = ["green", "black", "white"]
    >>> liked = teas[Exponential(1, epsilon=2, candidates=3).run([12, 90, 31])]
    """

    def _name(self) -> str:
        return "exponential mechanism"

    def _choose(self, scores: np.ndarray, trials: int, source: Source) -> np.ndarray:
        return exp_choices(self._costs(scores), trials, source)


@dataclass(frozen=True)
class PermuteAndFlip(_Selection):
    """Candidates in random order, the first whose coin of exp((score - best) / scale) shows heads.

    Parameters
    ----------
    sensitivity : int
        Relation.
    epsilon : float
        Relation.
    relation : str, default="add/remove"
        TODO.
    candidates : int
        Relation.
    monotone : bool, default=False
        Relation.

    Notes
    -----
    **Guarantee.** Pure epsilon, with the scales of `Exponential`, and an expected score never below
    that of `Exponential` (McKenna and Sheldon 2020). The law is that of the highest score with
    exponential noise (Ding et al. 2021): a candidate wins if its noise passes a threshold that one
    unit moves by at most 2 sensitivities, or by one sensitivity if monotone. All coins are flipped
    and one head is drawn evenly: coins do not depend on the order, so the first head of a random
    order is any of the heads. That takes no longer for poor scores.

    Examples
    --------
    >>> winner = PermuteAndFlip(1, epsilon=2, candidates=3).run([12, 90, 31])
    """

    def _name(self) -> str:
        return "permute and flip"

    def _choose(self, scores: np.ndarray, trials: int, source: Source) -> np.ndarray:
        heads = exp_coins(self._costs(scores), trials, source)
        count = heads.sum(axis=1)
        drawn = np.empty(trials, np.int64)
        for heads_up in np.unique(count):
            alike = count == heads_up
            drawn[alike] = uniform(int(heads_up), int(alike.sum()), source=source)
        return np.asarray(np.argmax(heads.cumsum(axis=1) > drawn[:, np.newaxis], axis=1))


@dataclass(frozen=True)
class ReportNoisyMax(_Selection):
    """The candidate whose score with noise is highest, the first of them where several are.

    Parameters
    ----------
    sensitivity : int
        Relation.
    epsilon : float
        Relation.
    relation : str, default="add/remove"
        TODO.
    candidates : int
        Relation.
    monotone : bool, default=False
        Relation.
    noise : str, default="geometric"
        "geometric" (k >= 0 with chance proportional to exp(-k / scale), less noise for the same
        promise) or "laplace".

    Notes
    -----
    **Guarantee.** Pure epsilon = 2 sensitivity / scale (sensitivity / scale if monotone), ties
    included. Proof: fix the noise of the other candidates. A candidate wins if its own is at least
    some integer t, which counts ties: an earlier rival must be passed by 1. One unit moves t by at
    most 2 sensitivities (monotone: by one). P(noise >= t) falls by at most exp(1 / scale) per step
    of t: by that for geometric noise and t >= 0, by less for Laplace noise near 0, whose tail is
    log-concave. For noise on a coarser grid than the scores this would be false. Dwork and Roth
    2014, claim 3.9, prove continuous noise, where ties have no chance.

    Examples
    --------
    >>> winner = ReportNoisyMax(1, epsilon=2, candidates=3).run([12, 90, 31])
    """

    noise: str = field(default="geometric", kw_only=True)
    LIMITS = {**_Selection.LIMITS, "noise": one_of(("geometric", "laplace"))}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale > LARGEST:
            raise ValueError(
                f"ReportNoisyMax: epsilon must be larger, not {self.epsilon!r}: the scale of the "
                "noise would be above 2**40. Or scale the scores and their sensitivity down."
            )

    def _name(self) -> str:
        return f"report noisy max by discrete {self.noise} noise"

    def _choose(self, scores: np.ndarray, trials: int, source: Source) -> np.ndarray:
        noisy = discrete_laplace(self.scale, (trials, self.candidates), source=source)
        if self.noise == "geometric":
            # k and -1 - k become k: the masses exp(-k / s) and exp(-(k + 1) / s) keep their ratio.
            noisy ^= noisy >> 63
        return np.asarray(np.argmax(scores + noisy, axis=1))
