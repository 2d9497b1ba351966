"""The backend and its rows follow from public numbers alone, and each answers for its kernel."""

import inspect

import numpy as np
import pytest

from sfumato.density import SketchDensity, base
from sfumato.density.backends import choose, described, make, suggested_rows
from sfumato.density.base import BACKENDS, noise_from
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch.kernel_sums.radial_kernels import profile

RNG = np.random.default_rng(0)
WORLDS = [
    np.zeros((1, 5)),
    RNG.normal(size=(3000, 5)),
    RNG.uniform(-9, 9, (50, 5)),
    np.full((500, 5), np.inf),
]


def chosen(dimension=2, **queries):
    usual = dict(backend="auto", kernel="p-stable", bandwidth=1.0, rows=None, width=64)
    private = dict(epsilon=1.0, delta=0.0, expected_size=None, seed=0)
    bounds = (0.0,) * dimension, (8.0,) * dimension
    return choose("test", **{**usual, **private, "bounds": bounds, **queries})


def test_the_choice_is_independent_of_the_data():
    public = {"backend", "kernel", "bandwidth", "bounds", "rows", "width", "epsilon", "delta"}
    public |= {"owner", "contributions", "expected_size", "seed"}
    assert set(inspect.signature(choose).parameters) == public


@pytest.mark.filterwarnings("ignore:SketchDensity. epsilon .* is too small here:UserWarning")
@pytest.mark.parametrize("kernel", ["p-stable", "gaussian"])
@pytest.mark.parametrize("dimension", [2, 5])
def test_a_private_fit_asks_for_the_same_sketch_whatever_the_data(kernel, dimension, monkeypatch):
    observed = []
    monkeypatch.setattr(base, "make", lambda setting: observed.append(setting) or make(setting))
    for points in WORLDS:
        model = SketchDensity(kernel=kernel, bandwidth=4.0, epsilon=2.0, bounds=(-9, 9), width=64)
        with noise_from(InsecureSeededSource(1)):
            model.fit(points[:, :dimension])
        assert described(model.release_).backend == model.backend_
    assert len(observed) == len(WORLDS)
    assert all(setting == observed[0] for setting in observed)


def test_auto_is_a_grid_where_one_fits_and_otherwise_by_dimension_and_kernel():
    assert chosen(1).backend == chosen(2).backend == chosen(3).backend == "grid"
    assert chosen(3, bandwidth=0.01).backend == "slices"
    assert chosen(5).backend == chosen(60).backend == "race"
    assert chosen(5, kernel="gaussian").backend == chosen(9, kernel="exponential").backend
    assert chosen(5, kernel="gaussian").backend == "fourier"
    assert chosen(4, backend="slices").backend == "slices"
    with pytest.raises(ValueError, match="test: backend 'race' has the kernel 'p-stable' only"):
        chosen(4, backend="race", kernel="gaussian")


@pytest.mark.parametrize("kernel", ["p-stable", "gaussian", "exponential"])
def test_four_columns_take_a_grid_if_epsilon_is_all_and_nodes_are_close(kernel):
    hashed = "race" if kernel == "p-stable" else "fourier"
    assert chosen(4, kernel=kernel).backend == "grid"
    assert chosen(4, kernel=kernel, bandwidth=0.31).backend == "grid"  # 26 bandwidths a side
    assert chosen(4, kernel=kernel, bandwidth=0.29).backend == hashed
    assert chosen(4, kernel=kernel, epsilon=None).backend == hashed
    assert chosen(4, kernel=kernel, delta=1e-6).backend == hashed
    assert chosen(4, kernel=kernel, epsilon=1e-3).backend == hashed


def test_rows_balance_hashing_and_noise():
    # Variance c**2 / rows + 2 rows / (epsilon size)**2, at every number of rows.
    rows = np.arange(1.0, 2049)
    for epsilon, size in ((0.1, 10_000), (1.0, 20_000), (0.02, 10**6)):
        result = suggested_rows("race", epsilon, 0.0, size)
        best = rows[np.argmin(0.016**2 / rows + 2 * rows / (epsilon * size) ** 2)]
        assert result == max(16, best) or abs(result - best) <= 1
    assert suggested_rows("race", 1e-6, 0.0, 10) == 16
    assert suggested_rows("race", 1e6, 0.0, 10**9) == 2048
    assert suggested_rows("race", None, 0.0, 10) == suggested_rows("race", 0.1, 1e-6, 10) == 2048
    assert chosen(5, rows=7).rows == 7
    assert chosen(5, expected_size=1000).rows < chosen(5, expected_size=10**5).rows


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dimension", [1, 3])
def test_every_backend_estimates_the_sums_of_its_kernel(backend, dimension):
    # Hash errors of 512 rows stay below 0.05 in these 30 answers; a wrong kernel is off by 0.1.
    points = RNG.normal(4, 1, (500, dimension))
    queries = points[:30].clip(0, 8)
    kernels = ["p-stable"] if backend == "race" else ["p-stable", "gaussian", "exponential"]
    for kernel in kernels:
        sketch = make(chosen(dimension, backend=backend, kernel=kernel, rows=512, bandwidth=2.0))
        far = np.sqrt(((queries[:, None] - points.clip(0, 8)) ** 2).sum(axis=2))
        exact = profile(kernel, far / 2.0).mean(axis=1)
        np.testing.assert_allclose(sketch.update(points).mean(queries), exact, atol=0.05)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_setting_is_described_by_its_sketch_and_release(backend):
    setting = chosen(2, backend=backend, rows=24, seed=5)
    released = [make(setting), make(setting).update([[1.0, 2.0]]).release(1.0)]
    for stored in released:
        again = described(stored)
        assert make(again) == make(setting)
        assert again.parameters()["backend"] == backend
        assert again.dimension == 2


@pytest.mark.filterwarnings("ignore:SketchDensity. epsilon .* is too small here:UserWarning")
def test_a_tiny_epsilon_takes_a_backend_whose_noise_fits():
    points = np.full((50, 3), 7.0)
    for more in (dict(epsilon=1e-3), dict(epsilon=0.1, unit="user", contributions=50)):
        model = SketchDensity(bandwidth=8, bounds=(0, 255), **more).fit(points)
        assert model.backend_ == "slices"
    assert SketchDensity(bandwidth=8, bounds=(0, 255), epsilon=0.1).fit(points).backend_ == "grid"


@pytest.mark.filterwarnings("ignore:SketchDensity. epsilon .* is too small here:UserWarning")
def test_slices_that_would_not_fit_are_replaced_by_race_or_fourier():
    wide = dict(bounds=((0.0, 0.0), (400.0, 40_000.0)), bandwidth=3.0, epsilon=1.0)
    assert chosen(**wide).backend == "race"
    assert chosen(**wide, kernel="gaussian").backend == "fourier"
    assert chosen(**wide, rows=16).backend == "slices"
    points = np.column_stack([RNG.uniform(18, 90, 200), RNG.uniform(0, 200_000, 200)])
    model = SketchDensity(bandwidth=3, epsilon=1, bounds=([18, 0], [90, 200_000])).fit(points)
    assert np.isfinite(model.score_samples(points)).all()
    model.set_params(kernel="gaussian", epsilon=None)
    with pytest.raises(ValueError, match=r"^SketchDensity: .*rescale the columns or widen"):
        model.fit(points)
