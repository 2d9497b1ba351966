"""Bits are turned as (5.10) to (5.12) say, and pairs where no single bit helps."""

import numpy as np
import pytest

from sfumato.kernels.retrieve import sign_search as flips

WIDTH = 32


def tight(bits, dimension, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(bits, dimension)))[0]


def unit(count, dimension, seed):
    x = np.random.default_rng(seed).normal(size=(count, dimension))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def objective(x, atoms, b):
    """(5.10)"""
    rebuilt = b @ atoms
    return x @ rebuilt / np.linalg.norm(rebuilt)


def by_the_thesis(x, atoms, steps):
    """(5.11) and (5.12) for one vector, every candidate rebuilt from nothing."""
    b = np.where(atoms @ x > 0, 1.0, -1.0)
    for _ in range(steps):
        turned = np.where(np.eye(len(b), dtype=bool), -b, b)
        values = [objective(x, atoms, each) for each in turned]
        if max(values) <= objective(x, atoms, b):
            break
        b = turned[int(np.argmax(values))]
    return b


def turn_single(projections, products, gram, steps, sides):
    squares, scratch = np.ascontiguousarray(gram.diagonal()), np.empty((2, len(gram)), np.float32)
    sums = np.empty(len(sides))
    flips.improve(projections, products, gram, squares, steps, scratch, sums, sides)
    np.testing.assert_allclose(sums, ((sides @ gram) * sides).sum(axis=1), rtol=1e-4, atol=1e-6)


def improved(x, atoms, steps, pairs):
    bits, spare = len(atoms), -len(atoms) % WIDTH
    starts = np.where(x @ atoms.T > 0, 1.0, -1.0)
    gram = atoms @ atoms.T

    def wide(values):
        return np.ascontiguousarray(np.pad(values, ((0, 0), (0, spare))), np.float32)

    sides = wide(starts)
    table = np.ascontiguousarray(np.pad(gram, (0, spare)), np.float32)
    turn = flips.improve_pairs if pairs else turn_single
    turn(wide(x @ atoms.T), wide(starts @ gram), table, steps, sides)
    assert set(np.unique(sides[:, :bits])) <= {-1.0, 1.0}
    assert not sides[:, bits:].any()
    return sides[:, :bits].astype(np.float64)


def objectives(x, atoms, codes):
    return np.array([objective(*each) for each in zip(x, [atoms] * len(x), codes, strict=True)])


@pytest.mark.parametrize(
    ("bits", "dimension", "steps"), [(3, 2, 9), (16, 8, 5), (40, 12, 3), (64, 20, 100), (96, 16, 0)]
)
def test_each_step_takes_the_bit_of_the_thesis(bits, dimension, steps):
    atoms, x = tight(bits, dimension, 1), unit(60, dimension, 2)
    codes = improved(x, atoms, steps, False)
    queries = np.array([by_the_thesis(each, atoms, steps) for each in x])
    # Two bits as good as each other to float32 may be ordered either way; the codes of most rows
    # are the same, and no row ends lower.
    assert (codes == queries).all(axis=1).mean() > 0.95
    reached, wanted = objectives(x, atoms, codes), objectives(x, atoms, queries)
    np.testing.assert_allclose(np.sort(reached - wanted)[3:], 0, atol=1e-5)
    assert reached.mean() > wanted.mean() - 1e-5


def test_it_ends_where_no_bit_helps():
    atoms, x = tight(48, 12, 3), unit(40, 12, 4)
    for each, code in zip(x, improved(x, atoms, 1000, False), strict=True):
        turned = np.where(np.eye(48, dtype=bool), -code, code)
        best = max(objective(each, atoms, other) for other in turned)
        assert best <= objective(each, atoms, code) * (1 + 2e-6)


def test_no_more_bits_are_turned_than_asked_for():
    atoms, x = tight(64, 16, 5), unit(50, 16, 6)
    starts = np.where(x @ atoms.T > 0, 1.0, -1.0)
    for steps in (0, 1, 4):
        assert ((improved(x, atoms, steps, False) != starts).sum(axis=1) <= steps).all()


def pair_values(x, atoms, code):
    every = [
        np.where(np.isin(np.arange(len(code)), (j, k)), -code, code)
        for j in range(len(code))
        for k in range(j)
    ]
    rebuilt = np.array(every) @ atoms
    return rebuilt @ x / np.linalg.norm(rebuilt, axis=1)


@pytest.mark.parametrize(("bits", "dimension"), [(16, 8), (40, 12)])
def test_pairs_go_on_until_no_two_bits_help(bits, dimension):
    atoms, x = tight(bits, dimension, 7), unit(40, dimension, 8)
    for each, code in zip(x, improved(x, atoms, 1000, True), strict=True):
        assert pair_values(each, atoms, code).max() <= objective(each, atoms, code) * (1 + 2e-6)


def test_a_pair_helps_where_no_single_bit_does_and_never_hurts():
    atoms, x = tight(32, 12, 9), unit(300, 12, 10)
    for steps in (3, 1000):
        single = objectives(x, atoms, improved(x, atoms, steps, False))
        double = objectives(x, atoms, improved(x, atoms, steps, True))
        assert (double > single - 1e-6).all()
    assert (double > single + 1e-4).mean() > 0.2


def test_a_code_that_rebuilds_nothing_is_left_as_it_is():
    # The sum of both atoms is 0, so there is no direction to start from.
    atoms = np.array([[1.0, 0.0], [-1.0, 0.0]])
    sides = np.pad(np.ones((1, 2)), ((0, 0), (0, 30))).astype(np.float32)
    nothing = np.zeros((1, WIDTH), np.float32)
    gram = np.ascontiguousarray(np.pad(atoms @ atoms.T, (0, 30)), np.float32)
    for turn in (turn_single, flips.improve_pairs):
        turn(nothing, nothing, gram, 10, sides)
        assert sides[0, :2].tolist() == [1, 1]
