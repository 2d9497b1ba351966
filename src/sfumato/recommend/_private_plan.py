"""What a private factorization may spend, on what, and by which public rule; no data comes here.

Why one loss describes all steps. Discrete Gaussian noise of variance v on whole numbers is what
rounding at random makes of continuous noise of variance v - SMOOTH, but for a factor on every
likelihood: by Poisson summation it differs from 1 by at most 1e-120 for up to 2**40 numbers, as
exp(-2 pi**2 16) is below 1e-137 (Peikert 2010, theorem 3.1). Continuous steps whose questions
depend on earlier answers, but whose ratios of sensitivity to deviation were fixed beforehand, are
together one number with noise whose squared ratio is the sum of theirs (Dong, Roth and Su 2022,
corollary 3.3). That number in turn is, but for such a factor, what adding continuous noise of
variance SMOOTH makes of discrete noise of variance V, at least SMOOTH, on a number moved by SCALE.
So `GaussianNoise(V, SCALE)` is at least the cost of all steps where the sum of D_k**2 / (v_k -
SMOOTH) is at most SCALE**2 / (V + SMOOTH). The factors vanish in the upward rounding of the
accountant, which is relative 1e-9, for every delta from 1e-100 up.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.privacy.calibrate import gaussian_sigma
from sfumato.privacy.loss import GaussianNoise

__all__ = ["STEPS", "Budget", "Rule"]

SMOOTH = 32
SCALE = 2**14  # how finely the one number stands for all steps
STEPS = 8  # item and user in turn
FIRST = Fraction(1, 200)  # of the budget: how many ratings there are, and their mean

ENOUGH = 60.0  # ratings of a typical entity, weighed by the budget, from which factors are tried
PER_ROOT = 0.4  # components for the root of that
COMPONENTS = (3, 16)


@dataclass(frozen=True)
class Budget:
    """A whole budget, and the deviation of the noise that a share of it buys.

    Guarantee: steps whose shares sum to at most 1, each with noise of `sigma(norm_squared, share)`
    on whole numbers that one unit moves by at most the root of norm_squared, cost at most `loss`.

    >>> half = Budget.of(8, 1e-6).sigma(100**2, Fraction(1, 2))
    >>> 90 < half < 95  # 100 * 0.653 * sqrt(2)
    True
    """

    loss: GaussianNoise

    @classmethod
    def of(cls, epsilon: float, delta: float) -> "Budget":
        """The largest budget that keeps epsilon and delta, for neighbours by adding or removing."""
        sigma = gaussian_sigma(epsilon, delta, change=SCALE)
        return cls(GaussianNoise(max(sigma**2, Fraction(SMOOTH)), SCALE))

    @property
    def precision(self) -> float:
        """The sum of squared ratios of sensitivity to deviation."""
        return float(SCALE**2 / (self.loss.variance + SMOOTH))

    def sigma(self, norm_squared: int, share: Fraction) -> int:
        """The deviation, a whole number, never too low."""
        all_of_it = norm_squared * (self.loss.variance + SMOOTH) / SCALE**2
        return math.isqrt(math.ceil(all_of_it / share) + SMOOTH) + 1


@dataclass(frozen=True)
class Rule:
    """How many components to look for; 0 where means alone should have the whole budget.

    Chosen on MovieLens-100K and on generated worlds, by nothing of the data that is to be hidden:
    from the budget, the public numbers of users and items, and a noisy number of ratings.

    >>> Rule.of(2.3, 6040, 3706, 800_000).components
    8
    >>> Rule.of(0.06, 6040, 3706, 800_000).components
    0
    """

    components: int

    @classmethod
    def of(
        cls, precision: float, users: int, items: int, ratings: float, factors: int | None = None
    ) -> "Rule":
        """The rule, or the number of components that was asked for."""
        if factors is not None:
            return cls(factors - 1)
        worth = precision * 2 * max(ratings, 0.0) / (users + items)
        if worth < ENOUGH:
            return cls(0)
        low, high = COMPONENTS
        return cls(min(max(round(PER_ROOT * math.sqrt(worth)), low), high))
