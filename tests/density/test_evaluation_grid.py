"""A picture's values are those of the density at the centres of its cells."""

import numpy as np
import pytest

from sfumato import density
from sfumato.density import SketchDensity, grid_values

POINTS = np.random.default_rng(0).normal(size=(2000, 2))


def test_values_are_those_of_the_density_at_the_centres():
    model = SketchDensity(kernel="gaussian", bandwidth=0.5, bounds=(-4, 4)).fit(POINTS)
    values, (across, up) = grid_values(model, -2, [2, 1], (8, 6))
    assert values.shape == (8, 6)
    np.testing.assert_allclose(across, np.linspace(-1.75, 1.75, 8))
    np.testing.assert_allclose(up, np.linspace(-1.75, 0.75, 6))
    for column in (0, 7):
        points = np.column_stack([np.full(6, across[column]), up])
        np.testing.assert_allclose(values[column], model.density(points))


def test_values_over_the_box_sum_to_the_mass_within():
    model = SketchDensity(kernel="gaussian", bandwidth=0.4, bounds=(-6, 6)).fit(POINTS)
    values, (across, _) = grid_values(model, shape=60)
    assert values.sum() * (across[1] - across[0]) ** 2 == pytest.approx(1, abs=0.02)
    one, (line,) = grid_values(SketchDensity(kernel="gaussian").fit(POINTS[:, :1]), shape=5)
    assert one.shape == line.shape == (5,)


def test_three_columns_or_no_cells_are_refused():
    model = SketchDensity(backend="race", rows=8).fit(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="grid_values: one or two columns can be drawn, not 3"):
        grid_values(model)
    with pytest.raises(ValueError, match="grid_values: shape must be"):
        grid_values(SketchDensity().fit(POINTS), shape=0)


@pytest.mark.parametrize("shape", [(2, 3, 4), (), 2**14])
def test_a_shape_that_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match="grid_values: shape must be one number or 2"):
        grid_values(SketchDensity().fit(POINTS), shape=shape)


def test_no_module_looks_like_a_function_that_draws():
    assert grid_values.__module__ == "sfumato.density.evaluation_grid"
    assert "heat_map" not in dir(density)
