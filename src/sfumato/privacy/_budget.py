"""What a budget allows: whether one more loss fits, what is spent, and what is left."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.privacy import _compose
from sfumato.privacy._upward import round_up
from sfumato.privacy.loss import Loss

__all__ = ["BudgetExceeded", "Cost", "DataSet", "alone", "fits", "left", "spent"]

# Ten times 0.1 is above 1 in floats; a part in 10**12 of a budget is taken for such rounding.
SLACK = 1 + 1e-12


@dataclass(frozen=True)
class Cost:
    """An epsilon and a delta, of what is spent or of what is left."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class DataSet:
    """A data set of a ledger: its budget, whose presence it hides, and what it is a part of."""

    name: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    parent: str | None


class BudgetExceeded(ValueError):  # noqa: N818 - what a caller reads is that it is exceeded
    """A release costs more than is left; nothing was charged and nothing released.

    dataset, whose budget it is; remaining, the Cost that is left of it; budget, all of it; cost, of
    the release by itself.
    """

    def __init__(self, dataset: str, remaining: Cost, budget: Cost, cost: Cost) -> None:
        super().__init__(dataset, remaining, budget, cost)
        self.dataset, self.remaining, self.budget, self.cost = dataset, remaining, budget, cost

    def __str__(self) -> str:
        pure = "" if self.budget.delta else " and takes pure losses only"
        at = f" at delta {self.budget.delta:g}" if self.budget.delta else ""
        return (
            f"Ledger: {self.dataset!r} has epsilon {self.remaining.epsilon:.6g} left of "
            f"{self.budget.epsilon:g}{at}{pure}; this costs {self.cost.epsilon:.6g}. "
            "Nothing was charged."
        )


def fits(losses: Mapping[Loss, int], budget: DataSet) -> bool:
    """Whether all of it together stays in the budget, by the quickest proof that there is."""
    epsilon = budget.epsilon * SLACK
    if _compose.pure_sum(losses) <= epsilon:
        return True
    return budget.delta > 0 and any(
        _compose.delta_at(losses, epsilon, method) <= budget.delta
        for method in reversed(_compose.METHODS)
    )


def spent(losses: Mapping[Loss, int], budget: DataSet) -> Cost:
    """The sum and 0 if all is pure and that fits, else the least epsilon at the budget's delta."""
    pure = _compose.pure_sum(losses)
    if pure <= budget.epsilon * SLACK:
        return Cost(pure, 0.0)
    epsilon = _compose.epsilon_at(losses, budget.delta, "pld")
    return Cost(min(epsilon, budget.epsilon), budget.delta)


def alone(loss: Loss, budget: DataSet) -> Cost:
    """What one loss costs by itself, at the budget's delta if it has no pure epsilon."""
    if loss.epsilon < math.inf:
        return Cost(loss.epsilon, 0.0)
    return Cost(_compose.epsilon_at({loss: 1}, budget.delta, "pld"), budget.delta)


def left(losses: Mapping[Loss, int], budget: DataSet) -> Cost:
    """A pure loss of this epsilon fits for certain, as it adds no more than itself."""
    exact = Fraction(budget.epsilon) - Fraction(spent(losses, budget).epsilon)
    return Cost(max(0.0, -round_up(-exact)), budget.delta)
