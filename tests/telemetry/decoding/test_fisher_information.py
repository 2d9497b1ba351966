"""The Cramer-Rao bound: exact on small schemes, and the ideal errors of Brown words."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from sfumato.telemetry import Rappor
from sfumato.telemetry.decoding.fisher_information import cramer_rao
from support.exact_distributions import SCHEMES, VALUES, laws, outputs

EVERY = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
COUNTS, OTHER = np.array([500.0, 250, 30, 50]), 100.0
AMOUNTS = np.append(COUNTS, OTHER)
ROOT = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[4] / "shared" / "data"))
BROWN = ROOT / "brown" / "brown_wordcounts.tsv.gz"


def statistics(scheme, members, full_reports):
    """What is counted: outputs, or marks and a constant, as (counted, mean and covariance parts).

    For each cohort E[counted | value] (values + 1, counted) and the sum over clients of E[c c'].
    """
    marks = outputs(scheme)[1]
    counted = np.eye(len(marks)) if full_reports else np.column_stack([np.ones(len(marks)), marks])
    for j in range(scheme.cohorts):
        probabilities = laws(scheme, members, j)
        yield probabilities @ counted, counted.T * (AMOUNTS @ probabilities) @ counted


def least_squares_errors(scheme, members, full_reports):
    """Errors of the best linear estimate given the covariance of what fixed clients send.

    A client is in cohort j with probability 1 / m, so the covariance of all that is counted is
    sum over values of count (E[c c'] - E[c] E[c]'), where cells of two cohorts are never both 1.
    """
    parts = list(statistics(scheme, members, full_reports))
    mean = np.hstack([means for means, _ in parts]) / scheme.cohorts
    size = parts[0][0].shape[1]
    covariance = -(mean.T * AMOUNTS) @ mean
    for j, (_, second) in enumerate(parts):
        at = slice(j * size, (j + 1) * size)
        covariance[at, at] += second / scheme.cohorts
    # Along combinations that do not vary (all clients report), the counts must fit exactly.
    values, vectors = np.linalg.eigh(covariance)
    sure = values < 1e-9 * values[-1]
    design = vectors.T @ mean.T
    exact = np.linalg.svd(design[sure])[2]
    rank = np.linalg.matrix_rank(design[sure], tol=1e-6)
    free = exact[rank:].T  # directions in which counts can still vary
    information = (design[~sure] @ free).T / values[~sure] @ (design[~sure] @ free)
    return np.sqrt(np.diag(free @ np.linalg.inv(information) @ free.T))[:-1]


@pytest.mark.parametrize("full_reports", [False, True])
@EVERY
def test_bound_is_the_error_of_least_squares_with_the_covariance_of_fixed_clients(
    scheme, full_reports
):
    members = scheme.members(VALUES)
    bound = cramer_rao(scheme, members, COUNTS, OTHER, full_reports=full_reports)
    wanted = least_squares_errors(scheme, members, full_reports)
    np.testing.assert_allclose(bound, wanted, rtol=1e-4)


@EVERY
def test_full_reports_are_more_informative_and_knowing_the_others_more_still(scheme):
    members = scheme.members(VALUES)
    counts = cramer_rao(scheme, members, COUNTS, OTHER)
    full = cramer_rao(scheme, members, COUNTS, OTHER, full_reports=True)
    alone = cramer_rao(scheme, members, COUNTS, OTHER, full_reports=True, alone=True)
    assert (full <= counts * (1 + 1e-6)).all()
    assert (alone <= full * (1 + 1e-6)).all()
    if scheme.kind == "symbol":
        np.testing.assert_allclose(full, counts)


@EVERY
def test_alone_is_the_bound_of_one_value_against_the_mixture_of_the_others(scheme):
    members = scheme.members(VALUES)
    others = np.append(COUNTS[1:], OTHER) / AMOUNTS[1:].sum()
    information = np.zeros((2, 2))
    for means, second in statistics(scheme, members, False):
        two = np.array([means[0], others @ means[1:]])
        information += two @ np.linalg.pinv(second, rcond=1e-9) @ two.T / scheme.cohorts
    wanted = np.sqrt(np.linalg.inv(information)[0, 0] - COUNTS[0])
    bound = cramer_rao(scheme, members, COUNTS, OTHER, alone=True)
    assert bound[0] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", ["bits", "noised twice", "categories", "subset"])
def test_drawn_reports_give_the_bound_of_listed_ones(monkeypatch, name):
    # 33,000 draws scatter by 0.4 % (a little more where noise is weak); the seed is fixed.
    scheme = SCHEMES[name]
    members = scheme.members(VALUES)
    exact = cramer_rao(scheme, members, COUNTS, OTHER, full_reports=True)
    monkeypatch.setattr("sfumato.telemetry.decoding.fisher_information._EXACT", 0)
    drawn = cramer_rao(scheme, members, COUNTS, OTHER, full_reports=True)
    assert not np.array_equal(drawn, exact)
    np.testing.assert_allclose(drawn, exact, rtol=0.03)


def test_bound_of_basic_rappor_is_the_textbook_error():
    # The difference of two bits varies by 2 * 3 / 16 a client and its mean is half of +1 or -1.
    scheme = Rappor(categories=["a", "b"], f=0.5)
    bound = cramer_rao(scheme, scheme.members(["a", "b"]), [600, 400], None)
    np.testing.assert_allclose(bound, np.sqrt(1000 * 2 * 3 / 16), rtol=1e-6)


def test_indistinguishable_values_have_no_bound():
    scheme = SCHEMES["bits"]
    members = scheme.members(VALUES)[[0, 0, 1]]
    bound = cramer_rao(scheme, members, [100, 100, 100], 50)
    assert np.isinf(bound).tolist() == [True, True, False]


def test_many_cells_are_looked_at_where_candidates_are(monkeypatch):
    scheme = Rappor(64, 2, 4, f=0.5)
    members = scheme.members(VALUES)
    together = cramer_rao(scheme, members, COUNTS, 5000)
    monkeypatch.setattr("sfumato.telemetry.decoding.fisher_information._DENSE", 8)
    np.testing.assert_allclose(cramer_rao(scheme, members, COUNTS, 5000), together, rtol=0.02)


def test_invalid_counts_are_refused_and_no_clients_have_no_error():
    scheme = SCHEMES["bits"]
    members = scheme.members(VALUES)
    for counts in ([1, 2, 3], [1, 2, 3, -4], [1, 2, 3, np.nan]):
        with pytest.raises(ValueError, match="cramer_rao: "):
            cramer_rao(scheme, members, counts, 0)
    with pytest.raises(ValueError, match="alone must be True or False"):
        cramer_rao(scheme, members, COUNTS, 0, alone=1)
    assert not cramer_rao(scheme, members, np.zeros(4), None).any()
    many = np.zeros((5000, 3, 2), np.int32)
    with pytest.raises(ValueError, match="at most 4096 values, not 5000"):
        cramer_rao(scheme, many, np.ones(5000), 0)


def ideal(counts, words):
    """The mean absolute relative error of ten words that the bound allows, in percent."""
    scheme = Rappor(48, 2, 8, f=0.73)
    order = sorted(counts, key=counts.get, reverse=True)[:200]
    known = np.array([counts[word] for word in order])
    at = [order.index(word) for word in words]
    for how in ({}, {"full_reports": True}):
        for alone in (True, False):
            others = sum(counts.values()) - known.sum()
            errors = cramer_rao(scheme, scheme.members(order), known, others, alone=alone, **how)
            yield 100 * np.sqrt(2 / np.pi) * (errors / known)[at].mean()


@pytest.mark.skipif(not BROWN.exists(), reason="the counts of Brown words are not on this machine")
def test_ideal_errors_of_brown_words_are_the_published_ones():
    # Ideal means one word unknown at a time; with all 200 unknown together no unbiased decoder is
    # that good.
    counts = {}
    for line in gzip.decompress(BROWN.read_bytes()).decode().splitlines():
        word, count = line.split("\t")
        if word.isalpha():
            counts[word.lower()] = counts.get(word.lower(), 0) + int(count)
    words = ["of", "and", "to", "a", "in", "that", "he", "for", "with", "as"]
    marks, marks_together, reports, reports_together = ideal(counts, words)
    assert marks == pytest.approx(7.7, abs=0.3)
    assert reports == pytest.approx(7.1, abs=0.3)
    assert 10 < marks_together < 13
    assert 8.5 < reports_together < 10


def test_ideal_errors_fall_as_the_root_of_the_reports():
    words = [f"w{n}" for n in range(40)]
    zipf = {word: 60000 // (n + 1) for n, word in enumerate(words)}
    once = list(ideal(zipf, words[:10]))
    fourfold = list(ideal({word: 4 * count for word, count in zipf.items()}, words[:10]))
    np.testing.assert_allclose(np.array(once) / fourfold, 2, rtol=1e-6)
