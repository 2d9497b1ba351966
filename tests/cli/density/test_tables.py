"""`density build --kind samples` describes a table by its options, and `sample` draws its types."""

import numpy as np
import pandas as pd
import pytest

from sfumato.density import PrivateTableSampler, SketchSampler, load
from support.cli_workspace import result_of, run, run_json

PUBLIC = [
    *("--label", "buys", "--classes", "no,yes", "--categorical", "city=Paris,Rome"),
    *("--bounds", "age=18,90", "--bounds", "income=0,200", "--integers", "age"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    buys, age = rng.random(9000) < 0.4, rng.integers(18, 91, 9000)
    income = np.clip(age * 2 + rng.normal(0, 9, 9000), 0, 200).round(2)
    city, label = np.where(buys, "Rome", "Paris"), np.where(buys, "yes", "no")
    table = pd.DataFrame(dict(age=age, income=income, city=city, buys=label)).astype(object)
    table.iloc[3, 1], table.iloc[4, 2], table.iloc[5, 3] = "hidden", "Oslo", "maybe"
    table.to_csv(here / "t.csv", index=False)
    table[["age", "income"]].iloc[10:].to_csv(here / "points.csv", index=False)
    return here


def test_samples_with_epsilon_are_of_the_table(folder):
    build = ["density", "build", "t.csv", "-o", "m", "--kind", "samples", "--epsilon", "2"]
    shown = run_json(folder, *build, *PUBLIC)
    assert shown["kind"] == "PrivateTableSampler"
    assert abs(shown["size"] - 8997) < 300
    assert shown["pairs"]
    assert shown["parameters"]["columns"]["age"] == [18, 90]
    assert isinstance(load(folder / "m"), PrivateTableSampler)
    run(folder, "density", "sample", "m", "-o", "drawn.csv", "-n", "4000", "--seed", "1")
    drawn = pd.read_csv(folder / "drawn.csv")
    assert [*drawn] == ["age", "income", "city", "buys"]
    assert drawn["age"].dtype == np.int64
    assert ((drawn["city"] == "Rome") == (drawn["buys"] == "yes")).mean() > 0.97
    assert drawn["age"].corr(drawn["income"]) > 0.7


def test_samples_of_points_alone_are_of_a_sketch(folder):
    build = ["density", "build", "points.csv", "--bounds", "0,200", "--kind", "samples", "-o"]
    run(folder, *build, "open")
    assert isinstance(load(folder / "open"), SketchSampler)
    run(folder, *build, "kernel", "--epsilon", "1", "--bandwidth", "9")
    assert isinstance(load(folder / "kernel"), SketchSampler)
    run(folder, *build, "table", "--epsilon", "1")
    assert isinstance(load(folder / "table"), PrivateTableSampler)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kind", "table", "--bounds", "0,9"], "--kind table needs --epsilon"),
        (["--epsilon", "1", "--kind", "table", *PUBLIC[4:6]], "--bounds"),
        (["--epsilon", "1", "--kind", "table", "--label", "buys", *PUBLIC[4:]], "--classes"),
        (["--epsilon", "1", "--kind", "table", *PUBLIC, "--rows", "9"], "takes no --rows"),
        (["--epsilon", "1", "--kind", "density", *PUBLIC[4:]], "takes no --integers"),
        (["--epsilon", "1", "--kind", "table", *PUBLIC, "--integers", "who"], "names 'who'"),
        (["--epsilon", "1", "--kind", "table", *PUBLIC, "--categorical", "city"], "NAME=A,B"),
    ],
)
def test_what_a_table_cannot_be_built_with_is_named(folder, options, words):
    out = result_of(folder, "density", "build", "t.csv", "-o", "none", *options, code=2)
    assert words in out.stderr
    assert "hidden" not in out.stderr
    assert not (folder / "none").exists()
