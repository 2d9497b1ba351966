"""Associations: intervals cover, tests err as often as they say, the table is the most likely."""

import json
from itertools import combinations
from math import comb

import numpy as np
import pytest

from sfumato.telemetry import Rappor, ReportEncoder, Reports, associate, pair_statement
from sfumato.telemetry.decoding.design import Design
from sfumato.telemetry.decoding.report_likelihood import ReportLikelihoods
from sfumato.telemetry.schemes.hadamard_response import HadamardResponse
from sfumato.telemetry.schemes.local_hashing import LocalHashing
from sfumato.telemetry.schemes.subset_selection import SubsetSelection

FEW = ["a", "b", "c"]
MANY = [f"v{i}" for i in range(8)]


def sent(scheme, values, seed):
    return ReportEncoder(scheme, seed=seed).encode_many(values)


def basic(metric, f=0.4):
    return Rappor(categories=FEW, f=f, metric=metric)


def drawn(table, clients, seed):
    """Pairs of values with these fractions, and how many have each."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(table.size, clients, p=table.ravel())
    names = np.array(FEW)
    counts = np.bincount(cells, minlength=table.size)
    return names[cells // 3], names[cells % 3], counts


def test_intervals_cover_the_counts_of_the_clients_and_empty_cells_stay_undetected():
    # 200 runs: each of 9 cells is missed 10 times in the mean, above 26 or never with p < 4e-5. An
    # empty cell is below p = 0.05 in 10 of 200 runs: five outside 10 to 100 with p < 1e-6. The
    # mean of 1000 scores is beyond 0.2 with p < 1e-5, where estimates above 0 alone would have 0.4.
    table = np.array([[0.4, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.05, 0.05]])
    empty = table.ravel() == 0
    missed, small, scores = np.zeros(9), 0, []
    for seed in range(200):
        first, second, counts = drawn(table, 3000, seed)
        sides = sent(basic("x", 0.6), first, seed), sent(basic("y", 0.6), second, 1000 + seed)
        found = associate(*sides, FEW, FEW)
        missed += (counts < found.low - 1e-9) | (counts > found.high + 1e-9)
        small += np.sum(found.p_value[empty] < 0.05)
        scores.append(found.estimate[empty] / found.std_error[empty])
    assert missed.max() <= 26
    assert missed[~empty].min() > 0
    assert 10 <= small <= 100
    assert abs(np.mean(scores)) < 0.2


def test_standard_errors_are_those_against_the_clients_that_reported():
    # At little noise an error against a population would be twice the one against the clients. The
    # standard deviation of 540 scores is off by 0.15 with p < 1e-5.
    table = np.full((3, 3), 1 / 9)
    scores = []
    for seed in range(60):
        first, second, counts = drawn(table, 2000, seed)
        sides = sent(basic("x", 0.1), first, seed), sent(basic("y", 0.1), second, 1000 + seed)
        found = associate(*sides, FEW, FEW)
        scores.append((found.estimate - counts) / found.std_error)
    assert 0.85 < np.std(scores) < 1.15


def test_independent_variables_are_called_related_as_often_as_the_level_says():
    # 150 runs below 0.1: mean 15, standard deviation 3.7: outside 1 to 34 with p < 1e-5.
    fractions = np.outer([0.6, 0.3, 0.1], [0.5, 0.45, 0.05])
    below = 0
    for seed in range(150):
        first, second, _ = drawn(fractions, 1000, seed)
        sides = sent(basic("x"), first, seed), sent(basic("y"), second, 1000 + seed)
        below += associate(*sides, FEW, FEW).independence.p_value < 0.1
    assert 1 <= below <= 34


def test_related_variables_are_called_so():
    first, second, _ = drawn(np.diag([0.5, 0.3, 0.2]), 2000, 1)
    found = associate(sent(basic("x"), first, 1), sent(basic("y"), second, 2), FEW, FEW)
    assert found.independence.p_value < 1e-9
    assert found.independence.degrees == 4
    assert found.cramers_v > 0.8
    assert found.mutual_information > 1.0
    assert [bool(d) for d in found.detected] == [i == j for i in range(3) for j in range(3)]


def exact_likelihood(scheme, payload, cells):
    """The probability of a report given a set, from the probabilities of its cells alone."""
    high, low, k = float(scheme.high), float(scheme.low), scheme.cells
    if scheme.kind == "symbol":
        return high if int(payload.view("<u4")[0]) in cells else low
    marks = np.unpackbits(payload, bitorder="little")[:k]
    if scheme.kind == "bits":
        probability = np.where(np.isin(np.arange(k), list(cells)), high, low)
        return float(np.prod(np.where(marks, probability, 1 - probability)))
    (cell,), width = cells, int(marks.sum())
    return high / comb(k - 1, width - 1) if marks[cell] else (1 - high) / comb(k - 1, width)


@pytest.mark.parametrize(
    "scheme",
    [
        Rappor(16, 2, 4, f=0.5),
        Rappor(16, 3, 4, f=0.5, p=0.3, q=0.8),
        Rappor(categories=MANY, f=0.5),
        LocalHashing(1.5, cohorts=16),
        SubsetSelection(1.5, cells=12, cohorts=4),
        SubsetSelection(1.5, categories=MANY),
        HadamardResponse(1.5, categories=MANY),
    ],
    ids=lambda scheme: f"{scheme.name}-{scheme.domain is not None}",
)
def test_likelihoods_are_those_of_the_scheme(scheme):
    reports = sent(scheme, MANY * 5, 3)
    named = MANY[:5]
    out = ReportLikelihoods(reports, Design(scheme, named), other=True).block(slice(None))
    sets = scheme.members(MANY)
    for row in range(0, 40, 3):
        cohort, payload = int(reports.cohorts[row]), reports.payload[row]
        own = [{int(c) for c in each[cohort] if c >= 0} for each in sets]
        any_set = combinations(range(scheme.cells), len(own[0]))
        rest = own[5:] if scheme.domain else [set(each) for each in any_set]
        exact = [exact_likelihood(scheme, payload, cells) for cells in own[:5] + rest]
        wanted = np.append(exact[:5], np.mean(exact[5:]))
        np.testing.assert_allclose(out[row], wanted / wanted.max(), 1e-5)


def test_the_likely_table_is_that_of_plain_expectation_maximisation():
    scheme = [LocalHashing(2, cohorts=64, metric=name) for name in "xy"]
    first, second, _ = drawn(np.array([[0.3, 0, 0.2], [0, 0.2, 0.1], [0.1, 0, 0.1]]), 4000, 3)
    reports = [
        sent(s, v, seed) for seed, (s, v) in enumerate(zip(scheme, (first, second), strict=True))
    ]
    found = associate(*reports, FEW, FEW)
    x, y = (
        ReportLikelihoods(r, Design(r.scheme, FEW), other=True).block(slice(None)) for r in reports
    )
    table = np.full((4, 4), 1 / 16)
    for _ in range(3000):
        probability = np.einsum("ra,ab,rb->r", x, table, y)
        table *= (x / probability[:, None]).T @ y / len(x)
    np.testing.assert_allclose(
        found.likely, 4000 * table.ravel(), atol=0.05 * found.std_error.min()
    )


def test_unnamed_values_go_to_other():
    params = [Rappor(64, 2, 16, f=0.25, metric=name) for name in "xy"]
    values = np.array(["a", "b", "unnamed 1", "unnamed 2", "unnamed 3"] * 4000)
    found = associate(sent(params[0], values, 1), sent(params[1], values, 2), ["a", "b"], ["a"])
    assert found.value_first == ["a", "a", "b", "b", None, None]
    wanted = np.array([4000, 0, 0, 4000, 0, 12000])
    assert np.all(np.abs(found.estimate - wanted) < 4.5 * found.std_error)  # p < 1e-4
    assert np.all(found.std_error < 300)
    assert np.allclose(found.first.estimate, found.estimate.reshape(3, 2).sum(axis=1))
    assert not found.detected[[1, 2, 4, 5]].any()


def test_reports_that_fit_no_scheme_are_left_out_and_counted():
    clean = sent(basic("x"), FEW * 100, 1)
    other = sent(basic("y"), FEW * 100, 2)
    cohorts = np.array(clean.cohorts)
    cohorts[7] = 5
    found = associate(Reports(clean.scheme, cohorts, clean.payload, clean.ids), other, FEW, FEW)
    assert found.reports == 299
    assert any(note.startswith("1 clients were left out") for note in found.notes)
    assert found.first.value == FEW  # all categories are candidates, so there is no other
    with pytest.raises(ValueError, match="at least one pair"):
        associate(clean.take([]), other.take([]), FEW, FEW)


@pytest.mark.parametrize("clients", [1, 3, 29, 47])
def test_of_too_few_clients_nothing_is_claimed(clients):
    # 16 cells with "other" on both sides: 48 clients are three a cell.
    schemes = [Rappor(16, 2, 4, f=0.25, metric=name) for name in "xy"]
    for seed in range(5):
        sides = [sent(s, ["a"] * clients, seed) for s in schemes]
        found = associate(*sides, FEW, FEW)
        assert np.array_equal(found.estimate, found.likely)
        assert np.all(found.std_error == clients)
        assert not found.low.any()
        assert np.all(found.high == clients)
        assert np.all(found.p_value == 1)
        assert not found.detected.any()
        assert np.all((found.first.estimate >= 0) & (found.first.std_error == clients))
        assert found.notes[-1].startswith(f"16 of 16 cells have no estimate from {clients} clients")
        assert json.loads(found.to_json())["std_error"] == [clients] * 16


def test_cells_that_reports_do_not_distinguish_claim_nothing():
    # All of one cohort and a scheme of two cells: four candidates are only distinguished in pairs.
    sides = [sent(Rappor(2, 1, 1, f=0.25, metric=name), FEW * 200, 1) for name in "xy"]
    found = associate(*sides, ["a", "b", "c", "d"], ["a", "b", "c", "d"])
    assert np.all((found.estimate >= -600) & (found.estimate <= 1200))
    assert np.all(found.std_error <= 600)
    assert any("have no estimate from 600 clients" in note for note in found.notes)


def test_what_cannot_be_associated_is_refused():
    reports = sent(basic("x"), FEW, 1)
    with pytest.raises(ValueError, match="one client, but there are 3 and 2 rows"):
        associate(reports, sent(basic("y"), FEW[:2], 1), FEW, FEW)
    with pytest.raises(ValueError, match="a metric of its own"):
        associate(reports, sent(basic("x"), FEW, 2), FEW, FEW)
    wide = [sent(LocalHashing(1, metric=name), FEW, 1) for name in "xy"]
    with pytest.raises(ValueError, match="33 x 33 cells has more than 1024"):
        associate(*wide, list(range(32)), list(range(32)))


def test_the_statement_of_a_pair_adds_epsilons():
    schemes = basic("x"), LocalHashing(1.5, metric="y")
    result = pair_statement(*schemes)
    assert result.epsilon >= sum(s.epsilon_permanent for s in schemes)
    assert result.epsilon == pytest.approx(sum(s.epsilon_permanent for s in schemes))
    assert "add up" in result.mechanism
    assert pair_statement(basic("x", 0), basic("y")).startswith("NOT PRIVATE")


def test_results_travel_as_arrow_and_json():
    first, second, _ = drawn(np.full((3, 3), 1 / 9), 500, 1)
    found = associate(sent(basic("x"), first, 1), sent(basic("y"), second, 2), FEW[:2], FEW)
    table, document = found.to_arrow(), json.loads(found.to_json())
    assert table.num_rows == len(found) == 9
    assert table["value_first"].to_pylist()[-1] is None
    assert document["estimate"] == found["estimate"].tolist() == table["estimate"].to_pylist()
    assert document["independence"]["degrees"] == 4
    assert len(str(found).splitlines()) >= 10
