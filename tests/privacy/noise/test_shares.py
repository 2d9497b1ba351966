"""Shares of noise: any `of` of them sum to exactly discrete Laplace noise."""

import ast
from fractions import Fraction
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.special import chdtrc
from scipy.stats import nbinom

import sfumato
from sfumato.kernels import noise as kernels
from sfumato.privacy.noise.discrete import (
    add_laplace,
    add_laplace_share,
    discrete_laplace,
    gaussian_gap,
    laplace_share,
)
from sfumato.privacy.noise.exact import reference
from sfumato.privacy.noise.exact.distributions import exp_bounds
from sfumato.privacy.noise.exact.share_distributions import (
    LEADING,
    NumberOfTerms,
    SizeStrips,
    minus_log_bounds,
    strip,
)
from sfumato.privacy.noise.share_sampler import ShareSampler, ShareSource
from sfumato.privacy.random_source import InsecureSeededSource
from support.scripted_randomness import Constant

mp.mp.dps = 90
RARE = 1e-7  # the probability that one test fails although the distribution is right
CASES = [("1/2", 2), ("1", 3), ("21/2", 2), ("300", 7), ("40", 100)]


def laplace_mass(scale, half_width):
    k = np.arange(-half_width, half_width + 1)
    return np.exp(-np.abs(k) / scale) * np.tanh(0.5 / scale)


def share_mass(scale, of, half_width):
    """On -half_width to half_width, by convolving two negative binomial masses, unlike the code."""
    polya = nbinom.pmf(np.arange(2 * half_width + 1), 1 / of, -np.expm1(-1 / scale))
    full = np.maximum(fftconvolve(polya, polya[::-1]), 0)
    return full[full.size // 2 - half_width : full.size // 2 + half_width + 1]


def folded(mass, times):
    """The distribution of a sum, by the transform of a mass that is long enough not to wrap."""
    start = np.fft.rfft(np.fft.ifftshift(mass))
    return np.fft.fftshift(np.fft.irfft(start**times, mass.size))


def p_value(draws, mass):
    """The p-value of a chi-square test, tails joined so that each bin expects 10 draws."""
    half_width = mass.size // 2
    assert np.abs(draws).max() <= half_width
    observed = np.bincount(draws + half_width, minlength=mass.size)
    label = np.floor(np.cumsum(mass) * draws.size / 10).astype(int)
    _, first = np.unique(label, return_index=True)
    expected, observed = np.add.reduceat(mass, first) * draws.size, np.add.reduceat(observed, first)
    return chdtrc(observed.size - 1, ((observed - expected) ** 2 / expected).sum())


@pytest.mark.parametrize(("scale", "of"), CASES)
def test_a_share_has_the_exact_mass(scale, of):
    # A million draws; a right distribution fails with p = RARE.
    scale = Fraction(scale)
    draws = laplace_share(scale, of, 1_000_000, source=InsecureSeededSource(21))
    assert p_value(draws, share_mass(float(scale), of, int(40 * scale) + 20)) > RARE


@pytest.mark.parametrize(("scale", "of"), [*CASES[:4], ("20000", 5)])
def test_shares_sum_to_discrete_laplace_noise(scale, of):
    # 300,000 sums; a right distribution fails with p = RARE.
    scale = Fraction(scale)
    draws = laplace_share(scale, of, (of, 300_000), source=InsecureSeededSource(22)).sum(axis=0)
    assert p_value(draws, laplace_mass(float(scale), int(40 * scale) + 20)) > RARE


@pytest.mark.parametrize(("scale", "of"), CASES)
def test_the_distribution_of_shares_folds_into_that_of_the_noise(scale, of):
    # From the distributions of the tables: numbers of terms, and sizes as strips keep them.
    scale = Fraction(scale)
    half_width = int(60 * scale) + 60
    weight = np.zeros(2 * half_width + 1)
    for k, low in enumerate(_masses(SizeStrips(1 / scale), strip_of(half_width) + 1)):
        first, exponent = strip(k)
        inside = np.arange(first, min(first + 2**exponent, half_width + 1))
        retained = np.exp(-(inside - first) / float(scale)) * first / inside
        weight[half_width + inside] = weight[half_width - inside] = low / 2**exponent * retained
    weight /= weight.sum()
    count = np.array(_masses(NumberOfTerms(1 / scale, of), 60))
    count /= count.sum()
    one = np.fft.rfft(np.fft.ifftshift(weight))
    share = np.fft.fftshift(np.fft.irfft(np.polyval(count[::-1], one), weight.size))
    np.testing.assert_allclose(share, share_mass(float(scale), of, half_width), atol=1e-13)
    np.testing.assert_allclose(
        folded(share, of), laplace_mass(float(scale), half_width), atol=1e-13
    )


def _masses(distribution, count):
    masses = distribution._masses(127)
    return [float(Fraction(next(masses)[0], 2**127)) for _ in range(count)]


def strip_of(number):
    """The outcome whose strip a number is in."""
    exponent = max(number.bit_length() - LEADING - 1, 0)
    return (number >> exponent) + (exponent << LEADING) - 1


def test_strips_follow_each_other_without_gap():
    end = 1
    for outcome in range(20 << LEADING):
        first, exponent = strip(outcome)
        assert first == end
        assert exponent == 0 or 2**exponent * 2**LEADING <= first
        assert strip_of(first) == strip_of(first + 2**exponent - 1) == outcome
        end = first + 2**exponent


def floors_of(masses, bits):
    total, floors = mp.mpf(0), []
    for mass in masses:
        total += mass
        floors.append(int(mp.floor(total * mp.mpf(2) ** bits)))
    return floors


@pytest.mark.parametrize("bits", [63, 127])
@pytest.mark.parametrize(("scale", "of"), [*CASES, ("1099511627776", 3), ("1/40", 2)])
def test_floors_of_the_number_of_terms_are_certain(scale, of, bits):
    scale = Fraction(scale)
    floors = NumberOfTerms(1 / scale, of).floors(bits)
    x = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)
    mu = -2 * mp.log(1 - x) / of
    masses = [mp.exp(-mu) * mu**k / mp.factorial(k) for k in range(len(floors))]
    assert floors == floors_of(masses, bits)
    assert floors[-1] == 2**bits - 1


@pytest.mark.parametrize("scale", ["1/40", "1", "21/2", "40"])
def test_floors_of_the_strips_are_certain(scale):
    scale = Fraction(scale)
    floors = SizeStrips(1 / scale).floors(63)
    x = mp.exp(-mp.mpf(scale.denominator) / scale.numerator)
    firsts = [strip(k) for k in range(len(floors) + 400)]
    weights = [mp.mpf(2) ** exponent * x**first / first for first, exponent in firsts]
    whole = mp.fsum(weights)
    assert floors == floors_of([w / whole for w in weights[: len(floors)]], 63)
    assert floors[-1] == 2**63 - 1


@pytest.mark.parametrize("number", [1, 3, 2**90 - 1, 2**90, 2**100 - 1, 12345 << 70])
def test_bounds_of_logarithms_enclose_them(number):
    low, high = minus_log_bounds(number, 100)
    true = -mp.log(mp.mpf(number) / 2**100) * 2**100
    assert low <= true <= high
    assert high - low <= 2**8


class Scripted:
    """The given words first, then those of a seed."""

    def __init__(self, words, seed):
        self.words, self.then = words, InsecureSeededSource(seed)

    def fill(self, out):
        if self.words is None:
            self.then.fill(out)
        else:
            out[...], self.words = self.words, None


def defined(word, second, sampler, scale):
    """The number of two words, by the definition; 0 if it is rejected."""
    first, exponent = strip(
        sampler._strips.distribution.resolve(word >> 1, 63, reference.Bits(Constant(0x55)))
    )
    size = first + second % 2**exponent
    low, high = exp_bounds((size - first) / scale, 64 - exponent)
    low, high = (Fraction(bound * first, size) for bound in (low, high))
    assert not low - 1 < second >> exponent < high, "choose another seed: undecided"
    return 0 if second >> exponent >= high else -size if word & 1 else size


def test_a_strip_keeps_its_numbers_with_the_exact_probability():
    # The kernel and its fallback decide as the definition does, for words near every kind of edge.
    scale = Fraction(20001)
    sampler = ShareSampler(scale, 3)
    words = np.random.default_rng(23).integers(0, 2**64, (4000, 2), np.uint64)
    words[::2, 1] |= ~np.uint64(0) << np.uint64(56)  # near the top, where numbers are rejected
    words[::2, 0] |= np.uint64(3 << 62)  # of large numbers, whose strips are wide
    words[3::97, 0] = sampler._strips.floors[: words[3::97, 0].size] << np.uint64(1)  # open
    wanted = np.array([defined(*pair, sampler, scale) for pair in words.tolist()])
    undecided, sizes = np.empty(4000, np.int64), np.empty(4000, np.int64)
    strips = *sampler._strips.looked_up, LEADING, sampler._slopes
    missing = kernels.draw_sizes(words.reshape(-1), *strips, undecided, sizes)
    surely = np.setdiff1d(np.arange(4000), undecided[:missing])
    assert (sizes[surely] == wanted[surely]).all()
    result = sampler._sizes(4000, Scripted(words, 5), reference.Bits(Constant(0x55)))
    retained = wanted != 0
    assert (result[retained] == wanted[retained]).all()
    afresh = sampler._sizes(
        4000 - retained.sum(), Scripted(None, 5), reference.Bits(Constant(0x55))
    )
    assert (result[~retained] == afresh).all()
    assert (afresh != 0).all()
    assert 10 < 4000 - retained.sum() < missing < 2500


def test_one_share_is_the_whole_noise():
    whole = discrete_laplace(7, 100, source=InsecureSeededSource(3))
    assert (laplace_share(7, 1, 100, source=InsecureSeededSource(3)) == whole).all()


def test_more_shares_make_more_noise():
    # 4 of 3 shares: 4/3 of the variance, 2 x / (1 - x)**2; 9 deviations of the mean square.
    draws = laplace_share(10, 3, (4, 400_000), source=InsecureSeededSource(24)).sum(axis=0)
    x = np.exp(-0.1)
    assert abs((draws**2.0).mean() / (2 * x / (1 - x) ** 2 * 4 / 3) - 1) < 0.03


def test_laplace_noise_is_shared_under_a_source_of_shares():
    cells, same = np.zeros(50, np.int64), np.zeros(50, np.int64)
    source = ShareSource(4, InsecureSeededSource(5))
    add_laplace(cells, 9, source=source)
    add_laplace_share(same, 9, 4, source=InsecureSeededSource(5))
    assert (cells == same).all()
    assert source.added == 50
    assert (laplace_share(100, 2, 50) != laplace_share(100, 2, 50)).any()  # fresh bits


@pytest.mark.parametrize("of", [2, 3, 10])
@pytest.mark.parametrize("each", [1.0, 1.25])
def test_gaussian_shares_are_as_near_as_stated(each, of):
    def mass(variance):
        k = np.arange(-150, 151)
        weight = np.exp(-(k**2) / (2 * variance))
        return weight / weight.sum()

    share, total = mass(each), mass(each)
    for _ in range(of - 1):
        total = np.convolve(total, share, "same")
    observed = np.abs(np.arange(-150, 151)) <= 5 * np.sqrt(each * of)
    off = np.abs(np.log(total[observed] / mass(each * of)[observed])).max()
    gap = gaussian_gap(np.sqrt(each * of), of, cells=1)
    assert off <= gap
    assert of > 2 or off > gap / 25
    assert gaussian_gap(np.sqrt(each * of), of, cells=7) == pytest.approx(7 * gap)


def test_gaussian_shares_below_one_are_not_vouched_for():
    assert gaussian_gap(1.0, 2, cells=1) == np.inf
    assert gaussian_gap(0.1, 1, cells=1) == 0  # one share is the noise itself


def test_limits_name_themselves():
    assert isinstance(laplace_share(3, 2), int)
    for bad in (0, -1, 1.5, "many", 2**21):
        with pytest.raises(ValueError, match="add_laplace_share: of must be"):
            laplace_share(1, bad)
    for bad in (0, -1, np.nan, np.inf, 2**41):
        with pytest.raises(ValueError, match="add_laplace_share: scale must be"):
            laplace_share(bad, 2)
    with pytest.raises(ValueError, match="room for noise"):
        add_laplace_share(np.array([2**62]), 1, 2)


@pytest.mark.parametrize("file", ["kernels/noise.py", "privacy/noise/exact/share_distributions.py"])
def test_no_float_occurs_in_sampling(file):
    tree = ast.parse((Path(sfumato.__file__).parent / file).read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {name for name in names if "float" in name or name in ("exp", "log", "sqrt")}
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
        assert not isinstance(node, ast.Div)
