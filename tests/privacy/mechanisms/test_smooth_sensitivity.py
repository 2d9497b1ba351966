"""Noise of smooth sensitivity: exact masses of all neighbours of small data, and its sampler."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.privacy.mechanisms.smooth_sensitivity import (
    SmoothMedian,
    cauchy,
    scale_cost,
    shift_cost,
)
from sfumato.privacy.noise.exact.reference import Bits
from sfumato.privacy.random_source import InsecureSeededSource

K = np.arange(-60, 61)


def log_mass(middle, scale):
    """Exact log masses of the unclipped answer: 1 / (b**2 + k**2) over (pi / b) coth(pi b)."""
    b = float(scale)
    return -np.log(b * b + (K - middle) ** 2) - math.log(math.pi / b / math.tanh(math.pi * b))


def lower_quantile(data, quantile, low):
    return sorted(data)[math.ceil(quantile * len(data)) - 1] if data else low


def neighbours(data, values):
    """Every data set with one row more, and with one row exchanged; rows less are the converse."""
    for new in values:
        yield tuple(sorted((*data, new)))
        for at in range(len(data)):
            yield tuple(sorted((*data[:at], new, *data[at + 1 :])))


def worst_ratio(mechanism, values, rows, scale_of):
    distributions = {
        data: log_mass(lower_quantile(data, mechanism.quantile, mechanism.low), scale_of(data))
        for size in range(rows + 2)
        for data in itertools.combinations_with_replacement(values, size)
    }
    return max(
        np.abs(distributions[data] - distributions[other]).max()
        for data in distributions
        if len(data) <= rows
        for other in neighbours(data, values)
    )


@pytest.mark.parametrize("epsilon", [0.25, 1, 4])
@pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(1, 5), Fraction(9, 10)])
def test_all_neighbours_of_small_data_stay_within_the_claim(epsilon, quantile):
    mechanism = SmoothMedian(epsilon, 0, 9, quantile)
    claim = mechanism.loss().epsilon
    assert claim <= epsilon
    values, rows = (0, 1, 2, 5, 9), 4
    worst = worst_ratio(mechanism, values, rows, mechanism.scale)
    assert 0.5 * claim < worst <= claim


@pytest.mark.parametrize("scale", [0.0625, 0.3, 1, 4.7])
@pytest.mark.parametrize("ratio", [1.05, 1.6, 4])
def test_a_change_of_scale_costs_what_is_said(scale, ratio):
    # The far tail, where the weights differ by ratio**2, is taken from its limit.
    z = [math.pi / b / math.tanh(math.pi * b) for b in (scale, ratio * scale)]
    limit = abs(math.log(z[0] / z[1]))
    near = np.abs(log_mass(0, scale) - log_mass(0, ratio * scale)).max()
    said = float(scale_cost(np.array(scale), np.array(ratio * scale)))
    assert max(near, limit) == pytest.approx(said, rel=1e-9)


@pytest.mark.parametrize("scale", [0.0625, 0.3, 1, 4.7])
@pytest.mark.parametrize("change", [0, 1, 3, 10])
def test_a_change_of_place_costs_at_most_what_is_said(scale, change):
    observed = np.abs(log_mass(0, scale) - log_mass(change, scale)).max()
    said = float(shift_cost(np.array(change), np.array(scale)))
    assert observed <= said * (1 + 1e-12)
    assert observed >= 0.9 * said  # integers do not attain the worst case exactly


@pytest.mark.parametrize("epsilon", [0.2, 1, 3])
def test_every_two_rungs_that_neighbours_can_have_stay_within_the_claim(epsilon):
    mechanism = SmoothMedian(epsilon, 0, 40)
    scales = [Fraction(scale, 2**32) for scale in mechanism._scales]
    claim, worst = mechanism.loss().epsilon, 0.0
    for j, half_width in enumerate(mechanism._shifts):
        for other in {j, min(j + 1, len(scales) - 1)}:
            for change in range(int(half_width) + 1):
                gap = np.abs(log_mass(0, scales[j]) - log_mass(change, scales[other]))
                back = np.abs(log_mass(0, scales[other]) - log_mass(change, scales[j]))
                worst = max(worst, gap.max(), back.max())
    assert 0.8 * claim < worst <= claim


def test_noise_of_local_sensitivity_alone_would_break_the_claim():
    mechanism = SmoothMedian(1, 0, 9)

    def local(data):  # no look at how neighbours differ: what a smooth bound is there to prevent
        padded = [0, *sorted(data), 9]
        k = math.ceil(len(data) / 2)
        change = max(np.diff(padded[max(k - 1, 0) : k + 2]))
        return mechanism.scale([]) * Fraction(int(change), 9) + Fraction(1, 16)

    assert worst_ratio(mechanism, (0, 1, 2, 5, 9), 3, local) > 1.5 * mechanism.loss().epsilon


@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 200])
def test_the_rung_is_the_largest_over_all_distances(size):
    mechanism = SmoothMedian(0.3, -50, 1000, Fraction(2, 3))
    rng = np.random.default_rng(size)
    data = np.minimum(rng.exponential(60, size), 1100).astype(int) - 60
    x = np.sort(np.clip(data, -50, 1000)).tolist()
    k, rungs = math.ceil(Fraction(2, 3) * size), len(mechanism._scales)

    def at(position):
        return -50 if position < 1 else 1000 if position > size else x[position - 1]

    def rung(t):
        change = max(at(k + s) - at(k + s - t - 1) for s in range(t + 2))
        return next(j for j, half_width in enumerate(mechanism._shifts) if half_width >= change)

    best = max(rung(t) - t for t in range(rungs + 5))
    assert mechanism.scale(data) == Fraction(mechanism._scales[best], 2**32)


def test_the_ladder_covers_every_change_and_steps_by_half_of_epsilon():
    mechanism = SmoothMedian(0.8, 0, 10**6)
    scales = np.array(mechanism._scales, float)
    assert np.log(scales[1:] / scales[:-1]).max() <= 0.4
    assert mechanism._shifts[-1] == 10**6
    assert (mechanism._shifts <= scales / 2**32 / float(mechanism._noise_per_change)).all()


@pytest.mark.parametrize("scale", [Fraction(1, 16), Fraction(3, 4), Fraction(5, 2), Fraction(40)])
def test_cauchy_noise_follows_its_distribution(scale):
    # Chi-square over 22 to 42 cells of at least 5 expected; the bound is passed with p < 1e-6.
    trials, half_width = 40_000, 20
    bits = Bits(InsecureSeededSource(7))
    drawn = np.array([max(min(cauchy(scale, bits), 10**6), -(10**6)) for _ in range(trials)])
    mass = np.exp(log_mass(0, scale)[60 - half_width : 61 + half_width])
    inside = np.bincount(
        drawn[np.abs(drawn) <= half_width] + half_width, minlength=2 * half_width + 1
    )
    tail = (1 - mass.sum()) / 2
    expected = trials * np.array([tail, *mass, tail])
    counted = np.array([(drawn < -half_width).sum(), *inside, (drawn > half_width).sum()])
    enough = expected >= 5
    chi = ((counted - expected)[enough] ** 2 / expected[enough]).sum()
    rest = abs((counted - expected)[~enough].sum()) / math.sqrt(expected[~enough].sum() + 1)
    freedom = enough.sum()
    assert chi < freedom + 5 * math.sqrt(2 * freedom) + 20
    assert rest < 6


def test_cauchy_noise_reaches_far_on_both_sides():
    # Beyond 1000 scales lies 1 / (1000 pi) of the mass on each side: 16 of 50,000, Poisson; none or
    # more than 50 has p < 1e-6.
    bits = Bits(InsecureSeededSource(8))
    drawn = np.array([cauchy(Fraction(1), bits) for _ in range(50_000)], dtype=object)
    assert 1 <= (drawn > 1000).sum() <= 50
    assert 1 <= (drawn < -1000).sum() <= 50


def test_agreeing_data_get_little_noise_and_few_rows_get_much():
    mechanism = SmoothMedian(1, 0, 100)
    assert mechanism.scale([40] * 100) == Fraction(1, 16)
    assert mechanism.scale([]) > 100
    # At scale 1/16 an answer is exact with p > 0.98; fewer than 950 of 1000 has p < 1e-8.
    answers = mechanism.sample([40] * 100, 1000, source=InsecureSeededSource(1))
    assert (answers == 40).mean() > 0.95


def test_a_million_rows_give_an_answer_near_their_quantile():
    ages = np.random.default_rng(1).normal(4000, 1000, 10**6).astype(int)
    mechanism = SmoothMedian(1, 0, 12000, 0.9)
    # Cauchy noise of scale b passes 30 with p < 2 b / (30 pi); 8 of 15 do with p < 6435 p**8.
    probability = 2 * float(mechanism.scale(ages)) / (30 * math.pi)
    assert 6435 * probability**8 < 1e-6
    answers = mechanism.sample(ages, 15, source=InsecureSeededSource(1))
    assert np.median(answers) == pytest.approx(np.quantile(ages, 0.9), abs=30)
    # Only the values that can count are sorted: as many on each side as the ladder has rungs.
    assert mechanism._around(ages).size <= 2 * len(mechanism._scales) + 3


def test_answers_and_data_stay_within_the_bounds():
    mechanism = SmoothMedian(0.01, -3, 4)
    answers = mechanism.sample([2**63, 7, -(10**9)][1:], 200, source=InsecureSeededSource(1))
    assert set(answers) <= set(range(-3, 5))
    assert mechanism.scale([10**9] * 9) == mechanism.scale([4] * 9)
    assert mechanism.scale(np.array([2**64 - 1] * 9, np.uint64)) == mechanism.scale([4] * 9)


def test_the_claim_holds_over_the_whole_range_of_epsilon():
    for epsilon in [2**-10, 0.003, 0.1, 0.7, 1, 2, 3.3, 8, 30, 63.9]:
        for high in (1, 100, 2**40):
            assert 0 < SmoothMedian(epsilon, 0, high).loss().epsilon <= epsilon


def test_statement_and_loss_tell_the_relation():
    mechanism = SmoothMedian(1, 0, 10, relation="replace")
    result = mechanism.statement("user")
    assert (result.relation, result.delta, result.proof) == ("replace", 0, "proved")
    assert result.epsilon == mechanism.loss().epsilon
    assert mechanism.loss(2).epsilon == pytest.approx(2 * result.epsilon)


@pytest.mark.parametrize(
    ("invalid", "name"),
    [
        (dict(epsilon=0), "epsilon"),
        (dict(epsilon=math.nan), "epsilon"),
        (dict(epsilon=math.inf), "epsilon"),
        (dict(low=0.5), "low"),
        (dict(high=0), "high"),
        (dict(high=2**61), "high"),
        (dict(quantile=1), "quantile"),
        (dict(quantile=0), "quantile"),
        (dict(relation="both"), "relation"),
    ],
)
def test_bad_parameters_are_named(invalid, name):
    with pytest.raises(ValueError, match=f"SmoothMedian: {name}"):
        SmoothMedian(**{"epsilon": 1, "low": 0, "high": 10, **invalid})


@pytest.mark.parametrize("malformed", ["a", None, math.nan, [1], pd.NA, np.datetime64("NaT")])
def test_a_row_that_is_no_number_is_left_out_and_changes_no_other(malformed):
    rows = [2**53 + 1, 4, 2, 7, 7]
    mechanism = SmoothMedian(1, 0, 2**55)
    want = mechanism._around(rows).tolist()
    objects = np.empty(6, object)
    objects[:] = [*rows, malformed]
    for column in ([*rows, malformed], objects, pd.Series(objects)):
        assert mechanism._around(column).tolist() == want


def test_numbers_are_cut_toward_zero_and_clipped_whatever_holds_them():
    mechanism = SmoothMedian(1, 0, 10)
    want = mechanism._around([1, 2, 10, 0]).tolist()
    values = [1.25, 2.5, math.inf, -math.inf]
    for column in (values, np.array(values), pa.array(values), ["1.25", 2.5, "inf", -(10**400)]):
        assert mechanism._around(column).tolist() == want
    assert mechanism._around(np.array([2**63], np.uint64)).max() == 10


def test_what_is_no_column_is_refused():
    for column in (7, "many", {1: 2}, np.zeros((2, 2), int)):
        with pytest.raises(ValueError, match="SmoothMedian: value must be one column"):
            SmoothMedian(1, 0, 10).run(column)
    with pytest.raises(ValueError, match="trials"):
        SmoothMedian(1, 0, 10).sample([1], 0)
