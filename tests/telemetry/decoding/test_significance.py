"""P-values have the stated distribution, and corrections are those of the literature."""

import numpy as np
import pytest
from scipy import stats

from sfumato.telemetry.decoding.significance import adjusted, normal_p, random_cells_z


def test_benjamini_hochberg_is_that_of_scipy():
    p_values = np.random.default_rng(1).random(200) ** 3
    p_values[10:13] = p_values[10]
    result = stats.false_discovery_control(p_values, method="bh")
    assert np.allclose(adjusted(p_values, "benjamini-hochberg"), result)


def test_bonferroni_multiplies_and_none_leaves():
    assert adjusted([0.1, 0.5], "bonferroni").tolist() == [0.2, 1.0]
    assert adjusted([0.1, 0.5], "none").tolist() == [0.1, 0.5]
    assert adjusted([], "benjamini-hochberg").size == 0
    with pytest.raises(ValueError, match="decode: correction must be one of"):
        adjusted([0.1], "holm")


def test_an_unknown_error_gives_p_one():
    assert normal_p([3.0, 3.0, 0.0], [0.0, np.nan, 1.0]).tolist() == [1.0, 1.0, 0.5]


@pytest.mark.parametrize(("cells", "size"), [(48, 2), (8, 2), (16, 1), (64, 4)])
def test_the_tail_of_random_cells_is_that_of_drawn_strings(cells, size):
    # Residuals are normal with a heavy cell, as an unknown string leaves. Of 80,000 strings a part
    # p has a relative error of 1 / sqrt(80,000 p): 3.5 % at 0.01, 11 % at 0.001. The saddlepoint
    # adds its own, and drawing with replacement makes tails a little longer.
    rng = np.random.default_rng(cells)
    gradient = rng.standard_normal((8, cells))
    gradient[:, 0] += 4
    centred = gradient - gradient.mean(1, keepdims=True)
    totals = np.zeros(80_000)
    for row in centred:
        first = np.argpartition(rng.random((totals.size, cells), np.float32), size - 1, axis=1)
        totals += row[first[:, :size]].sum(1)
    for tail in (0.05, 0.01, 0.001):
        cut = np.quantile(totals, 1 - tail)
        result = stats.norm.sf(random_cells_z(gradient, size, np.array([cut])))[0]
        assert 0.7 * tail < result < (1.25 if tail > 0.005 else 2.5) * tail


def test_zero_residuals_carry_no_information():
    assert random_cells_z(np.zeros((4, 8)), 2, np.array([1.0])).tolist() == [0.0]
