"""The ledger: budgets of data sets, and every release that was charged to them."""

from sfumato.privacy.ledger.budget import BudgetExceeded, Cost, DataSet
from sfumato.privacy.ledger.entries import Charge
from sfumato.privacy.ledger.ledger import Ledger, Verification
from sfumato.privacy.ledger.store import LedgerDamaged

__all__ = ["BudgetExceeded", "Charge", "Cost", "DataSet", "Ledger", "LedgerDamaged", "Verification"]
