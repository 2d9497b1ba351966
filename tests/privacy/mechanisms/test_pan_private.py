"""Pan-private counters: exact masses of all that an intruder and a reader see together."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy.mechanisms.pan_private import PanPrivateCounter, PanPrivateDistinct
from sfumato.privacy.random_source import InsecureSeededSource


def log_laplace(k, scale):
    return math.log(math.tanh(1 / (2 * scale))) - np.abs(k) / scale


def log_view(steps, state_scale, output_scale):
    """The distribution of all that is observed: steps are event counts, "output" and one "look".

    Sums over the noise of the start, wide enough that the rest is below 1e-12 of any value here.
    """
    start = np.arange(-150, 151)
    observed = np.arange(-3, 5)
    axes = [step for step in steps if isinstance(step, str)]
    shape = (start.size, *[observed.size] * len(axes))
    mass, count, axis = np.full(shape, 0.0), 0, 0
    mass += log_laplace(start, state_scale).reshape(-1, *[1] * len(axes))
    for step in steps:
        if not isinstance(step, str):
            count += step
            continue
        axis += 1
        place = [1] * (len(axes) + 1)
        place[axis] = observed.size
        gap = observed.reshape(place) - count - start.reshape(-1, *[1] * len(axes))
        mass = mass + (
            log_laplace(gap, output_scale) if step == "output" else np.where(gap == 0, 0.0, -np.inf)
        )
    return np.logaddexp.reduce(mass, axis=0)


@pytest.mark.parametrize("epsilons", [(1, 0.5), (0.5, 1)])
def test_one_event_is_hidden_from_a_look_and_all_outputs_in_any_order(epsilons):
    state, output = (1 / e for e in epsilons)
    worst = 0.0
    for order in set(itertools.permutations(["output", "output", "look"])):
        for at in range(4):
            plain = [*order[:at], 0, *order[at:]]
            event = [*order[:at], 1, *order[at:]]
            gap = np.abs(log_view(plain, state, output) - log_view(event, state, output))
            worst = max(worst, gap.max())
    mechanism = PanPrivateCounter(*map(Fraction, epsilons), outputs=2)
    claim = mechanism.loss().epsilon
    assert 0.8 * claim < worst <= claim * (1 + 1e-9)


def test_a_look_or_an_output_alone_costs_its_own_share():
    state, output = 1.0, 2.0
    look = np.abs(log_view([0, "look"], state, output) - log_view([1, "look"], state, output))
    result = np.abs(log_view([0, "output"], state, output) - log_view([1, "output"], state, output))
    assert look.max() == pytest.approx(1)
    assert result.max() <= 0.5 + 1e-9


def test_a_state_without_noise_at_the_start_would_break_the_claim():
    gap = log_view([0, "look"], 1e-3, 2.0) - log_view([1, "look"], 1e-3, 2.0)
    assert np.nanmax(np.abs(gap)) > 100


def test_a_counter_under_way_shows_the_distribution_that_was_proved():
    # The state less the count is the noise of the start: mean size 1 / sinh(1 / scale) = 1.92 at
    # scale 2; deviation of the mean of 4000 draws 0.034; six of them: p < 1e-8.
    mechanism = PanPrivateCounter(Fraction(1, 2), Fraction(1, 5))
    source = InsecureSeededSource(1)
    states, outputs = [], []
    for _ in range(4000):
        counter = mechanism.start(source=source).update([3, 4])
        states.append(counter.state - 7)
        outputs.append(counter.output(source=source) - counter.state)
    assert np.abs(states).mean() == pytest.approx(1 / math.sinh(1 / 2), abs=0.21)
    assert np.abs(outputs).mean() == pytest.approx(1 / math.sinh(1 / 5), abs=0.5)


def test_a_counter_holds_nothing_of_the_data_but_its_noisy_state():
    counter = PanPrivateCounter(1, 1).start(source=InsecureSeededSource(5)).update([5] * 10)
    before = PanPrivateCounter(1, 1).start(source=InsecureSeededSource(5))
    assert counter.state == before.state + 50
    assert set(vars(counter)) == {"mechanism", "state", "made", "ended"}


def test_no_more_outputs_than_were_paid_for():
    counter = PanPrivateCounter(1, 1, outputs=2).start()
    counter.output()
    counter.output()
    with pytest.raises(ValueError, match="outputs must be at most 2"):
        counter.output()


def test_merged_counters_count_both_and_spend_the_larger_number_of_outputs():
    mechanism = PanPrivateCounter(1, 1, outputs=3)
    one, two = mechanism.start().update([5]), mechanism.start().update([6])
    both = one.state + two.state
    two.output()
    assert one.merge(two).state == both
    assert one.made == 1
    # Its state has no noise any more, so that one event would show.
    for use in (
        two.output,
        lambda: two.update([1]),
        lambda: two.merge(one),
        lambda: one.merge(two),
    ):
        with pytest.raises(ValueError, match="merged and counts no more"):
            use()
    assert two.state == 0
    with pytest.raises(ValueError, match="cannot merge"):
        one.merge(one)
    with pytest.raises(ValueError, match="cannot merge"):
        one.merge(PanPrivateCounter(1, 2).start())


def log_table(hit, q, output_scale):
    """The distribution of (output, bits) of two cells, of which some were hit."""
    result = np.arange(-3, 6)
    distribution = []
    for bits in itertools.product((0, 1), repeat=2):
        probability = [q if cell in hit else 0.5 for cell in range(2)]
        log = sum(math.log(p if bit else 1 - p) for p, bit in zip(probability, bits, strict=True))
        distribution.append(log + log_laplace(result - sum(bits), output_scale))
    return np.array(distribution)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1, 5])
def test_one_user_is_hidden_in_the_table(epsilon):
    mechanism = PanPrivateDistinct(epsilon, 0.5, cells=2)
    q = float(mechanism.chance)
    claim = mechanism.loss().epsilon
    assert claim <= epsilon + 0.5
    worst = max(
        np.abs(log_table(hit, q, 2) - log_table(hit | {0}, q, 2)).max() for hit in (set(), {1})
    )
    # The user does not return between the look and the output, so the output adds nothing.
    assert worst == pytest.approx(epsilon, rel=1e-6)
    assert worst <= claim


def test_a_user_who_returns_between_output_and_look_costs_the_sum_at_most():
    mechanism = PanPrivateDistinct(1, 0.5, cells=1)
    q = float(mechanism.chance)
    result = np.arange(-4, 6)

    def distribution(p_output, p_look):
        """Output and look where the bit was drawn anew between them."""
        out = np.logaddexp(
            math.log(p_output) + log_laplace(result - 1, 2),
            math.log(1 - p_output) + log_laplace(result, 2),
        )
        return np.array([out + math.log(p_look), out + math.log(1 - p_look)])

    def retained():
        """The same where no user came: one fair bit throughout."""
        return math.log(0.5) + np.array([log_laplace(result - 1, 2), log_laplace(result, 2)])

    gap = np.abs(distribution(q, q) - retained())
    assert 1 < gap.max() <= mechanism.loss().epsilon
    assert np.abs(distribution(0.5, q) - retained()).max() <= mechanism.loss().epsilon


def test_a_frequent_user_is_still_one_bit():
    # All of 4096 cells have users; each bit is 1 with probability q = 0.816, after one visit or
    # ten. The mean deviates by 0.006; six of that: p < 1e-8.
    mechanism = PanPrivateDistinct(1, 1, cells=4096)
    source = InsecureSeededSource(2)
    table = mechanism.start(source=source)
    assert table.bits.mean() == pytest.approx(0.5, abs=0.047)  # six deviations
    for _ in range(10):
        table.update(range(100_000), source=source)
        assert table.bits.mean() == pytest.approx(float(mechanism.chance), abs=0.0364)


def test_distinct_users_are_estimated():
    # 20,000 cells, of which 1 - exp(-0.5) hit: the ones deviate by 71, the estimate by about 370;
    # six of that have p < 1e-8.
    table = PanPrivateDistinct(1, 1, cells=20_000, seed=3).start(source=InsecureSeededSource(3))
    users = [f"user {k}" for k in range(10_000)]
    for part in (users[:6000], users[3000:], users):
        table.update(part, source=InsecureSeededSource(len(part)))
    assert table.output(source=InsecureSeededSource(4)) == pytest.approx(10_000, abs=6 * 370)
    assert not hasattr(table, "merge")


@pytest.mark.parametrize("kind", [PanPrivateCounter, PanPrivateDistinct])
@pytest.mark.parametrize("name", ["epsilon_state", "epsilon_output", "outputs"])
@pytest.mark.parametrize("invalid", [0, -1, math.nan, math.inf, "much", None])
def test_bad_parameters_are_named(kind, name, invalid):
    with pytest.raises(ValueError, match=f"{kind.__name__}: {name}"):
        kind(**{"epsilon_state": 1, "epsilon_output": 1, name: invalid})


def test_bad_counts_and_users_are_refused_and_change_nothing():
    counter = PanPrivateCounter(1, 1).start()
    state = counter.state
    for invalid in ("many", {1: 2}, np.zeros((2, 2), int)):
        with pytest.raises(ValueError, match="PanPrivateCounter: counts must"):
            counter.update(invalid)
    counter.update([0.5, -1, "a", None, math.nan, [1]])
    assert counter.state == state
    assert counter.update([2**31, "3"]).state == state + 2**31 + 2
    with pytest.raises(ValueError, match="epsilon_state"):
        PanPrivateDistinct(2**-39, 1)


@pytest.mark.parametrize("kind", "bBhHiIqQ")
def test_counts_of_every_type_of_integers_are_taken(kind):
    counter = PanPrivateCounter(1, 1).start()
    before = counter.state
    assert counter.update(np.array([13, 7], kind)).state == before + 20


@pytest.mark.parametrize("twenty", [20, np.int64(20), np.uint8(20), [20], [7, 13], np.full(4, 5)])
def test_one_number_counts_as_many_events_as_a_column_of_it(twenty):
    counter = PanPrivateCounter(1, 1).start()
    before = counter.state
    assert counter.update(twenty).state == before + 20
    for bad in (True, 2.0, "20", None):
        with pytest.raises(ValueError, match="PanPrivateCounter: counts must"):
            counter.update(bad)
    assert counter.state == before + 20
    assert counter.update(-1).state == before + 20  # clipped, as in a column
    assert counter.update(2**31).state == before + 20 + 2**31 - 1


def test_a_span_of_time_is_no_count():
    counter = PanPrivateCounter(1, 1).start()
    before = counter.state
    assert counter.update([2, np.timedelta64(5, "s"), np.datetime64("NaT")]).state == before + 2
