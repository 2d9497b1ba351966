"""The covariance of cells is that of the marks, found by listing all that a report can be."""

from fractions import Fraction
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.telemetry import CandidateMap, Rappor, decode
from sfumato.telemetry.decoding import design as _covariance
from sfumato.telemetry.decoding.design import Blocks, CellFractions, Design
from sfumato.telemetry.decoding.weighted_least_squares import LinearModel
from support.simulated_telemetry import draw

K, REPORTS = 5, 1000
FRACTIONS = np.array([0.5, 0.2])
SETS = {"bits": [[0, 1], [1, 3]], "symbol": [[0], [3]], "subset": [[0], [3]]}


def scheme(kind, high=Fraction(3, 4)):
    taken = {"bits": None, "symbol": 1, "subset": 2}[kind]
    low = Fraction(1, 4) if taken is None else (taken - high) / (K - 1)
    return SimpleNamespace(kind=kind, cells=K, cohorts=1, high=high, low=low)


def distribution(kind, own, low, high):
    """Every outcome of one report of a value with these cells, with its probability."""
    if kind == "bits":
        for marks in product((0, 1), repeat=K):
            probabilities = [high if i in own else low for i in range(K)]
            factors = np.where(marks, probabilities, 1 - np.array(probabilities))
            yield np.array(marks), factors.prod()
        return
    taken = 1 if kind == "symbol" else 2
    for cells in combinations(range(K), taken):
        inside = own[0] in cells
        among = len([c for c in combinations(range(K), taken) if (own[0] in c) == inside])
        yield np.isin(np.arange(K), cells) + 0, (high if inside else 1 - high) / among


@pytest.mark.parametrize("kind", ["bits", "symbol", "subset"])
def test_weights_are_the_inverse_of_the_listed_covariance(kind):
    params = scheme(kind)
    low, high = float(params.low), float(params.high)
    size = len(SETS[kind][0])
    others = list(combinations(range(K), size))
    values = [(0.5, SETS[kind][0]), (0.2, SETS[kind][1])]
    values += [(0.3 / len(others), list(cells)) for cells in others]
    first, second = np.zeros(K), np.zeros((K, K))
    for fraction, own in values:
        for marks, probability in distribution(kind, own, low, high):
            first += fraction * probability * marks
            second += fraction * probability * np.outer(marks, marks)
    covariance = (second - np.outer(first, first)) / REPORTS / (high - low) ** 2
    design = Design(params, CandidateMap(["a", "b"], np.array(SETS[kind])[:, None, :]))
    counts = SimpleNamespace(scheme=params, cells=np.zeros((1, K)), reports=np.array([REPORTS]))
    cells = CellFractions.counted(counts, design)
    weights = cells.weights(Blocks(design.matrix, 1), FRACTIONS, 0.3, 0.0)[0]
    centre = np.eye(K) - 1 / K  # sums of symbols and subsets do not vary, so carry no signal
    if kind == "bits":
        assert np.allclose(weights @ covariance, np.eye(K))
    else:
        assert np.allclose(centre @ weights @ covariance, centre)
    again = cells.weights(Blocks(design.matrix, 1), FRACTIONS, 0.3, 0.01)[0]
    sets = [np.isin(np.arange(K), own) for own in others]
    more = covariance + 0.01 * np.cov(np.array(sets).T.astype(float), bias=True)
    assert np.allclose(centre @ np.linalg.inv(again) @ centre, centre @ more @ centre)


def test_the_covariance_of_estimates_is_that_of_many_collections():
    # 200 collections of 4 cohorts with little noise, where drawing of cohorts counts as well. A
    # ratio of variances has a relative error of sqrt(2 / 200) = 10 %, times 4.5: 6e-6 a value.
    rng = np.random.default_rng(1)
    params = SimpleNamespace(
        kind="bits", cells=8, cohorts=4, high=Fraction(9, 10), low=Fraction(1, 10)
    )
    members = np.argsort(rng.random((5, 4, 8)), axis=2)[:, :, :2]
    clients = np.array([4000, 2500, 2000, 1000, 500])
    design = Design(params, CandidateMap(list("abcde"), members))
    unconstrained, result = [], []
    for _ in range(200):
        cells = CellFractions.counted(draw(params, members, clients, rng), design)
        fit = LinearModel(cells, design.matrix, closed=True).fit()
        drawn = fit.fractions * (1 - fit.fractions) / 10_000
        unconstrained.append(fit.unconstrained)
        result.append(fit.covariance.diagonal() - drawn)
    ratio = np.var(unconstrained, axis=0) / np.mean(result, axis=0)
    assert np.all(np.abs(ratio - 1) < 0.45)
    assert np.all(
        np.abs(np.mean(unconstrained, axis=0) * 10_000 - clients)
        < 5 * 10_000 * np.std(unconstrained, axis=0) / 14
    )


def test_cells_weighed_alone_give_nearly_the_same_fit(monkeypatch):
    # As for cells whose covariance exceeds memory; here of the same counts, both ways.
    rng = np.random.default_rng(2)
    params = Rappor(bits=64, hashes=2, cohorts=8, f=0.5)
    words = [f"w{n}" for n in range(300)]
    clients = (20_000 / np.arange(1, 301)).astype(np.int64)
    counts = draw(params, params.members(words), clients, rng)
    full = decode(counts, words[:20])
    monkeypatch.setattr(_covariance, "DENSE", 0)
    alone = decode(counts, words[:20])
    assert np.all(np.abs(alone.estimate - full.estimate) < 0.25 * full.std_error)
    assert np.all(np.abs(alone.std_error / full.std_error - 1) < 0.1)
    assert alone.dispersion == pytest.approx(full.dispersion, rel=0.2)


@pytest.mark.parametrize("extra", [0.0, 0.02])
def test_few_candidates_have_the_weights_and_the_fit_of_the_general_way(monkeypatch, extra):
    params = Rappor(bits=32, hashes=2, cohorts=6, f=0.25, p=0.25, q=0.75)
    design = Design(params, [f"word {number}" for number in range(9)])
    rng = np.random.default_rng(0)
    reports = np.array([400, 300, 0, 500, 1, 200])  # a cohort without, and one with a single one
    counts = SimpleNamespace(
        scheme=params, cells=rng.binomial(reports[:, None], 0.4, (6, 32)), reports=reports
    )
    cells, fractions = CellFractions.counted(counts, design), rng.dirichlet(np.ones(9)) * 0.8
    assert Blocks(design.matrix, 6).few
    assert cells.noisy

    def found():
        model = LinearModel(cells, design.matrix, closed=False)
        fit = model.fit()
        weights = cells.weights(model.blocks, fractions, 0.2, extra)
        return weights, fit.unconstrained, fit.covariance, fit.extra, model.dispersion(fit)[0]

    quick = found()
    assert not quick[0][2].any()
    monkeypatch.setattr(Blocks, "few", False)
    for ours, general in zip(quick, found(), strict=True):
        np.testing.assert_allclose(ours, general, rtol=1e-9, atol=1e-12)


def test_bits_with_hardly_any_noise_take_the_general_way():
    for f, noisy in ((0.5, True), (0.001, False)):
        params = Rappor(bits=32, hashes=2, cohorts=2, f=f, p=0.0, q=1.0)
        counts = SimpleNamespace(scheme=params, cells=np.zeros((2, 32)), reports=np.ones(2))
        assert CellFractions.counted(counts, Design(params, ["tea"])).noisy == noisy
