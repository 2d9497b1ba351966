"""Rules: the course's numbers, the exhaustive list on random baskets, and every metric by hand."""

import math
from itertools import combinations

import numpy as np
import pytest

from sfumato.mine.itemsets import Itemsets, association_rules, frequent_itemsets

COURSE = [
    ["Bread", "Coke", "Milk"],
    ["Beer", "Bread"],
    ["Beer", "Coke", "Diaper", "Milk"],
    ["Beer", "Bread", "Diaper", "Milk"],
    ["Coke", "Diaper", "Milk"],
]


def as_dict(rules):
    """Rules by their two sides."""
    rows = rules.to_arrow().to_pylist()
    found = {(frozenset(r["antecedent"]), frozenset(r["consequent"])): r for r in rows}
    assert len(found) == len(rows)
    return found


def exhaustive(baskets, min_count, least, metric):
    """All rules of all frequent itemsets, from counts of baskets."""
    sets = [frozenset(basket) for basket in baskets]
    n, names = len(sets), sorted(set().union(*sets))

    def count(items):
        return sum(items <= basket for basket in sets)

    out = {}
    for size in range(2, len(names) + 1):
        for whole in map(frozenset, combinations(names, size)):
            both = count(whole)
            if both < min_count:
                continue
            for width in range(1, size):
                for right in map(frozenset, combinations(whole, width)):
                    left = whole - right
                    a, b = count(left) / n, count(right) / n
                    confidence = both / n / a
                    values = {
                        "count": both,
                        "support": both / n,
                        "antecedent_support": a,
                        "consequent_support": b,
                        "confidence": confidence,
                        "interest": abs(confidence - b),
                        "sign": (both * n > count(left) * count(right))
                        - (both * n < count(left) * count(right)),
                        "lift": confidence / b,
                        "leverage": both / n - a * b,
                        "conviction": (1 - b) / (1 - confidence)
                        if both < count(left)
                        else math.inf,
                    }
                    if values[metric] >= least - 1e-12:
                        out[left, right] = values
    return out


def test_the_numbers_of_the_course():
    found = frequent_itemsets(COURSE, 2)
    rules = as_dict(association_rules(found, min=0))
    one = rules[frozenset(["Milk"]), frozenset(["Coke"])]
    two = rules[frozenset(["Diaper", "Milk"]), frozenset(["Beer"])]
    assert (one["confidence"], two["confidence"]) == pytest.approx((3 / 4, 2 / 3))
    assert (one["interest"], two["interest"]) == pytest.approx((0.15, 1 / 15))
    assert (one["sign"], two["sign"]) == (1, 1)
    assert (one["support"], two["support"]) == pytest.approx((3 / 5, 2 / 5))


@pytest.mark.parametrize("least", [0.0, 0.4, 0.75, 1.0])
def test_pruning_by_confidence_finds_what_the_exhaustive_search_finds(least):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        baskets = [rng.choice(7, rng.integers(1, 7), replace=False).tolist() for _ in range(25)]
        found = frequent_itemsets(baskets, 2)
        rules = as_dict(association_rules(found, min=least, consequents="several"))
        expected = exhaustive(baskets, 2, least, "confidence")
        assert rules.keys() == expected.keys()
        for sides, values in expected.items():
            got = {name: rules[sides][name] for name in values}
            assert got == pytest.approx(values), sides
        single = as_dict(association_rules(found, min=least))
        assert single.keys() == {sides for sides in expected if len(sides[1]) == 1}


@pytest.mark.parametrize(
    ("metric", "least"),
    [("support", 0.2), ("interest", 0.1), ("lift", 1.1), ("leverage", 0.01), ("conviction", 1.2)],
)
def test_every_metric_chooses_by_its_own_number_and_sorts_by_it(metric, least):
    rng = np.random.default_rng(8)
    baskets = [rng.choice(6, rng.integers(1, 6), replace=False).tolist() for _ in range(30)]
    found = frequent_itemsets(baskets, 3)
    rules = association_rules(found, metric, min=least, consequents="several")
    expected = exhaustive(baskets, 3, least, metric)
    assert as_dict(rules).keys() == expected.keys()
    column = rules.to_arrow()[metric].to_numpy()
    assert (np.diff(column[np.isfinite(column)]) <= 0).all()
    best = association_rules(found, metric, min=least, consequents="several", top=4)
    assert best.to_arrow().equals(rules.to_arrow().slice(0, 4))


def test_a_sign_is_exactly_zero_where_items_are_independent():
    baskets = [["a", "b"], ["a"], ["b"], []] * 7
    rule, _ = association_rules(frequent_itemsets(baskets, 1), min=0).to_arrow().to_pylist()
    assert (rule["sign"], rule["interest"], rule["lift"], rule["leverage"]) == (0, 0, 1, 0)
    less = association_rules(frequent_itemsets([*baskets, ["a"], ["b"]], 1), min=0)
    assert less.to_arrow()["sign"].to_pylist() == [-1, -1]


def test_blocks_do_not_change_the_rules(monkeypatch):
    rng = np.random.default_rng(2)
    baskets = [rng.choice(7, rng.integers(1, 7), replace=False).tolist() for _ in range(25)]
    found = frequent_itemsets(baskets, 2)
    whole = association_rules(found, consequents="several").to_arrow()
    monkeypatch.setattr("sfumato.mine.itemsets.rules.BLOCK", 1)
    again = association_rules(found, consequents="several").to_arrow()
    assert as_dict_rows(whole) == as_dict_rows(again)


def as_dict_rows(table):
    return sorted(map(str, table.to_pylist()))


def test_no_rules_and_what_is_refused():
    none = association_rules(frequent_itemsets([["a"], ["b"]], 1))
    assert len(none) == 0
    assert none.to_arrow().num_rows == 0
    assert len(association_rules(frequent_itemsets([[], []], 1))) == 0
    found = frequent_itemsets(COURSE, 2)
    holes = Itemsets(found.levels[1:], found.items, found.n_baskets)
    with pytest.raises(ValueError, match="every subset of each itemset"):
        association_rules(holes)
    gone = [(codes[1:], counts[1:]) for codes, counts in found.levels[:1]]
    with pytest.raises(ValueError, match="every subset of each itemset"):
        association_rules(Itemsets([*gone, *found.levels[1:]], found.items, found.n_baskets))
    for bad in (dict(metric="fun"), dict(min="x"), dict(top=0), dict(consequents="many")):
        with pytest.raises(ValueError, match=f"association_rules: {next(iter(bad))} must"):
            association_rules(found, **bad)
    with pytest.raises(TypeError, match="itemsets must be the Itemsets"):
        association_rules([1])


def test_the_picture_is_drawn_also_of_no_rules():
    rules = association_rules(frequent_itemsets(COURSE, 2))
    assert rules.figure().startswith(b"\x89PNG")
    assert b"<svg" in rules.figure("svg")
    assert association_rules(frequent_itemsets([["a"]], 1)).figure().startswith(b"\x89PNG")
