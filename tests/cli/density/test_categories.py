"""`sfumato density build --categorical city=A,B,...` and `classify` read text by public lists."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sfumato.density import SketchClassifier, load
from support.cli_workspace import result_of, run, run_json

CITIES = ["Paris", "Rome", "New York, NY"]
LIST = 'city=Paris,Rome,"New York, NY"'
BUILD = ["density", "build", "t.csv", "--columns", "age,city", "--label", "kind"]
PRIVATE = ["--classes", "a,b", "--epsilon", "1"]
AGES = ["--bounds", "0,100"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 4000)
    code = np.where(rng.random(4000) < 0.85, label, 2)
    age = rng.normal(40 + 8 * label, 10, 4000).round(3)
    cities, kinds = np.array(CITIES)[code], np.array(["a", "b"])[label]
    return pa.table({"age": age, "city": cities, "code": code, "kind": kinds})


@pytest.fixture(scope="module")
def folder(tmp_path_factory, rows):
    here = tmp_path_factory.mktemp("categories")
    pa.csv.write_csv(rows, here / "t.csv")
    pq.write_table(rows, here / "t.parquet", row_group_size=1000)
    (here / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    run(here, *BUILD, *PRIVATE, *AGES, "--categorical", LIST, "-o", "private.d")
    return here


def accuracy(folder, model, table="t.csv"):
    return run_json(folder, "density", "classify", model, table, "--label", "kind")["accuracy"]


def test_a_text_column_is_as_good_as_its_codes(folder):
    columns = [*BUILD[:4], "age,code", *BUILD[5:], "--categorical", "code"]
    sides = ["--bounds", "age=0,100", "--bounds", "code=0,2"]
    run(folder, *columns, *sides, "-o", "codes.d")
    run(folder, *BUILD, *AGES, "--categorical", LIST, "-o", "texts.d")
    assert accuracy(folder, "texts.d") == accuracy(folder, "codes.d") > 0.85
    run(folder, *columns, *sides, *PRIVATE, "-o", "private_codes.d")
    assert accuracy(folder, "private.d") == pytest.approx(
        accuracy(folder, "private_codes.d"), abs=0.02
    )


def test_every_form_of_file_makes_the_model_of_the_library(folder, rows):
    expected = SketchClassifier(categorical={"city": CITIES}, random_state=0)
    expected.fit(rows.select(["age", "city"]), rows["kind"].to_numpy())
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        words = [*BUILD[:2], name, *BUILD[3:], "--categorical", LIST, "-o", f"{name}.d"]
        document = run_json(folder, *words)
        assert document["parameters"]["categorical"] == {"city": CITIES}
        assert load(folder / f"{name}.d").to_bytes() == expected.to_bytes()
        assert accuracy(folder, "private.d", name) == accuracy(folder, "private.d")


def test_answers_show_the_texts(folder, rows):
    words = ["density", "classify", "private.d"]
    found = run_json(folder, *words, "t.csv")["rows"]
    assert [row["city"] for row in found] == rows["city"].to_pylist()
    points = run_json(folder, *words, "--at", '44,"New York, NY"', "--at", "44,Rome")["rows"]
    assert [row["city"] for row in points] == ["New York, NY", "Rome"]
    expected = load(folder / "private.d").predict(
        pa.table({"age": [44.0, 44.0], "city": CITIES[:0:-1]})
    )
    assert [row["class"] for row in points] == expected.tolist()
    assert "'city': ['Paris', 'Rome', 'New York, NY']" in " ".join(
        run(folder, *BUILD, "--categorical", LIST, "-o", "shown.d").split()
    )


def test_a_model_without_names_reads_columns_by_position(folder, rows):
    frame = rows.select(["age", "city"]).to_pandas().to_numpy()
    model = SketchClassifier(categorical={1: CITIES}).fit(frame, rows["kind"].to_numpy())
    model.save(folder / "unnamed.d")
    words = ["density", "classify", "unnamed.d", "t.csv", "--columns", "age,city"]
    found = run_json(folder, *words)["rows"]
    assert [row["class"] for row in found] == model.predict(frame).tolist()


def test_lists_and_codes_go_together_and_need_no_bounds_of_lists(folder):
    columns = [*BUILD[:4], "age,city,code", *BUILD[5:], *PRIVATE]
    both = ["--categorical", LIST, "--categorical", "code"]
    for bounds in (["age=0,100", "code=0,2"], ["0,100", "0,2"]):
        sides = [word for each in bounds for word in ("--bounds", each)]
        run(folder, *columns, *both, *sides, "-o", "both.d", "--force")
        assert load(folder / "both.d").bounds_ == ((0.0, 0.0, 0.0), (100.0, 2.0, 2.0))
    alone = [*BUILD[:4], "city", *BUILD[5:], *PRIVATE, "--categorical", LIST]
    run(folder, *alone, "-o", "alone.d")
    assert load(folder / "alone.d").release_.levels == (3,)


def test_a_text_column_without_a_list_is_named_as_a_cause_after_the_release(folder):
    words = [*BUILD, *PRIVATE, "--categorical", "city", "--bounds", "0,100", "-o", "none.d"]
    said = result_of(folder, *words, "--json").stderr
    assert said.count("is too small here") == said.count("without a list in categorical") == 1
    assert "Paris" not in said


ERRORS = [
    (["--categorical", "city=Paris,Rome"], "column 'city' holds a category that its list does not"),
    (["--categorical", "city=Paris"], "--categorical must list the categories of a column"),
    (["--categorical", "town=Paris,Rome"], "--categorical names 'town', which is no column"),
    (["--categorical", LIST, "--categorical", "city"], "--categorical names a column twice"),
    (["--categorical", LIST, *PRIVATE], "--epsilon needs --bounds"),
    (["--categorical", LIST, "--bounds", "city=0,2"], "--bounds names 'city', which is no"),
]


@pytest.mark.parametrize(("words", "sentence"), ERRORS)
def test_what_cannot_be_is_one_line(folder, words, sentence):
    said = run(folder, *BUILD, *words, "-o", "x.d", "--json", code=2)
    assert sentence in " ".join(said.split())
    assert len(said.splitlines()) == 1
    assert "New York" not in said
    assert not (folder / "x.d").exists()


def test_unlisted_categories_are_left_out_as_empty_cells_are(folder, rows):
    short = ["--categorical", "city=Paris,Rome"]
    run(folder, *BUILD, *short, "--skip-nulls", "-o", "short.d")
    used = np.isin(rows["city"].to_numpy(), CITIES[:2]).sum()
    assert load(folder / "short.d").tables_.sizes.sum() == used
    said = run(folder, "density", "classify", "short.d", "t.csv", code=2)
    assert "column 'city' holds a category that its list does not name" in " ".join(said.split())


HARD_LINES = ["50,Lima,a", "50,,a", "50,nan,b", "50,\udcff,a", "50,7,a", '50,"Rome,a', "Rome,50,a"]
HARD_LINES += ["50,Rome", "50,Rome,a,b", "", "50,paris,a"]


def test_no_category_of_a_private_file_changes_another_row(tmp_path):
    def counts(lines):
        text = "\n".join(["age,city,kind", *lines]) + "\n"
        (tmp_path / "t.csv").write_text(text, errors="surrogateescape")
        words = ["--classes", "a,b", "--epsilon", "1e6", *AGES, "--categorical", "city=Paris,Rome"]
        said = run(tmp_path, *BUILD, *words, "-o", "m", "--force")
        assert "Lima" not in said
        return load(tmp_path / "m").release_._counts

    usual = ["31,Paris,a", "52,Rome,b", '47,"Paris",b'] * 5
    before = counts(usual)
    for line in HARD_LINES:
        assert np.array_equal(counts([*usual[:7], line, *usual[7:]]), before), line
    one_more = counts([*usual, "50,Rome,a"]) - before
    assert one_more.sum() == 2  # a cell of each column


def test_categories_of_other_forms_of_private_files_are_read_one_by_one(tmp_path):
    rows = [{"age": 31, "city": city, "kind": "a"} for city in (["x"], {}, None, 7, True, "Rome")]
    (tmp_path / "t.jsonl").write_text("\n".join([*map(json.dumps, rows), "{", "7"]))
    typed = pa.table({"age": [31.0] * 3, "city": ["Lima", None, "Rome"], "kind": ["a"] * 3})
    pq.write_table(typed, tmp_path / "t.parquet")
    for name in ("t.jsonl", "t.parquet"):
        words = [*BUILD[:2], name, *BUILD[3:], "--classes", "a,b", "--epsilon", "1e6", *AGES]
        run(tmp_path, *words, "--categorical", "city=Paris,Rome", "-o", "m", "--force")
        assert load(tmp_path / "m").release_._counts.sum() == 2
