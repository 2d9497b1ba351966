"""SON loses nothing for any split; sampling estimates what it misses; Toivonen's starts again."""

from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import combinations, pairwise

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.itemsets import BasketChunk, Baskets, frequent_itemsets
from sfumato.mine.itemsets.methods.candidates import Supports, join, union
from sfumato.mine.itemsets.methods.chunks import gathered
from sfumato.mine.itemsets.methods.passes import Passes
from sfumato.mine.itemsets.methods.sampling import expected_missed
from sfumato.mine.itemsets.methods.son import (
    local_candidates,
    local_counts,
    local_threshold,
    merged,
)


def correlated_baskets(seed, size=400, items=25):
    """Items of unequal frequency, in groups of five that are often together."""
    rng = np.random.default_rng(seed)
    rates = np.geomspace(0.4, 0.03, items)
    member = rng.random((size, items)) < rates
    groups = rng.integers(0, items // 5, size)
    for row in range(0, size, 3):
        member[row, groups[row] :: items // 5] |= rng.random(5) < 0.7
    return [np.flatnonzero(row).tolist() for row in member]


def as_set(levels):
    return {tuple(row) for codes, _ in levels for row in codes.tolist()}


def test_son_loses_nothing_for_any_split():
    for seed in range(6):
        baskets = Baskets(correlated_baskets(seed, size=150))
        min_count = 12
        truth = frequent_itemsets(baskets, min_count, method="apriori").levels[1:]
        n = baskets.frequent(min_count)
        (whole,) = baskets.read(max_code=n)
        rng = np.random.default_rng(seed)
        cuts = np.unique(rng.integers(1, 150, 5)).tolist()
        chunks = [cut(whole, a, b) for a, b in zip([0, *cuts], [*cuts, 150], strict=True)]
        found = [local_candidates(chunk, min_count, 150, 4) for chunk in chunks]
        candidates = reduce(merged, found)
        assert [each.tolist() for each in reduce(merged, found[::-1])] == [
            each.tolist() for each in candidates
        ]
        assert as_set(truth) <= {tuple(row) for each in candidates for row in each.tolist()}
        totals = [
            sum(each)
            for each in zip(*(local_counts(c, candidates, n) for c in chunks), strict=False)
        ]
        for codes, counts in truth:
            rows = {tuple(row): k for k, row in enumerate(candidates[codes.shape[1] - 2].tolist())}
            at = [rows[tuple(row)] for row in codes.tolist()]
            assert totals[codes.shape[1] - 2][at].tolist() == counts.tolist()


def cut(chunk, first, last):
    start, stop = chunk.offsets[first], chunk.offsets[last]
    return BasketChunk(chunk.offsets[first : last + 1] - start, chunk.items[start:stop])


def test_local_threshold_is_the_share_of_the_chunk_rounded_up():
    assert local_threshold(100, 50, 1000) == 5
    assert local_threshold(101, 50, 1000) == 6  # 5.05: not below the share
    assert local_threshold(1, 1, 1000) == 1
    for min_count, sizes in ((17, [3, 60, 37]), (100, [1, 98, 1]), (3, [50, 50])):
        # An itemset one below the threshold in every chunk is infrequent in all of them.
        assert sum(local_threshold(min_count, each, 100) - 1 for each in sizes) < min_count


def test_son_runs_on_the_map_of_a_pool():
    baskets = Baskets(correlated_baskets(1))
    expected = frequent_itemsets(baskets, 40, method="eclat")
    with ThreadPoolExecutor(3) as pool:
        found = frequent_itemsets(baskets, 40, method="son", chunk_baskets=60, mapper=pool.map)
    assert as_set(found.levels) == as_set(expected.levels)


@pytest.mark.parametrize("size", [1, 7, 50, 399, 400, 1000])
def test_chunks_are_gathered_to_a_size_and_none_is_small(size):
    baskets = Baskets(correlated_baskets(2))
    (whole,) = baskets.read()
    chunks = list(gathered(baskets.read(chunk_bytes=500), size))
    sizes = [chunk.offsets.size - 1 for chunk in chunks]
    assert sum(sizes) == 400
    assert sizes == [400] if size >= 400 else all(each == size for each in sizes[:-1])
    assert size >= 400 or size <= sizes[-1] < 2 * size
    assert np.concatenate([chunk.items for chunk in chunks]).tolist() == whole.items.tolist()
    lengths = np.concatenate([np.diff(chunk.offsets) for chunk in chunks])
    assert lengths.tolist() == np.diff(whole.offsets).tolist()


def test_join_gives_the_itemsets_all_of_whose_subsets_are_there():
    rng, passes = np.random.default_rng(4), Passes("apriori", Baskets([[1]]), None, None)
    for size in (2, 3):
        every = np.array(list(combinations(range(9), size)), np.int32)
        rows = every[rng.random(len(every)) < 0.7]
        known = set(map(tuple, rows.tolist()))
        expected = [
            each
            for each in combinations(range(9), size + 1)
            if all(part in known for part in combinations(each, size))
        ]
        assert expected
        assert join(rows, passes).tolist() == [list(each) for each in expected]
    assert join(np.empty((0, 2), np.int32), passes).shape == (0, 3)


def test_union_has_each_row_once():
    left, right = np.array([[0, 2], [1, 2]], np.int32), np.array([[0, 1], [1, 2]], np.int32)
    assert union([left, right]).tolist() == [[0, 1], [0, 2], [1, 2]]


def test_supports_of_several_sizes_are_counted_together():
    baskets = Baskets(correlated_baskets(3, size=1500))  # three blocks of 512 baskets at least
    rng = np.random.default_rng(0)
    (whole,) = baskets.read()
    rows = [set(whole.items[a:b].tolist()) for a, b in pairwise(whole.offsets)]
    candidates = [
        np.array(sorted({tuple(sorted(rng.choice(25, k, replace=False))) for _ in range(80)}), "i4")
        for k in (2, 3, 5)
    ]
    supports = Supports(candidates, 25)
    supports._block = 512
    supports._bits, supports._prefixes = (
        supports._bits[:, :8].copy(),
        supports._prefixes[:, :8].copy(),
    )
    for chunk in baskets.read(chunk_bytes=9000):
        supports.add(chunk)
    for codes, counts in zip(supports.candidates, supports.counts, strict=True):
        assert counts.tolist() == [sum(set(c) <= row for row in rows) for c in codes.tolist()]


def test_sampling_estimates_how_many_itemsets_it_misses():
    # 200 samples of a fifth; the mean of estimate - missed is 0, and its standard deviation is
    # measured, so more than 4.5 standard errors have probability below 1e-5.
    baskets = Baskets(correlated_baskets(5, size=1000))
    truth = as_set(frequent_itemsets(baskets, 60, method="apriori").levels)
    differences, missed = [], []
    for seed in range(200):
        found = frequent_itemsets(
            baskets, 60, method="sampling", sample=0.2, lowered=0.9, random_state=seed
        )
        assert not found.exact
        assert as_set(found.levels) <= truth  # the second pass leaves no false positive
        missed.append(len(truth) - len(found))
        differences.append(found.missed - missed[-1])
    assert np.mean(missed) > 4  # else the test would be about nothing
    assert abs(np.mean(differences)) < 4.5 * np.std(differences) / np.sqrt(200)
    assert np.mean(differences) == pytest.approx(0, abs=0.15 * np.mean(missed))


def test_a_lower_threshold_misses_less_and_gives_more_candidates():
    baskets = Baskets(correlated_baskets(6, size=1000))
    truth = len(frequent_itemsets(baskets, 60, method="apriori"))
    missed, candidates = [], []
    for lowered in (0.99, 0.8, 0.5):
        found = frequent_itemsets(
            baskets, 60, method="sampling", sample=0.2, lowered=lowered, explain=True
        )
        missed.append(truth - len(found))
        candidates.append(found.explain[-1]["candidates"])
    assert missed[0] > missed[1] >= missed[2] == 0
    assert candidates[0] < candidates[1] < candidates[2]


def test_without_verification_there_are_false_positives_and_one_pass_less():
    baskets = Baskets(correlated_baskets(6, size=1000))
    truth = as_set(frequent_itemsets(baskets, 60, method="apriori").levels)
    before = baskets.passes
    found = frequent_itemsets(baskets, 60, method="sampling", sample=0.2, lowered=0.8, verify=False)
    assert baskets.passes == before + 1
    assert as_set(found.levels) - truth
    assert not found.exact
    codes, counts = found.levels[0]
    assert counts.tolist() == baskets.item_counts[: codes.shape[0]].tolist()  # items are exact


def test_expected_missed_by_hand():
    # Count 2, each basket sampled with probability 1/2, threshold 2: missed with probability 3/4,
    # so each one found stands for three that were not.
    assert expected_missed(np.array([2]), 0.5, 2) == pytest.approx(3)
    assert expected_missed(np.array([2, 2]), 0.5, 1) == pytest.approx(2 / 3)
    assert expected_missed(np.array([2]), 1.0, 2) == 0


def test_toivonen_starts_again_after_an_unlucky_sample_and_is_exact():
    # Hardly lowered thresholds of small samples: most of them miss a frequent itemset.
    baskets = Baskets(correlated_baskets(7, size=1000))
    truth = dict(frequent_itemsets(baskets, 60, method="apriori").to_list())
    restarts = []
    for seed in range(10):
        found = frequent_itemsets(
            baskets,
            60,
            method="toivonen",
            sample=0.1,
            lowered=0.9,
            random_state=seed,
            explain=True,
        )
        assert dict(found.to_list()) == truth
        assert found.exact
        checks = [each for each in found.explain if "lost" in each]
        assert all(each["lost"] > 0 for each in checks[:-1])
        assert checks[-1]["lost"] == 0
        samples = [each["sample"] for each in found.explain if "sample" in each]
        assert samples == [min(1.0, 0.1 * 2**k) for k in range(len(samples))]
        restarts.append(len(checks) - 1)
    assert max(restarts) >= 1


def test_toivonen_needs_no_restart_where_the_threshold_is_low():
    baskets = Baskets(correlated_baskets(7, size=1000))
    found = frequent_itemsets(baskets, 60, method="toivonen", sample=0.5, lowered=0.6, explain=True)
    assert baskets.passes == 3  # items, sample, and one over all
    assert [each["lost"] for each in found.explain if "lost" in each] == [0]


def test_toivonen_lowers_the_threshold_where_a_larger_sample_does_not_fit():
    # Two fifths of the baskets fit into the half of 5 MB, four fifths do not.
    baskets = Baskets(correlated_baskets(7, size=30_000))
    truth = dict(frequent_itemsets(baskets, 900, method="apriori").to_list())
    found = frequent_itemsets(
        baskets,
        900,
        method="toivonen",
        sample=0.2,
        lowered=0.99,
        memory_limit=5_000_000,
        explain=True,
    )
    assert dict(found.to_list()) == truth
    samples = [(each["sample"], each["threshold"]) for each in found.explain if "sample" in each]
    assert samples == [(0.2, 179), (0.4, 357), (0.4, 286)]


def test_threshold_is_a_share_of_the_sample():
    # The course: 5 %, a sample of 10 %. Of 1000 baskets 50, so about 5 of the sample, lowered to 4:
    # 4 % of 100 baskets, not 0.5 %.
    baskets = Baskets(correlated_baskets(8, size=1000))
    found = frequent_itemsets(
        baskets, 0.05, method="sampling", sample=0.1, lowered=0.8, explain=True
    )
    (sample,) = (each for each in found.explain if "sample" in each)
    assert sample["threshold"] == 4
    assert 60 < sample["sample_baskets"] < 140  # 4 standard deviations
    with pytest.raises(ParameterError, match=r"sample must be larger than 0\.01"):
        frequent_itemsets(baskets, 0.05, method="sampling", sample=0.01)


@pytest.mark.parametrize("bad", [0, 1, -0.1, "half", float("nan")])
def test_bad_samples_are_refused(bad):
    baskets = Baskets(correlated_baskets(8))
    for name in ("sample", "lowered"):
        with pytest.raises(ParameterError, match=f"{name} must be"):
            frequent_itemsets(baskets, 40, method="toivonen", **{name: bad})


def test_passes_of_each_method():
    # Apriori and PCY: one per size that has candidates; SON and Toivonen's do not depend on it.
    rows = correlated_baskets(9)
    sizes = len(frequent_itemsets(rows, 15, method="eclat").levels)
    assert sizes >= 4
    passes = {}
    for method, options in (
        ("apriori", {}),
        ("pcy", {}),
        ("multistage", {}),
        ("multihash", {}),
        ("son", {"chunk_baskets": 150}),
        ("sampling", {"sample": 0.9, "lowered": 0.5}),
        ("toivonen", {"sample": 0.9, "lowered": 0.5}),
    ):
        baskets = Baskets(rows)
        frequent_itemsets(baskets, 15, method=method, **options)
        passes[method] = baskets.passes
    assert passes["apriori"] in (sizes, sizes + 1)
    assert passes["pcy"] == passes["multihash"] == passes["apriori"] + 1
    assert passes["multistage"] == passes["apriori"] + 2
    assert passes["son"] == passes["sampling"] == passes["toivonen"] == 3
