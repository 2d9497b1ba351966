"""Coins have exactly their chance, numbers no bias, and every cell of a row its own place."""

import numpy as np
import pytest

from sfumato.kernels.telemetry import responses


def bits_of(payload, cells):
    return np.unpackbits(payload, axis=1, bitorder="little", count=cells)


@pytest.mark.parametrize("cells", [1, 7, 8, 31, 32, 33, 64, 100, 128])
@pytest.mark.parametrize("chances", [(0, 65536), (0, 1), (65535, 65536), (9000, 40000), (77, 77)])
def test_answer_compares_every_number_with_the_chance_of_its_cell(cells, chances):
    rng = np.random.default_rng(cells)
    width = -(-cells // 32) * 32
    numbers = rng.integers(0, 65536, (50, width)).astype(np.uint16)
    numbers[0], numbers[1], numbers[2] = 0, 65535, np.resize(chances, width) % 65536
    marked = rng.integers(0, 2, (50, cells)).astype(bool)
    out = np.packbits(marked, axis=1, bitorder="little")
    responses.answer(numbers.astype(">u2").view(np.uint32), cells, *chances, out)
    wanted = numbers[:, :cells] < np.where(marked, chances[1], chances[0])
    assert (bits_of(out, cells) == wanted).all()
    assert (np.unpackbits(out, axis=1, bitorder="little")[:, cells:] == 0).all()


def test_choose_skips_words_that_would_favour_a_remainder_and_what_is_taken():
    fair = 2**32 - 2**32 % 100
    words = np.array([[fair, fair - 1, 2**32 - 1, 199, 99, 5, 105, 7]], np.uint32)
    found, out = np.zeros(1, np.int64), np.full((1, 4), -1, np.int32)
    responses.choose(words, 100, found, out)
    assert (found[0], out[0].tolist()) == (3, [99, 5, 7, -1])
    responses.choose(np.array([[5, 42, 1, 2, 3, 4, 6, 8]], np.uint32), 100, found, out)
    assert (found[0], out[0].tolist()) == (4, [99, 5, 7, 42])


def test_choose_takes_every_word_where_the_limit_divides_them_all():
    words = np.array([[2**32 - 1, 0]], np.uint32)
    found, out = np.zeros(1, np.int64), np.empty((1, 2), np.int32)
    responses.choose(words, 2**16, found, out)
    assert out.tolist() == [[65535, 0]]


def test_toggle_turns_the_cells_that_are_listed():
    out = np.zeros((2, 3), np.uint8)
    out[1] = 255
    responses.toggle(np.array([[0, 9, -1], [23, 15, 8]], np.int32), out)
    assert np.flatnonzero(bits_of(out[:1], 24)).tolist() == [0, 9]
    assert np.flatnonzero(bits_of(out[1:], 24) == 0).tolist() == [8, 15, 23]
