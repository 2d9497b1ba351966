"""Radial kernels: values, slices whose mean over directions is the kernel, and frequencies."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaincinv, ndtr

from sfumato.sketch.kernel_sums.radial_kernels import KINDS, frequencies, profile, slice_profile

RATIOS = np.array([0.05, 0.4, 1.0, 2.5])


def true(kind, ratio):
    """The kernels, the p-stable one by another formula than that of the package."""
    if kind == "gaussian":
        return np.exp(-(ratio**2) / 2)
    if kind == "exponential":
        return np.exp(-ratio)
    tail = 2 * ratio / np.sqrt(2 * np.pi) * (1 - np.exp(-1 / (2 * ratio**2)))
    return 2 * ndtr(1 / ratio) - 1 - tail


@pytest.mark.parametrize("kind", KINDS)
def test_profiles_are_the_kernels(kind):
    np.testing.assert_allclose(profile(kind, RATIOS), true(kind, RATIOS), rtol=1e-12)
    assert profile(kind, np.array([0.0, -1e-300, np.inf])).tolist() == [1, 1, 0]


@pytest.mark.parametrize("dimension", [2, 3, 4, 7, 55, 60, 61, 300, 3000])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_slice_over_directions_is_the_kernel(kind, dimension):
    # theta_1**2 has the distribution Beta(1/2, (d - 1)/2), here at 20,000 even quantiles.
    quantiles = (np.arange(20_000) + 0.5) / 20_000
    across = np.sqrt(betaincinv(0.5, (dimension - 1) / 2, quantiles))
    means = [slice_profile(kind, dimension, ratio * across).mean() for ratio in RATIOS]
    np.testing.assert_allclose(means, true(kind, RATIOS), atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_one_dimension_is_its_own_slice_and_three_are_the_derivative_of_t_k(kind):
    np.testing.assert_allclose(slice_profile(kind, 1, RATIOS), true(kind, RATIOS), atol=1e-9)
    h = 1e-5
    steps = ((RATIOS + h) * true(kind, RATIOS + h) - (RATIOS - h) * true(kind, RATIOS - h)) / 2 / h
    np.testing.assert_allclose(slice_profile(kind, 3, RATIOS), steps, atol=1e-8)


@pytest.mark.parametrize("dimension", [1, 2, 3, 6, 61, 2000])
@pytest.mark.parametrize("kind", KINDS)
def test_slices_start_at_one_are_even_and_vanish(kind, dimension):
    ends = slice_profile(kind, dimension, np.array([0.0, 1e-20, 1e12, np.inf]))
    np.testing.assert_allclose(ends, [1, 1, 0, 0], atol=1e-9)
    both = slice_profile(kind, dimension, np.array([-0.3, 0.3]))
    assert both[0] == both[1]
    assert (np.abs(slice_profile(kind, dimension, np.geomspace(1e-6, 1e3, 400))) <= 1).all()


@pytest.mark.parametrize("kind", ["gaussian", "p-stable"])
def test_slices_in_two_dimensions_agree_with_quadrature(kind):
    # E f(rho t) for rho with density r exp(-r**2 / 2): the triangle or the cosine.
    inner = np.cos if kind == "gaussian" else lambda x: max(0.0, 1 - x)
    for t in (0.2, 1.0, 3.0):
        value, _ = quad(lambda r, t=t: r * np.exp(-r * r / 2) * inner(r * t), 0, 12, points=[1 / t])
        assert abs(slice_profile(kind, 2, np.array([t]))[0] - value) < 1e-7


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_cosine_of_frequencies_is_the_kernel(kind, stratified):
    # The mean of 2**14 cosines has a deviation of at most 2**-7.5: 6 of them have p < 1e-8.
    waves = frequencies(kind, 2**14, 2, 5, stratified)
    for ratio in RATIOS:
        result = np.cos(waves @ [0.6 * ratio, 0.8 * ratio]).mean()
        assert abs(result - true(kind, ratio)) < 6 / 2**7.5
