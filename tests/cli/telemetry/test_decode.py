"""`sfumato telemetry` decode and plan tell what the library does, on screen, in files and drawn."""

import io
import json

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from sfumato.cli.demo.telemetry import telemetry
from sfumato.cli.telemetry.figure import DOUBTFUL, FOUND, OTHER
from sfumato.telemetry import (
    Counts,
    Rappor,
    ReportEncoder,
    decode,
    plan,
    read_reports,
    write_reports,
)
from sfumato.telemetry.schemes.base import read_scheme
from support.cli_workspace import run, run_json

SCHEME = Rappor(bits=32, hashes=2, cohorts=8, f=0.4)
WORDS = [f"word{i}" for i in range(30)]
ABSENT = ["never", "a$b$c", "<b>&", "[red]x"]
COLUMNS = ("estimate", "std_error", "low", "high", "p_value")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """20,000 reports of 30 Zipf words, of which 25 are candidates, beside 4 that nobody has."""
    here = tmp_path_factory.mktemp("decode")
    shares = 1 / np.arange(1, 31)
    drawn = np.random.default_rng(4).choice(30, 20_000, p=shares / shares.sum())
    sent = ReportEncoder(SCHEME, seed=4).encode_many(np.array(WORDS)[drawn])
    write_reports(here / "r.ndjson", sent)
    Counts(SCHEME).update(sent).save(here / "r.counts")
    Counts(SCHEME).save(here / "zero.counts")
    (here / "p.json").write_text(SCHEME.to_json())
    (here / "list.txt").write_text("\n".join([*WORDS[:25], *ABSENT]))
    return here


def decoded(folder, *words):
    return run_json(folder, "telemetry", "decode", *words, "--candidates", "list.txt")


@pytest.mark.parametrize("method", ["weighted", "lasso", "likelihood"])
def test_the_table_is_that_of_the_library(folder, method):
    (sent,) = read_reports(folder / "r.ndjson", SCHEME)
    data = sent if method == "likelihood" else Counts(SCHEME).update(sent)
    options = {"method": method, "level": 0.1, "correction": "bonferroni"}
    expected = decode(data, [*WORDS[:25], *ABSENT], **options)
    words = ["--method", method, "--level", "0.1", "--correction", "bonferroni"]
    document = decoded(folder, "r.ndjson", "--params", "p.json", *words)
    table = json.loads(expected.to_json())
    assert {name: document[name] for name in table} == table
    assert document["refused"] == {}


def test_counts_and_reports_decode_alike(folder):
    by_counts, by_reports = (
        decoded(folder, *words) for words in (["r.counts"], ["r.ndjson", "--params", "p.json"])
    )
    by_counts.pop("seconds"), by_reports.pop("seconds")
    assert by_counts == by_reports


def test_files_hold_the_whole_table_and_the_screen_its_top(folder):
    expected = decode(Counts.load(folder / "r.counts"), [*WORDS[:25], *ABSENT])
    words = ["telemetry", "decode", "r.counts", "--candidates", "list.txt", "-n", "3", "--force"]
    for ending in ("csv", "parquet", "json"):
        shown = run(folder, *words, "-o", f"t.{ending}")
        assert "word0" in shown
        assert "word9 " not in shown
        assert "no candidate" in shown
    for table in (pyarrow.csv.read_csv(folder / "t.csv"), pq.read_table(folder / "t.parquet")):
        assert table["value"].to_pylist() == [*WORDS[:25], *ABSENT]
        for name in COLUMNS:
            assert np.allclose(table[name], expected[name], equal_nan=True)
    stored = json.loads((folder / "t.json").read_text())
    assert stored == json.loads(expected.to_json())


def test_the_picture_has_bars_that_were_found_others_and_the_rest(folder):
    from matplotlib.image import imread

    words = ["telemetry", "decode", "r.counts", "--candidates", "list.txt", "-n", "29"]
    run(folder, *words, "--plot", "bars.png")
    pixels = (imread(folder / "bars.png")[..., :3] * 255).round().astype(int)
    assert pixels.shape[1] > 900
    for colour, least in ((FOUND, 5000), (DOUBTFUL, 500), (OTHER, 200)):  # letters have fewer
        rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        assert (np.abs(pixels - rgb).max(axis=2) <= 2).sum() > least
    run(folder, *words, "--plot", "bars.svg")
    assert (folder / "bars.svg").read_text().startswith("<?xml")


def test_categories_need_no_list(tmp_path):
    scheme = Rappor(categories=["tea", "milk", "rum"], f=0.3)
    (tmp_path / "p.json").write_text(scheme.to_json())
    sent = ReportEncoder(scheme, seed=1).encode_many(["tea", "milk", "tea"] * 200)
    write_reports(tmp_path / "r.ndjson", sent)
    found = run_json(tmp_path, "telemetry", "decode", "r.ndjson", "--params", "p.json")
    expected = decode(Counts(scheme).update(sent), scheme.domain)
    table = json.loads(expected.to_json())
    assert {name: found[name] for name in table} == table


def test_more_candidates_than_counts_is_said_with_the_rank(folder):
    (folder / "many.txt").write_text("\n".join(f"w{i}" for i in range(400)))
    words = ["telemetry", "decode", "r.counts", "--candidates", "many.txt"]
    document = run_json(folder, *words)
    assert not document["identified"]
    assert str(document["rank"]) in " ".join(document["notes"])
    assert document["notes"][0] in run(folder, *words)


def test_counts_of_no_report_find_nothing(folder):
    document = decoded(folder, "zero.counts")
    assert document["reports"] == 0
    assert not any(row["detected"] for row in document["rows"])
    run(folder, "telemetry", "decode", "zero.counts", "--candidates", "list.txt", "--plot", "z.png")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["r.counts"], "give --candidates"),
        (["r.counts", "--candidates", "empty.txt"], "holds no candidates"),
        (["r.counts", "--candidates", "none.txt"], "none.txt: there is no such file"),
        (["r.ndjson", "--candidates", "list.txt"], "give --params"),
        (["r.counts", "--candidates", "list.txt", "--method", "best"], "method must be"),
        (["r.counts", "--candidates", "list.txt", "--method", "likelihood"], "holds counts"),
        (["r.counts", "--candidates", "list.txt", "--level", "2"], "level must be"),
        (["r.counts", "--candidates", "list.txt", "--correction", "all"], "correction must be"),
        (["r.counts", "--candidates", "list.txt", "-o", "x.txt"], "must end in .csv"),
        (["r.counts", "--candidates", "list.txt", "--plot", "x.gif"], "must end in .png"),
        (["list.txt", "--candidates", "list.txt", "--params", "p.json"], "no report"),
    ],
)
def test_what_is_wrong_is_one_sentence(folder, words, sentence):
    (folder / "empty.txt").write_text("\n\n")
    output = run(folder, "telemetry", "decode", *words, code=2)
    assert sentence in output
    assert output.count("\n") == 1


PLAN = ["telemetry", "plan", "--reports", "100000", "--epsilon", "2"]


def test_a_plan_is_that_of_the_library_and_writes_its_parameters(folder):
    found = plan(100_000, 2, 50, level=0.01)
    words = [*PLAN, "--dictionary", "50", "--level", "0.01", "--metric", "drink", "-o", "plan.json"]
    document = run_json(folder, *words)
    assert document.pop("file") == "plan.json"
    assert document == json.loads(found.to_json())
    written = read_scheme((folder / "plan.json").read_text())
    assert (written.metric, written.cells) == ("drink", found.recommended.scheme.cells)
    shown = run(folder, *words, "--force")
    assert f"Recommended: {found.recommended.name}" in shown
    assert "PrivacyStatement" in shown


def test_a_plan_for_known_values_names_them_in_the_file(folder):
    (folder / "few.txt").write_text("yes\nno\nmaybe\n")
    run(folder, *PLAN, "--categories", "few.txt", "-o", "few.json")
    assert read_scheme((folder / "few.json").read_text()).domain == ["yes", "no", "maybe"]
    for words, sentence in (
        ([*PLAN, "--dictionary", "3", "--known", "-o", "x.json"], "give --categories"),
        (PLAN, "give either --dictionary"),
        ([*PLAN, "--dictionary", "1"], "--dictionary must be"),
    ):
        assert sentence in run(folder, *words, code=2)
    assert not (folder / "x.json").exists()


def test_the_demo_finds_the_frequent_words():
    rows = telemetry(Console(file=io.StringIO()), reports=50_000)
    frequent, absent = rows[:2], rows[-1]
    # The first two words are 20 standard errors above 0, and off by more than 6 once in 1e9 runs.
    for row in frequent:
        error = (row["high"] - row["low"]) / 3.92
        assert row["found"]
        assert abs(row["estimate"] - row["truth"]) < 6 * error
    assert absent["truth"] == 0
