"""Flaws of the published code of private RACE, none of which is present here.

It divides its noise by the number of points, keeps raw counts beside the noisy ones in its pickles,
counts one cell a row where paired insertion changes two, and rounds noisy counts down.
"""

import pickle
from unittest.mock import patch

import numpy as np
import pytest

from sfumato.density import (
    NodeDensity,
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
    SketchSampler,
)
from sfumato.density.base import noise_from
from sfumato.density.regress.surrogate_loss import _Pairs, angle_sketch, lifted
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import KernelFourier, KernelGrid, KernelSlices, Moments, Race, Release
from sfumato.sketch.lsh import Angular, Euclidean
from support.release_plans import drawn, plan_of, without_noise

SQUARE = ([0.0, 0.0], [1.0, 1.0])
SKETCHES = {
    "Race": lambda: Race(8, 16, Euclidean(0.5, (0, 1), dimension=2)),
    "KernelGrid": lambda: KernelGrid(0.5, SQUARE),
    "KernelSlices": lambda: KernelSlices(0.5, SQUARE, rows=8),
    "KernelFourier": lambda: KernelFourier(0.5, SQUARE, rows=8),
    "Moments": lambda: Moments(SQUARE),
}
COMMON = dict(epsilon=1.0, bounds=(0, 1))


def edges(points):
    """An adjacency list for each point, by its two coordinates."""
    lists = np.arange(len(points)) + 100
    return np.c_[np.repeat(lists, 2), (np.abs(points[:, :2]) * 40).astype(int).reshape(-1)]


FITTED = {
    "SketchDensity": lambda p: SketchDensity(rows=16, width=16, backend="race", **COMMON).fit(p),
    "SketchSampler": lambda p: SketchSampler(bandwidth=0.2, **COMMON).fit(p),
    "SketchClassifier": lambda p: SketchClassifier(classes=[0, 1], bins=4, **COMMON).fit(
        np.c_[p, p], (p[:, 0] > 0.5).astype(int)
    ),
    "SketchAnomalyDetector": lambda p: SketchAnomalyDetector(projections=4, bins=8, **COMMON).fit(
        p
    ),
    "SketchRegressor": lambda p: SketchRegressor(target_bounds=(0, 1), **COMMON).fit(p, p[:, 0]),
    "angles": lambda p: SketchRegressor(
        target_bounds=(0, 1), method="angles", rows=16, **COMMON
    ).fit(p, p[:, 0]),
    "surrogate": lambda p: SketchRegressor(
        target_bounds=(0, 1), method="surrogate", rows=16, **COMMON
    ).fit(p, p[:, 0]),
    "NodeDensity": lambda p: NodeDensity(epsilon=1.0, rows=16, width=64).fit(edges(p)),
}


def points(count, seed):
    """So many points, about a tenth of them outside of the bounds."""
    return np.random.default_rng(seed).uniform(-0.03, 1.03, (count, 2))


def released(sketch, epsilon):
    return sketch.release(epsilon)


def noise_of(sketch, trials, seed):
    """Rows of the noise that releases at epsilon 1 get."""
    noisy = drawn(plan_of(released, sketch, 1.0), trials, InsecureSeededSource(seed))
    return noisy - without_noise(released, sketch)


@pytest.mark.parametrize("kind", SKETCHES)
def test_noise_does_not_fall_with_the_number_of_points(kind):
    few, many = (SKETCHES[kind]().update(points(n, n)) for n in (10, 2560))
    private_release = [sketch.release(1.0) for sketch in (few, many)]
    assert private_release[0].scale == private_release[1].scale
    assert private_release[0].noise_error() == private_release[1].noise_error()
    # The noise itself: divided by N, its mean square would fall to 1 / 65536. That of 60 releases
    # differs by a factor of 2 with p < 1e-6.
    squares = [(noise_of(sketch, 60, seed) ** 2).mean() for seed, sketch in enumerate((few, many))]
    assert 1 / 2 < squares[0] / squares[1] < 2


@pytest.mark.parametrize("kind", SKETCHES)
def test_mean_noise_is_zero_and_not_minus_one_half(kind):
    # The mean is within 5 deviations, with p < 1e-5 to fail. Race is small enough to show
    # it: a floor would move its mean by 20 deviations.
    sketch = SKETCHES[kind]().update(points(300, 1))
    if kind == "Race":
        sketch = Race(1, 4096, Euclidean(0.5, (0, 1), dimension=2)).update(points(300, 1))
    means = noise_of(sketch, 60, 5).mean(axis=1)
    deviation = means.std() / np.sqrt(means.size)
    assert abs(means.mean()) < 5 * deviation
    if kind == "Race":
        assert 20 * deviation < 0.5


def forced(same):
    """Releases all get the same noisy cells, so that what differs comes from elsewhere."""
    make = Release.__dict__["_make"].__func__

    def fixed(cls, parameters, arrays, statement):
        retained = same.setdefault(cls.__name__, {k: v.copy() for k, v in arrays.items()})
        return make(cls, parameters, {k: v.copy() for k, v in retained.items()}, statement)

    return patch.object(Release, "_make", classmethod(fixed))


def numbers(value, visited=()):
    """Every number that can be reached from a value, cells of arrays apart."""
    if isinstance(value, int | float | np.number):
        yield value
    inside = value if isinstance(value, list | tuple) else ()
    if isinstance(value, dict):
        inside = value.values()
    elif type(value).__module__.startswith("sfumato") and hasattr(value, "__dict__"):
        inside = vars(value).values()
    for one in inside:
        if id(one) not in visited:
            yield from numbers(one, (*visited, id(one)))


@pytest.mark.filterwarnings("ignore:Sketch.* is too small here:UserWarning")
@pytest.mark.parametrize("kind", FITTED)
def test_private_estimator_holds_nothing_but_its_release(kind):
    # With the noisy cells made equal, estimators of different points, numbers of points and points
    # outside are the same: in memory, pickled and in files.
    same, result = {}, []
    for count, seed in ((150, 1), (277, 2)):
        with forced(same), noise_from(InsecureSeededSource(1)):
            model = FITTED[kind](points(count, seed))
        result.append((pickle.dumps(vars(model)), pickle.dumps(model), model.to_bytes()))
    assert result[0] == result[1]


@pytest.mark.parametrize("kind", FITTED)
def test_private_estimator_has_no_raw_count_by_any_name(kind):
    outside = int((np.abs(points(2111, 3) - 0.5) > 0.5).any(axis=1).sum())
    with noise_from(InsecureSeededSource(2)):
        model = FITTED[kind](points(2111, 3))
    names = {*vars(model), *vars(model.release_), *model.release_._arrays()}
    assert not names & {"sketch_", "clipped_", "total", "clipped", "heaviest", "mass"}
    assert outside > 99
    assert not {2111, outside} & set(numbers(vars(model)))


def test_paired_insertion_is_charged_twice_the_rows():
    vectors = np.array([[1.0, 0.2], [0.3, 1.0]])
    race = Race(8, 4, Angular(2, 2)).update(np.vstack([vectors, -vectors]))
    once = race.release(1.0)
    both = race.release(1.0, unit="user", contributions=2)
    assert once.scale == 8 + once.counts
    assert both.scale == 2 * once.scale


def test_angles_need_no_second_insertion():
    # A row and its mirror agree in the same pairs of signs: the published paired insertion gives
    # the same estimates, hash by hash, for twice the sensitivity.
    rows = lifted(points(50, 4) * 2 - 1)
    one, two = (angle_sketch(2, 32, 0) for _ in range(2))
    one.update(rows)
    two.update(np.vstack([rows, -rows]))
    assert (one.total, two.total) == (50, 100)
    assert (one._table != two._table / 2).any()
    result, twice = (_Pairs.of(each).agreements for each in (one, two))
    np.testing.assert_allclose(result, twice, rtol=0, atol=1e-12)
