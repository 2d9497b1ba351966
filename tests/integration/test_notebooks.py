"""The example notebooks run, and what they printed and drew is stored in them."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.ipynb"))
LOCAL = [path for path in EXAMPLES if "spark" not in path.stem]


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def kinds(notebook):
    """The kinds of output of each cell of code."""
    run = script(ROOT / "examples" / "run.py")
    return [
        [next(iter(each.get("data", {"text": 0}))) for each in cell["outputs"]]
        for cell in run.cells(notebook)
    ]


def runs_as_stored(path):
    stored = json.loads(path.read_text())
    executed = script(ROOT / "examples" / "run.py").execute(json.loads(path.read_text()), path.stem)
    assert kinds(executed) == kinds(stored)


@pytest.mark.parametrize("path", LOCAL, ids=lambda path: path.stem)
def test_a_notebook_runs(path, monkeypatch):
    monkeypatch.setenv("SFUMATO_BASKETS", "50000")
    runs_as_stored(path)


def test_the_notebook_on_spark_runs(spark):  # in the session that other tests use
    runs_as_stored(ROOT / "examples" / "sketch_on_spark.ipynb")


def test_there_are_six_and_the_page_lists_them():
    text = (ROOT / "docs" / "examples.md").read_text()
    assert len(EXAMPLES) == 6
    for path in EXAMPLES:
        assert f"(../examples/{path.name})" in text
        assert f"\nexamples/{path.stem}\n" in text


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_outputs_are_stored_and_name_no_machine(path):
    text = path.read_text()
    notebook = json.loads(text)
    assert notebook["nbformat"] == 4
    counts = [cell["execution_count"] for cell in notebook["cells"] if "outputs" in cell]
    assert counts == list(range(1, len(counts) + 1))
    assert sum(map(len, kinds(notebook))) >= 3
    assert "Error" not in text.replace("BudgetExceeded", "")
    for word in ("/work", "/tmp", "/home", "/root"):
        assert word not in text


def test_the_baskets_were_ten_million():
    assert "10,000,000 baskets, " in (ROOT / "examples" / "ten_million_baskets.ipynb").read_text()


def test_pages_of_the_notebooks_have_their_words_code_and_outputs():
    notebooks = script(ROOT / "docs" / "notebooks.py")
    text, pictures = notebooks.page("live_recommender")
    assert text.startswith("# A live recommender in 1 MB")
    assert text.count("```python") == 4
    assert "newcomers" in text
    assert len(pictures) == 1
    assert all(f"]({name})" in text for name in pictures)


def test_an_error_in_a_cell_stops_the_run():
    cell = {"cell_type": "code", "source": ["1 / 0"], "outputs": []}
    with pytest.raises(ZeroDivisionError):
        script(ROOT / "examples" / "run.py").execute({"cells": [cell]})
