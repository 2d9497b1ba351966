"""The contract of every public mechanism, driven by what it declares and by its cases."""

import importlib
import inspect
import math
import pkgutil
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy import stats

from sfumato import privacy
from sfumato.privacy import mechanisms
from sfumato.privacy.accounting.losses import RELATIONS, Approximate, Loss
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.random_source import InsecureSeededSource
from support.mechanism_contract import MECHANISMS

CASES = [
    pytest.param(case, id=f"{name}{i}")
    for name, cases in MECHANISMS.items()
    for i, case in enumerate(cases)
]
every_case = pytest.mark.parametrize("case", CASES)
NO_VALUES = [None, "many", math.nan, math.inf, {"a": 1}]  # not one of them is a column of rows
NO_PARAMETERS = [object(), "no such thing", [1, 2]]
TRIALS = 3000


def public_mechanisms():
    """Every mechanism that a public module of ours defines or shows."""
    for module in pkgutil.iter_modules(privacy.__path__):
        if module.name.startswith("_"):
            continue
        found = importlib.import_module(f"sfumato.privacy.{module.name}")
        for name, kind in inspect.getmembers(found, inspect.isclass):
            public = kind.__module__ == found.__name__ and not name.startswith("_")
            public = public or name in getattr(found, "__all__", ())
            if public and issubclass(kind, Mechanism) and kind is not Mechanism:
                yield name


def unjoined(names, cases):
    """Public mechanisms without a case of their own class."""
    joined = {name for name, known in cases.items() if known}
    return sorted(set(names) - joined)


def test_every_public_mechanism_has_joined_the_contract():
    assert unjoined(public_mechanisms(), MECHANISMS) == []
    for name, cases in MECHANISMS.items():
        assert {type(case.mechanism).__name__ for case in cases} == {name}


def test_a_mechanism_without_a_case_is_noticed():
    names = [*MECHANISMS, "Forgotten"]
    assert unjoined(names, {**MECHANISMS, "Laplace": []}) == ["Forgotten", "Laplace"]
    assert "Laplace" in public_mechanisms()


def test_the_front_shows_every_mechanism():
    missing = set(public_mechanisms()) - set(mechanisms.__all__)
    assert not missing
    assert sorted(mechanisms.__all__) == mechanisms.__all__
    for name in mechanisms.__all__:
        assert inspect.getdoc(getattr(mechanisms, name))


@every_case
def test_domain_relation_sensitivity_and_cost_are_declared(case):
    mechanism = case.mechanism
    assert mechanism.domain
    assert mechanism.relation in RELATIONS
    assert mechanism.sensitivity > 0
    assert isinstance(mechanism.loss(), Loss)
    assert mechanism.loss().relation == mechanism.relation


@every_case
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_loss_is_under_the_requested_relation(case, relation):
    try:
        mechanism = replace(case.mechanism, relation=relation)
    except ValueError as refused:
        pytest.skip(f"the mechanism holds for one relation: {refused}")
    for loss in (mechanism.loss(), mechanism.loss(3)):
        assert loss.relation == relation
    assert mechanism.statement("event").relation == relation


@every_case
def test_cost_grows_with_distance(case):
    losses = [case.mechanism.loss(distance) for distance in (1, 2, 3, 10)]
    costs = [cost(loss) for loss in losses]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    assert {loss.relation for loss in losses} == {case.mechanism.relation}
    for distance in (0, -1, 1.5, None):
        with pytest.raises(ValueError, match=f"{type(case.mechanism).__name__}: distance"):
            case.mechanism.loss(distance)


def cost(loss):
    """Numbers that order losses of one kind: pure epsilon if there is one, else the others."""
    if isinstance(loss, Approximate):
        return (loss.bound, loss.delta)
    return (loss.epsilon,) if math.isfinite(loss.epsilon) else (math.inf, loss.rho)


@every_case
def test_the_cases_promise_is_near_one(case):
    # The audits of these cases read it so. Gaussian noise promises it at its delta.
    result = case.mechanism.statement("event")
    assert 0.5 <= result.epsilon <= 1.0 + 1e-9


@every_case
def test_statement_repeats_what_runs(case):
    result = case.mechanism.statement("event", source=InsecureSeededSource(1))
    assert result.relation == case.mechanism.relation
    assert Loss.from_dict(result.loss) == case.mechanism.loss()
    assert result.insecure
    assert result.proof == "proved"
    pure = case.mechanism.loss().epsilon
    assert result.delta > 0 if math.isinf(pure) else result.epsilon >= pure


@every_case
def test_run_and_sample_agree_in_distribution(case):
    # Two-sample Kolmogorov-Smirnov: a false alarm has p < 1e-7 (less still for discrete answers).
    value, source = case.neighbours[0], InsecureSeededSource(11)
    ran = [number(case.mechanism.run(value, source=source)) for _ in range(200)]
    sampled = case.mechanism.sample(value, 1500, source=source)
    assert len(sampled) == 1500
    one_answer = np.asarray(case.mechanism.run(value, source=source))
    assert np.asarray(sampled[0]).shape == one_answer.shape
    assert stats.ks_2samp(ran, [number(each) for each in sampled]).pvalue > 1e-7


def number(answer):
    """One number for an answer of any shape, in which each of its parts can be seen."""
    flat = np.asarray(answer, float).reshape(-1)
    return float(flat @ (1 + np.arange(flat.size)))


@every_case
def test_neighbours_are_distinguished_no_better_than_the_loss_allows(case):
    # Each answer of a case is one number or a few; likely ones are compared one by one. A ratio
    # over the claim by more than 6 deviations has p < 1e-8 for an honest mechanism.
    result = case.mechanism.statement("event")
    counts = [
        counted(case.mechanism.sample(value, TRIALS, source=InsecureSeededSource(seed)))
        for seed, value in enumerate(case.neighbours)
    ]
    for here, there in (counts, counts[::-1]):
        for answer, observed in here.items():
            other = there.get(answer, 0)
            bound = math.exp(result.epsilon)
            spare = 6 * math.sqrt(observed + bound**2 * (other + 1)) + result.delta * TRIALS
            assert observed <= bound * other + spare


def counted(answers):
    found, counts = np.unique(
        np.asarray(answers).reshape(len(answers), -1), axis=0, return_counts=True
    )
    return {row.tobytes(): int(count) for row, count in zip(found, counts, strict=True)}


@every_case
def test_a_seed_repeats_answers_and_nothing_else_does(case):
    value = case.neighbours[1]

    def answers(seed):
        source = InsecureSeededSource(seed) if seed is not None else None
        return np.asarray(case.mechanism.sample(value, 200, source=source))

    assert np.array_equal(answers(5), answers(5))
    assert not np.array_equal(answers(5), answers(6))
    assert not np.array_equal(answers(None), answers(None))  # equal with p < 1e-20


@every_case
def test_trials_are_checked(case):
    for bad in (0, -1, 2.5, "many", None):
        with pytest.raises(ValueError, match=f"{type(case.mechanism).__name__}: trials"):
            case.mechanism.sample(case.neighbours[0], bad)


@every_case
def test_bad_values_are_refused_by_name(case):
    owner = type(case.mechanism).__name__
    if owner in ("BinaryResponse", "KaryResponse"):  # one value is an entry, whatever it is
        assert {case.mechanism.run(bad) for bad in NO_VALUES} <= set(range(9))
        return
    for bad in NO_VALUES:
        for ask in (case.mechanism.run, lambda value: case.mechanism.sample(value, 2)):
            with pytest.raises((ValueError, TypeError), match=rf"{owner}: \w+"):
                ask(bad)


@every_case
def test_bad_parameters_are_refused_by_name(case):
    owner, limits = type(case.mechanism).__name__, getattr(case.mechanism, "LIMITS", {})
    for field in fields(case.mechanism):
        bad_ones = limits[field.name].bad() if field.name in limits else NO_PARAMETERS
        for bad in bad_ones:
            with pytest.raises((ValueError, TypeError), match=f"{owner}: {field.name}"):
                replace(case.mechanism, **{field.name: bad})


@every_case
def test_mechanisms_cannot_be_changed_and_compare_by_what_they_do(case):
    mechanism = case.mechanism
    with pytest.raises(AttributeError):
        mechanism.relation = "replace"
    assert replace(mechanism) == mechanism
