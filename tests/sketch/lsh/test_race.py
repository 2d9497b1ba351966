"""A RACE sketch of every family: unbiased, merged bit for bit, one cell a row for an event."""

import math

import numpy as np
import pytest

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import Race, load
from sfumato.sketch.lsh import (
    Angular,
    Euclidean,
    Jaccard,
    MixtureKernel,
    PowerKernel,
    ProductKernel,
    WeightedSum,
    separating,
    whitened,
)

RNG = np.random.default_rng(11)
POINTS = RNG.normal((2.0, 1.0), size=(300, 2))
LABELS = POINTS[:, 0] > 2
SETS = [RNG.integers(0, 30, size).tolist() for size in RNG.integers(0, 12, 300)]
NEAR = Euclidean(bandwidth=1.5, bounds=(-8, 8), dimension=2)
FLAT = Angular(2, dimension=2)
BOX = {"bandwidth": 1.5, "bounds": (-8, 8)}
FAMILIES = {
    "angular": (FLAT, POINTS),
    "jaccard": (Jaccard(), SETS),
    "two hashes": (Jaccard(2), SETS),
    "both": (ProductKernel(NEAR, FLAT), POINTS),
    "power": (PowerKernel(Jaccard(), 2), SETS),
    "either": (MixtureKernel(NEAR, FLAT), POINTS),
    "sum": (WeightedSum([(0.7, NEAR), (-0.3, PowerKernel(FLAT, 2))]), POINTS),
    "whitened": (whitened(POINTS, **BOX), POINTS),
    "separating": (separating(POINTS, LABELS, **BOX), POINTS),
}
each_family = pytest.mark.parametrize(("family", "data"), FAMILIES.values(), ids=FAMILIES)


def std_bound(family, data, rows, width):
    """At most this is the standard deviation of an estimate by independent rows.

    A row's cell varies by at most (sum of sqrt(k))**2 (Cauchy and Schwarz), and as if k were
    k + 1 / W where codes are hashed; variances of blocks of rows add up.
    """
    if not isinstance(family, MixtureKernel | WeightedSum):
        roots = np.sqrt(family.kernel(data, data[:5]) + 1 / width).sum(axis=0)
        return roots / math.sqrt(rows) / (1 - 1 / width)
    sizes = sum(abs(weight) for weight, _ in family._terms())
    parts = [
        abs(weight) * sizes * std_bound(term, data, rows, width) ** 2
        for weight, term in family._terms()
    ]
    return np.sqrt(sum(parts)) * 1.05  # rows are integers, not quite in proportion


@each_family
def test_estimates_are_kernel_sums(family, data):
    # Independent rows: their mean strays by 5.5 standard deviations with p < 4e-8.
    rows, width = 3000, 512
    race = Race(rows, width, family, seed=5, strata="independent").update(data)
    error = race.estimate(data[:5]) - family.sums(data, data[:5])
    assert (np.abs(error) < 5.5 * std_bound(family, data, rows, width)).all()


@each_family
def test_sketches_merge_and_forget_bit_for_bit(family, data):
    rows, width = 40, 16
    full = Race(rows, width, family, seed=2).update(data)
    parts = [Race(rows, width, family, seed=2).update(part) for part in (data[:90], data[90:])]
    assert parts[0].merge(parts[1]) == full
    assert load(full.to_bytes()) == full
    ones = np.ones(100, int)
    remaining = full.copy().update(data[:100], -ones)
    assert np.array_equal(
        remaining._table, Race(rows, width, family, seed=2).update(data[100:])._table
    )


@each_family
def test_an_event_changes_one_cell_of_each_row_by_one(family, data):
    rows, width = 30, 16
    with_all = Race(rows, width, family, seed=9).update(data)
    without = Race(rows, width, family, seed=9).update(data[1:])
    changed = with_all._table - without._table
    assert (changed.sum(axis=1) == 1).all()
    assert (np.abs(changed).sum(axis=1) == 1).all()


@each_family
def test_releases_tell_the_same_sums_with_noise(family, data):
    rows, width = 600, 64
    race = Race(rows, width, family, seed=1).update(data)
    released = race.release(50.0, source=InsecureSeededSource(3))
    assert load(released.to_bytes()) == released
    # Noise is independent of the hashes: beyond 6 of its standard deviations with p < 1e-7.
    error = released.estimate(data[:20]) - race.estimate(data[:20])
    assert np.abs(error).max() < 6 * released.noise_error()


def test_sketches_of_other_families_do_not_merge():
    one = Race(8, 8, Jaccard())
    with pytest.raises(ValueError, match="cannot merge, kernel is"):
        one.merge(Race(8, 8, Jaccard(2)))


def test_a_sum_needs_a_row_for_each_term():
    with pytest.raises(ValueError, match="rows must be at least 3"):
        Race(2, 8, MixtureKernel(NEAR, FLAT))
