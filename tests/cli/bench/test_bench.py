"""The command: real cases at small sizes, reports that stay whole, and the comparison with them."""

import json
import math
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from sfumato.cli.bench import page, suite
from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.cli.bench.measuring import measure
from support.cli_workspace import result_of, run, run_json

SMALL = {
    "mine/duplicates": 2_000,
    "density/classes": 4_000,
    "mine/itemsets": 2_000,
    "recommend": 10_000,
    "": 20_000,
}
# What every installation for tests has, so that at least one peer of these runs.
ALWAYS = {
    "sketch/distinct": "DuckDB",
    "privacy/laplace": "NumPy's rounded floats, not private",
    "privacy/gaussian": "NumPy's rounded floats, not private",
    "retrieve/codes": "NumPy",
    "retrieve/vectors": "NumPy, exact",
    "profile/nearest": "NumPy",
    "telemetry/count": "NumPy",
    "telemetry/decode": "scikit-learn's Lasso",
    "density/means": "scikit-learn, within 1 %",
    "density/classes": "scikit-learn's GaussianNB",
    "mine/pagerank": "SciPy's product, iterated",
    "mine/k-means": "scikit-learn's KMeans",
    "mine/svd": "SciPy's ARPACK",
}
# What an answer may be at these sizes, where it does not depend on peers.
ANSWERS = {
    "sketch/count-min": (0, 0.001),
    "sketch/distinct": (0, 0.05),
    "sketch/bloom": (0.001, 0.03),
    "sketch/min-hash": (0.02, 0.08),
    "privacy/laplace": (0.95, 1.05),
    "privacy/gaussian": (0.95, 1.05),
    "retrieve/vectors": (0.3, 1.0),
    "density/means": (0, 0.05),
    "density/classes": (0.7, 1.0),
    "mine/duplicates": (0.9, 1.0),
    "mine/pagerank": (0, 1e-6),
    "mine/svd": (-1e-9, 1e-3),
    "recommend/descent": (0.5, 1.3),
}


def size_of(name):
    return SMALL.get(name) or SMALL.get(name.partition("/")[0]) or SMALL[""]


@pytest.mark.parametrize("name", [case.name for case in suite.cases()])
def test_every_case_runs_beside_what_is_installed(name):
    (case,) = suite.chosen([name])
    assert case.quick < case.full
    row = measure(case, size_of(name), 1)
    assert row["ours"]["rate"]["median"] > 0
    ran = {each["name"]: each for each in row["peers"] if "missing" not in each}
    for each in row["peers"]:
        assert "missing" not in each or each["missing"].endswith("is not installed"), each
    if name in ALWAYS:
        assert ALWAYS[name] in ran
    if name in ANSWERS:
        low, high = ANSWERS[name]
        assert low <= row["ours"]["answer"] <= high
    if name == "retrieve/codes":  # the same codes are found
        assert row["ours"]["answer"] == ran["NumPy"]["answer"]
    assert (row["ceiling"] is None) == (not case.ceiling)


def test_every_room_with_data_has_a_case():
    measured = {case.name.partition("/")[0] for case in suite.cases()}
    wanted = "sketch privacy retrieve profile recommend telemetry density mine"
    assert (
        measured == set(wanted.split()) == {room for each in suite.ROOMS.values() for room in each}
    )
    assert 10 <= len(suite.cases()) <= 24
    names = [case.name for case in suite.cases()]
    assert len(set(names)) == len(names)


def test_a_report_is_complete_json_and_a_page_without_outside_resources(tmp_path):
    words = ("bench", "--only", "privacy/laplace", "--runs", "2", "--quick", "-o", "out")
    shown = run(tmp_path, *words)
    content = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert set(content) == {"format", "measured", "rows"}
    assert set(content["measured"]) == {"at", "sfumato", "python", "numpy", "processor"}
    (row,) = content["rows"]
    assert row["case"] == "privacy/laplace"
    assert (row["runs"], row["items"]) == (2, 1_000_000)
    for each in [row["ours"], row["ceiling"], *row["peers"]]:
        if "missing" not in each:
            assert 0 < each["rate"]["low"] <= each["rate"]["median"] <= each["rate"]["high"]
    text = (tmp_path / "out" / "bench.html").read_text()
    for outside in ("http:", "https:", "<script", "<link", "@import", "url("):
        assert outside not in text
    assert "prefers-color-scheme: dark" in text
    for line in shown.splitlines():
        assert len(line) <= 80, line
    assert "privacy/laplace" in shown
    assert "See: " in shown


def test_the_next_run_is_compared_and_a_planted_slowdown_is_marked(tmp_path, monkeypatch):
    words = ("bench", "--only", "telemetry/count", "--runs", "3", "--quick", "-o", "out")
    first = run_json(tmp_path, *words)["rows"][0]
    assert "change" not in first["ceiling"]
    slow = next(case for case in suite.cases() if case.name == "telemetry/count")

    def four_times(size):
        contest = slow.prepare(size)
        ours = contest.ours
        repeated = Work(lambda: [ours.run() for _ in range(4)], ours.items)
        return Contest(repeated, contest.peers, contest.ceiling)

    planted = Case(**{**vars(slow), "prepare": four_times})
    monkeypatch.setattr(suite, "chosen", lambda only: [planted])
    second = run_json(tmp_path, *words)["rows"][0]
    assert second["ceiling"]["change"]["verdict"] == "slower"
    assert second["ceiling"]["change"]["times"] == pytest.approx(0.25, rel=0.5)
    assert second["before"] == first["measured"]
    assert "slower: " in (tmp_path / "out" / "bench.html").read_text()


def fake(name, fail=False):
    def run_it():
        if fail:
            raise KeyboardInterrupt
        return np.ones(200_000).sum()

    return Case(name, "sums", "numbers", lambda size: Contest(Work(run_it, size)), 200_000, 1000)


def test_a_run_that_is_stopped_leaves_what_it_measured(tmp_path, monkeypatch):
    listed = [fake("a/first"), fake("b/second", fail=True)]
    monkeypatch.setattr(suite, "chosen", lambda only: listed)
    result = result_of(tmp_path, "bench", "--runs", "1", "-o", "out", code=130)
    assert "complete is bench.json, bench.html" in result.stderr
    content = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert [row["case"] for row in content["rows"]] == ["a/first"]
    assert "a/first" in (tmp_path / "out" / "bench.html").read_text()


def test_other_names_files_and_folders_are_refused(tmp_path):
    message = run(tmp_path, "bench", "--only", "kitchen", "-o", "out", code=2)
    assert "must be a room or a case, not kitchen" in message
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    assert "is a file" in run(tmp_path, "bench", "-o", "file", code=2)
    (tmp_path / "bench.json").write_text("{}")
    words = ("bench", "--only", "privacy/laplace", "--quick", "-o", ".")
    assert "no report of sfumato bench" in run(tmp_path, *words, code=2)
    assert (tmp_path / "bench.json").read_text() == "{}"


def test_a_room_imports_no_other():
    code = "from sfumato.cli.bench import suite; suite.chosen(['privacy']); import sys;"
    code += "sys.exit('sfumato.recommend' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class Bars(HTMLParser):
    """The bars of a page: left end and width in percent of the track."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "i":
            ends = [part.split(":")[1].rstrip("%") for part in attributes["style"].split(";")]
            self.found.append((attributes["class"], *map(float, ends)))


def test_bars_are_the_logarithms_of_ratios():
    def each(name, median):
        spread = {"low": median, "median": median, "high": median}
        return {"name": name, "ratio": spread, "rate": spread, "answer": None}

    measured = dict.fromkeys(("at", "sfumato", "python", "numpy", "processor"), "<now>")
    rate = {"low": 1.0, "median": 1.0, "high": 1.0}
    row = {
        "case": "a/b",
        "question": "<q>",
        "unit": "keys",
        "items": 5,
        "runs": 1,
        "answer_is": "",
        "ours": {"rate": rate, "answer": None},
        "peers": [each("win", 100.0), each("loss", 0.1), {"name": "<x>", "missing": "gone"}],
        "ceiling": each("roof", 1 / math.sqrt(10)),
        "measured": measured,
    }
    text = page.html({"measured": measured, "rows": [row]})
    bars = Bars()
    bars.feed(text)
    assert bars.found == [("win", 50, 50), ("loss", 25, 25), ("roof", 37.5, 12.5)]
    assert "&lt;x&gt;: no ratio, gone" in text
    assert "<q>" not in text
    assert "<now>" not in text
