"""Calls take turns, ratios are of one turn, and a peer that is absent or broken costs nothing."""

import pytest

from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.cli.bench.measuring import measure


class Clock:
    """Seconds that pass only where a work says so."""

    def __init__(self):
        self.now, self.order = 0.0, []

    def __call__(self):
        return self.now

    def work(self, name, seconds, items=100, answer=None):
        def run():
            self.now += seconds
            self.order.append(name)
            return name

        return Work(run, items, answer)


def case(contest, **more):
    return Case("room/case", "a question", "items", lambda size: contest, 1000, 100, **more)


def absent():
    import a_package_that_nobody_has  # noqa: F401


def test_a_ratio_is_how_many_times_as_fast_ours_is():
    clock = Clock()
    contest = Contest(
        clock.work("ours", 0.25),
        {"slow": lambda: clock.work("slow", 1.0), "few": lambda: clock.work("few", 0.25, items=10)},
        clock.work("least", 0.125),
    )
    row = measure(case(contest, ceiling="nothing but reading"), 1000, 3, clock)
    ratios = {each["name"]: each["ratio"]["median"] for each in [*row["peers"], row["ceiling"]]}
    assert ratios == {"slow": 4.0, "few": 10.0, "nothing but reading": 0.5}
    assert row["ours"]["rate"] == {"median": 400.0, "low": 400.0, "high": 400.0}
    assert (row["items"], row["runs"]) == (1000, 3)


def test_a_slow_moment_of_the_machine_leaves_the_ratio():
    clock = Clock()
    speeds = iter([1, 1, 1, 1, 1, 1, 8, 8, 1, 1])  # first runs, loops, then three rounds

    def work(name, seconds):
        def run():
            clock.now += seconds * next(speeds)

        return Work(run, 1)

    contest = Contest(work("ours", 0.25), {"peer": lambda: work("peer", 0.5)})
    row = measure(case(contest), 1, 3, clock)
    assert row["ours"]["rate"]["low"] == 0.5
    assert row["peers"][0]["ratio"] == {"median": 2.0, "low": 2.0, "high": 2.0}


def test_calls_take_turns_in_alternating_order_after_a_first_run_of_each():
    clock = Clock()
    contest = Contest(clock.work("a", 1.0), {"b": lambda: clock.work("b", 1.0)})
    measure(case(contest), 1, 3, clock)
    warm, loops, turns = clock.order[:2], clock.order[2:4], clock.order[4:]
    assert warm == loops == ["a", "b"]
    assert turns == ["a", "b", "b", "a", "a", "b"]


def test_a_short_call_is_repeated_until_the_clock_can_time_it():
    clock = Clock()
    contest = Contest(clock.work("ours", 0.001, items=5))
    row = measure(case(contest), 5, 1, clock)
    assert row["ours"]["rate"]["median"] == pytest.approx(5000)
    assert len(clock.order) >= 1 + 20 + 20


def test_a_peer_that_is_not_installed_has_a_row_without_a_ratio_that_says_so():
    clock = Clock()
    row = measure(case(Contest(clock.work("ours", 1.0), {"absent": absent})), 1, 2, clock)
    (peer,) = row["peers"]
    assert peer == {"name": "absent", "missing": "a_package_that_nobody_has is not installed"}
    assert row["ours"]["rate"]["median"] == 100.0


def test_a_peer_that_fails_says_how_and_ours_is_measured_all_the_same():
    def fails():
        raise AttributeError("no such call\nin this version")

    clock = Clock()
    peers = {"unprepared": fails, "unrunnable": lambda: Work(fails, 1)}
    row = measure(case(Contest(clock.work("ours", 1.0), peers)), 1, 2, clock)
    reason = "AttributeError: no such call"
    assert [each["missing"] for each in row["peers"]] == [reason, reason]


def test_our_own_failure_is_not_hidden():
    def fails():
        raise RuntimeError("ours is broken")

    with pytest.raises(RuntimeError, match="ours is broken"):
        measure(case(Contest(Work(fails, 1))), 1, 2, Clock())


def test_the_answer_is_that_of_the_call_that_was_timed():
    clock = Clock()
    peer = clock.work("peer", 1.0, answer=lambda found: len(found))
    ours = clock.work("ours", 1.0, answer=lambda found: 2 * len(found))
    row = measure(case(Contest(ours, {"peer": lambda: peer}), answer="length"), 1, 1, clock)
    assert (row["ours"]["answer"], row["peers"][0]["answer"]) == (8.0, 4.0)
