"""Features: any library's columns become one checked table, looked up by id and merged."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data import Features

CELLS = [["Drama", "War"], "Drama", None, ["War", "War"]]


def rows(features):
    return features.to_arrow().to_pylist()


@pytest.mark.parametrize("library", ["list", "numpy", "arrow", "pandas", "polars"])
def test_columns_of_any_library_are_the_same_table(library):
    ids, texts, years = [4, 7], ["A storm.", ""], [1995, 2001]
    made = {
        "list": lambda column: column,
        "numpy": np.array,
        "arrow": pa.array,
        "pandas": lambda column: pytest.importorskip("pandas").Series(column),
        "polars": lambda column: pytest.importorskip("polars").Series(column),
    }[library]
    found = Features(made(ids), made(texts), {"year": made(years)}, {"length": made([1.5, 2.0])})
    assert rows(found) == [
        {"id": 4, "text": "A storm.", "year": ["1995"], "length": 1.5},
        {"id": 7, "text": "", "year": ["2001"], "length": 2.0},
    ]


def test_a_cell_has_any_number_of_values_each_once():
    found = Features(["a", "b", "c", "d"], categories={"genre": CELLS})
    assert [row["genre"] for row in rows(found)] == [["Drama", "War"], ["Drama"], [], ["War"]]
    split = Features(["a", "b"], categories={"genre": ["War | Drama", "|"]}, separator="|")
    assert [sorted(row["genre"]) for row in rows(split)] == [["Drama", "War"], []]


def test_rows_are_found_taken_and_merged_by_id():
    first = Features([1, 2, 3], ["a", "b", "c"], {"kind": ["x", "y", "x"]}, {"n": [1, 2, 3]})
    assert first.positions([3, 9]).tolist() == [2, -1]
    assert rows(first.take([2, 0])) == [rows(first)[2], rows(first)[0]]
    more = Features([2, 4], ["B", "d"], {"kind": ["z", "x"]}, {"n": [5, 6]})
    merged = first.merge(more)
    wanted = [rows(first)[0], rows(first)[2], *rows(more)]
    assert rows(merged) == wanted
    assert len(merged) == 4
    with pytest.raises(ValueError, match="cannot merge, the columns differ"):
        first.merge(Features([9], ["text"]))
    with pytest.raises(TypeError, match="cannot merge, ids are integers and text"):
        Features([1], ["a"]).merge(Features(["a"], ["a"]))
    with pytest.raises(ValueError, match="rows must be integers from 0 to 2"):
        first.take([3])


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"ids": [1, 2, 1], "texts": ["a"] * 3}, ValueError, "row 2 repeats an id"),
        ({"ids": [1, 2], "texts": ["a", None]}, ValueError, "row 1; give '' or drop the row"),
        ({"ids": [1, 2], "texts": [3, 4]}, TypeError, "texts must be texts, not int64"),
        ({"ids": [1, 2]}, ValueError, "there is no feature"),
        ({"ids": [1, 2], "texts": ["a"]}, ValueError, "texts must have one cell per id, 2, not 1"),
        ({"ids": [1], "categories": {"a:b": ["x"]}}, ValueError, "named by texts without ':'"),
        ({"ids": [1], "categories": ["x"]}, TypeError, "must be a mapping of names to columns"),
        ({"ids": [1, 2], "categories": {"a": ["x", {}]}}, TypeError, "do not go together"),
        ({"ids": [1], "numbers": {"n": [float("nan")]}}, ValueError, "not a finite number"),
        (
            {"ids": [1], "categories": {"n": ["x"]}, "numbers": {"n": [1]}},
            ValueError,
            "other names than categories",
        ),
        ({"ids": [1], "texts": ["a"], "separator": ""}, ValueError, "separator must be a text"),
    ],
)
def test_what_is_no_table_of_features_is_refused_with_the_remedy(given, error, sentence):
    with pytest.raises(error, match=r"^Features|^n:") as raised:
        Features(**given)
    assert sentence in str(raised.value)


def test_the_printed_form_shows_no_rows():
    secret = Features(["secret id"], ["secret text"], {"kind": ["secret value"]})
    assert repr(secret) == "Features(rows=1, texts=True, categories={'kind': 1})"
    assert "secret" not in secret._repr_html_()
    assert "secret" not in repr(secret.categories["kind"])
