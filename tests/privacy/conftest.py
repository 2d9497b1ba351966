"""A ledger with two data sets, which all tests of ledgers start from."""

import pytest

from sfumato.privacy import Ledger


@pytest.fixture
def ledger(tmp_path):
    found = Ledger(tmp_path / "shop.ledger")
    found.create("views", epsilon=1)
    found.create("rough", epsilon=1, delta=1e-6, unit="user", relation="replace")
    return found
