"""Spread representations are those of a linear programme solver."""

import numpy as np
import pytest
from scipy.optimize import linprog

from sfumato.kernels.retrieve.anti_sparse import spread


def tight(bits, dimension, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(bits, dimension)))[0]


def spread_of(x, atoms, most=10_000):
    out, steps = np.empty((len(x), len(atoms)), np.float32), np.empty(len(x), np.int64)
    spread(np.ascontiguousarray(atoms.T), x, most, steps, out)
    return out, steps


def programme(x, atoms, sides=None):
    """The v with sum of v_j atom_j = x and the smallest bound, where sides_j v_j >= 0 if given."""
    bits = len(atoms)
    bound = np.block([[np.eye(bits), -np.ones((bits, 1))], [-np.eye(bits), -np.ones((bits, 1))]])
    limits = [(None, None)] * bits
    if sides is not None:
        limits = [(0, None) if side > 0 else (None, 0) for side in sides]
    found = linprog(
        np.r_[np.zeros(bits), 1],
        A_ub=bound,
        b_ub=np.zeros(2 * bits),
        A_eq=np.c_[atoms.T, np.zeros(len(x))],
        b_eq=x,
        bounds=[*limits, (0, None)],
    )
    return found.x[:bits] if found.success else np.full(bits, np.inf)


@pytest.mark.parametrize(("bits", "dimension"), [(3, 2), (16, 8), (30, 5), (24, 24), (9, 1)])
def test_signs_are_those_of_the_linear_programme(bits, dimension):
    atoms = tight(bits, dimension, 1)
    x = np.random.default_rng(2).normal(size=(60, dimension)).astype(np.float32)
    sides, steps = spread_of(x, atoms)
    assert (steps < 200).all()
    for each, side in zip(x, sides, strict=True):
        v = programme(each.astype(np.float64), atoms)
        clear = np.abs(v) > 1e-6 * np.abs(v).max()
        np.testing.assert_array_equal(side[clear], np.sign(v[clear]))
        assert clear.sum() >= bits - 1
        at_bound = np.abs(v) > (1 - 1e-9) * np.abs(v).max()
        assert at_bound.sum() == bits - dimension + 1


@pytest.mark.parametrize("name", ["axes twice", "signs", "one atom often"])
def test_ties_still_give_signs_of_a_best_representation(name):
    # Whole numbers: many planes through each vertex, and more than one best v.
    rng = np.random.default_rng(3)
    atoms = {
        "axes twice": np.vstack([np.eye(4), np.eye(4), -np.eye(4)]),
        "signs": np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1).T.copy(),
        "one atom often": np.vstack([np.eye(4), np.ones((8, 4))]),
    }[name]
    x = rng.integers(-2, 3, (80, 4)).astype(np.float32)
    sides, steps = spread_of(x[np.abs(x).sum(axis=1) > 0], atoms)
    x = x[np.abs(x).sum(axis=1) > 0].astype(np.float64)
    assert (steps < 10_000).all()
    for each, side in zip(x, sides, strict=True):
        best = np.abs(programme(each, atoms)).max()
        assert np.abs(programme(each, atoms, side)).max() == pytest.approx(best, rel=1e-6)


def test_no_vector_has_all_bits_off():
    sides, steps = spread_of(np.zeros((2, 3), np.float32), tight(6, 3, 4))
    assert (sides == -1).all()
    assert (steps == 0).all()


def test_a_walk_that_is_cut_short_still_gives_signs():
    x = np.random.default_rng(5).normal(size=(20, 8)).astype(np.float32)
    atoms = tight(16, 8, 6)
    sides, steps = spread_of(x, atoms, most=3)
    assert (steps == 3).all()
    assert set(np.unique(sides)) == {-1.0, 1.0}
    done, _ = spread_of(x, atoms)
    assert (sides != done).any()


def test_one_row_does_not_depend_on_the_others():
    x = np.random.default_rng(7).normal(size=(9, 5)).astype(np.float32)
    atoms = tight(12, 5, 8)
    together, _ = spread_of(x, atoms)
    alone = np.vstack([spread_of(x[i : i + 1], atoms)[0] for i in range(9)])
    np.testing.assert_array_equal(together, alone)
