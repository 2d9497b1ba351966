"""Columns with public lists of categories are read cell by cell, from every container."""

import datetime
import math
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from sfumato.density import SketchClassifier, load
from sfumato.density.base import noise_from
from sfumato.density.classify.categories import CategoryList, category_key
from sfumato.privacy.random_source import InsecureSeededSource
from support.hard_rows import silent
from support.release_plans import NEXT_TO_NONE

CITIES = ["Paris", "Rome", "Oslo"]


def town(rows=4000, seed=0):
    """Ages, codes of cities, and a class on which both depend."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    code = np.where(rng.random(rows) < 0.85, label, 2)
    return rng.normal(40 + 8 * label, 10, rows), code, label


AGE, CODE, LABEL = town()
TEXTS = pd.DataFrame({"age": AGE, "city": np.array(CITIES)[CODE]})
CODES = pd.DataFrame({"age": AGE, "city": CODE})
LISTED = dict(categorical={"city": CITIES}, bounds=(0, 100), classes=[0, 1])
CODED = dict(categorical=["city"], bounds=([0, 0], [100, 2]), classes=[0, 1])


def fitted(data, labels, **how):
    with noise_from(InsecureSeededSource(3)):
        return SketchClassifier(**how).fit(data, labels)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_texts_of_a_list_are_its_codes(epsilon):
    texts = fitted(TEXTS, LABEL, epsilon=epsilon, **LISTED)
    codes = fitted(CODES, LABEL, epsilon=epsilon, **CODED)
    assert texts.bounds_ == codes.bounds_ == ((0.0, 0.0), (100.0, 2.0))
    assert (texts.predict_proba(TEXTS) == codes.predict_proba(CODES)).all()
    assert texts.score(TEXTS, LABEL) == codes.score(CODES, LABEL) > 0.85
    assert texts.categories_ == {1: tuple(CITIES)}
    assert codes.categories_ == {}


def containers(frame):
    yield frame.astype({"city": "category"})
    yield pl.from_pandas(frame)
    yield pa.Table.from_pandas(frame, preserve_index=False)
    yield pa.Table.from_pandas(frame.astype({"city": "category"}), preserve_index=False)


def rows_of(frame):
    yield frame.to_numpy()
    yield frame.to_numpy().astype(str)
    yield frame.to_numpy().tolist()
    yield np.ma.array(frame.to_numpy(), mask=False)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_every_container_gives_the_same_model(epsilon):
    few, labels = TEXTS[:300], LABEL[:300]
    expected = fitted(few, labels, epsilon=epsilon, **LISTED)
    for data in containers(few):
        model = fitted(data, labels, epsilon=epsilon, **LISTED)
        assert model.to_bytes() == expected.to_bytes()
        assert (model.predict_proba(data) == expected.predict_proba(few)).all()
    box = dict(categorical={1: CITIES}, bounds=([0, 0], [100, 2]), classes=[0, 1])
    for data in rows_of(few):
        model = fitted(data, labels, epsilon=epsilon, **box)
        assert (model.predict_proba(data) == expected.predict_proba(few)).all()


def test_integers_and_their_texts_are_one_category():
    sizes = np.array([10, 20, 50])[CODE]
    models = [
        fitted(pd.DataFrame({"size": sizes.astype(kind)}), LABEL, categorical={"size": listed})
        for kind in (int, float, str, object)
        for listed in ([10, 20, 50], ["10", "20", "50"])
    ]
    assert all(model.tables_ == models[0].tables_ for model in models)
    box = dict(categorical={1: [10, 20, 50]}, bounds=([0, 0], [100, 2]), classes=[0, 1])
    rows = np.column_stack([AGE, sizes])
    private = [fitted(data, LABEL, epsilon=1.0, **box) for data in (rows, rows.tolist())]
    assert private[0].release_ == private[1].release_
    assert private[0].bounds_ == ((0.0, 0.0), (100.0, 2.0))
    found = CategoryList((0, 1, "7", "x")).codes([7, "7.0", b"7", True, "False", -0.0, "-0.0"])
    assert found.tolist() == [2, 2, 2, 1, 0, 0, 0]
    dates = datetime.date(2024, 1, 2), np.datetime64("2024-01-02"), pd.Timestamp("2024-01-02")
    for cell in (None, math.nan, "nan", "", pd.NA, pd.NaT, [1], 10**400, *dates):
        assert category_key(cell) is None or np.isnan(CategoryList((0, 1)).codes([cell])[0])


def test_codes_and_lists_go_together():
    both = pd.concat([TEXTS, CODES["city"].rename("code")], axis=1)
    mixed = {"city": CITIES, "code": None}
    model = fitted(both, LABEL, categorical=mixed, bounds=([0, 0], [100, 2]))
    assert model.tables_.levels == (0, 3, 3)
    assert model.bounds_ == ((0.0, 0.0, 0.0), (100.0, 2.0, 2.0))
    assert fitted(both, LABEL, categorical=mixed).bounds_[1][1:] == (2.0, 2.0)
    alone = fitted(
        TEXTS[["city"]], LABEL, categorical={"city": CITIES}, epsilon=1.0, classes=[0, 1]
    )
    assert alone.bounds_ == ((0.0,), (2.0,))  # no bounds are needed


# Rows whose city is not in the list, and those that write a listed one otherwise.
UNLISTED = [
    *("Lima", "", "paris", None, math.nan, pd.NA, pd.NaT, 7, 0, 1.5, True, b"\xff", "\ud800"),
    *([1], {}, ("Rome",), 10**400, 10**5000, datetime.date(2024, 1, 2), np.ma.masked, object()),
]
WRITTEN = ["Rome", b"Rome", np.str_("Rome")]
USUAL = TEXTS[:40].to_numpy().tolist()
BOX = dict(categorical={1: CITIES}, bounds=([0, 0], [100, 2]), classes=[0, 1])


def with_row(city):
    """The usual rows and one more as a list, an array and a frame."""
    rows = [*USUAL, [50.0, city]]
    array = np.empty((len(rows), 2), object)
    for at, row in enumerate(rows):
        array[at, 0], array[at, 1] = row
    return rows, array, pd.DataFrame(array, columns=["age", "city"], dtype=object)


@pytest.mark.parametrize("method", ["columns", "kernel"])
def test_an_unlisted_category_changes_nothing_but_its_own_row(method):
    def release(data, labels):
        model = SketchClassifier(epsilon=NEXT_TO_NONE, method=method, bandwidth=5.0, **BOX)
        with warnings.catch_warnings(), noise_from(InsecureSeededSource(0)):
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".* is too small here")  # by released numbers
            return model.fit(data, labels).release_.to_bytes()

    labels = [*LABEL[:40].tolist(), 0]
    without, one_more = release(USUAL, labels[:40]), release([*USUAL, [50.0, "Rome"]], labels)
    for cities, expected in ((UNLISTED, without), (WRITTEN, one_more)):
        for city in cities:
            for data in with_row(city):
                assert release(data, labels) == expected, (city, type(data))
    for row in ([], [50.0], [50.0, "Rome", 1], None, "Rome", ["Rome", 50.0], {"city": "Rome"}):
        assert release([*USUAL, row], labels) == without


def test_a_report_counts_unlisted_categories_as_dropped():
    model = SketchClassifier(epsilon=1.0, **BOX)
    data = [*USUAL, [50.0, "Lima"], [500.0, "Rome"]]
    report = model.input_report(data, [*LABEL[:40], 0, 0])
    assert report == {"rows": 42, "dropped": 1, "clipped": 1}


def test_files_keep_the_lists():
    for given in ({"city": CITIES}, {1: CITIES}, {"city": np.array(CITIES)}):
        for epsilon in (None, 1.0):
            model = fitted(TEXTS, LABEL, **{**LISTED, "categorical": given}, epsilon=epsilon)
            restored = load(model.to_bytes())
            assert restored.to_bytes() == model.to_bytes()
            assert restored.categories_ == {1: tuple(CITIES)}
            assert list(restored.categorical) == list(given)
            assert (restored.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()
    older = fitted(CODES, LABEL, **CODED)
    assert "categories" not in older._state()  # the file has what files without lists have


def test_parameters_are_kept_as_given_and_shown():
    given = {"city": CITIES}
    model = SketchClassifier(categorical=given)
    assert model.get_params()["categorical"] is given
    assert clone(model).categorical == given
    assert "'Paris', 'Rome', 'Oslo'" in repr(model)
    assert clone(model).fit(TEXTS, LABEL).categorical == given


def test_a_release_takes_lists_that_fit_its_codes():
    model = fitted(TEXTS, LABEL, epsilon=1.0, **LISTED)
    again = SketchClassifier.from_release(model.release_, categorical={1: CITIES})
    plain = TEXTS.to_numpy()
    assert (again.predict_proba(plain) == model.predict_proba(TEXTS)).all()
    assert load(again.to_bytes()).categories_ == again.categories_
    for wrong in ({1: CITIES[:2]}, {0: CITIES}, {}):
        with pytest.raises(ValueError, match=r"categorical must name the columns of codes|bounds"):
            SketchClassifier.from_release(model.release_, categorical=wrong)


def test_merged_classifiers_have_the_same_lists():
    how = dict(method="kernel", bandwidth=5.0, **LISTED)
    one, other = (SketchClassifier(**how).fit(part, LABEL[:200]) for part in (TEXTS[:200],) * 2)
    turned = SketchClassifier(**{**how, "categorical": {"city": CITIES[::-1]}})
    one.merge(other).partial_fit(TEXTS[200:300], LABEL[200:300])
    assert sum(sketch.total for sketch in one.sketches_) == 500
    with pytest.raises(ValueError, match="categories_ or classes_ differ"):
        one.merge(turned.fit(TEXTS[:200], LABEL[:200]))


@pytest.mark.parametrize("city", ["Lima", None, math.nan, 7])
def test_without_epsilon_an_unlisted_category_is_named_by_row_and_column(city):
    data = TEXTS[:20].copy().astype({"city": object})
    data.loc[4, "city"] = city
    message = "SketchClassifier: X must hold listed categories; row 4, column 'city' holds none"
    model = SketchClassifier(**LISTED)
    for call in (lambda: model.fit(data, LABEL[:20]), lambda: model.predict(data)):
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert "Lima" not in str(error.value)
        model.fit(TEXTS, LABEL)
    with pytest.raises(ValueError, match=r"row 4, column 1 holds none"):
        SketchClassifier(categorical={1: CITIES}).fit(data.to_numpy(), LABEL[:20])


def test_queries_need_the_columns_of_the_fit():
    model = SketchClassifier(categorical={1: CITIES}).fit(TEXTS.to_numpy(), LABEL)
    with pytest.raises(ValueError, match="X has 1 columns, but 2 are expected"):
        model.predict(TEXTS.to_numpy()[:, :1])
    with pytest.raises(ValueError, match="feature names"):
        SketchClassifier(**LISTED).fit(TEXTS, LABEL).predict(TEXTS[["city", "age"]])


ERRORS = [
    ({"categorical": {"city": ["Paris"]}}, "two or more texts or integers"),
    ({"categorical": {"city": "Paris"}}, "must list the categories of a column"),
    ({"categorical": {"city": [7, "7", "x"]}}, "none twice: 7 and '7' are one"),
    ({"categorical": {"city": ["a", None]}}, "none of them empty or 'nan'"),
    ({"categorical": {"city": ["a", 0.5]}}, "two or more texts or integers"),
    ({"categorical": {"city": ["a", 2**53 + 1]}}, "two or more texts or integers"),
    ({"categorical": {"town": CITIES}}, "categorical names 'town', and X has no such column"),
    ({"categorical": {7: CITIES}}, "categorical must be an integer from 0 to 1, not 7"),
    ({"categorical": {"city": CITIES, 1: CITIES}}, "names a column twice"),
    ({"bounds": ([0, 0], [100, 5])}, "must be 0 and 2, its last code, not 0.0 and 5.0"),
    ({"bounds": ([0, 0, 0], [1, 1, 1])}, "bounds must be for 1 columns, those without a list"),
    ({"bounds": None, "epsilon": 1.0}, "bounds must be given with epsilon"),
]


@pytest.mark.parametrize(("given", "message"), ERRORS)
def test_what_is_no_list_is_refused(given, message):
    with pytest.raises(ValueError, match=f"SketchClassifier: .*{re.escape(message)}"):
        SketchClassifier(**{**LISTED, **given}).fit(TEXTS, LABEL)


def test_a_list_of_private_rows_needs_bounds_of_all_columns():
    with pytest.raises(ValueError, match="bounds must have one number per column where X is a"):
        SketchClassifier(epsilon=1.0, **{**BOX, "bounds": (0, 100)}).fit(USUAL, LABEL[:40])


@pytest.mark.parametrize("method", ["columns", "kernel"])
def test_a_release_of_noise_alone_is_reported_by_released_numbers(method):
    # The text column has no list, so every row is dropped. A miss needs 3 deviations of noise.
    public = dict(method=method, epsilon=1.0, classes=[0, 1], bounds=([0, 0], [100, 2]))
    for data in (TEXTS, TEXTS[:0]):
        with pytest.warns(UserWarning, match="text in a column without a list in categorical"):
            fitted(data, LABEL[: len(data)], **public)
    silent(lambda: fitted(CODES, LABEL, **public))


NEIGHBOURS = {
    "integers": ([7, 8, 2**53 - 1], [7, 8, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 3, 0]),
    "texts": (["Rome", "7", "0.5"], ["Rome", "Rome\0", "7", "7.0", "Oslo", "e\u0301", "true"]),
    "floats": (["7", "0.5", "0"], [7.0, 0.5, 0.0, -0.0, -1.0, 2.0**53, 1e22]),
    "bytes": (["Rome", "Oslo"], [b"Rome", b"Oslo", b"Rome\0", b"Rome\0\0"]),
}
COLUMNS = {
    "array": np.array,
    "series": pd.Series,
    "nullable": lambda cells: pd.Series(cells).convert_dtypes(),
    "category": lambda cells: pd.Series(cells, dtype="category"),
    "arrow": pa.array,
    "list": list,
}
ODD_CELLS = [None, math.nan, "x", "", b"x", 2**70, 10**400, -(2**53) - 1, 0.5, True, 2**63, pd.NA]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_no_cell_changes_how_another_is_read_by_the_type_of_their_column(kind, column):
    categories, cells = NEIGHBOURS[kind]
    listed = CategoryList(tuple(categories))
    alone = listed.codes(cells)
    tried = 0
    for odd in ODD_CELLS:
        try:
            container = COLUMNS[column]([*cells, odd])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue  # no such column can be made
        tried += 1
        assert np.array_equal(listed.codes(container)[:-1], alone, equal_nan=True), odd
    assert tried


HARD = {"int": 2**70, "long": 2**2000, "uint": 2**63, "tuple": ("Rome",), "bytes": b"\xff"}


@pytest.mark.parametrize("name", HARD)
def test_no_category_of_pandas_raises(name):
    cities = pd.Series(pd.Categorical([*np.array(CITIES)[CODE], HARD[name]]))
    frame = pd.DataFrame({"age": [*AGE, 40.0], "city": cities})
    found = silent(lambda: fitted(frame, [*LABEL, 1], epsilon=1.0, **LISTED))
    usual = fitted(TEXTS, LABEL, epsilon=1.0, **LISTED)
    assert (found.release_._counts == usual.release_._counts).all()


@pytest.mark.parametrize("large", [2**53, -(2**53), str(2**53), "1e+22", "9007199254740993.0"])
def test_a_number_that_floats_cannot_tell_from_others_is_no_category(large):
    with pytest.raises(ValueError, match=r"categorical must list .* from 2\*\*53 on"):
        SketchClassifier(categorical={0: [7, large]}).fit([[7.0], [8.0]], [0, 1])
    assert np.isnan(CategoryList((7, 8)).codes([large])).all()


def test_a_list_of_rows_names_the_bounds_it_lacks():
    model = SketchClassifier(
        categorical={1: CITIES}, bounds=([0], [100]), classes=[0, 1], epsilon=1.0
    )
    with pytest.raises(ValueError, match="bounds must be for every column of a list of rows"):
        model.fit([[40.0, "Rome"]] * 20, [0, 1] * 10)
