"""Several parties: releases and shares of every backend, and releases that answer together."""

import numpy as np
import pytest

from sfumato.density import (
    NoiseSharing,
    SketchDensity,
    SketchSampler,
    combine,
    find_modes,
    grid_values,
    sum_shares,
)
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.statement import INSECURE, SYSTEM
from sfumato.sketch import CountMin, KernelFourier, KernelGrid, Race
from sfumato.sketch.kernel_sums.slices import KernelSlices
from sfumato.sketch.lsh import Angular, Euclidean

RANDOM = np.random.default_rng(8)
PARTS = np.split(RANDOM.uniform(0, 4, (400, 2)), 4)
QUERIES = RANDOM.uniform(0, 4, (10, 2))


def sketch(points=(), seed=0, rows=32):
    made = KernelFourier(1.0, ([0, 0], [4, 4]), rows=rows, seed=seed)
    return made.update(points) if len(points) else made


def seeded(seed):
    return InsecureSeededSource(seed)


def test_releases_answer_for_the_points_of_all():
    released = [sketch(part).release(1.0, source=seeded(i)) for i, part in enumerate(PARTS)]
    both = combine(released)
    noisy = sum(each._waves for each in released)
    full = sketch(np.concatenate(PARTS))
    exact = full.copy()
    exact._waves[...] = noisy
    np.testing.assert_allclose(both.estimate(QUERIES), exact.estimate(QUERIES), atol=1e-6)
    np.testing.assert_allclose(both.size(), sum(each.size() for each in released))
    np.testing.assert_allclose(both.mean(QUERIES), both.estimate(QUERIES) / both.size())
    assert both.noise_error() == pytest.approx(2 * released[0].noise_error())
    assert both.error_bound(0.9) == pytest.approx(sum(each.error_bound(0.975) for each in released))
    assert both.dimension == 2
    assert both.parameters["rows"] == 32


def test_the_noise_of_all_parties_adds_up():
    # 150 sums at 10 queries: off by 30 % with p < 1e-6, noise of 64 cells being nearly normal.
    raw = sum(sketch(part).estimate(QUERIES) for part in PARTS)
    off, error = [], 0.0
    for seed in range(150):
        released = [
            sketch(p).release(1.0, source=seeded(4 * seed + i)) for i, p in enumerate(PARTS)
        ]
        off.append(combine(released).estimate(QUERIES) - raw)
        error = combine(released).noise_error()
    assert abs(np.sqrt(np.mean(np.square(off))) / error - 1) < 0.3


def test_the_statement_says_what_is_guaranteed_alone_and_what_is_assumed():
    released = [sketch(PARTS[0]).release(0.5), sketch(PARTS[1]).release(0.25, 1e-6)]
    apart = combine(released, disjoint=True).statement
    assert (apart.epsilon, apart.delta) == (0.5, 1e-6)
    assert "own statement" in apart.covers
    assert "assumption" in apart.covers
    shared = combine(released).statement
    assert shared.epsilon == pytest.approx(0.5 + released[1].statement.epsilon)
    assert shared.delta == 1e-6
    assert "every party" in shared.covers
    assert shared.source == SYSTEM
    observed = combine([released[0], sketch(PARTS[1]).release(0.5, source=seeded(1))]).statement
    assert observed.source == INSECURE


def test_only_compatible_releases_are_combined():
    one = sketch(PARTS[0]).release(1.0)
    with pytest.raises(ValueError, match="seed is 0 in one and 1 in another"):
        combine([one, sketch(PARTS[1], seed=1).release(1.0)])
    with pytest.raises(ValueError, match="relation is 'add/remove' in one"):
        combine([one, sketch(PARTS[1]).release(1.0, relation="replace")])
    with pytest.raises(TypeError, match="one kind"):
        combine([one, CountMin(64).release(1.0)])
    with pytest.raises(ValueError, match="twice"):
        combine([one, one])
    for bad in ([], [sketch()], [one, None]):
        with pytest.raises(TypeError, match="must be releases"):
            combine(bad)


BACKENDS = {
    "race": lambda: Race(64, 64, Euclidean(bandwidth=1.0, bounds=(0, 4), dimension=2)),
    "grid": lambda: KernelGrid(1.0, ([0, 0], [4, 4])),
    "slices": lambda: KernelSlices(1.0, ([0, 0], [4, 4]), rows=16),
    "fourier": sketch,
}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_every_backend_is_shared_and_combined(make, delta):
    # Noise of an answer is a sum over 16 cells or more: 8 deviations at 10 queries have p < 1e-6.
    full = make().update(np.concatenate(PARTS)).estimate(QUERIES)
    terms = NoiseSharing(parties=4, epsilon=2.0, delta=delta, dropouts=1)
    result = sum_shares(
        [terms.share(make().update(PARTS[p]), p, source=seeded(p)) for p in range(4)]
    )
    apart = [make().update(PARTS[p]).release(2.0, delta, source=seeded(p)) for p in range(4)]
    for release in (result, combine(apart, disjoint=True)):
        assert (np.abs(release.estimate(QUERIES) - full) < 8 * release.noise_error()).all()
        assert abs(release.size() - 400) < 120
    assert result.noise_error() < combine(apart).noise_error()


@pytest.mark.filterwarnings("ignore:SketchDensity. epsilon .* is too small here:UserWarning")
@pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
def test_estimators_modes_and_pictures_answer_from_combined_releases(make):
    both = combine([make().update(part).release(2.0) for part in PARTS], disjoint=True)
    model = SketchDensity.from_release(both)
    expected = np.clip(both.estimate(QUERIES) / max(both.size(), 1), model.floor_, 1)
    np.testing.assert_allclose(model.density(QUERIES), expected)
    assert model.statement_ is both.statement
    assert find_modes(both, random_state=0)[0].shape[1] == 2
    assert grid_values(both, shape=3)[0].shape == (3, 3)
    with pytest.raises(ValueError, match="SketchDensity: a combination of releases has no file"):
        model.to_bytes()


@pytest.mark.filterwarnings("ignore:SketchSampler. epsilon .* is too small here:UserWarning")
def test_a_release_that_is_no_kernel_sum_is_refused_with_a_sentence():
    angular = Race(8, 8, Angular(2, 3))
    for other, kind in ((CountMin(64), "ReleasedCountMin"), (angular, "Race over Angular")):
        with pytest.raises(TypeError, match=f"or a release of one, not a {kind}"):
            SketchDensity.from_release(other.release(1.0))
    with pytest.raises(ValueError, match="SketchDensity: bandwidth is that of the release"):
        SketchDensity.from_release(sketch().release(1.0), bandwidth=3.0)
    taxi = Race(8, 8, Euclidean(bandwidth=1.0, bounds=(0, 4), dimension=2, p=1)).release(1.0)
    with pytest.raises(ValueError, match="not 'matched'"):
        SketchSampler.from_release(taxi).sample(1)
