"""One draw of a posterior: exact masses of all neighbours, the theorem's constants, the sampler."""

import itertools
import math
from dataclasses import fields, replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.privacy.mechanisms.posterior_sampling import (
    STEP,
    BetaBernoulli,
    DirichletMultinomial,
    GaussianMean,
    PosteriorSample,
)
from sfumato.privacy.random_source import InsecureSeededSource

GAUSS = GaussianMean(0, 4, 2, 5, 1, 3, cells=4)
MODELS = {
    "Beta": (BetaBernoulli(0.1, 5, 2, 3), range(2)),
    "Beta, nearer to 0 and 1": (BetaBernoulli(0.001, 9), range(2)),
    "Dirichlet": (DirichletMultinomial(3, 6, 0.5), range(3)),
    "Gauss": (GAUSS, range(5)),
}
BOTH = ["add/remove", "replace"]


def log_law(model, counts, power):
    weights = model.log_prior + float(power) * (np.asarray(counts) @ model.log_likelihood)
    weights = weights * float(STEP)
    return weights - np.logaddexp.reduce(weights)


def worst_ratio(model, relation, power, rows=5):
    size = model.log_likelihood.shape[0]
    distributions = {
        counts: log_law(model, counts, power)
        for counts in itertools.product(range(rows + 1), repeat=size)
        if sum(counts) <= rows
    }
    one = np.eye(size, dtype=int)
    moves = [a - b for a in one for b in one] if relation == "replace" else list(one)
    pairs = ((c, tuple((np.array(c) + m).tolist())) for c in distributions for m in moves)
    return max(
        np.abs(distributions[a] - distributions[b]).max() for a, b in pairs if b in distributions
    )


@pytest.mark.parametrize("relation", BOTH)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("epsilon", [0.3, 1, 1000])
def test_all_neighbours_of_small_data_stay_within_the_claim(name, relation, epsilon):
    model, _ = MODELS[name]
    mechanism = PosteriorSample(model, epsilon, relation=relation)
    claim = mechanism.loss().epsilon
    assert claim <= epsilon
    # The last digits of the float arithmetic of this test are allowed for.
    assert worst_ratio(model, relation, mechanism.power) <= claim * (1 + 1e-9)


@pytest.mark.parametrize("relation", BOTH)
def test_the_claim_is_nearly_reached(relation):
    # Many rows of 1 keep the posterior at one end; one row of 0 then moves the other end by R.
    model, rows = BetaBernoulli(0.2, 5), 30
    mechanism = PosteriorSample(model, 1000, relation=relation)
    less = 1 if relation == "replace" else 0
    one, other = (0, rows), (1, rows - less)
    moved = np.abs(log_law(model, one, 1) - log_law(model, other, 1)).max()
    assert 0.98 * mechanism.loss().epsilon < moved <= mechanism.loss().epsilon


def test_the_power_is_the_smaller_of_one_and_the_share_of_epsilon():
    model = BetaBernoulli(0.1, 5)
    assert PosteriorSample(model, 1000).power == 1
    tempered = PosteriorSample(model, Fraction(1, 2))
    assert tempered.power * tempered.sensitivity == Fraction(1, 2)
    # The larger of the two, as printed in one of our sources, breaks the claim.
    larger = max(Fraction(1), Fraction(1, 2) / tempered.sensitivity)
    assert worst_ratio(model, "add/remove", larger) > 2 * tempered.loss().epsilon


@pytest.mark.parametrize("name", MODELS)
def test_four_b_for_replace_and_two_b_for_add_remove_are_never_exceeded(name):
    model, _ = MODELS[name]
    bound = float(np.abs(model.log_likelihood).max() * STEP)
    assert PosteriorSample(model, 10**6).loss().epsilon <= 2 * bound
    assert PosteriorSample(model, 10**6, relation="replace").loss().epsilon <= 4 * bound
    if (model.log_likelihood <= 0).all():  # a probability: half of it
        assert PosteriorSample(model, 10**6).loss().epsilon <= bound


def test_one_row_moves_the_posterior_as_the_models_say():
    for model, r in [
        (BetaBernoulli(0.01, 99), math.log(99)),
        (DirichletMultinomial(4, 20), math.log(17)),
        (GaussianMean(0, 100, 20, 201, 50, 30), 100**2 / (2 * 20**2)),
    ]:
        assert float(PosteriorSample(model, 1).sensitivity) == pytest.approx(r, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_draws_follow_the_exact_posterior(name):
    # Each point's frequency in 4000 draws lies within 6 deviations: p < 1e-7 over all points.
    model, values = MODELS[name]
    column = np.array([*values, values[0], values[0]])
    mechanism = PosteriorSample(model, 2)
    draws = mechanism.sample(column, 4000, source=InsecureSeededSource(3))
    distribution = np.exp(log_law(model, model.counts(column), mechanism.power))
    for point, probability in zip(model.grid, distribution, strict=True):
        same = (draws == point).reshape(4000, -1).all(axis=1).sum()
        assert abs(same - 4000 * probability) <= 6 * math.sqrt(4000 * probability) + 4


def test_an_untempered_posterior_is_the_conjugate_one():
    rng = np.random.default_rng(1)
    rows = (rng.random(400) < 0.3).astype(int)
    distribution = np.exp(log_law(BetaBernoulli(0.001, 999, 2, 5), np.bincount(rows), 1))
    mean = (distribution * np.linspace(0.001, 0.999, 999)).sum()
    assert mean == pytest.approx((2 + rows.sum()) / (7 + 400), abs=1e-4)
    model, rows = GaussianMean(0, 10, 3, 1001, 5, 2, cells=2048), rng.normal(4, 1, 50)
    distribution = np.exp(log_law(model, model.counts(rows), 1))
    weights = np.array([1 / 2**2, 50 / 3**2])
    expected = (weights * [5, rows.mean()]).sum() / weights.sum()
    assert (distribution * model.grid).sum() == pytest.approx(expected, abs=0.01)


def test_many_rows_give_a_draw_near_the_truth():
    # Each draw's probability to be farther away is summed from its exact distribution: p < 1e-6.
    rng, source = np.random.default_rng(2), InsecureSeededSource(2)
    kinds = [0.1, 0.2, 0.3, 0.4]
    for model, rows, truth, near in [
        (BetaBernoulli(0.01, 99), (rng.random(100_000) < 0.3).astype(int), 0.3, 0.021),
        (DirichletMultinomial(4, 20), rng.choice(4, 100_000, p=kinds), kinds, 0.06),
        (GaussianMean(100, 220, 30, 121, 160, 50), rng.normal(170, 10, 100_000), 170, 3),
    ]:
        mechanism = PosteriorSample(model, 1)
        distribution = np.exp(log_law(model, model.counts(rows), mechanism.power))
        away = np.abs(model.grid - truth).reshape(distribution.size, -1).max(axis=1)
        assert distribution[away > near].sum() < 1e-6
        assert np.abs(mechanism.run(rows, source=source) - truth).max() <= near


def test_clipped_rows_move_no_more_than_the_bounds():
    assert (GAUSS.counts([-1e9, 1e300]) == GAUSS.counts([0, 4])).all()
    assert GAUSS.counts([]).sum() == 0


def test_no_rows_give_a_draw_of_the_prior():
    drawn = PosteriorSample(BetaBernoulli(0.25, 3), 1).sample([], 10)
    assert set(drawn) <= {0.25, 0.5, 0.75}


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "much", None, True])
def test_bad_epsilon_is_named(epsilon):
    with pytest.raises(ValueError, match="PosteriorSample: epsilon"):
        PosteriorSample(GAUSS, epsilon)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: BetaBernoulli(0, 5), "margin"),
        (lambda: BetaBernoulli(0.5, 5), "margin"),
        (lambda: BetaBernoulli(1e-30, 5), "margin"),
        (lambda: BetaBernoulli(0.1, 1), "points"),
        (lambda: BetaBernoulli(0.1, 5, alpha=math.inf), "alpha"),
        (lambda: DirichletMultinomial(1, 5), "categories"),
        (lambda: DirichletMultinomial(30, 90), "parts"),
        (lambda: DirichletMultinomial(5, 5), "parts"),
        (lambda: GaussianMean(0, math.inf, 1, 5, 0, 1), "high"),
        (lambda: GaussianMean(2, 1, 1, 5, 0, 1), "low"),
        (lambda: GaussianMean(0, 1, 0, 5, 0, 1), "deviation"),
        (lambda: GaussianMean(0, 1, 1, 5, 0, 1, cells=0), "cells"),
        (lambda: PosteriorSample(GaussianMean(0, 1e9, 1, 5, 0, 1), 1), "GaussianMean"),
        (lambda: PosteriorSample(GaussianMean(0, 1, 1, 5, 1e9, 1), 1), "GaussianMean"),
        (lambda: PosteriorSample(BetaBernoulli(0.49999999999, 5), 1), "model"),
    ],
)
def test_bad_models_are_named(build, name):
    with pytest.raises(ValueError, match=name):
        build()


@pytest.mark.parametrize(
    "model",
    [BetaBernoulli(0.1, 5), DirichletMultinomial(2, 5), GAUSS],
    ids=lambda model: type(model).__name__,
)
def test_every_parameter_of_a_model_has_a_limit(model):
    assert {field.name for field in fields(model)} == set(model.LIMITS)
    for name, limit in model.LIMITS.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=f"^{type(model).__name__}: {name} must be"):
                replace(model, **{name: bad})


@pytest.mark.parametrize("missing", ["grid", "log_prior", "log_likelihood", "counts"])
def test_a_model_that_lacks_a_part_is_refused_when_built(missing):
    parts = {"grid", "log_prior", "log_likelihood", "counts"} - {missing}
    lacking = SimpleNamespace(**{part: getattr(GAUSS, part) for part in parts})
    with pytest.raises(TypeError, match=f"PosteriorSample: model must have .* without {missing}"):
        PosteriorSample(lacking, 1)


@pytest.mark.parametrize("malformed", [77, -1, "77", "a", None, math.nan, [1], {}, 10**400])
def test_a_row_that_fits_no_value_is_left_out_and_changes_no_other(malformed):
    beta, gauss = BetaBernoulli(0.1, 5), GAUSS
    assert beta.counts([0, 1, malformed]).tolist() == [1, 1]
    near = gauss.counts([0.5, 1, malformed]) - gauss.counts([0.5, 1])
    assert near.min() >= 0
    assert near.sum() <= 1


def test_columns_are_read_by_value_and_infinite_rows_are_clipped():
    beta = BetaBernoulli(0.1, 5)
    for column in ([0, 1, 1], ["0", "1", 1.0], np.ma.array([0, 1, 1]), [0, 1, True]):
        assert beta.counts(column).tolist() == [1, 2]
    assert GAUSS.counts([math.inf]).tolist() == GAUSS.counts([1e300]).tolist()
    for column in (7, "77", {1: 2}, np.zeros((2, 2))):
        with pytest.raises(ValueError, match="PosteriorSample: value must be one column"):
            PosteriorSample(beta, 1).run(column)
