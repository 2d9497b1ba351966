"""RACE kernels against NumPy, in the types and lengths that take other paths."""

import numpy as np
import pytest

from sfumato.kernels.sketch import kernel_sums as race

RNG = np.random.default_rng(1)
ROWS, WIDTH = 5, 37


def some_slots(points=1027):
    return RNG.integers(0, WIDTH, (ROWS, points)).astype(np.uint32)


def counted(slots, weights):
    return np.array([np.bincount(row, weights, WIDTH) for row in slots]).astype(np.int64)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_direct_rows_round_down_and_hashed_ones_stay_inside(dtype):
    positions = RNG.uniform(0, 2**31 - 1, (2, 4001)).astype(dtype)
    positions[0] %= WIDTH
    keys = RNG.integers(0, 2**64, 2, np.uint64)
    out = np.empty(positions.shape, np.uint32)
    race.slots(positions, np.array([True, False]), keys, WIDTH, out)
    np.testing.assert_array_equal(out[0], np.floor(positions[0]))
    # About 108 in each of 37 cells: outside of 50 and 180 has p < 1e-6.
    cells = np.bincount(out[1], minlength=WIDTH)
    assert cells.size == WIDTH
    assert 50 < cells.min() <= cells.max() < 180
    again = np.empty((1, 1), np.uint32)
    race.slots(np.floor(positions[1:, 7:8]), np.array([False]), keys[1:], WIDTH, again)
    assert again[0, 0] == out[1, 7]


@pytest.mark.parametrize("parts", [0, 4])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("points", [1, 4, 1027])
def test_tally_adds_one_to_every_slot_and_leaves_its_parts_empty(parts, dtype, points):
    slots, table = some_slots(points), RNG.integers(0, 9, (ROWS, WIDTH)).astype(dtype)
    want = table + counted(slots, None)
    spare = np.zeros((parts, WIDTH), np.int32)
    race.tally(slots, np.full(ROWS, WIDTH), spare, table)
    np.testing.assert_array_equal(table, want)
    assert not spare.any()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_weighted_tally_adds_and_removes(dtype):
    slots, weights = some_slots(), RNG.integers(-9, 10, 1027)
    table = np.zeros((ROWS, WIDTH), dtype)
    race.tally_weighted(slots, weights, table)
    np.testing.assert_array_equal(table, counted(slots, weights))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gather_sums_scaled_cells_by_group(dtype):
    slots, table = some_slots(), RNG.integers(-99, 99, (ROWS, WIDTH)).astype(dtype)
    scales, groups = RNG.normal(size=ROWS), np.array([1, 0, 1, 2, 0])
    out = np.zeros((3, 1027))
    race.gather(table, slots, scales, groups, out)
    cells = scales[:, None] * np.take_along_axis(table, slots.astype(np.int64), axis=1)
    want = [cells[groups == g].sum(axis=0) for g in range(3)]
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-9)
