"""Points are read the same from every container, and clipped to their box, counted, in steps."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.core.bounds import BOUNDS, Box, points

MATRIX = np.array([[1.5, -2, 3], [0, np.inf, 6.25]])


@pytest.mark.parametrize(
    "data",
    [
        MATRIX.tolist(),
        np.asfortranarray(MATRIX),
        MATRIX.astype(np.float32),
        pd.DataFrame(MATRIX),
        pl.DataFrame(MATRIX),
        pa.table(pd.DataFrame(MATRIX, columns=list("abc"))),
    ],
    ids=lambda data: type(data).__module__.split(".")[0],
)
def test_every_container_gives_the_same_points_infinities_included(data):
    got = points("Owner", data, 3)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, MATRIX)


def test_nan_is_refused_by_its_column_and_no_value_is_disclosed():
    bad = np.array([[7.25, 1.0], [-np.inf, np.nan], [np.inf, 3.0]])
    with pytest.raises(ValueError, match="Owner: points must be numbers; column 1 holds") as e:
        points("Owner", bad, 2)
    assert "7.25" not in str(e.value)
    with pytest.raises(ValueError, match="must have 3 columns"):
        points("Owner", bad, 3)


def test_bounds_broadcast_over_columns_and_come_back_from_files():
    box = Box.of("Owner", (0, [1, 2, 4]), 3)
    assert box.bounds == ((0.0, 0.0, 0.0), (1.0, 2.0, 4.0))
    assert Box.of("Owner", [list(side) for side in box.bounds]) == box
    assert Box.of("Owner", (0, 1), 4).dimension == 4
    with pytest.raises(ValueError, match="Owner: bounds must be for 2 columns"):
        Box.of("Owner", box.bounds, 2)


@pytest.mark.parametrize("bad", BOUNDS.bad(), ids=repr)
def test_bounds_that_hold_nothing_are_refused(bad):
    with pytest.raises(ValueError, match="Owner: bounds must be a pair"):
        Box.of("Owner", bad)


def test_rows_outside_are_moved_to_the_nearest_point_and_counted_once():
    box = Box.of("Owner", ((0, -1), (10, 1)))
    inside, moved = box.clip(np.array([[5, 0], [11, -2], [np.inf, 0.5], [0, 1], [10, -np.inf]]))
    assert inside.tolist() == [[5, 0], [10, -1], [10, 0.5], [0, 1], [10, -1]]
    assert moved == 3


@pytest.mark.parametrize("bits", [1, 8, 24])
def test_steps_are_whole_and_each_depends_on_its_point_alone(bits):
    box = Box.of("Owner", ((-3, 1e6), (5, 1e6 + 1)))
    data, _ = box.clip(np.random.default_rng(1).normal((1, 1e6 + 0.5), (5, 0.4), (500, 2)))
    steps = box.steps(data, bits)
    assert (steps == np.rint(steps)).all()
    np.testing.assert_array_equal(steps, np.vstack([box.steps(row[None], bits) for row in data]))
    ends = box.steps(np.array(box.bounds), bits)
    assert ends.tolist() == [[0, 0], [2**bits - 1] * 2]
    half = box.widths / (2**bits - 1) / 2
    # 1e6 has 2**-33 of rounding, far below half of any of these steps.
    assert (np.abs(box.values(steps, bits) - data) <= half * (1 + 1e-2)).all()


@pytest.mark.parametrize(
    ("pairs", "right"),
    [
        ([(18, 90), (60, 200)], "([18, 60], [90, 200])"),
        ([(18, 90)], "([18], [90])"),
        (((0, 1), (0, 2), (0, 3)), "([0, 0, 0], [1, 2, 3])"),
        (np.array([[0, 1], [0, 2], [0, 3]]), "([0, 0, 0], [1, 2, 3])"),
    ],
    ids=repr,
)
def test_a_pair_for_each_column_is_refused_with_the_right_form(pairs, right):
    with pytest.raises(ValueError, match="Owner: bounds must be a pair") as error:
        Box.of("Owner", pairs)
    assert f"lows first: {right}." in str(error.value)
    assert Box.of("Owner", [[18, 60], [90, 200]]) == Box.of("Owner", ((18, 60), (90, 200)))
    assert Box.of("Owner", [(0, 0, 0), (1, 2, 3)]).high == (1, 2, 3)
