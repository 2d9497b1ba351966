"""Modes of known mixtures are found where they are; noise alone makes none."""

import warnings

import numpy as np
import pytest

from sfumato.density import SketchDensity, find_modes
from sfumato.density.backends import Setting, make
from sfumato.density.base import BACKENDS, noise_from
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import KernelGrid

BOX = (-5.0, 5.0)
TWO = np.array([[-2.5, -2.0], [2.0, 2.5]])
SIX = np.array([[3, 3, -2, 0, 1, -3], [-2, -3, 3, 1, -2, 2], [0, 0, 0, -3, 3, 3]], float)


def mixture(centres, shares, size, seed=0):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(centres), size, p=shares)
    return centres[chosen] + rng.normal(0, 0.7, (size, centres.shape[1]))


def farthest(centres, positions):
    """How far the worst served centre is from the nearest mode."""
    return max(np.linalg.norm(positions - centre, axis=1).min() for centre in centres)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_two_modes_are_found_in_order_by_every_backend(backend, epsilon):
    kernel = "p-stable" if backend == "race" else "gaussian"
    with noise_from(InsecureSeededSource(1)):
        model = SketchDensity(
            backend=backend, kernel=kernel, bandwidth=1.0, epsilon=epsilon, bounds=BOX
        ).fit(mixture(TWO, [0.7, 0.3], 20_000))
    positions, values = find_modes(model, random_state=0)
    assert len(positions) == 2
    assert np.linalg.norm(positions - TWO, axis=1).max() < 0.5
    assert values[0] > values[1]
    np.testing.assert_allclose(values, model.density(positions))


def test_three_modes_in_six_dimensions():
    with noise_from(InsecureSeededSource(1)):
        model = SketchDensity(bandwidth=1.5, epsilon=2.0, bounds=BOX, rows=512)
        model.fit(mixture(SIX, [0.4, 0.3, 0.3], 20_000))
    positions, _ = find_modes(model, 3, random_state=0)
    assert len(positions) == 3
    assert farthest(SIX, positions) < 1.0


@pytest.mark.filterwarnings("ignore:find_modes. .* modes at the bounds:UserWarning")
@pytest.mark.parametrize("backend", BACKENDS)
def test_noise_alone_makes_no_mode(backend):
    # A release of one point: values are noise. A false mode has a probability of about 1 in 30.
    setting = Setting(backend, "p-stable", 1.0, ((-5.0,) * 2, (5.0,) * 2), 64, 64, 0)
    for seed in range(2):
        released = make(setting).update([[0, 0]]).release(0.5, source=InsecureSeededSource(seed))
        assert find_modes(released, random_state=seed)[0].shape == (0, 2)
        assert len(find_modes(released, threshold=0, random_state=seed)[0]) > 0


def test_a_shoulder_within_the_noise_is_not_a_mode_of_its_own():
    near = np.array([[-0.6, 0.0], [0.6, 0.0]])  # one mode once smoothed with bandwidth 1
    with noise_from(InsecureSeededSource(1)):
        model = SketchDensity(kernel="gaussian", bandwidth=1.0, epsilon=0.5, bounds=BOX)
        model.fit(mixture(near, [0.5, 0.5], 5000))
    assert len(find_modes(model, random_state=0)[0]) == 1


def test_a_plateau_is_one_mode_however_noise_ripples_it():
    points = np.random.default_rng(0).uniform(-2, 2, (4000, 1))
    with noise_from(InsecureSeededSource(0)):
        shrunk = SketchDensity(kernel="gaussian", bandwidth=0.4, epsilon=0.03, bounds=BOX)
        shrunk.fit(points)
        sketch = KernelGrid(0.4, ([BOX[0]], [BOX[1]]), kernel="gaussian").update(points)
        model = sketch.release(0.03, source=InsecureSeededSource(0))
    assert len(find_modes(shrunk, threshold=0.1, random_state=0)[0]) == 1
    assert len(find_modes(model, random_state=0)[0]) == 1
    assert len(find_modes(model, threshold=0.1, random_state=0)[0]) > 1


def test_bounds_and_number_limit_the_modes():
    model = SketchDensity(kernel="gaussian", bandwidth=1.0, bounds=BOX)
    model.fit(mixture(TWO, [0.7, 0.3], 5000))
    assert len(find_modes(model, 1, random_state=0)[0]) == 1
    positions, _ = find_modes(model, bounds=(0, 5), random_state=0)
    assert len(positions) == 1
    assert np.linalg.norm(positions[0] - TWO[1]) < 0.3
    again = find_modes(model.sketch_, random_state=0)
    np.testing.assert_array_equal(again[0], find_modes(model, random_state=0)[0])


def test_what_has_no_density_is_refused():
    with pytest.raises(TypeError, match="find_modes: source must be an estimator, a sketch or a"):
        find_modes(3)
    for invalid, name in ((dict(n=0), "n"), (dict(threshold=-1), "threshold")):
        model = SketchDensity(bounds=BOX).fit(TWO)
        with pytest.raises(ValueError, match=f"find_modes: {name} must be"):
            find_modes(model, **invalid)


def test_modes_at_the_bounds_warn_if_rows_may_have_been_clipped():
    rows = mixture(TWO, [0.7, 0.3], 5000)
    options = dict(kernel="gaussian", bandwidth=0.5, epsilon=1.0)
    with noise_from(InsecureSeededSource(1)):
        misplaced = SketchDensity(**options, bounds=(-5, 5)).fit(1000 * rows)
        right = SketchDensity(**options, bounds=(-5, 5)).fit(rows)
    words = "modes at the bounds: are the bounds in the unit of the data"
    with pytest.warns(UserWarning, match=words) as result:
        find_modes(misplaced, random_state=0)
    assert len(result) == 1
    assert result[0].filename == __file__
    low = np.append(np.zeros(5000), np.linspace(0, 10, 1000))[:, None]
    bare = SketchDensity(kernel="gaussian", bandwidth=0.5).fit(low)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_modes(right, random_state=0)
        assert find_modes(bare, 1, random_state=0)[0][0, 0] < 0.25  # at a side, and none clipped
    clipped = SketchDensity(kernel="gaussian", bandwidth=0.5, bounds=(-5, 5)).fit(1000 * rows)
    with pytest.warns(UserWarning, match=words):
        find_modes(clipped, random_state=0)


def test_a_box_narrower_than_its_bandwidth_still_has_a_middle():
    rows = np.random.default_rng(0).normal(0.5, 0.05, (5000, 1)).clip(0.1)
    model = SketchDensity(kernel="gaussian", bandwidth=1.2, epsilon=5.0, bounds=(0, 1)).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_modes(model, threshold=0, random_state=0)
