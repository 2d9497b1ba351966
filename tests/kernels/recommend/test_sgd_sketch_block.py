"""The block kernels descend the loss of a count sketch, and their cells collide by chance only."""

import numpy as np
import pytest

from sfumato.core.hashing import hash_column
from sfumato.kernels.recommend import sgd_sketch_block as factor_block
from sfumato.kernels.recommend import sgd_sketch_component as factor_component
from sfumato.recommend.factorization.factor_cells import LANES, FactorCells

RATES = {"clip": np.inf, "rate": 0.05, "weight": 0.1}


def columns(rows=300, seed=0):
    random = np.random.default_rng(seed)
    users, items = (
        hash_column(random.integers(40, size=rows), 1),
        hash_column(random.integers(30, size=rows), 2),
    )
    return users, items, random.normal(0, 1, rows).astype(np.float32)


def started(factors, depth, width=60, **more):
    cells = FactorCells(factors, depth, width, **more)
    cells.add_noise(0.3, np.random.default_rng(5))
    return cells


def slowly(cells, data, clip=np.inf, back=0.0, median=False):
    """The same pass in NumPy, from the written rule of cells and signs."""
    twin, lanes = FactorCells(**cells.shape, table=cells.table), LANES[cells.layout]
    table, used, n = twin.table.astype(np.float64), twin._scale > 0, twin.bias_direction
    for user, item, rating in zip(*data, strict=True):
        sides = [numbers_of(twin, h, lanes) for h in (user, item)]
        rows = [table[at] * signs for at, signs in sides]
        x, y = (used * (np.median if median else np.mean)(each, axis=0) for each in rows)
        p, q, lift = n @ x, n @ y, twin.bias_scale
        error = rating - x @ y + p * q - lift * (p + q)
        if error**2 > 2 * clip:
            continue
        e = 0.05 * error
        moves = (
            e * y - 0.005 * x + (e * (1 / lift - q) + back * p) * n,
            e * x - 0.005 * y + (e * (1 / lift - p) + back * q) * n,
        )
        for (at, signs), move in zip(sides, moves, strict=True):
            np.add.at(table, at, signs * move)
    twin.table[:] = table
    return twin


def numbers_of(cells, h, lanes):
    """Positions and signs of an entity's numbers in every row of the sketch."""
    products = h * cells._keys
    slots = (products >> np.uint64(32)) * np.uint64(cells.width) >> np.uint64(32)
    blocks = np.arange(cells.depth)[:, None] * cells.width + slots.astype(np.int64)
    positions = blocks[:, :, None] * lanes + np.arange(lanes)
    signs = products[:, :, None] >> np.arange(16, 16 + lanes, dtype=np.uint64) & np.uint64(1)
    return positions.reshape(cells.depth, -1), 1 - 2.0 * signs.reshape(cells.depth, -1)


@pytest.mark.parametrize(
    ("factors", "depth"),
    [
        (1, 1),
        (11, 1),
        (11, 4),
        (16, 4),
        (20, 4),
        (32, 1),
        (32, 2),
        (32, 4),
        (32, 7),
        (31, 4),
        (48, 4),
        (50, 3),
    ],
)
def test_lanes_do_what_single_numbers_do(factors, depth):
    cells, data, shrunk = started(factors, depth), columns(), factors % 2 == 0
    expected = slowly(cells, data, back=0.0 if shrunk else 0.005)
    cells.descend(*data, **RATES, biases=shrunk)
    np.testing.assert_allclose(cells.table, expected.table, atol=1e-4)
    hashes = data[0][:50]
    out = np.empty((50, cells.bias_direction.size), np.float32)
    factor_component.read(cells.table, cells._keys, cells.width, hashes, False, cells._scale, out)
    mirror = cells._mirror.astype(np.float64)
    out -= np.outer(out @ mirror, mirror)
    out[:, factors - 1] *= cells.bias_scale
    np.testing.assert_allclose(cells.vectors(hashes), out[:, :factors], atol=1e-6)


@pytest.mark.parametrize(("factors", "depth"), [(11, 1), (16, 2), (32, 4), (20, 5), (50, 3)])
def test_lanes_sort_rows_as_single_numbers_do(factors, depth):
    cells, data = started(factors, depth, readout="median"), columns()
    expected = slowly(cells, data, median=True)
    assert cells.descend(*data, **RATES) == 0
    np.testing.assert_allclose(cells.table, expected.table, atol=1e-4)


@pytest.mark.parametrize(("factors", "depth"), [(1, 1), (11, 4), (16, 2), (32, 4), (50, 3)])
@pytest.mark.parametrize("readout", ["mean", "median"])
def test_single_numbers_do_the_same_sixteen_at_a_time(factors, depth, readout):
    cells, data = started(factors, depth, 700, layout="component", readout=readout), columns()
    expected = slowly(cells, data, clip=2.0, back=0.005, median=readout == "median")
    cells.descend(*data, **RATES | {"clip": 4.0}, biases=False)
    np.testing.assert_allclose(cells.table, expected.table, atol=1e-4)


def test_a_log_takes_a_pass_back_bitwise():
    for factors in (32, 40):
        cells, data = started(factors, 4, width=400), columns(20)
        before, log = cells.table.copy(), cells.log(20)
        cells.descend(*data, **RATES, log=log)
        assert not np.array_equal(cells.table, before)
        cells.undo(*data[:2], log)
        np.testing.assert_array_equal(cells.table, before)


@pytest.mark.parametrize(
    "shape", [{}, {"layout": "component"}, {"readout": "median"}], ids=lambda shape: str(shape)
)
def test_damping_takes_a_fraction_off_one_bias_and_nothing_else(shape):
    cells, hashes = started(20, 4, width=6000, **shape), columns()[0]
    before, one = cells.vectors(hashes[:1]), cells.table.copy()
    cells.damp(hashes[:1], 0.25)
    before[0, -1] *= 0.75
    np.testing.assert_allclose(cells.vectors(hashes[:1]), before, atol=1e-6)
    assert np.flatnonzero(cells.table != one).size == 4 * (1 if "layout" in shape else 16)
    crowded = started(20, 4, width=5, **shape)
    before = np.abs(crowded.vectors(hashes)[:, -1]).max()
    for _ in range(30):  # entities that share cells do not swing each other up
        crowded.damp(hashes, 0.9)
    assert np.abs(crowded.vectors(hashes)[:, -1]).max() < 0.5 * before


@pytest.mark.parametrize("factors", [16, 32, 48])
def test_a_loss_above_clip_changes_nothing(factors):
    cells, data = started(factors, 4), columns()
    expected = slowly(cells, data, clip=0.4)
    everything = slowly(cells, data)
    cells.descend(*data, **{**RATES, "clip": 0.8})
    np.testing.assert_allclose(cells.table, expected.table, atol=1e-4)
    assert np.abs(expected.table - everything.table).max() > 0.01


def predicted(cells, users, items):
    x, y = cells.vectors(users).astype(np.float64), cells.vectors(items).astype(np.float64)
    return (x[:, :-1] * y[:, :-1]).sum(1) + x[:, -1] + y[:, -1]


def test_an_update_is_depth_times_the_gradient_of_the_loss():
    # (4.3) moves each cell by k times the gradient that (4.7) gives; the loss is that of the
    # vectors that models serve, differentiated by differences at every cell that changed.
    cells = started(32, 3, width=500, layout="component")
    user, item = hash_column([5], 1), hash_column([9], 2)
    before = cells.table.copy()
    error = 2.0 - predicted(cells, user, item)[0]
    cells.descend(user, item, np.array([2], np.float32), clip=np.inf, rate=1e-2, weight=0.0)
    moved = (cells.table - before) / 1e-2
    slope = np.zeros_like(moved)
    for at in np.flatnonzero(moved):
        for sign in (1, -1):
            cells.table[:] = before
            cells.table[at] += sign * 0.05
            slope[at] += sign * predicted(cells, user, item)[0] / 0.1
    assert np.count_nonzero(moved) > 2 * 3 * 28
    np.testing.assert_allclose(moved, 3 * error * slope, atol=5e-3)


def test_a_read_out_moves_by_the_step_whatever_the_depth():
    for depth in (1, 2, 4, 7):
        cells = started(32, depth, width=4000)
        user, item = hash_column([5], 1), hash_column([9], 2)
        x, y = cells.vectors(user)[0], cells.vectors(item)[0]
        error = 2.0 - predicted(cells, user, item)[0]
        cells.descend(user, item, np.array([2], np.float32), clip=np.inf, rate=0.01, weight=0.1)
        other = np.append(y[:-1], 1)
        expected = x + 0.01 * (error * other - 0.1 * x)
        np.testing.assert_allclose(cells.vectors(user)[0], expected, atol=1e-5)


def test_blocks_keep_their_cells_when_others_come():
    few, many = factor_block.multipliers(4, 2), factor_block.multipliers(4, 9)
    assert (many[:, :2] == few).all()
    assert np.unique(many).size == many.size
    assert (many & np.uint64(1)).all()


def test_cells_and_signs_are_even_and_rows_collide_independently():
    # 20,000 keys in 1,000 cells: counts have deviation sqrt(20); 8 deviations in any of 8,000 has
    # p < 1e-11. Signs: 20,000 coins, deviation 71; 500 has p < 1e-11. Two rows at once collide for
    # about 2e8 / 1e6 = 200 pairs, above 320 or below 100 with p < 1e-11.
    hashes, keys = hash_column(np.arange(20_000), 3), factor_block.multipliers(4, 2).ravel()
    products = hashes[None] * keys[:, None]
    slots = ((products >> np.uint64(32)) * np.uint64(1000) >> np.uint64(32)).astype(np.int64)
    for row in slots:
        counts = np.bincount(row, minlength=1000)
        assert abs(counts - 20).max() < 8 * 20**0.5
    for bit in range(16, 32):
        ones = (products >> np.uint64(bit) & np.uint64(1)).sum(1).astype(np.int64)
        assert (abs(ones - 10_000) < 500).all()
    for one in range(8):
        for other in range(one):
            pairs = np.bincount(slots[one] * 1000 + slots[other])
            assert 100 < (pairs * (pairs - 1) // 2).sum() < 320
