"""Declared limits: each refuses its bad values by name, and lets through plain, exact numbers."""

import math
from dataclasses import FrozenInstanceError, dataclass
from fractions import Fraction

import numpy as np
import pytest

from sfumato.core import validation
from sfumato.core.validation import (
    DELTA,
    between,
    check_random_state,
    checked,
    fraction,
    integer,
    number,
    positive,
    random_seed,
    rational,
)

LIMITS = {
    "between": between(2**-10, 64),
    "DELTA": DELTA,
    "flag": validation.flag,
    "fraction": fraction,
    "from 0 up": between(0, math.inf),
    "number": number,
    "one_of": validation.one_of(("a", "b")),
    "optional": validation.optional(positive),
    "positive": positive,
    "power_of_two": validation.power_of_two,
    "random_state": validation.RANDOM_STATE,
    "rational": rational,
    "integer": integer(1, 9),
}


@pytest.mark.parametrize("name", LIMITS)
def test_bad_values_are_refused_with_owner_name_and_value(name):
    for bad in LIMITS[name].bad():
        with pytest.raises(ValueError, match=r"^Tea: strength must be .*, not .*\.$") as result:
            LIMITS[name].check("Tea", "strength", bad)
        assert repr(bad) in str(result.value)


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (fraction, "a number between 0 and 1, both excluded"),
        (positive, "a finite number above 0"),
        (DELTA, "a number from 0 to 1, 1 excluded"),
        (between(0, math.inf), "a number from 0 up"),
        (between(2**-10, 64), "a number from 0.0009765625 to 64, 64 excluded"),
        (number, "a number within 2**53"),
        (integer(1, 9), "an integer from 1 to 9"),
        (integer(1), "an integer from 1 up"),
    ],
)
def test_sentences_say_what_would_be_right(limit, wanted):
    with pytest.raises(ValueError, match="not nan") as result:
        limit.check("Tea", "strength", math.nan)
    assert str(result.value) == f"Tea: strength must be {wanted}, not nan."


def test_ends_are_open_or_closed_as_declared():
    assert DELTA.check("Tea", "delta", 0) == 0
    assert between(2**-10, 64).check("Tea", "epsilon", 2**-10) == 2**-10
    assert fraction.check("Tea", "fraction", 5e-324) == 5e-324
    assert number.check("Tea", "low", -(2**53)) == -(2**53)


@pytest.mark.parametrize("limit", [positive, rational, number, validation.power_of_two, integer(0)])
def test_booleans_are_no_numbers(limit):
    for flag in (True, False, np.True_, np.False_):
        with pytest.raises(ValueError, match="Tea: strength"):
            limit.check("Tea", "strength", flag)


@pytest.mark.parametrize("limit", [rational, number, validation.power_of_two])
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float64, np.float32, int, Fraction])
def test_exact_numbers_are_made_of_unbounded_integers(limit, kind):
    # A Fraction of NumPy's integers computes with theirs, which wrap.
    exact = limit.check("Tea", "scale", kind(4))
    assert type(exact) is Fraction
    assert type(exact.numerator) is type(exact.denominator) is int
    assert exact * 2**70 == 2**72
    assert limit.check("Tea", "scale", Fraction(np.int64(4))) * 2**70 == 2**72


def test_fields_of_a_frozen_record_are_checked_and_made_plain():
    @dataclass(frozen=True)
    class Tea:
        cups: int
        strength: float = 1.0

        def __post_init__(self):
            checked(self, {"cups": integer(1), "strength": positive})

    tea = Tea(np.int8(3), 2)
    assert (type(tea.cups), type(tea.strength)) == (int, float)
    with pytest.raises(FrozenInstanceError):
        tea.cups = 2
    with pytest.raises(ValueError, match="Tea: strength must be a finite number above 0, not 0"):
        Tea(1, 0)


def test_random_states_of_every_kind_repeat():
    for make in (lambda: 5, lambda: np.random.RandomState(5), lambda: np.random.default_rng(5)):
        one, two = (check_random_state("Tea", make()).random(3).tolist() for _ in range(2))
        assert one == two
        assert random_seed("Tea", make()) == random_seed("Tea", make())
    fresh = [check_random_state("Tea", None).random() for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert random_seed("Tea", None) != random_seed("Tea", None)  # p = 2**-32


def test_whole_numbers_keep_their_stream_and_generators_move_on():
    assert check_random_state("Tea", np.int64(5)).random() == np.random.default_rng(5).random()
    assert random_seed("Tea", 2**64 - 1) == 2**64 - 1
    source = np.random.default_rng(5)
    assert check_random_state("Tea", source) is source
    assert random_seed("Tea", source) != random_seed("Tea", source)
    for function in (check_random_state, random_seed):
        with pytest.raises(
            ValueError, match=r"^Tea: random_state must be .*Generator or None, not"
        ):
            function("Tea", "seven")
