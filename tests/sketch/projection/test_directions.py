"""Directions have the geometry their name says, are shared while in use, and never change."""

import gc
import hashlib
import weakref

import numpy as np
import pytest

from sfumato.sketch import CosineSketch
from sfumato.sketch.projection.directions import dense, directions, product


def made(kind, count, dimension, seed=5):
    return dense(directions(kind, count, dimension, seed), count)


@pytest.mark.parametrize(("count", "dimension"), [(1, 1), (7, 12), (24, 24), (17, 40)])
def test_orthogonal_directions_are_orthonormal(count, dimension):
    matrix = made("orthogonal", count, dimension)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(count), atol=1e-13)


@pytest.mark.parametrize(("count", "dimension"), [(5, 12), (24, 12), (40, 12), (9, 1)])
def test_super_bits_are_orthonormal_in_batches_and_batches_differ(count, dimension):
    matrix = made("super-bit", count, dimension)
    for start in range(0, count, dimension):
        batch = matrix[start : start + dimension]
        np.testing.assert_allclose(batch @ batch.T, np.eye(len(batch)), atol=1e-13)
    if count > dimension > 1:
        assert np.abs(matrix[:dimension] @ matrix[dimension:].T).max() < 0.999


@pytest.mark.parametrize(("count", "dimension"), [(1, 1), (12, 12), (13, 12), (100, 12), (9, 1)])
def test_frame_is_tight_and_of_unit_vectors(count, dimension):
    matrix = made("frame", count, dimension)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(dimension) * count / dimension, atol=1e-12)
    np.testing.assert_allclose((matrix**2).sum(axis=1), 1, rtol=1e-11)


@pytest.mark.parametrize("kind", ["gaussian", "orthogonal", "frame"])
def test_each_direction_is_uniform_on_the_sphere(kind):
    # The first direction over 2,000 seeds: each unit coordinate has mean 0 and square 1/6 with
    # variance of the square 2 (1 - 1/6) / (6 (6 + 2)) / 6; 5 sd in 6 coordinates: p < 1e-5.
    first = np.array([made(kind, 6, 6, seed)[0] for seed in range(2000)])
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    assert np.abs(first.mean(axis=0)).max() < 5 * np.sqrt(1 / 6 / 2000)
    std_error = np.sqrt((3 / (6 * 8) - 1 / 36) / 2000)
    assert np.abs((first**2).mean(axis=0) - 1 / 6).max() < 5 * std_error


def test_sketches_in_use_share_directions_and_the_last_one_frees_them():
    one, two = (CosineSketch(64, dimension=3, seed=77).update(np.eye(3)) for _ in range(2))
    assert one._panels is two._panels
    alive = weakref.ref(one._panels)
    del one, two
    gc.collect()
    assert alive() is None


def test_product_does_not_depend_on_the_blocks_of_the_codebook(monkeypatch):
    rng = np.random.default_rng(1)
    rows, codebook = rng.normal(size=(3, 500)), rng.normal(size=(2, 500, 16))

    def fill(part, out):
        out[...] = codebook[:, part]

    whole = product(rows, 20, fill)
    monkeypatch.setattr("sfumato.sketch.projection.directions.BLOCK_ENTRIES", 999)
    np.testing.assert_array_equal(product(rows, 20, fill), whole)
    want = rows @ codebook.transpose(1, 0, 2).reshape(500, 32)[:, :20]
    np.testing.assert_allclose(whole, want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("kind", "count", "digest"),
    [
        ("gaussian", 100, "86a28f5cc6b11d87"),
        ("sign", 100, "15de4e990dc39c1e"),
        ("super-bit", 100, "ea191b06a55839e0"),
        ("frame", 100, "4f5f50818daa58a1"),
        ("orthogonal", 24, "f295031935432a49"),
    ],
)
def test_directions_are_the_same_bits_on_every_machine(kind, count, digest):
    data = made(kind, count, 24).astype("<f8").tobytes()
    assert hashlib.blake2b(data, digest_size=8).hexdigest() == digest
