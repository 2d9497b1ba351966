"""Every exact method gives the itemsets of brute force; each keeps its memory limit and record."""

from itertools import combinations

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.itemsets import Baskets, frequent_itemsets
from sfumato.mine.itemsets.methods.passes import Passes

COURSE = [
    ["Bread", "Coke", "Milk"],
    ["Beer", "Bread"],
    ["Beer", "Coke", "Diaper", "Milk"],
    ["Beer", "Bread", "Diaper", "Milk"],
    ["Coke", "Diaper", "Milk"],
]
EXACT = [
    ("eclat", {}),
    ("apriori", {}),
    ("pcy", {}),
    ("pcy", {"buckets": 7}),  # nearly all buckets frequent
    ("multistage", {"buckets": 23, "stages": 4}),
    ("multihash", {"buckets": 41, "tables": 3}),
    ("son", {}),
    ("son", {"chunk_baskets": 9}),
    ("toivonen", {}),
    ("toivonen", {"sample": 0.6, "lowered": 0.9}),
]
PAIRED = [each for each in EXACT if each[0] in ("apriori", "pcy", "multistage", "multihash")]


def brute_force(baskets, min_count, max_size=None):
    counts = {}
    for basket in map(set, baskets):
        for size in range(1, min(len(basket), max_size or len(basket)) + 1):
            for each in combinations(sorted(basket), size):
                counts[each] = counts.get(each, 0) + 1
    return {items: count for items, count in counts.items() if count >= min_count}


def as_dict(found):
    return {tuple(sorted(items)): count for items, count in found.to_list()}


def random_baskets(seed, size=80, items=9, longest=7):
    # Items of unequal frequency, some together more often than by chance, some baskets empty.
    rng = np.random.default_rng(seed)
    rates = 1 / np.arange(1, items + 1) ** 0.7
    baskets = [
        rng.choice(items, rng.integers(0, longest), p=rates / rates.sum()).tolist()
        for _ in range(size)
    ]
    return [basket + [0, 3, 5] * (k % 6 == 0) for k, basket in enumerate(baskets)]


@pytest.mark.parametrize(("method", "options"), EXACT)
@pytest.mark.parametrize("max_size", [None, 1, 2, 3])
def test_exact_methods_find_what_brute_force_finds(method, options, max_size):
    for seed in range(4):
        baskets = random_baskets(seed)
        for min_count in (5, 12, 40):
            found = frequent_itemsets(
                baskets, min_count, method=method, max_size=max_size, **options
            )
            assert as_dict(found) == brute_force(baskets, min_count, max_size)
            assert found.exact
            assert found.missed == 0


@pytest.mark.parametrize(("method", "options"), [each for each in EXACT if "sample" not in each[1]])
@pytest.mark.parametrize(
    "baskets",
    [
        random_baskets(7, size=12),
        [[4]],
        [[4], [4], [4]],
        [[], [], []],
        [[1, 2, 3]] * 6,
        [[], [1, 2], [], [2, 1, 1, 2]],
        [list(range(k, k + 3)) for k in range(0, 30, 3)],  # no pair twice
    ],
)
def test_odd_baskets_and_min_count_one(method, options, baskets):
    for min_count in (1, 2, 100):
        found = frequent_itemsets(baskets, min_count, method=method, **options)
        assert as_dict(found) == brute_force(baskets, min_count)


def test_no_baskets_at_all():
    for method, options in EXACT:
        assert len(frequent_itemsets([], 1, method=method, **options)) == 0


@pytest.mark.parametrize(("method", "options"), EXACT[:-1])
def test_course_example(method, options):
    two = frequent_itemsets(COURSE, 2, method=method, **options)
    assert [counts.size for _, counts in two.levels] == [5, 7, 2]
    assert as_dict(two)["Beer", "Bread"] == 2
    three = frequent_itemsets(COURSE, 3, method=method, **options)
    assert [counts.size for _, counts in three.levels] == [5, 2]
    assert as_dict(three)["Coke", "Milk"] == as_dict(three)["Diaper", "Milk"] == 3


@pytest.mark.parametrize(("method", "options"), EXACT[1:])
def test_rows_rise_and_are_in_order(method, options):
    for codes, _ in frequent_itemsets(random_baskets(3), 8, method=method, **options).levels:
        assert (np.diff(codes, axis=1) > 0).all()
        assert codes.tolist() == sorted(codes.tolist())


def test_larger_baskets_agree_over_many_blocks():
    # 70,000 baskets are several blocks of bits; the frequent triple spans all of them.
    rng = np.random.default_rng(1)
    baskets = rng.integers(0, 300, (70_000, 5))
    baskets[::50, :3] = [250, 260, 270]
    expected = as_dict(frequent_itemsets(baskets.tolist(), 700, method="eclat"))
    assert expected[250, 260, 270] == 1400
    held = Baskets(baskets.tolist())
    for method, options in [*PAIRED, ("son", {"chunk_baskets": 30000})]:
        assert as_dict(frequent_itemsets(held, 700, method=method, **options)) == expected


@pytest.mark.parametrize(("method", "options"), EXACT[1:])
def test_every_pass_is_explained(method, options):
    held = Baskets(random_baskets(2, size=300))
    found = frequent_itemsets(held, 30, method=method, explain=True, **options)
    assert [each["pass"] for each in found.explain][-1] == held.passes
    assert {each["pass"] for each in found.explain} == set(range(1, held.passes + 1))
    assert all(each["seconds"] >= 0 and each["memory"] > 0 for each in found.explain)
    assert not frequent_itemsets(held, 30, method=method, **options).explain


@pytest.mark.parametrize("method", ["apriori", "pcy", "multistage", "multihash", "son", "toivonen"])
def test_memory_limit_is_kept_or_refused(method):
    # 200,000 different pairs; triples take 12 bytes each and more, a matrix 4 MB.
    rng = np.random.default_rng(0)
    held = Baskets(rng.integers(0, 1000, (10_000, 8)).tolist())
    with pytest.raises(ParameterError, match=f"memory_limit must be at least .* '{method}'"):
        frequent_itemsets(held, 4, method=method, memory_limit=200_000)
    found = frequent_itemsets(held, 30, method=method, memory_limit=64 << 20, explain=True)
    assert max(each["memory"] for each in found.explain) <= 32 << 20
    expected = frequent_itemsets(held, 30, method="eclat")
    assert as_dict(found) == as_dict(expected)


def test_half_of_the_memory_limit_is_for_tables():
    passes = Passes("pcy", Baskets(COURSE), 1001, None)
    passes.reserve("buckets", 500)
    with pytest.raises(ParameterError, match=r"must be at least 1002 bytes .*: buckets take 501,"):
        passes.reserve("buckets", 501)
    Passes("pcy", Baskets(COURSE), None, None).reserve("buckets", 2**60)


def test_options_of_other_methods_are_refused():
    with pytest.raises(
        TypeError, match="method 'apriori' has no option 'buckets'; it has: longest"
    ):
        frequent_itemsets(COURSE, 2, method="apriori", buckets=7)
    for bad in (0, 2**32, 1.5):
        with pytest.raises(ParameterError, match="buckets must be"):
            frequent_itemsets(COURSE, 2, method="pcy", buckets=bad)
    with pytest.raises(ParameterError, match="stages must be"):
        frequent_itemsets(COURSE, 2, method="multistage", stages=1)
    with pytest.raises(ParameterError, match="tables must be"):
        frequent_itemsets(COURSE, 2, method="multihash", tables=1)


@pytest.mark.parametrize(("method", "options"), PAIRED)
def test_pairs_of_a_very_long_basket_are_bounded_with_a_warning(method, options):
    baskets = [list(range(100)), list(range(100)), *[[k] for k in range(50)] * 2]
    with pytest.warns(UserWarning, match="2 baskets have more than 50 frequent items"):
        found = frequent_itemsets(baskets, 2, method=method, max_size=2, longest=50, **options)
    assert not found.exact
    assert [counts.size for _, counts in found.levels] == [100, 50 * 49 // 2]
    assert frequent_itemsets(baskets, 2, method=method, max_size=2, **options).exact
