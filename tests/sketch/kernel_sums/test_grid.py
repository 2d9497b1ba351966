"""The grid: close to the kernel sums, integer masses, refusals."""

import numpy as np
import pytest

from sfumato.sketch import KernelGrid

KERNELS = ("p-stable", "gaussian", "exponential")


def world(axes, count=20_000):
    """A mixture of two normals inside 0..20 along every axis."""
    rng = np.random.default_rng(axes)
    middle = np.where(rng.random((count, 1)) < 0.4, 6.0, 13.0)
    return np.clip(middle + rng.normal(size=(count, axes)) * 2, 0, 20)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_estimates_are_the_kernel_sums_within_two_thousandths(axes):
    points, queries = world(axes), world(axes, 500)[-40:]
    for kernel in KERNELS:
        sketch = KernelGrid(2.0, ([0] * axes, [20] * axes), kernel=kernel).update(points)
        want = sketch.exact(points, queries)
        np.testing.assert_allclose(sketch.estimate(queries), want, rtol=2e-3)
        np.testing.assert_allclose(sketch.mean(queries), want / len(points), rtol=2e-3)


def test_one_grid_serves_every_kernel_and_wider_bandwidths():
    points, queries = world(2), world(2, 500)[-40:]
    sketch = KernelGrid(1.0, ([0, 0], [20, 20])).update(points)
    for kernel in KERNELS:
        for bandwidth in (1.5, 4.0):
            other = KernelGrid(bandwidth, ([0, 0], [20, 20]), kernel=kernel)
            want = other.exact(points, queries)
            got = sketch.estimate(queries, kernel=kernel, bandwidth=bandwidth)
            np.testing.assert_allclose(got, want, rtol=1e-3)


def test_sides_may_differ_and_points_at_the_bounds_count():
    corners = np.array([[0.0, 0], [0, 5], [40, 0], [40, 5]])
    sketch = KernelGrid(3.0, ([0, 0], [40, 5]), kernel="gaussian").update(corners)
    np.testing.assert_allclose(sketch.estimate(corners), sketch.exact(corners, corners), atol=0.01)


@pytest.mark.parametrize("kernel", KERNELS)
def test_in_four_columns_coarse_nodes_give_the_sums_within_a_hundredth(kernel):
    points, queries = world(4), world(4, 500)[-40:]
    sketch = KernelGrid(1.2, ([0] * 4, [20] * 4), kernel=kernel).update(points)
    assert sketch._nodes.spaces == (32,) * 4
    np.testing.assert_allclose(sketch.estimate(queries), sketch.exact(points, queries), rtol=0.01)


def test_in_four_columns_wide_bandwidths_take_no_more_nodes_than_in_three():
    assert KernelGrid(5.0, ([0] * 4, [20] * 4))._nodes.spaces == (12,) * 4
    assert KernelGrid(5.0, ([0] * 4, [20] * 4), resolution=4)._nodes.spaces == (16,) * 4
    with pytest.raises(ValueError, match=r"more than 2\*\*24 nodes"):
        KernelGrid(1e-3, ([0] * 4, [20] * 4))


def test_removal_undoes_and_any_split_gives_the_same_cells():
    points = world(3, 3000)
    sketch = KernelGrid(2.0, ([0] * 3, [20] * 3)).update(points)
    parts = [KernelGrid(2.0, ([0] * 3, [20] * 3)).update(part) for part in np.split(points, 3)]
    assert parts[2].merge(parts[0]).merge(parts[1]) == sketch
    sketch.update(points[:1000], np.full(1000, -1))
    remaining = KernelGrid(2.0, ([0] * 3, [20] * 3)).update(points[1000:])
    assert (sketch._table == remaining._table).all()
    assert sketch.total == remaining.total == 2000


def test_estimates_follow_every_update_and_merge():
    sketch = KernelGrid(1.0, (0, 9)).update([[3]])
    first = sketch.estimate([[3]])[0]
    assert sketch.update([[3]]).estimate([[3]])[0] == pytest.approx(2 * first)
    assert sketch.merge(sketch.copy()).estimate([[3]])[0] == pytest.approx(4 * first)


def test_points_outside_are_moved_inside_and_counted():
    sketch = KernelGrid(1.0, (0, 9)).update([[-4], [np.inf], [5]])
    assert sketch.clipped == 2
    assert sketch == KernelGrid(1.0, (0, 9)).update([[-1], [10], [5]])
    np.testing.assert_allclose(sketch.estimate([[-7]]), sketch.estimate([[0]]))


def test_what_cannot_be_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="1 to 4 columns, not 5; use Race"):
        KernelGrid(1.0, ([0] * 5, [9] * 5))
    with pytest.raises(ValueError, match=r"more than 2\*\*24 nodes.*lower the resolution"):
        KernelGrid(0.001, ([0] * 3, [9] * 3))
    sketch = KernelGrid(1.0, (0, 9))
    with pytest.raises(ValueError, match=r"bandwidth must be at least 0\.083.*not 0\.01"):
        sketch.estimate([[1]], bandwidth=0.01)
    with pytest.raises(ValueError, match="column 0 holds NaN"):
        sketch.estimate([[np.nan]])
    assert sketch == KernelGrid(1.0, (0, 9))
    assert np.isnan(sketch.mean([[1]])).all()


@pytest.mark.parametrize("bandwidth", [1e12, 1e300])
def test_a_bandwidth_far_beyond_the_bounds_counts_all_points(bandwidth):
    result = KernelGrid(bandwidth, ([0, 0], [1, 5])).update([[0, 0], [1, 5], [1, 0]])
    np.testing.assert_allclose(result.estimate([[0.3, 2], [0, 0]]), 3, rtol=1e-6)
    with pytest.raises(ValueError, match="more than 2\\*\\*24 nodes"):
        KernelGrid(1 / bandwidth**1.02, ([0, 0], [1, 5]))


def test_weights_that_levels_have_no_room_for_are_not_released():
    heavy = KernelGrid(0.1, ([0] * 3, [1] * 3)).update([[0.5] * 3] * 2**9, [2**31 - 1] * 2**9)
    with pytest.raises(ValueError, match="weigh too much"):
        heavy.release(1.0, weight=2**31 - 1)
