"""Running totals: exact tree noise whatever the batches, few intervals an event, honest bounds."""

import math

import numpy as np
import pytest

from sfumato.privacy.mechanisms.binary_tree import BinaryTreeCounter, gather
from sfumato.privacy.random_source import InsecureSeededSource


def tree(noise):
    """z_t by its definition, one step after the other."""
    z = [0]
    for t, fresh in enumerate(noise, 1):
        z.append(fresh + z[t & (t - 1)])
    return np.array(z[1:], np.int64)


@pytest.mark.parametrize("horizon", [1, 2, 3, 8, 1000])
def test_noise_is_that_of_the_tree_whatever_the_batches(horizon):
    rng = np.random.default_rng(horizon)
    noise = rng.integers(-99, 99, horizon)
    for _ in range(20):
        carry, done, parts = np.zeros(horizon.bit_length(), np.int64), 0, []
        while done < horizon:
            part = noise[done : done + int(rng.integers(0, 1 + horizon // 2 + 1))].copy()
            gather(part, done, carry)
            parts.append(part)
            done += part.size
        assert (np.concatenate(parts) == tree(noise)).all()


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 8, 20])
def test_an_event_changes_at_most_as_many_noisy_intervals_as_claimed(horizon):
    # The interval that ends at step t has the noise e_t: totals[t] minus those at t without
    # its lowest bit. These differences are all that is released, and one event changes few of them.
    ends = np.arange(1, horizon + 1)
    parents = ends & (ends - 1)
    changed = []
    for step in range(horizon):
        totals = np.concatenate(([0], np.cumsum(np.arange(horizon) == step)))
        intervals = totals[ends] - totals[parents]
        assert set(intervals) <= {0, 1}
        changed.append(intervals)
    most = max(each.sum() for each in changed)
    assert most == BinaryTreeCounter(1, horizon).sensitivity
    moved = max(np.abs(a - b).sum() for a in changed for b in changed)
    assert moved <= BinaryTreeCounter(1, horizon, relation="replace").sensitivity


def test_exact_masses_of_neighbours_stay_within_the_claim():
    # All 7**4 outcomes of the fresh noise around 0 for horizon 4, by the density of the intervals.
    mechanism = BinaryTreeCounter(1, 4)
    scale = float(mechanism.loss().scale)
    ends = np.array([1, 2, 3, 4])
    parents = ends & (ends - 1)
    result = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 4), -1).reshape(-1, 4)

    def log_mass(counts):
        totals = np.concatenate(([0], np.cumsum(counts)))
        return -np.abs(result - (totals[ends] - totals[parents])).sum(axis=1) / scale

    base = np.array([2, 0, 1, 1])
    ratios = [
        np.abs(log_mass(base) - log_mass(base + event)).max() for event in np.eye(4, dtype=int)
    ]
    assert max(ratios) == pytest.approx(mechanism.loss().epsilon)
    assert mechanism.loss().epsilon == 1


def test_totals_are_exact_but_for_the_noise():
    # At epsilon 1000 a noise is not 0 with p < 1e-40.
    counter, counts = BinaryTreeCounter(1000, 300).start(), np.arange(300) % 7
    result = [counter.update(part) for part in np.split(counts, [1, 1, 64, 299])]
    assert (np.concatenate(result) == np.cumsum(counts)).all()
    assert counter.step == 300


def noise_of(result):
    """The fresh noise that lies in the noise of totals."""
    z = np.concatenate(([0], result))
    t = np.arange(1, z.size)
    return z[t] - z[t & (t - 1)]


def test_fresh_noise_has_the_claimed_scale():
    # The mean size of discrete Laplace noise is 1 / sinh(1 / scale): 9.98 here; over 20,000 draws
    # the deviation of the mean is 0.07; six of them: p < 1e-8.
    mechanism = BinaryTreeCounter(2, 2**19 + 1)
    result = mechanism.run(np.zeros(20_000, int), source=InsecureSeededSource(2))
    assert np.abs(noise_of(result)).mean() == pytest.approx(1 / math.sinh(0.1), abs=0.45)
    assert float(mechanism.loss().scale) == 10


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_error_bound_holds_at_the_worst_step(delta):
    # Step 1023 carries ten noises. 2000 trials, a miss has p <= 0.05: more than 160 has p < 1e-8.
    mechanism = BinaryTreeCounter(1, 1023, delta)
    noise = mechanism.sample(np.zeros(1023, int), 2000, source=InsecureSeededSource(3))[:, -1]
    bound = mechanism.error_bound(0.95)
    assert (np.abs(noise) > bound).sum() <= 160
    assert (np.abs(noise) > bound / 4).sum() > 160


def test_gaussian_noise_is_calibrated_for_all_intervals():
    from sfumato.privacy.accounting.calibration import epsilon_of

    mechanism = BinaryTreeCounter(1, 1000, 1e-6)
    assert epsilon_of(mechanism.loss(), 1e-6) <= 1 + 1e-9
    result = mechanism.statement("event")
    assert (result.epsilon, result.delta) == (1, 1e-6)
    assert mechanism.error_bound() < BinaryTreeCounter(1, 1000).error_bound()


def test_a_long_stream_takes_little_memory_and_stays_near_the_truth():
    counter = BinaryTreeCounter(1, 10**6).start()
    source = InsecureSeededSource(4)
    for _ in range(4):
        result = counter.update(np.ones(250_000, int), source=source)
    assert counter._carry.size == 20
    # A total is farther off than the bound with p < 1e-6.
    assert abs(result[-1] - 10**6) < counter.mechanism.error_bound(1 - 1e-6)


@pytest.mark.parametrize(
    ("count", "counted"),
    [
        *[(-1, 0), (2**31, 2**31 - 1), (0.5, 0), (2.9, 2), ("a", 0), ("7", 7), (None, 0)],
        *[(math.nan, 0), (math.inf, 2**31 - 1), ([1], 0), (10**400, 2**31 - 1)],
    ],
)
def test_a_step_of_another_type_or_size_is_clipped_and_moves_no_other(count, counted):
    mechanism = BinaryTreeCounter(1, 8)
    want = mechanism.run([3, 2**30, counted], source=InsecureSeededSource(1))
    counts_in = [3, 2**30, count]
    boxes = [counts_in, np.array([*counts_in, None], object)[:3]]
    for column in boxes:
        got = mechanism.run(column, source=InsecureSeededSource(1))
        assert got.tolist() == want.tolist()


def test_a_total_ends_where_noise_still_fits():
    counter = BinaryTreeCounter(1, 2).start()
    counter._total = 2**62 - 5
    result = counter.update([2**31 - 1], source=InsecureSeededSource(1))
    assert result[0] > 2**61  # it did not wrap


def test_steps_beyond_the_horizon_are_refused_and_change_nothing():
    counter = BinaryTreeCounter(1, 3).start()
    counter.update([1, 2])
    for invalid in ([1, 1], 7, [[1]] * 3, np.ones((1, 1), int), {1: 1}):
        with pytest.raises(ValueError, match="BinaryTreeCounter"):
            counter.update(invalid)
    assert counter.step == 2
    assert counter.update([]).size == 0
    assert counter.update([5]).size == 1


@pytest.mark.parametrize(
    ("invalid", "name"),
    [
        (dict(epsilon=0), "epsilon"),
        (dict(epsilon=math.inf), "epsilon"),
        (dict(epsilon=1e-13), "epsilon"),
        (dict(epsilon=1e-13, delta=1e-15), "epsilon"),
        (dict(horizon=0), "horizon"),
        (dict(horizon=1.5), "horizon"),
        (dict(delta=1), "delta"),
        (dict(delta=math.nan), "delta"),
        (dict(delta=-1), "delta"),
    ],
)
def test_bad_parameters_are_named(invalid, name):
    with pytest.raises(ValueError, match=f"BinaryTreeCounter: {name}"):
        BinaryTreeCounter(**{"epsilon": 1, "horizon": 8, **invalid})
