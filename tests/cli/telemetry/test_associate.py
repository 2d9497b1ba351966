"""`sfumato telemetry associate` pairs the lines of two files as the library pairs rows."""

import json

import pyarrow.csv
import pytest

from sfumato.telemetry import Rappor, ReportEncoder, associate, write_reports
from support.cli_workspace import run, run_json

TEA = Rappor(f=0.6, metric="tea", categories=["black", "green"])
CUP = Rappor(f=0.6, metric="cup", categories=["small", "large"])
PARAMS = ["--params-first", "tea.json", "--params-second", "cup.json"]
HASHED = ["--params-first", "tea.json", "--params-second", "hashed.json"]


@pytest.fixture
def folder(tmp_path):
    for scheme, values in ((TEA, ["black", "green"]), (CUP, ["large", "small"])):
        (tmp_path / f"{scheme.metric}.json").write_text(scheme.to_json())
        sent = ReportEncoder(scheme, seed=len(values[0])).encode_many(values * 1000)
        write_reports(tmp_path / f"{scheme.metric}.ndjson", sent)
    return tmp_path


def test_the_table_is_that_of_the_library(folder):
    sides = [
        ReportEncoder(scheme, seed=5).encode_many(values * 1000)
        for scheme, values in ((TEA, ["black", "green"]), (CUP, ["large", "small"]))
    ]
    expected = json.loads(associate(*sides, TEA.domain, CUP.domain).to_json())
    words = ["telemetry", "associate", "tea.ndjson", "cup.ndjson", *PARAMS]
    assert run_json(folder, *words, "-o", "t.csv") == expected
    table = pyarrow.csv.read_csv(folder / "t.csv")
    assert table["estimate"].to_pylist() == pytest.approx(expected["estimate"])
    shown = run(folder, *words, "-n", "2")
    assert "p value if unrelated" in shown
    assert "epsilon" in shown  # that of both reports together


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tea.ndjson", "short.ndjson", *PARAMS], "row r of both reports must be one client"),
        (["tea.ndjson", "cut.ndjson", *PARAMS], "unreadable 1"),
        (["tea.ndjson", "none.ndjson", *PARAMS], "there is no such file"),
        (["cup.ndjson", "tea.ndjson", *PARAMS], "parameters 2000"),
        (["tea.ndjson", "cup.ndjson", *HASHED], "give --candidates-second"),
        (["tea.ndjson", "cup.ndjson", *PARAMS, "--candidates-first", "w.csv"], "one value a line"),
        (["tea.ndjson", "cup.ndjson", *PARAMS, "-o", "t.txt"], "must end in .csv"),
    ],
)
def test_lines_that_do_not_pair_are_refused(folder, words, sentence):
    text = (folder / "cup.ndjson").read_text()
    (folder / "cut.ndjson").write_text(text[:-50])
    (folder / "w.csv").write_text("w\nblack\n")
    hashed = Rappor(8, 2, 4, f=0.5, metric="cup")
    (folder / "hashed.json").write_text(hashed.to_json())
    if "hashed.json" in words:
        write_reports(folder / "cup.ndjson", ReportEncoder(hashed).encode_many(["small"] * 2000))
    (folder / "short.ndjson").write_text(text[: text.rindex("\n", 0, -1) + 1])
    assert sentence in run(folder, "telemetry", "associate", *words, code=2)
