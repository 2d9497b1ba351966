"""Bounds from the cells hold for every load: all positions and signs of a key are enumerated."""

import itertools

import numpy as np
import pytest

from sfumato.sketch.concentration import upper_tail
from sfumato.sketch.frequency import cell_bounds
from sfumato.sketch.frequency.cell_bounds import (
    CentredRow,
    bound_of_centred_rows,
    bound_of_means,
    bound_of_medians,
    bound_of_minima,
    less_others,
    middles,
)

# Loads that would break a bound which trusted the cells: one heavy key, one in each of a few cells,
# equal ones, noise of both signs, and weights of the key that empty its own cell or tower in it.
WEIGHTS = (0, 2, 7, 1000)


def loads(depth, width, seed, negative):
    random = np.random.default_rng(seed)
    kinds = (
        np.eye(1, width, dtype=int) * 1000,
        np.arange(width) % 3 == 0,
        np.full(width, 7),
        random.integers(-9, 10, width),
        np.round(random.standard_cauchy(width) * 3).astype(int),
        np.zeros(width, int),
    )
    rows = [kinds[i] for i in random.integers(0, len(kinds), depth)]
    table = np.array([random.permutation(np.ravel(row)) for row in rows]).astype(np.int64)
    return table if negative else np.abs(table)


def places(depth, width, signs):
    """Every position and sign that a key can have in all rows."""
    of_row = list(itertools.product(range(width), (1, -1) if signs else (1,)))
    return itertools.product(of_row, repeat=depth)


def misses(bound, error, table, weight, miss, signs):
    """The probability that a key's error is above the bound, given the loads."""
    found = []
    for place in places(*table.shape, signs):
        at = [j for j, _ in place]
        sign = np.array([s for _, s in place])
        cells = table.copy()
        rows = np.arange(len(table))
        cells[rows, at] += sign * weight
        found.append(abs(error(cells, rows, at, sign, weight)) > bound(cells, miss))
    return np.mean(found)


def of_minimum(cells, rows, at, sign, weight):
    return cells[rows, at].min() - weight


def of_median(cells, rows, at, sign, weight):
    return np.median(sign * cells[rows, at]) - weight


def of_mean(cells, rows, at, sign, weight):
    return np.mean(sign * cells[rows, at]) - weight


def centred(position):
    """The bound and the error of an estimate by the row at this place, or by the median."""

    def bound(cells, miss):
        return bound_of_centred_rows(cells, miss, CentredRow.of(position, len(cells)))

    def error(cells, rows, at, sign, weight):
        row = CentredRow.of(position, len(cells))
        return row.chosen(np.sort(less_others(cells, row)[rows, at])[:, None])[0] - weight

    return bound, error


MEDIAN = CentredRow.of(None, 3)


CASES = {
    "minimum": (bound_of_minima, of_minimum, False, ((8, 1, 0.3), (8, 2, 0.1), (5, 3, 0.1))),
    "median": (bound_of_medians, of_median, True, ((12, 1, 0.3), (8, 2, 0.5), (5, 3, 0.4))),
    "mean": (bound_of_means, of_mean, True, ((12, 1, 0.4), (13, 2, 0.65), (16, 1, 0.3))),
    "centred": (*centred(None), False, ((9, 1, 0.4), (8, 2, 0.6), (7, 3, 0.5))),
    "centred smallest": (*centred(0), False, ((9, 1, 0.4), (8, 2, 0.9), (7, 3, 0.9))),
    "centred second": (*centred(1), False, ((8, 2, 0.9), (7, 3, 0.7))),
}


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("case", CASES)
def test_a_bound_holds_given_any_loads_whatever_the_weight_of_the_key(case, weight):
    # Exact: no failure probability. Noise of a release may make loads negative.
    bound, error, signs, shapes = CASES[case]
    worst = 0.0
    for (width, depth, miss), seed in itertools.product(shapes, range(4)):
        table = loads(depth, width, seed, negative=case != "minimum")
        found = misses(bound, error, table, weight, miss, signs)
        assert found <= miss + 1e-12
        worst = max(worst, found / miss)
    assert worst > 0 or case == "mean"  # or the loads are too easy


def smallest_of_median(table, miss):
    tries = sorted({0, *np.abs(table).ravel()})
    half = (len(table) + 1) // 2

    def suffices(t):
        chances = (np.abs(table) > t).mean(axis=1) / 2
        return 2 * upper_tail(chances.tolist(), half) <= miss

    return next(t for t in tries if suffices(t))


def smallest_of_centred(position):
    def smallest(table, miss):
        row = CentredRow.of(position, len(table))
        errors, (high, low) = less_others(table, row), row.needed(len(table))

        def suffices(t):
            up, down = (errors > t).mean(axis=1), (errors < -t).mean(axis=1)
            return upper_tail(up.tolist(), high) + upper_tail(down.tolist(), low) <= miss

        return next(t for t in sorted({0, *np.abs(errors).ravel()}) if suffices(t))

    return smallest


def smallest_of_mean(table, miss):
    depth, width = table.shape
    found = [np.inf]
    for cut in {0, *np.abs(table).ravel()}:
        left = miss - (np.abs(table) > cut).sum() / width
        if left > 0:
            squares = (np.where(np.abs(table) <= cut, table, 0) ** 2).sum()
            found.append(min(np.sqrt(squares / (width * depth**2) / left), cut))
    return min(found)


@pytest.mark.parametrize(
    ("case", "smallest"),
    [
        ("median", smallest_of_median),
        ("mean", smallest_of_mean),
        ("centred", smallest_of_centred(None)),
        ("centred smallest", smallest_of_centred(0)),
    ],
)
def test_no_place_of_a_key_makes_the_bound_smaller_than_that_of_the_loads(case, smallest):
    # What the proof needs. The bound may be known to a thousandth less, by its grid of cuts.
    bound, _, signs, shapes = CASES[case]
    for (width, depth, miss), seed in itertools.product(shapes[:2], range(10)):
        table = loads(depth, width, seed, negative=True)
        wanted = smallest(table, miss)
        for place, weight in itertools.product(places(depth, width, signs), WEIGHTS):
            cells = table.copy()
            for row, (at, sign) in enumerate(place):
                cells[row, at] += sign * weight
            assert bound(cells, miss) >= wanted * 0.999


@pytest.mark.parametrize("case", ["median", "mean"])
def test_real_cells_have_the_bound_of_integers(case):
    table = loads(3, 500, 1, negative=True)
    bound = CASES[case][0]
    assert bound(table / 8, 0.1) == pytest.approx(bound(table, 0.1) / 8, rel=0.2, abs=1 / 8)


def test_narrow_tables_have_no_bound_by_their_cells_whatever_they_hold():
    for table in (np.zeros((1, 8), int), np.arange(8)[None]):
        for bound in (bound_of_means, bound_of_medians, centred(None)[0], centred(0)[0]):
            assert bound(table, 0.01) == np.inf
    assert centred(None)[0](np.zeros((3, 3), int), 0.9) == np.inf


@pytest.mark.parametrize("width", [2, 3, 4, 5, 8, 9])
def test_the_median_of_the_others_leaves_out_one_cell(width):
    random = np.random.default_rng(width)
    for table in (random.integers(-9, 9, (3, width)), random.integers(0, 2, (3, width))):
        wanted = [[row[j] - np.median(np.delete(row, j)) for j in range(width)] for row in table]
        assert less_others(table, MEDIAN).tolist() == wanted
        low, high = middles(table, MEDIAN)
        centres = table - less_others(table, MEDIAN)
        assert (low[:, None] <= centres).all()
        assert (centres <= high[:, None]).all()


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 9, 32])
def test_the_chosen_row_of_an_absent_key_is_as_often_too_high_as_too_low(depth):
    # 40,000 keys in rows of equal distributions: 5 deviations are 0.0125.
    table = np.random.default_rng(depth).normal(0, 1000, (depth, 40_000))
    for row in CentredRow.candidates(depth):
        found = row.chosen(np.sort(less_others(table, row), axis=0))
        assert abs((found > 0).mean() - 0.5) < 0.0125
    assert CentredRow.candidates(depth)[-1].position is None


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_the_rows_needed_for_an_error_are_the_least_that_make_one(depth):
    # Every set of rows that are too high, and none of the others too low; and the reverse.
    for row in CentredRow.candidates(depth):
        for side, needed in zip((1, -1), row.needed(depth), strict=True):
            off = [
                sum(found)
                for found in itertools.product((0, 1), repeat=depth)
                if side * row.chosen(np.sort(side * 10 * np.array(found))[:, None])[0] > 4
            ]
            assert min(off) == needed


def test_large_tables_are_read_in_pieces(monkeypatch):
    table = loads(3, 1000, 2, negative=True)
    every = [each[0] for each in CASES.values()]
    whole = [bound(table, 0.1) for bound in every], less_others(table, MEDIAN)
    monkeypatch.setattr(cell_bounds, "PIECE", 64)
    assert [bound(table, 0.1) for bound in every] == pytest.approx(whole[0])
    assert (less_others(table, MEDIAN) == whole[1]).all()


def test_heavy_keys_hardly_count():
    # A heavy key adds what 64 further loads of any size would, but at most its number of cells.
    table = np.random.default_rng(1).integers(0, 20, (5, 4096))
    heavy = table.copy()
    heavy[:, 7] += 10**9
    for bound in (bound_of_minima, bound_of_medians, centred(None)[0], centred(0)[0]):
        assert bound(table, 0.01) <= bound(heavy, 0.01) <= bound(table, 0.01) + 1
    assert bound_of_means(heavy, 0.01) < 2 * bound_of_means(table, 0.01)
