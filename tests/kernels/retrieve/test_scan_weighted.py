"""The best codes of the weighted scan are what sorting all sums of the rounded weights gives."""

import numpy as np
import pytest

from sfumato.kernels.retrieve.hamming_scan import BLOCK, STRIDE
from sfumato.kernels.retrieve.weighted_scan import round_weights, weighted_best

SIZES = [1, 63, 64, 65, BLOCK + 1, 2 * BLOCK - 1, 3000]


def blocks_of(codes):
    out = np.zeros((-(-len(codes) // BLOCK), codes.shape[1], BLOCK), np.uint64)
    for i, code in enumerate(codes):
        out[i // BLOCK, :, i % BLOCK] = code
    return out


def bits_of(words):
    return np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.int64)


def all_sums(codes, weights, factors, precision):
    """Sums of the rounded weights: integers, then two float32 products."""
    planes, steps, _ = round_weights(weights, codes.shape[1], precision)
    sign, magnitude = 2 * bits_of(planes[:, 0]) - 1, 0
    for p in range(precision):
        magnitude = 2 * magnitude + bits_of(planes[:, 1 + p])
    whole = (sign * magnitude) @ (2 * bits_of(codes) - 1).T
    return whole.astype(np.float32) * steps[:, None] * factors


def check(codes, weights, k, factors=None, chosen=None, precision=4):
    alive = None
    if chosen is not None:
        padded = np.pad(chosen, (0, -len(chosen) % 64))
        alive = np.packbits(padded, bitorder="little").view(np.uint64)
    got = weighted_best(
        blocks_of(codes), len(codes), alive, weights, factors, k, precision=precision
    )
    scale = np.float32(1) if factors is None else factors
    every = all_sums(codes, weights, scale, precision)
    rows = np.full((len(weights), k), -1)
    scores = np.full((len(weights), k), -np.inf, np.float32)
    left = np.arange(len(codes)) if chosen is None else np.flatnonzero(chosen)
    for q in range(len(weights)):
        order = left[np.argsort(-every[q, left], kind="stable")][:k]
        rows[q, : len(order)], scores[q, : len(order)] = order, every[q, order]
    assert (got[0].dtype, got[1].dtype) == (np.int64, np.float32)
    np.testing.assert_array_equal(got[1], scores)
    np.testing.assert_array_equal(got[0], rows)


def world(seed, size, words, queries=3):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**64, (size, words), np.uint64)
    weights = rng.normal(size=(queries, 64 * words)).astype(np.float32)
    return codes, weights, rng.normal(size=size).astype(np.float32), rng.random(size) < 0.5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("words", "precision"), [(1, 3), (2, 4), (3, 1), (4, 5), (5, 8), (16, 4)])
def test_best_are_the_head_of_the_sorted_sums(size, words, precision):
    codes, weights, factors, chosen = world(size, size, words)
    for k in (1, 9, size + 3):
        check(codes, weights, k, precision=precision)
        check(codes, weights, k, factors, precision=precision)
        check(codes, weights, k, factors, chosen, precision=precision)
    check(codes, weights, 3, factors, np.zeros(size, bool), precision=precision)


def test_ties_stand_in_the_order_of_rows():
    codes, weights, _, _ = world(1, 3000, 1)
    codes &= np.uint64(7)
    for k in (1, 400, 3000):
        check(codes, weights, k)


def test_zeros_of_either_sign_tie():
    # Weights +1 and -1 give a sum of 0 for code 3, and factors of either sign 0 and -0.
    codes = np.full((300, 1), 3, np.uint64)
    factors = np.where(np.arange(300) % 3, -1, 1).astype(np.float32)
    weights = np.array([[1, -1]], np.float32)
    rows, scores = weighted_best(blocks_of(codes), 300, None, weights, factors, 100)
    np.testing.assert_array_equal(rows[0], np.arange(100))
    assert (scores == 0).all()


def test_zero_weights_find_the_first_rows_with_score_zero():
    codes, weights, factors, _ = world(2, 200, 2)
    weights[1] = 0
    rows, scores = weighted_best(blocks_of(codes), 200, None, weights, factors, 5)
    np.testing.assert_array_equal(rows[1], np.arange(5))
    assert (scores[1] == 0).all()


def test_a_row_whose_factor_is_no_number_is_not_found():
    codes, weights, factors, _ = world(3, 100, 1)
    factors[::2] = np.nan
    rows, scores = weighted_best(blocks_of(codes), 100, None, weights, factors, 60)
    np.testing.assert_array_equal(np.sort(rows[:, :50]), [np.arange(1, 100, 2)] * 3)
    assert (rows[:, 50:] == -1).all()
    assert (scores[:, 50:] == -np.inf).all()


def test_rising_sums_fill_the_buffer_again_and_again():
    factors = np.arange(1, 5001, dtype=np.float32)
    codes = np.full((5000, 1), 1, np.uint64)
    check(codes, np.array([[1]], np.float32), 100, factors)
    check(codes, np.array([[1]], np.float32), 100, -factors)


def test_a_sample_that_stands_for_all_rows_or_misleads_changes_nothing():
    codes, weights, factors, chosen = world(4, 256 * STRIDE + 5, 1, queries=2)
    sampled = np.arange(len(codes)) // BLOCK % STRIDE == 0
    check(codes, weights, 256)
    check(codes, weights, 256, factors, chosen)
    check(codes, weights, 256, np.where(sampled, np.float32(9), np.float32(1)))
    check(codes, weights, 256, np.where(sampled, np.float32(1), np.float32(9)))
    check(codes, weights, 256, factors, np.arange(len(codes)) < 200)


def test_spare_bits_of_the_last_word_count_for_nothing():
    codes, weights, _, _ = world(5, 500, 1)
    short = weights[:, :16]
    low = codes & np.uint64(2**16 - 1)
    for k in (5, 500):
        got = weighted_best(blocks_of(codes), 500, None, short, None, k)
        want = weighted_best(blocks_of(low), 500, None, short, None, k)
        np.testing.assert_array_equal(got[0], want[0])
        np.testing.assert_array_equal(got[1], want[1])


def test_the_longest_codes_at_the_finest_precision_are_summed_exactly():
    # The sum of magnitudes is 2**16 * 255, near the largest whole number that float32 holds.
    codes = np.full((3, 1024), 2**64 - 1, np.uint64)
    codes[0, 0] -= np.uint64(1)
    weights = np.full((1, 2**16), 255, np.float32)
    rows, scores = weighted_best(blocks_of(codes), 3, None, weights, None, 3, precision=8)
    np.testing.assert_array_equal(rows, [[1, 2, 0]])
    np.testing.assert_array_equal(scores, [[255 * 2**16, 255 * 2**16, 255 * (2**16 - 2)]])


def test_answers_do_not_depend_on_what_else_is_asked():
    codes, weights, factors, _ = world(6, 4000, 1, queries=300)
    blocks = blocks_of(codes)
    rows, scores = weighted_best(blocks, 4000, None, weights, factors, 2000)
    for q in (0, 150, 299):
        alone = weighted_best(blocks, 4000, None, weights[q : q + 1], factors, 2000)
        np.testing.assert_array_equal(alone[0][0], rows[q])
        np.testing.assert_array_equal(alone[1][0], scores[q])


def test_nothing_stored_gives_padding():
    none = np.zeros((0, 1, BLOCK), np.uint64)
    rows, scores = weighted_best(none, 0, None, np.ones((2, 64), np.float32), None, 3)
    assert (rows == -1).all()
    assert (scores == -np.inf).all()


@pytest.mark.parametrize("size", SIZES)
def test_shifts_are_added_after_the_factor(size):
    codes, weights, factors, chosen = world(9, size, 3)
    shifts = np.random.default_rng(9).normal(scale=20, size=size).astype(np.float32)
    alive = np.packbits(np.pad(chosen, (0, -size % 64)), bitorder="little").view(np.uint64)
    for own in (None, factors):
        rows, scores = weighted_best(blocks_of(codes), size, alive, weights, own, 40, shifts=shifts)
        scale = np.float32(1) if own is None else own
        wanted = all_sums(codes, weights, scale, 4) + shifts
        wanted[:, ~chosen] = -np.inf
        best = -np.sort(-wanted, axis=1)[:, :40]
        np.testing.assert_allclose(scores[:, : best.shape[1]], best, rtol=1e-5, atol=1e-4)
        known = rows >= 0
        own_scores = np.take_along_axis(wanted, np.maximum(rows, 0), axis=1)
        np.testing.assert_allclose(own_scores[known], scores[known], rtol=1e-5, atol=1e-4)


def test_offsets_are_added_before_the_factor():
    codes, weights, factors, _ = world(8, 500, 2)
    weights[2] = 0  # whose scores are offset times factor alone
    offsets = np.array([3.5, -40, 2], np.float32)
    rows, scores = weighted_best(
        blocks_of(codes), 500, None, weights, factors, 500, precision=6, offsets=offsets
    )
    plain = all_sums(codes, weights, np.float32(1), 6)
    wanted = (plain + offsets[:, None]) * factors
    np.testing.assert_allclose(
        scores, np.take_along_axis(wanted, rows, axis=1), rtol=1e-5, atol=1e-5
    )
    assert (np.diff(scores, axis=1) <= 0).all()
