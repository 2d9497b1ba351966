"""Bounds have one form in all commands: LOW,HIGH, of all columns, of each in turn, or by name."""

import pytest
import typer

from sfumato.cli import app
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


@pytest.mark.parametrize("written", [["1,5"], ["1", "5"], ["rating=1,5"]])
def test_ratings_take_all_forms(tmp_path, written):
    rows = "".join(f"{i % 30},{i % 20},{1 + i % 5}\n" for i in range(200))
    (tmp_path / "r.csv").write_text("user,item,rating\n" + rows)
    words = ("fit", "r.csv", "-o", "m.sfu", "--epochs", "1", "--bounds", *written)
    run_json(tmp_path, *words)
    assert run_json(tmp_path, "inspect", "m.sfu")["parameters"]["bounds"] == [1.0, 5.0]
    assert "the first below the second" in run(
        tmp_path, *words[: -len(written)], "5,1", "--force", code=2
    )


def test_ratings_are_named_as_the_file_or_the_option_names_them(tmp_path):
    rows = "".join(f"{i % 30},{i % 20},{1 + i % 5}\n" for i in range(200))
    (tmp_path / "r.csv").write_text("user,item,rating\n" + rows)
    (tmp_path / "s.csv").write_text("user,item,stars\n" + rows)
    fit = ("-o", "m.sfu", "--epochs", "1", "--force", "--bounds")
    chosen = ("--rating-column", "stars")
    run_json(tmp_path, "fit", "s.csv", *fit, "stars=1,5", *chosen)
    assert run_json(tmp_path, "inspect", "m.sfu")["parameters"]["bounds"] == [1.0, 5.0]
    for words, sentence in (
        (("s.csv", *fit, "rating=1,5", *chosen), "no column; the column is stars"),
        (("r.csv", *fit, "stars=1,5"), "no column; the column is rating"),
        (("r.csv", *fit, "1,5", "--bounds", "1,4"), "must be given once; it is given 2 times"),
        (("r.csv", *fit, "rating=5,1"), "the first below the second"),
    ):
        assert sentence in run(tmp_path, "fit", *words, code=2)


def test_a_private_fit_takes_bounds_by_name(shop):
    words = ("--epsilon", "2", "--delta", "1e-6", "--catalogue", "items.txt")
    words += ("--accounts", "users.txt", "-o", "p.sfu", "--bounds", "rating=1,5")
    assert run_json(shop, "fit", "train.csv", *words)["parameters"]["bounds"] == [1.0, 5.0]


def test_a_target_takes_the_same_form(tmp_path):
    (tmp_path / "t.csv").write_text(ROWS)
    words = ("density", "build", "t.csv", "-o", "d.sfu", "--target", "income", "--force")
    words += ("--epsilon", "1", "--bounds", "age=0,100", "--target-bounds")
    for written in ("0,90", "income=0,90"):
        made = run_json(tmp_path, *words, written)
        assert made["parameters"]["target_bounds"] == [0.0, 90.0]
    assert "--target-bounds names 'age', which is no column; the column is income" in run(
        tmp_path, *words, "age=0,90", code=2
    )


def test_every_command_with_bounds_has_one_option_and_one_help_text():
    found = {
        (tuple(option.opts), option.metavar, option.help)
        for command in commands(typer.main.get_command(app))
        for option in command.params
        if "--bounds" in option.opts
    }
    assert len(found) == 1


def commands(group):
    for each in group.commands.values():
        yield from commands(each) if hasattr(each, "commands") else [each]
