"""Nats in noised projections: determinants, exact sums of discrete noise, and the printed slip."""

import math

import numpy as np
import pytest

from sfumato.attack import bounds


def gaussian_information(covariance, first):
    """Mutual information of the first of jointly normal numbers and the others, by determinants."""
    logs = [
        np.linalg.slogdet(part)[1]
        for part in (covariance[:first, :first], covariance[first:, first:], covariance)
    ]
    return (logs[0] + logs[1] - logs[2]) / 2


@pytest.mark.parametrize(("dimensions", "size", "sigma"), [(1, 1, 0.5), (3, 4, 0.2), (5, 2, 3.0)])
def test_single_and_joint_nats_are_those_of_normal_codewords(dimensions, size, sigma):
    # The numbers X_1(i), ..., X_c(i) and their noised sum, in every dimension i.
    covariance = np.eye(size + 1) / dimensions
    covariance[-1, :-1] = covariance[:-1, -1] = 1 / dimensions
    covariance[-1, -1] = size / dimensions + sigma**2
    joint = dimensions * gaussian_information(covariance, size)
    one = np.delete(np.delete(covariance, range(1, size), 0), range(1, size), 1)
    assert bounds.jlt_joint(dimensions, size, sigma) == pytest.approx(joint)
    single = dimensions * gaussian_information(one, 1)
    assert bounds.jlt_single(dimensions, size, sigma) == pytest.approx(single)
    assert single <= joint / size + 1e-12


def sums(codeword, size):
    """Distribution of the sum of independent integer codewords of one dimension."""
    distribution = np.array([1.0])
    for _ in range(size):
        distribution = np.convolve(distribution, codeword)
    return distribution


@pytest.mark.parametrize("scale", [4, 9])
@pytest.mark.parametrize("sigma", [1.5, 6.0])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_joint_nats_bound_discrete_noise_on_integer_codewords(scale, sigma, size):
    # One dimension; codewords -scale, 0 or scale, of a mean square of at most scale**2.
    codeword = np.zeros(2 * scale + 1)
    codeword[[0, scale, -1]] = 0.45, 0.1, 0.45
    clean = sums(codeword, size)
    half_width = math.ceil(14 * sigma)
    noise = np.exp(-(np.arange(-half_width, half_width + 1.0) ** 2) / (2 * sigma**2))
    noise /= noise.sum()

    def entropy(distribution):
        return float(
            -(distribution[distribution > 0] * np.log(distribution[distribution > 0])).sum()
        )

    truth = entropy(np.convolve(clean, noise)) - entropy(noise)
    assert truth <= float(bounds.jlt_joint(1, size, sigma / scale)) + 1e-9
    assert truth <= size * scale**2 / (2 * sigma**2)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.6])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize(("dimensions", "size"), [(10, 1), (1000, 106), (50, 3000)])
def test_bounds_by_epsilon_hold_for_the_noise_they_ask_for(epsilon, delta, dimensions, size):
    assert epsilon < math.log(1 / delta)
    sigma = 4 / epsilon * math.sqrt(math.log(1 / delta))
    single = float(bounds.jlt_single(dimensions, size, sigma))
    joint = float(bounds.jlt_joint(dimensions, size, sigma)) / size
    assert single <= float(bounds.jlt_single_bound(epsilon, dimensions, size))
    assert joint <= float(bounds.jlt_joint_bound(epsilon))
    assert joint <= epsilon**2 / (32 * math.log(1 / delta))
    assert single <= 1 / (2 * (sigma**2 + (size - 1) / dimensions))
    assert joint <= 1 / (2 * sigma**2)


def test_the_printed_bound_of_one_item_is_false():
    sigma = 4 * math.sqrt(math.log(1e6))
    single = float(bounds.jlt_single(1000, 106, sigma))
    assert single > 1 / (32 + 2 * 105 * 1000)
    # Near the edge of what (3.10) allows, the corrected one is reached.
    epsilon = 13.8
    edge = 4 / epsilon * math.sqrt(math.log(1e6))
    near = float(bounds.jlt_single(10**6, 106, edge))
    assert near > 0.99 * float(bounds.jlt_single_bound(epsilon, 10**6, 106))


def test_without_noise_joint_information_is_infinite_and_single_is_not():
    assert bounds.jlt_joint(1000, 106, 0) == math.inf
    assert bounds.jlt_single(1000, 106, 0) == pytest.approx(500 * math.log1p(1 / 105))
    assert bounds.jlt_single(1000, 1, 0) == math.inf
    assert bounds.jlt_joint(1000, 0, 0) == 0
    assert bounds.jlt_joint([10, 100], [[1], [2], [3]], 1).shape == (3, 2)


def test_impossible_noise_is_refused():
    with pytest.raises(ValueError, match="jlt_single: sigma must be numbers from 0 up"):
        bounds.jlt_single(10, 1, -1)
    with pytest.raises(ValueError, match="jlt_joint: dimensions must be numbers from 1 up"):
        bounds.jlt_joint(0, 1, 1)
