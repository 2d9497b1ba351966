"""MinHash: Jaccard similarities of every kind, unions by merging, signatures of many sets."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from sfumato.core.hashing import hash_column
from sfumato.kernels.sketch import minhash as kernels
from sfumato.kernels.sketch.minhash import EMPTY
from sfumato.sketch import CountMin, MinHash
from sfumato.sketch.similarity.min_hash import visits
from sfumato.sketch.similarity.packed_minima import coefficients
from support.concurrency import at_once

KINDS = ["permutations", "one-permutation", "k-minimum"]
SHAPES = [{"kind": kind} for kind in KINDS] + [
    {"bits": 1},
    {"bits": 12},
    {"kind": "one-permutation", "bits": 4},
]


def world(pairs, size, similarity, seed):
    """Two lists of sets, all of one size, whose pairs have this similarity; also the exact one."""
    shared = round(2 * size * similarity / (1 + similarity))
    union = 2 * size - shared
    keys = np.arange(pairs * union).reshape(pairs, union) + (seed << 40)
    offsets = np.arange(0, pairs * size + 1, size)
    sides = keys[:, :size].ravel(), keys[:, size - shared :].ravel()
    return [(side, offsets) for side in sides], shared / union


def estimates(sketch, sets):
    return sketch.similarities(*(sketch.signatures(*side) for side in sets))


def ideal(sketch, similarity, size):
    """The standard deviation of independent minima, or for k-minimum of draws without return."""
    match = 0.0 if sketch.bits == 32 else 2.0**-sketch.bits
    agree = match + (1 - match) * similarity
    variance = agree * (1 - agree) / sketch.permutations / (1 - match) ** 2
    if sketch.kind == "k-minimum":
        union = round(2 * size / (1 + similarity))
        variance *= (union - sketch.permutations) / (union - 1)
    return variance**0.5


@pytest.mark.parametrize("similarity", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_estimates_are_unbiased_and_as_exact_as_theory_allows(shape, similarity):
    # 4000 pairs: a mean 5 standard errors off has p < 1e-6, and a root mean square 5 % above the
    # ideal is 4.5 of its own standard errors: p < 1e-5. The keys are consecutive numbers.
    sketch = MinHash(**shape)
    sets, true = world(4000, 1000, similarity, seed=1)
    errors = estimates(sketch, sets) - true
    best = ideal(sketch, true, 1000)
    assert abs(errors.mean()) < 5 * best / 4000**0.5
    assert np.sqrt((errors**2).mean()) < 1.05 * best


def test_densified_signatures_of_small_sets_stay_unbiased():
    # 40 keys fill 35 of 128 bins. The mean of 20,000 errors is 5 standard errors off: p < 1e-6.
    sets, true = world(20_000, 40, 0.5, seed=2)
    errors = estimates(MinHash(kind="one-permutation"), sets) - true
    assert abs(errors.mean()) < 5 * errors.std() / 20_000**0.5
    assert errors.std() < 1.25 * (true * (1 - true) / 128) ** 0.5


def test_sketches_compare_better_than_densified_signatures():
    # Theory: draws w times over cost sum(w**2), here a root mean square 11 % higher. With 4000
    # pairs the quotient has a standard error of about 1 %, so 1.04 is missed with p < 1e-6.
    sketch = MinHash(kind="one-permutation")
    sets, true = world(4000, 60, 0.5, seed=3)
    dense = estimates(sketch, sets) - true
    (left, ends), (right, _) = sets
    raw = [
        MinHash(kind="one-permutation")
        .update(left[a:b])
        .similarity(MinHash(kind="one-permutation").update(right[a:b]))
        - true
        for a, b in pairwise(ends)
    ]
    assert np.std(dense) > 1.04 * np.std(raw)
    assert abs(np.mean(raw)) < 5 * np.std(raw) / 4000**0.5


@pytest.mark.parametrize("shape", [*SHAPES, {"permutations": 300, "kind": "one-permutation"}])
def test_error_bound_holds(shape):
    # Confidence 0.8: at most 200 misses of 1000 are expected, more than 270 have p < 1e-6.
    sketch = MinHash(**shape)
    (left, ends), (right, _) = world(1000, 50, 0.5, seed=4)[0]
    misses = 0
    for a, b in pairwise(ends):
        one = MinHash(**sketch.parameters).update(left[a:b])
        other = MinHash(**sketch.parameters).update(right[a:b])
        misses += abs(one.similarity(other) - 34 / 66) > one.error_bound(0.8)
    assert sketch.error_bound(0.8) <= 1
    assert misses <= 270


def test_empty_bins_do_not_count_in_the_bound():
    sketch = MinHash(kind="one-permutation").update(range(40))
    full = np.count_nonzero(sketch._minima != EMPTY)
    assert 25 < full < 40
    assert sketch.error_bound(0.99) == pytest.approx((np.log(200) / (2 * full)) ** 0.5)
    assert MinHash(kind="one-permutation").error_bound() == 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_from_error_inverts_the_bound(shape):
    sketch = MinHash.from_error(0.05, 0.95, **shape, seed=7).update(range(100_000))
    shorter = MinHash(**{**sketch.parameters, "permutations": sketch.permutations - 1})
    assert sketch.error_bound(0.95) <= 0.05 < shorter.update(range(100_000)).error_bound(0.95)
    assert sketch.seed == 7


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int16])
@pytest.mark.parametrize("permutations", [1, 17, 128, 200])
def test_minima_are_those_of_plain_arithmetic(permutations, dtype):
    keys = np.random.default_rng(8).integers(0, 2**64, 1000, np.uint64).astype(dtype)
    hashes = hash_column(keys, 9)
    x, high = hashes.astype(np.uint32), hashes >> np.uint64(32)
    a, b = (each[:permutations] for each in coefficients(permutations))
    made = MinHash(permutations, seed=9).update(keys)
    np.testing.assert_array_equal(made._minima, (x[:, None] * a + b).min(0))
    bins = np.full(permutations, EMPTY)
    np.minimum.at(bins, high * np.uint64(permutations) >> np.uint64(32), x)
    made = MinHash(permutations, seed=9, kind="one-permutation").update(keys)
    np.testing.assert_array_equal(made._minima, bins)
    made = MinHash(permutations, seed=9, kind="k-minimum").update(keys)
    np.testing.assert_array_equal(made._minima, np.unique(x)[:permutations])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("permutations", [1, 40, 600])
def test_merge_is_the_sketch_of_the_union(kind, permutations):
    words = np.array([f"word {i}" for i in range(900)])
    left, right = words[:500], words[300:]
    merged = MinHash(permutations, kind=kind).update(left)
    merged.signature()  # densifies a copy only, so that merging still works
    merged.merge(MinHash(permutations, kind=kind).update(right))
    assert merged == MinHash(permutations, kind=kind).update(words)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_of_signatures_are_the_signatures_of_the_sets(shape):
    sizes = [0, 1, 5, 0, 300, 70_000, 0, 64, 257, 0]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    keys = np.random.default_rng(10).integers(0, 2**31, offsets[-1])
    pieces = pa.chunked_array([keys[:100], keys[100:101], keys[101:]])
    words = pa.array(keys.astype(str))
    sketch = MinHash(33, **shape)
    for tokens, inputs in (
        (keys, [keys, keys.astype(np.int32), keys.astype(np.uint64), pieces, keys.tolist()]),
        (words, [words, words.cast(pa.large_string()), words.dictionary_encode()]),
    ):
        want = [
            MinHash(33, **shape).update(tokens[a:b]).signature()
            for a, b in pairwise(offsets.tolist())
        ]
        for tokens_as in inputs:
            np.testing.assert_array_equal(sketch.signatures(tokens_as, offsets), want)
    assert sketch == MinHash(33, **shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_empty_sets_equal_each_other_alone(shape):
    empty, full = MinHash(**shape), MinHash(**shape).update(range(50))
    assert empty.similarity(empty) == empty.similarity(MinHash(**shape).update([])) == 1
    assert empty.similarity(full) == full.similarity(empty) == 0
    assert full.similarity(full) == full.jaccard(full.copy()) == 1
    signatures = empty.signatures(range(50), [0, 0, 50])
    if "bits" not in shape:
        table = [[1, 0], [0, 1]]
        np.testing.assert_array_equal(empty.similarity_matrix(signatures), table)


def test_matrix_of_similarities_holds_every_pair():
    keys = np.random.default_rng(11).integers(0, 300, 9000)
    for shape in SHAPES:
        sketch = MinHash(40, **shape)
        rows = sketch.signatures(keys, np.arange(0, 9001, 100))
        table = sketch.similarity_matrix(rows[:50], rows)
        assert table.shape == (50, 90)
        for j in (0, 33, 89):
            pairs = sketch.similarities(rows[:50], np.repeat(rows[j : j + 1], 50, 0))
            np.testing.assert_array_equal(table[:, j], pairs)
        np.testing.assert_array_equal(sketch.similarity_matrix(rows[:50])[7], table[7, :50])


def test_matrices_that_are_no_signatures_are_refused():
    rows = MinHash(8).signatures([1, 2, 3], [0, 1, 3])
    for left in (rows[0], rows[:, :7], rows.astype(np.int64), rows.astype(np.uint8)):
        with pytest.raises(ValueError, match="left must be signatures, uint32 in 8 columns"):
            MinHash(8).similarities(left, rows)
    with pytest.raises(ValueError, match="left has 2 rows and right 1"):
        MinHash(8).similarities(rows, rows[:1])


def test_k_minimum_is_exact_for_small_unions():
    left = MinHash(kind="k-minimum").update(range(80))
    right = MinHash(kind="k-minimum").update(range(40, 120))
    assert left.similarity(right) == 40 / 120
    assert left.estimate_size() == 80
    assert left.size_bounds() == (80, 80)
    assert MinHash(kind="k-minimum").estimate_size() == 0


def test_bits_do_not_depend_on_each_other_in_small_sets():
    # The lowest bits of a x + b are those of x for every odd a, so without mixing the random
    # agreement of two small sets is common to all minima and does not average out: the variance
    # would be about 2.4 times the ideal. The standard error of 2000 pairs is 1.6 %, p < 1e-6.
    sketch = MinHash(bits=1)
    sets, _ = world(2000, 5, 0.0, seed=12)
    assert np.std(estimates(sketch, sets)) < 1.1 * ideal(sketch, 0, 5)


def test_what_differs_is_not_compared():
    sketch = MinHash(64, seed=1).update([1])
    for other, message in (
        (MinHash(64, seed=2).update([1]), "seed is 1 here and 2 there"),
        (MinHash(32, seed=1).update([1]), "permutations is 64 here and 32 there"),
        (MinHash(64, seed=1, bits=8).update([1]), "bits is 32 here and 8 there"),
    ):
        with pytest.raises((TypeError, ValueError), match=f"cannot compare, {message}"):
            sketch.similarity(other)
    with pytest.raises(TypeError, match="cannot compare with CountMin"):
        sketch.similarity(CountMin(8))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_threads_may_compare_and_make_signatures_together(shape):
    sketch = MinHash(61, seed=45, **shape).update(range(2000))
    other = MinHash(61, seed=45, **shape).update(range(1000, 3000))
    before, keys = sketch.copy(), np.arange(5000)
    coefficients.cache_clear()
    asks = [
        lambda: sketch.signatures(keys, [0, 7, 2000, 5000]),
        lambda: [*sketch.signature(), sketch.similarity(other)],
    ] * 4
    for got, ask in zip(at_once(asks), asks, strict=True):
        np.testing.assert_array_equal(got, ask())
    assert sketch == before


@pytest.mark.parametrize("bins", [2, 16, 33, 128])
def test_empty_bins_are_filled_alike_by_the_table_of_visits_and_by_trying(bins):
    # Every number of full bins: one of them, which some bins never try, up to all.
    rng = np.random.default_rng(11)
    minima = np.full((2 * bins + 1, bins), EMPTY, np.uint32)
    for r, row in enumerate(minima):
        chosen = rng.choice(bins, (r + 1) // 2, replace=False)
        row[chosen] = rng.integers(0, 2**32 - 1, chosen.size)
    by_table, by_trying = minima.copy(), minima.copy()
    kernels.densify(visits(bins), by_table)
    kernels.densify(np.empty((0, 0), np.uint32), by_trying)
    np.testing.assert_array_equal(by_table, by_trying)
    full = minima != EMPTY
    np.testing.assert_array_equal(by_table[full], minima[full])
    assert (by_table[1:] != EMPTY).all()
    assert (by_table[0] == EMPTY).all()


def test_densified_signatures_of_tiny_sets_are_quick_and_unbiased():
    # Twelve keys in 4096 bins: nearly every bin is filled by the lowest hash of the full ones. The
    # similarity is 4 / 12 of 400 pairs, each with a deviation near sqrt(2 / 9 / 12), so that the
    # mean has one of 0.007; 6 of those, p < 1e-8.
    tokens = np.arange(400 * 16).reshape(400, 16)
    left, right = tokens[:, :8].ravel(), tokens[:, 4:12].ravel()
    sketch, offsets = MinHash(4096, kind="one-permutation"), np.arange(0, 400 * 8 + 1, 8)
    found = sketch.similarities(sketch.signatures(left, offsets), sketch.signatures(right, offsets))
    assert abs(found.mean() - 1 / 3) < 0.042
    lone = MinHash(2**16, kind="one-permutation").signatures([[1]])
    assert np.unique(lone).size == 1
