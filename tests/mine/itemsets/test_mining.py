"""One call: what a support means, which method is chosen and why, and the table that comes out."""

import gc
from itertools import combinations

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.itemsets import Baskets, Itemsets, frequent_itemsets

COURSE = [
    ["Bread", "Coke", "Milk"],
    ["Beer", "Bread"],
    ["Beer", "Coke", "Diaper", "Milk"],
    ["Beer", "Bread", "Diaper", "Milk"],
    ["Coke", "Diaper", "Milk"],
]


def sizes(found):
    return [counts.size for _, counts in found.levels]


def sets(found):
    return {frozenset(items): count for items, count in found.to_list()}


def test_the_course_numbers():
    two, three = frequent_itemsets(COURSE, 2), frequent_itemsets(COURSE, 3)
    assert sizes(two) == [5, 7, 2]
    assert sizes(three) == [5, 2]
    counts = sets(two)
    assert counts[frozenset(["Beer", "Bread"])] == 2
    assert {items for items in sets(three) if len(items) == 2} == {
        frozenset(["Coke", "Milk"]),
        frozenset(["Diaper", "Milk"]),
    }
    # confidences of Milk -> Coke and {Diaper, Milk} -> Beer
    assert counts[frozenset(["Milk", "Coke"])] / counts[frozenset(["Milk"])] == 0.75
    three_of = counts[frozenset(["Diaper", "Milk", "Beer"])]
    assert three_of / counts[frozenset(["Diaper", "Milk"])] == pytest.approx(2 / 3)


def test_a_support_below_one_is_a_fraction_rounded_up():
    assert sets(frequent_itemsets(COURSE, 0.6)) == sets(frequent_itemsets(COURSE, 3))
    assert frequent_itemsets(COURSE, 0.41).min_count == 3
    assert frequent_itemsets(COURSE, 1e-9).min_count == 1
    assert frequent_itemsets([[1]] * 1000, 0.07).min_count == 70  # 0.07 * 1000 is above 70
    assert frequent_itemsets(COURSE, 3.0).min_count == 3
    assert len(frequent_itemsets(COURSE, 6)) == 0


@pytest.mark.parametrize(
    "support", [0, 0.0, -1, -0.1, 1.5, True, np.True_, "2", None, float("nan"), float("inf"), [2]]
)
def test_what_is_no_support_is_refused(support):
    with pytest.raises(ParameterError, match="min_support must be a fraction above 0"):
        frequent_itemsets(COURSE, support)


@pytest.mark.parametrize(
    ("name", "value"),
    [("method", "magic"), ("max_size", 0), ("memory_limit", 0), ("explain", 1), ("max_size", 1.5)],
)
def test_parameters_are_checked(name, value):
    with pytest.raises(ParameterError, match=name):
        frequent_itemsets(COURSE, 2, **{name: value})


def test_the_choice_goes_by_memory_and_says_why():
    rng = np.random.default_rng(0)
    lists = [rng.integers(0, 60, 6).tolist() for _ in range(60_000)]
    baskets = Baskets(lists)
    free = frequent_itemsets(baskets, 0.01)
    roomy = frequent_itemsets(baskets, 0.01, memory_limit=1 << 30)
    tight = frequent_itemsets(baskets, 0.01, memory_limit=12 << 20)
    assert (free.method, roomy.method, tight.method) == ("eclat", "eclat", "son")
    assert "no memory_limit" in free.reason
    assert "1,024 MiB allows" in roomy.reason
    assert "more than the memory_limit of 12 MiB" in tight.reason
    assert "60,000 baskets and 60 frequent items" in free.reason
    assert sets(free) == sets(roomy) == sets(tight)
    assert "caller" in frequent_itemsets(baskets, 0.5, method="eclat").reason


def test_nothing_in_gives_an_empty_table():
    for nothing in ([], [[]], [["tea"]]):
        found = frequent_itemsets(nothing, 2)
        assert len(found) == 0
        assert found.to_list() == []
        assert found.to_arrow().num_rows == 0
        assert found.to_arrow().column_names == ["items", "size", "count", "support"]
        assert len(found.closed()) == len(found.maximal()) == 0


@pytest.mark.parametrize("ids", [lambda i: i, lambda i: i + 300, lambda i: -i, str])
def test_all_forms_hold_the_same_rows(ids):
    rng = np.random.default_rng(1)
    lists = [[ids(int(i)) for i in rng.integers(0, 12, 7)] for _ in range(60)]
    found = frequent_itemsets(lists, 0.1)
    rows = found.to_list()
    table = found.to_arrow()
    assert [tuple(items) for items in table["items"].to_pylist()] == [items for items, _ in rows]
    assert table["count"].to_pylist() == [count for _, count in rows]
    assert table["size"].to_pylist() == [len(items) for items, _ in rows]
    assert table["support"].to_pylist() == [count / 60 for _, count in rows]
    assert all(type(item) is type(lists[0][0]) for items, _ in rows for item in items)
    assert found.to_pandas().shape == found.to_polars().shape == (len(found), 4)
    assert len(found._repr_html_()) > 0


def test_many_itemsets_are_listed_and_garbage_collection_goes_on():
    lists = [list(range(300, 314))] * 2
    for enabled in (True, False):
        gc.enable() if enabled else gc.disable()
        try:
            rows = frequent_itemsets(lists, 2).to_list()
            assert gc.isenabled() is enabled
        finally:
            gc.enable()
        want = [each for k in range(1, 15) for each in combinations(range(300, 314), k)]
        assert {items for items, _ in rows} == set(want)
        assert len(rows) == len(want)


@pytest.mark.parametrize("seed", range(4))
def test_closed_and_maximal_are_those_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    lists = [np.flatnonzero(row).tolist() for row in rng.random((40, 8)) < 0.6]
    found = frequent_itemsets(lists, 4)
    every = sets(found)
    larger = {items: [other for other in every if items < other] for items in every}
    closed = {i: c for i, c in every.items() if all(every[other] < c for other in larger[i])}
    maximal = {i: c for i, c in every.items() if not larger[i]}
    assert sets(found.closed()) == closed
    assert sets(found.maximal()) == maximal
    assert 0 < len(maximal) < len(closed) < len(every)
    assert len(found) == len(every)  # selecting changes nothing


def test_results_are_built_from_codes():
    baskets = Baskets(COURSE)
    levels = [(np.array([[0], [1]], np.int32), np.array([4, 3]))]
    made = Itemsets.from_codes(levels, baskets, min_count=3, method="by hand", exact=False)
    assert made.to_list() == [(("Milk",), 4), (("Beer",), 3)]
    assert made.exact is False
    assert "by hand" in repr(made)
