"""Released HyperLogLog: one private bit per register, and a count that is right on average."""

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import HyperLogLog, ReleasedHyperLogLog, SketchFormatError, load
from sfumato.sketch.hyper_log_log import levels
from support.observable import repacked


def true_bits(sketch, largest):
    return sketch._registers >= levels(sketch.precision, largest)


def below_exp(ratio, epsilon):
    with localcontext(prec=60):
        return Decimal(ratio.numerator) / ratio.denominator <= Decimal(epsilon).exp()


@pytest.mark.parametrize("largest", [1, 1000, 2**62])
def test_no_release_distinguishes_neighbouring_sets_by_more_than_epsilon(largest):
    # Bits are flipped alone, so the worst ratio of two distributions is (1 - p) / p for each bit in
    # which the truths differ. All 128 sets of 7 keys that share a few of the 16 registers.
    every = HyperLogLog(4, seed=1)
    keys = sorted(range(300), key=lambda k: np.argmax(every.copy().update([k])._registers))[:7]
    sets = [s for size in range(8) for s in itertools.combinations(keys, size)]
    truth = {s: true_bits(HyperLogLog(4, seed=1).update(list(s)), largest) for s in sets}
    for relation, size in (("add/remove", 1), ("replace", 2)):
        released = every.release(1.5, largest=largest, relation=relation)
        p = released.flip_probability
        for s, t in itertools.combinations(sets, 2):
            if len(set(s) ^ set(t)) == size and (size == 1 or len(s) == len(t)):
                ratio = ((1 - p) / p) ** int((truth[s] ^ truth[t]).sum())
                assert below_exp(ratio, released.statement.epsilon)
        assert released.statement.epsilon <= 1.5
        assert Loss.from_dict(released.statement.loss).cells == size


@pytest.mark.parametrize("precision", [4, 5, 6, 9])
def test_cells_are_the_true_bits_flipped_and_no_more(precision):
    observed = HyperLogLog(precision, seed=3).update(range(2**precision))
    released = observed.release(1, largest=5000, source=InsecureSeededSource(5))
    size = 2**precision
    flips = noise.flips(released.flip_probability, size, source=InsecureSeededSource(5))
    shown = np.unpackbits((released._words ^ flips).view(np.uint8), bitorder="little")
    np.testing.assert_array_equal(shown[:size], true_bits(observed, 5000))
    assert not shown[size:].any()
    if size % 64:
        with pytest.raises(SketchFormatError, match="beyond the last"):
            load(repacked(released, {"_words": released._words | np.uint64(1 << 63)}))


def test_levels_are_public_and_reach_from_one_to_the_largest_count():
    for precision, largest, highest in ((4, 1, 1), (10, 1024, 1), (10, 1025, 2), (14, 10**9, 17)):
        at = levels(precision, largest)
        assert at.size == 2**precision
        assert at.min() == 1
        assert at.max() == highest
    assert levels(18, 2**62).max() == 45
    # Seven parts of the first level, one of each other.
    counts = np.bincount(levels(14, 10**6))[1:]
    np.testing.assert_allclose(counts / counts[1:].mean(), [7, *[1] * 6], rtol=0.01)


@pytest.mark.parametrize(
    ("precision", "count", "epsilon", "largest"),
    [(8, 0, 1, 10**4), (8, 100, 2, 10**4), (10, 3000, 1, 10**6), (10, 200_000, 3, 10**6)],
)
def test_estimate_is_right_on_average_and_within_its_bound(precision, count, epsilon, largest):
    # 200 releases of as many sketches. At 90 %, more than 41 misses have p < 1e-5.
    # Means are off by less than 6 deviations of a mean, p < 1e-8, and a known bias of 5 %; at 0
    # keys the estimate cannot fall below.
    errors, misses = [], 0
    for seed in range(200):
        observed = HyperLogLog(precision, seed=seed).update(range(count))
        released = observed.release(epsilon, largest=largest, source=InsecureSeededSource(seed))
        errors.append(released.estimate() - count)
        misses += abs(errors[-1]) > released.error_bound(0.9)
    assert misses <= 41
    if count:
        assert misses >= 1
        assert abs(np.mean(errors)) < 0.05 * count + 6 * np.std(errors) / 200**0.5


def test_noise_is_what_the_fisher_information_says():
    # The deviation of 200 estimates is known to 5 %: 40 % more or less has p < 1e-9.
    precision, count, largest = 10, 20_000, 10**5
    result = [
        HyperLogLog(precision, seed=seed)
        .update(range(count))
        .release(2, largest=largest, source=InsecureSeededSource(seed))
        for seed in range(200)
    ]
    p = float(result[0].flip_probability)
    rate = 2.0 ** (1 - levels(precision, largest)) / 2**precision
    shown = p + (1 - 2 * p) * -np.expm1(-count * rate)
    slope = (1 - 2 * p) * rate * np.exp(-count * rate)
    expected = (slope**2 / (shown * (1 - shown))).sum() ** -0.5
    assert 0.6 < np.std([each.estimate() for each in result]) / expected < 1.4


def test_estimate_maximises_the_likelihood():
    result = (
        HyperLogLog(8).update(range(700)).release(2, largest=5000, source=InsecureSeededSource(1))
    )
    here, top = result._likeliest
    around = result._log_likelihood(here * np.array([0.5, 0.9, 0.999, 1.001, 1.1, 2]))
    assert (around <= top).all()
    assert result.error_bound(0.9) < result.error_bound(0.99)


def test_a_count_far_beyond_the_largest_has_no_bound():
    result = (
        HyperLogLog(6).update(range(50_000)).release(9, largest=10, source=InsecureSeededSource(1))
    )
    assert result.error_bound() == np.inf
    assert result.estimate() >= 80


def test_largest_is_required_and_checked():
    observed = HyperLogLog(6).update(range(9))
    with pytest.raises(TypeError, match="largest"):
        observed.release(1)
    for bad in (0, 2**63, 1.5, None, True):
        with pytest.raises(ValueError, match="HyperLogLog: largest must be"):
            observed.release(1, largest=bad)
    released = observed.release(1, largest=100)
    assert isinstance(released, ReleasedHyperLogLog)
    with pytest.raises(TypeError, match="cannot be changed"):
        released.merge(released)


def test_interval_is_what_the_error_bound_measures():
    released = HyperLogLog(10).update(range(5000)).release(epsilon=4, largest=100_000)
    low, high = released.interval(0.95)
    here = released.estimate()
    assert low < here < high
    assert released.error_bound(0.95) == max(here - low, high - here)
