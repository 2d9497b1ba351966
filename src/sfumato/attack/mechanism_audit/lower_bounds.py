"""Lower bounds on epsilon from counts of correct and incorrect guesses, with a stated confidence.

From independent trials, from one run with many canaries, or from pairs of a member and a non-member
of one model; and the smallest Gaussian privacy parameter mu that the counts allow.
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

COUNT = integer(1, 10**12)  # beyond, a rate could round to 1

DELTA = between(0, 1)


@dataclass(frozen=True, repr=False)
class LowerBound:
    """Lower bound on epsilon with its confidence.

    Parameters
    ----------
    epsilon : float
        The bound; 0 if nothing was shown.
    ceiling : float
        The largest bound that this number of trials can show, with every guess correct.
    confidence : float
        Probability with which the bound is valid.
    delta : float, default=0.0
        Delta at which both bounds are stated.

    Examples
    --------
    >>> LowerBound(epsilon=0.8586, ceiling=5.601, confidence=0.95)
    epsilon >= 0.8586 (confidence 0.95; at most 5.601 could show)
    """

    epsilon: float
    ceiling: float
    confidence: float
    delta: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Convert the bound to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter of the class.
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
    """Bound epsilon from below by the rates of a guess between two neighbours.

    Parameters
    ----------
    true_positives : int
        Runs on the first neighbour that were guessed to be of it.
    positives : int
        Runs on the first neighbour, at least 1.
    false_positives : int
        Runs on the second neighbour that were guessed to be of the first.
    negatives : int
        Runs on the second neighbour, at least 1.
    delta : float, default=0
        Delta of the mechanism, at least 0 and below 1.
    confidence : float, default=0.95
        Confidence of the bound, above 0 and below 1.

    Returns
    -------
    LowerBound
        The bound, and the largest bound that as many runs can show.

    Notes
    -----
    **Guarantee.** If the mechanism is (epsilon, delta)-differentially private and the guess was
    fixed before these trials, the result exceeds epsilon with probability at most 1 - confidence.

    An event S and its complement are both used, by P1(S) <= e^epsilon P0(S) + delta and P0(not S)
    <= e^epsilon P1(not S) + delta [1]_. Both need the same two one-sided Clopper-Pearson bounds
    [2]_, so each of these gets half of the error probability.

    References
    ----------
    .. [1] Kairouz, Oh, Viswanath. "The Composition Theorem for Differential Privacy". ICML 2015,
       Theorem 2.1 (privacy region of a test). https://arxiv.org/abs/1311.0776
    .. [2] Clopper, Pearson. "The use of confidence or fiducial limits illustrated in the case of
       the binomial". Biometrika 1934. https://doi.org/10.1093/biomet/26.4.404

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
    """The four counts of a guess, in the order given; ValueError if they are impossible."""
    positives = COUNT.check(owner, "positives", positives)
    negatives = COUNT.check(owner, "negatives", negatives)
    hits = integer(0, positives).check(owner, "true_positives", true_positives)
    alarms = integer(0, negatives).check(owner, "false_positives", false_positives)
    return hits, positives, alarms, negatives


def flawless(hits: int, positives: int, alarms: int, negatives: int) -> Counts:
    """The counts of as many runs with every guess correct."""
    return positives, positives, 0, negatives


def rate_bounds(
    true_positives: Any, positives: int, false_positives: Any, negatives: int, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Lower bound on the true- and upper bound on the false-positive rate, jointly valid."""
    from scipy.special import betaincinv

    hits, alarms = np.asarray(true_positives), np.asarray(false_positives)
    doubt = (1 - confidence) / 2
    least = betaincinv(np.maximum(hits, 1), positives - hits + 1, doubt)
    # The upper end is one minus the lower end of the other outcome: exact also near 0.
    passes = negatives - alarms
    greatest = 1 - betaincinv(np.maximum(passes, 1), alarms + 1, doubt)
    return np.where(hits == 0, 0.0, least), np.where(passes == 0, 1.0, greatest)


def count_epsilon(least: Any, greatest: Any, delta: float) -> np.ndarray:
    """Epsilon that rates beyond these bounds require, by the event or by its complement."""
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
    """Bound epsilon from below by guesses about many canaries in a single run.

    Parameters
    ----------
    correct : int
        Number of guesses (included or not) that were correct.
    guesses : int
        Number of guesses, at most `canaries`.
    canaries : int
        Number of canaries, including those without a guess, at least 1.
    delta : float, default=0
        Delta of the mechanism, at least 0 and below 1.
    confidence : float, default=0.95
        Confidence of the bound, above 0 and below 1.

    Returns
    -------
    LowerBound
        The bound, and the largest bound that as many guesses can show.

    Notes
    -----
    **Guarantee.** If the mechanism is (epsilon, delta)-differentially private under add/remove of
    one canary, each canary was included by its own fair coin, and the guesses depend on the output
    alone, the result exceeds epsilon with probability at most 1 - confidence.

    References
    ----------
    .. [1] Steinke, Nasr, Jagielski. "Privacy Auditing with One (1) Training Run". NeurIPS 2023,
       Theorem 5.2 (tail bound of correct guesses), in the form of Corollary 5.4.
       https://arxiv.org/abs/2305.08846

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


def tail_probability(
    correct: int, guesses: int, canaries: int, delta: float, epsilon: float
) -> float:
    """Upper bound on P(at least `correct` guesses are correct) under (epsilon, delta)."""
    from scipy.special import bdtrc, expit

    accuracy = float(expit(epsilon))  # e^epsilon / (1 + e^epsilon): randomized response's
    tail = float(bdtrc(correct - 1, guesses, accuracy)) if correct else 1.0
    if delta == 0 or tail >= 1:
        return min(tail, 1.0)
    # Delta can move the densest range of outcomes just below `correct` above it.
    below = np.arange(correct - 1, -1, -1)
    stretch = np.cumsum(_binomial(below, guesses, accuracy))
    densest = (stretch / np.arange(1, correct + 1)).max(initial=0.0)
    return min(tail + 2 * canaries * delta * float(densest), 1.0)


def _binomial(k: Any, n: int, p: float) -> np.ndarray:
    """Binomial probabilities of k among n by logarithms, in a third of the time of scipy.stats."""
    from scipy.special import gammaln, xlog1py, xlogy

    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    mass: np.ndarray = np.exp(choose + xlogy(k, p) + xlog1py(n - k, -p))
    return mass


def _first_allowed(correct: int, guesses: int, canaries: int, delta: float, doubt: float) -> float:
    """Upper end of the refuted epsilons from 0 on, by bisection, rounded down."""

    def refuted(epsilon: float) -> bool:
        return tail_probability(correct, guesses, canaries, delta, epsilon) < doubt

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


GAUSSIAN_DELTA: between
EPSILON, GAUSSIAN_DELTA = between(0, math.inf), fraction
# Beyond this sigma a discrete Gaussian differs from the continuous one by 1 / (24 sigma**2) of mu,
# which more than 1e9 trials would be needed to detect.
SMOOTH = 50


@dataclass(frozen=True, repr=False)
class GaussianFit:
    """Lower bound on mu of Gaussian differential privacy, with its privacy curve.

    Returned by `gaussian_fit`.

    Parameters
    ----------
    mu : float
        The bound: with this confidence the mechanism is m-GDP for no smaller m.
    ceiling : float
        The largest bound that this number of trials can show.
    confidence : float
        Probability with which the bound is valid.

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
        """Compute the delta of this mu at an epsilon.

        Parameters
        ----------
        epsilon : float
            Epsilon, at least 0.

        Returns
        -------
        float
            Smallest delta for which a mu-GDP mechanism is (epsilon, delta)-differentially private.

        References
        ----------
        .. [1] Dong, Roth, Su. "Gaussian Differential Privacy". JRSS B 2022, Corollary 2.13 (delta
           of mu-GDP). https://arxiv.org/abs/1905.02383
        """
        from scipy.special import log_ndtr

        epsilon = EPSILON.check("GaussianFit", "epsilon", epsilon)
        if self.mu == 0:
            return 0.0
        centre, half = epsilon / self.mu, self.mu / 2
        ratio = epsilon + float(log_ndtr(-centre - half) - log_ndtr(half - centre))
        return math.exp(float(log_ndtr(half - centre))) * -math.expm1(min(ratio, 0.0))

    def epsilon(self, delta: float) -> float:
        """Compute the epsilon of this mu at a delta.

        Parameters
        ----------
        delta : float
            Delta, above 0 and below 1.

        Returns
        -------
        float
            Epsilon at this delta, rounded down.
        """
        delta = GAUSSIAN_DELTA.check("GaussianFit", "delta", delta)
        if self.delta(0) <= delta:
            return 0.0
        top = 1.0
        while self.delta(top) > delta:
            top *= 2
        return _last(lambda epsilon: self.delta(epsilon) > delta, 0.0, top)

    def to_dict(self) -> dict[str, Any]:
        """Convert the fit to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter of the class.
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
    """Bound mu of Gaussian differential privacy from below by the rates of a guess.

    Parameters
    ----------
    true_positives : int
        Runs on the first neighbour that were guessed to be of it.
    positives : int
        Runs on the first neighbour, at least 1.
    false_positives : int
        Runs on the second neighbour that were guessed to be of the first.
    negatives : int
        Runs on the second neighbour, at least 1.
    confidence : float, default=0.95
        Confidence of the bound, above 0 and below 1.

    Returns
    -------
    GaussianFit
        The bound on mu, with `epsilon(delta)` and `delta(epsilon)` of its curve.

    Notes
    -----
    **Guarantee.** If the mechanism is mu-GDP and the guess was fixed before these trials, the
    result exceeds mu with probability at most 1 - confidence. Its curve is a lower bound on the
    mechanism's own curve only if the mechanism is Gaussian; for others use `epsilon_lower_bound`.

    A mu-GDP mechanism allows no test with quantile(1 - false positives) - quantile(false negatives)
    above mu [1]_. The rates are replaced by their Clopper-Pearson bounds.

    References
    ----------
    .. [1] Dong, Roth, Su. "Gaussian Differential Privacy". JRSS B 2022, Definition 2.6 (mu-GDP as a
       trade-off function). https://arxiv.org/abs/1905.02383

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
    """Distance of two unit normals that rates beyond these bounds require."""
    from scipy.special import ndtri

    distance: np.ndarray = np.maximum(ndtri(least) - ndtri(greatest), 0.0)
    return np.where(least > greatest, distance, 0.0)


def noise_epsilon(noise: GaussianNoise, least: float, greatest: float, delta: float) -> float:
    """Epsilon at delta of the smallest discrete Gaussian noise that these rates refute.

    It exceeds that of the claimed noise only if the rates refute the claim: by the Neyman-Pearson
    lemma no test of a discrete Gaussian against its shift beats a threshold on the sum of the
    cells.
    """
    from sfumato.privacy.accounting.calibration import gaussian_epsilon

    mu = float(separation(least, greatest))
    if mu == 0:
        return 0.0
    near = math.sqrt(noise.cells) * noise.change / mu
    sigma = _last(lambda sigma: _power(noise, sigma, greatest) < least, 4 * near, near / 4)
    largest, claimed = (
        gaussian_epsilon(delta, variance, change=noise.change, cells=noise.cells)
        for variance in (Fraction(sigma) ** 2, noise.variance)
    )
    # On a lattice a little more noise can cost a little more: compare with the claim itself.
    refuted = _power(noise, math.sqrt(noise.variance), greatest) < least
    return max(largest, math.nextafter(claimed, math.inf)) if refuted else min(largest, claimed)


def _power(noise: GaussianNoise, sigma: float, level: float) -> float:
    """Highest true-positive rate against noise of this sigma, at this false-positive rate."""
    from scipy.special import ndtr, ndtri

    shift = noise.change * noise.cells
    if sigma > SMOOTH:
        return float(ndtr(ndtri(level) + shift / (sigma * math.sqrt(noise.cells))))
    mass = _summed(sigma, noise.cells, shift)
    # The larger a sum, the larger its likelihood ratio: positives are taken from the top.
    alarms = np.concatenate([[0.0], np.cumsum(mass[::-1])])
    hits = np.concatenate([[0.0], np.cumsum(np.roll(mass, shift)[::-1])])
    return float(np.interp(level, alarms, hits))


def _summed(sigma: float, cells: int, shift: int) -> np.ndarray:
    """Probabilities of the centred sum of all cells' noise, with room for the shift."""
    half_width = math.ceil(12 * sigma * (1 + math.sqrt(cells))) + shift
    points = np.arange(-half_width, half_width + 1)
    one = np.exp(-((points / sigma) ** 2) / 2)
    one /= one.sum()
    if cells == 1:
        return one
    turned = np.fft.rfft(np.fft.ifftshift(one)) ** cells
    return np.fft.fftshift(np.maximum(np.fft.irfft(turned, one.size), 0.0))


def _last(condition: Any, inside: float, outside: float) -> float:
    """Last point at which the condition is true, by bisection from `inside`, where it is."""
    for _ in range(50):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if condition(middle) else (inside, middle)
    return inside


FRACTIONS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of pairs, the clearest, for which a guess is made
Scores = tuple[np.ndarray, np.ndarray]  # of members and of others, each in random order


def pairs_lower_bound(
    learned_on: Scores, measured_on: Scores, delta: float, confidence: float
) -> LowerBound:
    """Lower bound on epsilon for replacing one rating, from one trained model.

    Guarantee: if the split was random, the other rows took no part in training, and the score
    depends on the model and on rows other than the measured ones, the result exceeds the true
    epsilon with probability at most 1 - confidence.

    A random member and a random non-member form a pair. Which of the two is the member is then a
    fair coin, independent of the other pairs, and flipping it replaces one rating by another. So
    the theorem for one run with many canaries applies, which needs no independent models. The bound
    of independent trials (`epsilon_lower_bound`) would not be valid, since all guesses come from
    one model. The fraction of clearest pairs to guess is chosen on the first half.
    """
    shown = [_bound(learned_on, portion, delta, confidence) for portion in FRACTIONS]
    best = max(range(len(FRACTIONS)), key=lambda at: shown[at].epsilon)
    return _bound(measured_on, FRACTIONS[best], delta, confidence)


def _bound(scores: Scores, portion: float, delta: float, confidence: float) -> LowerBound:
    """One-run bound from the clearest fraction of the pairs."""
    pairs = min(side.size for side in scores)
    gaps = scores[0][:pairs] - scores[1][:pairs]
    clear = np.argsort(-np.abs(gaps), kind="stable")[: max(int(portion * pairs), 1)]
    guessed = gaps[clear][gaps[clear] != 0]  # no guess where both scores are equal
    if not guessed.size:
        return LowerBound(0.0, 0.0, confidence, delta)
    right = int((guessed > 0).sum())
    return one_run_lower_bound(right, guessed.size, pairs, delta, confidence)
