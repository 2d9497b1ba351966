"""`sfumato telemetry discover`: parameters, reports and strings from file to file."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from sfumato.telemetry import PrefixDiscovery, read_prefix_reports
from support.cli_workspace import result_of, run, run_json

WORDS = {"cafe": 5000, "face": 3000, "bead": 1500, "abba": 40}
DISCOVERY = PrefixDiscovery(epsilon=4, length=4, alphabet="abcdef", metric="word")
PARAMS = ["--scheme", "prefix-discovery", "--epsilon", "4", "--length", "4"]
PARAMS += ["--alphabet", "abcdef", "--metric", "word", "-o", "p.json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("discover")
    values = np.random.default_rng(1).permutation(np.repeat(list(WORDS), list(WORDS.values())))
    (path / "words.csv").write_text(
        "id;word\n" + "".join(f"{n};{w}\n" for n, w in enumerate(values))
    )
    run(path, "telemetry", "params", *PARAMS)
    encode = ["words.csv", "--column", "word", "--params", "p.json", "--seed", "3"]
    run(path, "telemetry", "encode", *encode, "-o", "r.jsonl.gz")
    return path


def test_the_command_finds_what_the_library_finds(folder):
    assert PrefixDiscovery.from_json((folder / "p.json").read_text()) == DISCOVERY
    document = run_json(folder, "telemetry", "discover", "r.jsonl.gz", "--params", "p.json")
    found = DISCOVERY.find(read_prefix_reports([folder / "r.jsonl.gz"], DISCOVERY))
    assert document["value"] == found.value == list(WORDS)[: len(found)]
    assert len(found) >= 3
    assert document["estimate"] == found.estimate.tolist()
    assert (document["reports"], document["refused"]) == (sum(WORDS.values()), {})
    for name, count in zip(found.value, found.estimate, strict=True):
        assert abs(count - WORDS[name]) < 5 * found.std_error.max()


def test_the_table_is_written_whole_in_every_form(folder):
    words = ["telemetry", "discover", "r.jsonl.gz", "--params", "p.json", "-n", "1", "-o"]
    shown = run(folder, *words, "found.parquet")
    assert "cafe" in shown
    assert "face" not in shown
    table = pq.read_table(folder / "found.parquet")
    assert table.column_names == ["value", "estimate", "std_error", "low", "high", "p_value"]
    assert len(table) >= 3
    run(folder, *words, "found.json")
    assert json.loads((folder / "found.json").read_text())["value"] == table["value"].to_pylist()


def test_reports_sent_again_and_other_lines_are_left_out_and_counted(folder):
    (folder / "other.jsonl").write_text("no report\n")
    again = ["r.jsonl.gz", "other.jsonl", "r.jsonl.gz", "--params", "p.json"]
    document = run_json(folder, "telemetry", "discover", *again)
    assert document["reports"] == sum(WORDS.values())
    assert document["refused"] == {"unreadable": 1, "duplicate": sum(WORDS.values())}


def test_one_client_sends_one_report_of_a_string_however_often(folder):
    (folder / "secret").write_bytes(bytes(range(32)))
    (folder / "two.txt").write_text("cafe\ncafe\n")
    words = ["two.txt", "--params", "p.json", "--secret-file", "secret", "-o", "one.jsonl"]
    run(folder, "telemetry", "encode", *words)
    first, second = map(json.loads, (folder / "one.jsonl").read_text().splitlines())
    assert (first["params"], first["bits"]) == (second["params"], second["bits"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["discover", "words.txt", "--params", "p.json"], "no report fits the parameters"),
        (["discover", "r.jsonl.gz", "--params", "l.json"], "holds the parameters of a scheme"),
        (["discover", "p.json", "--params", "p.json"], "holds parameters, not reports"),
        (["discover", "r.jsonl.gz", "--params", "p.json", "-o", "x.txt"], "must end in .csv"),
        (["discover", "r.jsonl.gz", "--params", "p.json", "--limit", "0"], "limit must be"),
        (["aggregate", "r.jsonl.gz", "--params", "p.json", "-o", "c.sfu"], "telemetry discover"),
        (["params", "--scheme", "prefix-discovery"], "give --epsilon"),
        (["params", "--scheme", "local-hashing", "--length", "4"], "--length does not go"),
    ],
)
def test_wrong_files_and_options_are_refused_in_one_line(folder, words, why):
    run(folder, "telemetry", "params", "--epsilon", "2", "-o", "l.json", "--force")
    (folder / "words.txt").write_text("cafe\n")
    assert why in result_of(folder, "telemetry", *words, code=2).stderr
