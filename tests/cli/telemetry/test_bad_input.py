"""What is invalid in telemetry files is counted or named in one sentence; no value is shown."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.telemetry import Counts, Rappor, ReportEncoder, Reports, write_reports
from support.cli_workspace import run, run_json

SCHEME = Rappor(bits=16, hashes=2, cohorts=4, f=0.5)
OTHER = Rappor(bits=16, hashes=2, cohorts=4, f=0.6)
SECRET = "xyzzyPrivateValue"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p.json").write_text(SCHEME.to_json())
    (tmp_path / "other.json").write_text(OTHER.to_json())
    sent = ReportEncoder(SCHEME, seed=1).encode_many(["tea", "milk"] * 50)
    write_reports(tmp_path / "r.ndjson", sent)
    write_reports(tmp_path / "other.ndjson", ReportEncoder(OTHER, seed=2).encode_many(["tea"] * 7))
    Counts(SCHEME).update(sent).save(tmp_path / "c.counts")
    Counts(SCHEME).save(tmp_path / "zero.counts")
    (tmp_path / "words.txt").write_text("tea\nmilk\nrum\n")
    (tmp_path / "rows.txt").write_text("n;w\n1;tea\n2;milk\n")
    return tmp_path


def aggregate(folder, *words):
    return run_json(folder, "telemetry", "aggregate", *words)


def changed(line, **fields):
    return json.dumps({**json.loads(line), **fields})


def test_each_bad_line_is_counted_by_its_reason_and_the_rest_is_kept(folder):
    lines = (folder / "r.ndjson").read_text().splitlines()
    bad = [
        lines[0][:40],  # cut off
        SECRET,
        '{"v":1}',
        "[1]",
        "\x00\xff",
        changed(lines[1], cohort=4),
        changed(lines[1], cohort=-1),
        changed(lines[1], bits="00"),
        changed(lines[1], v=2),
        changed(lines[1], params=OTHER.fingerprint),
        lines[2],  # sent again
    ]
    mixed = [*lines[:50], *bad, "", *lines[50:]]
    (folder / "mixed.ndjson").write_text("\n".join(mixed), encoding="latin-1")
    document = aggregate(folder, "mixed.ndjson", "--params", "p.json", "-o", "m.counts")
    assert document["accepted"] == 100
    assert document["refused"] == {
        "all": 11,
        "unreadable": 5,
        "cohort": 2,
        "length": 1,
        "version": 1,
        "parameters": 1,
        "duplicate": 1,
    }
    good = Counts.load(folder / "c.counts")
    assert np.array_equal(Counts.load(folder / "m.counts").cells, good.cells)
    assert SECRET not in json.dumps(document)
    assert SECRET.encode() not in (folder / "m.counts").read_bytes()


def test_reports_of_other_parameters_are_refused_and_named(folder):
    both = ["r.ndjson", "other.ndjson"]
    document = aggregate(folder, *both, "--params", "p.json", "-o", "m.counts")
    assert (document["accepted"], document["refused"]) == (100, {"all": 7, "parameters": 7})
    words = ["telemetry", "aggregate", "other.ndjson", "--params", "p.json", "-o", "x"]
    assert "parameters 7" in run(folder, *words, code=2)
    assert not (folder / "x").exists()


def test_a_cut_off_gzip_keeps_what_came_before(folder):
    packed = gzip.compress((folder / "r.ndjson").read_bytes() * 1, mtime=0)
    (folder / "cut.ndjson.gz").write_bytes(packed[: len(packed) // 2])
    document = aggregate(folder, "cut.ndjson.gz", "--params", "p.json", "-o", "m.counts")
    assert 0 < document["accepted"] < 100
    assert document["refused"]["unreadable"] >= 1


def test_marks_that_no_client_makes_are_refused(folder):
    odd = Rappor(bits=12, hashes=2, cohorts=4, f=0.5)
    (folder / "odd.json").write_text(odd.to_json())
    payload = np.array([[0xFF, 0xFF], [0xFF, 0x0F]], np.uint8)
    sent = Reports(odd, [0, 1], payload, np.arange(32, dtype=np.uint8).reshape(2, 16))
    write_reports(folder / "odd.ndjson", sent)
    document = aggregate(folder, "odd.ndjson", "--params", "odd.json", "-o", "m.counts")
    assert (document["accepted"], document["refused"]) == (1, {"all": 1, "marks": 1})
    decoded = ["telemetry", "decode", "odd.ndjson", "--params", "odd.json", "--candidates"]
    for method in ("weighted", "likelihood"):
        found = run_json(folder, *decoded, "words.txt", "--method", method)
        assert (found["reports"], found["refused"]) == (1, {"marks": 1})


def test_all_methods_take_the_same_reports(folder):
    """A report that was refused has used no id, wherever it is read."""
    lines = (folder / "r.ndjson").read_text().splitlines()
    odd = Rappor(bits=13, hashes=2, cohorts=4, f=0.5)
    (folder / "odd.json").write_text(odd.to_json())
    lines = [changed(line, params=odd.fingerprint, bits="0300") for line in lines[:9]]
    (folder / "a.ndjson").write_text("\n".join([changed(lines[0], bits="00ff"), *lines, lines[3]]))
    decoded = ["telemetry", "decode", "a.ndjson", "--params", "odd.json", "--candidates"]
    for method in ("weighted", "likelihood"):
        found = run_json(folder, *decoded, "words.txt", "--method", method)
        assert (found["reports"], found["refused"]) == (9, {"marks": 1, "duplicate": 1})


def test_values_of_people_are_in_no_sentence(folder):
    (folder / "kinds.txt").write_text("tea\nmilk\n")
    (folder / "some.txt").write_text(f"tea\n{SECRET}\n")
    (folder / "some.csv").write_text(f"n,w\n1,tea\n2,{SECRET}\n")
    (folder / "odd.csv").write_text(f"n,w\n1,tea\n2,{SECRET},3\n")
    (folder / "latin.txt").write_bytes(f"tea\n{SECRET}é\n".encode("latin-1"))
    pq.write_table(pa.table({"w": ["tea", None, SECRET]}), folder / "null.parquet")
    for name, words in (("cats", ["--categories", "kinds.txt"]), ("bins", ["--edges", "0,1,2"])):
        run(folder, "telemetry", "params", "--epsilon", "2", *words, "-o", f"{name}.json")
    encode = ["telemetry", "encode", "-o", "x", "--params"]
    output = run(folder, *encode, "p.json", "odd.csv", "-c", "w", code=2)
    assert "odd.csv" in output
    assert SECRET not in output
    assert not (folder / "x").exists()
    for words, reports in (
        (["cats.json", "some.txt"], 2),
        (["cats.json", "some.csv", "-c", "w"], 2),
        (["bins.json", "some.txt"], 2),
        (["bins.json", "some.csv", "-c", "w"], 2),
        (["bins.json", "null.parquet", "-c", "w"], 3),
        (["bins.json", "some.csv", "-c", "n"], 2),
        (["p.json", "latin.txt"], 2),
        (["p.json", "null.parquet", "-c", "w"], 3),
    ):
        output = run(folder, *encode, *words, "--force", "--json")
        assert json.loads(output)["reports"] == reports
        assert SECRET not in output
    skipped = run_json(
        folder, *encode, "p.json", "null.parquet", "-c", "w", "--skip-nulls", "--force"
    )
    assert skipped["reports"] == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["params", "-o", "x"], "give either --epsilon, or --f"),
        (["params", "-f", "0.5", "--epsilon", "2", "-o", "x"], "give either --epsilon, or --f"),
        (["params", "--epsilon-one", "1", "-o", "x"], "goes with --epsilon"),
        (["params", "--epsilon", "2", "--q", "0.9", "-o", "x"], "--q does not go with --epsilon"),
        (["params", "-f", "1.5", "-o", "x"], "f must be"),
        (["params", "-f", "0.5", "--bits", "0", "-o", "x"], "bits must be"),
        (["params", "-f", "0.5", "-p", "0.7", "--q", "0.6", "-o", "x"], "--p must be below --q"),
        (["params", "-f", "0.5", "--cells", "9", "-o", "x"], "--cells does not go with --scheme"),
        (["params", "--scheme", "best", "-o", "x"], "--scheme must be one of"),
        (["params", "--scheme", "local-hashing", "-o", "x"], "give --epsilon"),
        (["params", "-f", "0.5", "--edges", "1,a", "-o", "x"], "must be numbers"),
        (["params", "-f", "0.5", "--edges", "2,1", "-o", "x"], "edges must"),
        (
            ["params", "-f", "0.5", "-c", "w", "-o", "x"],
            "--column does not go without --categories",
        ),
        (["params", "-f", "0.5", "--categories", "empty.txt", "-o", "x"], "categories must"),
        (["params", "p.json", "-f", "0.5", "-o", "x"], "--f does not go with a file"),
        (["params", "words.txt", "-o", "x"], "words.txt: parameters: the text is not JSON"),
        (["params", "changed.json", "-o", "x"], "changed.json: parameters: fingerprint must be"),
        (["params", "c.counts", "-o", "x"], "is no file of parameters"),
        (["params", "bad.csv", "-o", "x"], "bad.csv, line 1: the header must be"),
        (["params", "p.json", "-o", "p.json", "--force"], "is read as well"),
        (["encode", "words.txt", "--params", "none.json", "-o", "x"], "none.json: there is no"),
        (["encode", "words.csv", "--params", "p.json", "-o", "x"], "name one with --column"),
        (["encode", "none.txt", "--params", "p.json", "-o", "x"], "none.txt: there is no"),
        (
            ["encode", "none.csv", "-c", "w", "--params", "p.json", "-o", "x"],
            "none.csv: there is no",
        ),
        (["encode", ".", "--params", "p.json", "-o", "x"], "is a folder"),
        (["encode", "-", "-c", "w", "--params", "p.json", "-o", "x"], "stdin: is empty"),
        (["encode", "words.txt", "--params", "p.json", "-o", "c.counts"], "use --force"),
        (
            ["encode", "words.txt", "--params", "p.json", "--secret-file", "short", "-o", "x"],
            "secret must be at least 16",
        ),
        (
            ["encode", "words.txt", "--params", "p.json", "--secret-file", "none", "-o", "x"],
            "there is no file of a secret",
        ),
        (
            ["encode", "words.txt", "--params", "p.json", "--secret-file", "/dev/zero", "-o", "x"],
            "there is no file of a secret",
        ),
        (
            [
                *("encode", "words.txt", "--params", "p.json", "-o", "x"),
                *("--secret-file", "short", "--seed", "3"),
            ],
            "--secret-file and --seed exclude each other",
        ),
        (["encode", "rows.txt", "--params", "p.json", "-o", "x"], "with --column"),
        (
            ["params", "-f", "0.5", "--encoding", "latin-1", "-o", "x"],
            "--encoding does not go without --categories",
        ),
        (
            ["plan", "--reports", "9", "--epsilon", "1", "--dictionary", "5", "--no-header"],
            "--header does not go without --categories",
        ),
        (["aggregate", "r.ndjson", "-o", "x"], "give --params"),
        (
            ["aggregate", "words.txt", "--params", "p.json", "-o", "x"],
            "files that telemetry encode",
        ),
        (["aggregate", "none.ndjson", "--params", "p.json", "-o", "x"], "there is no such file"),
        (["aggregate", "c.counts", "c.counts", "-o", "x"], "100 reports are in both"),
        (["aggregate", "c.counts", "--params", "other.json", "-o", "x"], "(c.counts)"),
        (["aggregate", "cut.counts", "-o", "x"], "cut.counts:"),
        (["aggregate", "bad.csv", "--params", "p.json", "-o", "x"], "bad.csv, line 1"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_no_file(folder, words, sentence):
    (folder / "words.csv").write_text("w\ntea\n")
    (folder / "bad.csv").write_text("k,h\n1,2\n")
    (folder / "empty.txt").write_text("\n")
    (folder / "short").write_bytes(b"7" * 15)
    (folder / "changed.json").write_text(SCHEME.to_json().replace("16", "17"))
    (folder / "cut.counts").write_bytes((folder / "c.counts").read_bytes()[:500])
    output = run(folder, "telemetry", *words, code=2)
    assert sentence in output
    assert output.startswith("sfumato: ")
    assert output.count("\n") == 1
    assert not (folder / "x").exists()
