"""Noisy tables become a distribution: smoothed by their noise, consistent, drawn along the tree."""

import tracemalloc

import numpy as np
import pytest

from sfumato.density.synthesize.distribution import (
    ClassMarginals,
    PairTables,
    directed,
    draw_codes,
)
from sfumato.density.synthesize.smoothing import fitted_to_margins, on_simplex, shrunk

RNG = np.random.default_rng(3)


def marginals(counts, sizes, classes, ordered=None, groups=4, variance=1e-6):
    ordered = ordered or (True,) * len(sizes)
    return ClassMarginals(
        np.array(classes), np.array(counts), sizes, ordered, groups, (variance, variance)
    )


def test_tables_of_noise_alone_become_even_and_others_stay():
    # The mean square of noise has a relative deviation of sqrt(2 / 256): 6 of them are .53.
    noise = RNG.normal(0, 10, 256)
    assert np.abs(shrunk(noise, 100.0) - noise.mean()).max() < 8
    signal = np.repeat([1000.0, 3000.0], 128)
    assert np.abs(shrunk(signal + noise, 100.0) - signal).max() < 8
    square = np.outer([1.0, 2.0, 3.0], [5.0, 1.0]) * 1000
    np.testing.assert_allclose(shrunk(square, 1e-9), square)


def test_shrinking_beats_the_noisy_table():
    true = 2000 * np.exp(-(((np.arange(256) - 90) / 30) ** 2))
    noisy = true + RNG.normal(0, 100, 256)
    better = ((shrunk(noisy, 1e4) - true) ** 2).sum()
    assert better < 0.3 * ((noisy - true) ** 2).sum()


@pytest.mark.parametrize("seed", range(5))
def test_fitted_tables_have_their_margins(seed):
    rng = np.random.default_rng(seed)
    rows, columns = on_simplex(rng.normal(size=6)), on_simplex(rng.normal(size=9))
    fitted = fitted_to_margins(rng.normal(size=(6, 9)), rows, columns)
    assert fitted.min() >= 0
    np.testing.assert_allclose(fitted.sum(axis=0), columns, atol=1e-6)
    np.testing.assert_allclose(fitted.sum(axis=1), rows, atol=0.2)


def test_edges_lead_away_from_the_first_column():
    assert directed(4, [(3, 0), (1, 2), (3, 2)]) == [(0, 3), (3, 2), (2, 1)]
    assert directed(1, []) == []


def test_draws_follow_columns_by_class_and_pairs():
    # Column 1 repeats column 0 in class 0 and reverses it in class 1; 2 is independent.
    n = 200_000
    counts = [[n // 4] * 4 + [n // 4] * 4 + [n, 0], [n // 4] * 4 + [n // 4] * 4 + [0, n]]
    of = marginals(counts, (4, 4, 2), [n, n])
    pair = np.stack([np.eye(4) * n / 4, np.eye(4)[::-1] * n / 4]).astype(int)
    free = np.zeros((2, 4, 4), int)
    free[0, :, 0] = free[1, :, 1] = n // 4
    tables = PairTables(of, [(0, 1), (0, 2)], np.stack([pair, free]), 1e-6)
    kinds, codes = draw_codes(tables, 20_000, np.random.default_rng(0))
    assert abs(kinds.mean() - 0.5) < 6 * 0.5 / np.sqrt(20_000)
    expected = np.where(kinds == 0, codes[:, 0], 3 - codes[:, 0])
    assert (codes[:, 1] == expected).mean() > 0.99
    assert (codes[:, 2] == kinds).mean() > 0.99


def test_without_edges_columns_are_independent_within_classes():
    of = marginals([[9000, 1000, 500, 9500], [1000, 9000, 9500, 500]], (2, 2), [10_000, 10_000])
    tables = PairTables(of, [], np.empty((0, 2, 4, 4), int), 1.0)
    kinds, codes = draw_codes(tables, 100_000, np.random.default_rng(0))
    first, second = codes[kinds == 0].T
    assert abs(first.mean() - 0.1) < 0.01
    assert abs(second.mean() - 0.95) < 0.01
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03  # 6 deviations of 50,000 pairs


def test_classes_that_noise_hides_get_no_rows_and_no_class_is_an_error():
    of = marginals([[-900, 400, 3], [50, -20, 1]], (3,), [-700, -3], variance=1e4)
    tables = PairTables(of, [], np.empty((0, 2, 4, 4), int), 1.0)
    kinds, codes = draw_codes(tables, 50, np.random.default_rng(0))
    assert of.totals.sum() == 1
    assert ((codes >= 0) & (codes < 3)).all()
    assert ((kinds >= 0) & (kinds < 2)).all()


def grouped_world(rare, groups=8, deviation=8.0, seed=0):
    """A column of 256 cells: a large class in the low half, a rare one in cells 160 to 191."""
    rng = np.random.default_rng(seed)
    true = np.zeros((2, 256), int)
    true[0] = np.bincount(rng.integers(0, 128, 20_000), minlength=256)
    true[1] = np.bincount(rng.integers(160, 192, rare), minlength=256)
    noise = np.rint(rng.normal(0, deviation, (2, 256))).astype(int)
    classes = true.sum(axis=1)
    of = marginals([true[0] + noise[0], true[1] * 0], (256,), classes, None, groups, deviation**2)
    merged, used = of.by_groups(true[1:])
    counts = np.stack([true[0] + noise[0], np.where(used, merged[0] + noise[1], 0)])
    return of, marginals(counts, (256,), classes, None, groups, deviation**2), true, true + noise


def test_small_classes_are_counted_by_groups_and_found_where_cells_would_hide_them():
    # Noise of 30 on 256 cells is as large as 480 rows, on 8 groups as 85. In 20 worlds: the part of
    # the rare class that is drawn beyond the cells of the large one, where all of it is.
    found, hidden = [], []
    for seed in range(20):
        _, of, _, cells = grouped_world(520, deviation=30.0, seed=seed)
        assert of.fine.tolist() == [True, False]
        assert of.totals[1] == pytest.approx(520, abs=250)
        assert of.probabilities[0].sum(axis=1) == pytest.approx([1, 1])
        found.append(of.probabilities[0][1][128:].sum())
        hidden.append(on_simplex(shrunk(cells[1].astype(float), 900.0) / 520)[128:].sum())
    assert np.mean(found) > np.mean(hidden) + 0.1, (np.mean(found), np.mean(hidden))


def test_small_classes_have_the_fewer_groups_the_larger_the_noise_is():
    # (the small class - 1 deviation of its noise) / 2 deviations of a counter, from 6 to 16.
    for small, deviation, wanted in (
        (350, 9.0, 16),
        (350, 15.0, 11),
        (350, 40.0, 6),
        (-90, 9.0, 6),
    ):
        of = marginals([[0] * 256] * 2, (256,), [9000, small], None, 16, deviation**2)
        assert of.small_groups == wanted
        assert len(np.unique(of._coarse[0])) == wanted
        merged, used = of.by_groups(np.ones((1, 256), int))
        assert merged.sum() == 256
        assert used.sum() == wanted
    assert marginals([[0] * 9] * 2, (9,), [9000, 350], None, 4, 1600.0).small_groups == 4


def test_groups_of_a_small_class_hold_its_counts_in_the_first_cells():
    of, after, true, _ = grouped_world(200)
    assert (of._coarse[0] == after._coarse[0]).all()  # whatever the small class has
    merged, used = of.by_groups(true[1:])
    assert used.tolist() == [True] * 8 + [False] * 248
    assert merged.sum() == merged[0, :8].sum() == 200
    assert (of.by_groups(np.ones((1, 256), int))[0][0, :8] > 0).all()


def test_classes_that_are_large_or_alike_are_counted_by_cells():
    for classes, wanted in (
        ([1000, 401], [True, True]),  # 40 deviations
        ([1000, 399], [True, False]),
        ([700, 351], [True, True]),  # half of the largest
        ([-3, -9], [True, False]),
    ):
        of = marginals([[0] * 9, [0] * 9], (9,), classes, None, 4, 100.0)
        assert of.fine.tolist() == wanted


def test_columns_of_many_cells_are_smoothed_in_little_memory():
    # A fit that ran out of memory here had been charged already.
    counts = np.random.default_rng(0).normal(3, 1, 2**17)
    tracemalloc.start()
    found = shrunk(counts, 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * counts.nbytes
    assert abs(found.mean() - 3) < 0.02
    assert found.std() < 0.1  # it is noise, but for the mean


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (100,), (5, 9), (16, 16), (1, 4)])
def test_smoothing_shrinks_what_each_finer_resolution_adds(shape):
    table, variance = np.random.default_rng(1).normal(5, 30, shape), 200.0
    axes = [[*(2**k for k in range(9) if 2**k < size), size] for size in shape]
    wanted, before, degrees = np.zeros(shape), np.zeros(shape), 0
    for step in range(max(map(len, axes))):
        now, freed = table, 1
        for axis, sizes in enumerate(axes):
            parts = sizes[min(step, len(sizes) - 1)]
            part = np.arange(shape[axis]) * parts // shape[axis]
            same = part[:, None] == part
            now = np.moveaxis(
                np.tensordot(same / same.sum(1, keepdims=True), now, (1, axis)), 0, axis
            )
            freed *= parts
        size = ((now - before) ** 2).sum()
        factor = max(1 - (freed - degrees) * variance / size, 0) if step and size else 1
        wanted, before, degrees = wanted + (now - before) * factor, now, freed
    assert shrunk(table, variance) == pytest.approx(wanted)
