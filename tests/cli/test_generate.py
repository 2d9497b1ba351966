"""`sfumato generate` writes the file that the pages of the documentation begin with."""

import pytest

from sfumato.data import generate_world, read_interactions
from support.cli_workspace import run, run_json


def test_the_file_has_the_rows_of_the_generated_world(tmp_path):
    found = run_json(tmp_path, "generate", "-o", "c.csv", "--users", "40", "--rows", "500")
    assert found == {"file": "c.csv", "rows": 500, "users": 40, "items": 200}
    rows = read_interactions(tmp_path / "c.csv")
    world = generate_world(users=40, items=200, ratings=500).interactions
    assert (rows.users == world.users).all()
    assert (rows.items == world.items).all()
    assert (rows.times == world.times).all()
    assert not rows.has_ratings


def test_stars_are_ratings_of_any_kind_of_file(tmp_path):
    run(tmp_path, "generate", "-o", "r.parquet", "--stars", "--rows", "500", "--seed", "3")
    rows = read_interactions(tmp_path / "r.parquet")
    world = generate_world(users=300, items=200, ratings=500, random_state=3).interactions
    assert (rows.ratings == world.ratings).all()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("-o c.txt", "must end in .csv, .parquet"),
        ("-o c.csv --users 10 --items 20 --rows 101", "--rows must be 1 to 100"),
        ("-o c.csv --rows 0", "--rows must be 1 to 30000"),
        ("-o c.csv --users 0 --rows 0", "'--users': Input should be greater than or equal to 1"),
    ],
)
def test_what_cannot_be_generated_is_refused_by_the_option(tmp_path, words, sentence):
    assert sentence in run(tmp_path, "generate", *words.split(), code=2)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays(tmp_path):
    (tmp_path / "c.csv").write_text("mine")
    assert "--force" in run(tmp_path, "generate", "-o", "c.csv", code=2)
    assert (tmp_path / "c.csv").read_text() == "mine"
