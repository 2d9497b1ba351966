"""google/rappor's CSV files go in and out of the telemetry commands without a change of meaning."""

import numpy as np
import pytest

from sfumato.telemetry import Counts, Rappor, ReportEncoder
from sfumato.telemetry.reports.google_csv import write_map_csv, write_reports_csv
from sfumato.telemetry.schemes.base import read_scheme
from sfumato.telemetry.schemes.google_rappor import GoogleRappor
from support.cli_workspace import run, run_json

PARAMS = "k,h,m,p,q,f\n16,2,8,0.25,0.75,0.5\n"
SCHEME = GoogleRappor(16, 2, 8, f=0.5, p=0.25, q=0.75)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "params.csv").write_text(PARAMS)
    (tmp_path / "words.txt").write_text("tea\n" * 300 + "milk\n" * 100)
    words = ["words.txt", "--params", "params.csv", "--seed", "5", "-o", "r.ndjson"]
    run(tmp_path, "telemetry", "encode", *words)
    return tmp_path


def aggregate(folder, *words):
    return run_json(folder, "telemetry", "aggregate", *words, "--params", "params.csv")


def test_parameters_are_converted_there_and_back(folder):
    made = run_json(
        folder, "telemetry", "params", "params.csv", "-o", "p.json", "--metric", "drink"
    )
    assert (made["scheme"], made["metric"]) == ("published", "drink")
    scheme = read_scheme((folder / "p.json").read_text())
    assert (scheme.bits, scheme.hashes, scheme.cohorts) == (16, 2, 8)
    run(folder, "telemetry", "params", "p.json", "-o", "back.csv")
    header, row = (folder / "back.csv").read_text().splitlines()
    assert header == "k,h,m,p,q,f"
    assert [float(each) for each in row.split(",")] == [16, 2, 8, 0.25, 0.75, 0.5]


def test_more_bits_than_google_had_are_our_own_scheme(folder):
    (folder / "wide.csv").write_text(PARAMS.replace("16,", "48,"))
    words = ["telemetry", "params", "wide.csv", "-o", "wide.json"]
    assert "--own" in run(folder, *words, code=2)
    run(folder, *words, "--own")
    own = Rappor(48, 2, 8, f=0.5, p=0.25, q=0.75)
    assert read_scheme((folder / "wide.json").read_text()) == own
    words = ["--scheme", "local-hashing", "--epsilon", "1", "-o", "x.csv"]
    assert "is for RAPPOR only" in run(folder, "telemetry", "params", *words, code=2)


def test_counts_are_written_and_read_as_google_does(folder):
    expected = Counts(SCHEME).update(
        ReportEncoder(SCHEME, seed=5).encode_many(["tea"] * 300 + ["milk"] * 100)
    )
    aggregate(folder, "r.ndjson", "-o", "counts.csv")
    rows = [line.split(",") for line in (folder / "counts.csv").read_text().splitlines()]
    table = np.array(rows, np.int64)
    assert table.shape == (8, 17)
    assert np.array_equal(table, np.column_stack([expected.reports, expected.cells]))
    document = aggregate(folder, "counts.csv", "r.ndjson", "-o", "both.counts")
    assert document["accepted"] == 800  # a CSV has no ids, so what it counted is not known again
    assert not document["finds_duplicates"]
    assert np.array_equal(Counts.load(folder / "both.counts").cells, 2 * expected.cells)


def test_reports_of_google_are_counted(folder):
    sent = ReportEncoder(SCHEME, seed=6).encode_many(["tea"] * 50)
    write_reports_csv(folder / "reports.csv", sent)
    aggregate(folder, "reports.csv", "-o", "r.counts")
    assert np.array_equal(Counts.load(folder / "r.counts").cells, Counts(SCHEME).update(sent).cells)


def test_a_map_is_the_same_as_its_candidates(folder):
    write_map_csv(folder / "map.csv", SCHEME, ["tea", "milk", "rum"])
    (folder / "list.txt").write_text("tea\nmilk\nrum\n")
    words = ["telemetry", "decode", "r.ndjson", "--params", "params.csv", "--candidates"]
    by_map, by_name = (run_json(folder, *words, name) for name in ("map.csv", "list.txt"))
    for found in (by_map, by_name):
        found.pop("seconds")
    assert by_map == by_name
    (folder / "table.csv").write_text("w\ntea\nmilk\n")
    assert "--column" in run(folder, *words, "table.csv", code=2)
    run(folder, *words, "table.csv", "--column", "w")
