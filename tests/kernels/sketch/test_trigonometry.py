"""Cosines and sines of whole-number phases: bounded by construction, and the same bits anywhere."""

import hashlib

import numpy as np
import pytest

from sfumato.kernels.alignment import aligned
from sfumato.kernels.sketch import trigonometry as waves


def table():
    """Cosine and sine of all phases that are distinct."""
    phases = np.arange(2**16, dtype=np.uint32)[:, None] << np.uint32(16)
    turns = aligned((1, 1, waves.PANEL), np.uint32)
    turns[...] = 1
    out = aligned((2**16, 2, waves.PANEL), np.float32)
    waves.fill(phases, turns, out)
    assert (out == out[:, :, :1]).all()  # every lane alike
    return out[:, :, 0].astype(np.int64).T


TABLE = table()


def panels(frequencies):
    """Frequencies as rows, in panels of 16, filled up with zeros."""
    rows, dimension = frequencies.shape
    out = aligned((-(-rows // waves.PANEL), dimension, waves.PANEL), np.uint32)
    padded = np.zeros((len(out) * waves.PANEL, dimension), np.uint32)
    padded[:rows] = frequencies
    out[...] = padded.reshape(-1, waves.PANEL, dimension).transpose(0, 2, 1)
    return out


def pairs(steps, frequencies):
    """The waves of every point and frequency, by exact phases in 64 bits and the table."""
    phases = (steps.astype(np.uint64) @ frequencies.T.astype(np.uint64)) % np.uint64(2**32)
    return TABLE[:, (phases >> np.uint64(16)).astype(np.int64)]


def some(count, rows, dimension):
    random = np.random.default_rng(count)
    steps = random.integers(0, 2**32, (count, dimension), np.uint32)
    return steps, random.integers(0, 2**32, (rows, dimension), np.uint32)


def test_no_pair_leaves_the_circle():
    cosine, sine = TABLE
    assert (cosine**2 + sine**2).max() <= 2**30
    assert (np.abs(cosine) + np.abs(sine)).max() <= 46340  # floor(sqrt(2) 2**15)


def test_pairs_are_the_rounded_cosine_and_sine():
    angle = np.arange(2**16) * (2 * np.pi / 2**16)
    for result, true in zip(TABLE, (np.cos(angle), np.sin(angle)), strict=True):
        assert np.abs(result - (2**15 - 1) * true).max() < 0.51


def test_pairs_have_the_bits_that_every_machine_finds():
    result = hashlib.sha256(TABLE.astype("<i4").tobytes()).hexdigest()
    assert result == "088c590273080cc0fababe19a691d6946661ff4aa5a96ab88a4bbeee561ee423"


@pytest.mark.parametrize("dimension", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 1025])
def test_sums_are_exact_whatever_the_blocks(count, dimension):
    steps, frequencies = some(count, 37, dimension)
    start = np.arange(74).reshape(2, 37)
    sums = start.copy()
    waves.add(steps, panels(frequencies), aligned(32, np.float32), sums)
    np.testing.assert_array_equal(sums - start, pairs(steps, frequencies).sum(axis=1))


def test_sums_of_equal_points_are_exact():
    # 5,000 times 32,767 is past what float32 counts in ones, or in twos.
    steps, frequencies = np.zeros((5000, 1), np.uint32), np.ones((16, 1), np.uint32)
    sums = np.zeros((2, 16), np.int64)
    waves.add(steps, panels(frequencies), aligned(32, np.float32), sums)
    assert (sums == [[5000 * 32767], [0]]).all()


def test_filled_waves_are_those_that_are_summed():
    steps, frequencies = some(9, 37, 3)
    out = aligned((9, 2, 48), np.float32)
    waves.fill(steps, panels(frequencies), out)
    np.testing.assert_array_equal(out[:, :, :37].transpose(1, 0, 2), pairs(steps, frequencies))


def test_an_answer_is_the_product_with_all_sums():
    steps, frequencies = some(5, 37, 3)
    cells = aligned((2, 48), np.float64)
    cells[:, :37] = np.random.default_rng(1).integers(-(2**30), 2**30, (2, 37))
    out = np.empty(5)
    waves.answer(steps, panels(frequencies), cells, out)
    want = (pairs(steps, frequencies) * cells[:, None, :37]).sum(axis=(0, 2))
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1.0)
