"""The factor of a code is the best by its own measure, and separates near neighbours."""

import numpy as np
import pytest

from sfumato.retrieve import BinaryIndex, qolsh
from sfumato.retrieve.encoders.base import ALONG


def codes_of(X, **options):
    encoder = qolsh(64, flips=20, **options).fit(X)
    made = encoder.encode(X)
    bits = np.unpackbits(made.words.view(np.uint8), axis=1, bitorder="little")[:, :64]
    return encoder, made, (2.0 * bits - 1) @ encoder.atoms_.astype(np.float64)


def vectors(count, seed=0, dimension=24):
    """Vectors around a centre, most of whose variance is along few axes."""
    draws = np.random.default_rng(seed)
    return draws.normal(size=(count, dimension)) * np.arange(1, dimension + 1) ** -0.8 + 0.4


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_nearest_is_the_least_squares_solution(center, scale):
    X = vectors(50) * scale
    encoder, made, sums = codes_of(X, center=center, factor="nearest")
    for x, sum_, factor in zip(X, sums, made.factors[:, 0], strict=True):
        rest = x - encoder.centre_
        axis = np.sqrt(ALONG) * x / np.linalg.norm(x)
        left = np.append(sum_, axis @ sum_)[:, None]
        right = np.append(rest, axis @ rest)
        best = np.linalg.lstsq(left, right / scale, rcond=None)[0][0] * scale
        assert factor == pytest.approx(best, rel=1e-4, abs=0)


def test_without_a_centre_nearest_is_unbiased_within_a_hundredth():
    X = vectors(200)
    near = codes_of(X, factor="nearest")[1].factors
    unbiased = codes_of(X, factor="unbiased")[1].factors
    assert (near <= unbiased * (1 + 1e-5)).all()
    assert near == pytest.approx(unbiased, rel=0.01)


def test_with_a_centre_nearest_finds_more_neighbours():
    made = vectors(20_400, seed=1)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    X, Q = made[:20_000], made[20_000:]
    truth = (Q @ X.T).argmax(axis=1)
    found = {}
    for factor in ("unbiased", "nearest"):
        encoder = qolsh(64, flips=40, center=True, factor=factor)
        index = BinaryIndex(encoder=encoder).add(np.arange(len(X)), X)
        ids = index.search(Q, 1, scan="asymmetric")[1]
        found[factor] = (ids[:, 0] == truth).mean()
    assert found["nearest"] > found["unbiased"] + 0.05


def test_a_vector_at_the_centre_or_at_zero_has_a_finite_factor():
    X = np.array([[1.0, 0, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 0], [0, 1e-30, 0, 0]])
    encoder = qolsh(16, flips=5, center=True, factor="nearest").fit(X[:2])
    factors = encoder.encode(X).factors[:, 0]
    assert np.isfinite(factors).all()
    assert factors[2] == 0  # the centre itself
    zero = qolsh(16, center=True, factor="nearest").fit(X[:1] + 1).encode(np.zeros((1, 4)))
    assert np.isfinite(zero.factors).all()
