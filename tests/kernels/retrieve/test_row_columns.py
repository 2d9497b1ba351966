"""Rows reach every column at their place, and nothing else changes."""

import numpy as np
import pytest

from sfumato.kernels import hash_tables
from sfumato.kernels.retrieve import row_columns


@pytest.mark.parametrize("count", [1, 5])
def test_rows_are_written_to_every_column_and_to_the_table(count):
    draws = np.random.default_rng(count)
    rows = draws.choice(256, count, replace=False)
    ids = draws.choice(1000, count, replace=False)
    words = draws.integers(0, 2**63, (count, 3), dtype=np.uint64)
    factors, shifts = draws.normal(size=(2, count)).astype(np.float32)
    id_column = np.zeros(256, np.int64)
    factor_column, shift_column = np.zeros((2, 256), np.float32)
    blocks, bits = np.zeros((4, 3, 64), np.uint64), np.zeros(4, np.uint64)
    keys, values = np.full(64, -1, np.int64), np.empty(64, np.int64)
    columns = id_column, blocks, factor_column, shift_column, bits, keys, values
    assert row_columns.write(rows, ids, words, factors, shifts, *columns) == count
    assert row_columns.write(rows, ids, words, factors, shifts, *columns) == 0  # known ids
    np.testing.assert_array_equal(id_column[rows], ids)
    np.testing.assert_array_equal(factor_column[rows], factors)
    np.testing.assert_array_equal(shift_column[rows], shifts)
    np.testing.assert_array_equal(blocks.transpose(0, 2, 1).reshape(256, 3)[rows], words)
    there = np.unpackbits(bits.view(np.uint8), bitorder="little").astype(bool)
    assert set(np.flatnonzero(there)) == set(rows)
    assert not id_column[~there].any()
    assert not blocks.transpose(0, 2, 1).reshape(256, 3)[~there].any()
    found = np.empty(count, np.int64)
    hash_tables.find(keys, values, ids, found)
    np.testing.assert_array_equal(found, rows)


def test_factors_bits_and_table_may_be_missing():
    ids, blocks = np.zeros(64, np.int64), np.zeros((1, 1, 64), np.uint64)
    none = np.empty(0, np.float32)
    empty, no_bits = np.empty(0, np.int64), np.empty(0, np.uint64)
    new = row_columns.write(
        np.array([3]), np.array([7]), np.array([[9]], np.uint64), none, none, ids, blocks, none,
        none, no_bits, empty, empty,
    )  # fmt: skip
    assert (new, ids[3], blocks[0, 0, 3]) == (0, 7, 9)
