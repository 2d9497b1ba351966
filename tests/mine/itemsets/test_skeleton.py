from itertools import combinations

import numpy as np
import pytest

from sfumato.mine.itemsets import Baskets, frequent_itemsets, read_baskets

COURSE = [
    ["Bread", "Coke", "Milk"],
    ["Beer", "Bread"],
    ["Beer", "Coke", "Diaper", "Milk"],
    ["Beer", "Bread", "Diaper", "Milk"],
    ["Coke", "Diaper", "Milk"],
]


def test_course():
    two = frequent_itemsets(COURSE, 2)
    assert [counts.size for _, counts in two.levels] == [5, 7, 2]
    assert dict((frozenset(k), v) for k, v in two.to_list())[frozenset(["Beer", "Bread"])] == 2
    assert [counts.size for _, counts in frequent_itemsets(COURSE, 0.6).levels] == [5, 2]


def brute(baskets, s):
    out = {}
    for basket in map(set, baskets):
        for k in range(1, len(basket) + 1):
            for each in combinations(sorted(basket), k):
                out[each] = out.get(each, 0) + 1
    return {key: count for key, count in out.items() if count >= s}


@pytest.mark.parametrize("seed", range(5))
def test_brute(seed, tmp_path):
    rng = np.random.default_rng(seed)
    baskets = [rng.integers(0, 9, rng.integers(0, 7)).tolist() for _ in range(40)]
    want = brute(baskets, 3)
    path = tmp_path / "a.dat"
    path.write_text("".join(" ".join(map(str, b)) + "\n" for b in baskets))
    for each in (baskets, read_baskets(path)):
        got = frequent_itemsets(each, 3)
        assert {tuple(sorted(k)): v for k, v in got.to_list()} == want
        assert got.to_arrow().num_rows == len(want)
    held = Baskets(baskets)
    one = list(held.read(chunk_bytes=64))
    assert len(one) > 1 and sum(c.offsets.size - 1 for c in one) == 40
