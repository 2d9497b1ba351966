"""What `sfumato density` cannot do is one line, names the remedy, and writes nothing."""

import gzip
import json
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli.density import build as density_build
from sfumato.density import SketchDensity, load
from support.cli_workspace import run

ROWS = "a,b,who,price\n1,2,anna,3\n4,5,bert,6\n7,8,anna,9\n"
SECRETS = ("anna", "bert", "hidden", "1234567")
BOUNDS = ["--bounds", "0,10"]
PRIVATE = [*BOUNDS, "--epsilon", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("bad")
    (here / "t.csv").write_text(ROWS)
    (here / "text.csv").write_text("a,b\n" + "1,2\n" * 70_000 + "3,hidden\n")
    (here / "null.csv").write_text("a,b,who,price\n1,2,anna,3\n4,,,6\n7,8,bert,\n9,nan,bert,2\n")
    (here / "head.csv").write_text("a,b\n")
    (here / "empty.csv").write_text("")
    (here / "x.xlsx").write_text("1 2\n")
    when = pa.array([0, 1], pa.timestamp("s"))
    table = {"a": [1.5, 2.5], "who": ["anna", "bert"], "when": when, "big": [2**53 + 1, 1234567]}
    pq.write_table(pa.table(table), here / "t.parquet")
    np.save(here / "t.npy", np.ones((3, 2)))
    np.save(here / "none.npy", np.ones((0, 2)))
    np.save(here / "line.npy", np.ones(3))
    late = np.ones((70_001, 2))
    late[-1, 1] = np.nan
    np.save(here / "nan.npy", late)
    run(here, "density", "build", "t.csv", "--columns", "a,b", *BOUNDS, "-o", "d")
    run(here, "density", "build", "t.csv", "--columns", "a,b", *BOUNDS, "--label", "who", "-o", "c")
    (here / "cut").write_bytes((here / "d").read_bytes()[:-9])
    return here


BUILDS = [
    (["t.csv", *BOUNDS], "row 1: column 'who' must hold numbers; --columns"),
    (["text.csv", *BOUNDS], "text.csv: row 70001: column 'b' must hold numbers"),
    (["t.csv", "--columns", "a,c"], "no column 'c' (--columns); the columns are: a, b, who, price"),
    (["t.csv", "--columns", "a,a"], "--columns names a column twice"),
    (["t.parquet", "--columns", "a,who"], "column 'who' must hold numbers, not string"),
    (["t.parquet", "--columns", "a,when"], "column 'when' must hold numbers, not timestamp"),
    (["null.csv", "--columns", "a,b", *BOUNDS], "row 2: column 'b' is empty or NaN; --skip-nulls"),
    (["null.csv", "--columns", "a", "--label", "who"], "row 2: column 'who' is empty"),
    (["null.csv", "--columns", "a", "--target", "price"], "row 3: column 'price' is empty"),
    (["nan.npy"], "row 70001: column 'x1' is empty or NaN"),
    (["head.csv", *BOUNDS], "head.csv: has no rows to use"),
    (["head.csv"], "head.csv: has no rows to use"),
    (["none.npy", *BOUNDS], "none.npy: has no rows to use"),
    (["empty.csv"], "a first line with the names"),
    (["line.npy"], "must hold a matrix"),
    (["x.xlsx"], "the name must end in .parquet, .csv"),
    (["no.csv"], "no.csv: there is no such file"),
    (["."], "is a folder"),
    (["t.npy", "--columns", "a"], "there is no column 'a' (--columns); the columns are: 0, 1"),
    (["t.npy", "--label", "a"], "there is no column 'a' (--label); the columns are: 0, 1"),
    (["t.csv", "--columns", "a", "--bounds", "3,1"], "--bounds must be LOW,HIGH"),
    (["t.csv", "--columns", "a", "--bounds", "x,1"], "--bounds must be numbers between commas"),
    (["t.csv", "--columns", "a,b,price", *BOUNDS, *BOUNDS], "or 3 times, once for each of a, b"),
    (["t.csv", "--columns", "a", "--epsilon", "1"], "--epsilon needs --bounds"),
    (["t.csv", "--columns", "a", *PRIVATE, "--label", "who"], "--epsilon needs --classes"),
    (["t.csv", "--columns", "a", *PRIVATE, "--target", "b"], "--epsilon needs --target-bounds"),
    (
        ["t.csv", "--columns", "a", "--label", "who", "--classes", "anna"],
        "row 2 of those used: column 'who'",
    ),
    (["t.csv", "--columns", "a", "--label", "a"], "--columns names 'a'"),
    (["t.csv", "--columns", "a", "--target", "who"], "column 'who' must hold numbers"),
    (["t.csv", "--columns", "a", "--label", "who", "--target", "b"], "takes no --target"),
    (["t.csv", "--columns", "a", "--kind", "regressor"], "needs --target"),
    (["t.csv", "--columns", "a", "--kind", "tree"], "--kind must be one of density, sampler"),
    (["t.csv", "--columns", "a", "--classes", "a,b"], "takes no --classes"),
    (
        ["t.csv", "--columns", "a", "--label", "who", "--categorical", "b"],
        "--categorical names 'b'",
    ),
    (["t.csv", "--columns", "a", "--dataset", "d"], "--dataset does not go without --epsilon"),
    (["t.csv", "--columns", "a", "--delta", "0.1"], "--delta does not go without --epsilon"),
    (["t.csv", "--columns", "a", *PRIVATE, "--dataset", "d"], "--ledger and --dataset go together"),
    (["t.csv", "--columns", "a", *PRIVATE, "--release-id", "d"], "--release-id needs a --ledger"),
    (
        ["t.csv", "--columns", "a", *PRIVATE, "--ledger", "l", "--dataset", "d"],
        "no ledger; make one",
    ),
    (["t.csv", "--columns", "a", *PRIVATE, "--unit", "user"], "contributions must be given"),
    (["t.csv", "--columns", "a", "--bandwidth", "0"], "bandwidth must be"),
]


@pytest.mark.parametrize(("words", "sentence"), BUILDS)
def test_a_build_that_cannot_be_is_one_line_and_no_file(folder, words, sentence):
    before = sorted(folder.iterdir())
    output = run(folder, "density", "build", *words, "-o", "x.d", "--json", code=2)
    assert sentence in " ".join(output.split())
    assert len(output.splitlines()) == 1
    assert not any(secret in output for secret in SECRETS)
    assert sorted(folder.iterdir()) == before


HARD_LINES = [
    "hidden,5,anna,3",
    "4,,bert,6",
    "4,nan,bert,6",
    "4,-inf,bert,1e400",
    "1e300,5,hidden,6",
    "4,5,anna,hidden",
    "4,5",
    "4,5,anna,6,7",
    "",
    '"4,5,anna,6',
    '4,"5",anna,"6"',
    "4,5,\udcff\udcfe,6",
    "4" * 2_000_000,
]
TOLD = {
    "density": [],
    "anomalies": ["--kind", "anomalies"],
    "classifier": ["--label", "who", "--classes", "anna,bert"],
    "regressor": ["--target", "price", "--target-bounds", "0,10"],
}


@pytest.mark.parametrize("kind", TOLD)
def test_no_row_of_a_file_makes_a_private_build_speak(tmp_path, kind, monkeypatch):
    cells = []
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)

    def built(lines):
        text = "\n".join(["a,b,who,price", *lines]) + "\n"
        (tmp_path / "t.csv").write_text(text, errors="surrogateescape")
        words = ["--columns", "a,b", *BOUNDS, "--epsilon", "1e6", *TOLD[kind]]
        shown = run(tmp_path, "density", "build", "t.csv", *words, "-o", "m", "--force", "--json")
        cells.append(cells_of(load(tmp_path / "m").release_))
        released = json.loads(
            shown.splitlines()[0]
        )  # then a warning, by released counts, of no rows
        for noisy in ("intercept", "coefficients", "threshold"):
            released.pop(noisy, None)
        return released

    usual = ROWS.splitlines()[1:] * 5
    shown, before = built(usual), cells[0]
    for line in HARD_LINES:
        at = len(usual) // 2
        assert built([*usual[:at], line, *usual[at:]]) == shown
        assert np.abs(cells[-1] - before).max() <= np.abs(before).max() / 4
    assert built([]) == shown
    assert np.abs(cells[-1]).max() <= np.abs(before).max() / 1000


def cells_of(release):
    """The cells of the first step: of 5 rows at each of 3 places, one more changes a fifth."""
    arrays = release.parts[0]._arrays() if hasattr(release, "parts") else release._arrays()
    return next(iter(arrays.values())).reshape(-1).astype(float)


def test_rows_of_every_form_of_file_are_read_one_by_one_where_they_are_hidden(tmp_path):
    rows = [
        {"a": 1, "b": 2.5},
        {"a": "guest", "b": 1},
        {"b": 2},
        {"a": [1], "b": 2},
        {"a": "3", "b": 4},
    ]
    lines = [json.dumps(row) for row in rows] + ["{", "[" * 5000, "7"]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    with gzip.open(tmp_path / "t.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    (tmp_path / "t.json").write_text(json.dumps([*rows, 7, None]))
    texts = pa.table({"a": ["1", "guest", None, "3"], "b": ["2.5", "1", "2", "4"]})
    pq.write_table(texts, tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", [[1, 2.5], [np.nan, 1], [3, 4]])
    np.save(tmp_path / "none.npy", np.ones((0, 2)))
    want = None
    for name in ("t.jsonl", "t.jsonl.gz", "t.parquet", "t.npy", "none.npy"):
        named = [] if name.endswith("npy") else ["--columns", "a,b"]
        words = [*named, *BOUNDS, "--epsilon", "1e6", "--backend", "race", "--rows", "16"]
        run(tmp_path, "density", "build", name, *words, "-o", "m", "--force")
        cells = load(tmp_path / "m").release_._table
        want = cells if want is None else want
        assert cells.sum() == 2 * 16 if name != "none.npy" else not cells.any()
        assert name == "none.npy" or np.array_equal(cells, want)
    words = ["--columns", "a,b", *BOUNDS, "--epsilon", "1", "--bandwidth", "1"]
    said = run(tmp_path, "density", "build", "t.json", *words, "-o", "n", code=2)
    assert "one object per line" in " ".join(said.split())
    said = run(tmp_path, "density", "build", "t.jsonl", *PRIVATE, "-o", "n", code=2)
    assert "--columns must be given with --epsilon" in " ".join(said.split())


ASKS = [
    (["query", "d"], "a table or with --at"),
    (["query", "d", "t.csv", "--at", "1,2"], "a table or with --at"),
    (["query", "d", "--at", "1"], "--at must be 2 numbers"),
    (["query", "d", "--at", "x,1"], "--at must be numbers"),
    (["query", "d", "--at", "nan,1"], "must be finite"),
    (["query", "d", "--at", "1,2", "--columns", "a"], "--at goes without --columns"),
    (["query", "d", "null.csv"], "null.csv: row 2: column 'b' is empty or NaN; drop or fill"),
    (["query", "d", "text.csv"], "row 70001: column 'b' must hold numbers"),
    (["query", "d", "head.csv"], "has no rows"),
    (["query", "d", "t.parquet"], "there is no column 'b'"),
    (["query", "d", "t.csv", "--columns", "a"], "has 1 columns of points, and the model 2"),
    (
        ["query", "c", "--at", "1,2"],
        "holds a SketchClassifier, and this command asks a SketchDensity",
    ),
    (["query", "cut", "--at", "1,2"], "cut: "),
    (["query", "t.csv", "--at", "1,2"], "t.csv: not a sketch"),
    (["query", "no", "--at", "1,2"], "no: No such file"),
    (["query", ".", "--at", "1,2"], "is a folder, not a model"),
    (["query", "d", "t.csv", "-o", "o.txt"], "must end in .csv, .parquet"),
    (["query", "d", "t.csv", "-o", "no/o.csv"], "there is no folder no"),
    (["query", "d", "t.csv", "-o", "t.csv", "--force"], "is read as well"),
    (["query", "d", "t.csv", "-o", "text.csv"], "use --force"),
    (["query", "d", "--plot", "o.gif"], "must end in .png, .svg, .pdf"),
    (["classify", "d", "--at", "1,2"], "this command asks a SketchClassifier"),
    (["classify", "c", "t.csv", "--label", "x"], "there is no column 'x'"),
    (["classify", "c", "--at", "1,2", "--label", "who"], "--at goes without"),
    (["regress", "c", "--at", "1,2"], "asks a SketchRegressor"),
    (["anomalies", "c", "--at", "1,2"], "asks a SketchAnomalyDetector"),
    (["modes", "c"], "asks a SketchDensity or SketchSampler"),
    (["sample", "c", "-o", "o.csv"], "asks a SketchDensity or SketchSampler"),
    (["sample", "d", "-o", "o.txt"], "must end in .csv, .parquet"),
    (["sample", "d", "-o", "o.csv", "-n", "0"], "-n"),
]


@pytest.mark.parametrize(("words", "sentence"), ASKS)
def test_a_question_without_an_answer_is_one_line_and_no_file(folder, words, sentence):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    output = run(folder, "density", *words, "--json", code=2)
    assert sentence in " ".join(output.split())
    assert len(output.splitlines()) == 1
    assert not any(secret in output for secret in SECRETS)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_rows_with_empty_cells_are_left_out_when_told(folder):
    words = ["density", "build", "null.csv", *BOUNDS, "--skip-nulls", "-o", "skip.d", "--force"]
    run(folder, *words, "--columns", "a,b")
    assert load(folder / "skip.d").sketch_.total == 2
    run(folder, *words, "--columns", "a", "--label", "who")
    assert load(folder / "skip.d").classes_.tolist() == ["anna", "bert"]
    assert [sketch.total for sketch in load(folder / "skip.d").sketches_] == [1, 2]


def test_an_output_is_replaced_only_by_force_and_never_an_input(folder):
    words = ["density", "build", "t.csv", "--columns", "a,b", *BOUNDS, "-o"]
    assert "use --force" in run(folder, *words, "d", code=2)
    assert "is read as well" in run(folder, *words, "t.csv", "--force", code=2)
    assert (folder / "t.csv").read_text() == ROWS
    assert "no folder no" in run(folder, *words, "no/d", code=2)


def test_a_column_of_numbers_is_no_label(tmp_path):
    (tmp_path / "n.csv").write_text("a,b\n" + "".join(f"1,{i}.5\n" for i in range(2000)))
    words = ["density", "build", "n.csv", "--label", "b", "-o", "x.d"]
    assert "a column of numbers is a --target" in run(tmp_path, *words, code=2)


def test_a_column_called_like_an_answer_is_kept(tmp_path):
    (tmp_path / "n.csv").write_text("kernel_mean\n1\n2\n")
    run(tmp_path, "density", "build", "n.csv", "--bounds", "0,9", "-o", "d")
    run(tmp_path, "density", "query", "d", "n.csv", "-o", "o.csv")
    lines = (tmp_path / "o.csv").read_text().splitlines()
    assert lines[0] == '"kernel_mean_given","kernel_mean","log_kernel_mean"'
    assert lines[1].startswith("1,0.")


def test_help_loads_nothing_heavy_and_names_every_kind():
    code = """import sys
from sfumato.cli import main
for name in "- build query classify regress anomalies modes sample".split():
    sys.argv = ["sfumato", "density", *([] if name == "-" else [name]), "--help"]
    try:
        main()
    except SystemExit as left:
        assert left.code == 0
names = "numpy numba pyarrow duckdb sklearn scipy matplotlib rich.table"
print([name for name in names.split() if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    import sfumato.density

    assert {*density_build.KINDS.values()} <= {*sfumato.density.__all__}
    assert density_build.KINDS["density"] == SketchDensity.__name__
