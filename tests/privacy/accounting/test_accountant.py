"""Composed costs are never below the truth, close to it, and never mix relations."""

import math
import random
import tracemalloc
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.privacy import Accountant
from sfumato.privacy.accounting import composition, rdp
from sfumato.privacy.accounting import pld as _product
from sfumato.privacy.accounting.calibration import gaussian_epsilon
from sfumato.privacy.accounting.losses import (
    Approximate,
    Concentrated,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Pure,
    Sampled,
)
from sfumato.privacy.accounting.running_composition import Running

MIXED = [
    (Pure(0.1), 20),
    (Approximate(0.05, 1e-9), 3),
    (LaplaceNoise(Fraction(21, 2), 1, 4), 5),
    (LaplaceNoise(Fraction(10**6), 10**5, 2), 2),
    (GaussianNoise(Fraction(400), 1, 4), 6),
    (GaussianNoise(Fraction(900), 7, 1), 2),
    (Flips(Fraction(9, 20), 6), 3),
    (Sampled(0.1, Pure(0.5)), 10),
    (Sampled(0.01, GaussianNoise(Fraction(4))), 30),
]


def total(losses, method="pld", relation="add/remove"):
    found = Accountant(method, relation)
    for loss, count in losses:
        found.compose(loss, count)
    return found


def answers(epsilon, times, at):
    """The exact delta of several answers by randomized response: Kairouz et al. 2015, (8)."""
    retained = np.arange(times + 1)
    p = binom.pmf(retained, times, 1 / (1 + math.exp(-epsilon)))
    loss = epsilon * (2 * retained - times)
    return float((p * np.maximum(0, -np.expm1(np.minimum(at - loss, 0)))).sum())


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 100), (1, 10), (0.01, 3000), (3, 2), (2, 1)])
def test_randomized_responses_compose_to_the_exact_binomial(epsilon, times):
    many = Accountant().compose(epsilon, times)
    for at in (0.2, 0.5, 0.8):
        at = at * many.epsilon(1e-6)
        want = answers(epsilon, times, at)
        assert want * (1 - 1e-9) <= many.delta(at) <= want * 1.01 + 1e-10
    for delta in (1e-2, 1e-6, 1e-9):
        found = many.epsilon(delta)
        assert answers(epsilon, times, found) <= delta
        assert found == 0 or answers(epsilon, times, found * 0.99) > delta


def test_flips_are_as_many_randomized_responses():
    flips = Accountant().compose(Flips(Fraction(1, 4), 12))
    for at in (1, 4, 9, 12):
        want = answers(math.log(3), 12, at)
        assert want * (1 - 1e-9) <= flips.delta(at) <= want * 1.001 + 1e-13


def joint_delta(epsilon, pairs):
    """By every combination of answers of (P, Q) pairs, each an array of P and one of Q."""
    p, q = np.ones(1), np.ones(1)
    for one, two in pairs:
        p, q = np.outer(p, one).ravel(), np.outer(q, two).ravel()
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum())


def gaussian_pair(variance, change):
    x = np.arange(-60, 61 + change)
    p, q = (np.exp(-(at**2) / (2 * variance)) for at in (x, x - change))
    return p / p.sum(), q / q.sum()


def laplace_pair(scale, change):
    x = np.arange(-200, 201 + change)
    p, q = (np.exp(-np.abs(at) / scale) for at in (x, x - change))
    return p / p.sum(), q / q.sum()


def test_different_noises_compose_to_the_sum_over_their_joint_mass():
    mixed = [(GaussianNoise(Fraction(16), 2), 1), (LaplaceNoise(Fraction(5), 3), 1), (Pure(0.5), 1)]
    right = 1 / (1 + math.exp(-0.5))
    pairs = [gaussian_pair(16, 2), laplace_pair(5, 3)]
    pairs.append((np.array([right, 1 - right]), np.array([1 - right, right])))
    for epsilon in (0.1, 0.7, 1.5, 2.2):
        want = joint_delta(epsilon, pairs)
        assert want * (1 - 1e-9) <= total(mixed).delta(epsilon) <= want * 1.003 + 1e-12


def test_a_large_change_is_bounded_in_blocks():
    # At this scale the distribution is nearly the continuous one, whose delta has a closed form.
    big = Accountant().compose(LaplaceNoise(Fraction(10**8), 2 * 10**8))
    for epsilon in (0.3, 1, 1.8):
        want = -math.expm1((epsilon - 2) / 2)
        assert want * (1 - 1e-6) <= big.delta(epsilon) <= want * 1.001


def sampled_pairs(rate, pair):
    p, q = pair
    mixed = (1 - rate) * q + rate * p
    return (mixed, q), (q, mixed)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
@pytest.mark.parametrize(
    ("loss", "pair"),
    [
        (GaussianNoise(Fraction(4), 2), gaussian_pair(4, 2)),
        (GaussianNoise(Fraction(1, 2), 3), gaussian_pair(0.5, 3)),
        (LaplaceNoise(Fraction(2), 3), laplace_pair(2, 3)),
        (Approximate(1.5, 0.01), (np.array([0.01, 0.8093916, 0.1806084, 0]), None)),
    ],
)
def test_a_sample_costs_what_its_mixture_does(rate, loss, pair):
    pair = pair if pair[1] is not None else (pair[0], pair[0][::-1])
    leaves, joins = sampled_pairs(rate, pair)
    for epsilon in (0.01, 0.2, 1):
        want = max(joint_delta(epsilon, [leaves] * 2), joint_delta(epsilon, [joins] * 2))
        found = Accountant().compose(Sampled(rate, loss), 2).delta(epsilon)
        assert want * (1 - 1e-6) - 1e-12 <= found <= want * 1.01 + 1e-9


def test_a_sample_of_a_sample_is_one_sample():
    once = Accountant().compose(Sampled(0.02, Pure(1)), 50).epsilon(1e-6)
    twice = Accountant().compose(Sampled(0.2, Sampled(0.1, Pure(1))), 50).epsilon(1e-6)
    assert twice == pytest.approx(once, rel=1e-6)


def test_many_noises_agree_with_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as peer

    gauss = peer.from_discrete_gaussian_mechanism(5, 1, value_discretization_interval=1e-4)
    laplace = peer.from_discrete_laplace_mechanism(0.1, 2, value_discretization_interval=1e-4)
    both = gauss.self_compose(20).compose(laplace.self_compose(10))
    mine = total([(GaussianNoise(Fraction(25)), 20), (LaplaceNoise(Fraction(10), 2), 10)])
    for delta in (1e-3, 1e-6, 1e-9):
        assert mine.epsilon(delta) == pytest.approx(both.get_epsilon_for_delta(delta), rel=2e-3)


def test_sampled_noises_agree_with_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution as peer

    pld = peer.from_discrete_gaussian_mechanism(
        1, 1, value_discretization_interval=1e-4, sampling_prob=0.01
    )
    want = pld.self_compose(500).get_epsilon_for_delta(1e-6)
    found = Accountant().compose(Sampled(0.01, GaussianNoise(Fraction(1))), 500).epsilon(1e-6)
    assert found <= want * 1.001
    assert found >= want * 0.97  # the peer rounds each of 500 losses up


# Numbers of 8 leading bits, and a little more or less: to those bits, many kinds are rounded.
STEP = Fraction(1, 256)
ABOVE = [(130 + Fraction(2, 100) + Fraction(i, 10_000)) * STEP for i in range(80)]
BELOW = [(131 - Fraction(2, 100) - Fraction(i, 10_000)) * STEP for i in range(80)]


@pytest.mark.parametrize(
    ("losses", "cheapest"),
    [
        ([Pure(float(each)) for each in BELOW], float(BELOW[-1])),
        # Moved by 1, discrete Laplace noise discloses as much as an answer of epsilon 1 / scale.
        ([LaplaceNoise(4 * each) for each in ABOVE], float(1 / (4 * ABOVE[-1]))),
        ([Flips(each / 4) for each in ABOVE], math.log(float((1 - ABOVE[-1] / 4) * 4 / ABOVE[-1]))),
    ],
    ids=["pure", "laplace", "flips"],
)
def test_many_kinds_of_answers_cost_no_less_than_as_many_of_the_cheapest(losses, cheapest):
    many = total([(loss, 1) for loss in losses])
    for delta in (1e-3, 1e-6, 1e-9):
        assert answers(cheapest, 80, many.epsilon(delta)) <= delta
        assert answers(cheapest, 80, many.epsilon(delta) * 0.99) > delta


def test_many_kinds_of_gaussian_noise_cost_no_less_than_as_many_of_the_widest():
    many = total([(GaussianNoise(100 * each), 1) for each in ABOVE])
    for delta in (1e-3, 1e-6, 1e-9):
        least = gaussian_epsilon(delta, 100 * ABOVE[-1], cells=80)
        assert least * (1 - 1e-6) <= many.epsilon(delta) <= least * 1.01


def test_renyi_curves_are_not_added_up_below_their_exact_sum():
    losses = {Concentrated(rho): n for n, rho in enumerate((0.1, 0.7, 1e-3, 0.3), start=1)}
    exact = sum(n * Fraction(loss.rho) for loss, n in losses.items())
    for order, found in zip(rdp.ORDERS, composition._curve(losses), strict=True):
        assert Fraction(found) >= Fraction(order) * exact


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_a_tighter_method_is_never_above_a_simpler_one(delta):
    for some in [*([each] for each in MIXED), MIXED[:4], MIXED[2:6], MIXED]:
        found = [total(some, method).epsilon(delta) for method in ("pld", "rdp", "zcdp")]
        assert found == sorted(found)
        assert found[0] < math.inf or any(isinstance(loss, Approximate) for loss, _ in some)
        deltas = [total(some, method).delta(1) for method in ("pld", "rdp", "zcdp")]
        assert deltas == sorted(deltas)


def test_distributions_alone_are_below_renyi_for_many_uses():
    for loss, count in [(Pure(0.1), 100), (LaplaceNoise(Fraction(10), 1, 4), 10)]:
        (composed,) = _product.distribution({loss: count})
        assert composed.epsilon(1e-6) < Accountant("rdp").compose(loss, count).epsilon(1e-6)


def test_epsilon_and_delta_are_inverse():
    for method in ("pld", "rdp", "zcdp"):
        mixed = total(MIXED, method)
        for delta in (1e-3, 1e-6):
            epsilon = mixed.epsilon(delta)
            assert mixed.delta(epsilon * (1 + 1e-6)) <= delta * (1 + 1e-6)
            assert mixed.delta(epsilon * 0.99) > delta


def test_pure_stays_pure_and_is_the_exact_sum():
    many = Accountant().compose(0.1, 3).compose(LaplaceNoise(Fraction(3), 2, 5)).compose(0.7)
    exact = 3 * Fraction(0.1) + Fraction(LaplaceNoise(Fraction(3), 2, 5).epsilon) + Fraction(0.7)
    assert Fraction(many.epsilon()) >= exact
    assert many.epsilon() == math.nextafter(float(exact), 10) or many.epsilon() == float(exact)
    assert many.delta(many.epsilon()) == 0
    for delta in (1e-12, 1e-6, 0.1, 0.9):
        assert many.epsilon(delta) <= many.epsilon()


def test_nothing_costs_nothing():
    assert Accountant().epsilon() == Accountant().epsilon(0.1) == Accountant().delta(0) == 0
    assert Accountant().rho == 0


def test_no_pure_epsilon_is_infinite():
    assert Accountant().compose(0.1).compose(GaussianNoise(Fraction(9))).epsilon() == math.inf
    assert Accountant().compose((0.1, 1e-6)).epsilon(1e-7) == math.inf
    assert Accountant().compose((0.1, 0)).epsilon() == 0.1


def test_approximate_losses_add_their_deltas():
    ten = Accountant().compose((0.1, 1e-8), 10)
    # Exactly: nothing slips with (1 - delta)**10, and then these are ten answers.
    slip = -math.expm1(10 * math.log1p(-1e-8))
    for epsilon in (0.2, 0.5, 0.9):
        want = slip + (1 - slip) * answers(0.1, 10, epsilon)
        assert want * (1 - 1e-9) <= ten.delta(epsilon) <= want * 1.01 + 1e-12
    assert ten.delta(1.0000001) == pytest.approx(slip, rel=1e-3)


def test_equal_gaussian_noises_are_one_with_more_cells():
    noise = GaussianNoise(Fraction(100), 3, 4)
    many = Accountant().compose(noise, 10).compose(GaussianNoise(Fraction(100), 3, 1), 2)
    assert many.epsilon(1e-6) == gaussian_epsilon(1e-6, 100, change=3, cells=42)


def test_rho_is_the_sum_and_a_loss_of_rho_alone_composes():
    both = Accountant().compose(Concentrated(0.125), 2).compose(GaussianNoise(Fraction(2), 1, 1))
    assert both.rho == 0.5
    assert both.epsilon(1e-6) == Accountant("rdp").compose(Concentrated(0.5)).epsilon(1e-6)
    assert Accountant().compose((0.1, 1e-6)).rho == math.inf


def test_tiny_deltas_are_not_lost_in_the_rounding_of_transforms():
    # Without the error of the transforms the distribution would claim a delta of about 1e-16.
    for loss, count in [(Pure(0.05), 2000), (LaplaceNoise(Fraction(10)), 500)]:
        many = Accountant().compose(loss, count)
        for delta in (1e-14, 1e-18, 1e-30):
            simple = Accountant("rdp").compose(loss, count).epsilon(delta)
            assert many.epsilon(delta) <= simple
    exact = Accountant().compose(Pure(0.05), 2000)
    assert answers(0.05, 2000, exact.epsilon(1e-18)) <= 1e-18


def test_groups_cost_more_and_by_the_theorems():
    one = Accountant().compose(0.1).compose(LaplaceNoise(Fraction(10), 1, 2))
    assert one.group(1).epsilon() == one.epsilon()
    assert one.group(3).epsilon() == pytest.approx(3 * one.epsilon(), rel=1e-12)
    noise = Accountant().compose(GaussianNoise(Fraction(50)))
    assert noise.group(4).rho == pytest.approx(16 * noise.rho, rel=1e-12)
    sample = Accountant().compose(Sampled(0.5, Pure(1)))
    assert sample.epsilon() < 1
    assert sample.group(2).epsilon() == 2


def test_a_group_pays_for_every_use():
    many = Accountant().compose(0.5, count=4).compose(LaplaceNoise(Fraction(8), 3, 2), count=5)
    assert many.group(3).epsilon() == 3 * (4 * 0.5 + 5 * 3 * 2 / 8)


def test_parallel_parts_cost_the_dearest():
    cheap, dear = Accountant().compose(0.2, 2), Accountant().compose(GaussianNoise(Fraction(4)))
    both = Accountant().compose(0.1).parallel([cheap, dear, 0.3])
    for delta in (1e-2, 1e-6):
        alone = [
            Accountant().compose(0.1).compose(0.2, 2).epsilon(delta),
            Accountant().compose(0.1).compose(GaussianNoise(Fraction(4))).epsilon(delta),
        ]
        assert both.epsilon(delta) == max(alone)
    assert Accountant().parallel([0.5, 0.25]).epsilon() == 0.5
    assert Accountant().parallel([0.5] * 1000).parallel([0.5] * 1000).epsilon() == 1


def test_parallel_under_replace_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="a unit may move between parts"):
        Accountant(relation="replace").parallel([Pure(1, relation="replace")])
    with pytest.raises(ValueError, match="at least one"):
        Accountant().parallel([])
    with pytest.raises(ValueError, match="more than 64 ways"):
        Accountant().parallel([0.001 * k for k in range(1, 100)])


@pytest.mark.parametrize(("here", "there"), [("add/remove", "replace"), ("replace", "add/remove")])
def test_relations_never_mix(here, there):
    mine = Accountant(relation=here).compose(0.5)
    with pytest.raises(ValueError, match=f"under {there!r} cannot join losses under {here!r}"):
        mine.compose(Pure(0.1, relation=there))
    if here == "add/remove":
        with pytest.raises(ValueError, match="cannot join"):
            mine.parallel([Accountant(relation=there).compose(0.1)])
    assert mine.epsilon() == 0.5


@pytest.mark.parametrize(
    "bad", [0, -1, math.nan, math.inf, "1", None, True, (1,), (1, 1), (0, 0.1)]
)
def test_bad_losses_are_named_and_leave_the_accountant_as_it_was(bad):
    mine = Accountant().compose(0.5)
    with pytest.raises(ValueError, match=r"Accountant: (epsilon|delta|loss) must be"):
        mine.compose(bad)
    assert mine.epsilon() == 0.5


def test_bad_parameters_are_named():
    for bad in (0, -1, 1.5, None, True):
        with pytest.raises(ValueError, match="Accountant: count must be"):
            Accountant().compose(1, bad)
        with pytest.raises(ValueError, match="Accountant: size must be"):
            Accountant().compose(1).group(bad)
    for bad in (-1, 1, math.nan, None, "0"):
        with pytest.raises(ValueError, match="Accountant: delta must be"):
            Accountant().epsilon(bad)
    for bad in (-1, math.inf, math.nan, None):
        with pytest.raises(ValueError, match="Accountant: epsilon must be"):
            Accountant().delta(bad)
    with pytest.raises(ValueError, match="Accountant: method must be one of 'pld', 'rdp', 'zcdp'"):
        Accountant("best")
    with pytest.raises(ValueError, match="Accountant: relation must be"):
        Accountant(relation="both")


def test_a_group_after_parallel_is_refused_since_its_units_may_lie_in_several_parts():
    # Flips(0.16834, 3) beside Flips(0.39291, 12): one unit in each costs more than two in either.
    parts = [Flips(Fraction(16834, 10**5), 3), Flips(Fraction(39291, 10**5), 12)]
    with pytest.raises(ValueError, match="group cannot follow parallel"):
        Accountant().parallel(parts).group(2)
    assert Accountant().parallel(parts).group(1).epsilon() == Accountant().parallel(parts).epsilon()
    assert Accountant().parallel([Pure(1.0), Pure(1.0)]).group(2).epsilon() == 2


def test_a_window_that_would_fill_the_memory_is_left_to_simpler_bounds():
    many = Accountant().compose(1e-9, count=2**62)
    assert many.epsilon(1e-6) <= 1e-9 * 2**62


def drawn(draw, low=-4.0):
    """A loss of some kind and size."""
    size = Fraction(10 ** draw.uniform(low, 0))
    return draw.choice(
        [
            Pure(float(size)),
            LaplaceNoise(draw.randint(1, 9) / size, draw.randint(1, 3), draw.randint(1, 3)),
            GaussianNoise(draw.randint(1, 9) / size**2),
            Flips(Fraction(1, 2) / (1 + 20 * size), draw.randint(1, 9)),
            Approximate(float(size), float(size) * 1e-12),
            Sampled(draw.uniform(0.01, 0.9), Pure(float(size))),
            Sampled(0.1, GaussianNoise(1 / size**2)),
        ]
    )


@pytest.mark.parametrize("bits", [8, 9])
def test_a_loss_that_stands_for_others_costs_more_and_hardly_so(bits):
    draw, most = random.Random(bits), 1 + 1.03 * 2.0 ** (1 - bits)
    for _ in range(500):
        loss = drawn(draw)
        dear = composition._dearer(loss, bits)
        (bound, delta), (dear_bound, dear_delta) = rdp.basic(loss), rdp.basic(dear)
        assert delta <= dear_delta <= most * delta, loss
        if bound < math.inf:
            more = most + 1e-9 if not isinstance(loss, Sampled) else most**2
            assert bound <= dear_bound <= more * bound, loss
        assert loss.rho <= dear.rho <= most**4 * loss.rho, loss
    kinds = {composition._dearer(Pure(1 + k / 10**6), bits) for k in range(10**4)}
    assert len(kinds) == 1 + math.ceil(0.01 * 2 ** (bits - 1))


def test_a_sum_of_curves_is_not_below_the_exact_one():
    draw = random.Random(6)
    losses = Counter({LaplaceNoise(Fraction(draw.randint(50, 10**4))): 1 for _ in range(300)})
    above = composition._curve(losses)[::50].tolist()
    exact = [sum(map(Fraction, column)) for column in zip(*map(_curve_of, losses), strict=True)]
    assert all(Fraction(a) >= b for a, b in zip(above, exact, strict=True))
    plain = np.sum([rdp.curve(loss) for loss in losses], axis=0)[::50].tolist()
    assert any(Fraction(a) < b for a, b in zip(plain, exact, strict=True))  # floats alone would be


def _curve_of(loss):
    return rdp.curve(loss)[::50].tolist()


def test_answers_of_an_accountant_never_go_down():
    # A new loss may bring a finer grid, and with it an epsilon a part in ten thousand lower.
    draw, lower = random.Random(3), 0
    for _ in range(4):
        one, before, raw = Accountant(), (0.0, 0.0), 0.0
        for _ in range(6):
            one.compose(10 ** draw.uniform(-5, 0), draw.choice([1, 1, 5, 50]))
            now = one.epsilon(1e-6), one.delta(0.5)
            assert now[0] >= before[0]
            assert now[1] >= before[1]
            bare = composition.epsilon_at(one._branches[0], 1e-6, "pld")
            assert now[0] >= bare
            lower, before, raw = lower + (bare < raw), now, bare
        assert one.epsilon(1e-7) >= one.epsilon(1e-6)
    assert lower  # these losses do try it


# How the losses of a long composition change in size: similar, growing, shrinking, or of all sizes.
SIZES = {
    "similar": lambda k: 0.02 + 1e-4 * k,
    "growing": lambda k: 1e-4 * 1.06**k,
    "shrinking": lambda k: 0.5 * 0.95**k,
    "all": lambda k: 10 ** (-3 + (k * 7 % 11) / 4),
}


@pytest.mark.parametrize("sizes", SIZES)
def test_a_running_composition_is_near_the_exact_one_and_never_below(sizes):
    size = SIZES[sizes]
    losses, running = Counter(), None
    for k in range(120):
        e = Fraction(size(k))
        loss = [Pure(float(e)), LaplaceNoise(2 / e, 2), GaussianNoise(1 / e**2), Flips(1 / (2 + e))]
        losses[loss[k % 4]] += 1
        joined = running and running.joined(loss[k % 4])
        running = joined or composition.Composition.of(losses)
        if k % 20 == 19:
            found = running.epsilon(1e-6)
            finest = max(each.epsilon(1e-6) for each in _product.distribution(losses))
            # The finest grid is itself a part in 2000 above the exact composition.
            assert finest / 1.0005 <= found <= 1.01 * finest
            again = composition.Composition.from_bytes(running.to_bytes())
            assert again.epsilon(1e-6) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 100), (1, 10), (0.01, 3000), (3, 2)])
def test_a_running_product_is_not_below_the_exact_binomial(epsilon, times):
    running = Running.of(Counter({Pure(epsilon): 1}))
    for _ in range(times - 1):
        running = running.joined(Pure(epsilon)) or pytest.fail("it must be built anew")
    for delta in (1e-2, 1e-6):
        found = running.epsilon(delta)
        assert answers(epsilon, times, found) <= delta
        assert answers(epsilon, times, found * 0.99) > delta


def test_a_running_composition_of_samples_knows_both_directions():
    loss = Sampled(0.05, GaussianNoise(Fraction(4)))
    first = composition.Composition.of(Counter({Pure(0.01): 3}))
    running = first.joined(loss)
    for _ in range(20):
        running = running.joined(loss) or composition.Composition.of(
            Counter({Pure(0.01): 3, loss: 21})
        )
    want = total([(Pure(0.01), 3), (loss, 21)]).epsilon(1e-6)
    assert want / 1.0005 <= running.epsilon(1e-6) <= 1.01 * want
    sides = running.product._distributions
    assert len(sides) == 2
    assert sides[0].epsilon(1e-6) != sides[1].epsilon(1e-6)


def test_losses_from_files_fill_no_memory(monkeypatch):
    monkeypatch.setattr(_product, "CACHE_BYTES", 2**22)
    tracemalloc.start()
    try:
        sizes = [
            _product.on_grid(GaussianNoise(Fraction(90 + k)), 0, 2.0**-16, 4.0).mass.nbytes
            for k in range(20)
        ]
        assert sum(sizes) > 2**24
        assert tracemalloc.get_traced_memory()[0] < 2**23
    finally:
        tracemalloc.stop()
    few = [_product.on_grid(GaussianNoise(Fraction(9)), 0, 2.0**-8, 4.0) for _ in range(2)]
    assert few[0] is few[1]
