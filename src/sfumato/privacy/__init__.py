"""Differential privacy: exact noise, proved mechanisms, accounting, a ledger and statements."""

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
