"""AMS: second moments and inner products within the stated error."""

import numpy as np
import pytest

from sfumato.sketch import AMS, SketchFormatError, load
from support.streams import uniform, zipf

KINDS = pytest.mark.parametrize("kind", ["fast", "tug-of-war"])


@KINDS
@pytest.mark.parametrize("stream", [uniform(2000, 300), zipf(2000, 1000)])
def test_second_moment_is_within_its_bound(kind, stream):
    # Chebyshev allows 20 % of 60 seeds to miss and leaves far fewer.
    truth = (np.bincount(stream).astype(float) ** 2).sum()
    misses = 0
    for seed in range(60):
        sketch = AMS(64, 3, kind=kind, seed=seed).update(stream)
        misses += abs(sketch.estimate() - truth) > sketch.error_bound(0.8) * truth
    assert misses <= 12


@KINDS
def test_a_row_has_the_mean_and_variance_of_the_theorem(kind):
    # 600 seeds, one row: the mean is within 5 standard errors, p < 1e-6; the variance, at most
    # 2 F2**2 / width and here nearly that, within 40 % (its own deviation is about 8 %).
    weights = np.ones(200, np.int64)
    truth, width = 200.0, 32
    rows = np.array(
        [
            AMS(width, 1, kind=kind, seed=s).update(range(200), weights).estimate()
            for s in range(600)
        ]
    )
    ideal = 2 * truth**2 / width
    assert abs(rows.mean() - truth) < 5 * np.sqrt(ideal / 600)
    assert 0.6 < rows.var() / ideal < 1.4


@KINDS
def test_inner_products_are_within_their_bound(kind):
    # Chebyshev at 99 % leaves far less than 1 % for this seed to miss.
    a, b = zipf(3000, 500, seed=1), zipf(3000, 500, seed=2)
    x, y = np.bincount(a, minlength=500), np.bincount(b, minlength=500)
    left, right = AMS(1024, 5, kind=kind).update(a), AMS(1024, 5, kind=kind).update(b)
    slack = left.error_bound(0.99) * np.sqrt(float(x @ x) * float(y @ y))
    assert abs(left.inner(right) - x @ y) <= slack
    with pytest.raises(ValueError, match="seed is 0 here and 1 there"):
        left.inner(AMS(1024, 5, kind=kind, seed=1))


def test_a_mass_that_contradicts_the_cells_is_no_sketch():
    sketch = AMS(8, 1).update([1, 2, 3])
    for mass in (-5, 0):
        sketch.mass = mass
        with pytest.raises(SketchFormatError, match="out of range"):
            load(sketch.to_bytes())


def test_removal_empties_and_weights_count():
    sketch = AMS().update([1, 2], [3, -4])
    assert sketch.estimate() == pytest.approx(25)
    assert sketch.update([1, 2], [-3, 4]).estimate() == 0


def test_from_error_keeps_its_promise():
    sketch = AMS.from_error(0.1, 0.95)
    assert sketch.error_bound(0.95) <= 0.1
    smaller = AMS(sketch.width - 1, sketch.depth)
    assert smaller.error_bound(0.95) > 0.1 or sketch.width == 2
