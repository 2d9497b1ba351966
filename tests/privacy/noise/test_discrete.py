"""Noise follows its exact distribution, tails included, by the tables as by the reference."""

import ast
import math
import os
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.special import chdtrc

import sfumato
from sfumato.kernels import noise as kernels
from sfumato.privacy.noise.discrete import (
    add_gaussian,
    add_laplace,
    discrete_gaussian,
    discrete_laplace,
    flips,
)
from sfumato.privacy.noise.exact import reference
from sfumato.privacy.noise.exact.distributions import exp_bounds
from sfumato.privacy.noise.tables import (
    FEW,
    LARGE,
    SIZES,
    GaussianSampler,
    LaplaceSampler,
    ReferenceSampler,
    _below_exp,
    gaussian_sampler,
    laplace_sampler,
)
from sfumato.privacy.random_source import InsecureSeededSource, SystemSource, stated
from support.scripted_randomness import Constant

SCALES = ["1/4", "1", "10", "21/2", "1000", "2000", "20000", "100000"]
RARE = 1e-7  # the probability that one test fails although the distribution is right


def laplace_mass(scale):
    half_width = int(45 * scale) + 10
    k = np.arange(-half_width, half_width + 1)
    return k, np.exp(-np.abs(k) / scale) * np.tanh(0.5 / scale)


def gaussian_mass(sigma):
    half_width = int(10 * sigma) + 10
    k = np.arange(-half_width, half_width + 1)
    mass = np.exp(-(k**2) / (2 * sigma**2))
    return k, mass / mass.sum()


MASS = {"laplace": laplace_mass, "gaussian": gaussian_mass}
DRAW = {"laplace": discrete_laplace, "gaussian": discrete_gaussian}


def p_value(draws, k, mass, least=8):
    """The p-value of a chi-square test whose bins extend so far that each expects `least` draws."""
    assert k[0] <= draws.min()
    assert draws.max() <= k[-1]
    ends = np.cumsum(mass) * draws.size
    # Equal steps of a transform that grows like a log in both tails: many bins, most of them there.
    stretched = np.log((ends + least) / (draws.size - ends + least))
    label = np.floor((stretched - stretched[0]) * 12).astype(int)
    _, first = np.unique(label, return_index=True)
    expected = np.add.reduceat(mass, first) * draws.size
    observed = np.add.reduceat(np.bincount(draws - k[0], minlength=k.size), first)
    keep = expected >= least
    rest_expected, rest_observed = expected[~keep].sum(), observed[~keep].sum()
    expected = np.append(expected[keep], rest_expected + 1e-9)
    observed = np.append(observed[keep], rest_observed)
    return chdtrc(keep.sum(), ((observed - expected) ** 2 / expected)[:-1].sum())


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_fast_noise_has_the_exact_mass(kind, scale):
    # A million draws; the farthest bin expects 8 of them. A right distribution fails with p = RARE.
    scale = Fraction(scale)
    draws = DRAW[kind](scale, 1_000_000, source=InsecureSeededSource(11))
    assert p_value(draws, *MASS[kind](float(scale))) > RARE


@pytest.mark.parametrize("draws", [5, 4_000, 100_000])
@pytest.mark.parametrize("scale", ["1/4", "21/2", "1000", "100000"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_of_every_number_of_draws_has_the_exact_mass(kind, scale, draws):
    # Some 200,000 draws (20,000 of five each); a right distribution fails with p = RARE.
    scale, source = Fraction(scale), InsecureSeededSource(11)
    calls = max(2, min(4_000, 200_000 // draws))
    found = np.concatenate([DRAW[kind](scale, draws, source=source) for _ in range(calls)])
    assert p_value(found, *MASS[kind](float(scale))) > RARE


@pytest.mark.parametrize("scale", ["1", "21/2", "2000", "20000"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_fast_noise_is_as_large_as_it_should_be(kind, scale):
    # The statistic that knows most of the scale, |k| or k**2, over 16 million draws: it is off by
    # 5.5 standard errors with p < 4e-8, and a scale that is off by 0.3 % by 12 or more.
    draws = DRAW[kind](Fraction(scale), 16_000_000, source=InsecureSeededSource(10))
    k, mass = MASS[kind](float(Fraction(scale)))
    power = 1 if kind == "laplace" else 2
    size, sizes = np.abs(draws) ** power, np.abs(k.astype(float)) ** power
    expected = (sizes * mass).sum()
    std_error = np.sqrt(((sizes - expected) ** 2 * mass).sum() / draws.size)
    assert abs(size.mean() - expected) < 5.5 * std_error
    assert abs(draws.mean()) < 5.5 * np.sqrt((k.astype(float) ** 2 * mass).sum() / draws.size)


@pytest.mark.parametrize("scale", ["1/4", "1", "21/2", "20000"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_reference_noise_has_the_exact_mass(kind, scale):
    bits = reference.Bits(InsecureSeededSource(12))
    scale = Fraction(scale)
    argument = scale if kind == "laplace" else scale**2
    draws = np.array([getattr(reference, kind)(argument, bits) for _ in range(8_000)])
    assert p_value(draws, *MASS[kind](float(scale))) > RARE


@pytest.mark.parametrize("scale", ["1", "2000", "100000"])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_fast_noise_and_reference_agree(kind, scale):
    # Two samples in 20 bins of equal probability; the same distribution fails with p = RARE.
    scale = Fraction(scale)
    bits = reference.Bits(InsecureSeededSource(13))
    argument = scale if kind == "laplace" else scale**2
    slow = np.array([getattr(reference, kind)(argument, bits) for _ in range(8_000)])
    fast = DRAW[kind](scale, 80_000, source=InsecureSeededSource(14))
    edges = np.unique(np.quantile(fast, np.linspace(0, 1, 21)[1:-1]))
    one = np.bincount(np.searchsorted(edges, slow), minlength=edges.size + 1)
    ten = np.bincount(np.searchsorted(edges, fast), minlength=edges.size + 1)
    expected = (one + ten) / 11
    statistic = (
        (one - expected) ** 2 / expected + (ten - 10 * expected) ** 2 / (10 * expected)
    ).sum()
    assert chdtrc(edges.size, statistic) > RARE


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_the_tails_are_as_heavy_as_they_should_be(kind):
    # 40 million draws: counts beyond t are binomial; each of the 8 misses 5.5 sigma with p < 4e-8.
    draws = DRAW[kind](10, 40_000_000, source=InsecureSeededSource(15))
    k, mass = MASS[kind](10.0)
    for beyond in [60, 90, 120, 140] if kind == "laplace" else [30, 40, 45, 50]:
        for far, weight in (
            (draws > beyond, mass[k > beyond]),
            (draws < -beyond, mass[k < -beyond]),
        ):
            expected = weight.sum() * draws.size
            assert abs(np.count_nonzero(far) - expected) < 5.5 * np.sqrt(expected) + 3


@pytest.mark.parametrize("sampler", [LaplaceSampler(Fraction(3)), GaussianSampler(Fraction(50))])
def test_every_word_meets_the_outcome_whose_floors_enclose_it(sampler):
    # Just inside both ends of every outcome, and on its floor, where the kernel must leave it open.
    table = sampler._tables[0] if hasattr(sampler, "_tables") else sampler._table
    floors = table.floors
    starts = np.append(np.uint64(0), floors[:-1] + np.uint64(1))
    for sign in (0, 1):
        for shift, is_open in ((starts, False), (floors - np.uint64(1), False), (floors, True)):
            wide = np.flatnonzero(floors > starts + np.uint64(2))
            words = shift[wide] << np.uint64(1) | np.uint64(sign)
            undecided, cells = np.empty(words.size, np.int64), np.zeros(words.size, np.int64)
            missing = kernels.add_sizes(words, *table.looked_up, undecided, cells)
            assert missing == (words.size if is_open else 0)
            if not is_open:
                np.testing.assert_array_equal(cells, -wide if sign else wide)


def mass_of(distribution, outcomes):
    """The mass of outcomes by the digits that a table knows; each is right within 2**-63."""
    floors = np.array([0, *distribution.floors(63)], object)
    return [Fraction(int(floors[k + 1] - floors[k]), 2**63) for k in outcomes]


@pytest.mark.parametrize("sizes", [sizes for _, sizes in SIZES])
@pytest.mark.parametrize("scale", ["21/2", "3001", "1e8"])
def test_the_digits_of_a_number_make_up_its_laplace_mass(scale, sizes):
    # The digits are independent: the product of their masses is that of the number.
    scale = Fraction(scale)
    sampler = LaplaceSampler(scale, sizes)
    if len(sampler._tables) == 1:
        assert scale <= sizes.direct
        return
    for number in [0, 1, 15, 16, int(scale), -1, -2, -17, -int(scale)]:
        left, minus = (number, 0) if number >= 0 else (-1 - number, 1)
        product = Fraction(1)
        for position, table in enumerate(sampler._tables):
            last = position == len(sampler._tables) - 1
            left, digit = (0, left) if last else divmod(left, 1 << sizes.digit)
            outcome = digit if position else 2 * digit + minus
            product *= mass_of(table.distribution, [outcome])[0]
        assert float(product) == pytest.approx(
            math.tanh(0.5 / scale) * math.exp(-abs(number) / scale), rel=1e-9, abs=0
        )


def test_scale_and_number_of_draws_alone_choose_the_sampler():
    for choose in (laplace_sampler, gaussian_sampler):
        assert isinstance(choose(Fraction(9), FEW), ReferenceSampler)
        chosen = [choose(Fraction(9), draws) for draws in (FEW + 1, 10**4, 10**6)]
        assert len({id(sampler) for sampler in chosen}) == 3
        assert [choose(Fraction(9), draws) for draws in (FEW + 1, 10**4, 10**6)] == chosen


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_few_draws_are_those_of_the_reference(kind):
    cells = np.arange(FEW)
    add = add_laplace if kind == "laplace" else add_gaussian
    add(cells, 7, source=InsecureSeededSource(17))
    bits = reference.Bits(InsecureSeededSource(17))
    argument = Fraction(7 if kind == "laplace" else 49)
    drawn = [getattr(reference, kind)(argument, bits) for _ in range(FEW)]
    assert (cells - np.arange(FEW)).tolist() == drawn


@pytest.mark.parametrize("sizes", [sizes for _, sizes in SIZES])
def test_a_strip_keeps_its_points_with_the_exact_probability(sizes):
    # The kernel and its fallback decide as the definition does, for words near every kind of edge.
    sigma = Fraction(20001)
    sampler = GaussianSampler(sigma**2, sizes)
    shift = sampler._shift
    random = np.random.default_rng(16)
    words = random.integers(0, 2**64, (4000, 2), np.uint64)
    words[::2, 1] |= ~np.uint64(0) << np.uint64(58 if sizes != LARGE else 52)  # often rejected
    words[1::97, 0] = 0  # strip 0, and with r = 0 the number 0
    words[1::194, 0] = 1
    words[1::97, 1] &= ~np.uint64(2**shift - 1)
    words[3::97, 0] = sampler._table.floors[: words[3::97, 0].size] << np.uint64(1)  # open
    undecided, cells = np.empty(4000, np.int64), np.zeros(4000, np.int64)
    rejected = sampler._by_strips(words, undecided, reference.Bits(Constant(0x55)), cells)
    wanted = []
    for i, (first, second) in enumerate(words.tolist()):
        strip = sampler._table.distribution.resolve(first >> 1, 63, reference.Bits(Constant(0x55)))
        size = (strip << shift) + second % 2**shift
        low, high = exp_bounds((size**2 - (strip << shift) ** 2) / (2 * sigma**2), 64 - shift)
        assert not low <= second >> shift <= high, "choose another seed: undecided at this length"
        if second >> shift > high or (size == 0 and first & 1):
            wanted.append(i)
        else:
            assert cells[i] == (-size if first & 1 else size)
    assert rejected.tolist() == wanted
    assert 500 < len(wanted) < 3000
    on_floor = int(sampler._table.floors[0]) << 1  # with further bits of 0: in strip 0
    assert sampler._point(on_floor, 0, reference.Bits(Constant(0))) == 0
    assert sampler._point(on_floor | 1, 0, reference.Bits(Constant(0))) is None


@pytest.mark.parametrize("sizes", [sizes for _, sizes in SIZES])
@pytest.mark.parametrize("sigma", ["8193/2", "20001", "1e12"])
def test_a_point_is_decided_by_the_kernel_only_where_its_probability_is(sigma, sizes):
    # Second words on both sides of exp(-g), at growing distances: the kernel decides none wrongly,
    # and what it leaves open is within the bounds that it knows.
    sampler = GaussianSampler(Fraction(sigma) ** 2, sizes)
    if not sampler._shift:
        assert Fraction(sigma) <= sizes.strips
        return
    shift, width = sampler._shift, 1 << sampler._shift
    floors, words, keeps = sampler._table.floors, [], []
    wide = 1 + np.flatnonzero(np.diff(floors) > np.uint64(2))
    for strip in [0, *wide[:: wide.size // 40].tolist()]:
        for inside in {0, 1, width // 2, width - 1}:
            gamma = Fraction(inside * (2 * width * strip + inside)) / (2 * Fraction(sigma) ** 2)
            exact = exp_bounds(gamma, 64 - shift)
            for away in (-(2**40), -(2**20), -3, -1, 0, 1, 3, 2**20, 2**40):
                prefix = exact[away > 0] + (away >> shift if abs(away) >> shift else away)
                if 0 <= prefix < 2 ** (64 - shift) and not exact[0] <= prefix <= exact[1]:
                    first = int(floors[strip]) - 1 << 1
                    words.append((first, prefix << shift | inside))
                    keeps.append(prefix < exact[0])
    cells = np.zeros(len(words), np.int64)
    undecided = np.empty(len(words), np.int64)
    table = np.array(words, np.uint64)
    rejected = sampler._by_strips(table, undecided, reference.Bits(Constant(0x55)), cells)
    assert rejected.tolist() == np.flatnonzero(~np.array(keeps)).tolist()


def test_few_points_of_a_small_table_are_left_to_fractions():
    # g is known up to r**2 / (2 variance), and exp(-g) up to g**2 / 2: together below 0.2 %.
    for draws, sizes in SIZES:
        sampler = GaussianSampler(Fraction(10**10), sizes)
        words = np.empty((40_000, 2), np.uint64)
        InsecureSeededSource(18).fill(words)
        undecided, rejected, cells = np.zeros((3, 40_000), np.int64)
        strips = *sampler._table.looked_up, sampler._shift, sampler._slopes
        missing, last = kernels.add_strips(words.reshape(-1), *strips, undecided, rejected, cells)
        assert missing < 80, draws
        assert last < 2_000, draws


@pytest.mark.parametrize("gamma", [Fraction(1, 7), Fraction(1), Fraction(9, 4)])
def test_a_coin_of_few_known_digits_is_decided_by_further_ones(gamma):
    for prefix in range(2**8):
        lowest, highest = (
            _below_exp(prefix, 8, gamma, reference.Bits(Constant(byte))) for byte in (0, 0xFF)
        )
        assert lowest == (prefix / 2**8 < math.exp(-gamma))
        assert highest == ((prefix + 1) / 2**8 < math.exp(-gamma))


@pytest.mark.parametrize(("kind", "scale"), [("laplace", 3), ("gaussian", 3), ("laplace", 5000)])
def test_a_draw_that_its_table_leaves_open_is_still_answered(kind, scale):
    # The first word lies on a floor; bits that are all 0 follow and decide for the lower outcome.
    class Floor(Constant):
        queries = 0

        def fill(self, out):
            super().fill(out)
            if self.queries == 0:
                out.reshape(-1)[0] = floors[5] << np.uint64(1) | np.uint64(1)
            self.queries += 1

    if kind == "laplace":
        sampler = LaplaceSampler(Fraction(scale))
        floors = sampler._tables[0].floors
    else:
        sampler = GaussianSampler(Fraction(scale) ** 2)
        floors = sampler._table.floors
    cells = np.zeros(1, np.int64)
    sampler.add(cells, Floor(0))
    assert cells[0] == (-5 if scale == 3 else -1 - 2)


def test_every_call_draws_fresh_bits_even_after_a_fork():
    assert (discrete_laplace(100, 50) != discrete_laplace(100, 50)).any()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, pickle.dumps(discrete_gaussian(1000, 20).tolist()))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = pickle.loads(os.read(read, 1 << 16))
    assert theirs != discrete_gaussian(1000, 20).tolist()


def test_a_source_that_is_forked_draws_other_bits():
    source, words = SystemSource(), np.empty(8, np.uint64)
    source.fill(words)
    read, write = os.pipe()
    child = os.fork()
    source.fill(words)
    if child == 0:
        os.write(write, words.tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 64) != words.tobytes()


def test_seeded_bits_repeat_and_say_that_they_are_insecure():
    one = discrete_laplace(7, 100, source=InsecureSeededSource(3))
    assert (one == discrete_laplace(7, 100, source=InsecureSeededSource(3))).all()
    assert (one != discrete_laplace(7, 100, source=InsecureSeededSource(4))).any()
    assert "insecure" in stated(InsecureSeededSource(3))
    assert "insecure" in stated(Constant(0))
    assert "insecure" not in stated(SystemSource())
    assert "insecure" not in stated(None)


def test_noise_is_added_in_place_and_shapes_stay():
    for add in (add_laplace, add_gaussian):
        cells = np.full((3, 40_000), 10**6)
        add(cells, 5, source=InsecureSeededSource(21))
        assert abs(cells.mean() - 10**6) < 1
        assert cells.std() > 4
    assert discrete_gaussian(3, (2, 5)).shape == (2, 5)
    assert isinstance(discrete_laplace(3), int)
    assert discrete_laplace(3, 0).shape == (0,)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "much", None, True, 2.0**41])
def test_bad_scales_name_themselves(bad):
    for draw, name in ((discrete_laplace, "scale"), (discrete_gaussian, "sigma")):
        with pytest.raises(ValueError, match=f"{draw.__name__}: {name} must be"):
            draw(bad, 3)
    with pytest.raises(ValueError, match="probability must be"):
        flips(bad, 3)


def test_cells_that_cannot_take_noise_are_refused_untouched():
    with pytest.raises(TypeError, match="contiguous, writeable array of int64"):
        add_laplace(np.zeros(3), 1)
    with pytest.raises(TypeError, match="contiguous"):
        add_gaussian(np.zeros((4, 4), np.int64).T[1:], 1)
    full = np.array([0, 2**62])
    with pytest.raises(ValueError, match="room for noise"):
        add_laplace(full, 1)
    assert full.tolist() == [0, 2**62]


@pytest.mark.parametrize(
    "file",
    [
        "kernels/noise.py",
        "privacy/noise/exact/reference.py",
        "privacy/noise/exact/distributions.py",
    ],
)
def test_no_float_occurs_in_sampling(file):
    tree = ast.parse((Path(sfumato.__file__).parent / file).read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {name for name in names if "float" in name or name in ("exp", "log", "sqrt")}
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
        if "kernels" in file:
            assert not isinstance(node, ast.Div)
