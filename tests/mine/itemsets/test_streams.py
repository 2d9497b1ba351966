"""Streams: counts between their bounds at every size, in every split; scores that fade."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from sfumato.core.storage import load_any
from sfumato.mine.itemsets import FrequentItems, FrequentPairs, PopularNow


def random_baskets(seed, n=300, items=30):
    """Baskets of skewed items, some empty, some with repeats."""
    rng = np.random.default_rng(seed)
    return [(rng.zipf(1.5, rng.integers(0, 9)) % items).tolist() for _ in range(n)]


def exact(baskets, width):
    return Counter(pair for basket in baskets for pair in combinations(sorted(set(basket)), width))


def estimates(stream, keys):
    return stream.estimate(*np.array(keys).T)


@pytest.mark.parametrize(("kind", "width"), [(FrequentItems, 1), (FrequentPairs, 2)])
@pytest.mark.parametrize("size", [1, 7, 25, 1000])
def test_counts_lie_between_estimate_and_estimate_plus_error_in_every_split(kind, width, size):
    for seed in range(4):
        baskets = random_baskets(seed)
        true = exact(baskets, width)
        split, merged = kind(size), kind(size)
        for start in range(0, len(baskets), 37):
            split.update(baskets[start : start + 37])
        for start in range(0, len(baskets), 100):
            merged.merge(kind(size).update(baskets[start : start + 100]))
        for stream in (kind(size).update(baskets), split, merged):
            keys = list(combinations(range(30), width))
            low, count = estimates(stream, keys), np.array([true[key] for key in keys])
            assert (low <= count).all()
            assert (count <= low + stream.error).all()
            assert stream.total == sum(true.values())
            assert stream.error <= stream.total / (size + 1)
            assert stream.baskets == len(baskets)


def test_the_error_is_met_by_a_stream_of_distinct_items_and_zero_where_all_fit():
    # size + 1 items once each: all are taken away, so each count is 1 too low.
    assert FrequentItems(4).update([[0, 1, 2, 3, 4]]).error == 1
    assert FrequentItems(5).update([[0, 1, 2, 3, 4]]).error == 0


def test_frequent_has_every_frequent_pair_and_refuses_a_support_within_the_error():
    baskets = random_baskets(9, n=2000)
    stream = FrequentPairs(60).update(baskets)
    least = stream.error + 40
    found = {tuple(sorted(row["items"])): row for row in stream.frequent(least).to_pylist()}
    true = exact(baskets, 2)
    assert {pair for pair, count in true.items() if count >= least} <= set(found)
    assert all(row["count"] <= true[pair] <= row["max_count"] for pair, row in found.items())
    assert stream.frequent(least / 2000).equals(stream.frequent(least))
    with pytest.raises(ValueError, match="min_support must be above the error"):
        stream.frequent(stream.error)


def test_a_basket_above_the_limit_is_left_out_counted_in_the_error_and_warned_of():
    stream = FrequentPairs(100, max_items=3)
    with pytest.warns(UserWarning, match="1 baskets have more than max_items=3"):
        stream.update([[1, 2], [1, 2, 3, 4], [2, 1]])
    assert stream.estimate([1, 3], [2, 4]).tolist() == [2, 0]
    assert (stream.error, stream.skipped, stream.baskets) == (1, 1, 3)
    assert stream.frequent(2).to_pylist() == [{"items": [1, 2], "count": 2, "max_count": 3}]


def test_pairs_of_many_blocks_are_those_of_one(monkeypatch):
    baskets = random_baskets(3)
    whole = FrequentPairs(1000).update(baskets)
    monkeypatch.setattr("sfumato.mine.itemsets.streams.frequent.BLOCK", 5)
    keys = list(combinations(range(30), 2))
    blocks = FrequentPairs(1000).update(baskets)
    assert (estimates(whole, keys) == estimates(blocks, keys)).all()


def test_unknown_items_and_either_order_of_a_pair():
    stream = FrequentPairs(10).update([["tea", "milk"], ["milk", "tea"], []])
    assert stream.estimate(["tea", "milk", "rum"], ["milk", "tea", "tea"]).tolist() == [2, 2, 0]
    assert FrequentItems(3).update([[], []]).estimate([7]).tolist() == [0]
    with pytest.raises(ValueError, match="of one length"):
        stream.estimate(["tea"], ["milk", "rum"])


def test_types_do_not_mix_and_a_refused_update_changes_nothing():
    stream = FrequentItems(10).update([["tea"]])
    before = stream.to_bytes()
    with pytest.raises(TypeError, match="items are integers here and text before"):
        stream.update([[1]])
    with pytest.raises(TypeError, match="integers here and text before"):
        stream.merge(FrequentItems(10).update([[1]]))
    with pytest.raises(ValueError, match="size is 10 here and 9 there"):
        stream.merge(FrequentItems(9))
    assert stream.to_bytes() == before


@pytest.mark.parametrize(
    "stream",
    [
        FrequentItems(3).update([["tea", "milk"], ["tea"]]),
        FrequentPairs(3).update([[7, 8, 9], [8, 9]]),
        PopularNow(0.25).update(["tea", "milk", "tea"]),
        FrequentItems(3),
    ],
)
def test_saved_streams_go_on_as_before(stream, tmp_path):
    stream.save(tmp_path / "stream")
    again = load_any(tmp_path / "stream")
    assert again == stream
    more = ["rum", "tea"] if stream.kind == "text" else [8, 9]
    rows = more if isinstance(stream, PopularNow) else [more]
    assert again.update(rows) == stream.copy().update(rows)


def brute_scores(stream, decay):
    """The course's window, step by step: all scores fade, the item gains 1, the small are gone."""
    scores = {}
    for item in stream:
        scores = {each: score * (1 - decay) for each, score in scores.items()}
        scores = {each: score for each, score in scores.items() if score >= 0.5}
        scores[item] = scores.get(item, 0.0) + 1.0
    return scores


@pytest.mark.parametrize("decay", [0.5, 0.1, 0.013])
def test_scores_are_those_of_the_window_taken_step_by_step(decay):
    stream = np.random.default_rng(5).zipf(1.3, 3000) % 200
    now = PopularNow(decay)
    for start in range(0, stream.size, 71):
        now.update(stream[start : start + 71])
        assert now.live <= 2 / decay
    true = brute_scores(stream.tolist(), decay)
    items, scores = now.top(1000)
    assert dict(zip(items.tolist(), scores, strict=True)) == pytest.approx(true)
    assert (np.diff(scores) <= 0).all()
    assert now.scores(items).tolist() == scores.tolist()
    assert now == PopularNow(decay).update(stream)  # split anywhere, bit for bit


def test_scores_sum_to_less_than_one_over_decay_however_long_the_stream():
    now = PopularNow(0.01).update(np.arange(10_000) % 150)
    assert now.top(500)[1].sum() < 100
    assert now.scores([9999 % 150, 10**6]).tolist()[1] == 0


def test_windows_do_not_merge():
    with pytest.raises(TypeError, match="cannot merge, since the order"):
        PopularNow(0.1).merge(PopularNow(0.1))
