"""Codes by signs of what is left, then best turns: against sums recomputed from scratch."""

import numpy as np
import pytest

from sfumato.kernels.retrieve import sign_search as successive


def world(count=21, dimension=9, rows=40, seed=0):
    """Atoms of falling length, vectors, and a direction for each."""
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(count, dimension)) * 0.9 ** np.arange(count)[:, None]
    vectors = 3 * rng.normal(size=(rows, dimension))
    return atoms, vectors, rng.normal(size=(rows, dimension))


def settled(atoms, vectors, aside, steps):
    wide = np.pad(atoms, ((0, -len(atoms) % 32), (0, 0)))
    gram, products, along = (
        np.ascontiguousarray(left @ wide.T, np.float32) for left in (wide, vectors, aside)
    )
    missing = (vectors * aside).sum(axis=1).astype(np.float32)
    sides = np.full(products.shape, 7, np.float32)
    successive.settle(gram, products, along, missing, len(atoms), steps, sides)
    return sides


def cost(code, atoms, vector, aside):
    error = vector - code @ atoms
    return error @ error + (aside @ error) ** 2


def turned(code, atoms, vector, aside):
    """The costs after turning each bit."""
    return np.array([cost(code * s, atoms, vector, aside) for s in 1 - 2 * np.eye(len(code))])


def reference(atoms, vector, aside, steps):
    code, left = np.zeros(len(atoms)), vector.copy()
    for j, atom in enumerate(atoms):
        code[j] = 1 if atom @ left > 0 else -1
        left -= code[j] * atom
    for _ in range(steps):
        costs = turned(code, atoms, vector, aside)
        if costs.min() >= cost(code, atoms, vector, aside):
            break
        code[costs.argmin()] *= -1
    return code


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 40])
@pytest.mark.parametrize("weight", [0.0, 1.0, 3.0])
def test_codes_are_those_of_a_search_that_recomputes_every_sum(steps, weight):
    atoms, vectors, aside = world()
    found = settled(atoms, vectors, weight * aside, steps)[:, : len(atoms)]
    for code, vector, beside in zip(found, vectors, weight * aside, strict=True):
        np.testing.assert_array_equal(code, reference(atoms, vector, beside, steps))


def test_at_the_end_no_turn_of_one_bit_helps():
    atoms, vectors, aside = world(count=70, dimension=20)
    found = settled(atoms, vectors, aside, 10_000)[:, : len(atoms)]
    for code, vector, beside in zip(found, vectors, aside, strict=True):
        own = cost(code, atoms, vector, beside)
        assert turned(code, atoms, vector, beside).min() > own - 1e-3


@pytest.mark.parametrize("count", [1, 31, 32, 33])
def test_columns_past_the_code_are_0(count):
    atoms, vectors, aside = world(count=count)
    found = settled(atoms, vectors, aside, 10)
    assert not found[:, count:].any()
    np.testing.assert_array_equal(np.abs(found[:, :count]), 1)
