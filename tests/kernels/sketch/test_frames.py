"""Columns become orthonormal and rows equally long, even from ill-conditioned starts."""

import numpy as np
import pytest

from sfumato.kernels.sketch import projections as frames

RNG = np.random.default_rng(2)


def panelled(matrix):
    height, width = matrix.shape
    padded = np.zeros((height, -(-width // 16) * 16))
    padded[:, :width] = matrix
    return np.ascontiguousarray(padded.reshape(height, -1, 16).transpose(1, 0, 2))


@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 5), (40, 17), (64, 64), (200, 33)])
def test_columns_become_orthonormal_and_span_the_same(height, width):
    matrix = RNG.normal(size=(height, width))
    done, panels = np.empty((width, height)), panelled(matrix)
    frames.orthonormalise(panels, width, done)
    frames.orthonormalise(panels, width, done)
    np.testing.assert_allclose(done @ done.T, np.eye(width), atol=1e-13)
    upper = done @ matrix
    np.testing.assert_allclose(upper, np.triu(upper), atol=1e-9)
    assert (np.diag(upper) > 0).all()
    np.testing.assert_array_equal(panels, panelled(done.T))


def test_second_pass_repairs_nearly_equal_columns():
    matrix = np.ones((30, 3)) + 1e-9 * RNG.normal(size=(30, 3))
    done, panels = np.empty((3, 30)), panelled(matrix)
    frames.orthonormalise(panels, 3, done)
    assert np.abs(done @ done.T - np.eye(3)).max() > 1e-12
    frames.orthonormalise(panels, 3, done)
    np.testing.assert_allclose(done @ done.T, np.eye(3), atol=1e-13)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (5, 5), (6, 5), (40, 17), (500, 3)])
def test_rows_become_equally_long_and_the_frame_stays_tight(height, width):
    frame, _ = np.linalg.qr(RNG.normal(size=(height, width)))
    frames.even_rows(frame, np.empty(height))
    np.testing.assert_allclose((frame**2).sum(axis=1), width / height, rtol=1e-11)
    np.testing.assert_allclose(frame.T @ frame, np.eye(width), atol=1e-13)


def test_rows_of_zeros_become_as_long_as_the_others():
    frame = np.zeros((6, 2))
    frame[0, 0] = frame[1, 1] = 1
    frames.even_rows(frame, np.empty(6))
    np.testing.assert_allclose((frame**2).sum(axis=1), 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(frame.T @ frame, np.eye(2), atol=1e-14)
