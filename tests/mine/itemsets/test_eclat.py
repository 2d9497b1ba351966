"""Eclat finds the itemsets of brute force in every representation, however its arrays grow."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.mine.itemsets import Baskets, frequent_itemsets
from sfumato.mine.itemsets.methods import eclat

NEVER = 2**31
# Words per entry from which tids and diffsets are taken: bitsets alone, all as tids, all as
# diffsets, as it comes. Below, a list costs nothing or a bitset nothing.
KINDS = {"bitsets": (NEVER, NEVER), "tids": (0, NEVER), "diffsets": (NEVER, 0), "both": (0, 0)}


def brute_force(baskets, min_count, max_size=None):
    counts = {}
    for basket in map(set, baskets):
        for size in range(1, min(len(basket), max_size or len(basket)) + 1):
            for each in combinations(sorted(basket), size):
                counts[each] = counts.get(each, 0) + 1
    return {items: count for items, count in counts.items() if count >= min_count}


def found_by(baskets, min_count, **options):
    found = frequent_itemsets(baskets, min_count, method="eclat", **options).to_list()
    sets = {tuple(sorted(items)): count for items, count in found}
    assert len(sets) == len(found)
    return sets


@settings(max_examples=60, deadline=None)
@given(
    baskets=st.lists(st.lists(st.integers(0, 9), max_size=8), max_size=25),
    min_count=st.integers(1, 5),
    max_size=st.none() | st.integers(1, 4),
    kind=st.sampled_from(sorted(KINDS)),
)
def test_random_baskets(baskets, min_count, max_size, kind):
    sparse, dense = KINDS[kind]
    found = found_by(baskets, min_count, max_size=max_size, sparse=sparse, dense=dense)
    assert found == brute_force(baskets, min_count, max_size)


@pytest.mark.parametrize("kind", [*KINDS, "default"])
@pytest.mark.parametrize("density", [0.25, 0.85])
def test_many_baskets_per_word_and_per_lane(kind, density):
    rng = np.random.default_rng(5)
    lists = [np.flatnonzero(row).tolist() for row in rng.random((3000, 9)) < density]
    options = dict(zip(("sparse", "dense"), KINDS[kind], strict=True)) if kind in KINDS else {}
    for min_count in (1, 40, 700):
        assert found_by(lists, min_count, **options) == brute_force(lists, min_count)


def test_itemsets_that_fill_many_parts_of_the_output(monkeypatch):
    lists = [list(range(12))] * 3 + [list(range(0, 12, 2))]
    want = brute_force(lists, 1)
    for rows in (1, 16, 100):  # fewer than itemsets, so the search stops and goes on
        monkeypatch.setattr(eclat, "ROWS", rows)
        assert found_by(lists, 1) == want
        assert found_by(lists, 1, dense=0) == want


def test_wide_vocabularies_take_wide_cells():
    lists = [[2 * k, 2 * k + 1] for k in range(35_000)] + [[0, 1, 69_999], [1, 69_998, 69_999]]
    found = found_by(lists, 1)
    want = brute_force(lists, 1)
    assert len(want) > 100_000
    assert found == want


def test_a_basket_of_100000_items_is_no_fault():
    rng = np.random.default_rng(3)
    lists = [rng.permutation(100_000).tolist(), [3, 5, 99_999], [5, 99_999, 3], [5]]
    assert found_by(lists, 2) == brute_force([[3, 5, 99_999]] * 3 + [[5]], 2) | {(5,): 4}


def test_rows_rise_and_sizes_are_in_order():
    found = frequent_itemsets([[1, 2, 3], [1, 2, 3], [2, 3, 4]], 1, method="eclat")
    for size, (codes, counts) in enumerate(found.levels, start=1):
        assert codes.shape == (counts.size, size)
        assert codes.dtype == np.int32
        assert counts.dtype == np.int64
        assert (np.diff(codes, axis=1) > 0).all()


def test_the_memory_limit_is_kept_with_a_remedy():
    lists = [list(range(18))] * 2
    with pytest.raises(ParameterError, match="raise it or min_support, or give max_size"):
        frequent_itemsets(lists, 1, method="eclat", memory_limit=1 << 20)
    assert len(frequent_itemsets(lists, 1, method="eclat", memory_limit=1 << 26)) == 2**18 - 1


def test_options_are_checked():
    for name in ("sparse", "dense"):
        with pytest.raises(ParameterError, match=name):
            frequent_itemsets([[1]], 1, method="eclat", **{name: -1})


def test_the_record_says_what_was_searched():
    baskets = Baskets([[1, 2], [1, 2], [3]])
    counted, searched = frequent_itemsets(baskets, 2, explain=True).explain
    assert counted["candidates"] == 3
    assert counted["frequent"] == 2
    assert searched["frequent"] == 3
    assert searched["pass"] == 2
    assert searched["memory"] > 0
    assert searched["seconds"] >= 0
