"""Local hashing: one permanent cell by one word, with the stated distribution."""

import numpy as np
import pytest
from scipy import stats

from sfumato.telemetry import Counts, LocalHashing, ReportEncoder
from sfumato.telemetry.schemes.base import read_scheme
from support.reference_client import cohort, hashed_cell, permanent_words

SECRETS = [bytes([i]) * 20 for i in range(40)]


def test_the_report_of_a_secret_follows_from_hashlib_and_hmac_alone():
    scheme = LocalHashing(1.5, cohorts=5, metric="drink")
    for secret in SECRETS:
        report = ReportEncoder(scheme, secret=secret).encode("tea")
        at = cohort(scheme, secret)
        word = next(permanent_words(scheme, secret, "tea"))
        result = word // scheme.wrong
        cell = result if result < scheme.cells else hashed_cell("tea", at, scheme.cells)
        assert report.cohorts.tolist() == [at]
        assert report.payload.tobytes() == cell.to_bytes(4, "little")


def test_cells_are_those_of_one_hash_for_each_cohort():
    scheme = LocalHashing(2, cohorts=7)
    found = scheme.members(["tea", "milk", "tea"])
    wanted = [[[hashed_cell(v, c, 8)] for c in range(7)] for v in ("tea", "milk", "tea")]
    assert found.dtype == np.int32
    assert found.tolist() == wanted


@pytest.mark.parametrize("keyed", [False, True])
def test_drawn_and_derived_reports_have_the_stated_distribution(keyed):
    # The counts of cells in each cohort are multinomial: a chi-square of 3 * 7 degrees, which
    # exceeds its 1 - 1e-6 quantile with probability 1e-6; seeds are fixed.
    scheme, rows = LocalHashing(2, cohorts=3), 60_000
    secrets = np.random.default_rng(5).integers(0, 256, (rows, 16), dtype=np.uint8)
    encoder = ReportEncoder(scheme, seed=3)
    sent = encoder.encode_many(["tea"] * rows, secrets if keyed else None)
    counts = Counts(scheme).update(sent)
    probabilities = np.full((3, 8), float(scheme.low))
    probabilities[np.arange(3), scheme.members(["tea"])[0, :, 0]] = float(scheme.high)
    wanted = counts.reports[:, np.newaxis] * probabilities
    distance = ((counts.cells - wanted) ** 2 / wanted).sum()
    assert distance < stats.chi2.isf(1e-6, 3 * 7)


def test_parameters_come_back_from_json_and_are_named_by_all_that_matters():
    scheme = LocalHashing(2, cohorts=9, metric="drink")
    assert read_scheme(scheme.to_json()) == scheme
    others = [
        LocalHashing(2, cohorts=9),
        LocalHashing(2, cohorts=8, metric="drink"),
        LocalHashing(2, 9, 7, metric="drink"),
        LocalHashing(2.01, 9, 8, metric="drink"),
    ]
    assert len({each.fingerprint for each in [scheme, *others]}) == 5
    with pytest.raises(ValueError, match="fingerprint"):
        read_scheme(scheme.to_json().replace('"cohorts": 9', '"cohorts": 10'))


def test_bad_parameters_are_refused_by_name():
    for name, limit in LocalHashing.LIMITS.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=f"LocalHashing: {name} must be"):
                LocalHashing(**{"epsilon": 1.0, name: bad})
