"""Panels give back the codes that were added, and never change under a reader."""

import numpy as np
import pytest

from sfumato.kernels.retrieve.hamming_scan import BLOCK, hamming_nearest
from sfumato.retrieve.binary.store import Panels

SIZES = [0, 1, 63, 64, 65, BLOCK - 1, BLOCK, BLOCK + 1, 3000]


def random_codes(seed, size, words):
    return np.random.default_rng(seed).integers(0, 2**64, (size, words), np.uint64)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("words", [1, 2, 3, 5, 16])
def test_codes_come_back_as_they_were_added(size, words):
    codes = random_codes(size, size, words)
    panels = Panels(words).append(codes)
    assert panels.count == size
    np.testing.assert_array_equal(panels.codes(), codes)
    rows = np.random.default_rng(0).integers(0, max(size, 1), 20 if size else 0)
    np.testing.assert_array_equal(panels.take(rows), codes[rows])


def test_blocks_are_trimmed_aligned_and_word_after_word():
    codes = random_codes(1, 1000, 3)
    panels = Panels(3).append(codes[:10]).append(codes[10:])
    blocks = panels.blocks
    assert blocks.shape == (-(-1000 // BLOCK), 3, BLOCK)
    assert blocks.ctypes.data % 64 == 0
    assert not blocks.flags.writeable
    for row in (0, 9, 10, BLOCK, 999):
        np.testing.assert_array_equal(blocks[row // BLOCK, :, row % BLOCK], codes[row])


def test_many_small_appends_equal_one():
    codes = random_codes(2, 2500, 4)
    whole, parts = Panels(4).append(codes), Panels(4)
    cuts = np.sort(np.random.default_rng(3).integers(0, 2501, 120))
    for part in np.split(codes, cuts):
        parts.append(part)
    assert parts.count == whole.count
    np.testing.assert_array_equal(parts.blocks, whole.blocks)


def test_room_doubles_so_that_appends_do_not_copy_each_time():
    panels = Panels(1)
    moved, stored = 0, None
    for code in random_codes(4, 64 * 60, 1).reshape(60, 64, 1):
        address = panels.append(code).blocks.ctypes.data
        moved, stored = moved + (address != stored), address
    assert moved <= 8
    assert panels.nbytes >= panels.blocks.nbytes


def test_a_reader_of_before_finds_the_same_after_appends():
    codes, queries = random_codes(5, 5000, 2), random_codes(6, 4, 2)
    panels = Panels(2).append(codes[:1000])
    count, blocks = panels.count, panels.blocks
    before = hamming_nearest(blocks, count, None, queries, 1100)
    for start in range(1000, 5000, 37):
        # Nearer than all others: one that is visible too early would come first.
        panels.append(np.repeat(queries[:1], 37, axis=0))
        assert panels.count == start + 37
    after = hamming_nearest(blocks, count, None, queries, 1100)
    np.testing.assert_array_equal(before, after)
    assert hamming_nearest(panels.blocks, panels.count, None, queries, 1)[1][0, 0] == 0


def test_stored_blocks_are_read_in_place_and_copied_by_an_append(tmp_path):
    codes = random_codes(7, 300, 2)
    Panels(2).append(codes).blocks.tofile(tmp_path / "blocks")
    stored = np.memmap(tmp_path / "blocks", np.uint64, "r").reshape(-1, 2, BLOCK)
    panels = Panels.over(stored, 300)
    assert np.shares_memory(panels.blocks, stored)
    np.testing.assert_array_equal(panels.codes(), codes)
    rows, distances = hamming_nearest(panels.blocks, 300, None, codes[[7]], 1)
    assert (rows[0, 0], distances[0, 0]) == (7, 0)
    panels.append(codes[:5])
    np.testing.assert_array_equal(panels.codes(), np.concatenate([codes, codes[:5]]))
    np.testing.assert_array_equal(stored, Panels(2).append(codes).blocks)


def test_panels_over_an_array_leave_it_writable():
    blocks = np.zeros((1, 1, BLOCK), np.uint64)
    Panels.over(blocks, 3).append(np.ones((1, 1), np.uint64))
    assert blocks.flags.writeable
    assert not blocks.any()


@pytest.mark.parametrize("words", [0, 1025, 1.5, None, "4"])
def test_a_wrong_number_of_words_is_refused(words):
    with pytest.raises(ValueError, match="Panels: words must be an integer from 1 to 1024"):
        Panels(words)


@pytest.mark.parametrize(
    "codes", [np.zeros((2, 3), np.uint64), np.zeros(2, np.uint64), np.zeros((2, 2), np.int64)]
)
def test_wrong_codes_are_refused_and_change_nothing(codes):
    panels = Panels(2).append(random_codes(8, 3, 2))
    with pytest.raises(ValueError, match=r"Panels: codes must be uint64 of shape \(n, 2\)"):
        panels.append(codes)
    assert panels.count == 3


@pytest.mark.parametrize(
    ("shape", "count"), [((1, 1, BLOCK), 0), ((1, 1, BLOCK), BLOCK + 1), ((1, BLOCK), 1)]
)
def test_blocks_that_do_not_hold_the_count_are_refused(shape, count):
    with pytest.raises(ValueError, match="Panels: blocks must be uint64 of shape"):
        Panels.over(np.zeros(shape, np.uint64), count)


@pytest.mark.parametrize("rows", [[-1], [3], [0, 9]])
def test_rows_that_are_not_there_are_refused(rows):
    with pytest.raises(IndexError, match="Panels: rows must be from 0 to 2"):
        Panels(1).append(random_codes(9, 3, 1)).take(np.array(rows))
