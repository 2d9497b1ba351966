"""Codewords are never longer than the scale, come from one hash alone, and add up exactly."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernels import profile_codes as kernels
from sfumato.privacy.accounting.calibration import gaussian_delta
from sfumato.privacy.accounting.gaussian_steps import SMOOTH
from sfumato.privacy.accounting.losses import GaussianNoise
from sfumato.profile import gaussian_projection
from sfumato.profile.gaussian_projection import (
    SCALE,
    ProjectionNoise,
    codewords,
    mean_square,
    sums,
)

HASHES = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)


def squares(words):
    return (words.astype(np.int64) ** 2).sum(axis=1)


@pytest.mark.parametrize("length", [1, 2, 3, 15, 16, 17, 33, 200, 1000])
def test_no_codeword_is_longer_than_the_scale(length):
    hashes = np.concatenate([HASHES[: 2_000_000 // length], [np.uint64(0), np.uint64(2**64 - 1)]])
    long = squares(codewords(hashes, length))
    assert long.max() <= SCALE**2
    # Rounding toward zero takes off 0.8 sqrt(length) / SCALE on average, so not much.
    assert long.min() >= SCALE**2 * (1 - 2 * np.sqrt(length) / SCALE - 4 / SCALE)


@pytest.mark.parametrize("size", [2.7e-162, 3e-154, 1.0])
def test_a_rounding_of_floats_cannot_make_a_codeword_longer(size):
    # Squares of 2.7e-162 lose most of their digits, so the norm comes out a fifth too small.
    panels = np.full((2, 3, 16), size)
    panels[:, 1, ::2] *= -1
    out = np.empty((2, 3, 16), np.int32)
    kernels.round_inward(panels, 30, 4096, 0, out)
    long = squares(out.transpose(1, 0, 2).reshape(3, 32))
    assert long.max() <= 4096**2
    assert long.min() >= 4096**2 * 0.98
    assert not out[1, :, 14:].any()
    assert (np.sign(out[0]) == np.sign(panels[0])).all()


def test_a_key_without_entries_has_the_codeword_zero():
    out = np.ones((2, 1, 16), np.int32)
    kernels.round_inward(np.zeros((2, 1, 16)), 32, SCALE, 0, out)
    assert not out.any()


def test_a_codeword_depends_on_its_own_hash_only():
    some = codewords(HASHES[:300], 77)
    np.testing.assert_array_equal(codewords(HASHES[299:100:-1], 77), some[299:100:-1])
    # These never change: releases are read with codewords made anew.
    assert codewords(np.array([1], np.uint64), 5).tolist() == [[13922, 2085, 6860, 445, 4795]]


def test_directions_are_uniform_on_the_sphere():
    # Entries have mean 0 and variance 1 / length, pairs of codewords inner products of variance
    # 1 / length: each figure within 5 standard errors, p < 1e-5 for all.
    words = codewords(HASHES[:4000], 64) / SCALE
    assert abs(words.mean()) < 5 / np.sqrt(words.size * 64)
    assert abs((words**2).mean() * 64 - 1) < 0.02
    inner = (words[::2] * words[1::2]).sum(axis=1)
    assert abs(inner.mean()) < 5 * inner.std() / np.sqrt(inner.size)
    assert abs(inner.var() * 64 - 1) < 5 * np.sqrt(2 / inner.size)


def test_mean_square_is_that_of_many_codewords():
    # Squares of codewords of one length deviate by 4e-5; rounding takes off 0.15 % at 1,000
    # entries and 1.2 % at the most, which an unbiased size must not lose.
    for length, count in ((1, 999), (10, 999), (1000, 999), (2**16, 9)):
        true = squares(codewords(HASHES[:count], length)).mean()
        assert mean_square(length) == pytest.approx(true, rel=2e-4)


@pytest.mark.parametrize("table", [2**24, 100 * 37])  # all items at once, and few at a time
def test_sums_are_those_of_the_codewords_of_each_set(table, monkeypatch):
    monkeypatch.setattr(gaussian_projection, "TABLE", table)
    monkeypatch.setattr(gaussian_projection, "SUMS", 50 * 37)
    random = np.random.default_rng(2)
    sizes = random.integers(0, 60, 120)
    sizes[[0, 7, -1]] = 0
    starts = np.concatenate([[0], np.cumsum(sizes)])
    hashes = HASHES[random.integers(0, 900, starts[-1])]
    words = codewords(hashes, 37).astype(np.int64)
    rows = 0
    for part, cells in sums(hashes, starts, 37):
        assert cells.dtype == np.int64
        for row, cell in zip(range(part.start, part.stop), cells, strict=True):
            np.testing.assert_array_equal(cell, words[starts[row] : starts[row + 1]].sum(axis=0))
            rows += 1
    assert rows == 120


def test_sums_of_more_codewords_than_32_bits_hold_do_not_wrap():
    # 300,000 equal items cannot be in a set, but are the largest sum of that number.
    count, word = 300_000, codewords(HASHES[:1], 2).astype(np.int64)
    (_, cells), *_ = sums(np.repeat(HASHES[:1], count), np.array([0, count]), 2)
    np.testing.assert_array_equal(cells, count * word)
    assert np.abs(cells).max() > 2**31


def test_nothing_comes_of_no_sets():
    assert list(sums(HASHES[:0], np.zeros(1, np.int64), 9)) == []


@pytest.mark.parametrize("change", [(5, 0, 5), (3, 4, 5), (20, 21, 29)])
def test_the_loss_covers_the_exact_delta_of_noise_on_two_numbers(change):
    # Of the least noise that the proof covers, all within 20 standard deviations enumerated.
    x, y, norm = change
    noise = ProjectionNoise(Fraction(10), x * x + y * y)
    points = np.arange(-200.0, 201)
    mass = np.exp(-(points**2) / 200)
    mass = np.multiply.outer(mass, mass) / mass.sum() ** 2
    lost = (points[:, None] * x + points * y) / 100 + (x * x + y * y) / 200
    loss = noise.loss(1, "add/remove")
    assert loss == GaussianNoise(Fraction(100 - 2 * SMOOTH), norm)
    for epsilon in (0.1, 1.0, 3.0):
        exact = (mass * -np.expm1(np.minimum(epsilon - lost, 0))).sum()
        assert exact <= gaussian_delta(epsilon, 6, change=norm)
        assert exact > gaussian_delta(epsilon, 10.1, change=norm) * 0.5  # so the check can fail
