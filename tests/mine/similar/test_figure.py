"""The picture of an S-curve shows the curve, its areas and the pairs of the data."""

from io import BytesIO

import numpy as np
import pytest

from sfumato.mine.similar import choose_bands, plot_s_curve


def test_the_figure_shows_curve_areas_and_pairs():
    curve = choose_bands(0.6, 50)
    values = np.random.default_rng(0).random(200)
    figure = plot_s_curve(curve, values, threshold=0.6, bins=20)
    front, back = figure.axes
    drawn = front.lines[-1]
    np.testing.assert_allclose(drawn.get_ydata(), curve.probability(drawn.get_xdata()))
    heights = back.patches[0].get_data().values
    np.testing.assert_array_equal(heights, np.histogram(values, 20, (0, 1))[0])
    texts = " ".join(text.get_text() for text in front.get_legend().get_texts())
    false, missed = curve.areas(0.6)
    assert f"{false:.3f}" in texts
    assert f"{missed:.3f}" in texts
    file = BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_the_curve_alone():
    assert len(plot_s_curve(choose_bands(0.6, 50)).axes) == 1


@pytest.mark.parametrize("values", [[1.5], [-0.1], [[0.5]], [np.nan]])
def test_similarities_outside_are_refused(values):
    with pytest.raises(ValueError, match="similarities must be"):
        plot_s_curve(choose_bands(0.6, 50), values)
