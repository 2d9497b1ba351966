"""`sfumato telemetry` params, encode and aggregate do what the library does, file by file."""

import gzip
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.telemetry import params as telemetry_params
from sfumato.telemetry import Counts, PrefixDiscovery, Rappor, ReportEncoder, read_reports
from sfumato.telemetry.schemes.base import Scheme, read_scheme
from support.cli_workspace import result_of, run, run_json

WORDS = ["tea", "milk", "rum", "tea", "tea", "café", "milk", "0012"] * 40
ONE_TIME = Rappor(bits=16, hashes=2, cohorts=4, f=0.5, metric="drink")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p.json").write_text(ONE_TIME.to_json())
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


def sent(folder, name, scheme=ONE_TIME):
    (batch,) = read_reports(folder / name, scheme)
    return batch


def test_params_writes_what_the_library_reads(tmp_path):
    words = ["--bits", "16", "--cohorts", "4", "-f", "0.5", "--metric", "drink", "-o", "p.json"]
    document = run_json(tmp_path, "telemetry", "params", *words)
    assert read_scheme((tmp_path / "p.json").read_text()) == ONE_TIME
    assert document["fingerprint"] == ONE_TIME.fingerprint
    assert document["epsilon_permanent"] == ONE_TIME.epsilon_permanent
    assert document["statement"] == ONE_TIME.statement().to_dict()
    assert document == run_json(tmp_path, "inspect", "p.json")
    assert document == run_json(tmp_path, "telemetry", "params", "p.json")


def test_params_keeps_both_promises_of_epsilon(tmp_path):
    words = ["--epsilon", "3", "--epsilon-one", "1", "-o", "p.json"]
    shown = run(tmp_path, "telemetry", "params", *words)
    made = read_scheme((tmp_path / "p.json").read_text())
    assert 2.9 < made.epsilon_permanent <= 3
    assert 0.9 < made.epsilon_one <= 1
    assert "a changed value, cleared storage" in " ".join(shown.split())


def test_no_noise_is_called_not_private(tmp_path):
    shown = run(tmp_path, "telemetry", "params", "-f", "0", "-p", "0.25", "--q", "0.75")
    assert "NOT PRIVATE" in shown
    assert run_json(tmp_path, "telemetry", "params", "-f", "0")["epsilon_permanent"] is None


def test_params_makes_every_scheme(tmp_path):
    (tmp_path / "drinks.txt").write_text("tea\nmilk\nrum\n")
    queries = {
        "rappor": ["--epsilon", "2"],
        "local-hashing": ["--epsilon", "2", "--cohorts", "8"],
        "subset-selection": ["--epsilon", "2", "--categories", "drinks.txt", "--other"],
        "hadamard": ["--epsilon", "2", "--categories", "drinks.txt"],
        "published": ["-f", "0.5", "--bits", "32"],
    }
    made = [
        run_json(tmp_path, "telemetry", "params", "--scheme", name, *words, "-o", f"{name}.json")
        for name, words in queries.items()
    ]
    assert {each["scheme"] for each in made} == set(Scheme.KNOWN)
    assert set(telemetry_params.SCHEMES) == {*Scheme.KNOWN, PrefixDiscovery.name}
    for name, document in zip(queries, made, strict=True):
        scheme = read_scheme((tmp_path / f"{name}.json").read_text())
        assert scheme.fingerprint == document["fingerprint"]


def test_params_takes_categories_and_edges(tmp_path):
    (tmp_path / "drinks.csv").write_text("n,drink\n1,tea\n2,milk\n")
    words = ["telemetry", "params", "-f", "0.5", "-o", "p.json", "--force"]
    run(tmp_path, *words, "--categories", "drinks.csv", "--column", "drink")
    assert read_scheme((tmp_path / "p.json").read_text()).categories == ("tea", "milk")
    run(tmp_path, *words, "--edges", "-5,0,2.5")
    assert read_scheme((tmp_path / "p.json").read_text()).edges == (-5.0, 0.0, 2.5)


def test_a_simulation_is_the_library_with_the_same_seed_and_says_so(folder):
    words = ["telemetry", "encode", "words.txt", "--params", "p.json", "-o", "r.ndjson"]
    document = run_json(folder, *words, "--seed", "3")
    assert sent(folder, "r.ndjson") == ReportEncoder(ONE_TIME, seed=3).encode_many(WORDS)
    assert (document["reports"], document["fingerprint"]) == (len(WORDS), ONE_TIME.fingerprint)
    assert "every value is of another client" in document["clients"]
    assert "not private" in document["warning"]


def test_values_come_from_lines_tables_and_stdin_alike(folder):
    pq.write_table(pa.table({"n": range(len(WORDS)), "w": WORDS}), folder / "w.parquet")
    (folder / "w.csv").write_text("n,w\n" + "".join(f"{i},{w}\n" for i, w in enumerate(WORDS)))
    (folder / "dos.txt").write_bytes("\r\n".join([*WORDS, "", ""]).encode())
    (folder / "w.txt.gz").write_bytes(gzip.compress("\n".join(WORDS).encode()))
    out = ["--params", "p.json", "--seed", "3", "-o", "r.ndjson.gz", "--force"]
    expected = ReportEncoder(ONE_TIME, seed=3).encode_many(WORDS)
    for words in (["w.parquet", "-c", "w"], ["w.csv", "-c", "w"], ["dos.txt"], ["w.txt.gz"]):
        run(folder, "telemetry", "encode", *words, *out)
        assert sent(folder, "r.ndjson.gz") == expected, words
    before = os.getcwd()
    os.chdir(folder)
    try:
        given = "\n".join(WORDS).encode()
        assert CliRunner().invoke(app, ["telemetry", "encode", *out], input=given).exit_code == 0
    finally:
        os.chdir(before)
    assert sent(folder, "r.ndjson.gz") == expected


def test_values_that_look_like_numbers_are_the_text_they_are(folder):
    (folder / "v.csv").write_text("version\n1.10\n2.0\n")
    words = ["v.csv", "-c", "version", "--params", "p.json", "--seed", "3", "-o", "r.ndjson"]
    run(folder, "telemetry", "encode", *words)
    assert sent(folder, "r.ndjson") == ReportEncoder(ONE_TIME, seed=3).encode_many(["1.10", "2.0"])


def test_a_secret_makes_one_client_that_answers_alike_for_ever(folder):
    (folder / "secret").write_bytes(bytes(range(20)))
    client = ReportEncoder(ONE_TIME, secret=bytes(range(20)))
    words = ["telemetry", "encode", "words.txt", "--params", "p.json", "--secret-file", "secret"]
    documents = [run_json(folder, *words, "-o", name) for name in ("a.ndjson", "b.ndjson")]
    first, second = sent(folder, "a.ndjson"), sent(folder, "b.ndjson")
    assert set(first.cohorts.tolist()) == {client.cohort}
    assert np.array_equal(first.payload, second.payload)
    assert np.array_equal(first.payload, np.stack([client.permanent(word) for word in WORDS]))
    assert not np.array_equal(first.ids, second.ids)
    assert "secret was given" in documents[0]["clients"]


def test_numbers_go_into_bins(tmp_path):
    scheme = Rappor(edges=(0, 1, 2, 4), f=0.5)
    (tmp_path / "p.json").write_text(scheme.to_json())
    (tmp_path / "n.csv").write_text("x\n-1\n0.5\n1\n3.9\n100\n")
    words = ["n.csv", "-c", "x", "--params", "p.json", "--seed", "1", "-o", "r.ndjson"]
    run(tmp_path, "telemetry", "encode", *words)
    expected = ReportEncoder(scheme, seed=1).encode_many([-1.0, 0.5, 1.0, 3.9, 100.0])
    assert sent(tmp_path, "r.ndjson", scheme) == expected


@pytest.fixture
def counted(folder):
    for part, seed in (("a", 1), ("b", 2)):
        words = ["words.txt", "--params", "p.json", "--seed", str(seed), "-o", f"{part}.ndjson"]
        run(folder, "telemetry", "encode", *words)
    return folder


def aggregate(folder, *words):
    return run_json(folder, "telemetry", "aggregate", *words)


def test_counts_are_those_of_the_library_however_they_come(counted):
    both = [ReportEncoder(ONE_TIME, seed=seed).encode_many(WORDS) for seed in (1, 2)]
    expected = Counts(ONE_TIME).update(both)
    params = ["--params", "p.json"]
    document = aggregate(counted, "a.ndjson", "b.ndjson", *params, "-o", "ab.counts")
    aggregate(counted, "a.ndjson", *params, "-o", "a.counts")
    aggregate(counted, "b.ndjson", *params, "-o", "b.counts")
    aggregate(counted, "a.counts", "b.counts", "-o", "merged.counts")
    aggregate(counted, "b.ndjson", "a.counts", "-o", "mixed.counts")
    for name in ("ab", "merged", "mixed"):
        assert Counts.load(counted / f"{name}.counts") == expected
    assert document["accepted"] == 2 * len(WORDS)
    assert document["bytes_per_report"]["payload"] == 2
    assert document["dispersion"]["cohorts"] == expected.dispersion().cohorts
    shown = run_json(counted, "inspect", "merged.counts")
    assert shown.items() >= {"kind": "telemetry counts", "accepted": 2 * len(WORDS)}.items()
    assert "Dispersion: cohort sizes" in run(counted, "inspect", "merged.counts")


def test_reports_sent_again_are_harmless(counted):
    params = ["--params", "p.json"]
    aggregate(counted, "a.ndjson", *params, "-o", "a.counts")
    document = aggregate(counted, "a.counts", "b.ndjson", "a.ndjson", "-o", "again.counts")
    assert document["accepted"] == 2 * len(WORDS)
    assert document["refused"] == {"all": len(WORDS), "duplicate": len(WORDS)}
    aggregate(counted, "a.ndjson", *params, "-o", "lean.counts", "--forget-ids")
    lean, full = (Counts.load(counted / f"{name}.counts") for name in ("lean", "a"))
    assert np.array_equal(lean.cells, full.cells)
    assert not lean.keep_ids
    for name, options in (("lean.counts", ["--forget-ids"]), ("lean.csv", [])):
        words = ["a.ndjson", *params, "-o", name, "--force", *options]
        assert not aggregate(counted, *words)["finds_duplicates"]
    assert (counted / "lean.counts").stat().st_size < (counted / "a.counts").stat().st_size


def test_ctrl_c_leaves_no_file(folder, monkeypatch):
    encode_many, calls = ReportEncoder.encode_many, []

    def interrupted(self, values):
        calls.append(len(values))
        if len(calls) == 2:  # the first batch was written by now
            assert list(folder.glob(".sfumato-*.part"))
            raise KeyboardInterrupt
        return encode_many(self, values)

    monkeypatch.setattr(ReportEncoder, "encode_many", interrupted)
    words = ["words.txt", "words.txt", "--params", "p.json", "-o", "r.ndjson"]
    assert "nothing was written" in run(folder, "telemetry", "encode", *words, code=130)
    assert sorted(path.name for path in folder.iterdir()) == ["p.json", "words.txt"]


def test_reports_hold_no_value(folder):
    run(folder, "telemetry", "encode", "words.txt", "--params", "p.json", "-o", "r.ndjson")
    for line in (folder / "r.ndjson").read_text().splitlines():
        assert set(json.loads(line)) == {"v", "params", "cohort", "bits", "id"}
    aggregate(folder, "r.ndjson", "--params", "p.json", "-o", "r.counts")
    held = (folder / "r.counts").read_bytes()
    assert not any(word.encode() in held for word in {*WORDS})


def test_categories_are_read_from_any_table_and_their_column_is_said(tmp_path):
    (tmp_path / "c.txt").write_bytes("1;caf\xe9\n2;tea\n".encode("latin-1"))
    words = ("--categories", "c.txt", "-c", "1", "--no-header", "--delimiter", ";")
    made = result_of(tmp_path, "telemetry", "params", "-f", "0.5", *words, "-o", "p.json")
    said = "sfumato: c.txt: categories from column 1."
    assert said in made.stderr
    found = json.loads((tmp_path / "p.json").read_text())
    assert found["categories"] == ["caf\xe9", "tea"]
    plan = ("telemetry", "plan", "--reports", "1000", "--epsilon", "2", *words)
    assert said in result_of(tmp_path, *plan, "--encoding", "latin-1").stderr


def test_whole_lines_of_several_fields_are_reported_on_request(tmp_path):
    (tmp_path / "v.txt").write_text("a,b\nc,d\n")
    run(tmp_path, "telemetry", "params", "-f", "0.5", "-o", "p.json")
    encode = ("telemetry", "encode", "v.txt", "--params", "p.json", "-o", "r.ndjson")
    assert "--column" in run(tmp_path, *encode, code=2)
    whole = ("--column", "0", "--no-header", "--delimiter", ";")
    assert run_json(tmp_path, *encode, *whole)["reports"] == 2
