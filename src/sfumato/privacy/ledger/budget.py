"""Budgets: what the charges compose to, whether one more fits, and what remains."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import BudgetExceeded
from sfumato.privacy.accounting import composition
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.rounding import round_up

__all__ = ["BudgetExceeded", "Cost", "DataSet", "Spending", "alone", "total_cost"]

# Ten times the float 0.1 is above 1. So the charge that uses up a budget may exceed it by a part in
# 10**12; then nothing more is charged.
SLACK = 1 + 1e-12


@dataclass(frozen=True)
class Cost:
    """An (epsilon, delta) pair: what was spent, or what remains.

    Parameters
    ----------
    epsilon : float
        Epsilon, at least 0.
    delta : float
        Delta, from 0 to below 1.

    Examples
    --------
    >>> Cost(0.25, 0.0).epsilon
    0.25
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class DataSet:
    """Data set of a ledger: its budget, its unit and adjacency, and its parent.

    Parameters
    ----------
    name : str
        Name of the data set.
    epsilon : float
        Epsilon of the budget, above 0.
    delta : float
        Delta of the budget, from 0 to below 1; with 0 only pure losses fit.
    unit : str
        Unit of privacy, as "event" or "user".
    relation : str
        Adjacency: "add/remove" or "replace".
    parent : str or None
        Data set of which this one is a split, whose budget is charged too.

    Examples
    --------
    >>> DataSet("views", 1.0, 0.0, "event", "add/remove", None).unit
    'event'
    """

    name: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    parent: str | None


@dataclass(frozen=True)
class Spending:
    """Composition of all charges of a data set, carried from charge to charge.

    epsilon: at the delta of the budget, within one percent of the exact composition, never below
    it, and never lower than before; pure: the exact sum of the pure epsilons, None if a loss has
    none.
    """

    epsilon: float = 0.0
    pure: Fraction | None = Fraction(0)

    @property
    def pure_epsilon(self) -> float:
        """Sum of the pure epsilons, rounded up; infinite where a loss has none."""
        return math.inf if self.pure is None else round_up(self.pure)

    def cost(self, budget: DataSet) -> Cost:
        """Return what is spent; delta is 0 where the sum of pure epsilons is no more."""
        delta = 0.0 if self.pure_epsilon <= self.epsilon else budget.delta
        return Cost(self.epsilon, delta)

    def left(self, budget: DataSet) -> Cost:
        """Return what remains: a pure loss of this epsilon fits, as it adds no more than itself."""
        exact = Fraction(budget.epsilon) - Fraction(self.epsilon)
        return Cost(max(0.0, -round_up(-exact)), budget.delta)

    def fits(self, budget: DataSet, before: "Spending") -> bool:
        """Return whether the spending stays within the budget, given what was spent before."""
        slack = SLACK if before.epsilon < budget.epsilon else 1
        return self.epsilon <= budget.epsilon * slack

    def with_loss(self, loss: Loss, tight: float = math.inf) -> "Spending":
        """Return the spending after one more loss.

        tight: the composition of all at the budget's delta. Basic composition with a pure loss, and
        the plain sum, are valid as well. The sum is used where a distribution is less than a part
        in a thousand better, as it needs no delta.
        """
        one = Fraction(loss.epsilon) if loss.epsilon < math.inf else None
        pure = None if one is None or self.pure is None else self.pure + one
        best = math.inf if pure is None else round_up(pure)
        if tight < 0.999 * best:
            added = math.inf if one is None else round_up(Fraction(self.epsilon) + one)
            best = min(tight, added)
        return Spending(max(self.epsilon, best), pure)

    def to_text(self) -> tuple[float, str]:
        """Return epsilon and the pure sum as they are stored."""
        return self.epsilon, "none" if self.pure is None else str(self.pure)

    @classmethod
    def from_text(cls, epsilon: float, pure: str) -> "Spending":
        """Read what `to_text` wrote."""
        return cls(epsilon, None if pure == "none" else Fraction(pure))


def total_cost(losses: Mapping[Loss, int], delta: float) -> Spending:
    """Compose losses from scratch, as tightly as the accountant does."""
    sums = [Fraction(loss.epsilon) * n for loss, n in losses.items() if loss.epsilon < math.inf]
    pure = sum(sums, Fraction(0)) if len(sums) == len(losses) else None
    epsilon = composition.epsilon_at(losses, delta, "pld")
    best = math.inf if pure is None else round_up(pure)
    return Spending(best if epsilon >= 0.999 * best else epsilon, pure)


def alone(loss: Loss, budget: DataSet) -> Cost:
    """Return the cost of one loss by itself, at the budget's delta if it is not pure."""
    if loss.epsilon < math.inf:
        return Cost(loss.epsilon, 0.0)
    return Cost(composition.epsilon_at({loss: 1}, budget.delta, "pld"), budget.delta)
