"""Releases of grids: what one point may change, the best estimate, and the noise that is stated."""

import math

import numpy as np
import pytest

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import KernelGrid
from sfumato.sketch.kernel_sums.grid_field import node_weights
from sfumato.sketch.kernel_sums.grid_levels import LEVEL_WEIGHTS, Filter, Levels, tuned_levels

SMALL = Levels((13, 10), Filter(4, 2), (Filter(2, 2), Filter(2, 2, 2)), (7, 3, 2, 1, 5))


def dense(levels):
    """The map from nodes to cells as a matrix, column by column."""
    nodes = np.eye(math.prod(levels.shape)).reshape(-1, *levels.shape)
    return np.array([levels.cell_values(node) for node in nodes]).T


@pytest.mark.parametrize("filter", [Filter(4, 2), Filter(2, 3), Filter(4, 2, 4), Filter(3, 2, 2)])
def test_filters_share_wholly_and_turn_back(filter):
    rng = np.random.default_rng(1)
    for entries in (1, 5, 32, 37):
        x = rng.integers(0, 9, (2, entries))
        cells = filter.gather(x, 1)
        assert (cells.sum(axis=1) == filter.parts * x.sum(axis=1)).all()
        y = rng.normal(size=cells.shape)
        assert np.vdot(cells, y) == pytest.approx(np.vdot(x, filter.scatter(y, 1, entries)))
        if filter.block == 1:
            matrix = filter.gather(np.eye(entries), 0)
            for k, band in enumerate(filter.overlaps(entries)):
                want = np.diag(matrix @ matrix.T, k)
                np.testing.assert_allclose(band[: want.size], want)


@pytest.mark.parametrize("kind", ["Laplace", "Gaussian"])
@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_a_point_changes_all_cells_by_what_the_proof_says(axes, kind):
    # The noise is scaled to these norms: L1 is met by every point, L2 by none exceeded.
    rng = np.random.default_rng(axes)
    sketch = KernelGrid(2.0, ([0] * axes, [30 if axes < 4 else 10] * axes))
    nodes = sketch._nodes
    levels = tuned_levels(nodes.shape, kind, "p-stable")
    sensitivity, longest, last = levels.sensitivity(nodes.unit, nodes.longest, 1), 0, None
    for point in rng.uniform(0, 10, (60 // axes**2, axes)):
        change = levels.cell_values(sketch.copy().update([point])._table)
        assert (change >= 0).all()
        assert change.sum() == sensitivity.l1
        squares = sum(int(cell) ** 2 for cell in change)
        assert squares <= sensitivity.l2_squared
        longest = max(longest, squares / sensitivity.l2_squared)
        if last is not None:
            replaced = (change - last).tolist()
            assert sum(map(abs, replaced)) <= sensitivity.replaced_l1
            assert sum(cell**2 for cell in replaced) <= sensitivity.replaced_l2_squared
        last = change
    assert longest > 0.3  # or the bound would be for nothing


def test_scale_of_the_noise_is_that_reach_over_epsilon():
    sketch = KernelGrid(2.0, ([0, 0], [30, 30])).update([[1, 2]])
    nodes = sketch._nodes
    sensitivity = tuned_levels(nodes.shape, "Laplace", "p-stable").sensitivity(
        nodes.unit, nodes.longest, 1
    )
    for relation, l1 in (("add/remove", sensitivity.l1), ("replace", sensitivity.replaced_l1)):
        released = sketch.release(0.5, weight=3, relation=relation)
        assert released.scale == pytest.approx(3 * l1 / 0.5)
        assert released.statement.epsilon == 0.5


def test_estimate_of_nodes_is_least_squares_over_all_levels():
    rng = np.random.default_rng(2)
    matrix = dense(SMALL)
    cells = rng.normal(size=SMALL.cells) * 50
    want = np.linalg.lstsq(matrix, cells, rcond=None)[0].reshape(SMALL.shape)
    np.testing.assert_allclose(SMALL.best(cells), want, atol=1e-3)
    nodes = rng.integers(0, 99, SMALL.shape)
    np.testing.assert_allclose(SMALL.best(SMALL.cell_values(nodes)), nodes, atol=1e-6)
    weights = rng.normal(size=SMALL.shape)
    inverse = np.linalg.inv(matrix.T @ matrix)
    exact = weights.ravel() @ inverse @ weights.ravel()
    assert SMALL.variance_of(weights) == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_noise_is_unbiased_and_as_large_as_stated(kind):
    # Means of 200: off by 4.5 standard errors, or a variance off by 40 %, have p < 1e-5.
    sketch = KernelGrid(2.0, (0, 60)).update(np.linspace(0, 60, 5000)[:, None])
    middle = [[30.0]]
    result = [
        sketch.release(1.0, 1e-6, noise=kind, source=InsecureSeededSource(seed))
        for seed in range(200)
    ]
    off = np.array([release.estimate(middle)[0] for release in result]) - sketch.estimate(middle)
    sizes = np.array([release.size() for release in result]) - 5000
    assert abs(off.mean()) < 4.5 * off.std() / math.sqrt(200)
    assert abs(sizes.mean()) < 4.5 * sizes.std() / math.sqrt(200)
    assert 0.6 < off.var() / result[0].noise_error() ** 2 < 1.4


@pytest.mark.parametrize(("axes", "spaces"), [(1, 400), (2, 90), (3, 40), (4, 30)])
def test_levels_have_less_noise_than_the_nodes_alone(axes, spaces):
    # The same budget on the nodes alone leaves an answer the length of its weights.
    shape, apart = (spaces,) * axes, np.full(axes, 1 / 3 if axes < 4 else 1 / 1.6)
    weights = node_weights(shape, apart, "p-stable", 1.0)
    alone = np.linalg.norm(weights)
    for kind, kinds in LEVEL_WEIGHTS.items():
        assert set(kinds) == {"p-stable", "gaussian", "exponential"}
        levels = tuned_levels(shape, kind, "p-stable")
        sensitivity = levels.sensitivity(1, 1, 1)
        norm = sensitivity.l1 if kind == "Laplace" else math.sqrt(sensitivity.l2_squared)
        assert (
            norm * math.sqrt(levels.variance_of(weights)) < (0.95, 0.7, 0.45, 0.2)[axes - 1] * alone
        )


def test_release_serves_other_kernels_and_bandwidths():
    points = np.random.default_rng(3).normal(10, 2, (200_000, 2))
    sketch = KernelGrid(1.0, ([0, 0], [20, 20])).update(points)
    released = sketch.release(1.0, source=InsecureSeededSource(3))
    queries = [[10.0, 10.0], [9.0, 11.0]]
    for kernel in ("p-stable", "gaussian", "exponential"):
        want = sketch.estimate(queries, kernel=kernel, bandwidth=3.0)
        got = released.estimate(queries, kernel=kernel, bandwidth=3.0)
        np.testing.assert_allclose(got, want, rtol=0.01)
        np.testing.assert_allclose(
            released.mean(queries, kernel=kernel, bandwidth=3.0) * released.size(), got
        )
    with pytest.raises(ValueError, match="needs a delta above 0"):
        sketch.release(1.0, noise="gaussian")
    with pytest.raises(ValueError, match="noise must be one of"):
        sketch.release(1.0, noise="uniform")
