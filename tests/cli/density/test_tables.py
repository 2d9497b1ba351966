"""`density build --kind samples` describes a table by its options, and `sample` draws its types."""

import numpy as np
import pandas as pd
import pytest

from sfumato.density import PrivateTableSampler, SketchSampler, load
from sfumato.density.synthesize import sampler
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


ODD_LINES = {
    "zero byte": b"40,1,Ro\0me,yes\n",
    "only zeros": b"\0\0,\0,\0,\0\n",
    "not UTF-8": b"40,1,\xe9,\xe9\n",
    "not closed": b'40,"1,Rome,yes\n',
    "too few fields": b"40,1\n",
    "too many fields": b"40,1,Rome,yes,9\n",
    "no line": b"\n",
    "thousands of digits": b"9" * 5000 + b",1,Rome,yes\n",
    "thousands of digits of a class": b"40,1,Rome," + b"9" * 5000 + b"\n",
    "infinite": b"40,1e999,Rome,yes\n",
    "a date": b"2026-01-01,1,Rome,yes\n",
    "carriage return": b"40\r,1,Rome,yes\r\n",
}


@pytest.mark.parametrize("odd", ODD_LINES.values(), ids=ODD_LINES)
@pytest.mark.parametrize("place", [1, 20, 41])
def test_no_line_of_a_private_table_stops_the_command_or_changes_another(
    tmp_path, monkeypatch, odd, place
):
    found, real = [], sampler.codes_of
    monkeypatch.setattr(sampler, "codes_of", lambda *given: found.append(real(*given)) or found[-1])
    rows = [f"{20 + k},{k}.5,{'Rome' if k % 2 else 'Paris'},yes\n".encode() for k in range(40)]
    lines = [b"age,income,city,buys\n", *rows]
    for name, text in (("good.csv", lines), ("odd.csv", [*lines[:place], odd, *lines[place:]])):
        (tmp_path / name).write_bytes(b"".join(text))
        build = ["density", "build", name, "-o", "m", "--kind", "table", "--epsilon", "2"]
        run(tmp_path, *build, "--force", *PUBLIC)
    good, other = (codes.tolist() for codes in found)
    more = [other[place - 1]] if len(other) > len(good) else []
    assert other == [*good[: place - 1], *more, *good[place - 1 :]]
