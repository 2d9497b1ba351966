"""Privacy: exact noise, mechanisms with proofs, an accountant, a ledger, and statements."""

from sfumato.privacy.accountant import Accountant
from sfumato.privacy.ledger import BudgetExceeded, Ledger, LedgerDamaged
from sfumato.privacy.noise import discrete_gaussian, discrete_laplace
from sfumato.privacy.statement import PrivacyStatement

__all__ = [
    "Accountant",
    "BudgetExceeded",
    "Ledger",
    "LedgerDamaged",
    "PrivacyStatement",
    "discrete_gaussian",
    "discrete_laplace",
]
