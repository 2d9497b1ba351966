"""A statement tells everything it must, survives its JSON, and cannot be forged by its fields."""

import json
import math
from dataclasses import fields
from fractions import Fraction

import pytest

from sfumato.privacy import PrivacyStatement
from sfumato.privacy.accounting.calibration import epsilon_of
from sfumato.privacy.accounting.losses import GaussianNoise, LaplaceNoise, Pure
from sfumato.privacy.statement import INSECURE, SCHEMA, SYSTEM, UNITS, WEAK_DELTA, WEAK_EPSILON

LOSS = LaplaceNoise(Fraction(8), 1, 4)
GOOD = dict(
    unit="event",
    relation="add/remove",
    mechanism="discrete Laplace, scale 8 on each cell",
    epsilon=0.5,
    loss=LOSS.to_dict(),
)
BUDGET = dict(dataset="views", ledger="shop.ledger", release="r1", audit="epsilon above 0.4")


def valid(schema, value):
    """Whether a value has a schema, of the words that ours uses; an unknown word is an error."""
    known = {"$schema", "title", "type", "additionalProperties", "required", "properties", "enum"}
    known |= {"exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum"}
    assert set(schema) <= known
    kinds = {"object": dict, "string": str, "number": int | float, "integer": int}
    if not isinstance(value, kinds[schema["type"]]) or isinstance(value, bool):
        return False
    if schema["type"] in ("number", "integer") and not (
        value > schema.get("exclusiveMinimum", -math.inf)
        and value >= schema.get("minimum", -math.inf)
        and value < schema.get("exclusiveMaximum", math.inf)
        and value <= schema.get("maximum", math.inf)
    ):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    inside = schema.get("properties", {})
    if schema.get("additionalProperties") is False and set(value) - set(inside):
        return False
    if set(schema.get("required", ())) - set(value if isinstance(value, dict) else ()):
        return False
    return all(valid(inside[name], value[name]) for name in inside)


STATEMENTS = [
    PrivacyStatement(**GOOD),
    PrivacyStatement(**GOOD, **BUDGET),
    PrivacyStatement(**{**GOOD, "loss": {}, "delta": 1e-6, "proof": "measured"}),
    PrivacyStatement(**GOOD, source=INSECURE, covers="the whole file"),
    PrivacyStatement(**{**GOOD, "unit": "user"}, contributions=5),
    *(PrivacyStatement(**{**GOOD, "unit": unit}) for unit in UNITS),
]


@pytest.mark.parametrize("expected", STATEMENTS, ids=range(len(STATEMENTS)))
def test_json_has_the_schema_and_comes_back_as_it_was(expected):
    text = expected.to_json()
    assert valid(SCHEMA, json.loads(text))
    assert json.loads(text) == expected.to_dict()
    assert PrivacyStatement.from_json(text) == expected
    assert PrivacyStatement.from_dict(expected.to_dict()) == expected


def test_the_schema_names_every_field_and_is_json():
    names = {field.name for field in fields(PrivacyStatement)}
    assert set(SCHEMA["properties"]) == set(SCHEMA["required"]) == names
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["additionalProperties"] is False


WRONG = {
    "unit": ["person", "", None, 1],
    "relation": ["both", "", None],
    "mechanism": [None, 1, "two\nlines", "\x1b[2J"],
    "epsilon": [0, -1, math.nan, math.inf, "1", None, True],
    "delta": [-1e-9, 1, math.nan, "0", None, True],
    "loss": [None, "Pure", [], {"kind": "Free"}, {"kind": "Pure", "epsilon": 1}],
    "proof": ["believed", "", None],
    "covers": [None, 1, "a\nb"],
    "source": ["dice", "", None],
    "dataset": [None, 1, "a\nb"],
    "ledger": [None, 1, "a\nb"],
    "release": [None, 1, "a\nb"],
    "audit": [None, 1, "a\nb"],
    "contributions": [0, -1, 1.5, "1", None, True, 2**32],
}


@pytest.mark.parametrize("name", [field.name for field in fields(PrivacyStatement)])
def test_every_field_is_checked(name):
    for bad in WRONG[name]:
        with pytest.raises(ValueError, match=f"PrivacyStatement: {name} must be|Loss: "):
            PrivacyStatement(**{**GOOD, name: bad})


FIELDS = ["unit", "relation", "epsilon", "delta", "proof", "source", "contributions"]


@pytest.mark.parametrize("name", FIELDS)
def test_the_schema_refuses_what_the_statement_refuses(name):
    document = STATEMENTS[0].to_dict()
    for bad in WRONG[name]:
        if not (isinstance(bad, float) and not math.isfinite(bad)):  # JSON has no such number
            assert not valid(SCHEMA, {**document, name: bad}), bad


@pytest.mark.parametrize("name", [field.name for field in fields(PrivacyStatement)])
def test_a_missing_or_strange_field_is_refused(name):
    document = STATEMENTS[0].to_dict()
    strange = {**document, name + "_": "x"}
    missing = {key: value for key, value in document.items() if key != name}
    for invalid in (strange, missing):
        assert not valid(SCHEMA, invalid)
        with pytest.raises(ValueError, match="fields are not those of a statement"):
            PrivacyStatement.from_dict(invalid)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '"x"'])
def test_damaged_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r".+"):
        PrivacyStatement.from_json(text)


def test_a_statement_cannot_claim_less_than_its_own_loss():
    assert PrivacyStatement(**{**GOOD, "epsilon": 0.6}).epsilon == 0.6
    with pytest.raises(ValueError, match="epsilon must not be below that of the loss"):
        PrivacyStatement(**{**GOOD, "epsilon": 0.49})
    with pytest.raises(ValueError, match="epsilon must not be below that of the loss"):
        PrivacyStatement(**{**GOOD, "loss": GaussianNoise(Fraction(4)).to_dict()})
    with pytest.raises(ValueError, match="under the relation of the statement"):
        PrivacyStatement(**{**GOOD, "loss": Pure(0.1, relation="replace").to_dict()})


@pytest.mark.parametrize("loss", [Pure(5.0), GaussianNoise(Fraction(4)), LaplaceNoise(Fraction(1))])
def test_a_delta_does_not_excuse_a_smaller_epsilon(loss):
    fields = {**GOOD, "delta": 1e-6, "loss": loss.to_dict()}
    true = epsilon_of(loss, 1e-6)
    assert PrivacyStatement(**{**fields, "epsilon": true}).epsilon == true
    with pytest.raises(ValueError, match="epsilon must not be below that of the loss"):
        PrivacyStatement(**{**fields, "epsilon": 0.99 * true})


def test_an_insecure_source_is_visible_everywhere():
    result = PrivacyStatement(**GOOD, source=INSECURE)
    assert result.insecure
    assert "insecure" in str(result)
    assert str(result).startswith("PrivacyStatement: NOT PRIVATE")
    assert repr(result).startswith(
        "PrivacyStatement(NOT PRIVATE, epsilon 0.5; one event (add/remove)"
    )
    assert "insecure" in result.to_dict()["source"]
    assert "insecure" in result.to_json()
    safe = PrivacyStatement(**GOOD)
    assert not safe.insecure
    assert safe.source == SYSTEM
    assert "insecure" not in str(safe)


def test_the_text_tells_every_part_of_the_promise():
    result = str(PrivacyStatement(**GOOD, **BUDGET, proof="measured", covers="the counts"))
    for part in ("measured", "epsilon 0.5", "event", "add/remove", GOOD["mechanism"], "the counts"):
        assert part in result
    for part in ("operating system", "'views'", "'r1'", "'shop.ledger'", "epsilon above 0.4"):
        assert part in result
    assert "delta" not in result
    assert "unaccounted" in str(PrivacyStatement(**GOOD))


def test_the_text_never_rounds_a_cost_down():
    result = str(
        PrivacyStatement(**{**GOOD, "loss": {}, "epsilon": 1.00000049, "delta": 1.00000001e-6})
    )
    assert "epsilon 1.00001, delta 1.00001e-06" in result


def test_a_statement_does_not_change():
    result = PrivacyStatement(**GOOD)
    with pytest.raises(AttributeError):
        result.epsilon = 9
    result.to_dict()["loss"]["scale"] = "1"
    assert result.loss == LOSS.to_dict()


def test_the_text_tells_how_many_events_a_unit_may_have():
    assert "one event (add/remove)" in str(PrivacyStatement(**GOOD))
    many = PrivacyStatement(**{**GOOD, "unit": "user"}, contributions=5)
    assert "one user of at most 5 events (add/remove)" in str(many)


@pytest.mark.parametrize(("epsilon", "shown"), [(0.667, "0.667"), (2 / 3, "0.666667"), (1.0, "1")])
def test_the_text_never_shows_less_than_is_spent_and_no_more_digits_than_were_given(epsilon, shown):
    result = PrivacyStatement(**{**GOOD, "epsilon": epsilon})
    assert f"epsilon {shown}\n" in str(result)


def test_repr_is_one_line_with_the_cost_the_unit_and_who_paid():
    assert repr(PrivacyStatement(**GOOD)) == (
        "PrivacyStatement(proved, epsilon 0.5; one event (add/remove); unaccounted)"
    )
    assert repr(PrivacyStatement(**GOOD, **BUDGET)).endswith("; data set 'views')")
    assert "delta 1.00001e-06" in repr(stated(1.0, 1.00000001e-6))  # never rounded down
    assert "epsilon 35, delta 0.5, hides next to nothing" in repr(stated(35.0, 0.5))
    long = {**BUDGET, "dataset": "x" * 999, "ledger": "y" * 999}
    assert len(repr(PrivacyStatement(**GOOD, **long))) < 300


def test_the_page_of_a_notebook_tells_what_the_text_does_and_escapes_it():
    page = PrivacyStatement(**GOOD, **BUDGET | {"dataset": "<script>"})._repr_html_()
    for part in ("proved, epsilon 0.5", GOOD["mechanism"], "operating system", "&lt;script&gt;"):
        assert part in page
    assert "<script" not in page


def stated(epsilon, delta=0.0):
    return PrivacyStatement(**{**GOOD, "loss": {}, "epsilon": epsilon, "delta": delta})


def test_a_guarantee_that_hides_next_to_nothing_says_so_and_stores_nothing_of_it():
    assert (WEAK_EPSILON, WEAK_DELTA) == (20.0, 1e-4)
    for result in (stated(20.0), stated(20.0, 9.9e-5), stated(0.1)):
        assert result.warning == ""
        assert "warning" not in str(result)
    for result, says in (
        (stated(20.000001), ["epsilon above 20 hides next to nothing", "exp(20.0001)-fold"]),
        (stated(1.0, 1e-4), ["delta from 0.0001 on", "a fraction of 0.0001 of them"]),
        (stated(35.0, 0.5), ["epsilon above 20", "delta from 0.0001 on"]),
    ):
        lines = str(result).splitlines()
        assert lines[1].startswith("  warning     ")
        shown = " ".join(str(result).split())
        assert all(words in result.warning and words in shown for words in says)
        assert "warning" not in result.to_dict()
        assert PrivacyStatement.from_json(result.to_json()) == result
    assert "delta" not in stated(21.0).warning
    assert "epsilon" not in stated(1.0, 0.1).warning


def means(**changes):
    """What the text says after "means", on one line."""
    text = " ".join(str(PrivacyStatement(**{**GOOD, **changes})).split())
    return text.split(" means ")[1].split(" by discrete")[0] if " means " in text else ""


def test_the_text_says_what_epsilon_and_delta_mean_for_one_unit():
    assert means() == (
        "0.5-differentially private: adding or removing one event (a row or a rating) changes the "
        "probability of any outcome by a factor of at most e^0.5 = 1.65."
    )
    assert means(unit="user", contributions=20, epsilon=1.0).startswith(
        "1-differentially private: adding or removing one user (at most 20 events: rows or ratings)"
        " changes the probability of any outcome by a factor of at most e^1 = 2.72."
    )
    replaced = means(relation="replace", loss={}, delta=1e-6, proof="measured")
    assert replaced.startswith(
        "as far as measured, (0.5, 1e-06)-differentially private: replacing one event (a row or a "
        "rating) by another changes"
    )
    assert replaced.endswith("e^0.5 = 1.65, plus 1e-06.")
    assert means(epsilon=1000.0).endswith("at most e^1000.")
    assert means(epsilon=1e-9, loss={}).endswith("e^1e-09 = 1.01.")  # never rounded down
    assert means(source=INSECURE) == ""  # nothing is private


def test_the_text_says_how_large_the_noise_is_in_events_or_beside_the_sensitivity():
    table = "discrete Laplace noise, scale 8, on each of 4 x 9 counters; an event weighs at most"
    deviation = " The noise on each number has a standard deviation of 11.3"  # about sqrt(2) scale
    assert means(mechanism=f"{table} 1").endswith(f"{deviation}, as much as 11.3 events add to it.")
    assert means(mechanism=f"{table} 5").endswith(
        f"{deviation}, as much as 2.26 events, at most 5 each, add to it."
    )
    alone = "discrete Laplace noise of scale 8 on each number"
    assert means(mechanism=alone).endswith(
        f"{deviation}; one event changes the numbers by at most 4 in total (L1 sensitivity)."
    )
    assert means(mechanism=alone, loss={}).endswith(f"{deviation}.")
    gaussian = GaussianNoise(Fraction(64), 2, 4)
    assert means(
        mechanism="discrete Gaussian noise of sigma 8 on each number",
        epsilon=epsilon_of(gaussian, 1e-6),
        delta=1e-6,
        loss=gaussian.to_dict(),
    ).endswith(
        "of 8; one event changes the numbers by at most 4 in Euclidean norm (L2 sensitivity)."
    )
    counts = (
        "discrete Laplace noise, scale 8, on 4 times the counts of 9 items and on counts of pairs"
    )
    assert means(mechanism=counts).endswith(
        " The noise on an item's count has a standard deviation of 2.83 events."
    )
    for other in ("discrete Laplace noise, scale 8 steps on their sum", "scale 8 on each number"):
        assert "standard deviation" not in means(mechanism=other)
    for forged in ("0", "1e-300", "1e999", "9" * 99, "nan"):
        assert "deviation" not in means(mechanism=alone.replace("8", forged))
