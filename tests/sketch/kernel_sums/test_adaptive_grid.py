"""Adaptive releases of grids: what both steps cost, what chooses, and what shrinkage gains."""

import numpy as np
import pytest

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import KernelGrid, load
from sfumato.sketch.kernel_sums.grid_adaptive import (
    LEVELS,
    PILOT,
    _candidates,
    _chosen,
    _pilot_of,
)
from sfumato.sketch.kernel_sums.grid_blocks import GridBlocks, blocks_for
from sfumato.sketch.kernel_sums.grid_levels import tuned_levels

RNG = np.random.default_rng(3)
BOX = {axes: ([0.0] * axes, [10.0] * axes) for axes in (1, 2, 3)}
UNIFORM = {axes: RNG.uniform(0, 10, (20_000, axes)) for axes in (1, 2, 3)}


def released(points, epsilon, kernel="gaussian", **options):
    axes = points.shape[1]
    sketch = KernelGrid(0.7, BOX[axes], kernel=kernel).update(points)
    return sketch, sketch.release_adaptive(epsilon, source=InsecureSeededSource(5), **options)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_point_changes_the_blocks_by_one_unit_in_all(axes):
    sketch = KernelGrid(0.7, BOX[axes])
    nodes = sketch._nodes
    for blocks in (_pilot_of(nodes.shape), *_candidates(nodes.shape).values()):
        for point in RNG.uniform(0, 10, (5, axes)):
            change = blocks.sums(sketch.copy().update([point])._table)
            assert change.shape == blocks.counts
            assert (change >= 0).all()
            assert change.sum() == nodes.unit


def test_both_steps_cost_epsilon_together():
    sketch = KernelGrid(0.7, BOX[2]).update(UNIFORM[2])
    nodes = sketch._nodes
    levels = tuned_levels(nodes.shape, "Laplace", "p-stable").sensitivity(
        nodes.unit, nodes.longest, 1
    )
    reaches = {
        "add/remove": (nodes.unit, levels.l1),
        "replace": (2 * nodes.unit, levels.replaced_l1),
    }
    for relation, (coarse, fine) in reaches.items():
        made = sketch.release_adaptive(0.5, weight=3, relation=relation)
        assert made.statement.epsilon == 0.5
        first = 3 * coarse / made.pilot_scale
        assert first == pytest.approx(0.5 * float(PILOT))
        for scale, reach in ((made.block_scale, coarse), (made.level_scale, fine)):
            assert first + 3 * reach / scale == pytest.approx(0.5)


def test_the_choice_follows_from_the_noisy_pilot_alone():
    # Near this epsilon the pilot of other points, and their noise, lead to several choices.
    choices = set()
    for seed in range(8):
        points = np.clip(RNG.normal(5, 0.3 * (1 + seed), (2_000, 2)), 0, 10)
        sketch = KernelGrid(0.7, BOX[2], kernel="gaussian").update(points)
        made = sketch.release_adaptive(0.2, source=InsecureSeededSource(seed))
        empty = KernelGrid(0.7, BOX[2], kernel="gaussian")
        scales = {
            name: getattr(made, name) for name in ("pilot_scale", "block_scale", "level_scale")
        }
        assert int(made._choice[0]) == _chosen(empty, made._pilot, scales)
        choices.add(int(made._choice[0]))
    assert len(choices) > 1


def test_noise_has_the_stated_scale():
    # A sum of 24 or more |noise| / scale has a deviation of a fifth of its mean at most.
    sketch = KernelGrid(0.7, BOX[3])
    made = sketch.release_adaptive(1.0, source=InsecureSeededSource(1))
    choice = int(made._choice[0])
    second = made.level_scale if choice == LEVELS else made.block_scale
    for cells, scale in ((made._pilot, made.pilot_scale), (made._cells, second)):
        assert np.abs(cells).mean() / scale == pytest.approx(1, rel=1)
        assert (cells != 0).mean() > 0.9


@pytest.mark.parametrize("kernel", ["gaussian", "p-stable"])
def test_near_uniform_points_are_told_better_than_by_the_unbiased_release(kernel):
    # Errors differ by a factor of 3 at least for these seeds; 1.5 is required.
    points = UNIFORM[3]
    sketch, made = released(points, 0.1, kernel)
    plain = sketch.release(0.1, source=InsecureSeededSource(5))
    true = sketch.mean(points[:200])
    errors = [np.abs(each.mean(points[:200]) - true).mean() for each in (made, plain)]
    assert errors[0] < errors[1] / 1.5


def test_dense_places_are_not_flattened():
    points = np.clip(RNG.normal(5, 0.2, (20_000, 2)), 0, 10)
    sketch, made = released(points, 1.0)
    assert int(made._choice[0]) == LEVELS
    np.testing.assert_allclose(made.mean(points[:200]), sketch.mean(points[:200]), rtol=0.05)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [1e7, 1e9, 1e15])
@pytest.mark.parametrize("axes", [1, 2])
def test_next_to_no_noise_leaves_the_sketch_as_it_is(axes, epsilon):
    points = UNIFORM[axes][:300]
    sketch, release = released(points, epsilon)
    assert release.noise_error() < 1e-2
    assert release.mean(points) == pytest.approx(sketch.mean(points), rel=1e-3)


def test_size_is_that_of_all_points():
    for epsilon in (0.1, 10.0):
        made = released(UNIFORM[2], epsilon)[1]
        assert made.size() == pytest.approx(20_000, abs=400 / epsilon)


@pytest.mark.parametrize("cells", [0, 3])
def test_files_of_another_choice_are_refused(cells):
    made = released(UNIFORM[2], 0.1)[1]
    assert load(made.to_bytes()) == made
    arrays = {**made._arrays(), "_cells": np.zeros(cells, np.int64)}
    forged = type(made)._make(made.parameters, arrays, made.statement)
    with pytest.raises(ValueError, match="choice"):
        type(made).from_bytes(forged.to_bytes())
    arrays = {**made._arrays(), "_choice": np.array([5000])}
    forged = type(made)._make(made.parameters, arrays, made.statement)
    with pytest.raises(ValueError, match="choice"):
        type(made).from_bytes(forged.to_bytes())


def test_waves_of_blocks_are_those_of_their_nodes():
    from scipy.fft import dctn

    shape = (24, 12)
    slow = np.zeros(shape)
    slow[:3, :2] = RNG.normal(size=(3, 2))
    from scipy.fft import idctn

    nodes = idctn(slow, norm="ortho")
    for blocks in (GridBlocks(shape, (8, 6)), GridBlocks(shape, (24, 12))):
        waves = blocks.waves(blocks.sums(nodes))
        np.testing.assert_allclose(waves[:3, :2], slow[:3, :2], atol=1e-12)
    assert dctn(nodes, norm="ortho") == pytest.approx(slow)


def test_blocks_keep_the_proportions_of_the_box():
    for blocks in blocks_for((120, 30), 24):
        assert blocks.counts[1] <= max(1, blocks.counts[0] // 3)
        assert [c * s for c, s in zip(blocks.counts, blocks.sides, strict=True)] == [120, 36]
