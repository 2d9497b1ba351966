"""Differential privacy: exact noise, proved mechanisms, accounting, a ledger and statements.

Each name is imported when it is first used.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.privacy.accounting.accountant import Accountant
    from sfumato.privacy.ledger.budget import BudgetExceeded
    from sfumato.privacy.ledger.ledger import Ledger
    from sfumato.privacy.ledger.store import LedgerDamaged
    from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace
    from sfumato.privacy.parameters import Privacy
    from sfumato.privacy.statement import PrivacyStatement

__all__ = [
    "Accountant",
    "BudgetExceeded",
    "Ledger",
    "LedgerDamaged",
    "Privacy",
    "PrivacyStatement",
    "discrete_gaussian",
    "discrete_laplace",
]

__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "accounting.accountant": ("Accountant",),
        "ledger.budget": ("BudgetExceeded",),
        "ledger.ledger": ("Ledger",),
        "ledger.store": ("LedgerDamaged",),
        "noise.discrete": (
            "discrete_gaussian",
            "discrete_laplace",
        ),
        "parameters": ("Privacy",),
        "statement": ("PrivacyStatement",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
