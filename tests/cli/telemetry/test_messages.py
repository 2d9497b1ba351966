"""What a first user of the telemetry commands gets wrong is said, in words of the command line."""

import numpy as np
import pytest

from sfumato.cli.telemetry import values as _telemetry_values
from sfumato.telemetry import Counts, Rappor, ReportEncoder, Reports, read_reports, write_reports
from sfumato.telemetry.reports.google_csv import write_reports_csv
from sfumato.telemetry.schemes.google_rappor import GoogleRappor
from support.cli_workspace import run, run_json

SCHEME = Rappor(bits=16, hashes=2, cohorts=4, f=0.5, metric="drink")
GOOGLE = GoogleRappor(16, 2, 4, f=0.5)
ENCODE = ["telemetry", "encode", "--params", "drink.json", "-o", "x"]
AGGREGATE = ["telemetry", "aggregate", "-o", "x"]
DECODE = ["telemetry", "decode", "drink.counts", "--candidates"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "drink.json").write_text(SCHEME.to_json())
    (tmp_path / "google.json").write_text(GOOGLE.to_json())
    sent = ReportEncoder(SCHEME, seed=1).encode_many(["tea", "milk"] * 50)
    write_reports(tmp_path / "r.ndjson", sent)
    Counts(SCHEME).update(sent).save(tmp_path / "drink.counts")
    (tmp_path / "words.txt").write_text("tea\nmilk\n")
    (tmp_path / "empty.txt").write_text("")
    return tmp_path


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 1 << 22])
def test_an_empty_line_is_reported_as_no_value_but_for_the_last(folder, monkeypatch, end, chunk):
    monkeypatch.setattr(_telemetry_values, "CHUNK", chunk)
    for lines, values in (
        (["tea", "", "milk"], ["tea", None, "milk"]),
        (["", "tea"], ["", "tea"]),
        (["tea", "milk", "", "", ""], ["tea", "milk", ""]),
        (["tea", "milk", "rum", "", "gin", ""], ["tea", "milk", "rum", "", "gin"]),
    ):
        (folder / "v.txt").write_bytes(end.join(lines).encode())
        assert run_json(folder, *ENCODE, "v.txt", "--seed", "3")["reports"] == len(values)
        sent = Reports.concat(read_reports(folder / "x", SCHEME))
        assert sent == ReportEncoder(SCHEME, seed=3).encode_many(values)
        skipped = run_json(folder, *ENCODE, "v.txt", "--skip-nulls", "--force")
        assert skipped["reports"] == len([each for each in lines if each])
        assert skipped["empty_lines_left_out"] >= 1
        (folder / "x").unlink()
    for lines in (["tea", "milk"], ["tea", "milk", ""], ["tea", "milk", "", ""]):
        (folder / "v.txt").write_bytes(end.join(lines).encode())
        assert run_json(folder, *ENCODE, "v.txt", "--seed", "3", "--force")["reports"] == 2
        (batch,) = read_reports(folder / "x", SCHEME)
        assert batch == ReportEncoder(SCHEME, seed=3).encode_many(["tea", "milk"])


def test_associate_says_that_rows_are_clients(folder):
    shown = " ".join(run(folder, "telemetry", "associate", "--help").split())
    assert "Row r of both files must be the same client" in shown


def test_a_csv_cannot_find_duplicates_and_says_so(folder):
    write_reports_csv(folder / "a.csv", ReportEncoder(GOOGLE, seed=1).encode_many(["tea"] * 9))
    words = [*AGGREGATE, "a.csv", "a.csv", "--params", "google.json"]
    document = run_json(folder, *words)
    assert (document["accepted"], document["finds_duplicates"]) == (18, False)
    assert "counted twice" in document["note"]
    assert not Counts.load(folder / "x").keep_ids
    assert "note" not in run_json(folder, *AGGREGATE, "drink.counts", "--force")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([*AGGREGATE, "empty.txt", "--params", "drink.json"], "empty.txt holds no report"),
        ([*ENCODE, "empty.txt"], "holds no value"),
        ([*ENCODE[:-1], "x.csv", "words.txt"], "lines of JSON; name it .ndjson"),
        ([*AGGREGATE, "none.ndjson"], "none.ndjson: there is no such file"),
        ([*AGGREGATE, "drink.json", "r.ndjson"], "not reports; write --params drink.json"),
        ([*AGGREGATE, "r.ndjson", "--params", "r.ndjson"], "r.ndjson: holds reports"),
        ([*AGGREGATE, "r.ndjson", "--params", "empty.txt"], "empty.txt: is empty"),
        ([*AGGREGATE, "drink.counts", "drink.counts"], "Give each file once"),
        (["telemetry", "params", "--epsilon", "-1"], "--epsilon must be"),
        (["telemetry", "params", "--epsilon", "1", "--epsilon-one", "0"], "--epsilon-one must be"),
        ([*DECODE, "table.csv"], "For a table add --column NAME; for a plain list"),
        (
            ["telemetry", "params", "wide.csv"],
            "Make a .json of it: sfumato telemetry params FILE --own -o params.json",
        ),
    ],
)
def test_the_sentence_has_the_remedy(folder, words, sentence):
    (folder / "table.csv").write_text("w\ntea\n")
    (folder / "wide.csv").write_text("k,h,m,p,q,f\n48,2,8,0.25,0.75,0.5\n")
    output = run(folder, *words, code=2)
    assert sentence in output
    assert "`" not in output
    assert output.count("\n") == 1
    assert not (folder / "x").exists()


def test_parameters_as_csv_say_what_they_lose(folder):
    words = ["telemetry", "params", "drink.json", "-o", "z.csv"]
    note = run_json(folder, *words)["note"]
    assert "metric" in note
    assert "--own" in note
    assert note in run(folder, *words, "--force")
    assert (
        "--own" not in run_json(folder, "telemetry", "params", "google.json", "-o", "g.csv")["note"]
    )


def test_inspect_knows_reports(folder):
    document = run_json(folder, "inspect", "r.ndjson")
    assert document["kind"] == "telemetry reports"
    assert document["fingerprint"] == SCHEME.fingerprint
    assert "telemetry aggregate" in run(folder, "inspect", "r.ndjson")


def test_a_value_of_no_category_is_reported_and_nothing_is_said(folder):
    (folder / "more.txt").write_text("tea\nmilk\nrum\n")
    (folder / "less.txt").write_text("tea\nmilk\ntea\n")
    for scheme in ("rappor", "hadamard", "subset-selection"):
        words = ["--scheme", scheme, "--epsilon", "2", "--categories", "words.txt"]
        run(folder, "telemetry", "params", *words, "-o", "drink.json", "--force")
        shown = [
            run_json(folder, *ENCODE, file, "--force") | {"seconds": 0}
            for file in ("more.txt", "less.txt")
        ]
        assert shown[0] == shown[1]
        assert shown[0]["reports"] == 3


def test_repeated_candidates_and_outer_spaces_are_noted(folder):
    (folder / "list.txt").write_text("tea\nmilk \ntea\nrum\n")
    notes = run_json(folder, *DECODE, "list.txt")["notes"]
    assert "list.txt: repeated values left out: 1." in notes
    assert any("begin or end with a space" in note for note in notes)
    assert all(note in run(folder, *DECODE, "list.txt") for note in notes)
    assert not any("words.txt" in note for note in run_json(folder, *DECODE, "words.txt")["notes"])


def test_the_screen_says_none_and_leaves_out_what_is_no_number(folder):
    shown = run(folder, "inspect", "drink.counts")
    assert "all=0" not in shown
    assert "none" in shown
    run(folder, *AGGREGATE, "drink.counts", "r.ndjson")
    assert "100: duplicate 100" in run(folder, "inspect", "x")
    Counts(SCHEME).save(folder / "drink.counts")
    assert np.isnan(Counts(SCHEME).dispersion().cohorts)
    assert " nan" not in run(folder, *DECODE, "words.txt")
    words = ["--categories", "words.txt", "--epsilon", "2"]
    assert "1 cohorts" not in run(folder, "telemetry", "params", *words)


def test_help_is_of_whole_phrases(folder):
    for command, phrases in (
        ("params", ["Bits of a report", "Probability that a 0 is reported as 1", "Epsilon of one"]),
        ("decode", ["Allowed fraction of false discoveries; intervals have confidence 1 - level"]),
        ("plan", ["How many reports are expected", "Epsilon of all reports"]),
    ):
        shown = " ".join(run(folder, "telemetry", command, "--help").split())
        assert all(phrase in shown for phrase in phrases)
