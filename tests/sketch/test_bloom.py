"""Bloom filters: never a false no, false yes at the stated rate, in every layout and variant."""

import numpy as np
import pytest

from sfumato.sketch import (
    BloomFilter,
    CountingBloomFilter,
    ScalableBloomFilter,
    SketchFormatError,
    bloom,
    load,
)
from sfumato.sketch import bloom_variants as scalable_bloom

ADDED, OTHER = np.arange(20_000), np.arange(1_000_000, 1_200_000)


def within(found, rate, deviations=6):
    """The false positive rate is the stated one: a binomial mean, p < 1e-8 at 6 deviations."""
    std_error = np.sqrt(rate * (1 - rate) / found.size)
    return abs(found.mean() - rate) < deviations * std_error


@pytest.mark.parametrize("layout", ["plain", "blocked"])
@pytest.mark.parametrize("rate", [0.2, 0.01, 0.001])
def test_capacity_keeps_its_rate(layout, rate):
    # The filter's own rate varies by a few per cent around the formula (its bits are random too).
    sketch = BloomFilter.from_capacity(ADDED.size, rate, layout=layout).update(ADDED)
    assert sketch.contains(ADDED).all()
    assert sketch.false_positive_rate(ADDED.size) <= rate
    found = sketch.contains(OTHER)
    assert within(found, sketch.error_bound())
    assert sketch.error_bound() == pytest.approx(rate, rel=0.15)


@pytest.mark.parametrize("layout", ["plain", "blocked"])
def test_no_smaller_filter_keeps_the_rate(layout):
    sized = BloomFilter.from_capacity(1000, 0.01, layout=layout)
    unit = 1 if layout == "plain" else 512
    for hashes in range(1, 20):
        smaller = BloomFilter(sized.bits - unit, hashes, layout=layout)
        assert smaller.false_positive_rate(1000) > 0.01


@pytest.mark.parametrize(("n", "rate"), [(1, 1e-3), (2, 0.01), (10, 0.03), (60, 0.01)])
def test_rates_of_small_filters_are_exact(n, rate):
    # The mean of 4000 filters' own rates has a deviation below 2 % of it: 6 of those, p < 1e-8. The
    # textbook's (1 - (1 - 1/m)^kn)^k is 47 % too low in the first case.
    sized = BloomFilter.from_capacity(n, rate)
    rates = [BloomFilter(sized.bits, sized.hashes, seed=s).update(range(n)) for s in range(4000)]
    mean = np.mean([sketch.error_bound() for sketch in rates])
    std_error = np.std([sketch.error_bound() for sketch in rates]) / np.sqrt(4000)
    assert abs(mean - sized.false_positive_rate(n)) < 6 * std_error


def test_rates_agree_where_the_exact_sum_ends():
    for hashes in (1, 3, 7, 20):
        exact = bloom._exact_rate(100, 1024, hashes)
        near = bloom._near_rate(np.array([100]), 1024, hashes)[0]
        assert near == pytest.approx(exact, rel=0.02)


def test_plain_capacity_is_the_textbook_optimum():
    sketch = BloomFilter.from_capacity(10_000, 0.01)
    assert sketch.hashes == 7
    assert sketch.bits == pytest.approx(-10_000 * np.log(0.01) / np.log(2) ** 2, rel=0.002)


@pytest.mark.parametrize("layout", ["plain", "blocked"])
def test_size_is_estimated_from_the_bits(layout):
    sketch = BloomFilter.from_capacity(ADDED.size, 0.01, layout=layout).update(ADDED).update(ADDED)
    assert sketch.estimate_size() == pytest.approx(ADDED.size, rel=0.02)
    assert BloomFilter(512, layout=layout).estimate_size() == 0


def test_blocked_bits_fill_lines():
    with pytest.raises(ValueError, match="multiple of 512 when blocked, not 600"):
        BloomFilter(600, layout="blocked")


def test_many_hashes_are_all_used():
    for layout in ("plain", "blocked"):
        sketch = BloomFilter(2**20, 64, layout=layout).update([1])
        assert 48 <= np.bitwise_count(sketch._words).sum() <= 64


def test_removed_keys_are_gone_and_others_stay():
    sketch = CountingBloomFilter.from_capacity(ADDED.size, 0.01).update(ADDED)
    sketch.remove(ADDED[:10_000])
    assert sketch.contains(ADDED[10_000:]).all()
    assert within(sketch.contains(ADDED[:10_000]), sketch.error_bound())
    assert sketch.estimate_size() == pytest.approx(10_000, rel=0.03)
    assert not sketch.remove(ADDED[10_000:])._counts.any()


def test_removing_what_is_not_in_changes_nothing():
    sketch = CountingBloomFilter(2**17).update(ADDED[:100])
    before = sketch.copy()
    keys = np.concatenate([ADDED[:100], [5_000_000]])
    with pytest.raises(ValueError, match="key at row 100 is not in the filter"):
        sketch.remove(keys)
    assert sketch == before
    long = np.concatenate([ADDED[:100], np.tile(ADDED[:1], 40_000)])
    with pytest.raises(ValueError, match="is not in the filter"):
        sketch.remove(long)
    assert sketch == before


def test_counters_saturate_and_then_stay():
    sketch = CountingBloomFilter(64, 2).update(np.full(300, 7))
    assert sketch.estimate([7])[0] == 255
    sketch.remove(np.full(300, 7))
    assert sketch.estimate([7])[0] == 255
    merged = CountingBloomFilter(64, 2).update(np.full(200, 7))
    assert merged.merge(merged.copy()).estimate([7])[0] == 255


def test_counts_are_never_too_low():
    keys = np.random.default_rng(0).integers(0, 500, 3000)
    sketch = CountingBloomFilter(4096, 4).update(keys)
    counts = np.bincount(keys, minlength=500)
    assert (sketch.estimate(np.arange(500)) >= np.minimum(counts, 255)).all()


def test_scalable_filter_keeps_its_rate_as_it_grows():
    # Each filter's own rate scatters by about 10 % (its first layers are small), the mean of 20 by
    # 2 %: 10 % above the stated rate has p < 1e-6. Far below would mean that layers are wasted.
    rates = []
    for seed in range(20):
        sketch = ScalableBloomFilter(100, false_positive_rate=0.02, seed=seed)
        for part in np.array_split(ADDED[:5000], 7):
            sketch.update(part)
        assert sketch.layers == 6
        assert sketch.contains(ADDED[:5000]).all()
        rate = sketch.contains(OTHER).mean()
        assert rate <= sketch.error_bound() + 6 * np.sqrt(0.02 / OTHER.size)
        rates.append(rate)
    assert 0.01 < np.mean(rates) < 0.022


def test_scalable_filter_holds_repeated_keys_once():
    sketch = ScalableBloomFilter(64).update(np.tile(np.arange(50), 1000))
    assert sketch.layers == 1
    assert sketch.held == 50


def test_scalable_filter_says_when_it_can_grow_no_more(monkeypatch):
    monkeypatch.setattr(scalable_bloom, "MOST_BITS", 20_000)
    scalable_bloom._most_layers.cache_clear()
    sketch = ScalableBloomFilter(8).update(range(500))
    room = 8 * (2 ** scalable_bloom._most_layers(8, 0.01) - 1) - 500
    before = sketch.copy()
    with pytest.raises(ValueError, match=f"room for {room} more keys, not {room + 1}"):
        sketch.update(np.arange(room + 1) + 10_000)
    assert sketch == before
    sketch.update(np.arange(room) + 10_000)
    assert max(bits for bits, _ in sketch._geometry()) <= 20_000
    scalable_bloom._most_layers.cache_clear()


def test_no_layer_passes_the_reach_of_the_hash():
    for capacity, rate in ((8, 0.4), (1 << 16, 0.01), (1 << 24, 1e-6)):
        layers = scalable_bloom._most_layers(capacity, rate)
        assert scalable_bloom._sized(capacity, rate, layers - 1)[0] <= 2**32
        assert scalable_bloom._sized(capacity, rate, layers)[0] > 2**32


def test_a_scalable_filter_with_more_keys_than_room_is_no_filter():
    sketch = ScalableBloomFilter(8).update(range(5))
    sketch.held = 20
    with pytest.raises(SketchFormatError, match="holds more keys than it can"):
        load(sketch.to_bytes())


def test_a_bit_beyond_the_last_is_no_filter():
    sketch = BloomFilter(65, 2).update([1])
    sketch._words[1] |= np.uint64(4)
    with pytest.raises(SketchFormatError, match="beyond the last"):
        load(sketch.to_bytes())


@pytest.mark.parametrize(
    "make", [BloomFilter, CountingBloomFilter, lambda size: BloomFilter(size, layout="blocked")]
)
def test_false_positive_rate_is_that_of_the_filter_as_it_is(make):
    sketch = make(65536).update(ADDED[:4000])
    found = np.array([key in sketch for key in OTHER[:1000].tolist()])
    assert not found.any() or found.mean() < 0.02
    assert within(sketch.contains(OTHER), sketch.false_positive_rate())
    assert sketch.false_positive_rate() == sketch.error_bound()


def test_a_scalable_filter_grows_key_by_key():
    sketch = ScalableBloomFilter(8, false_positive_rate=0.01)
    for key in range(100):
        assert key in sketch.add(key)
    assert sketch.layers > 1
    assert sketch.contains(range(100)).all()
    before = sketch.copy()
    assert sketch.add(5) == before  # it holds it already


def test_removal_of_a_list_changes_nothing_if_a_key_is_not_there():
    sketch = CountingBloomFilter(4096).update(["tea", "milk"])
    before = sketch.copy()
    for keys in (["tea", "rum"], np.array(["milk", "rum"]), iter(["tea", "rum"])):
        with pytest.raises(ValueError, match="row 1 is not in the filter"):
            sketch.remove(keys)
        assert sketch == before
    assert "tea" not in sketch.remove(["tea"])
