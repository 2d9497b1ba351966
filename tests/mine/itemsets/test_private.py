"""Private itemsets: no basket moves more than is charged; what is released follows from noise."""

import math
from itertools import combinations

import numpy as np
import pytest

from sfumato.attack.mechanism_audit.audit import audit
from sfumato.core.storage import load_any
from sfumato.errors import FormatError
from sfumato.mine.itemsets import Baskets, PrivateItemsets, association_rules, frequent_itemsets
from sfumato.mine.itemsets.private.noisy_candidates import joined, shrunk
from sfumato.mine.itemsets.private.noisy_counts import GRID, CutBaskets, NoisePlan
from sfumato.privacy import BudgetExceeded, Ledger, Privacy
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.privacy.random_source import SystemSource
from support.replayed_noise import run

WORDS = ["a", "b", "c", "d", "e", "f"]


def random_baskets(seed, n=60):
    rng = np.random.default_rng(seed)
    return [rng.choice(WORDS, rng.integers(0, 6), replace=False).tolist() for _ in range(n)]


def fitted(baskets, epsilon=1e6, source=None, **options):
    options = {"max_items": 6, "max_size": 3, "vocabulary": WORDS, **options}
    return PrivateItemsets(epsilon, **options).fit(baskets, source=source).release_


def listed(itemsets):
    return {frozenset(items): count for items, count in itemsets.to_list()}


def test_without_noise_that_matters_the_itemsets_are_the_exact_ones():
    for seed in range(4):
        baskets = random_baskets(seed)
        for least in (2, 8, 0.2):
            found = fitted(baskets, min_support=least).itemsets()
            assert listed(found) == listed(frequent_itemsets(baskets, least, max_size=3))
            assert (found.n_baskets, found.exact) == (60, False)
        one = fitted(baskets, max_size=1, min_support=2).itemsets()
        assert listed(one) == listed(frequent_itemsets(baskets, 2, max_size=1))


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("basket", [WORDS, ["a"], [], ["c", "f"], ["x", "y", "a", "a"]])
def test_no_basket_moves_the_noisy_sums_by_more_than_the_statement(delta, basket):
    baskets = random_baskets(1, n=200)

    def path(rows):
        return lambda: fitted(rows, 30.0, delta=delta, max_items=3)

    good = run(path(baskets))
    more = run(path([*baskets, basket]), good.noise)
    assert good.error == more.error == ""
    assert len(good.result.itemsets().levels) == 3  # all stages are at work
    assert more.result.to_bytes() == good.result.to_bytes()
    epsilon, rho = good.noise.cost(more.noise)
    loss = Loss.from_dict(good.result.statement.loss)
    assert (rho <= loss.rho * (1 + 1e-9)) if delta else (epsilon <= loss.epsilon * (1 + 1e-9))
    if basket == WORDS:  # all of it is spent, up to the rounding of sigma: the bound is tight
        assert rho > 0.95 * loss.rho if delta else epsilon == pytest.approx(30.0)


def test_what_is_left_of_a_basket_depends_on_that_basket_alone():
    # Two texts of one item, blanks, unlisted ones and more baskets: the added one adds 1 to each
    # of its own items, at most max_items of them, and to each pair of these.
    rng = np.random.default_rng(4)
    pool = [*map(str, range(30)), *(f"{i}.0" for i in range(10)), " ", "", "tea"]
    items = CutBaskets([[str(i) for i in range(25)] + ["tea"]], 4, 0).own_items()
    pairs = np.array(list(combinations(range(len(items)), 2)), np.int32)
    for _ in range(60):
        rows = [rng.choice(pool, rng.integers(0, 12)).tolist() for _ in range(8)]
        here, there = (CutBaskets(each, 4, 7) for each in (rows, rows[:-1]))
        own = {text.removesuffix(".0") for text in rows[-1]} & set(items.to_pylist())
        size = min(len(own), 4)
        for sampled in (True, False):
            change = here.item_counts(items, sampled=sampled) - there.item_counts(
                items, sampled=sampled
            )
            named = {items[int(at)].as_py() for at in np.flatnonzero(change)}
            assert named <= own
            assert (change.sum(), change.max(initial=0)) == (size, min(size, 1))
        change = here.counts(items, pairs) - there.counts(items, pairs)
        assert (change.sum(), change.max(initial=0)) == (math.comb(size, 2), min(size // 2, 1))


def test_two_texts_of_one_item_are_cut_as_one():
    # Whether another row is odd decides if texts are unified before or after they are numbered.
    rng = np.random.default_rng(6)
    plain = [rng.choice(40, 12, replace=False).tolist() for _ in range(50)]
    both = [[*(f"{i}.0" for i in row), *map(str, row[:5])] for row in plain]
    items = CutBaskets(Baskets([[*range(40)]]), 3, 0).own_items()
    one, two = (CutBaskets(rows, 3, 1) for rows in (plain, both))
    for sampled in (True, False):
        counts = [each.item_counts(items, sampled=sampled) for each in (one, two)]
        assert counts[0].tolist() == counts[1].tolist()


def test_every_item_of_a_large_basket_has_a_chance_and_the_seed_decides():
    # 4 of 16 items of 400 different baskets: each count is Binomial(400, 1/4), within 5 deviations
    # but for a probability below 2e-5 for all 16 and other seeds.
    baskets = [[*(f"i{k}" for k in range(16)), f"only {b}"] for b in range(400)]
    items = CutBaskets(Baskets([[f"i{k}" for k in range(16)]]), 4, 0).own_items()
    marked = [CutBaskets(Baskets(baskets), 4, seed) for seed in (0, 1)]
    zero, one = (each.item_counts(each.own_items(), sampled=True) for each in marked)
    assert (zero != one).any()
    names = marked[0].own_items().to_pylist()
    counts = np.array([zero[names.index(item.as_py())] for item in items])
    assert (np.abs(counts - 400 * 4 / 17) < 5 * math.sqrt(400 * 4 / 17 * 13 / 17)).all()


def outcomes(value, trials, source):
    """What many releases of the same baskets hold: number of baskets, itemsets, 0 if not found."""
    model = PrivateItemsets(2.0, max_items=2, vocabulary=["a", "b"])
    cut = CutBaskets(value, 2, 0)
    made = model._calibrated(model._plan(2.0, 0.0), lambda: cut)
    return np.array([summary(made.noisy(source)) for _ in range(trials)])


def summary(arrays):
    """Noisy numbers of baskets, of both items together, and of the pair."""
    sizes = (arrays["_codes"] >= 0).sum(axis=1)
    counts = [arrays["_counts"][sizes == size].sum() for size in (1, 2)]
    return [arrays["_baskets"][0], *counts]


def test_an_audit_of_worst_case_neighbours_measures_less_than_is_claimed():
    # One more basket with all that it may have. An audit of a true claim fails with a probability
    # of 0.01 for other seeds. Eight baskets more must be noticed.
    few = [["a", "b"]] * 20

    def measured(more):
        how = dict(confidence=0.99, source=InsecureSeededSource(5), claimed=2.0)
        return audit(outcomes, (few, few + more), 250, score=lambda x: x.sum(axis=1), **how)

    assert measured([["a", "b"]]).passed
    assert not measured([["a", "b"]] * 8).passed


def test_items_of_one_basket_are_named_with_a_probability_below_half_of_delta():
    plan = NoisePlan(1.0, 0.02, max_items=5, max_size=2, open=True)
    sigma, above = float(plan.scales[0]), plan.release_threshold - GRID
    k = np.arange(-int(12 * sigma), int(12 * sigma))
    mass = np.exp(-(k**2) / (2 * sigma**2))
    tail = mass[k >= above].sum() / mass.sum()
    assert 0.05 * plan.delta / 2 < 5 * tail <= plan.delta / 2  # not far too strict either
    # And so in the code that runs: a lone basket against none. With delta 0.9 the bound is 0.45;
    # of 300 releases more than 175 name an item with probability below 1e-6 if it holds.
    named = 0
    for seed in range(300):
        model = PrivateItemsets(4.0, 0.9, max_items=3, max_size=1)
        release = model.fit([["x", "y", "z"]], source=InsecureSeededSource(seed)).release_
        named += release.items.size > 0
    assert 5 < named <= 175


def test_items_in_no_cut_basket_leave_no_trace_of_their_names():
    baskets = [[f"item {k}" for k in range(50)]] * 3

    def path():
        return PrivateItemsets(1.0, 1e-3, max_items=2, max_size=1).fit(baskets).release_

    outcome = run(path)
    assert outcome.error == ""
    assert outcome.noise.sums[0].tolist() == [3 * GRID, 3 * GRID, 3 * GRID]  # two items, baskets


def test_a_share_is_of_the_noisy_number_of_baskets():
    # Whatever the number of baskets is, noise that makes it the same gives the same bytes.
    baskets = random_baskets(2, n=200)

    def path(rows):
        return lambda: fitted(rows, 30.0, max_items=3, min_support=0.1)

    good = run(path(baskets))
    more = run(path(baskets + [[]] * 60), good.noise)
    assert more.result.to_bytes() == good.result.to_bytes()


def test_without_a_vocabulary_frequent_items_are_named_and_rare_ones_are_not():
    baskets = [["tea", 7], ["tea", "7", "milk"], ["tea", 7.0], ["rum"]] * 250 + [["secret"]]
    source = InsecureSeededSource(3)
    release = (
        PrivateItemsets(2.0, 1e-6, max_items=3, min_support=50).fit(baskets, source=source).release_
    )
    found = listed(release.itemsets())
    assert set(release.items.tolist()) == {"tea", "7", "milk", "rum"}
    near = 6 * release.deviations  # all five counts within 6 deviations but for 1e-8
    assert abs(found[frozenset(["tea", "7"])] - 750) < near[1]
    assert abs(found[frozenset(["rum"])] - 250) < near[0]
    assert release.statement.delta == 1e-6
    assert release.statement.epsilon == 2.0


def test_counts_fit_each_other_and_rules_follow_from_them():
    for seed in range(6):
        release = fitted(random_baskets(seed, 400), 3.0, source=InsecureSeededSource(seed))
        found = release.itemsets()
        counts = listed(found)
        assert counts
        for items, count in counts.items():
            assert 1 <= count <= found.n_baskets
            for item in items if len(items) > 1 else ():
                assert count <= counts[items - {item}]
        rules = release.rules(min=0.0, consequents="several").to_arrow()
        assert rules.equals(association_rules(found, min=0.0, consequents="several").to_arrow())
        assert (rules["confidence"].to_numpy() <= 1).all()


def test_shrinking_moves_noise_to_independence_and_leaves_what_is_far_from_it():
    rng = np.random.default_rng(0)
    expected = rng.uniform(10, 1000, 500)
    true = expected * rng.normal(1, 0.05, 500)
    true[0] = expected[0] + 4000
    noisy = true + rng.normal(0, 100, 500)
    better = shrunk(noisy, expected, 100, 400)
    assert np.square(better - true)[1:].mean() < np.square(noisy - true)[1:].mean() / 2
    assert abs(better[0] - noisy[0]) <= 400
    assert (shrunk(expected, expected, 100, 400) == expected).all()


def test_candidates_have_all_their_subsets_and_the_best_are_taken():
    levels = [
        (np.arange(4, dtype=np.int32)[:, np.newaxis], np.array([9, 8, 7, 6])),
        (np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]], np.int32), np.array([5, 4, 3, 5, 5])),
    ]
    assert joined(levels, 10).tolist() == [[0, 1, 2], [1, 2, 3]]
    assert joined(levels[:1], 2).tolist() == [[0, 1], [0, 2]]
    none = (np.empty((0, 2), np.int32), np.empty(0, np.int64))
    assert joined([levels[0], none], 10).shape == (0, 3)


def test_the_ledger_is_charged_before_noise_and_a_retry_returns_the_same(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l")
    ledger.create("shop", 1.5, unit="basket")
    ledger.create("visits", 9, unit="event")
    paid = dict(ledger=ledger, dataset="shop")
    model = PrivateItemsets(1.0, max_items=3, vocabulary=WORDS)
    baskets = random_baskets(0)
    first = model.fit(baskets, release_id="monday", **paid).release_
    assert ledger.spent("shop").epsilon == pytest.approx(1.0)
    assert first.statement.unit == "basket"
    assert model.fit(baskets, release_id="monday", **paid).release_ == first

    def drawn(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(SystemSource, "fill", drawn)
    with pytest.raises(BudgetExceeded):
        model.fit(baskets, **paid)
    with pytest.raises(ValueError, match="unit is 'basket' here and 'event' in the ledger"):
        model.fit(baskets, ledger=ledger, dataset="visits")
    monkeypatch.undo()
    bundled = PrivateItemsets(max_items=3, vocabulary=WORDS, privacy=Privacy(0.25, **paid))
    assert bundled.fit(baskets).release_.statement.epsilon == 0.25


def test_a_release_is_stored_with_nothing_else_and_damage_is_noticed(tmp_path):
    release = fitted(random_baskets(2, 300), 5.0, delta=1e-6)
    arrays = {"_codes", "_counts", "_baskets", "_deviations", "_items", "_items_ends"}
    assert set(vars(release)) == arrays | {"max_items", "max_size", "kind", "statement"}
    release.save(tmp_path / "r")
    again = load_any(tmp_path / "r")
    assert again == release
    assert again.itemsets().to_list() == release.itemsets().to_list()
    for name, change in (("_codes", 99), ("_items_ends", 1)):
        made = {key: array.copy() for key, array in release._arrays().items()}
        made[name].flat[0] += change
        broken = type(release)._make(release.parameters, made, release.statement)
        with pytest.raises(FormatError):
            type(release).from_bytes(broken.to_bytes())


def test_integers_of_a_vocabulary_stay_integers():
    release = fitted([[1, 2], [1, 2, 3]] * 9, vocabulary=[3, 2, 1], max_items=2)
    assert release.items.dtype == np.int64
    assert {1, 2} <= set(release.items.tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(max_items=0), "max_items must"),
        (dict(max_size=9), "max_size must"),
        (dict(epsilon=0), "epsilon must"),
        (dict(delta=1.0), "delta must"),
        (dict(min_support=0), "min_support must"),
        (dict(vocabulary=[]), "vocabulary must have at least one id"),
        (dict(vocabulary=["7", "7.0"]), "each of another text"),
        (dict(vocabulary=None), "vocabulary must be given where delta is 0"),
        (dict(epsilon=1e-30), "epsilon must be larger"),
        (dict(epsilon=None), "epsilon must be given"),
    ],
)
def test_what_is_refused(options, message):
    options = {"epsilon": 1.0, "max_items": 3, "vocabulary": WORDS, **options}
    with pytest.raises(ValueError, match=f"PrivateItemsets: .*{message}"):
        PrivateItemsets(**options).fit([["a"]])


def test_no_baskets_and_no_items():
    for baskets in ([], [[]], [["unknown"]]):
        for options in ({}, dict(vocabulary=None, delta=1e-3)):
            release = fitted(baskets, 1.0, **options)
            assert release.itemsets().n_baskets >= 1
            assert len(release.rules()) >= 0
