"""The nearest codes of the scan are what sorting all distances gives."""

import numpy as np
import pytest

from sfumato.kernels.retrieve.hamming_scan import (
    BLOCK,
    STRIDE,
    frozen,
    hamming_nearest,
    marks,
    nearest,
)

SIZES = [1, 63, 64, 65, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 3 * BLOCK, 5000]


def blocks_of(codes):
    out = np.zeros((-(-len(codes) // BLOCK), codes.shape[1], BLOCK), np.uint64)
    for i, code in enumerate(codes):
        out[i // BLOCK, :, i % BLOCK] = code
    return out


def bits_of(chosen):
    padded = np.pad(chosen, (0, -len(chosen) % 64))
    return np.packbits(padded, bitorder="little").view(np.uint64)


def sorted_all(codes, chosen, queries, k):
    """Rows and distances by sorting, -1 where there are no more."""
    rows = np.full((len(queries), k), -1)
    distances = np.full((len(queries), k), -1)
    for q, query in enumerate(queries):
        every = np.bitwise_count(codes ^ query).sum(1, dtype=np.int64)
        order = np.flatnonzero(chosen)
        order = order[np.argsort(every[order], kind="stable")][:k]
        rows[q, : len(order)], distances[q, : len(order)] = order, every[order]
    return rows, distances


def check(codes, queries, k, chosen=None):
    alive = None if chosen is None else bits_of(chosen)
    rows, distances = hamming_nearest(blocks_of(codes), len(codes), alive, queries, k)
    everyone = np.ones(len(codes), bool) if chosen is None else chosen
    want = sorted_all(codes, everyone, queries, k)
    assert (rows.dtype, distances.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(distances, want[1])
    np.testing.assert_array_equal(rows, want[0])


def random_codes(seed, size, words):
    return np.random.default_rng(seed).integers(0, 2**64, (size, words), np.uint64)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("words", [1, 2, 3, 4, 5, 16])
def test_nearest_are_the_head_of_the_sorted_distances(size, words):
    codes, queries = random_codes(size, size, words), random_codes(words, 3, words)
    for k in (1, 7, size, size + 3):
        check(codes, queries, k)


@pytest.mark.parametrize("size", SIZES)
def test_only_rows_whose_bit_is_set_are_found(size):
    codes, queries = random_codes(size, size, 2), random_codes(1, 3, 2)
    rng = np.random.default_rng(size)
    for share in (0.02, 0.5, 0.98):
        check(codes, queries, 9, rng.random(size) < share)
    check(codes, queries, 5, np.zeros(size, bool))


def test_marks_past_the_last_row_find_nothing():
    codes = random_codes(0, 70, 1)
    marked = np.full(2, 2**64 - 1, np.uint64)
    rows, _ = hamming_nearest(blocks_of(codes), 70, marked, codes[:1], 200)
    np.testing.assert_array_equal(np.sort(rows[0])[-70:], np.arange(70))
    assert (rows[0, 70:] == -1).all()


def test_ties_stand_in_the_order_of_rows():
    codes = np.random.default_rng(5).integers(0, 4, (3000, 1)).astype(np.uint64)
    for k in (1, 50, 1000, 3000):
        check(codes, codes[:4], k)


def test_no_more_than_k_places_are_written():
    # Of eight at distance 5, three give way to those at distance 3 that come later.
    codes = np.array([31] * 8 + [7] * 5, np.uint64)[:, None]
    rows, distances = np.full((1, 12), -1), np.full((1, 12), -1, np.int32)
    tallies, found = np.empty((1, 65), np.int32), np.empty((1, 84), np.uint64)
    blocks, query = frozen(blocks_of(codes)), frozen(np.zeros((1, 1), np.uint64))
    near, states = np.empty(64, np.uint64), np.empty((1, 3), np.int64)
    nearest(
        blocks, 13, marks(None), query, 10, 0, tallies, found, near, states, rows, distances
    )  # fmt: skip
    np.testing.assert_array_equal(rows[0], [8, 9, 10, 11, 12, 0, 1, 2, 3, 4, -1, -1])
    np.testing.assert_array_equal(distances[0], [3] * 5 + [5] * 5 + [-1] * 2)


def test_repeated_codes_are_all_found_once():
    check(np.repeat(random_codes(6, 7, 3), 200, axis=0), random_codes(7, 5, 3), 450)


@pytest.mark.parametrize("words", [5, 1024])
def test_opposite_codes_are_as_far_as_there_are_bits(words):
    codes = np.zeros((100, words), np.uint64)
    rows, distances = hamming_nearest(blocks_of(codes), 100, None, ~codes[:1], 2)
    np.testing.assert_array_equal(rows, [[0, 1]])
    np.testing.assert_array_equal(distances, [[64 * words, 64 * words]])


def test_codes_that_come_nearer_and_nearer_fill_the_buffer_again_and_again():
    # Every row is a candidate when it comes, so all but k of them are cut again.
    ones = np.repeat(np.arange(4096, -1, -1), 2)
    bits = np.arange(4096) < ones[:, None]
    codes = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    check(codes, np.zeros((2, 64), np.uint64), 100)


def many(nearest_in_sample):
    """Codes for which k = 256 begins with a guess, near the query only inside or outside of it."""
    codes = random_codes(8, 256 * STRIDE + 5, 1)
    sampled = np.arange(len(codes)) // BLOCK % STRIDE == 0
    codes[sampled == nearest_in_sample] &= np.uint64(0xFF)
    return codes


def test_a_sample_that_stands_for_all_rows_changes_nothing():
    codes = random_codes(9, 256 * STRIDE + 5, 2)
    check(codes, random_codes(10, 3, 2), 256)
    check(codes, random_codes(10, 3, 2), 256, np.arange(len(codes)) % 3 == 0)
    check(codes, random_codes(10, 3, 2), 256, np.arange(len(codes)) < 200)


@pytest.mark.parametrize("nearest_in_sample", [True, False])
def test_a_sample_that_misleads_changes_nothing(nearest_in_sample):
    codes = many(nearest_in_sample)
    check(codes, np.zeros((2, 1), np.uint64), 256)
    check(codes, np.zeros((2, 1), np.uint64), 260)


def test_answers_do_not_depend_on_what_else_is_asked():
    codes, queries = random_codes(11, 4000, 4), random_codes(12, 300, 4)
    blocks = blocks_of(codes)
    rows, distances = hamming_nearest(blocks, 4000, None, queries, 2000)
    for q in (0, 150, 299):
        alone = hamming_nearest(blocks, 4000, None, queries[q : q + 1], 2000)
        np.testing.assert_array_equal(alone[0][0], rows[q])
        np.testing.assert_array_equal(alone[1][0], distances[q])
    # 2,000 kept candidates for 300 queries are more than one batch.
    np.testing.assert_array_equal(rows, sorted_all(codes, np.ones(4000, bool), queries, 2000)[0])


def test_nothing_asked_or_nothing_stored_gives_padding():
    none = np.zeros((0, 2, BLOCK), np.uint64)
    rows, distances = hamming_nearest(none, 0, None, random_codes(0, 2, 2), 3)
    assert (rows == -1).all()
    assert (distances == -1).all()
    rows, distances = hamming_nearest(none, 0, None, random_codes(0, 0, 2), 3)
    assert rows.shape == distances.shape == (0, 3)


def test_read_only_blocks_stay_as_they_are():
    codes = random_codes(13, 130, 2)
    blocks, written = blocks_of(codes), blocks_of(codes)
    blocks.flags.writeable = False
    first = hamming_nearest(blocks, 130, None, codes[:2], 5)
    second = hamming_nearest(written, 130, None, codes[:2], 5)
    np.testing.assert_array_equal(first, second)
    assert written.flags.writeable
    np.testing.assert_array_equal(blocks, written)
