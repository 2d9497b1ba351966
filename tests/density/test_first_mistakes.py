"""What a newcomer does wrong is told in the name of what was called, with place and remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato.sketch
from sfumato.density import SketchClassifier, SketchDensity, load
from sfumato.sketch import KernelGrid, SketchFormatError

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
    told = f"SketchDensity: X must hold numbers; column {column} holds text; give codes 0, 1, "
    with pytest.raises(ValueError, match=told) as error:
        SketchDensity(bounds=(0, 99)).fit(data)
    assert not any(job in str(error.value) for job in TABLE["job"])


def test_categorical_columns_are_given_by_number_or_name():
    table = pd.DataFrame({"age": POINTS[:, 0], "sex": LABELS})
    asked = dict(bounds=([0, 0], [1, 1]), classes=[0, 1])
    by_name = SketchClassifier(categorical=["sex"], **asked).fit(table, LABELS)
    by_number = SketchClassifier(categorical=[1], **asked).fit(table, LABELS)
    assert by_name.tables_ == by_number.tables_
    assert load(by_name.to_bytes()).predict(table).tolist() == LABELS.tolist()
    with pytest.raises(ValueError, match="categorical names 'age2', and X has no such column"):
        SketchClassifier(categorical=["age2"]).fit(table, LABELS)
    with pytest.raises(ValueError, match="X has no names of columns; give its number"):
        SketchClassifier(categorical=["sex"]).fit(table.to_numpy(), LABELS)
    with pytest.raises(ValueError, match="categorical must be a whole number from 0 to 1, not 5"):
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
def test_a_row_without_a_label_is_told_by_its_number(labels):
    with pytest.raises(ValueError, match=r"SketchClassifier: y must hold a label .*row 2 .*Drop"):
        SketchClassifier().fit(POINTS[:4], labels)


def test_a_row_whose_label_is_no_class_is_told_by_its_number():
    with pytest.raises(ValueError, match=r"SketchClassifier: .*not in classes, at row 3;") as error:
        SketchClassifier(classes=["a", "b"]).fit(POINTS[:4], ["a", "b", "a", "flu"])
    assert "flu" not in str(error.value)


def test_errors_of_a_release_name_the_estimator(tmp_path):
    private = dict(epsilon=1.0, bounds=(0, 1))
    for more, told in (
        (dict(dataset="visits"), "ledger and dataset go together"),
        (dict(unit="user"), "contributions must be given"),
        (dict(epsilon=1e-14), "the noise would not fit"),
    ):
        with pytest.raises(ValueError, match=f"^SketchDensity: .*{told}"):
            SketchDensity(**{**private, **more}).fit(POINTS)
    with pytest.raises(FileNotFoundError, match=r"^SketchDensity: there is no ledger"):
        SketchDensity(**private, ledger=tmp_path / "none", dataset="visits").fit(POINTS)


@pytest.mark.filterwarnings("ignore:SketchDensity. epsilon .* is too small here:UserWarning")
def test_files_of_sketches_and_releases_say_what_they_are_and_how_to_read_them(tmp_path):
    sketch = KernelGrid(1.0, (0, [1, 1])).update(POINTS)
    sketch.save(tmp_path / "sketch")
    with pytest.raises(SketchFormatError, match=r"load: .*'KernelGrid', a sketch; .*sketch\.load"):
        load(tmp_path / "sketch")
    told = r"'ReleasedKernelGrid', a release; .*load and take SketchDensity.from_release\(release\)"
    data = sketch.release(1.0).to_bytes()
    for read in (load, SketchDensity.from_bytes):
        with pytest.raises(SketchFormatError, match=told):
            read(data)
    assert SketchDensity.from_release(sfumato.sketch.load(data)).backend_ == "grid"


def test_auto_takes_kernels_only_where_the_columns_are_wide_alike():
    for wide, method in ((4.0, "kernel"), (4.5, "columns")):
        model = SketchClassifier(bounds=([0, 0], [1, wide])).fit(POINTS, LABELS)
        assert model.method_ == method


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_a_classifier_of_columns_has_no_sketch_to_name(epsilon):
    asked = dict(method="columns", bounds=(0, 1), classes=[0, 1], epsilon=epsilon)
    model = SketchClassifier(**asked).fit(POINTS, LABELS)
    assert model.backend_ == load(model.to_bytes()).backend_ == "columns"
    if epsilon:
        assert SketchClassifier.from_release(model.release_).backend_ == "columns"
