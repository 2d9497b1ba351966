"""The choice of epsilon: the largest that meets the limit, and an interval that covers it."""

from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.attack import choose_epsilon
from sfumato.attack.profile_audit.epsilon_choice import LARGEST, _crossings, _grid, chosen
from sfumato.attack.profile_audit.scenario import AttackSettings, Scenario
from sfumato.data import generate_world
from sfumato.profile import Blip

SETTINGS = AttackSettings(0.6, 200, 10, 0)


@pytest.fixture(scope="module")
def world():
    return generate_world(users=60, items=80, ratings=900).interactions


class Curve:
    """A scene whose curve is known: users differ, and are as they are at every epsilon."""

    def __init__(self, seed, users=100, low=0.2, deviation=0.15):
        self.settings, self.users = AttackSettings(0.6, users, 10, seed), np.arange(users)
        self.popularity, self.attacked = low, []
        self._own = deviation * np.random.default_rng(seed).standard_normal(users)

    def mean(self, epsilon):
        return self.popularity + (1 - self.popularity) * epsilon / (8 + epsilon)

    def at(self, epsilon, report=None):
        self.attacked.append(epsilon)
        if report is not None:
            report(1.0)
        fractions = np.stack(
            [np.full(self.users.size, self.popularity), self.mean(epsilon) + self._own]
        )
        return SimpleNamespace(
            epsilon=epsilon, fractions=fractions, recovery=fractions.mean(axis=1).max()
        )


def test_it_keeps_what_is_allowed_and_the_next_one_up_does_not(world):
    mechanism = Blip(bits=512, hashes=4, epsilon=1)
    found = choose_epsilon(world, mechanism, 0.7)
    scene = Scenario("test", world, mechanism, SETTINGS)
    assert scene.at(found.epsilon).recovery == found.recovery <= 0.7
    assert min(value for epsilon, value in found.tried if epsilon > found.epsilon) > 0.7
    above = min(epsilon for epsilon, _ in found.tried if epsilon > found.epsilon)
    grid = _grid(LARGEST)
    assert grid.index(above) == grid.index(found.epsilon) + 1
    assert 0 < found.low <= found.epsilon <= found.high <= LARGEST
    assert found == choose_epsilon(world, mechanism, 0.7)
    assert found != choose_epsilon(world, mechanism, 0.7, random_state=1)


def test_the_own_epsilon_of_the_mechanism_does_not_matter(world):
    ones = [choose_epsilon(world, Blip(bits=64, hashes=2, epsilon=e), 0.7) for e in (1, 9)]
    assert ones[0] == ones[1]


@pytest.mark.parametrize("allowed", [0.25, 0.31, 0.5, 0.77])
def test_a_known_curve_is_cut_where_it_should_be(allowed):
    # Users without variance: the choice is the grid value below the true one.
    found = chosen("test", Curve(0, deviation=0), allowed, 64, None)
    right = 8 * (allowed - 0.2) / (1 - allowed)
    assert found.epsilon == max(value for value in _grid(64) if value <= right)
    assert found.low <= found.epsilon <= found.high <= right * 1.16


@pytest.mark.parametrize("largest", [64, 1, 3.3, 1e-3, 1e6, 0.999])
def test_the_grid_is_public_and_coarse(largest):
    # Two significant digits, whatever the data: at most 88 values, 6 to 16 % apart.
    grid = _grid(largest)
    steps = np.array(grid[1:-1]) / grid[:-2]
    assert grid[-1] == largest
    assert grid[:-1] == [float(f"{value:.1e}") for value in grid[:-1]]
    assert 1.06 < steps.min() <= steps.max() < 1.16
    assert largest / 4096 <= grid[0] < 1.16 * largest / 4096
    assert 80 < len(grid) <= 88
    shared = [value for value in _grid(100) if grid[0] <= value < min(largest, 100)]
    assert all(value in grid for value in shared)


def test_whichever_row_is_missing_the_choice_is_of_the_grid(world):
    mechanism = Blip(bits=512, hashes=4, epsilon=1)
    rows = np.arange(len(world))
    chosen = {
        choose_epsilon(world.filter(rows != row), mechanism, 0.6, largest=16).epsilon
        for row in (31, 455, 781, 849)
    }
    assert chosen <= set(_grid(16))


def test_it_is_said_that_raw_data_decided():
    for allowed in (0.5, 0.99):
        found = chosen("test", Curve(0), allowed, 64, None)
        for words in (
            "chosen by looking at raw profiles",
            "the guarantee of a release does not cover the choice",
            "choose on public or earlier data",
        ):
            assert words in found.sentence
            assert words in str(found)
        assert "chosen by looking at raw profiles" in repr(found)
        assert found.to_dict()["depends_on_raw_data"] is True
    assert "raw" not in chosen("test", Curve(0, low=0.6), 0.5, 64, None).sentence


def test_the_interval_holds_the_truth_19_times_in_20():
    # The truth is that of all users of whom 100 were drawn. Of 200 intervals that each hold it with
    # probability 0.95, fewer than 176 do with p < 1e-4, and all 200 do with p < 1e-4.
    right = 8 * (0.5 - 0.2) / 0.5
    found = [chosen("test", Curve(seed), 0.5, 64, None) for seed in range(200)]
    covered = sum(each.low <= right <= each.high for each in found)
    assert 176 <= covered < 200


def test_nothing_is_attacked_where_popularity_alone_recovers_more():
    scene = Curve(0, low=0.4)
    found = chosen("test", scene, 0.3, 64, None)
    assert (found.epsilon, found.recovery, found.tried, scene.attacked) == (None, None, (), [])
    assert "No epsilon keeps recovery at or below 30%" in found.sentence
    assert "popularity alone recovers 40.0%" in found.sentence


def test_an_allowance_too_near_to_popularity_is_reported():
    found = chosen("test", Curve(0, deviation=0), 0.2001, 64, None)
    assert found.epsilon is None
    assert "No epsilon from 0.016 up" in found.sentence
    assert "popularity alone recovers 20.0%" in found.sentence
    assert (found.low, found.high) == (0, 0)


def test_the_largest_is_enough_where_it_keeps_what_is_allowed():
    scene = Curve(0)
    found = chosen("test", scene, 0.9, 3.3, None)
    assert (found.epsilon, scene.attacked, found.high) == (3.3, [3.3], 3.3)
    assert "Even at epsilon 3.3, the largest tried" in found.sentence


def test_few_epsilons_are_attacked_and_progress_never_goes_back():
    scene, ticks = Curve(0), []
    chosen("test", scene, 0.5, 64, lambda done, total: ticks.append((done, total)))
    assert len(scene.attacked) == len(set(scene.attacked)) <= 10
    assert ticks == sorted(ticks)
    assert all(done <= total for done, total in ticks)


def test_crossings_are_where_a_curve_first_leaves_what_is_allowed():
    logs = np.log([1.0, 4.0, 16.0])
    curves = np.array(
        [
            [0.1, 0.3, 0.5],  # halfway between 1 and 4
            [0.3, 0.4, 0.5],  # never met
            [0.1, 0.1, 0.1],  # always
            [0.1, 0.3, 0.1],  # what comes later does not matter
            [0.2, 0.2, 0.4],  # met up to 4
        ]
    )
    result = np.exp(_crossings(logs, curves, 0.2))
    assert result == pytest.approx([2, 0, 16, 2, 4])
    assert np.exp(_crossings(logs[:1], curves[:2, :1], 0.2)) == pytest.approx([1, 0])


@pytest.mark.parametrize("change", [{"max_recovery": 0}, {"max_recovery": 1}, {"largest": 0}])
def test_bad_values_are_refused(world, change):
    name = next(iter(change))
    with pytest.raises(ValueError, match=f"choose_epsilon: {name} must be"):
        choose_epsilon(world, Blip(epsilon=1), **change)


def test_the_dictionary_is_json_and_for_the_curator():
    document = chosen("test", Curve(0), 0.5, 64, None).to_dict()
    assert document["audience"] == "for the curator; not a release"
    assert [each["epsilon"] for each in document["tried"]] == sorted(
        each["epsilon"] for each in document["tried"]
    )
    assert "95% interval" in document["sentence"]
