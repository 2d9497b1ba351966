"""Dispersion: 1 for independent clients, r for clients that report r times; the floor of noise."""

import math

import numpy as np
import pytest

from sfumato.telemetry import (
    Counts,
    GoogleRappor,
    HadamardResponse,
    LocalHashing,
    Rappor,
    ReportEncoder,
)
from sfumato.telemetry.reports.validation import dispersion

SCHEME = Rappor(32, 2, 64, f=0.5)
NAMES = [str(i) for i in range(14)]


def sent(scheme, rows=20_000, seed=0):
    return ReportEncoder(scheme, seed=seed).encode_many([str(i % 7) for i in range(rows)])


def counted(*batches):
    return Counts(batches[0].scheme, keep_ids=False).update(batches).dispersion()


@pytest.mark.parametrize("scheme", [SCHEME, Rappor(32, 2, 64, f=0.25, p=0.25, q=0.75)])
def test_independent_clients_give_one_within_the_stated_spread(scheme):
    # Means over 25 runs: 5 standard deviations are 5 / 5 spreads; beyond them p < 1e-5.
    result = [counted(sent(scheme, 4000, seed)) for seed in range(25)]
    for name in ("cohorts", "marks"):
        ratios = np.array([getattr(each, name) for each in result])
        spread = getattr(result[0], f"{name}_spread")
        assert abs(ratios.mean() - 1) < spread
        assert 0.55 < ratios.std(ddof=1) / spread < 1.55
    assert not any(each.repeated for each in result)


def test_clients_that_report_thrice_triple_it():
    once = sent(SCHEME)
    result = counted(once, once, once)
    assert result.cohorts == pytest.approx(3 * counted(once).cohorts)
    assert result.marks == pytest.approx(3 * counted(once).marks)
    assert result.repeated
    assert "repeatedly" in str(result)


def test_fresh_noise_hides_repetition_from_marks_but_not_from_cohorts():
    scheme = Rappor(32, 2, 64, f=0.25, p=0.25, q=0.75)
    secrets = np.random.default_rng(0).integers(0, 256, (3000, 16), np.uint8)
    client = ReportEncoder(scheme, seed=5)
    result = counted(*(client.encode_many(["tea"] * 3000, secrets) for _ in range(10)))
    # Ten reports of a client vary by 10 times the fresh noise and 100 times the permanent response:
    # (10 x 0.1875 + 100 x 0.0273) / (10 x 0.2148) = 2.15; each ratio has a relative error of 0.18.
    assert 5 < result.cohorts < 15
    assert 1.3 < result.marks < 3.2
    assert result.repeated


def test_probabilities_other_than_those_of_the_scheme_are_detected():
    invalid = sent(Rappor(32, 2, 64, f=0.55))
    counts = Counts(SCHEME, keep_ids=False)
    mine = Counts(invalid.scheme, keep_ids=False).update(invalid)
    counts.cells, counts.reports = mine.cells, mine.reports
    assert counts.dispersion().marks > 10


def test_the_floor_is_where_the_standard_deviation_is_the_mean():
    # 980,000 reports, 2 cells in each of 8 cohorts, each marked by a report of another value with
    # probability 0.365 + 0.27 / 24: the words of fewer than about 1311 are below noise.
    scheme = Rappor(48, 2, 8, f=0.73)
    counts = Counts(scheme, keep_ids=False)
    counts.reports[:] = 122_500
    marked = 0.365 + 0.27 / 24
    variance = 8 * 2 * 122_500 * marked * (1 - marked) / (2 * (0.635 - marked)) ** 2
    floor = counts.dispersion().floor
    assert floor == pytest.approx(math.sqrt(variance), rel=1e-3)
    assert floor == pytest.approx(1311, rel=0.01)


@pytest.mark.parametrize(
    "scheme",
    [
        LocalHashing(1.0, cohorts=32),
        GoogleRappor(16, 2, 32, f=0.5),
        HadamardResponse(1.0, categories=[str(i) for i in range(7)]),
        Rappor(categories=[str(i) for i in range(7)], f=0.5),
    ],
)
def test_what_is_undefined_for_a_scheme_is_nan(scheme):
    result = counted(sent(scheme, 2000))
    assert math.isnan(result.cohorts) == (scheme.cohorts == 1)
    assert math.isnan(result.marks) == (not isinstance(scheme, Rappor))
    assert not result.repeated
    assert str(result).endswith("below the noise.")


def test_floors_are_those_of_simulated_estimates():
    # 300 runs of 2,000 reports of other values: a standard deviation is within 20 % (p < 1e-6).
    for scheme, others, shared in (
        (LocalHashing(2.0, cohorts=4, cells=5), range(1, 2001), 1 / 5),
        (Rappor(16, 3, 4, f=0.5), range(1, 2001), 3 / 16),
        (HadamardResponse(2.0, NAMES, blocks=2), NAMES[1:] * 154, 1 / 4),
        (Rappor(categories=NAMES, f=0.5), NAMES[1:] * 154, 0),
    ):
        own = scheme.members(["0"])[0]
        estimates = []
        for seed in range(300):
            reports = ReportEncoder(scheme, seed=seed).encode_many(list(others))
            counts = Counts(scheme, keep_ids=False).update(reports)
            marked = sum(counts.cells[j, own[j]].sum() for j in range(scheme.cohorts))
            each = own.shape[1] * float(scheme.high - scheme.low) * (1 - shared)
            estimates.append(marked / each)
        assert np.std(estimates) == pytest.approx(counts.dispersion().floor, rel=0.2)


@pytest.mark.parametrize("scheme", [Rappor(1, 1, 1, f=0.5), Rappor(3, 3, 2, f=0.7)])
def test_values_with_all_cells_in_common_are_all_below_the_noise(scheme):
    result = counted(sent(scheme, 50))
    assert math.isinf(result.floor)
    assert "all values have the same cells" in str(result)


def test_no_reports_are_no_reason_to_fail():
    result = Counts(SCHEME).dispersion()
    assert math.isnan(result.cohorts)
    assert (result.reports, result.floor, result.repeated) == (0, 0, False)


@pytest.mark.parametrize(
    ("reports", "ratio"), [([60, 40], 4.0), ([10, 20, 30], 5.0), ([7, 7, 7, 7], 0.0)]
)
def test_the_ratio_of_cohorts_is_that_of_the_sample_variance_to_the_mean(reports, ratio):
    counts = np.array(reports)
    result = dispersion(Rappor(32, 2, counts.size, f=0.5), np.zeros((counts.size, 32)), counts)
    assert result.cohorts == pytest.approx(ratio)
    assert result.cohorts == pytest.approx(counts.var(ddof=1) / counts.mean())
