"""An answer that is released is paid for first, stored, and given again without fresh noise."""

import numpy as np
import pytest

from mechanisms import MECHANISMS
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.answer import Answer
from sfumato.privacy.mechanisms import Laplace, SmoothMedian
from sfumato.privacy.noise import InsecureSeededSource

CASES = [pytest.param(cases[0], id=name) for name, cases in MECHANISMS.items()]


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "a.ledger")
    made.create("ages", epsilon=1.5, unit="user")
    return made


def test_a_retry_returns_the_stored_answer_at_no_cost(ledger):
    ask = Laplace(1, epsilon=1)
    first = ask.release(10**6, ledger=ledger, dataset="ages", release_id="one")
    for _ in range(20):
        assert ask.release(10**6, ledger=ledger, dataset="ages", release_id="one") == first
    assert ledger.spent("ages").epsilon == 1
    assert first.statement.unit == "user"
    assert (first.statement.release, first.statement.ledger) == ("one", "a.ledger")
    with pytest.raises(BudgetExceeded):
        ask.release(10**6, ledger=ledger, dataset="ages")


@pytest.mark.parametrize("bad", [1.5, "many", None, [[1.0]], float("nan")])
def test_a_bad_value_is_refused_before_anything_is_charged(ledger, bad):
    for ask in (Laplace(1, epsilon=1), SmoothMedian(1, 0, 9)):
        with pytest.raises((ValueError, TypeError)):
            ask.release(bad, ledger=ledger, dataset="ages")
    assert ledger.history("ages") == []


def test_the_charge_stands_before_noise_is_drawn(ledger):
    class Watching(InsecureSeededSource):
        def fill(self, out):
            assert len(ledger.history("ages")) == 1
            super().fill(out)

    told = Laplace(1, epsilon=1).release(3, ledger=ledger, dataset="ages", source=Watching(1))
    assert told.statement.insecure


@pytest.mark.parametrize("case", CASES)
def test_every_mechanism_releases_and_its_answer_survives_bytes(case):
    told = case.mechanism.release(case.neighbours[0], source=InsecureSeededSource(2))
    assert told.statement.ledger == "unaccounted"
    assert told.statement.insecure
    again = Answer.from_bytes(told.to_bytes())
    assert again == told
    assert again.statement == told.statement
    np.testing.assert_array_equal(again.value, told.value)
    assert "PrivacyStatement" in repr(told)
    run = case.mechanism.run(case.neighbours[0], source=InsecureSeededSource(2))
    np.testing.assert_array_equal(run, told.value)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'{"version": 2}', b"\xff", b'{"version": 1}']
)
def test_bytes_that_hold_no_answer_are_refused(data):
    with pytest.raises(ValueError, match="Answer: the bytes are none, or damaged"):
        Answer.from_bytes(data)
