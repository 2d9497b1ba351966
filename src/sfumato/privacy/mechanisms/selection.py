"""Private selection: one of a public list of candidates, chosen exactly by private scores.

The guarantees are about the answer. The time that an answer takes grows with the number of
different scores, so whoever can time the curator learns about the data: answer where nobody can.
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

__all__ = [
    "Exponential",
    "PermuteAndFlip",
    "ReportNoisyMax",
    "exp_choices",
    "exp_coins",
    "geometric",
]

Bounds = tuple[int, int]
Cuts = Callable[[int], list[Bounds]]


def exp_choices(costs: Sequence[Fraction], trials: int, source: Source | None) -> np.ndarray:
    """Sample indices with probability proportional to exp(-cost), the smallest cost being 0."""
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
    """Toss one coin per cost and trial, True with probability exp(-cost), cost >= 0."""
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
    """Count the cuts below each uniform number, of which the first bits are given as a word."""
    lows, highs = _edges(cuts(bits), bits)
    least, most = np.searchsorted(highs, words), np.searchsorted(lows, words, side="right")
    for i in np.flatnonzero(least != most):
        least[i] = _resolve(cuts, words[i], more, bits)
    return least


def _resolve(cuts: Cuts, word: Any, more: Bits, bits: int = 64) -> int:
    """Count the cuts below a uniform number that begins with this word, drawing more bits."""
    prefix = int(word)
    while True:
        bounds = cuts(bits)
        passed = sum(high <= prefix for _, high in bounds)
        if passed == sum(low <= prefix for low, _ in bounds):
            return passed
        prefix, bits = prefix << 64 | more.take(64), bits + 64


def _edges(bounds: list[Bounds], bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return word bounds: below the first surely below a cut, above the second surely not."""
    last = (1 << bits) - 1
    lows = np.array([min(low, last) for low, _ in bounds], np.uint64)
    return lows, np.array([min(high - 1, last) for _, high in bounds], np.uint64)


def _masses(costs: Sequence[Fraction], digits: int) -> list[Bounds]:
    """Return integer bounds of 2**digits exp(-cost)."""
    one = (1 << digits, 1 << digits)
    known = {cost: exp_bounds(cost, digits) if cost else one for cost in set(costs)}
    return [known[cost] for cost in costs]


def _words(shape: Any, source: Source) -> np.ndarray:
    """Draw random 64-bit words."""
    words = np.empty(shape, np.uint64)
    source.fill(words)
    return words


@dataclass(frozen=True)
class _Selection(Stated):
    """Base of selection mechanisms: scores in, index of the chosen candidate out."""

    sensitivity: int = field()
    epsilon: float
    candidates: int = field(kw_only=True)
    monotone: bool = field(default=False, kw_only=True)
    domain = "one integer score per candidate, below 2**62 in size"
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
        """Difference of two scores that changes their odds by a factor e."""
        return (1 if self.monotone else 2) * self.sensitivity / Fraction(self.epsilon)

    def run(self, value: Any, *, source: Source | None = None) -> int:
        """Choose one candidate, without charging a ledger.

        Parameters
        ----------
        value : object
            Integer scores, one per candidate, below 2**62 in size; high scores are preferred.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        int
            Index of the chosen candidate.
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
        """Return the distance of each score from the best one, in units of the scale."""
        best, scale = int(scores.max()), self.scale
        return [(best - score) / scale for score in scores.tolist()]

    def _name(self) -> str:
        raise NotImplementedError

    def _choose(self, scores: np.ndarray, trials: int, source: Source) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True)
class Exponential(_Selection):
    """Exponential mechanism: a candidate has probability proportional to exp(score / scale).

    High scores are preferred: give costs with a minus sign.

    Parameters
    ----------
    sensitivity : int
        Largest change of any one score by one unit, at least 1.
    epsilon : float
        Above 0.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".
    candidates : int
        Public number of candidates, from 1 to 2**31.
    monotone : bool, default=False
        Whether adding a unit never lowers a score, or never raises one. Then half the noise
        suffices; not for "replace".

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one unit under `relation`, with scale = 2
    sensitivity / epsilon: a score moves its weight by at most exp(epsilon / 2), and the sum of
    weights by no more [1]_. If monotone, all weights move the same way, so scale = sensitivity /
    epsilon. The probabilities are exact: a uniform number is compared with certified bounds of
    their cumulative sums. (Rejection sampling, with probability exp(-(best - score) / scale) for a
    random candidate, has the same distribution, but where most scores are poor it takes long, and
    its running time depends on the data.) Some texts write exp(-epsilon u / (2 du)) for a utility
    u; that sign fits a cost only.

    References
    ----------
    .. [1] McSherry, Talwar. "Mechanism Design via Differential Privacy". FOCS 2007, Theorem 6
       (privacy of the exponential mechanism). https://doi.org/10.1109/FOCS.2007.66

    Examples
    --------
    >>> teas = ["green", "black", "white"]
    >>> chosen = teas[Exponential(1, epsilon=2, candidates=3).run([12, 90, 31])]
    """

    def _name(self) -> str:
        return "exponential mechanism"

    def _choose(self, scores: np.ndarray, trials: int, source: Source) -> np.ndarray:
        return exp_choices(self._costs(scores), trials, source)


@dataclass(frozen=True)
class PermuteAndFlip(_Selection):
    """Permute-and-flip mechanism: selection with an expected score no worse than `Exponential`.

    Candidates are visited in random order; each is chosen with probability exp((score - best) /
    scale).

    Parameters
    ----------
    sensitivity : int
        Largest change of any one score by one unit, at least 1.
    epsilon : float
        Above 0.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".
    candidates : int
        Public number of candidates, from 1 to 2**31.
    monotone : bool, default=False
        Whether adding a unit never lowers a score, or never raises one. Then half the noise
        suffices; not for "replace".

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one unit under `relation`, with the scales of
    `Exponential`, and an expected score never below that of `Exponential` [1]_. The distribution is
    that of the highest score with exponential noise [2]_: a candidate wins if its noise exceeds a
    threshold that one unit moves by at most 2 sensitivities, or by one sensitivity if monotone. All
    coins are tossed and one of the heads is drawn uniformly: coins do not depend on the order, so
    the first head of a random order is a uniform one of the heads. The time is the same for poor
    scores.

    References
    ----------
    .. [1] McKenna, Sheldon. "Permute-and-Flip: A New Mechanism for Differentially Private
       Selection". NeurIPS 2020. https://arxiv.org/abs/2010.12603
    .. [2] Ding, Kifer, Saghaian, Steinke, Wang, Xiao, Zhang. "The Permute-and-Flip Mechanism is
       Identical to Report-Noisy-Max with Exponential Noise". 2021. https://arxiv.org/abs/2105.07260

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
            rows = count == heads_up
            drawn[rows] = uniform(int(heads_up), int(rows.sum()), source=source)
        return np.asarray(np.argmax(heads.cumsum(axis=1) > drawn[:, np.newaxis], axis=1))


@dataclass(frozen=True)
class ReportNoisyMax(_Selection):
    """Report-noisy-max mechanism: the candidate whose noisy score is highest, the first on ties.

    Parameters
    ----------
    sensitivity : int
        Largest change of any one score by one unit, at least 1.
    epsilon : float
        Above 0.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".
    candidates : int
        Public number of candidates, from 1 to 2**31.
    monotone : bool, default=False
        Whether adding a unit never lowers a score, or never raises one. Then half the noise
        suffices; not for "replace".
    noise : str, default="geometric"
        "geometric" (k >= 0 with probability proportional to exp(-k / scale), less noise for the
        same guarantee) or "laplace".

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one unit under `relation`, with epsilon = 2
    sensitivity / scale (sensitivity / scale if monotone), ties included. Proof: fix the noise of
    the other candidates. A candidate wins if its own is at least some integer t, which counts ties:
    an earlier rival must be exceeded by 1. One unit moves t by at most 2 sensitivities (monotone:
    by one). P(noise >= t) falls by at most exp(1 / scale) per step of t: by that for geometric
    noise and t >= 0, by less for Laplace noise near 0, whose tail is log-concave. For noise on a
    coarser grid than the scores this would be false. The continuous case, where ties have
    probability 0, is in [1]_.

    References
    ----------
    .. [1] Dwork, Roth. "The Algorithmic Foundations of Differential Privacy". Foundations and
       Trends in Theoretical Computer Science 9, 2014, Claim 3.9 (report noisy max).
       https://doi.org/10.1561/0400000042

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
        if self.noise == "geometric":
            noisy = geometric(self.scale, (trials, self.candidates), source)
        else:
            noisy = discrete_laplace(self.scale, (trials, self.candidates), source=source)
        return np.asarray(np.argmax(scores + noisy, axis=1))


def geometric(scale: Fraction, size: Any, source: Source) -> np.ndarray:
    """Draw k >= 0 with probability proportional to exp(-k / scale)."""
    drawn: np.ndarray = discrete_laplace(scale, size, source=source)
    # k and -1 - k become k: the masses exp(-k / s) and exp(-(k + 1) / s) keep their ratio.
    drawn ^= drawn >> 63
    return drawn
