"""Likelihoods of reports: those of the code that runs, for every kind of scheme."""

import numpy as np
import pytest
from scipy import stats

from sfumato.telemetry import Rappor, ReportEncoder
from sfumato.telemetry.decoding.report_likelihood import cells_of_others, likely_of
from support.exact_distributions import SCHEMES, VALUES, laws, outputs

EVERY = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


@EVERY
def test_likelihoods_are_proportional_to_the_probabilities_of_every_report(scheme):
    members, payload = scheme.members(VALUES), outputs(scheme)[0]
    for j in range(scheme.cohorts):
        likely = likely_of(scheme, members, np.full(len(payload), j, np.int32), payload)
        assert likely.weights.sum() == len(payload)
        probabilities = laws(scheme, members, j)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-9)
        result = np.array(
            [likely.expect(np.eye(len(probabilities))[v])[0] for v in range(len(probabilities))]
        )
        # Rows are sorted in the library, so reports are matched by what all values say of them.
        order = [np.lexsort(np.round(table / table[-1], 9)) for table in (result, probabilities)]
        result, probabilities = result[:, order[0]], probabilities[:, order[1]]
        np.testing.assert_allclose(
            result[:-1] / result[-1], probabilities[:-1] / probabilities[-1], rtol=1e-6
        )


@EVERY
def test_probabilities_are_those_that_encoders_run(scheme):
    # Chi-square tests of 20,000 reports of one value, one a cohort: each fails with p < 1e-6.
    reports = ReportEncoder(scheme, seed=3).encode_many(["a"] * 20000)
    payload, member = outputs(scheme)[0], scheme.members(["a"])
    for j in range(scheme.cohorts):
        sent = reports.payload[reports.cohorts == j]
        same = (sent[:, None, :] == payload[None]).all(axis=2)
        assert same.any(axis=1).all()
        expected = laws(scheme, member, j)[0] * len(sent)
        merged = np.append(expected[expected >= 5], expected[expected < 5].sum())
        observed = same.sum(axis=0)
        observed = np.append(observed[expected >= 5], observed[expected < 5].sum())
        keep = merged > 0
        assert (
            stats.chisquare(observed[keep], merged[keep] * observed.sum() / merged.sum()).pvalue
            > 1e-6
        )


def test_cells_of_others_are_those_of_the_remaining_domain():
    scheme = Rappor(categories=list("abcde"), f=0.5)
    other_cells = cells_of_others(scheme, scheme.members(["a", "d"]))
    np.testing.assert_allclose(other_cells * 3, [[0, 1, 1, 0, 1]])
    assert not cells_of_others(scheme, scheme.members(list("abcde"))).any()
    assert cells_of_others(Rappor(8, 2, 2, f=0.5), np.zeros((1, 2, 2), np.int32)) is None


def test_a_scheme_without_noise_has_finite_likelihoods():
    scheme = Rappor(32, 16, 2, f=0.0)
    reports = ReportEncoder(scheme, seed=0).encode_many(["a", "b", "a"])
    likely = likely_of(scheme, scheme.members(["a", "b"]), reports.cohorts, reports.payload)
    probabilities, slopes = likely.expect(np.array([0.5, 0.4, 0.1]))
    assert np.isfinite(np.log(probabilities)).all()
    assert np.isfinite(slopes).all()
