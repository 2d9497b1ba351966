"""How atoms are learned: bits by variance, then refits that lower the error."""

import itertools

import numpy as np
import pytest

from sfumato.retrieve.encoders import learned
from sfumato.retrieve.encoders.learned import Search, levels, refined


def falling(rows=4000, dimension=16, rate=0.75, seed=0):
    """Gaussian vectors whose deviations fall, along axes that are not those of coordinates."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(dimension, dimension)))
    scales = rate ** np.arange(dimension)
    return (rng.normal(size=(rows, dimension)) * scales @ turn).astype(np.float32)


def error(rows, atoms, flips=60):
    search = Search.of(atoms)
    products = search.products(rows)
    none = np.zeros_like(products)
    sides = search.codes(products, none, none[:, 0].copy(), flips)[:, : len(atoms)]
    return float(np.square(rows - sides.astype(np.float64) @ atoms).sum(axis=1).mean())


def test_the_error_on_rows_not_fitted_to_falls_in_every_round_of_learning():
    x = np.sign(falling(12_000)) * np.sqrt(np.abs(falling(12_000)))  # not Gaussian, so it can learn
    rows, fresh = x[:6000], x[6000:]
    start = levels(rows, 40)
    atoms, errors = refined(rows, start, flips=60, rounds=6)
    assert len(errors) > 3
    assert (np.diff(errors) < 0).all()
    message = [error(rows[::5], start), error(rows[::5], atoms)]
    np.testing.assert_allclose([errors[0], errors[-1]], message, rtol=1e-6)
    assert error(fresh, atoms) < 0.97 * error(fresh, start)


def test_learning_ends_before_a_round_that_would_not_help():
    rows = falling(1000)  # so few that atoms are soon overfitted
    atoms, errors = refined(rows, levels(rows, 40), flips=60, rounds=100)
    assert len(errors) < 50
    assert (np.diff(errors) < 0).all()
    assert error(rows[::5], atoms) == pytest.approx(errors[-1], rel=1e-6)


def test_learning_without_rounds_leaves_the_atoms_as_they_are():
    rows = falling(400)
    start = levels(rows, 12)
    atoms, errors = refined(rows, start, flips=5, rounds=0)
    np.testing.assert_array_equal(atoms, start)
    assert len(errors) == 1


@pytest.mark.parametrize("bits", [1, 4, 9])
def test_bits_go_where_they_lower_the_sum_of_errors_most(bits):
    variances = np.array([1.0, 0.3, 0.05])
    shares = [s for s in itertools.product(range(bits + 1), repeat=3) if sum(s) == bits]
    sums = [variances @ learned._error(np.array(share)) for share in shares]
    best = shares[int(np.argmin(sums))]
    assert tuple(learned._allocated(variances, bits)) == best


def test_one_axis_is_quantized_with_the_error_of_the_tables():
    # A million draws: the mean squared error has a relative deviation below 0.3 %.
    rows = np.random.default_rng(1).normal(size=(1_000_000, 1)).astype(np.float32)
    for bits in (1, 2, 3, 4, 8):
        found = error(rows, levels(rows, bits), flips=0)
        assert found == pytest.approx(learned.ERRORS[bits], rel=0.02)


def test_more_bits_than_the_tables_hold_still_help():
    rows = np.random.default_rng(2).normal(size=(2000, 1)).astype(np.float32)
    errors = [error(rows, levels(rows, bits), flips=0) for bits in (8, 10, 12)]
    assert errors[2] < errors[1] / 2 < errors[0] / 4


def test_atoms_stand_in_the_order_of_their_lengths():
    rows = falling()
    for atoms in levels(rows, 40), refined(rows, levels(rows, 40), 60, 2)[0]:
        lengths = np.linalg.norm(atoms, axis=1)
        assert atoms.dtype == np.float32
        assert (np.diff(lengths) <= 1e-6).all()
