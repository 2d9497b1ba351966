"""The digits behind the noise are certain: each floor is that of an independent computation."""

from fractions import Fraction

import mpmath as mp
import pytest

from sfumato.privacy.noise.exact.distributions import (
    Digit,
    HalfGaussian,
    SignedDigit,
    SizeOfLaplace,
    exp_bounds,
)
from sfumato.privacy.noise.exact.reference import Bits

mp.mp.dps = 120
SCALES = [
    Fraction(1, 12),
    Fraction(1, 3),
    Fraction(1),
    Fraction(21, 2),
    Fraction(0.1),
    Fraction(40),
]


def real(x):
    return mp.mpf(x.numerator) / x.denominator


def laplace_masses(scale, count):
    x = mp.exp(-1 / real(scale))
    return [(1 - x) / (1 + x) * x**k * (2 if k else 1) for k in range(count)]


def gaussian_masses(variance, both, count):
    heights = [mp.exp(-mp.mpf(k * k) / (2 * real(variance))) for k in range(count)]
    weights = [h * (2 if both and k else 1) for k, h in enumerate(heights)]
    return [w / mp.fsum(weights) for w in weights]


def floors_of(masses, bits):
    total, floors = mp.mpf(0), []
    for mass in masses:
        total += mass
        floors.append(int(mp.floor(total * mp.mpf(2) ** bits)))
    return floors


@pytest.mark.parametrize("bits", [63, 127])
@pytest.mark.parametrize("scale", SCALES)
def test_floors_of_laplace_sizes_are_certain(scale, bits):
    floors = SizeOfLaplace(1 / scale).floors(bits)
    assert floors == floors_of(laplace_masses(scale, len(floors)), bits)
    assert floors[-1] == 2**bits - 1


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("sigma", SCALES)
def test_floors_of_gaussian_sizes_are_certain(sigma, both):
    floors = HalfGaussian(sigma**2, both).floors(63)
    masses = gaussian_masses(sigma**2, both, int(20 * sigma) + 30)
    assert floors == floors_of(masses[: len(floors)], 63)
    assert floors[-1] == 2**63 - 1


@pytest.mark.parametrize(("scale", "base"), [(Fraction(5), 4), (Fraction(20000), 64)])
def test_digits_and_sign_make_up_the_laplace_distribution(scale, base):
    # P(2r + s) P(q) must be the mass of the number base q + r, or -1 - that, exactly.
    x = mp.exp(-1 / real(scale))
    low = floors_of(
        [x ** (k // 2 + k % 2) * (1 - x) / (1 - x**base) / (1 + x) for k in range(2 * base)], 63
    )
    assert SignedDigit(1 / scale, base).floors(63)[:-1] == low[:-1]
    assert SignedDigit(1 / scale, base).floors(63)[-1] == 2**63
    middle = floors_of([x**k * (1 - x) / (1 - x**base) for k in range(base)], 63)
    assert Digit(1 / scale, base).floors(63)[:-1] == middle[:-1]
    high = Digit(base / scale).floors(63)
    assert high == floors_of([(1 - x**base) * x ** (base * q) for q in range(len(high))], 63)


@pytest.mark.parametrize("x", [0, 1, "1/3", "1/1000000007", 5, "355/113", 100, 200, 10**6])
@pytest.mark.parametrize("digits", [8, 64, 200])
def test_bounds_of_exp_hold_and_are_near(x, digits):
    low, high = exp_bounds(Fraction(x), digits)
    assert low <= mp.exp(-real(Fraction(x))) * mp.mpf(2) ** digits <= high
    assert 0 <= low <= high <= low + 4


class Script:
    """A source of the words it was given, then of zeros."""

    def __init__(self, *words):
        self.words = list(words)

    def fill(self, out):
        flat = out.reshape(-1)
        for i in range(flat.size):
            flat[i] = self.words.pop(0) if self.words else 0


@pytest.mark.parametrize(
    "distribution", [SizeOfLaplace(Fraction(1, 3)), HalfGaussian(Fraction(30))]
)
def test_a_draw_on_a_boundary_is_decided_by_its_further_digits(distribution):
    near, exact = distribution.floors(63), distribution.floors(127)
    for k in range(0, len(near) - 1, 7):
        further = exact[k] & (2**64 - 1)
        for digits, outcome in ((further - 1, k), (further + 1, k + 1)):
            word = int.from_bytes(digits.to_bytes(8, "little"), "big")  # as bytes are read
            assert distribution.resolve(near[k], 63, Bits(Script(word))) == outcome


def test_the_far_tail_is_reached_and_exact():
    # All 63 bits set leaves everything beyond 1 - 2**-63 open; the next digits pick the outcome.
    distribution = SizeOfLaplace(Fraction(1, 3))
    x = mp.exp(-mp.mpf(1) / 3)
    for further in (0, 1, 2**63, 2**64 - 2**20):
        word = int.from_bytes(further.to_bytes(8, "little"), "big")
        outcome = distribution.resolve(2**63 - 1, 63, Bits(Script(word)))
        left = mp.mpf(2) ** -63 * (1 - mp.mpf(further) / 2**64)  # of the mass, above the draw
        assert 2 * x ** (outcome + 1) / (1 + x) < left <= 2 * x**outcome / (1 + x)


def test_a_tiny_scale_still_has_a_tail():
    assert SizeOfLaplace(Fraction(10**6)).floors(63) == [2**63 - 1]
    assert HalfGaussian(Fraction(1, 10**6)).floors(63) == [2**63 - 1]
