"""Lower bounds on epsilon from counts of right and wrong guesses, with a stated confidence.

A lower bound on epsilon from a single run with many canaries, each in it by a fair coin. The least
Gaussian privacy loss that counts of guesses leave possible, with its whole curve. The epsilon that
one model refutes, by guesses about pairs of a member and another.
"""

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.core.validation import between, fraction, integer
from sfumato.privacy.accounting.losses import GaussianNoise

__all__ = [
    "GaussianFit",
    "LowerBound",
    "checked_counts",
    "count_epsilon",
    "epsilon_lower_bound",
    "flawless",
    "gaussian_fit",
    "noise_epsilon",
    "one_run_lower_bound",
    "pairs_lower_bound",
    "rate_bounds",
]

COUNT = integer(1, 10**12)  # beyond, floats could not tell a rate from 1

DELTA = between(0, 1)


@dataclass(frozen=True, repr=False)
class LowerBound:
    """What was measured: with this confidence no smaller epsilon is true.

    epsilon: the bound, 0 where nothing was shown; ceiling: the most that as many trials could have
    shown, had every guess been right; delta: at which both hold.

    Parameters
    ----------
    epsilon : float
        TODO.
    ceiling : float
        TODO.
    confidence : float
        TODO.
    delta : float, default=0.0
        TODO.
    """

    epsilon: float
    ceiling: float
    confidence: float
    delta: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The bound as plain JSON values.

        Returns
        -------
        dict
            The bound as plain JSON values.
        """
        return asdict(self)

    def __repr__(self) -> str:
        at = f" at delta {self.delta:.3g}" if self.delta else ""
        sure = f"confidence {self.confidence:.10g}"
        return f"epsilon >= {self.epsilon:.4g}{at} ({sure}; at most {self.ceiling:.4g} could show)"


def epsilon_lower_bound(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float = 0,
    confidence: float = 0.95,
) -> LowerBound:
    """A lower bound on epsilon, from how often a guess about two neighbours was right.

    true_positives of `positives` runs on one neighbour were guessed to be of it, and so were
    false_positives of `negatives` runs on the other;

    Parameters
    ----------
    true_positives : int
        TODO.
    positives : int
        TODO.
    false_positives : int
        TODO.
    negatives : int
        TODO.
    delta : float, default=0
        From 0 below 1.
    confidence : float, default=0.95
        TODO.

    Returns
    -------
    LowerBound
        A lower bound on epsilon, from how often a guess about two neighbours was right.

    Notes
    -----
    **Guarantee.** Where the mechanism is (epsilon, delta)-private and the guess was fixed before
    these trials, the result exceeds epsilon with a chance of at most 1 - confidence.

    References
    ----------
    .. [1] An event S and its complement are both weighed, by P1(S) <= e^epsilon P0(S) + delta and
       P0(not S) <= e^epsilon P1(not S) + delta; both need the same two one-sided bounds of Clopper
       and Pearson 1934, so each gets half of the doubt (Kairouz, Oh and Viswanath 2015, theorem
       2.1).

    Examples
    --------
    >>> epsilon_lower_bound(731, 1000, 269, 1000)
    epsilon >= 0.8586 (confidence 0.95; at most 5.601 could show)
    """
    owner = "epsilon_lower_bound"
    counts = checked_counts(owner, true_positives, positives, false_positives, negatives)
    delta = DELTA.check(owner, "delta", delta)
    confidence = fraction.check(owner, "confidence", confidence)
    found, perfect = (
        float(count_epsilon(*rate_bounds(*each, confidence), delta))
        for each in (counts, flawless(*counts))
    )
    return LowerBound(found, perfect, confidence, delta)


Counts = tuple[int, int, int, int]


def checked_counts(
    owner: str, true_positives: int, positives: int, false_positives: int, negatives: int
) -> Counts:
    """The four counts of a guess, in the order given, refused where they are impossible."""
    positives = COUNT.check(owner, "positives", positives)
    negatives = COUNT.check(owner, "negatives", negatives)
    hits = integer(0, positives).check(owner, "true_positives", true_positives)
    alarms = integer(0, negatives).check(owner, "false_positives", false_positives)
    return hits, positives, alarms, negatives


def flawless(hits: int, positives: int, alarms: int, negatives: int) -> Counts:
    """The counts of as many runs, had every guess been right."""
    return positives, positives, 0, negatives


def rate_bounds(
    true_positives: Any, positives: int, false_positives: Any, negatives: int, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Least true positive and greatest false positive rates; both hold with this confidence."""
    from scipy.special import betaincinv

    hits, alarms = np.asarray(true_positives), np.asarray(false_positives)
    doubt = (1 - confidence) / 2
    least = betaincinv(np.maximum(hits, 1), positives - hits + 1, doubt)
    # The upper end is one minus the lower end of the other outcome: exact also near 0.
    passes = negatives - alarms
    greatest = 1 - betaincinv(np.maximum(passes, 1), alarms + 1, doubt)
    return np.where(hits == 0, 0.0, least), np.where(passes == 0, 1.0, greatest)


def count_epsilon(least: Any, greatest: Any, delta: float) -> np.ndarray:
    """The epsilon that rates beyond these bounds need, by the event or by its complement."""
    tiny = math.ulp(0.0)
    with np.errstate(divide="ignore"):
        event = np.log(np.maximum(least - delta, tiny) / greatest)
        complement = np.log(np.maximum(1 - greatest - delta, tiny) / (1 - least))
    shown: np.ndarray = np.maximum(np.maximum(event, complement), 0.0)
    return shown


PRECISION = 1e-9


def one_run_lower_bound(
    correct: int, guesses: int, canaries: int, delta: float = 0, confidence: float = 0.95
) -> LowerBound:
    """A lower bound on epsilon, from right guesses about which canaries took part in one run.

    correct of `guesses` in-or-out guesses were right;

    Parameters
    ----------
    correct : int
        TODO.
    guesses : int
        TODO.
    canaries : int
        All of them, also those that no guess was made about.
    delta : float, default=0
        From 0 below 1.
    confidence : float, default=0.95
        TODO.

    Returns
    -------
    LowerBound
        A lower bound on epsilon, from right guesses about which canaries took part in one run.

    Notes
    -----
    **Guarantee.** Where the mechanism is (epsilon, delta)-private under add/remove of one canary,
    each canary took part by its own fair coin, and the guesses follow from the output alone, the
    result exceeds epsilon with a chance of at most 1 - confidence.

    References
    ----------
    .. [1] Steinke, Nasr and Jagielski 2023, theorem 5.2 in the form of its corollary 5.4.

    Examples
    --------
    >>> one_run_lower_bound(correct=75, guesses=100, canaries=1000, delta=1e-5)
    epsilon >= 0.6995 at delta 1e-05 (confidence 0.95; at most 3.465 could show)
    """
    owner = "one_run_lower_bound"
    canaries = integer(1).check(owner, "canaries", canaries)
    guesses = integer(1, canaries).check(owner, "guesses", guesses)
    correct = integer(0, guesses).check(owner, "correct", correct)
    delta = DELTA.check(owner, "delta", delta)
    doubt = 1 - fraction.check(owner, "confidence", confidence)
    found = _first_allowed(correct, guesses, canaries, delta, doubt)
    perfect = _first_allowed(guesses, guesses, canaries, delta, doubt)
    return LowerBound(found, perfect, confidence, delta)


def chance(correct: int, guesses: int, canaries: int, delta: float, epsilon: float) -> float:
    """At most the chance of so many right guesses or more, under (epsilon, delta)."""
    from scipy.special import bdtrc, expit

    accuracy = float(expit(epsilon))  # e^epsilon / (1 + e^epsilon): randomised response's
    tail = float(bdtrc(correct - 1, guesses, accuracy)) if correct else 1.0
    if delta == 0 or tail >= 1:
        return min(tail, 1.0)
    # What delta buys: the densest stretch of outcomes just below, lifted over the line.
    below = np.arange(correct - 1, -1, -1)
    stretch = np.cumsum(_binomial(below, guesses, accuracy))
    densest = (stretch / np.arange(1, correct + 1)).max(initial=0.0)
    return min(tail + 2 * canaries * delta * float(densest), 1.0)


def _binomial(k: Any, n: int, p: float) -> np.ndarray:
    """The chance of k among n, by logarithms, in a third of the time of scipy.stats."""
    from scipy.special import gammaln, xlog1py, xlogy

    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    mass: np.ndarray = np.exp(choose + xlogy(k, p) + xlog1py(n - k, -p))
    return mass


def _first_allowed(correct: int, guesses: int, canaries: int, delta: float, doubt: float) -> float:
    """The end of the refuted epsilons from 0 on, by bisection, from below."""

    def refuted(epsilon: float) -> bool:
        return chance(correct, guesses, canaries, delta, epsilon) < doubt

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


EPSILON, GAUSSIAN_DELTA = between(0, math.inf), fraction
# Beyond this sigma a lattice law differs from the continuous one by 1 / (24 sigma**2) of mu, which
# it would take more than 1e9 trials to see.
SMOOTH = 50


@dataclass(frozen=True, repr=False)
class GaussianFit:
    """The mu of Gaussian differential privacy that was certified, and its whole curve.

    mu: with this confidence the mechanism is m-GDP for no smaller m; ceiling: the most that as many
    trials could have shown.

    Parameters
    ----------
    mu : float
        TODO.
    ceiling : float
        TODO.
    confidence : float
        TODO.

    Examples
    --------
    >>> fit = gaussian_fit(5517, 10_000, 4483, 10_000)
    >>> round(fit.epsilon(1e-5), 3)
    0.767
    """

    mu: float
    ceiling: float
    confidence: float

    def delta(self, epsilon: float) -> float:
        """The delta of this mu at an epsilon: Dong, Roth and Su 2022, corollary 2.13.

        Parameters
        ----------
        epsilon : float
            TODO.

        Returns
        -------
        float
            The delta of this mu at an epsilon: Dong, Roth and Su 2022, corollary 2.13.
        """
        from scipy.special import log_ndtr

        epsilon = EPSILON.check("GaussianFit", "epsilon", epsilon)
        if self.mu == 0:
            return 0.0
        centre, half = epsilon / self.mu, self.mu / 2
        ratio = epsilon + float(log_ndtr(-centre - half) - log_ndtr(half - centre))
        return math.exp(float(log_ndtr(half - centre))) * -math.expm1(min(ratio, 0.0))

    def epsilon(self, delta: float) -> float:
        """The epsilon of this mu at a delta, from below.

        Parameters
        ----------
        delta : float
            TODO.

        Returns
        -------
        float
            The epsilon of this mu at a delta, from below.
        """
        delta = GAUSSIAN_DELTA.check("GaussianFit", "delta", delta)
        if self.delta(0) <= delta:
            return 0.0
        top = 1.0
        while self.delta(top) > delta:
            top *= 2
        return _last(lambda epsilon: self.delta(epsilon) > delta, 0.0, top)

    def to_dict(self) -> dict[str, Any]:
        """The fit as plain JSON values.

        Returns
        -------
        dict
            The fit as plain JSON values.
        """
        return asdict(self)

    def __repr__(self) -> str:
        sure = f"confidence {self.confidence:.10g}"
        return f"mu >= {self.mu:.4g} ({sure}; at most {self.ceiling:.4g} could show)"


def gaussian_fit(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    confidence: float = 0.95,
) -> GaussianFit:
    """The mu of Gaussian differential privacy that a guess about two neighbours certifies.

    as of `epsilon_lower_bound`.

    Parameters
    ----------
    true_positives : int
        TODO.
    positives : int
        TODO.
    false_positives : int
        TODO.
    negatives : int
        TODO.
    confidence : float, default=0.95
        TODO.

    Returns
    -------
    GaussianFit
        The mu of Gaussian differential privacy that a guess about two neighbours certifies.

    Notes
    -----
    **Guarantee.** Where the mechanism is mu-GDP and the guess was fixed before these trials, the
    result exceeds mu with a chance of at most 1 - confidence. Its curve is a lower bound of the
    mechanism's own only where that is Gaussian; elsewhere `epsilon_lower_bound` is what holds.

    References
    ----------
    .. [1] A mu-GDP mechanism allows no test with quantile(1 - false positives) - quantile(false
       negatives) above mu: Dong, Roth and Su 2022, definition 2.6, on the ends of Clopper and
       Pearson.

    Examples
    --------
    >>> gaussian_fit(5517, 10_000, 4483, 10_000)
    mu >= 0.2104 (confidence 0.95; at most 6.75 could show)
    """
    owner = "gaussian_fit"
    counts = checked_counts(owner, true_positives, positives, false_positives, negatives)
    confidence = fraction.check(owner, "confidence", confidence)
    found, perfect = (
        float(separation(*rate_bounds(*each, confidence))) for each in (counts, flawless(*counts))
    )
    return GaussianFit(found, perfect, confidence)


def separation(least: Any, greatest: Any) -> np.ndarray:
    """The distance of two unit normals that rates beyond these bounds need."""
    from scipy.special import ndtri

    apart: np.ndarray = np.maximum(ndtri(least) - ndtri(greatest), 0.0)
    return np.where(least > greatest, apart, 0.0)


def noise_epsilon(noise: GaussianNoise, least: float, greatest: float, delta: float) -> float:
    """The epsilon at delta of the narrowest discrete Gaussian noise that these rates refute.

    It exceeds that of the noise which is claimed only if the rates refute the claim: by Neyman and
    Pearson no test of a lattice law against its shift beats a threshold on the sum of the cells.
    """
    from sfumato.privacy.accounting.calibration import gaussian_epsilon

    mu = float(separation(least, greatest))
    if mu == 0:
        return 0.0
    near = math.sqrt(noise.cells) * noise.change / mu
    sigma = _last(lambda sigma: _power(noise, sigma, greatest) < least, 4 * near, near / 4)
    told, claim = (
        gaussian_epsilon(delta, variance, change=noise.change, cells=noise.cells)
        for variance in (Fraction(sigma) ** 2, noise.variance)
    )
    # On a lattice a little more noise can cost a little more: the claim itself has the last word.
    refuted = _power(noise, math.sqrt(noise.variance), greatest) < least
    return max(told, math.nextafter(claim, math.inf)) if refuted else min(told, claim)


def _power(noise: GaussianNoise, sigma: float, level: float) -> float:
    """The best true positive rate against noise of this sigma, at this false positive rate."""
    from scipy.special import ndtr, ndtri

    shift = noise.change * noise.cells
    if sigma > SMOOTH:
        return float(ndtr(ndtri(level) + shift / (sigma * math.sqrt(noise.cells))))
    mass = _summed(sigma, noise.cells, shift)
    # The larger a sum is, the likelier after the shift, and the sooner it is called a positive.
    alarms = np.concatenate([[0.0], np.cumsum(mass[::-1])])
    hits = np.concatenate([[0.0], np.cumsum(np.roll(mass, shift)[::-1])])
    return float(np.interp(level, alarms, hits))


def _summed(sigma: float, cells: int, shift: int) -> np.ndarray:
    """The mass of the sum of so many noises, centred, with room on both sides for the shift."""
    reach = math.ceil(12 * sigma * (1 + math.sqrt(cells))) + shift
    points = np.arange(-reach, reach + 1)
    one = np.exp(-((points / sigma) ** 2) / 2)
    one /= one.sum()
    if cells == 1:
        return one
    turned = np.fft.rfft(np.fft.ifftshift(one)) ** cells
    return np.fft.fftshift(np.maximum(np.fft.irfft(turned, one.size), 0.0))


def _last(holds: Any, inside: float, outside: float) -> float:
    """The last point for which it holds, by bisection from `inside`, where it does."""
    for _ in range(50):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside


SHARES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of pairs about which a guess is made: the clearest ones
Scores = tuple[np.ndarray, np.ndarray]  # of members and of others, each in random order


def pairs_lower_bound(
    learned_on: Scores, measured_on: Scores, delta: float, confidence: float
) -> LowerBound:
    """A lower bound on epsilon for replacing one rating, from one trained model.

    Guarantee: where the split was at random, the other rows took no part in training, and the score
    follows from the model and from rows other than the measured ones, the result exceeds the true
    epsilon with a chance of at most 1 - confidence.

    A random member and a random other make a pair; which of the two was learned from is then a fair
    coin, independent of those of the other pairs, and turning it replaces one rating by another.
    So the theorem for one run with many canaries holds, which needs no independent models; the
    bound of independent trials (`epsilon_lower_bound`) would not hold, since all guesses come from
    one model. How many of the clearest pairs to guess about is chosen on the first half.
    """
    shown = [_bound(learned_on, share, delta, confidence) for share in SHARES]
    best = max(range(len(SHARES)), key=lambda at: shown[at].epsilon)
    return _bound(measured_on, SHARES[best], delta, confidence)


def _bound(scores: Scores, share: float, delta: float, confidence: float) -> LowerBound:
    pairs = min(side.size for side in scores)
    gaps = scores[0][:pairs] - scores[1][:pairs]
    clear = np.argsort(-np.abs(gaps), kind="stable")[: max(int(share * pairs), 1)]
    guessed = gaps[clear][gaps[clear] != 0]  # no guess where both score alike
    if not guessed.size:
        return LowerBound(0.0, 0.0, confidence, delta)
    right = int((guessed > 0).sum())
    return one_run_lower_bound(right, guessed.size, pairs, delta, confidence)
