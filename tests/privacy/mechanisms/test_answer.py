"""An answer that is released is paid for first, stored, and given again without fresh noise."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.mechanisms.additive import Laplace
from sfumato.privacy.mechanisms.base import Answer
from sfumato.privacy.mechanisms.binary_tree import BinaryTreeCounter
from sfumato.privacy.mechanisms.pan_private import PanPrivateDistinct
from sfumato.privacy.mechanisms.randomized_response import BinaryResponse
from sfumato.privacy.mechanisms.sample_and_aggregate import SampleAndAggregate
from sfumato.privacy.mechanisms.smooth_sensitivity import SmoothMedian
from sfumato.privacy.random_source import InsecureSeededSource
from support.mechanism_contract import MECHANISMS

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

    released = Laplace(1, epsilon=1).release(3, ledger=ledger, dataset="ages", source=Watching(1))
    assert released.statement.insecure


@pytest.mark.parametrize("case", CASES)
def test_every_mechanism_releases_and_its_answer_survives_bytes(case):
    released = case.mechanism.release(case.neighbours[0], source=InsecureSeededSource(2))
    assert released.statement.ledger == "unaccounted"
    assert released.statement.insecure
    again = Answer.from_bytes(released.to_bytes())
    assert again == released
    assert again.statement == released.statement
    np.testing.assert_array_equal(again.value, released.value)
    assert str(released.statement) in str(released)
    assert released.statement.headline in repr(released)
    run = case.mechanism.run(case.neighbours[0], source=InsecureSeededSource(2))
    np.testing.assert_array_equal(run, released.value)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[1]", b'{"version": 2}', b"\xff", b'{"version": 1}']
)
def test_bytes_that_hold_no_answer_are_refused(data):
    with pytest.raises(ValueError, match="Answer: the bytes are none, or damaged"):
        Answer.from_bytes(data)


def test_an_iterator_is_refused_as_it_could_be_read_once_only(ledger):
    with pytest.raises(TypeError, match="value must be a whole column, not an iterator"):
        SmoothMedian(1, 0, 9).release(iter([5]), ledger=ledger, dataset="ages", contributions=1)
    assert ledger.history("ages") == []


def test_a_unit_of_several_events_is_priced_as_such(ledger):
    count = BinaryTreeCounter(0.25, 4)
    with pytest.raises(ValueError, match="contributions must be given for unit 'user'"):
        count.release([1, 2], ledger=ledger, dataset="ages")
    released = count.release([1, 2], ledger=ledger, dataset="ages", contributions=3)
    assert released.statement.epsilon == ledger.spent("ages").epsilon == 0.75
    assert released.statement.contributions == 3
    smooth = BinaryTreeCounter(0.5, 4, 1e-6).statement("user", contributions=3)
    assert smooth.epsilon > 0.5
    assert smooth.delta == 1e-6


def test_what_a_mechanism_hides_by_itself_needs_no_contributions(ledger):
    assert PanPrivateDistinct(0.5, 0.5).release(([7], [8])).statement.unit == "user"
    assert (
        Laplace(5, epsilon=0.5).release(3, ledger=ledger, dataset="ages").statement.unit == "user"
    )
    ask = SampleAndAggregate(np.sum, 0.5, 4, 0, 9)
    with pytest.raises(ValueError, match="contributions must be given"):
        ask.release([1, 2, 3], ledger=ledger, dataset="ages")
    released = ask.release([1, 2, 3], units=["a", "a", "b"], ledger=ledger, dataset="ages")
    assert released.statement.unit == "user"


@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ({"dataset": "ages"}, "ledger and dataset go together"),
        ({"release_id": "x"}, "needs a ledger"),
        ({"source": 3}, "source must have a method fill"),
        ({"unit": "nobody"}, "unit must be one of"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms, sentence):
    with pytest.raises(ValueError, match=sentence):
        Laplace(1, epsilon=1).release(0, **terms)


def test_terms_against_the_ledger_are_refused_and_cost_nothing(ledger):
    for terms, sentence in (
        ({"unit": "basket"}, "unit is 'basket' here and 'user' in the ledger"),
        ({"source": 3}, "source must have a method fill"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Laplace(1, epsilon=1).release(0, ledger=ledger, dataset="ages", **terms)
    with pytest.raises(ValueError, match="relation is 'replace' here"):
        BinaryResponse(1.0).release(0, ledger=ledger, dataset="ages")

    class Broken(Laplace):
        def run(self, value, *, source=None):
            return float("nan")

    with pytest.raises(ValueError, match="JSON"):
        Broken(1, epsilon=1).release(0, ledger=ledger, dataset="ages")
    assert ledger.history("ages") == []


def test_the_command_line_shows_an_answer(ledger, tmp_path):
    file = tmp_path / "answer.json"
    released = Laplace(1, epsilon=1).release(3, ledger=ledger, dataset="ages")
    file.write_bytes(released.to_bytes())
    shown = CliRunner().invoke(app, ["inspect", str(file)])
    assert "Answer:" in shown.stdout
    assert "PrivacyStatement: proved" in shown.stdout
    found = json.loads(CliRunner().invoke(app, ["inspect", str(file), "--json"]).stdout)
    assert found["value"] == released.value
    assert found["statement"]["dataset"] == "ages"
    assert "ages" in CliRunner().invoke(app, ["inspect", ledger.path]).stdout
