"""What a budget allows: what its charges compose to, whether one more fits, and what is left."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import BudgetExceeded
from sfumato.privacy.accounting import composition
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.rounding import round_up

__all__ = ["BudgetExceeded", "Cost", "DataSet", "Spending", "alone", "whole_cost"]

# Ten times 0.1 is above 1 in floats; a part in 10**12 of a budget is taken for such rounding.
SLACK = 1 + 1e-12


@dataclass(frozen=True)
class Cost:
    """An epsilon and a delta, of what is spent or of what is left.

    Parameters
    ----------
    epsilon : float
        TODO.
    delta : float
        TODO.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class DataSet:
    """A data set of a ledger: its budget, whose presence it hides, and what it is a part of.

    Parameters
    ----------
    name : str
        TODO.
    epsilon : float
        TODO.
    delta : float
        TODO.
    unit : str
        TODO.
    relation : str
        TODO.
    parent : str or None
        TODO.
    """

    name: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    parent: str | None


@dataclass(frozen=True)
class Spending:
    """What all charges of a data set compose to, carried from charge to charge.

    epsilon: at the delta of the budget, within one percent of the exact composition, never below
    it, and never lower than before; pure: the exact sum of the pure epsilons, None if a loss has
    none.
    """

    epsilon: float = 0.0
    pure: Fraction | None = Fraction(0)

    @property
    def pure_epsilon(self) -> float:
        """The sum, rounded up."""
        return math.inf if self.pure is None else round_up(self.pure)

    def cost(self, budget: DataSet) -> Cost:
        """What is spent: with delta 0 where the sum of pure epsilons is no more than that."""
        delta = 0.0 if self.pure_epsilon <= self.epsilon else budget.delta
        return Cost(self.epsilon, delta)

    def left(self, budget: DataSet) -> Cost:
        """A pure loss of this epsilon fits for certain, as it adds no more than itself."""
        exact = Fraction(budget.epsilon) - Fraction(self.epsilon)
        return Cost(max(0.0, -round_up(-exact)), budget.delta)

    def fits(self, budget: DataSet) -> bool:
        """Whether it stays in the budget."""
        return self.epsilon <= budget.epsilon * SLACK

    def with_loss(self, loss: Loss, tight: float = math.inf) -> "Spending":
        """After one more; tight, what all of it composes to at the delta of the budget.

        Basic composition with a pure loss, and the plain sum, hold as well. The sum stands where a
        distribution is less than a part in a thousand better, as it needs no delta.
        """
        one = Fraction(loss.epsilon) if loss.epsilon < math.inf else None
        pure = None if one is None or self.pure is None else self.pure + one
        best = math.inf if pure is None else round_up(pure)
        if tight < 0.999 * best:
            added = math.inf if one is None else round_up(Fraction(self.epsilon) + one)
            best = min(tight, added)
        return Spending(max(self.epsilon, best), pure)

    def to_text(self) -> tuple[float, str]:
        """As it is stored."""
        return self.epsilon, "none" if self.pure is None else str(self.pure)

    @classmethod
    def from_text(cls, epsilon: float, pure: str) -> "Spending":
        """What `to_text` wrote."""
        return cls(epsilon, None if pure == "none" else Fraction(pure))


def whole_cost(losses: Mapping[Loss, int], delta: float) -> Spending:
    """The composition of losses from nothing, as tight as the accountant has it."""
    sums = [Fraction(loss.epsilon) * n for loss, n in losses.items() if loss.epsilon < math.inf]
    pure = sum(sums, Fraction(0)) if len(sums) == len(losses) else None
    epsilon = composition.epsilon_at(losses, delta, "pld")
    best = math.inf if pure is None else round_up(pure)
    return Spending(best if epsilon >= 0.999 * best else epsilon, pure)


def alone(loss: Loss, budget: DataSet) -> Cost:
    """What one loss costs by itself, at the budget's delta if it has no pure epsilon."""
    if loss.epsilon < math.inf:
        return Cost(loss.epsilon, 0.0)
    return Cost(composition.epsilon_at({loss: 1}, budget.delta, "pld"), budget.delta)
