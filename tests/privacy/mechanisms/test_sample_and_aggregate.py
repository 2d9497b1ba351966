"""Sample and aggregate: one unit moves one block, failures look like answers, exact masses."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy.mechanisms.sample_and_aggregate import SampleAndAggregate, _units
from sfumato.privacy.random_source import InsecureSeededSource


def counted(rows):
    return 2 * rows.size


def test_exact_distribution_of_small_tables_stays_within_the_claim():
    # The distribution of the noisy sum is a mixture over all ways to put the rows into blocks.
    mechanism = SampleAndAggregate(lambda rows: 3 * rows.sum(), 1, 3, -2, 4)
    scale, result = float(mechanism.loss().scale), np.arange(-30, 40)

    def log_law(rows):
        rows, distributions = np.array(rows, int), []
        for lot in itertools.product(range(3), repeat=rows.size):
            total = sum(mechanism._answers(rows, np.array(lot, int)))
            distributions.append(-np.abs(result - total) / scale)
        return np.logaddexp.reduce(distributions, axis=0) - rows.size * math.log(3)

    tables = [(), (0,), (1,), (-5,), (1, 1), (1, -5), (0, 1, 1)]
    worst = 0.0
    for rows in tables:
        for new in (-5, 0, 1, 9):
            worst = max(worst, np.abs(log_law(rows) - log_law((*rows, new))).max())
            for at in range(len(rows)):
                other = (*rows[:at], new, *rows[at + 1 :])
                worst = max(worst, np.abs(log_law(rows) - log_law(other)).max())
    assert mechanism.loss().epsilon == 1
    assert 0.4 < worst <= 1 + 1e-12  # but for the float arithmetic of this test


def test_one_unit_changes_one_answer():
    rng = np.random.default_rng(1)
    mechanism = SampleAndAggregate(np.sum, 1, 10, -100, 100)
    for _ in range(50):
        rows, lot = rng.normal(0, 50, 60), rng.integers(0, 10, 60)
        at = int(rng.integers(0, 60))
        other = rows.copy()
        other[at] = 1e6
        for changed, lots in ((other, lot), (np.delete(rows, at), np.delete(lot, at))):
            before, after = mechanism._answers(rows, lot), mechanism._answers(changed, lots)
            assert sum(a != b for a, b in zip(before, after, strict=True)) <= 1


def test_rows_of_one_unit_stay_together():
    observed = []
    mechanism = SampleAndAggregate(
        lambda rows: observed.append(set(rows.tolist())) or 0, 1, 8, 0, 1
    )
    users = np.arange(200) % 20
    mechanism.run(users, units=[f"user {user}" for user in users])
    assert len(observed) == 8
    assert sum(len(block) for block in observed) == 20


def test_blocks_are_drawn_afresh_and_evenly():
    # 9000 rows in 9 blocks: each has 1000, deviation 30; six of them: p < 1e-7.
    sizes = []
    mechanism = SampleAndAggregate(lambda rows: sizes.append(rows.size) or 0, 1, 9, 0, 1)
    mechanism.run(np.zeros(9000))
    mechanism.run(np.zeros(9000))
    assert sum(sizes) == 18_000
    assert sizes[:9] != sizes[9:]
    assert np.abs(np.array(sizes) - 1000).max() < 180


def raising(rows):
    raise RuntimeError("a value that must not be seen")


def leaving(rows):
    raise SystemExit(3)


@pytest.mark.parametrize(
    "function", [raising, leaving, lambda rows: math.nan, lambda rows: None, lambda rows: "x"]
)
@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_a_block_that_fails_counts_as_low(function, aggregate):
    failing = SampleAndAggregate(function, 1, 4, -7, 9, aggregate=aggregate)
    fine = SampleAndAggregate(lambda rows: -7, 1, 4, -7, 9, aggregate=aggregate)
    rows = np.arange(100)
    answers = [each.sample(rows, 5, source=InsecureSeededSource(1)) for each in (failing, fine)]
    assert np.array_equal(*answers)


@pytest.mark.parametrize(
    ("said", "counts"),
    [(0.99, 0), (-0.99, 0), (1.5, 1), (-1.5, -1), (1e300, 5), (math.inf, 5), (-math.inf, -5)],
)
def test_answers_are_rounded_toward_zero_and_clipped(said, counts):
    mechanism = SampleAndAggregate(lambda rows: said, 1, 1, -5, 5)
    assert mechanism._answers(np.zeros(3), np.zeros(3, int)) == [counts]


def test_a_function_cannot_write_into_the_rows():
    def spoil(rows):
        rows[:] = 0
        return 0

    rows = np.ones(10)
    SampleAndAggregate(spoil, 1, 2, 0, 1).run(rows)
    assert rows.sum() == 10


def test_mean_and_median_are_near_the_truth():
    rows = np.random.default_rng(2).normal(40, 12, 100_000)
    source = InsecureSeededSource(2)
    mean = SampleAndAggregate(np.median, 1, 200, 0, 120, step=0.25)
    assert mean.run(rows, source=source) == pytest.approx(40, abs=10)  # 14 scales: p < 1e-6
    median = SampleAndAggregate(np.median, 1, 200, 0, 120, step=0.25, aggregate="median")
    # Cauchy noise of scale below 0.5: 3 off has p < 0.11; all of 9 would have p < 1e-8.
    assert np.median(median.sample(rows, 9, source=source)) == pytest.approx(40, abs=3)
    assert median.loss().epsilon <= 1


def test_loss_is_that_of_one_answer():
    mechanism = SampleAndAggregate(np.mean, Fraction(1, 2), 10, 0, 5, step=Fraction(1, 4))
    assert mechanism.sensitivity == 20
    assert mechanism.loss().scale == 40
    assert mechanism.loss().epsilon == 0.5
    assert mechanism.statement("user").epsilon == 0.5


@pytest.mark.parametrize(
    ("invalid", "name"),
    [
        (dict(function=3), "function"),
        (dict(epsilon=0), "epsilon"),
        (dict(epsilon=math.inf), "epsilon"),
        (dict(epsilon=Fraction(1, 2**50)), "epsilon"),
        (dict(epsilon=100, aggregate="median"), "epsilon"),
        (dict(blocks=0), "blocks"),
        (dict(low=0.5), "low"),
        (dict(low=math.nan), "low"),
        (dict(low="1/0"), "low"),
        (dict(low=False), "low"),
        (dict(high=math.inf), "high"),
        (dict(high=0), "high"),
        (dict(step=0), "step"),
        (dict(aggregate="mode"), "aggregate"),
    ],
)
def test_bad_parameters_are_named(invalid, name):
    given = {"function": np.mean, "epsilon": 1, "blocks": 2, "low": 0, "high": 5, **invalid}
    with pytest.raises((ValueError, TypeError), match=f"SampleAndAggregate: {name}"):
        SampleAndAggregate(**given)


def test_bad_rows_and_units_are_refused():
    mechanism = SampleAndAggregate(np.mean, 1, 2, 0, 5)
    for value in (3, None, "many", [[1, 2], [3]]):
        with pytest.raises(ValueError, match="SampleAndAggregate: value"):
            mechanism.run(value)
    with pytest.raises(ValueError, match="units"):
        mechanism.run([1, 2], units=[1])


@pytest.mark.parametrize("malformed", ["a", None, math.nan, math.inf, [1, 2], "2.5"])
def test_rows_that_are_no_numbers_are_in_no_block(malformed):
    observed = []
    mechanism = SampleAndAggregate(lambda block: observed.extend(block) or 0, 1, 2, 0, 5)
    mechanism.run([1, 0.5, malformed, 2**53 + 1])
    assert sorted(observed) == [0.5, 1, *([2.5] if malformed == "2.5" else []), 2.0**53]


@pytest.mark.parametrize("aggregate", ["mean", "median"])
@pytest.mark.parametrize(
    ("rows", "row"), [([7] * 40, 2.5), ([True] * 40, 2), ([7] * 40, np.uint64(2**63))]
)
def test_the_type_of_one_row_changes_no_other_block(rows, row, aggregate):
    # A function that sees types: were the array's type that of all rows, every block would change.
    observed = []

    def kind(block):
        observed.append((block.dtype.str, block.size))
        return float(block.dtype.kind == "i")

    ask = SampleAndAggregate(kind, 1, 5, 0, 1, aggregate=aggregate)
    ask.run(rows, source=InsecureSeededSource(1))
    ask.run([*rows, row], source=InsecureSeededSource(1))
    assert {each for each, _ in observed} == {"<f8"}


def test_the_name_of_one_unit_regroups_no_others():
    for units, want in (
        ([2**53, 2**53 + 1, 7, 0.5], [0, 1, 2, 3]),
        ([1, "1", "b", 1.0, None, float("nan")], [0, 0, 1, 0, 2, 2]),
        (["a", "b", "a"], [0, 1, 0]),
    ):
        assert _units(np.zeros(len(units)), units).tolist() == want


def test_whatever_the_function_raises_counts_as_low():
    class Stop(BaseException):
        pass

    def stops(block):
        raise Stop("row 13 is here")

    assert SampleAndAggregate(stops, 1, 3, 0, 1)._evaluate(np.zeros(2)) == 0

    def interrupted(block):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SampleAndAggregate(interrupted, 1, 3, 0, 1)._evaluate(np.zeros(2))
