"""Errors of a newcomer name the estimator that was called, the position and a remedy.

But nothing about a row in a private fit: no content of a row raises, warns, changes a shape,
a type or a text, or moves cells by more than one row may.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato.sketch
from sfumato.density import (
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
    SketchSampler,
    load,
)
from sfumato.density.base import BACKENDS, noise_from
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import KernelGrid, SketchFormatError
from support.release_plans import NEXT_TO_NONE

TABLE = pd.DataFrame({"age": [31.0, 52.0, 47.0], "job": ["nurse", "smith", "cook"]})
POINTS = np.random.default_rng(0).uniform(0, 1, (60, 2))
LABELS = np.arange(60) % 2


@pytest.mark.parametrize(
    ("data", "column"),
    [
        (TABLE, "'job'"),
        (TABLE.astype({"job": "category"}), "'job'"),
        (TABLE.set_axis(["age", 7], axis=1).rename(columns=str), "'7'"),
        (pl.from_pandas(TABLE), "'job'"),
        (pa.Table.from_pandas(TABLE), "'job'"),
        (TABLE.to_numpy(), "1"),
        (TABLE.to_numpy().tolist(), "1"),
    ],
)
def test_a_column_of_text_is_named_and_no_cell_is(data, column):
    result = f"SketchDensity: X must hold numbers; column {column} holds text; give codes 0, 1, "
    with pytest.raises(ValueError, match=result) as error:
        SketchDensity(bounds=(0, 99)).fit(data)
    assert not any(job in str(error.value) for job in TABLE["job"])


def test_categorical_columns_are_given_by_number_or_name():
    table = pd.DataFrame({"age": POINTS[:, 0], "sex": LABELS})
    queries = dict(bounds=([0, 0], [1, 1]), classes=[0, 1])
    by_name = SketchClassifier(categorical=["sex"], **queries).fit(table, LABELS)
    by_number = SketchClassifier(categorical=[1], **queries).fit(table, LABELS)
    assert by_name.tables_ == by_number.tables_
    assert load(by_name.to_bytes()).predict(table).tolist() == LABELS.tolist()
    with pytest.raises(ValueError, match="categorical names 'age2', and X has no such column"):
        SketchClassifier(categorical=["age2"]).fit(table, LABELS)
    with pytest.raises(ValueError, match="X has no names of columns; give its number"):
        SketchClassifier(categorical=["sex"]).fit(table.to_numpy(), LABELS)
    with pytest.raises(ValueError, match="categorical must be an integer from 0 to 1, not 5"):
        SketchClassifier(categorical=[5]).fit(table, LABELS)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, np.nan, 1]),
        np.array([[0], [1], [np.nan], [1]]),
        ["a", "b", np.nan, "b"],
        np.array(["a", "b", None, "b"], object),
        pd.Series(["a", "b", None, "b"], dtype="category"),
        pd.Series([0, 1, pd.NA, 1], dtype="Int64"),
    ],
    ids=lambda labels: type(labels).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_a_row_without_a_label_is_reported_by_its_number(labels):
    with pytest.raises(ValueError, match=r"SketchClassifier: y must hold a label .*row 2 .*Drop"):
        SketchClassifier().fit(POINTS[:4], labels)


def test_a_row_whose_label_is_no_class_is_reported_by_its_number():
    with pytest.raises(ValueError, match=r"SketchClassifier: .*not in classes, at row 3;") as error:
        SketchClassifier(classes=["a", "b"]).fit(POINTS[:4], ["a", "b", "a", "flu"])
    assert "flu" not in str(error.value)


def test_errors_of_a_release_name_the_estimator(tmp_path):
    private = dict(epsilon=1.0, bounds=(0, 1))
    for more, result in (
        (dict(dataset="visits"), "ledger and dataset go together"),
        (dict(unit="user"), "contributions must be given"),
        (dict(epsilon=1e-14), "the noise would not fit"),
    ):
        with pytest.raises(ValueError, match=f"^SketchDensity: .*{result}"):
            SketchDensity(**{**private, **more}).fit(POINTS)
    with pytest.raises(FileNotFoundError, match=r"^SketchDensity: there is no ledger"):
        SketchDensity(**private, ledger=tmp_path / "none", dataset="visits").fit(POINTS)


@pytest.mark.filterwarnings("ignore:SketchDensity. epsilon .* is too small here:UserWarning")
def test_files_of_sketches_and_releases_say_what_they_are_and_how_to_read_them(tmp_path):
    sketch = KernelGrid(1.0, (0, [1, 1])).update(POINTS)
    sketch.save(tmp_path / "sketch")
    with pytest.raises(SketchFormatError, match=r"load: .*'KernelGrid', a sketch; .*sketch\.load"):
        load(tmp_path / "sketch")
    released = (
        r"'ReleasedKernelGrid', a release; .*load and take SketchDensity.from_release\(release\)"
    )
    data = sketch.release(1.0).to_bytes()
    for read in (load, SketchDensity.from_bytes):
        with pytest.raises(SketchFormatError, match=released):
            read(data)
    assert SketchDensity.from_release(sfumato.sketch.load(data)).backend_ == "grid"


def test_auto_takes_kernels_only_for_columns_of_similar_width():
    for wide, methods in ((4.0, ["kernel"] * 2), (4.5, ["logistic", "columns"])):
        public = dict(bounds=([0, 0], [1, wide]), classes=[0, 1])
        models = [SketchClassifier(**public, epsilon=each) for each in (None, 1.0)]
        assert [model.fit(POINTS, LABELS).method_ for model in models] == methods


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_a_classifier_of_columns_has_no_sketch_to_name(epsilon):
    queries = dict(method="columns", bounds=(0, 1), classes=[0, 1], epsilon=epsilon)
    model = SketchClassifier(**queries).fit(POINTS, LABELS)
    assert model.backend_ == load(model.to_bytes()).backend_ == "columns"
    if epsilon:
        assert SketchClassifier.from_release(model.release_).backend_ == "columns"


# What one row may be besides two numbers within the bounds.
CELLS = ["visitor", "", None, np.nan, pd.NA, pd.NaT, np.inf, -1e300, 10**400, 1 + 2j, b"\xff", True]
ODD_ROWS = [
    *([cell, 0.5] for cell in CELLS),
    [0.5, "visitor"],
    ["0.90", 0.5],
    [[0.1, 0.2], 0.5],
    [np.ma.masked, 0.5],
    [0.0, 0.0],
    [],
    [0.5],
    [0.5] * 3,
    None,
    "visitor",
    7.0,
]
ROWS = np.random.default_rng(5).uniform(0, 1, (40, 2)).tolist()
CLASSES = list(range(30))  # enough for 40 rows that scikit-learn would warn of it
KINDS = [at % 30 for at in range(40)]
TARGETS = [float(sum(row)) for row in ROWS]
BOX = ([0, 0], [1, 1])
PUBLIC = dict(bounds=BOX, classes=CLASSES)
REACH = dict(bounds=BOX, target_bounds=(0, 2))


def laplace(fraction=1.0):
    """The L1 sensitivity that noise of a release covers at epsilon 1, with this fraction of it."""
    return lambda release: release.scale * fraction


def steps_of_grid(release):
    """What both steps of an adaptive grid cover: the pilot, then blocks or levels."""
    return release.pilot_scale * 3 / 25 + max(release.block_scale, release.level_scale) * 22 / 25


HARD = {
    **{
        f"SketchDensity, {name}": (
            lambda e, name=name: SketchDensity(
                epsilon=e, bounds=BOX, backend=name, rows=16, width=64, bandwidth=0.3
            ),
            steps_of_grid if name == "grid" else laplace(),
        )
        for name in BACKENDS
    },
    "SketchSampler": (
        lambda e: SketchSampler(epsilon=e, bounds=BOX, backend="race", rows=16, width=64),
        laplace(),
    ),
    "SketchClassifier, columns": (
        lambda e: SketchClassifier(epsilon=e, method="columns", bins=8, **PUBLIC),
        lambda release: release.count_scale * 15 / 20,
    ),
    "SketchClassifier, kernel": (
        lambda e: SketchClassifier(epsilon=e, method="kernel", **PUBLIC),
        lambda release: release.parts[0].scale,
    ),
    "SketchRegressor, statistics": (
        lambda e: SketchRegressor(epsilon=e, method="statistics", degree=2, **REACH),
        lambda release: release.scale * 3 / 5 * (1 + 1e-3),  # of every sum; some noise remains
    ),
    "SketchRegressor, auto": (
        lambda e: SketchRegressor(epsilon=e, method="statistics", **REACH),
        lambda release: release.first_scale / 16 * (1 + 1e-3),  # of the first two and of every sum
    ),
    "SketchRegressor, angles": (
        lambda e: SketchRegressor(epsilon=e, method="angles", rows=16, **REACH),
        laplace(),
    ),
    "SketchRegressor, surrogate": (
        lambda e: SketchRegressor(epsilon=e, method="surrogate", rows=16, **REACH),
        laplace(),
    ),
    "SketchAnomalyDetector": (
        lambda e: SketchAnomalyDetector(epsilon=e, bounds=BOX, bins=8, projections=4),
        laplace(9 / 10),
    ),
}


SUMS = ("SketchRegressor, statistics", "SketchRegressor, auto")  # with noise in a cube


def beside(name):
    return TARGETS if "Regressor" in name else KINDS


def cells_of(release):
    """The cells of the first, largest step, class after class where each has its own."""
    if hasattr(release, "parts"):
        return np.concatenate([cells_of(part) for part in release.parts])
    arrays = release._arrays()
    first = ("_counts",) if "_scores" in arrays and "_pairs" in arrays else ("_table", "_inputs")
    used = [array for at, array in arrays.items() if at in first or "_scores" not in arrays]
    return np.concatenate([array.reshape(-1) for array in used]).astype(np.float64)


def outcome(model, data, y):
    """All that a private fit shows besides noise: warnings, shapes, types and texts; and cells."""
    with warnings.catch_warnings(record=True) as heard, noise_from(InsecureSeededSource(0)):
        warnings.simplefilter("always")
        model.fit(data, y)
    arrays = {at: (a.shape, a.dtype) for at, a in model.release_._arrays().items()}
    texts = [str(each.message) for each in heard if "is too small here" not in str(each.message)]
    known = {at: repr(value) for at, value in vars(model).items() if at in ("n_features_in_",)}
    shown = (sorted(vars(model)), known, str(model.statement_), arrays, len(model.to_bytes()))
    return texts, shown, cells_of(model.release_)


def containers(rows):
    """The rows as a list, and where every row has two cells as an array and a frame as well."""
    yield rows
    if all(isinstance(row, list) and len(row) == 2 for row in rows):
        array = np.empty((len(rows), 2), object)
        for position, row in enumerate(rows):
            array[position, 0], array[position, 1] = row
        yield array
        yield pd.DataFrame(array)
        yield np.array([[str(cell) for cell in row] for row in rows])


# Each odd row comes in one container, the next one in another; every one in all takes a minute.
IN_TURN = [
    pytest.param(True, id="in turn"),
    pytest.param(False, id="in all", marks=pytest.mark.soak),
]


def moved_by(name, one, other):
    change = np.abs(one - other)
    return change.max() if name in SUMS else change.sum()


@pytest.mark.filterwarnings("ignore:Sketch.* is too small here:UserWarning")  # by released counts
@pytest.mark.parametrize("in_turn", IN_TURN)
@pytest.mark.parametrize("name", HARD)
def test_no_row_makes_a_private_fit_speak_or_moves_more_than_is_claimed(name, in_turn):
    make, claim = HARD[name]
    most = claim(make(1.0).fit(ROWS, beside(name)).release_) * (1 + 1e-9)
    texts, shown, cells = outcome(make(NEXT_TO_NONE), ROWS, beside(name))
    assert texts == []
    for at, row in enumerate(ODD_ROWS):
        inputs = list(containers([*ROWS, row]))
        for data in [inputs[at % len(inputs)]] if in_turn else inputs:
            found = outcome(make(NEXT_TO_NONE), data, [*beside(name), beside(name)[0]])
            assert found[:2] == ([], shown), (row, type(data))
            assert moved_by(name, found[2], cells) <= most, (row, type(data))
    # No row at all, and one that is replaced, which counts as two.
    for data in ([], [ROWS[0]], [["visitor", 1]], np.empty((0, 2))):
        assert outcome(make(NEXT_TO_NONE), data, beside(name)[: len(data)])[:2] == ([], shown)


ODD_LABELS = [
    "visitor",
    None,
    np.nan,
    pd.NA,
    0.5,
    99,
    -1,
    "7",
    7.0,
    b"7",
    [1],
    [1, 2],
    10**400,
    np.inf,
]


@pytest.mark.filterwarnings("ignore:Sketch.* is too small here:UserWarning")  # by released counts
@pytest.mark.parametrize("in_turn", IN_TURN)
@pytest.mark.parametrize("name", [name for name in HARD if "Classifier" in name or "Regr" in name])
def test_no_label_or_target_makes_a_private_fit_speak(name, in_turn):
    make, claim = HARD[name]
    most = claim(make(1.0).fit(ROWS, beside(name)).release_) * (1 + 1e-9)
    _, shown, cells = outcome(make(NEXT_TO_NONE), ROWS, beside(name))
    for at, label in enumerate(ODD_LABELS):
        column = np.empty(41, object)
        column[:] = [*beside(name), None]
        column[40] = label
        texts = np.array([str(one) for one in column])
        inputs = (list(column), column, pd.Series(column), texts)
        for y in [inputs[at % 4]] if in_turn else inputs:
            found = outcome(make(NEXT_TO_NONE), [*ROWS, [0.3, 0.4]], y)
            assert found[:2] == ([], shown), (label, type(y))
            assert moved_by(name, found[2], cells) <= most, (label, type(y))
