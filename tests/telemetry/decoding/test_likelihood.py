"""Maximum likelihood: the best fractions, errors of counts of fixed clients, and honest tests."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

from sfumato.telemetry import Rappor, ReportEncoder, Reports
from sfumato.telemetry.decoding.design import Design
from sfumato.telemetry.decoding.fisher_information import information
from sfumato.telemetry.decoding.likelihood import maximize
from sfumato.telemetry.decoding.report_likelihood import likely_of
from support.exact_distributions import SCHEMES, VALUES, laws, outputs

EVERY = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
COUNTS = [500, 250, 0, 50, 100]  # of a to d, which are candidates, and of others


def sent(scheme, seed, counts=COUNTS):
    """Reports of a to d and others: e in a known domain, else all different and new in each run."""
    values = np.repeat(list("abcde")[: len(counts)], counts).astype("U16")
    if scheme.domain is None:
        others = np.flatnonzero(values == "e")
        values[others] = [f"{seed}/{n}" for n in others]
    return ReportEncoder(scheme, seed=seed).encode_many(values)


def log_likelihood(scheme, reports, members):
    """The log-likelihood of fractions, over the probabilities of all outputs, as a function."""
    payload, tables = outputs(scheme)[0], []
    for j in range(scheme.cohorts):
        own = reports.payload[reports.cohorts == j]
        observed = (own[:, None, :] == payload[None]).all(axis=2).sum(axis=0)
        tables.append((laws(scheme, members, j), observed))
    return lambda fractions: sum(observed @ np.log(fractions @ table) for table, observed in tables)


@EVERY
def test_no_other_fractions_are_more_likely(scheme):
    reports, members = sent(scheme, 1), scheme.members(VALUES)
    value = log_likelihood(scheme, reports, members)
    fit = maximize(reports, SimpleNamespace(members=members))
    ours = np.append(fit.fractions, fit.other)
    assert ours.min() >= 0
    assert ours.sum() == pytest.approx(1)
    best = optimize.minimize(
        lambda fractions: -value(np.maximum(fractions, 1e-12)),
        np.full(5, 0.2),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda fractions: fractions.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert value(ours) >= -best.fun - 2e-4
    assert fit.gap <= 2e-4
    np.testing.assert_allclose(
        fit.fractions * 900, best.x[:-1] * 900, atol=0.1 * fit.std_errors.max()
    )


@EVERY
def test_information_is_the_second_difference_of_the_log_likelihood(scheme):
    reports, members = sent(scheme, 2), scheme.members(VALUES)
    value, fractions = log_likelihood(scheme, reports, members), np.array([0.4, 0.2, 0.1, 0.1, 0.2])
    likely = likely_of(scheme, members, reports.cohorts, reports.payload)
    step, units = 1e-4, np.eye(5) * 1e-4
    wanted = np.array(
        [
            [
                value(fractions + a + b) - value(fractions + a - b) - value(fractions - a + b)
                + value(fractions - a - b)
                for a in units
            ]
            for b in units
        ]
    ) / (-4 * step**2 * 900)  # fmt: skip
    np.testing.assert_allclose(information(likely, fractions), wanted, rtol=2e-4, atol=2e-4)


def deviations(scheme, counts, runs, **how):
    """(unconstrained - count) / error over runs, of candidates a to d, and their p-values."""
    design = SimpleNamespace(members=scheme.members(VALUES))
    fits = [maximize(sent(scheme, seed, counts), design, **how) for seed in range(runs)]
    unconstrained = np.array([fit.unconstrained for fit in fits]) - counts[:4]
    return unconstrained / [fit.unconstrained_std_errors for fit in fits], np.array(
        [fit.p_values for fit in fits]
    )


@pytest.mark.parametrize("name", ["bits", "one hash", "symbol", "hadamard", "subset"])
def test_errors_are_those_of_counts_of_the_clients_that_reported(name):
    # Weak noise: errors for clients drawn anew would give mean squares of 0.2 to 0.6. Over 100
    # runs of four candidates the mean square scatters by at most 0.1 and a mean by 0.1, so each
    # scheme passes by mistake or fails by chance with p < 1e-3.
    weak = {
        "bits": Rappor(12, 2, 2, f=0.2),
        "one hash": Rappor(6, 1, 2, f=0.05),
        "symbol": type(SCHEMES["symbol"])(4.0, cohorts=4, cells=8),
        "hadamard": type(SCHEMES["hadamard"])(4.0, categories=list("abcde")),
        "subset": type(SCHEMES["subset"])(5.0, cells=6, cohorts=3),
    }[name]
    z, _ = deviations(weak, [500, 250, 60, 50, 100], 100)
    assert np.abs((z**2).mean() - 1) < 0.35
    assert np.abs(z.mean(axis=0)).max() < 0.4


def test_absent_candidates_are_found_no_more_often_than_the_level():
    # One of four is absent, 150 tests: more than 17 below 0.05 has p < 1e-3.
    _, p = deviations(Rappor(16, 2, 4, f=0.5), [400, 300, 200, 0], 150)
    assert (p[:, 3] < 0.05).sum() <= 17
    assert (p[:, 0] < 1e-3).all()


def test_nonnegative_estimates_are_no_farther_than_unconstrained_ones():
    scheme, counts = Rappor(16, 2, 4, f=0.7), np.array([700, 200, 0, 0])
    design = SimpleNamespace(members=scheme.members(VALUES))
    fits = [maximize(sent(scheme, seed, counts), design) for seed in range(40)]
    apart = [((fit.fractions * 900 - counts) ** 2).sum() for fit in fits]
    unconstrained = [((fit.unconstrained - counts) ** 2).sum() for fit in fits]
    assert np.mean(apart) < np.mean(unconstrained)


def test_what_is_no_candidate_is_counted_without_bias_among_many_absent_candidates():
    # 40 runs with 30 absent candidates: the mean deviation is beyond 0.6 with p < 2e-4.
    scheme, absent = Rappor(16, 2, 4, f=0.6), [f"absent {n}" for n in range(30)]
    design, z = Design(scheme, ["a", *absent]), []
    for seed in range(40):
        fit = maximize(sent(scheme, seed, [400, 0, 0, 0, 500]), design)
        z.append((fit.unconstrained_other - 500) / fit.unconstrained_other_std_error)
    assert abs(np.mean(z)) < 0.6
    assert 0.5 < np.std(z) < 1.6


def test_reports_that_do_not_fit_are_left_out():
    scheme = Rappor(12, 2, 2, f=0.2)
    good, design = sent(scheme, 1), Design(scheme, VALUES)
    cohorts = np.append(good.cohorts, [7, -1])
    payload = np.append(good.payload, good.payload[:2], axis=0)
    both = Reports(scheme, cohorts, payload, np.zeros((len(cohorts), 16), np.uint8))
    fit, alone = maximize(both, design), maximize(good, design)
    assert fit.reports == len(good)
    np.testing.assert_array_equal(fit.fractions, alone.fractions)


def test_no_reports_carry_no_information():
    scheme = Rappor(12, 2, 2, f=0.2)
    fit = maximize(sent(scheme, 1).take([]), Design(scheme, VALUES))
    assert (fit.reports, fit.other, fit.identified) == (0, 0.0, False)
    assert not fit.fractions.any()
    assert (fit.p_values == 1).all()


def test_candidates_with_the_same_cells_are_named_as_not_identified():
    scheme = Rappor(12, 2, 2, f=0.2)
    members = scheme.members(VALUES)[[0, 0, 1]]
    fit = maximize(sent(scheme, 1), SimpleNamespace(members=members))
    assert not fit.identified
    assert np.isinf(fit.unconstrained_std_errors).tolist() == [True, True, False]
    assert fit.fractions[:2].sum() * 900 == pytest.approx(500, abs=80)


def test_there_is_no_other_where_all_values_of_a_domain_are_candidates():
    scheme = SCHEMES["categories"]
    fit = maximize(sent(scheme, 1), Design(scheme, list("abcde")))
    assert (fit.other, fit.other_std_error, fit.identified) == (0.0, 0.0, True)
    assert maximize(sent(scheme, 1), Design(scheme, VALUES), other=False).other == 0.0


def test_more_candidates_than_can_be_unknown_together_are_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"at most 4096, not 5000; decode by counts first"):
        maximize(sent(SCHEMES["bits"], 1), SimpleNamespace(members=np.zeros((5000, 3, 2), int)))


def test_a_sample_of_reports_leads_to_the_same_fractions(monkeypatch):
    scheme = Rappor(40, 2, 4, f=0.5)
    reports = sent(scheme, 4, [9000, 3000, 1000, 400, 2000])
    design = Design(scheme, VALUES)
    full = maximize(reports, design)
    monkeypatch.setattr("sfumato.telemetry.decoding.likelihood._STEP_WORK", 0)
    monkeypatch.setattr("sfumato.telemetry.decoding.likelihood._LAST_WORK", 0)
    monkeypatch.setattr("sfumato.telemetry.decoding.likelihood._LEAST_ROWS", 1000)
    part = maximize(reports, design)
    close = 0.05 * full.std_errors.min() / len(reports)
    np.testing.assert_allclose(part.fractions, full.fractions, atol=close)
    np.testing.assert_allclose(part.std_errors, full.std_errors, rtol=0.2)
    assert stats.chi2.sf(2 * abs(part.log_likelihood - full.log_likelihood), 5) > 0.9999
