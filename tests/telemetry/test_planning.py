"""A plan's figures are right: standard errors, visible fractions, and the recommendation."""

import dataclasses
import json
import math

import numpy as np
import pytest

from sfumato.telemetry import Counts, Rappor, ReportEncoder, SubsetSelection, plan
from sfumato.telemetry.decoding.fisher_information import cramer_rao
from sfumato.telemetry.planning import hashed_variance, variance
from sfumato.telemetry.schemes.base import read_scheme

ROWS, VALUES, RUNS = 3000, 30, 80
PLANNED = plan(ROWS, 2.0, VALUES, known=True)


def least_squares(scheme, names):
    """The estimate of counts from cell counts, as a matrix; the sum of all counts is known."""
    cells = scheme.members(names) + scheme.cells * np.arange(scheme.cohorts)[:, np.newaxis]
    design = np.zeros((scheme.cohorts * scheme.cells, len(names)))
    for value, own in enumerate(cells):
        design[own.reshape(-1), value] = 1 / scheme.cohorts
    if scheme.kind != "bits":
        design = np.vstack([design, np.full(len(names), 1e3)])
    return np.linalg.pinv(design)


def estimate(scheme, inverse, counts):
    mean = counts.reports.mean()
    rates = counts.cells / counts.reports[:, np.newaxis]  # cohorts are of unequal size
    signal = mean * (rates - float(scheme.low)) / float(scheme.high - scheme.low)
    known = [] if scheme.kind == "bits" else [1e3 * ROWS]
    return inverse @ np.concatenate([signal.reshape(-1), known])


@pytest.mark.parametrize("row", PLANNED.rows, ids=lambda row: row.name)
def test_standard_errors_come_true_in_simulation(row):
    # Half of the values are nobody's; 80 runs of these 15 give a root mean square within 2 % of its
    # mean (one deviation). Clients are few enough for the unevenness of cells to count: 10 %.
    names = [str(i) for i in range(VALUES)]
    inverse = least_squares(row.scheme, names)
    encoder = ReportEncoder(row.scheme, seed=11)
    sent = np.repeat(names[: VALUES // 2], 2 * ROWS // VALUES)
    runs = (Counts(row.scheme).update(encoder.encode_many(sent)) for _ in range(RUNS))
    errors = [estimate(row.scheme, inverse, counts)[VALUES // 2 :] for counts in runs]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(row.std_error, rel=0.1)


@pytest.mark.parametrize(("epsilon", "values"), [(0.5, 60), (2.2, 60), (3.0, 200)])
def test_standard_errors_are_near_the_bound_of_all_linear_estimates(epsilon, values):
    names, half = [str(i) for i in range(values)], values // 2
    counts = np.r_[np.full(half, 10**5 / half), np.zeros(half)]
    for row in plan(10**5, epsilon, values, known=True).rows:
        bound = cramer_rao(row.scheme, row.scheme.members(names), counts, None)[half:]
        assert row.std_error == pytest.approx(np.sqrt(np.mean(bound**2)), rel=0.05)


def test_a_visible_fraction_is_detected_as_often_as_stated():
    # 20,000 runs each: a rate of 0.5 is off by 6 deviations, 0.021, with probability 2e-9.
    planned = plan(1_000_000, 1.0, 100, known=True, level=0.01)
    row = next(row for row in planned.rows if row.name == "subset selection")
    high, low = float(row.scheme.high), float(row.scheme.low)
    rng = np.random.default_rng(2)
    threshold = 3.719  # of a normal: one-sided, 0.01 / 100
    for fraction, rate in ((row.visible, 0.5), (row.surely_visible, 0.9)):
        true = round(fraction * 1_000_000)
        marked = rng.binomial(true, high, 20_000) + rng.binomial(1_000_000 - true, low, 20_000)
        estimates = (marked - 1_000_000 * low) / (high - low)
        assert np.mean(estimates > threshold * row.std_error) == pytest.approx(rate, abs=0.021)


@pytest.mark.parametrize("longitudinal", [False, True])
def test_no_scheme_of_a_plan_costs_more_than_requested(longitudinal):
    for epsilon in (0.3, 2.2148, 6.0):
        for row in plan(10**6, epsilon, 50, known=True, longitudinal=longitudinal).rows:
            assert row.scheme.epsilon_permanent <= epsilon
            assert not row.fresh_noise or row.scheme.epsilon_one <= epsilon / 2


def test_the_recommended_is_the_smallest_report_near_the_least_error():
    planned = plan(10**6, 2.2, 200, known=True)
    least = min(row.std_error for row in planned.rows)
    near = [row for row in planned.rows if row.std_error <= 1.05 * least]
    assert planned.recommended.bytes_per_report == min(row.bytes_per_report for row in near)
    assert [row.std_error for row in planned.rows] == sorted(r.std_error for r in planned.rows)
    assert planned.recommended.name in str(planned)
    assert planned.why in str(planned)
    rappor = next(row for row in planned.rows if isinstance(row.scheme, Rappor)).scheme
    assert f" {rappor.bits}/{rappor.hashes}/{rappor.cohorts}\n" in str(planned)
    assert "bytes in all" in str(planned)


def test_reports_of_a_longitudinal_plan_are_noised_afresh():
    planned = plan(10**6, 2.2, 200, known=True, longitudinal=True)
    assert planned.recommended.fresh_noise
    assert isinstance(planned.recommended.scheme, Rappor)
    assert not planned.recommended.scheme.one_time
    assert "recognised" in planned.why
    assert planned.rows[0].std_error < planned.recommended.std_error
    assert "the smallest of those with fresh noise" in planned.why
    hashed = plan(10**6, 2.2, 200, longitudinal=True).why
    assert hashed.startswith("It has the smallest standard error of those with fresh noise, ")
    assert "fresh noise" not in plan(10**6, 2.2, 200, known=True).why


@pytest.mark.parametrize("epsilon", [40.0, 50.0, 1e300])
def test_even_where_probabilities_cannot_cost_epsilon_a_longitudinal_plan_adds_noise(epsilon):
    planned = plan(10**4, epsilon, 20, known=True, longitudinal=True)
    assert planned.recommended.fresh_noise
    assert planned.recommended.scheme.epsilon_one <= epsilon / 2


def test_at_the_seeds_epsilon_subset_selection_halves_the_error_of_its_rappor():
    # 2 h ln(0.635 / 0.365) for h = 2; Brown's 981,716 words, 200 candidates.
    seeds = Rappor(48, 2, 8, f=0.73)
    names = [str(i) for i in range(200)]
    ours = SubsetSelection(seeds.epsilon_permanent, names, other=True)
    ratio = math.sqrt(variance(ours, 201) / variance(seeds, 200))
    assert 0.38 < ratio < 0.41
    # Without collisions, as many cells would give: still below 0.6.
    ideal = hashed_variance(float(seeds.high), float(seeds.low), 2**16, 2**16, 200, 2)
    assert math.sqrt(variance(ours, 201) / ideal) < 0.6


def test_a_plan_in_json_has_parameters_that_can_be_used():
    planned = plan(10**5, 1.0, 60, known=True)
    document = json.loads(planned.to_json())
    assert document["recommended"] == planned.recommended.name
    for row, fields in zip(planned.rows, document["rows"], strict=True):
        assert fields["std_error"] == row.std_error
        if row.scheme.domain is None:
            assert read_scheme(json.dumps(fields["parameters"])) == row.scheme
        else:
            assert "categories" not in fields["parameters"]
    row = next(row for row in planned.rows if row.name == "subset selection")
    names = [f"word {i}" for i in range(60)]
    assert dataclasses.replace(row.scheme, categories=names).domain == names


def test_too_many_values_are_said_to_be_too_many():
    planned = plan(1000, 1.0, 10**6)
    assert math.isinf(planned.recommended.std_error)
    assert "shorten the dictionary" in planned.why
    assert "too few counts" in str(planned)
    assert json.loads(planned.to_json())["rows"][0]["std_error"] is None


def test_nothing_visible_is_said():
    assert "nothing will be visible" in plan(100, 0.1, 10, known=True).why


def test_bad_parameters_are_refused_by_name():
    for invalid in ({"n_reports": 0}, {"epsilon": 0}, {"dictionary_size": 1}, {"level": 1.0}):
        name = next(iter(invalid))
        with pytest.raises(ValueError, match=f"plan: {name} must be"):
            plan(**{"n_reports": 10, "epsilon": 1.0, "dictionary_size": 5, **invalid})
    with pytest.raises(ValueError, match="plan: epsilon must be larger, not 1e-07"):
        plan(10, 1e-7, 5)
    for name in ("known", "longitudinal"):
        with pytest.raises(ValueError, match=f"plan: {name} must be True or False"):
            plan(10, 1.0, 5, **{name: 1})
