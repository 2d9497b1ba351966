"""Renyi curves are those of the distributions themselves, sampled or not, and of the peer."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy import Accountant
from sfumato.privacy.accounting import rdp
from sfumato.privacy.accounting.losses import Flips, GaussianNoise, LaplaceNoise, Pure, Sampled


def test_renyi_agrees_with_dp_accounting():
    import dp_accounting as peer

    theirs = peer.rdp.RdpAccountant().compose(peer.GaussianDpEvent(3), 10)
    mine = Accountant("rdp").compose(GaussianNoise(Fraction(9)), 10)
    assert mine.epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-3)


@pytest.mark.parametrize(("scale", "change"), [(2, 1), (0.3, 4), (10, 25), (1000, 3)])
def test_renyi_curve_of_laplace_is_the_sum_over_its_mass(scale, change):
    x = np.arange(-60 * max(scale, 30), 60 * max(scale, 30) + 1)
    q = np.exp(-np.abs(x - change) / scale)
    ratio = (np.abs(x - change) - np.abs(x)) / scale
    found = rdp.curve(LaplaceNoise(Fraction(scale), change, 3))
    for place in (0, 300, 600, 750):
        order = rdp.ORDERS[place]
        moment = math.fsum(q * np.expm1(order * ratio)) / math.fsum(q)
        want = 3 * math.log1p(moment) / (order - 1)
        assert want * (1 - 1e-6) <= found[place] <= want * (1 + 1e-6) + 1e-13 / (order - 1)


def test_renyi_curve_of_answers_at_order_two():
    # E_Q (P/Q)**2 = p**2 / q + q**2 / p for answers p, q = 1 - p.
    p = 1 / (1 + math.exp(-0.7))
    want = math.log(p**2 / (1 - p) + (1 - p) ** 2 / p)
    place = int(np.abs(rdp.ORDERS - 2).argmin())
    assert rdp.curve(Pure(0.7))[place] == pytest.approx(want, rel=0.01)


@pytest.mark.parametrize(("rate", "sigma", "count"), [(0.01, 4, 1000), (0.1, 2, 100), (1e-3, 1, 9)])
def test_renyi_of_a_sample_is_that_of_the_peer_and_above_the_distribution(rate, sigma, count):
    import dp_accounting

    one = Sampled(rate, GaussianNoise(Fraction(sigma**2)))
    peer = dp_accounting.rdp.RdpAccountant()
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
    peer.compose(dp_accounting.SelfComposedDpEvent(event, count))
    renyi = Accountant("rdp").compose(one, count).epsilon(1e-6)
    # Whole orders only, so a little above the peer, which takes fractions too.
    assert 0.99 * peer.get_epsilon(1e-6) < renyi < 1.05 * peer.get_epsilon(1e-6)
    assert Accountant("pld").compose(one, count).epsilon(1e-6) < renyi


@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(2), 3), Flips(Fraction(1, 4)), Pure(1.0)])
def test_renyi_of_a_sample_covers_both_directions_of_the_exact_mixture(noise):
    from sfumato.privacy.accounting import rdp
    from sfumato.privacy.accounting.pld import atoms

    # The worst pair itself, mixed, at some orders: exact sums over its atoms.
    pair, rate = atoms(noise), 0.3
    p, q = pair.masses, pair.masses * np.exp(-pair.losses)
    mixed = (1 - rate) * q + rate * p
    result = rdp.curve(Sampled(rate, noise))
    for at in np.searchsorted(rdp.ORDERS, [1.5, 2, 3, 7.3, 20, 100]):
        order = rdp.ORDERS[at]
        for one, other in ((mixed, q), (q, mixed)):
            exact = np.log((one**order * other ** (1 - order)).sum()) / (order - 1)
            assert exact <= result[at] * (1 + 1e-9) + 1e-12
