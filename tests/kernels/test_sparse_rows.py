"""Rows of compressed sparse matrices, grouped, gathered and filled."""

import numpy as np

from sfumato.kernels import sparse_rows

STARTS, MEMBERS = np.array([0, 1, 2, 5]), np.array([1, 0, 0, 2, 1], np.int32)


def test_members_are_grouped_in_their_order():
    groups, members = np.array([2, 0, 2, 1, 2]), np.array([0, 1, 2, 0, 1], np.int32)
    out = np.empty_like(members)
    sparse_rows.group(groups, members, STARTS[:-1].copy(), out)
    np.testing.assert_array_equal(out, MEMBERS)


def test_rows_are_gathered_and_row_minus_one_is_empty():
    rows, ends = np.array([2, -1, 0]), np.array([0, 3, 3, 4])
    out = np.empty(4, np.int32)
    sparse_rows.gather(STARTS, MEMBERS, rows, ends, out)
    np.testing.assert_array_equal(out, [0, 2, 1, 1])


def test_cells_of_rows_are_filled():
    out = np.zeros((3, 3))
    sparse_rows.fill(STARTS, MEMBERS, np.array([2, -1, 0]), -np.inf, out)
    np.testing.assert_array_equal(np.isneginf(out), [[1, 1, 1], [0, 0, 0], [0, 1, 0]])
