"""Coins and choices have exactly the probabilities they were given."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernels import noise as kernels
from sfumato.privacy.noise.discrete import coins, flips, uniform
from sfumato.privacy.random_source import InsecureSeededSource
from support.scripted_randomness import Constant


def test_coins_compare_random_bits_to_the_digits_of_the_probability():
    probability = Fraction(5, 7)
    digits = [int(probability * 2**j) & 1 for j in range(1, 41)]
    masks = np.array(digits, np.uint64) * np.uint64(2**64 - 1)
    words = np.random.default_rng(18).integers(0, 2**64, 4000, np.uint64)
    out, left_open = np.zeros(20, np.uint64), np.empty(20, np.uint64)
    assert kernels.flip(words, masks, 0, left_open, out) == 20
    at = 0
    for j in range(20):
        undecided, length = set(range(64)), 0
        while undecided and length < 40:
            undecided = {b for b in undecided if int(words[at + length]) >> b & 1 == digits[length]}
            length += 1
        for b in range(64):
            draw = [int(words[at + i]) >> b & 1 for i in range(length)]
            assert (int(out[j]) >> b & 1) == (draw < digits[:length])
        at += length


@pytest.mark.parametrize("probability", ["1/2", "1/3", "3/1024", "999/1000"])
def test_coins_have_their_probability(probability):
    # Two million coins: the mean is off by 5.5 standard errors with p < 4e-8.
    p, n = float(Fraction(probability)), 2_000_000
    ones = np.bitwise_count(flips(probability, n, source=InsecureSeededSource(19))).sum()
    assert abs(ones - p * n) < 5.5 * np.sqrt(n * p * (1 - p))


def test_an_undecided_coin_is_decided_by_what_is_beyond_its_digits():
    # 1/3 = 0.0101...: random bits 0101... equal all 128 digits; the rest, 1/3 again, then decides.
    class Thirds(Constant):
        def fill(self, out):
            flat = out.reshape(-1)
            flat[0::2], flat[1::2] = 0, np.uint64(2**64 - 1)

    # As bits in a row, words 0, -1, 0, -1, ... start with zeros, so that below(3) takes 0 < 1.
    assert flips("1/3", 64, source=Thirds(0))[0] == 2**64 - 1
    assert flips("1/2", 64, source=Constant(255))[0] == 0


def test_spare_bits_stay_zero():
    assert int(flips("999/1000", 70, source=InsecureSeededSource(1))[1]) < 2**6
    assert coins("1/2", 70).shape == (70,)
    assert flips("1/2", 0).size == 0


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 2**63 - 1, 3 * 2**61])
def test_uniform_numbers_are_within_their_limit_and_even(limit):
    draws = uniform(limit, 200_000, source=InsecureSeededSource(20))
    assert draws.min() >= 0
    assert draws.max() < limit
    # Quarters of the range differ from 50,000 by 5.5 sigma with p < 4e-8 each.
    if limit > 4:
        quarter = np.bincount((draws.astype(object) * 4 // limit).astype(int), minlength=4)
        share = [((q + 1) * limit - 1) // 4 - (q * limit - 1) // 4 for q in range(4)]
        for observed, numbers in zip(quarter, share, strict=True):
            expected = 200_000 * numbers / limit
            assert abs(observed - expected) < 5.5 * np.sqrt(expected)
