"""Many candidates at once: estimates are normal around the truth with the variance they state."""

import numpy as np
import pytest

from sfumato.telemetry import (
    Counts,
    LocalHashing,
    Rappor,
    ReportEncoder,
    SubsetSelection,
    decode,
)
from sfumato.telemetry.decoding.design import CellFractions, Design
from sfumato.telemetry.decoding.empirical_bayes import message_passing, shrunk_toward_others
from support.simulated_telemetry import draw

DOMAIN = [f"value {n}" for n in range(100)]
SCHEME = Rappor(bits=32, hashes=2, cohorts=8, f=0.5)


@pytest.mark.parametrize("count", [150, 400])
def test_estimates_have_no_bias_and_the_stated_variance(count):
    # 248 degrees of freedom. Half of the candidates are absent; 20 collections, each with other
    # cells. Candidates of a collection share its noise, so a collection counts as about 100 values:
    # the mean of z has an error of 0.03, that of z**2 of 0.04; five of them have p < 1e-6.
    rng, z = np.random.default_rng(count), []
    clients = np.zeros(1000, np.int64)
    clients[: 1000 - count // 2] = 30_000 / np.arange(1, 1001 - count // 2)
    queries = [*range(count // 2), *range(1000 - count // 2, 1000)]
    for run in range(20):
        words = [f"{run} {n}" for n in range(1000)]
        counts = draw(SCHEME, SCHEME.members(words), clients, rng)
        design = Design(SCHEME, [words[n] for n in queries])
        fit = message_passing(CellFractions.counted(counts, design), design.sums)
        assert fit.converged
        z.append((fit.unbiased - clients[queries] / clients.sum()) / np.sqrt(fit.variance))
    assert abs(np.mean(z)) < 0.15
    assert abs(np.mean(np.square(z)) - 1) < 0.2
    assert 0.93 < np.mean(np.abs(z) < 1.96) < 0.97


def test_shrinking_keeps_the_sum_and_lowers_the_error():
    words = [f"w{n}" for n in range(600)]
    clients = np.zeros(600, np.int64)
    clients[:300] = 20_000 / np.arange(1, 301)
    counts = draw(SCHEME, SCHEME.members(words), clients, np.random.default_rng(1))
    design = Design(SCHEME, words)
    fit, truth = (
        message_passing(CellFractions.counted(counts, design), design.sums),
        clients / clients.sum(),
    )
    assert np.mean((fit.fractions - truth) ** 2) < 0.5 * np.mean((fit.unbiased - truth) ** 2)
    assert 0.7 < fit.fractions.sum() < 1.1
    table = decode(counts, words)
    assert (table.low <= table.estimate).all()
    assert np.allclose(table.estimate[table.detected] / clients.sum(), fit.unbiased[table.detected])


def test_many_cells_without_noise_are_solved():
    scheme = Rappor(bits=16, hashes=2, cohorts=8, f=0.0)
    words = [f"w{n}" for n in range(140)]
    clients = np.zeros(140, np.int64)
    clients[:10] = 1000 * np.arange(10, 0, -1)
    counts = draw(scheme, scheme.members(words), clients, np.random.default_rng(1))
    table = decode(counts, words)
    assert table.detected[:10].all()
    assert table.detected[10:].sum() <= 3
    assert np.abs(table.estimate - clients)[:10].max() < 1500


def test_a_large_count_hardly_depends_on_whether_its_test_passed():
    # At level 1e-12 nearly nothing is detected. Of posterior means alone, those of counts from 3
    # to 5 standard errors would be 0.77 of the unbiased estimates; deterministic, seeds are fixed.
    rng, shown = np.random.default_rng(3), []
    clients = np.zeros(300, np.int64)
    clients[:150] = 30_000 / np.arange(1, 151)
    for run in range(6):
        words = [f"{run} {n}" for n in range(300)]
        counts = draw(SCHEME, SCHEME.members(words), clients, rng)
        design = Design(SCHEME, words)
        fit = message_passing(CellFractions.counted(counts, design), design.sums)
        z = fit.unbiased / np.sqrt(fit.variance)
        table = decode(counts, words, level=1e-12)
        clear = (z > 3) & (z < 5) & ~table.detected
        shown += (table.estimate[clear] / clients.sum() / fit.unbiased[clear]).tolist()
        assert np.all(table.estimate[z < 1] < 0.8 * clients.sum() * np.sqrt(fit.variance[z < 1]))
    assert len(shown) > 20
    assert np.mean(shown) > 0.88


@pytest.mark.parametrize("scheme", [LocalHashing(2), SubsetSelection(2, categories=DOMAIN)])
def test_counts_within_the_noise_are_nearer_than_zeros_or_the_nonnegative_fit(scheme):
    # 99 values of 100 clients each, whose standard error is 120, and one of 20,000: the error of a
    # nonnegative fit is about 85, of zeros 100; that of the shrunk below 50, deterministic.
    clients = np.append(np.full(99, 100), 20_000)
    values = np.repeat(np.array(DOMAIN, object), clients)
    sent = ReportEncoder(scheme, seed=4).encode_many(values.tolist())
    table = decode(Counts(scheme).update(sent), DOMAIN)
    rest = np.sqrt(np.mean((table.estimate - clients)[:99] ** 2))
    assert rest < 50
    assert abs(table.estimate[99] - 20_000) < 5 * table.std_error[99]
    assert np.all((table.low <= table.estimate) & (table.estimate <= table.high))
    if scheme.domain is not None:
        assert table.estimate.sum() == pytest.approx(len(sent))


def test_few_candidates_and_exact_counts_are_not_shrunk():
    fractions = np.array([0.2, 0.0, 0.1])
    assert shrunk_toward_others(fractions, np.ones(3), fractions, closed=False) is fractions
    many = np.linspace(0, 0.1, 20)
    assert shrunk_toward_others(many, np.zeros(20), many, closed=False) is many
