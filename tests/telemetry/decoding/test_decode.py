"""Decoded tables are right: intervals cover, detections are true, invalid input is named."""

import json

import numpy as np
import pytest

from sfumato.telemetry import (
    CandidateMap,
    Counts,
    HadamardResponse,
    LocalHashing,
    Rappor,
    ReportEncoder,
    Reports,
    SubsetSelection,
    decode,
)
from sfumato.telemetry.decoding import significance
from sfumato.telemetry.decoding.design import Design
from sfumato.telemetry.decoding.likelihood import maximize
from support.simulated_telemetry import draw

SCHEME = Rappor(bits=32, hashes=2, cohorts=8, f=0.5)
WORDS = [f"w{n}" for n in range(200)]


def zipf(total, count, present):
    clients = np.zeros(count, np.int64)
    clients[:present] = total / np.arange(1, present + 1)
    return clients


def test_intervals_cover_at_their_rate_over_200_collections():
    # 8 candidates that are there, 4 absent, and 190 strings in no dictionary. 1,600 intervals of
    # the first, nearly independent, cover in 95 % with an error of 0.55 %: 3 % has p < 1e-7. Those
    # of absent ones are cut at 0 and cover in 97.5 % (800 of them, error 0.55 %: p < 1e-5).
    rng = np.random.default_rng(11)
    clients = zipf(20_000, 212, 200)
    clients[[3, 7]] = 0
    queries = [*range(10), 205, 206]
    hits = np.zeros(12)
    for _ in range(200):
        members = np.argsort(rng.random((212, 8, 32)), axis=2)[:, :, :2]  # of a random hash
        table = decode(draw(SCHEME, members, clients, rng), CandidateMap(queries, members[queries]))
        hits += (table.low <= clients[queries]) & (clients[queries] <= table.high)
        assert (table.low <= table.estimate).all()
        assert (table.estimate <= table.high).all()
    there = clients[queries] > 0
    assert abs(hits[there].mean() / 200 - 0.95) < 0.03
    assert 0.95 < hits[~there].mean() / 200 <= 1


@pytest.mark.parametrize("candidates", [60, 300])
def test_false_discoveries_stay_at_their_level_with_an_incomplete_dictionary(candidates):
    # Half of the candidates are absent, and 3,000 strings are in no dictionary, the most frequent
    # of all among them. The mean part of false ones in 30 collections has an error of about 1 %:
    # above 8 % has p < 1e-3; 300 candidates are more than 8 x 31 + 1 cells distinguish.
    rng = np.random.default_rng(candidates)
    half = candidates // 2
    clients = zipf(30_000, 3000 + half, 3000)
    queries = [*range(1, 1 + half), *range(3000, 3000 + half)]
    truth, false, found, there = clients[queries], [], 0, 0
    for run in range(30):
        words = [f"{run} {n}" for n in range(clients.size)]  # other cells
        counts = draw(SCHEME, SCHEME.members(words), clients, rng)
        table = decode(counts, [words[n] for n in queries])
        assert table.identified == (candidates == 60)
        false.append((table.detected & (truth == 0)).sum() / max(table.detected.sum(), 1))
        large = truth > 5 * table.std_error
        found, there = found + int(table.detected[large].sum()), there + int(large.sum())
    assert np.mean(false) < 0.08
    assert found >= 0.9 * there > 0


@pytest.mark.parametrize(
    "scheme",
    [
        Rappor(bits=24, hashes=2, cohorts=6, f=0.4, p=0.2, q=0.9),
        Rappor(bits=64, hashes=2, cohorts=1, f=0.4),
        LocalHashing(epsilon=2.0, cohorts=16),
        SubsetSelection(epsilon=2.0, cells=16, cohorts=8),
        SubsetSelection(epsilon=2.0, categories=[f"w{n}" for n in range(9)]),
        HadamardResponse(epsilon=2.0, categories=[f"w{n}" for n in range(9)]),
        Rappor(categories=[f"w{n}" for n in range(9)], f=0.4),
    ],
    ids=["rappor", "one cohort", "local hashing", "subset", "known subset", "hadamard", "basic"],
)
def test_every_scheme_is_decoded_from_its_own_reports(scheme):
    # 30,000 reports of 9 values; 7 are queried. |z| > 4.9 in any of 49 estimates has p < 1e-4.
    clients = np.array([12_000, 7000, 4000, 3000, 1500, 1000, 700, 500, 300])
    values = np.repeat([f"w{n}" for n in range(9)], clients)
    counts = Counts(scheme).update(ReportEncoder(scheme, seed=5).encode_many(values))
    table = decode(counts, [f"w{n}" for n in range(7)])
    assert np.all(np.abs(table.estimate - clients[:7]) < 4.9 * table.std_error)
    assert table.detected[:3].all()
    assert abs(table.other - 800) < 4.9 * table.other_std_error
    assert np.all(table.std_error < 1.5 * table.bound)
    assert table.estimate.sum() + table.other == pytest.approx(30_000, rel=0.1)


def test_known_domains_need_no_candidates_and_bins_are_decoded():
    scheme = Rappor(edges=[0, 1, 2, 5], f=0.25)
    sent = ReportEncoder(scheme, seed=1).encode_many(np.repeat([0.5, 1.5, 9.0], [3000, 2000, 1000]))
    table = decode(Counts(scheme).update(sent))
    assert table.value == [0.0, 1.0, 2.0]
    assert np.all(np.abs(table.estimate - [3000, 2000, 1000]) < 5 * table.std_error)
    assert table.other == 0
    with pytest.raises(ValueError, match="candidates must be given"):
        decode(Counts(SCHEME))


@pytest.mark.parametrize("method", ["weighted", "lasso"])
def test_no_reports_give_zeros_and_a_note(method):
    table = decode(Counts(SCHEME), WORDS, method=method)
    assert table.estimate.tolist() == [0.0] * 200
    assert table.p_value.tolist() == [1.0] * 200
    assert not table.detected.any()
    assert table.notes == ["There are no reports: nothing is estimated."]
    assert np.isnan([*table.std_error, *table.bound, table.other_std_error]).all()
    document = json.loads(table.to_json(), parse_constant=pytest.fail)
    assert (
        document["rows"][0]["std_error"]
        is document["rows"][0]["bound"]
        is document["other_std_error"]
        is None
    )


@pytest.mark.parametrize("method", ["weighted", "lasso"])
@pytest.mark.parametrize("count", [3, 200, 400])
def test_reports_without_a_mark_are_decoded(method, count):
    counts = Counts(SCHEME)
    counts.reports[:5] = 10
    table = decode(counts, [f"w{n}" for n in range(count)], method=method)
    assert np.isfinite(table.estimate).all()
    assert not table.detected.any()


def test_candidates_beyond_the_rank_are_said_with_the_rank():
    counts = draw(SCHEME, SCHEME.members(WORDS), zipf(5000, 200, 200), np.random.default_rng(1))
    table = decode(counts, [f"w{n}" for n in range(300)])
    assert (table.identified, table.rank) == (False, 249)
    assert any("300 candidates and other strings, rank 249" in note for note in table.notes)


@pytest.mark.parametrize("method", ["weighted", "lasso", "likelihood"])
def test_twins_are_reported_and_counted_together(method):
    members = SCHEME.members(["a", "b"])
    given = CandidateMap(["a", "again", "b"], members[[0, 0, 1]])
    sent = ReportEncoder(SCHEME, seed=1).encode_many(np.repeat(["a", "b", "c"], [6000, 3000, 1000]))
    table = decode(sent, given, method=method)
    assert table.estimate[0] == table.estimate[1]
    assert abs(table.estimate[0] - 6000) < 5 * table.std_error[0] < 2000
    assert table.high[1] < 8000
    assert table.detected.all()
    assert not table.identified
    assert "1 candidates have the same cells" in table.notes[0]


def test_a_map_that_takes_every_cell_leaves_nothing_to_others():
    scheme = Rappor(bits=4, hashes=1, cohorts=1, f=0.25)
    given = CandidateMap(list("abcd"), np.arange(4, dtype=np.int32).reshape(4, 1, 1))
    clients = np.array([5000, 3000, 2000, 0])
    table = decode(draw(scheme, given.members, clients, np.random.default_rng(1)), given)
    assert np.all(np.abs(table.estimate - clients) < 5 * table.std_error)
    assert table.other == 0
    assert "assumed none" in table.notes[0]


def test_the_likelihood_needs_reports_and_fills_the_same_table():
    values = np.repeat(["w0", "w1", "w2"], [3000, 1500, 500])
    sent = ReportEncoder(SCHEME, seed=3).encode_many(values)
    with pytest.raises(ValueError, match="needs Reports"):
        decode(Counts(SCHEME).update(sent), WORDS[:5], method="likelihood")
    table = decode(sent, WORDS[:5], method="likelihood")
    truth = np.array([3000, 1500, 500, 0, 0])
    assert np.all((table.low - 200 <= truth) & (truth <= table.high + 200))
    assert table.detected.tolist() == [True, True, True, False, False]


def test_the_likelihood_states_its_unbiased_count_of_what_is_no_candidate():
    scheme, candidates = Rappor(bits=16, hashes=2, cohorts=4, f=0.6), ["a", *WORDS[:30]]
    values = ["a"] * 400 + [f"other {n}" for n in range(500)]
    sent = ReportEncoder(scheme, seed=1).encode_many(values)
    fit = maximize(sent, Design(scheme, candidates))
    table = decode(sent, candidates, method="likelihood")
    assert 0 < fit.other * 900 < fit.unconstrained_other - 100
    assert table.other == pytest.approx(min(fit.unconstrained_other, 900))
    assert table.other_std_error == pytest.approx(fit.unconstrained_other_std_error)


@pytest.mark.parametrize("method", ["weighted", "lasso", "likelihood"])
def test_reports_that_counts_refuse_or_saw_before_change_nothing(method):
    scheme = SubsetSelection(epsilon=2.0, cells=12, cohorts=4)
    sent = ReportEncoder(scheme, seed=3).encode_many(np.repeat(["w0", "w1"], [3000, 1500]))
    malformed = Reports(  # a cell too many, a cell beyond the last, a cohort that is not there
        scheme,
        np.array([0, 0, 4]),
        np.array([[255, 15], [1, 16], sent.payload[0]], np.uint8),
        np.arange(48, dtype=np.uint8).reshape(3, 16),
    )
    more = Reports.concat([malformed, sent, sent.take(np.arange(1000))])
    table, wanted = decode(more, WORDS[:3], method=method), decode(sent, WORDS[:3], method=method)
    assert (table.reports, table.other) == (4500, wanted.other)
    assert table.estimate.tolist() == wanted.estimate.tolist()
    assert table.high.tolist() == wanted.high.tolist()
    assert table.notes[0].startswith("1003 reports were left out: 1 for cohort, 2 for marks, 1000")


def test_the_table_is_written_in_three_ways_and_refuses_unknown_columns():
    counts = draw(SCHEME, SCHEME.members(WORDS), zipf(5000, 200, 200), np.random.default_rng(1))
    table = decode(counts, WORDS[:5], correction="bonferroni")
    rows = json.loads(table.to_json())["rows"]
    assert [row["value"] for row in rows] == [
        WORDS[n] for n in np.argsort(-table.estimate, kind="stable")
    ]
    assert table.to_arrow().column_names == list(rows[0])
    assert "w0" in str(table)
    ends = {
        line.index(line.split()[1]) + len(line.split()[1]) for line in str(table).split("\n")[:7]
    }
    assert len(ends) == 1  # one column, "(other)" in it too
    with pytest.raises(KeyError, match="columns are value"):
        table["other"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["weighted", "lasso", "likelihood"])
@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_few_reports_and_uninformative_sets_are_decoded(method, other, count):
    schemes = [
        Rappor(bits=1, hashes=1, cohorts=4, f=0.5),
        Rappor(bits=13, hashes=3, cohorts=7, f=0.5),
    ]
    for scheme in [*schemes, LocalHashing(1.0, cohorts=4, cells=2)]:
        sent = ReportEncoder(scheme, seed=1).encode_many(WORDS[:count])
        for some in (1, 6, 40):
            table = decode(sent, WORDS[:some], method=method, other=other)
            assert ((table.low >= 0) & (table.low <= table.estimate)).all()
            assert ((table.estimate <= table.high) & (table.estimate <= count)).all()
            assert ((table.p_value >= 0) & (table.p_value <= 1)).all()
            assert 0 <= table.other <= count


@pytest.mark.parametrize(
    "bad", [{"method": "ridge"}, {"level": 0.0}, {"correction": "holm"}, {"other": 1}]
)
def test_parameters_out_of_their_limits_are_refused(bad):
    with pytest.raises(TypeError, match="data must be Counts or Reports, not list"):
        decode([], WORDS)
    with pytest.raises(ValueError, match=f"decode: {next(iter(bad))} must be"):
        decode(Counts(SCHEME), WORDS, **bad)


def test_candidates_in_the_cell_of_all_others_are_noted():
    scheme = SubsetSelection(2.0, categories=["tea", "milk"], other=True)
    sent = ReportEncoder(scheme, seed=3).encode_many(["tea", "gin", "rum"] * 500)
    table = decode(Counts(scheme).update(sent), ["tea", "gin", "rum"])
    assert table.estimate[1] == table.estimate[2]
    assert any("the count of all of them together" in note for note in table.notes)


def test_the_printed_table_has_the_bound_beside_the_error():
    sent = ReportEncoder(SCHEME, seed=4).encode_many(["tea"] * 900)
    table = decode(Counts(SCHEME).update(sent), ["tea"])
    head, first = str(table).splitlines()[:2]
    assert head.split() == ["value", "estimate", "std_error", "bound", "p_value"]
    assert first.split()[3] == f"{table.bound[0]:,.0f}"


def test_a_candidate_is_tested_on_the_residuals_of_the_fit_of_all_others(monkeypatch):
    # Taken out of the fit, a candidate is 0 and the others move by their covariance.
    residuals, fits = {}, []

    def noted_fit(model, fit, positions):
        fits.append((model, fit))
        return without(model, fit, positions)

    def noted(cells, own, fractions, marked, extra, position, residual):
        residuals[int(position)] = residual.copy()
        return out(cells, own, fractions, marked, extra, position, residual)

    without, out = significance._without, significance._out
    monkeypatch.setattr(significance, "_without", noted_fit)
    monkeypatch.setattr(significance, "_out", noted)
    rng = np.random.default_rng(2)
    members = np.argsort(rng.random((30, 8, 32)), axis=2)[:, :, :2]
    decode(draw(SCHEME, members, zipf(20_000, 30, 20), rng), CandidateMap(range(12), members[:12]))
    model, fit = fits[0]
    assert len(residuals) > 3
    for position, residual in residuals.items():
        column = fit.covariance[:, position]
        others = fit.unconstrained - column * fit.unconstrained[position] / column[position]
        assert others[position] == pytest.approx(0, abs=1e-12)
        np.testing.assert_allclose(residual, model.residual(others), atol=1e-12)
