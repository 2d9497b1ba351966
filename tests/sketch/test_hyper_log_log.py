"""HyperLogLog: distinct counts within the stated error from one key to many."""

import sys

import numpy as np
import pytest

from sfumato.sketch import HyperLogLog


@pytest.mark.parametrize("count", [1, 10, 100, 1000, 10_000, 100_000])
def test_standard_error_and_bias_are_as_stated(count):
    # 150 seeds: the mean error is within 5 standard errors (p < 1e-6) and the root mean square
    # within 1.35 of 1.04 / sqrt(m) (chi-square with 150 degrees: p < 1e-6).
    keys = np.arange(count)
    errors = np.array(
        [HyperLogLog(8, seed=s).update(keys).estimate() / count - 1 for s in range(150)]
    )
    std_error = 1.04 / 16
    assert abs(errors.mean()) < 5 * std_error / np.sqrt(150)
    assert np.sqrt((errors**2).mean()) < 1.35 * std_error


@pytest.mark.parametrize("precision", [4, 5, 6, 7, 10])
@pytest.mark.parametrize("count", [10, 20_000])
def test_error_bound_holds_at_every_precision(precision, count):
    # 300 seeds at 90 %: more than 55 misses have p < 1e-5 if each has p = 0.1.
    sketches = [HyperLogLog(precision, seed=seed).update(range(count)) for seed in range(300)]
    bound = sketches[0].error_bound(0.9)
    assert sum(abs(sketch.estimate() - count) > bound * count + 1 for sketch in sketches) <= 55


@pytest.mark.parametrize("count", [10, 40, 43, 100])
def test_error_bound_holds_for_few_keys(count):
    # 500 seeds at 99 %: more than 18 misses have p < 1e-5 if each has p = 0.01. Without the 1 in
    # the guarantee 40 keys would miss about 25 times: whenever two share a register.
    sketches = [HyperLogLog(14, seed=seed).update(range(count)) for seed in range(500)]
    bound = sketches[0].error_bound(0.99)
    assert sum(abs(sketch.estimate() - count) > bound * count + 1 for sketch in sketches) <= 18


def test_registers_are_the_leading_zeros_of_the_hashes():
    from sfumato.core.hashing import hash_column

    keys = np.arange(50_000)
    want = np.zeros(64, np.uint8)
    for h in hash_column(keys, 3).tolist():
        remaining = h << 6 & 2**64 - 1
        rank = min(64 - remaining.bit_length(), 58) + 1
        want[h >> 58] = max(want[h >> 58], rank)
    np.testing.assert_array_equal(HyperLogLog(6, seed=3).update(keys)._registers, want)


def test_repeats_change_nothing_and_empty_is_zero():
    sketch = HyperLogLog().update(range(100))
    assert sketch.copy().update(list(range(100)) * 3) == sketch
    assert HyperLogLog().estimate() == 0


def test_from_error_is_the_smallest_that_keeps_it():
    sketch = HyperLogLog.from_error(0.02, 0.95)
    assert sketch.error_bound(0.95) <= 0.02
    assert HyperLogLog(sketch.precision - 1).error_bound(0.95) > 0.02
    with pytest.raises(ValueError, match="error must be"):
        HyperLogLog.from_error(0.0001)


@pytest.mark.parametrize("precision", [4, 8, 14])
def test_estimate_is_that_of_the_registers_after_every_change(precision):
    # The number of registers of every value is maintained from the first estimate on.
    def fresh(sketch):
        return HyperLogLog.from_bytes(sketch.to_bytes()).estimate()

    sketch = HyperLogLog(precision)
    changes = [
        lambda: sketch.add("tea"),
        lambda: sketch.update([]),
        lambda: sketch.update(range(7)),
        lambda: sketch.update(np.arange(9_000)),
        lambda: sketch.merge(HyperLogLog(precision).update(range(8_000, 30_000))),
        lambda: sketch.add("milk"),
        lambda: sketch.update(np.arange(300_000)),
        lambda: sketch.update(np.arange(299_000, 400_000)),
    ]
    assert sketch.estimate() == 0
    for change in changes:
        change()
        assert sketch.estimate() == fresh(sketch)
    twin, before = sketch.copy(), sketch.estimate()
    twin.update(range(10**6, 2 * 10**6))
    assert (sketch.estimate(), twin.estimate()) == (before, fresh(twin))


@pytest.mark.parametrize("count", [0, 1, 40, 20_000])
def test_interval_contains_the_number_at_its_confidence(count):
    # 300 seeds at 90 %: more than 55 misses have p < 1e-5 if each has p = 0.1.
    sketches = [HyperLogLog(8, seed=seed).update(range(count)) for seed in range(300)]
    intervals = [sketch.interval(0.9) for sketch in sketches]
    assert sum(not low <= count <= high for low, high in intervals) <= 55
    for sketch, (low, high) in zip(sketches, intervals, strict=True):
        assert 0 <= low <= sketch.estimate() <= high
        assert low >= sketch.interval(0.99)[0]
    if count == 20_000:  # nor are they wider than needed: fewer than 10 misses have p < 1e-5
        assert sum(not low <= count <= high for low, high in intervals) >= 10
    with pytest.raises(ValueError, match="confidence must be"):
        sketches[0].interval(1)


def test_full_registers_mean_more_than_can_be_counted():
    sketch, full = HyperLogLog(4), HyperLogLog(4)
    sketch._registers[:] = 60
    assert sketch.estimate() > 1e18
    full._registers[:] = 61
    assert full.estimate() == np.inf


def test_the_estimate_is_the_same_with_and_without_the_compiler(monkeypatch):
    sketches = [HyperLogLog(p).update(range(n)) for p in (4, 11) for n in (0, 1, 30, 50_000)]
    full = HyperLogLog(4)
    full._registers[:] = 64 - 4 + 1
    compiled = [sketch.estimate() for sketch in (*sketches, full)]
    monkeypatch.delitem(sys.modules, "numba")
    assert [sketch.estimate() for sketch in (*sketches, full)] == compiled
