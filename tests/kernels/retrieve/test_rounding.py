"""Rounded weights are near the weights: planes hold sign and magnitude, steps are chosen well."""

import numpy as np
import pytest

from sfumato.kernels.retrieve.weighted_scan import round_weights


def rounded(weights, precision):
    """The weights that planes and steps stand for, and their magnitudes."""
    words = -(-weights.shape[1] // 64)
    planes, steps, wholes = round_weights(weights, words, precision)
    bits = np.unpackbits(planes.view(np.uint8), axis=-1, bitorder="little").astype(np.int64)
    magnitude = 0
    for p in range(precision):
        magnitude = 2 * magnitude + bits[:, 1 + p]
    np.testing.assert_array_equal(wholes, magnitude.sum(1))
    out = steps[:, None] * (2 * bits[:, 0] - 1) * magnitude
    assert not magnitude[:, weights.shape[1] :].any()
    return out[:, : weights.shape[1]], magnitude


@pytest.mark.parametrize("precision", [1, 2, 4, 8])
def test_whole_multiples_of_a_step_are_kept_exactly(precision):
    top = 2**precision - 1
    levels = np.random.default_rng(precision).integers(-top, top + 1, (5, 100))
    levels[:, 0] = top
    weights = (levels * np.array([[0.25], [1], [3], [1e-20], [1e20]])).astype(np.float32)
    got, magnitude = rounded(weights, precision)
    np.testing.assert_array_equal(magnitude[:, :100], np.abs(levels))
    np.testing.assert_allclose(got, weights, rtol=1e-6)


@pytest.mark.parametrize(
    ("precision", "worst"), [(1, 0.20), (2, 0.050), (3, 0.0126), (4, 0.0033), (5, 0.00085)]
)
def test_error_on_gaussian_weights_is_less_than_without_clipping(precision, worst):
    # Share of squared length lost; the mean over 128,000 weights varies by less than 1 in 100.
    weights = np.random.default_rng(1).normal(size=(500, 256)).astype(np.float32)
    lost = np.mean((weights - rounded(weights, precision)[0]) ** 2)
    step = np.abs(weights).max(1, keepdims=True) / (2**precision - 1)
    widest = np.mean((weights - step * np.round(weights / step)) ** 2)
    assert lost < worst
    assert lost < widest


def test_one_large_weight_does_not_drown_the_others():
    weights = np.random.default_rng(2).normal(size=(20, 256)).astype(np.float32)
    weights[:, 7] = 12
    lost = np.sum((weights - rounded(weights, 4)[0]) ** 2, axis=1)
    step = np.abs(weights).max(1, keepdims=True) / 15
    widest = np.sum((weights - step * np.round(weights / step)) ** 2, axis=1)
    assert (lost <= 1.001 * widest).all()


def test_zero_weights_have_no_magnitude_and_leave_other_rows_alone():
    weights = np.random.default_rng(3).normal(size=(3, 70)).astype(np.float32)
    alone = rounded(weights[2:], 4)[0]
    weights[1] = 0
    got, magnitude = rounded(weights, 4)
    assert not magnitude[1].any()
    assert not got[1].any()
    np.testing.assert_array_equal(got[2:], alone)
