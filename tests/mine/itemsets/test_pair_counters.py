"""Pairs: memory of matrix and triples, buckets and bitmaps, and what hashing eliminates."""

from itertools import combinations

import numpy as np
import pytest

from sfumato.mine.itemsets import Baskets, frequent_itemsets
from sfumato.mine.itemsets.methods.pair_counters import (
    MATRIX_BYTES,
    TRIPLE_BYTES,
    Bitmaps,
    Triangle,
    Triples,
    expected_share,
    matrix_bytes,
    pair_counter,
)
from sfumato.mine.itemsets.methods.passes import Passes
from sfumato.mine.itemsets.methods.pcy import BucketCounts


def independent_baskets(n_items, n_baskets, rate, seed=0):
    """Each item is in each basket with the same probability."""
    member = np.random.default_rng(seed).random((n_baskets, n_items)) < rate
    return Baskets([np.flatnonzero(row).tolist() for row in member])


def passes_of(baskets, memory_limit=None):
    return Passes("apriori", baskets, memory_limit, None)


def explained(baskets, min_count, method, **options):
    found = frequent_itemsets(
        baskets, min_count, method=method, max_size=2, explain=True, **options
    )
    hashed = [each for each in found.explain if "buckets" in each]
    counted = next(each for each in found.explain if each["step"] == "count pairs")
    return found, hashed, counted


def test_matrix_takes_four_bytes_a_pair_and_triples_twelve():
    assert matrix_bytes(1000) == 2 * 1000 * 999  # the course's 2 n^2
    assert Triangle(1000).nbytes == matrix_bytes(1000)
    baskets = independent_baskets(100, 300, 0.1)
    triples = Triples(passes_of(baskets), Bitmaps.none(100))
    for chunk in baskets.read():
        triples.add(chunk)
    slots = triples.nbytes // TRIPLE_BYTES
    assert triples.nbytes == slots * TRIPLE_BYTES
    assert triples.pairs <= slots * 3 // 4
    # Break-even: as many bytes for a third of the pairs.
    assert pytest.approx(matrix_bytes(1000)) == TRIPLE_BYTES * (1000 * 999 // 2) / 3
    assert pytest.approx(1 / 3) == MATRIX_BYTES / TRIPLE_BYTES


@pytest.mark.parametrize(("rate", "name"), [(0.02, "triples"), (0.06, "triangle")])
def test_counter_is_chosen_by_the_third_of_pairs_that_occur(rate, name):
    # A pair is in none of 200 baskets with probability (1 - rate^2)^200: 0.92 and 0.49.
    baskets = independent_baskets(400, 200, rate)
    n = baskets.items.size
    occurring = {pair for chunk in baskets.read() for pair in pairs_of(chunk)}
    share = len(occurring) / (n * (n - 1) / 2)
    assert (share < 1 / 3) == (name == "triples")
    assert expected_share(baskets, n) == pytest.approx(share, abs=0.02)
    assert pair_counter(passes_of(baskets), n).name == name


def test_triples_are_taken_where_the_matrix_does_not_fit():
    baskets = independent_baskets(400, 200, 0.06)
    fits = passes_of(baskets, 2 * matrix_bytes(400))
    assert pair_counter(fits, 400).name == "triangle"
    assert pair_counter(passes_of(baskets, 2 * matrix_bytes(400) - 2), 400).name == "triples"


def pairs_of(chunk):
    for start, stop in zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True):
        yield from combinations(chunk.items[start:stop].tolist(), 2)


def test_both_counters_count_every_pair():
    baskets = independent_baskets(60, 500, 0.15)
    expected = {}
    for chunk in baskets.read():
        for pair in pairs_of(chunk):
            expected[pair] = expected.get(pair, 0) + 1
    for counter in (Triangle(60), Triples(passes_of(baskets), Bitmaps.none(60))):
        for chunk in baskets.read(chunk_bytes=1000):
            counter.add(chunk)
        codes, counts = counter.frequent(1)
        found = dict(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))
        assert found == expected
        assert counter.pairs == len(expected)


def test_triples_grow_in_the_middle_of_a_basket():
    baskets = Baskets([list(range(400)), list(range(200))])  # 79,800 pairs: 12,288 fill it at first
    triples = Triples(passes_of(baskets), Bitmaps.none(400))
    for chunk in baskets.read():
        triples.add(chunk)
    _, counts = triples.frequent(1)
    assert counts.size == 400 * 399 // 2
    assert (counts == 2).sum() == 200 * 199 // 2


def test_buckets_count_each_pair_once_and_stop_at_the_threshold():
    baskets = independent_baskets(40, 300, 0.2)
    table = BucketCounts(97, 50, np.random.default_rng(3), Bitmaps.none(40))
    by_hand = np.zeros(97, np.int64)
    for chunk in baskets.read():
        table.add(chunk)
        for x, y in pairs_of(chunk):
            total = (int(table.hashes[x]) + int(table.hashes[y])) % 2**32
            by_hand[total * 97 >> 32] += 1
    assert by_hand.max() > 50
    assert table._counts.tolist() == np.minimum(by_hand, 50).tolist()
    assert table.above == (by_hand >= 50).sum()


@pytest.mark.parametrize("min_count", [3, 300, 70_000])
def test_counters_are_as_small_as_the_threshold_allows(min_count):
    bits = BucketCounts(64, min_count, np.random.default_rng(0), Bitmaps.none(5)).nbytes // 8
    assert bits == (8 if min_count < 256 else 16 if min_count < 2**16 else 32)


def test_hash_functions_spread_pairs_evenly_and_independently():
    # 499,500 pairs in 1000 buckets: chi-square has mean 999, standard deviation 44.7; above 1223
    # (5 deviations) with probability about 1e-6. The same for the 2-dimensional table of both.
    rng, pairs = np.random.default_rng(5), np.triu_indices(1000, 1)
    tables = [BucketCounts(1000, 1, rng, Bitmaps.none(1000)) for _ in range(2)]
    slots = [
        ((t.hashes[pairs[0]] + t.hashes[pairs[1]]).astype(np.uint64) * np.uint64(1000))
        >> np.uint64(32)
        for t in tables
    ]
    joint = slots[0] // np.uint64(32) * np.uint64(32) + slots[1] // np.uint64(32)
    for at, size in ((slots[0], 1000), (slots[1], 1000), (joint, 1024)):
        counts = np.bincount(at.astype(np.int64), minlength=size).astype(float)
        if size == 1024:  # the last row and column are cut off, at 1000
            grid = counts.reshape(32, 32)[:31, :31].ravel()
            counts = grid
        expected = counts.mean()
        chi_square = ((counts - expected) ** 2 / expected).sum()
        assert chi_square < counts.size - 1 + 5 * np.sqrt(2 * counts.size)


@pytest.mark.parametrize("buckets", [1, 2, 30, 1000, 1 << 20])
@pytest.mark.parametrize("method", ["pcy", "multistage", "multihash"])
def test_no_frequent_pair_is_lost_whatever_the_buckets(method, buckets):
    baskets = independent_baskets(40, 400, 0.15)
    expected = frequent_itemsets(baskets, 14, method="apriori", max_size=2).to_list()
    for seed in range(5):
        found = frequent_itemsets(
            baskets, 14, method=method, max_size=2, buckets=buckets, seed=seed
        )
        assert found.to_list() == expected


def test_pcy_reports_bitmap_and_share_eliminated():
    baskets = independent_baskets(200, 2000, 0.04)
    _, (hashed,), counted = explained(baskets, 8, "pcy", buckets=1 << 15)
    assert hashed["bitmap_bytes"] == 4 * hashed["buckets"] // 32  # of counts of 4 bytes
    assert hashed["candidates"] == round((1 - hashed["eliminated"]) * 200 * 199 / 2)
    # Few of these pairs that survive do not occur at all: those would not be counted.
    assert counted["candidates"] <= hashed["candidates"] <= 1.2 * counted["candidates"] + 5
    assert 0.5 < hashed["eliminated"] < 1
    assert counted["frequent"] <= counted["candidates"]


def test_multistage_has_at_most_the_candidates_of_pcy():
    baskets = independent_baskets(200, 2000, 0.05)
    counts, survivors = [], []
    for method, options in (("pcy", {}), ("multistage", {}), ("multistage", {"stages": 4})):
        found, hashed, counted = explained(baskets, 8, method, buckets=6000, **options)
        survivors.append(hashed[-1]["candidates"])
        counts.append(counted["candidates"])
    assert counts[0] > counts[1] > counts[2]  # the same first hash function, so subsets
    assert survivors[0] > survivors[1] > survivors[2]
    assert [each["buckets"] for each in hashed] == [6000, 5813, 5625, 5438]  # 31/32, 30/32, ...
    # Two bitmaps take 1/32 + 31/32/32 of the first counts: about 1/16.
    assert hashed[1]["bitmap_bytes"] == pytest.approx(4 * 6000 / 16, rel=0.02)
    assert found.levels[1][1].size <= counts[2]


def test_multihash_helps_while_buckets_stay_below_the_threshold():
    # 120,000 pairs. 2^15 buckets: 3.7 each, tables of half as many 7.3: most below 25. 2^12
    # buckets: 29 each, 117 in tables of a quarter: all frequent, nothing is eliminated.
    baskets = independent_baskets(200, 2000, 0.055)
    few, many = 1 << 12, 1 << 15
    share = {
        (method, buckets): explained(baskets, 25, method, buckets=buckets, **options)[1][0]
        for method, options in (("pcy", {}), ("multihash", {"tables": 4}))
        for buckets in (few, many)
    }
    assert share["multihash", many]["eliminated"] > share["pcy", many]["eliminated"] > 0.9
    assert share["multihash", few]["eliminated"] < 0.01 < share["pcy", few]["eliminated"]
    assert share["multihash", few]["buckets_above"] == few
