"""Buckets give exactly the rows that share a key, however these came and whatever was removed."""

from itertools import pairwise

import numpy as np
import pytest

from sfumato.retrieve import Buckets, band_keys
from sfumato.sketch import MinHash

rng = np.random.default_rng(0)
BOUNDS = [2, 50, 2**17, 2**64 - 1]  # buckets of many rows and of one, keys of few bits and of all


def keys_of(rows, tables, bound):
    return rng.integers(0, bound, (rows, tables), dtype=np.uint64, endpoint=True)


def brute(keys, queries):
    return [np.flatnonzero((keys == q).any(axis=1)) for q in queries]


def found(buckets, queries):
    starts, rows = buckets.rows_of(queries)
    return [rows[a:b] for a, b in pairwise(starts)]


def same(left, right):
    return len(left) == len(right) and all(map(np.array_equal, left, right))


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("pieces", [[500], [1] * 40 + [200, 3, 3, 77], [0, 300, 0]])
def test_rows_that_share_a_key_are_found(bound, pieces):
    keys = keys_of(sum(pieces), 3, bound)
    buckets = Buckets(3)
    for part in np.split(keys, np.cumsum(pieces)[:-1]):
        buckets.add(part)
    queries = np.concatenate([keys[::7], keys_of(5, 3, bound)])
    assert same(found(buckets, queries), brute(keys, queries))
    assert buckets.count == len(keys)


def test_runs_stay_few():
    buckets = Buckets(1)
    for i in range(1000):
        buckets.add(keys_of(1, 1, 2**64 - 1))
        assert len(buckets.runs) <= np.log2(i + 1) + 1


@pytest.mark.parametrize("bound", BOUNDS)
def test_compacted_buckets_are_those_of_the_rows_left(bound):
    keys, alive = keys_of(300, 4, bound), rng.random(300) < 0.3
    whole = Buckets(4).add(keys[:100]).add(keys[100:])
    before = whole.copy()
    whole.compact(alive)
    assert same(found(whole, keys), brute(keys[alive], keys))
    assert same(found(before, keys), brute(keys, keys))  # a reader keeps its snapshot
    assert same(found(whole.add(keys), keys), brute(np.concatenate([keys[alive], keys]), keys))
    assert whole.compact(np.zeros(whole.count, bool)).count == 0


def test_pairs_name_query_and_row():
    keys = keys_of(200, 1, 30)
    at, rows = Buckets(1).add(keys[:90]).add(keys[90:]).pairs(keys[:20])
    expected = {(q, r) for q in range(20) for r in range(200) if keys[q, 0] == keys[r, 0]}
    assert set(zip(at.tolist(), rows.tolist(), strict=True)) == expected


def test_nothing_is_found_where_nothing_is():
    starts, rows = Buckets(2).rows_of(keys_of(3, 2, 9))
    assert starts.tolist() == [0, 0, 0, 0]
    assert rows.size == 0


def test_band_keys_are_equal_where_whole_bands_are():
    codes = rng.integers(-3, 3, (400, 12)).astype(np.int32)
    keys = band_keys(codes, 4)
    bands = codes.reshape(400, 4, 3)
    equal = (bands[:, None] == bands[None]).all(axis=3)
    assert np.array_equal(keys[:, None] == keys[None], equal)


def test_codes_of_any_type_of_whole_numbers_have_the_same_keys():
    codes = rng.integers(0, 2**31, (9, 6))
    expected = band_keys(codes, 3)
    for kind in (np.int32, np.uint32, np.uint64, ">i8"):
        assert np.array_equal(band_keys(codes.astype(kind), 3), expected)
    assert np.array_equal(band_keys(np.asfortranarray(codes), 3), expected)
    assert np.array_equal(band_keys(codes.tolist(), 3), expected)


def test_what_would_lead_a_kernel_astray_is_refused_and_changes_nothing():
    buckets = Buckets(2).add([[7, 1], [8, 1]])
    for call, words in [
        (lambda: Buckets(0), "tables must be"),
        (lambda: buckets.add([[1, 2, 3]]), "2 columns"),
        (lambda: buckets.add([[1], [2]]), "2 columns"),
        (lambda: buckets.add([1, 2]), "matrix of integers"),
        (lambda: buckets.add([[1.5, 2.5]]), "matrix of integers"),
        (lambda: buckets.rows_of([[1, 2, 3]]), "2 columns"),
        (lambda: buckets.pairs([[1, 2, 3]]), "2 columns"),
        (lambda: buckets.marks(np.zeros((1, 3, 1), np.uint64)), "probes"),
        (lambda: buckets.compact(np.ones(3, bool)), "2 entries"),
        (lambda: band_keys([[1, 2]], 3), "bands must be"),
        (lambda: band_keys([[1, 2]], 0), "bands must be"),
        (lambda: band_keys([1, 2], 1), "matrix"),
        (lambda: band_keys([[0.5]], 1), "matrix"),
        (lambda: band_keys([[0, 2**40]], 1), "32 bits"),
        (lambda: band_keys([[0]], 1, seed=-1), "seed must be"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    assert buckets.rows_of([[7, 1]])[1].tolist() == [0, 1]
    assert buckets.add([]).count == 2
    assert buckets.rows_of([])[0].tolist() == [0]


def test_similar_sets_share_a_band_of_their_signatures():
    # Jaccard similarity 0.8: one pair is missed with probability (1 - 0.8**4)**16 = 2.1e-4, so that
    # more than 6 of 500 are with probability below 1e-9; similarity 0: any at all below 1e-6.
    sets = [np.arange(100 * i, 100 * i + 90) for i in range(500)]
    similar = [np.arange(100 * i + 10, 100 * i + 100) for i in range(500)]
    sketch = MinHash(64, seed=1)
    left, right = (band_keys(sketch.signatures(each), 16) for each in (sets, similar))
    starts, rows = Buckets(16).add(left).rows_of(right)
    own = [i in rows[starts[i] : starts[i + 1]] for i in range(500)]
    assert 500 - sum(own) <= 6
    assert rows.size == sum(own)
