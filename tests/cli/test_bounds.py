"""Bounds have one form in all commands: LOW,HIGH, of all columns, of each in turn, or by name."""

import pytest

from sfumato.cli.bounds import column_bounds, joined
from support.cli_workspace import run, run_json

ROWS = "age,income\n" + "".join(f"{20 + i % 50},{i % 90}\n" for i in range(300))


def test_columns_are_bounded_together_in_turn_or_by_name():
    names = ["age", "income"]
    assert column_bounds(["0,100"], names) == [(0, 100)]
    assert column_bounds(["0,100", "0,9"], names) == [(0, 100), (0, 9)]
    assert column_bounds(["income=0,9", "age=0,100"], names) == [(0, 100), (0, 9)]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (["age=0,100"], "--bounds of column 'income' are missing: --bounds income=LOW,HIGH"),
        (["age=0,1", "income=0,1", "name=0,1"], "names 'name', which is no column; the columns"),
        (["name=0,1"], "names 'name', which is no column; the columns are age, income"),
        (["age=0,1", "0,1"], "for every column that has a name, or for none"),
        (["age=0,1", "age=0,2", "income=0,1"], "names a column twice"),
        (["0,1", "0,1", "0,1"], "it is given 3 times"),
        (["age=1,0", "income=0,1"], "LOW,HIGH, the first below the second, not '1,0'"),
    ],
)
def test_what_does_not_fit_is_refused(written, sentence):
    with pytest.raises(ValueError, match=sentence):
        column_bounds(written, ["age", "income"])


def test_the_form_of_earlier_versions_is_accepted():
    assert joined(["fit", "r.csv", "--bounds", "1", "5", "-q"]) == [
        *["fit", "r.csv", "--bounds", "1,5", "-q"]
    ]
    assert joined(["density", "--bounds", "-1,5", "7"]) == ["density", "--bounds", "-1,5", "7"]
    assert joined([]) == []


def test_a_release_takes_bounds_by_name(tmp_path):
    (tmp_path / "t.csv").write_text(ROWS)
    words = ("--epsilon", "1", "--bounds", "income=0,90", "--bounds", "age=0,100")
    made = run_json(tmp_path, "density", "build", "t.csv", "-o", "d.sfu", *words)
    assert made["parameters"]["bounds"] == [[0.0, 0.0], [100.0, 90.0]]
    found = run(tmp_path, "mine", "cluster", "t.csv", "-k", "2", *words)
    assert "epsilon" in found


@pytest.mark.parametrize("written", [["1,5"], ["1", "5"]])
def test_ratings_take_both_forms(tmp_path, written):
    rows = "".join(f"{i % 30},{i % 20},{1 + i % 5}\n" for i in range(200))
    (tmp_path / "r.csv").write_text("user,item,rating\n" + rows)
    words = ("fit", "r.csv", "-o", "m.sfu", "--epochs", "1", "--bounds", *written)
    run_json(tmp_path, *words)
    assert run_json(tmp_path, "inspect", "m.sfu")["parameters"]["bounds"] == [1.0, 5.0]
    assert "the first below the second" in run(
        tmp_path, *words[: -len(written)], "5,1", "--force", code=2
    )
