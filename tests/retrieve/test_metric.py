"""Lifted vectors have the cosines that rank inner products, whatever their mean."""

import numpy as np
import pytest

from sfumato.retrieve import LshIndex
from sfumato.retrieve.metric import LEAN, Lift

rng = np.random.default_rng(5)


def test_cosines_of_lifted_vectors_are_the_products_within_the_radius():
    X, Q = rng.normal(2, 1, (1000, 6)), rng.normal(size=(20, 6))
    lift = Lift.of(X)
    points, queries = lift.points(X).astype(np.float64), lift.lifted_queries(Q)
    inside = np.linalg.norm(X - lift.centre, axis=1) <= lift.radius
    assert 0.98 <= inside.mean() <= 0.995
    assert np.linalg.norm(points, axis=1) == pytest.approx(1, abs=1e-6)
    lengths = np.linalg.norm(Q, axis=1)[:, None]
    expected = Q @ (X - lift.centre).T / (lengths * lift.radius)
    assert (queries[:, :-1] / lengths @ points[:, :-1].T)[:, inside] == pytest.approx(
        expected[:, inside], abs=1e-6
    )
    assert queries[:, -1:] == pytest.approx(-LEAN * lengths)


def test_moving_all_vectors_changes_no_bucket_of_any():
    X, Q = rng.normal(size=(500, 6)), rng.normal(size=(20, 6))
    near, far = (
        LshIndex(8, 4, metric="inner", seed=2).add(np.arange(500), X + by) for by in (0.0, 64.0)
    )
    assert all(map(np.array_equal, near.candidates(Q), far.candidates(Q)))


def test_equal_vectors_have_a_radius_too():
    index = LshIndex(4, 2, metric="inner").add([1, 2], np.ones((2, 3)))
    assert set(index.ids) == {1, 2}
    assert Lift.of(np.zeros((3, 2))).points(np.zeros((1, 2))).tolist() == [[0, 0, 1]]
