"""The number of keys in a set, from its minima alone."""

import numpy as np
import pytest

from sfumato.sketch import MinHash

KINDS = ["permutations", "one-permutation", "k-minimum"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 60, 5000])
def test_size_is_estimated_within_its_bounds(kind, size):
    # Confidence 0.9: more than 155 misses of 1000 have p < 1e-6 for a miss probability of 0.1.
    sketches = [MinHash(100, kind=kind, seed=s).update(range(size)) for s in range(1000)]
    misses = 0
    for sketch in sketches:
        low, high = sketch.size_bounds(0.9)
        misses += not low <= size <= high
    assert misses <= 155


@pytest.mark.parametrize("kind", ["permutations", "k-minimum"])
def test_size_is_unbiased_for_few_permutations(kind):
    # An estimate from 10 minima has a relative standard error of 1 / sqrt(8); the mean of 2000 is
    # more than 6 standard errors, or 0.047, off with p < 1e-6. Uncorrected it is 0.11 too high.
    sizes = [MinHash(10, kind=kind, seed=s).update(range(500)).estimate_size() for s in range(2000)]
    assert abs(np.mean(sizes) / 500 - 1) < 0.047


def test_size_from_bins_is_right_on_average():
    # Spread 1 / sqrt(100) each: 6 standard errors of 2000 are 0.014; 0.01 is the bias allowed.
    for size in (1, 30, 300, 3000):
        sizes = [
            MinHash(100, kind="one-permutation", seed=s).update(range(size)).estimate_size()
            for s in range(2000)
        ]
        assert abs(np.mean(sizes) / size - 1) < 0.024


def test_size_counts_keys_whose_hashes_are_equal():
    # 2**32 hashes contain 2**31 keys in 1 - exp(-1/2) of the values: those are the lowest values.
    sketch = MinHash(1000, kind="k-minimum").update([1])
    occupied = 1 - np.exp(-0.5)
    sketch._minima[:] = np.arange(1, 1001) / occupied
    assert abs(sketch.estimate_size() / 2**31 - 1) < 0.01


def test_size_needs_two_permutations_and_whole_minima():
    with pytest.raises(ValueError, match="from 2 up, not 1"):
        MinHash(1).update([1]).estimate_size()
    with pytest.raises(ValueError, match="full minima are needed, 8 bits"):
        MinHash(bits=8).update([1]).estimate_size()
