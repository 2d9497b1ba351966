"""Integers and their positions: as by a dictionary, however many there are."""

import numpy as np
import pytest

from sfumato.core.ids import coded_integers
from sfumato.data import Interactions


def by_dictionary(values):
    known = {}
    return [known.setdefault(value, len(known)) for value in values.tolist()], list(known)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8])
@pytest.mark.parametrize("count", [1, 512, 513, 5000, 40_000])
@pytest.mark.parametrize("apart", [1, 1000])  # a place for each integer between, or a hash table
def test_positions_are_those_of_first_appearance(dtype, count, apart):
    random = np.random.default_rng(count)
    largest = min(count, 100) if dtype == np.int8 else count
    apart = 1 if dtype == np.int8 else apart
    values = (random.integers(-largest, largest, 3 * count) * apart).astype(dtype)
    positions, distinct = coded_integers(values)
    expected, known = by_dictionary(values)
    assert positions.tolist() == expected
    assert distinct.tolist() == known
    assert (positions.dtype, distinct.dtype) == (np.int32, dtype)


def test_runs_extremes_and_nothing():
    edges = np.array([2**63 - 1, -(2**63), -(2**63), 0, -1, 2**63 - 1])
    assert coded_integers(edges)[0].tolist() == [0, 1, 1, 2, 3, 0]
    assert coded_integers(np.repeat(np.arange(3000) * 2**40, 4))[0].max() == 2999
    assert coded_integers(np.empty(0, np.int64))[1].size == 0


def test_texts_of_a_filtered_table_are_coded_by_what_is_left():
    rows = Interactions(["a", "b", "c", "b"], [1, 2, 3, 2], [1, 1, 1, 1]).filter([3, 2, 1])
    coded = rows.coded()
    assert coded.user_ids.tolist() == ["b", "c"]
    assert coded.user_codes.tolist() == [0, 1, 0]
    assert coded.item_ids.tolist() == [2, 3]
