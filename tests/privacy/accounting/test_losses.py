"""Descriptions of cost: each formula against its definition, rounded up, and kept in JSON."""

import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import (
    Approximate,
    Concentrated,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Pure,
    Sampled,
    as_loss,
)
from sfumato.privacy.rounding import round_up

EVERY = [
    Pure(0.1),
    Approximate(0.5, 1e-6),
    Approximate(0.5, 0),
    Concentrated(0.01),
    LaplaceNoise(Fraction(21, 2), 3, 4),
    GaussianNoise(Fraction(7, 3), 2, 5),
    Flips(Fraction(1, 3), 8),
    Sampled(0.1, LaplaceNoise(Fraction(2))),
    Sampled(0.1, Sampled(0.5, Approximate(1, 1e-9))),
]


@pytest.mark.parametrize("loss", [*EVERY, Pure(1, relation="replace")], ids=repr)
def test_json_comes_back_as_it_was(loss):
    assert Loss.from_dict(json.loads(json.dumps(loss.to_dict(), allow_nan=False))) == loss
    assert hash(Loss.from_dict(loss.to_dict())) == hash(loss)


def test_every_kind_is_tested_here():
    assert {type(loss).__name__ for loss in EVERY} == set(Loss.KINDS)


def exact_log(ratio):
    """The natural logarithm of a Fraction to fifty digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln())


def test_laplace_epsilon_is_the_sum_of_the_changes_over_the_scale_rounded_up():
    for scale, change, cells in [
        (Fraction(3), 1, 1),
        (Fraction(7, 5), 3, 11),
        (Fraction(0.1), 1, 3),
    ]:
        found = LaplaceNoise(scale, change, cells).epsilon
        assert Fraction(found) >= change * cells / scale
        assert found == pytest.approx(float(change * cells / scale), rel=1e-15)


@pytest.mark.parametrize(
    "probability",
    [Fraction(1, 3), Fraction(1, 10**9), Fraction(1, 10**90), Fraction(499_999_999, 10**9)],
)
@pytest.mark.parametrize("cells", [1, 7])
def test_flips_epsilon_is_the_log_of_the_odds_rounded_up(probability, cells):
    want = cells * exact_log((1 - probability) / probability)
    found = Fraction(Flips(probability, cells).epsilon)
    assert want <= found <= want * (1 + Fraction(1, 10**10))


@pytest.mark.parametrize(
    ("rate", "epsilon"), [(0.1, 1.0), (1e-9, 20.0), (0.999, 0.001), (0.5, 600)]
)
def test_sampling_amplifies_by_the_exact_formula_rounded_up(rate, epsilon):
    with localcontext() as context:
        context.prec = 400
        want = Fraction((1 + Decimal(rate) * (Decimal(epsilon).exp() - 1)).ln())
    found = Fraction(Sampled(rate, Pure(epsilon)).epsilon)
    assert want <= found <= want * (1 + Fraction(1, 10**12))
    assert Sampled(rate, Pure(epsilon)).epsilon <= epsilon
    assert Sampled(0.5, Pure(1e6)).epsilon == 1e6


def divergence(order, p, q):
    logs = order * np.log(p) + (1 - order) * np.log(q)
    return float(np.logaddexp.reduce(logs)) / (order - 1)


@pytest.mark.parametrize("order", [1.01, 1.5, 2, 8, 40])
@pytest.mark.parametrize(
    ("loss", "cells"),
    [
        (LaplaceNoise(Fraction(2), 3, 4), 4),
        (LaplaceNoise(Fraction(1, 2), 3, 4), 4),
        (GaussianNoise(Fraction(9), 3, 4), 4),
        (Flips(Fraction(1, 5), 4), 4),
    ],
)
def test_rho_bounds_every_renyi_divergence_of_the_distribution(order, loss, cells):
    x = np.arange(-120, 124.0)
    if isinstance(loss, Flips):
        p = np.array([0.2, 0.8])
        q = p[::-1]
    elif isinstance(loss, LaplaceNoise):
        p, q = (np.exp(-np.abs(at) / float(loss.scale)) for at in (x, x - 3))
    else:
        p, q = (np.exp(-(at**2) / (2 * float(loss.variance))) for at in (x, x - 3))
    keep = (p > 1e-290) & (q > 1e-290)
    p, q = p[keep] / p.sum(), q[keep] / q.sum()
    assert cells * divergence(order, p, q) <= order * loss.rho * (1 + 1e-9)


def test_rho_of_cells_adds_up_cell_by_cell():
    assert Flips(Fraction(9, 20), 100).rho == pytest.approx(50 * math.log(11 / 9) ** 2)
    assert LaplaceNoise(Fraction(10), 1, 100).rho == pytest.approx(0.5)
    assert GaussianNoise(Fraction(9), 3, 4).rho == 2
    assert Pure(0.2).rho == pytest.approx(0.02)
    assert Pure(50.0).rho == 50
    assert Pure(1e90).rho == 1e90
    assert Approximate(0.2, 1e-9).rho == math.inf
    assert Approximate(0.2, 0).rho == pytest.approx(0.02)


def test_what_has_no_pure_epsilon_says_so():
    for loss in (Approximate(1, 1e-9), Concentrated(1), GaussianNoise(Fraction(1))):
        assert loss.epsilon == math.inf
    assert Sampled(0.1, GaussianNoise(Fraction(1))).epsilon == math.inf


def test_groups_follow_the_theorems():
    assert Pure(0.1).group(3) == Pure(math.nextafter(0.3, 1))  # three times the float 0.1 is above
    assert Concentrated(0.25).group(4) == Concentrated(4.0)
    assert LaplaceNoise(Fraction(4), 1, 2).group(3) == Pure(1.5)
    assert GaussianNoise(Fraction(9), 3, 4).group(2) == Concentrated(8.0)
    assert Flips(Fraction(1, 3), 2).group(5) == Flips(Fraction(1, 3), 10)
    assert Sampled(0.1, Pure(1.0)).group(2) == Pure(2.0)
    for loss in EVERY:
        assert loss.group(2).relation == loss.relation


def test_group_of_an_approximate_loss_walks_from_unit_to_unit():
    # delta_k = delta_(k-1) e**epsilon + delta, by the definition, one unit more at a time.
    want = 0.0
    for size in range(1, 6):
        want = want * math.exp(0.5) + 1e-6
        found = Approximate(0.5, 1e-6).group(size)
        assert want * (1 - 1e-12) <= found.delta <= want * (1 + 1e-11)
        assert found.bound == 0.5 * size
    for size in (100, 10**6, 2**62):
        with pytest.raises(ValueError, match="would reach 1"):
            Approximate(0.5, 1e-6).group(size)
    assert Approximate(0.5, 0).group(10**6).delta == 0


@pytest.mark.parametrize("loss", EVERY, ids=repr)
def test_bad_groups_are_named(loss):
    for bad in (0, -1, 1.5, None, True):
        with pytest.raises(ValueError, match="Loss: size must be"):
            loss.group(bad)


@pytest.mark.parametrize("loss", EVERY, ids=repr)
def test_every_parameter_is_checked(loss):
    document = loss.to_dict()
    for name, limit in type(loss).LIMITS.items():
        for bad in limit.bad():
            good = {key: getattr(loss, key) for key in document if key != "kind"}
            with pytest.raises(ValueError, match=f"{type(loss).__name__}: {name} must be"):
                type(loss)(**{**good, name: bad})


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        "Pure",
        {},
        {"kind": "Loss", "relation": "replace"},
        {"kind": "Pure", "epsilon": 1},
        {"kind": "Pure", "epsilon": "1", "relation": "replace"},
        {"kind": "Pure", "epsilon": 1, "relation": "replace", "more": 1},
        {
            "kind": "LaplaceNoise",
            "scale": "1e999999999",
            "change": 1,
            "cells": 1,
            "relation": "replace",
        },
        {"kind": "LaplaceNoise", "scale": "1/0", "change": 1, "cells": 1, "relation": "replace"},
        {
            "kind": "LaplaceNoise",
            "scale": "9" * 5000,
            "change": 1,
            "cells": 1,
            "relation": "replace",
        },
        {"kind": "Sampled", "rate": 0.5, "of": 1, "relation": "add/remove"},
        {"kind": "Sampled", "rate": 0, "of": Pure(1).to_dict(), "relation": "add/remove"},
        {"kind": "Flips", "probability": "1/2", "cells": 1, "relation": "replace"},
    ],
    ids=lambda message: str(message)[:60],
)
def test_a_description_that_is_none_of_ours_is_refused(message):
    with pytest.raises(ValueError, match=r"Loss: |must be"):
        Loss.from_dict(message)


def test_a_sample_is_of_add_remove_only():
    with pytest.raises(ValueError, match="the relation add/remove"):
        Sampled(0.5, Pure(1, relation="replace"), relation="replace")
    with pytest.raises(ValueError, match="the relation add/remove"):
        Sampled(0.5, Pure(1, relation="replace"))
    with pytest.raises(ValueError, match="below 1/2"):
        Flips(Fraction(1, 2))


def test_plain_numbers_become_losses_of_the_relation():
    assert as_loss("X", 0.5, "replace") == Pure(0.5, relation="replace")
    assert as_loss("X", (0.5, 0.1), "replace") == Approximate(0.5, 0.1, relation="replace")
    assert as_loss("X", EVERY[3], "replace") is EVERY[3]
    for bad in (0, -1, math.nan, math.inf, "1", None, True, (1,), (1, 1), (1, 0.1, 0.1), [0, 0.1]):
        with pytest.raises(ValueError, match="X: "):
            as_loss("X", bad, "replace")


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, np.int64])
def test_a_number_of_numpy_costs_no_less_than_it_is(kind):
    for value in (kind("0.1") if kind is not np.int64 else kind(3), kind(1)):
        exact = (
            Fraction(*value.as_integer_ratio()) if kind is not np.int64 else Fraction(int(value))
        )
        found = as_loss("X", value, "add/remove").epsilon
        assert exact <= Fraction(found) <= exact * Fraction(1 + 2**-50)


def test_round_up_is_the_nearest_float_that_is_not_below():
    for exact in (
        Fraction(1, 3),
        Fraction(2, 3),
        Fraction(1),
        Fraction(10**40, 7),
        Fraction(-1, 3),
    ):
        found = round_up(exact)
        assert Fraction(found) >= exact
        assert Fraction(math.nextafter(found, -math.inf)) < exact
    assert round_up(Fraction(10**400)) == math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: Loss(),
        lambda: Pure(5e-324),
        lambda: Pure(1e308),
        lambda: Approximate(1e-200, 0.1),
        lambda: LaplaceNoise(Fraction(10) ** 400),
        lambda: LaplaceNoise(Fraction(1, 10**400)),
        lambda: GaussianNoise(Fraction(10) ** 400),
        lambda: Flips(Fraction(1, 10**400)),
        lambda: Sampled(1e-300, GaussianNoise(Fraction(1))),
    ],
)
def test_a_cost_beyond_all_measure_is_refused_when_it_is_made(make):
    with pytest.raises(ValueError, match="the cost must be from 1e-100 to 1e100"):
        make()


def test_fractions_become_floats_that_are_not_below_them():
    third, two = Fraction(1, 3), Fraction(2, 3)
    for result, given in (
        (Pure(two).epsilon, two),
        (Approximate(third, third).bound, third),
        (Approximate(third, third).delta, third),
        (Concentrated(third).rho, third),
        (Sampled(third, Pure(1)).rate, third),
        (as_loss("X", third, "replace").epsilon, third),
    ):
        assert 0 <= Fraction(result) - given < Fraction(1, 2**52)


def test_a_loss_that_another_process_could_not_read_is_refused():
    class Mine(Pure):
        pass

    with pytest.raises(ValueError, match="to be read again"):
        as_loss("X", Mine(1.0), "add/remove")
    del Loss.KINDS["Mine"]

    class Mechanism:
        def loss(self):
            return Pure(1.0)

    with pytest.raises(ValueError, match=r"loss must be the loss\(\) of Mechanism"):
        as_loss("X", Mechanism(), "add/remove")
