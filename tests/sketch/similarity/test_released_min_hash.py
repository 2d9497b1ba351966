"""Released MinHash: a key moves one answer, and similarities are freed of what answers add."""

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import MinHash, ReleasedMinHash, SketchFormatError, load
from sfumato.sketch.response_release import false_symbol_probability
from support.observable import repacked

KIND = "one-permutation"


def sketch(bins, keys, seed=0, bits=32):
    return MinHash(bins, kind=KIND, seed=seed, bits=bits).update(list(keys))


def below_exp(ratio, epsilon):
    with localcontext(prec=60):
        return Decimal(ratio.numerator) / ratio.denominator <= Decimal(epsilon).exp()


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_no_release_distinguishes_neighbouring_sets_by_more_than_epsilon(bits, relation):
    # Every set of 5 keys in 3 bins, every one of the 27 or 125 releases, in fractions.
    sets = [s for size in range(6) for s in itertools.combinations(range(5), size)]
    symbols = 2**bits + 1
    released = sketch(3, []).release(2.0, bits=bits, relation=relation)
    loss = Loss.from_dict(released.statement.loss)
    false = false_symbol_probability(loss, symbols)
    true = 1 - (symbols - 1) * false

    def distribution(keys):
        codes = sketch(3, keys, seed=4)._codes(bits) if keys else np.full(3, symbols - 1)
        channels = [[true if s == code else false for s in range(symbols)] for code in codes]
        return [a * b * c for a, b, c in itertools.product(*channels)]

    distributions = {s: distribution(s) for s in sets}
    assert all(sum(each) == 1 for each in distributions.values())
    size, worst = (1, 1) if relation == "add/remove" else (2, 1)
    for s, t in itertools.permutations(sets, 2):
        if len(set(s) ^ set(t)) == size and (size == 1 or len(s) == len(t)):
            worst = max(
                worst, *(a / b for a, b in zip(distributions[s], distributions[t], strict=True))
            )
    assert released.statement.epsilon <= 2.0
    assert below_exp(worst, released.statement.epsilon)
    assert not below_exp(worst, 1.9)  # so that no noise is wasted either


def test_codes_are_answers_about_the_bits_of_each_minimum():
    # 30,000 responses: a fraction 6 deviations off has p < 1e-8.
    observed = sketch(300, range(400), seed=1)
    released = [
        observed.release(3, bits=2, source=InsecureSeededSource(seed)) for seed in range(100)
    ]
    retained = np.mean([each._codes == observed._codes(2) for each in released])
    false = float(false_symbol_probability(Loss.from_dict(released[0].statement.loss), 5))
    assert abs(retained - (1 - 4 * false)) < 6 * (0.25 / 30_000) ** 0.5
    assert {code for each in released for code in each._codes.tolist()} == set(range(5))


def test_codes_of_cut_sketches_are_those_of_whole_ones():
    keys = range(50)
    for bits in (1, 3):
        codes = sketch(64, keys)._codes(bits)
        np.testing.assert_array_equal(sketch(64, keys, bits=8)._codes(bits), codes)
        saved = load(sketch(64, keys, bits=8).to_bytes())
        np.testing.assert_array_equal(saved._codes(bits), codes)
        assert set(codes) <= set(range(2**bits + 1))
    assert (codes == 8).sum() == (sketch(64, keys)._minima == 2**32 - 1).sum() > 0


@pytest.mark.parametrize(
    ("bins", "keys", "epsilon", "bits"), [(512, 2000, 3, 1), (512, 2000, 3, 2), (512, 200, 4, 2)]
)
def test_similarity_is_right_on_average_and_within_its_bound(bins, keys, epsilon, bits):
    # 150 pairs; the similarity is 1/3. The mean is off by less than 6 of its deviations and a bias
    # of 1 %; at 90 %, more than 32 misses have p < 1e-5 (the bound is proved, so wider).
    errors, misses = [], 0
    for seed in range(150):
        left, true = (
            sketch(bins, range(keys), seed),
            sketch(bins, range(keys // 2, 3 * keys // 2), seed),
        )
        a = left.release(epsilon, bits=bits, source=InsecureSeededSource(2 * seed))
        b = true.release(epsilon + 1, bits=bits, source=InsecureSeededSource(2 * seed + 1))
        errors.append(a.similarity(b) - 1 / 3)
        misses += abs(errors[-1]) > a.error_bound(0.9, b)
    assert abs(np.mean(errors)) < 0.01 + 6 * np.std(errors) / 150**0.5
    assert misses <= 32
    assert a.error_bound(0.9, b) < 0.4
    assert a.error_bound(0.9) <= 1


@pytest.mark.parametrize("overlap", [0, 1000])
def test_equal_and_disjoint_sets_are_distinguished(overlap):
    # Deviation about 0.06: 0.5 from the truth has p < 1e-9.
    a = sketch(1024, range(1000)).release(4, source=InsecureSeededSource(1))
    b = sketch(1024, range(1000 - overlap, 2000 - overlap)).release(
        4, source=InsecureSeededSource(2)
    )
    assert a.similarity(b) == pytest.approx(overlap / 1000, abs=0.5)
    assert 0 <= a.similarity(b) <= 1


@pytest.mark.parametrize("keys", [0, 100, 800])
def test_size_is_right_on_average_and_within_its_bounds(keys):
    # 200 releases; at 90 %, more than 41 misses have p < 1e-5.
    sizes, misses = [], 0
    for seed in range(200):
        released = sketch(512, range(keys), seed).release(2, source=InsecureSeededSource(seed))
        sizes.append(released.estimate_size())
        low, high = released.size_bounds(0.9)
        misses += not low <= keys <= high
    assert misses <= 41
    if keys:
        assert abs(np.mean(sizes) - keys) < 0.03 * keys + 6 * np.std(sizes) / 200**0.5


def test_one_bit_is_released_below_epsilon_two_and_two_from_there():
    observed = sketch(64, range(100))
    assert [observed.release(epsilon).bits for epsilon in (0.5, 1.9, 2.0, 8)] == [1, 1, 2, 2]
    assert observed.release(3, relation="replace").bits == 1
    assert sketch(64, range(9), bits=1).release(4).bits == 1
    with pytest.raises(ValueError, match="bits must be at most the 1 it has, not 2"):
        sketch(64, range(9), bits=1).release(4, bits=2)
    for bad in (0, 8, 1.5, "2"):
        with pytest.raises(ValueError, match="MinHash: bits must be"):
            observed.release(1, bits=bad)


@pytest.mark.parametrize("kind", ["permutations", "k-minimum"])
def test_other_kinds_refuse_and_say_why(kind):
    with pytest.raises(ValueError, match=f"cannot be released, kind is '{kind}' and one key may"):
        MinHash(16, kind=kind).update([1]).release(1)


def test_cost_counts_bins_that_a_unit_touches():
    observed = sketch(8, range(20))
    assert Loss.from_dict(observed.release(1).statement.loss).cells == 1
    assert Loss.from_dict(observed.release(1, relation="replace").statement.loss).cells == 2
    user = observed.release(4, unit="user", contributions=50)
    assert Loss.from_dict(user.statement.loss).cells == 8  # there are no more bins
    with pytest.raises(ValueError, match=r"MinHash: epsilon must be at least .*, not 1e-10;"):
        observed.release(1e-10)


def test_damaged_codes_and_other_parameters_are_refused():
    released = sketch(8, range(9), seed=1).release(1)
    with pytest.raises(SketchFormatError, match="a code is out of range"):
        load(repacked(released, {"_codes": released._codes + np.uint8(3)}))
    with pytest.raises(ValueError, match="cannot compare, seed is 1 here and 2 there"):
        released.similarity(sketch(8, range(9), seed=2).release(1))
    with pytest.raises(TypeError, match="cannot compare with MinHash"):
        released.similarity(sketch(8, range(9), seed=1))
    assert isinstance(released, ReleasedMinHash)
    assert sketch(1, [1]).release(1).error_bound(0.9, sketch(1, [1]).release(1)) == 1
