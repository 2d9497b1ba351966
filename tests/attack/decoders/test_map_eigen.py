"""The spectral filter: signal stays, noise goes, by whichever side of the table is smaller."""

import tracemalloc

import numpy as np
import pytest

from sfumato.attack import eigen_decoder, joint_decoder, popularity, single_decoder
from sfumato.attack.decoders.map_eigen import _filtered
from sfumato.data import Interactions
from sfumato.profile import Blip, Jlt
from support.hard_rows import released_to_all


def spiked(users, length, seed, directions=3):
    """Rows of noise 1 that differ in a few directions by far more than noise can."""
    draws = np.random.default_rng(seed)
    strong = draws.normal(size=(users, directions)) @ draws.normal(size=(directions, length))
    return strong, (strong + draws.normal(size=strong.shape)).astype(np.float32)


@pytest.mark.parametrize("shape", [(300, 150), (150, 300)])
def test_only_directions_above_the_edge_of_noise_are_retained(shape):
    # The largest variance of noise is above the edge in a sixth of the cases, two are in under 1 %
    # of them (Tracy and Widom): more than 4 directions in one of 5 seeds have p < 0.05.
    for seed in range(5):
        found = np.linalg.matrix_rank(_filtered(spiked(*shape, seed)[1], 1.0), tol=1e-2)
        assert 3 <= found <= 4


@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (60, 60)])
def test_both_sides_of_the_table_give_the_same_filter(shape):
    users, length = shape
    strong, rows = spiked(users, length, 1)
    left, values, right = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
    power, ratio = values**2 / users, length / users
    fraction = np.where(power > (1 + ratio**0.5) ** 2, 1 - (1 + ratio) / power, 0)
    found = _filtered(rows, 1.0)
    np.testing.assert_allclose(found, (left * values * fraction) @ right, atol=1e-3)
    assert np.square(found - strong).sum() < np.square(rows - strong).sum() / 2


def test_many_users_are_never_compared_with_each_other():
    # Users x users would be 72 MB, and its eigenvectors as much again.
    rows = spiked(3000, 30, 2)[1]
    tracemalloc.start()
    _filtered(rows, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


@pytest.mark.parametrize("mechanism", [Blip, Jlt])
def test_a_release_of_no_users_has_no_scores(mechanism):
    observed = released_to_all(mechanism(epsilon=8), Interactions([], [], []))
    for decoder in (eigen_decoder, single_decoder, joint_decoder, popularity):
        assert decoder(observed, ["a", "b"], [0.5, 0.5]).shape == (0, 2)
