"""Commands about models lose nothing: inputs, budgets, trials, and what was requested."""

import csv
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.cli import app, printing
from sfumato.cli.density import figure
from sfumato.data.files import write_table
from sfumato.privacy import Ledger
from sfumato.sketch import KernelFourier
from support.cli_workspace import INTERRUPTIBLE, result_of, run, run_json

PRIVATE = ["--epsilon", "4", "--delta", "1e-6", "--bounds", "1", "5"]
LISTS = ["--catalogue", "items.txt", "--accounts", "users.txt"]


def test_an_input_is_never_the_output(shop):
    before = (shop / "train.csv").read_bytes()
    for words in (
        ["fit", "train.csv", "-o", "train.csv"],
        ["tune", "train.csv", "-o", "train.csv"],
    ):
        assert "is read as well" in run(shop, *words, "--force", code=2)
    assert (shop / "train.csv").read_bytes() == before


@pytest.mark.parametrize("line", ["1,2,5", "1\t2\t5", "1::2::5", "1;2;5"])
def test_a_list_of_ids_is_not_a_table(shop, line):
    (shop / "table.txt").write_text(f"7\n{line}\n")
    words = ["fit", "train.csv", "-o", "x.sfu", "--catalogue"]
    assert "line 2 of table.txt has several fields" in run(shop, *words, "table.txt", code=2)
    assert "is the file of ratings" in run(shop, *words, "train.csv", code=2)
    (shop / "wide.txt").write_text(f"{2**70}\n")
    run(shop, "fit", "train.csv", "-o", "x.sfu", "--catalogue", "wide.txt", code=2)


def test_all_that_a_private_model_lacks_is_told_at_once(shop):
    words = ["--epsilon", "1", "--objective", "ratings"]
    output = run(shop, "fit", "train.csv", "-o", "x.sfu", *words, code=2)
    for option in ("--delta", "--bounds", "--catalogue", "--accounts"):
        assert option in output


def test_a_failure_after_the_charge_tells_how_to_go_on(shop, monkeypatch):
    from sfumato.recommend.private import factorization as private

    ledger = Ledger(shop / "crash.ledger")
    ledger.create("stars", epsilon=8, delta=1e-6)
    paid = [*PRIVATE, *LISTS, "--ledger", "crash.ledger", "--dataset", "stars"]
    with monkeypatch.context() as broken:
        broken.setattr(private, "learn", _fail)
        output = run(shop, "fit", "train.csv", "-o", "c.sfu", *paid, code=2)
    charge = ledger.history("stars")[0].release_id
    assert f"--release-id {charge} was charged" in " ".join(output.split())
    spent = ledger.spent("stars").epsilon
    found = run_json(shop, "fit", "train.csv", "-o", "c.sfu", *paid, "--release-id", charge)
    assert (ledger.spent("stars").epsilon, found["stored"]) == (spent, False)
    again = run_json(shop, "fit", "train.csv", "-o", "d.sfu", *paid, "--release-id", charge)
    assert again["stored"]


def _fail(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "train.csv", "-o", "w.sfu", "--gain", "2", "--cells", "999"], "with --cells"),
        (["fit", "train.csv", "-o", "w.sfu", "--accounts", "users.txt"], "without --epsilon"),
        (
            ["tune", "train.csv", "--dense", "--gain", "2"],
            "tune: --gain does not go with",
        ),
        (["recommend", "m.sfu", "7", "--likes", "3"], "either a user's id or"),
        (["recommend", "m.sfu", "--likes", "3", "--seen", "train.csv"], "goes with a user's id"),
        (["fit", "train.csv", "-o", "w.sfu", *PRIVATE, *LISTS, "--seed", "3"], "--seed does not"),
    ],
)
def test_what_would_be_ignored_is_refused(shop, words, sentence):
    output = run(shop, *words, code=2)
    assert sentence in output
    assert not (shop / "w.sfu").exists()


def test_what_was_left_out_is_told(shop):
    (shop / "bad.csv").write_text("user,item,rating\n1,1,5\n1,2,x\n2,1,4\n2,1,3\n3,2,2\n")
    found = run_json(shop, "fit", "bad.csv", "-o", "b.sfu", "--skip-bad")
    assert found["ratings"] == 3
    assert "1 skipped" in found["left_out"]
    assert "1 older ratings" in found["left_out"]


def test_a_stopped_search_says_that_its_log_goes_on(shop):
    code = (
        INTERRUPTIBLE + "import sys; from sfumato.cli import main; sys.argv[0] = 'sfumato'; main()"
    )
    words = ["tune", "train.csv", "--objective", "ratings", "--epochs", "3000", "--quiet"]
    words += ["--log", "long.jsonl"]
    running = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=shop, stderr=subprocess.PIPE, text=True
    )
    log, deadline = shop / "long.jsonl", time.monotonic() + 90
    while time.monotonic() < deadline and (not log.exists() or log.read_bytes().count(b"\n") < 2):
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "goes on from it" in errors


def test_python_m_sfumato_is_the_command(shop):
    done = subprocess.run(
        [sys.executable, "-m", "sfumato", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip()


FIT = ["fit", "train.csv", "--bounds", "1", "5", *LISTS]
MAKING = {
    "sketch": (["sketch", "release", "s.sfu"], []),
    "model": (FIT, ["--delta", "1e-6"]),
    "profiles": (
        ["profiles", "release", "train.csv", "--users", "users.txt", "--typical-size", "1"],
        ["--mechanism", "blip"],
    ),
    "density": (
        ["density", "build", "train.csv", "--columns", "rating", "--bounds", "1,5"],
        ["--bandwidth", "1"],
    ),
    "telemetry": (["telemetry", "params", "--cohorts", "4"], []),
    "plan": (["telemetry", "plan", "--reports", "100000", "--dictionary", "100"], []),
}


@pytest.mark.parametrize("making", MAKING.values(), ids=MAKING)
def test_a_release_that_hides_next_to_nothing_warns_once_on_stderr(shop, making):
    if not (shop / "s.sfu").exists():
        run(
            shop, "sketch", "build", "count-min", "train.csv", "-c", "item", "--text", "-o", "s.sfu"
        )
    for epsilon, wanted in (("2", 0), ("21", 1)):
        words = [*making[0], "--epsilon", epsilon, *making[1], "-o", "weak.out", "--force"]
        for shown in (words, [*words, "--json"]):
            errors = result_of(shop, *shown).stderr
            assert (
                errors.count("sfumato: warning: epsilon above 20 hides next to nothing") == wanted
            )
            others = [line for line in errors.splitlines() if "All users get one list" not in line]
            assert "\n".join(others).count("warning") == wanted
        again = result_of(shop, "inspect", "weak.out")
        assert again.stderr.count("epsilon above 20") == again.stdout.count("  warning  ") == wanted


def test_a_picture_is_not_called_private_where_next_to_nothing_is_hidden():
    for epsilon, kind in ((1.0, "private"), (21.0, "hides next to nothing")):
        statement = KernelFourier(1.0, (0, 9)).update([[1.0]]).release(epsilon).statement
        title = figure._title(SimpleNamespace(statement_=statement), 0.1)
        assert title.startswith(f"{kind}, epsilon {epsilon:g}; ")


def test_whole_profiles_warn_by_the_same_rule(shop):
    words = ["profiles", "release", "train.csv", "--users", "users.txt", "--epsilon", "2"]
    words += ["--mechanism", "blip", "-o", "whole.sfu", "--force", "-q", "--typical-size"]
    assert result_of(shop, *words, "10").stderr == ""
    shown = result_of(shop, *words, "12")
    assert shown.stderr.startswith(
        "sfumato: warning: Of a whole profile of 12 items: epsilon above"
    )
    assert "which hides next to nothing of it" in " ".join(shown.stdout.split())


def test_a_delta_that_gives_units_away_warns(shop):
    words = [*FIT, "--epsilon", "2", "-o", "delta.sfu", "--force", "-q", "--delta"]
    assert "units away" not in result_of(shop, *words, "9e-5").stderr
    assert (
        "warning: delta from 0.0001 on may give units away"
        in result_of(shop, *words, "1e-4").stderr
    )


@pytest.mark.parametrize("error", [ValueError, TypeError, OSError, MemoryError, FileNotFoundError])
def test_expected_errors_are_one_line_and_code_2(shop, monkeypatch, error):
    monkeypatch.setattr(printing, "beginning", _raising(error("it went wrong")))
    shown = result_of(shop, "inspect", "train.csv", code=2).stderr
    assert shown.startswith("sfumato: ")
    assert shown.count("\n") == 1


@pytest.mark.parametrize("error", [RuntimeError, KeyError, AssertionError, AttributeError])
def test_unexpected_errors_are_ours_and_keep_their_traceback(shop, monkeypatch, error):
    monkeypatch.setattr(printing, "beginning", _raising(error("it went wrong")))
    found = CliRunner().invoke(app, ["inspect", str(shop / "train.csv")])
    assert type(found.exception) is error
    assert "sfumato:" not in found.output


def test_what_the_command_line_does_not_understand_is_one_line_and_code_2(shop):
    shown = result_of(shop, "inspect", "--no-such-option", code=2).stderr
    assert shown.startswith("sfumato: No such option")
    assert shown.count("\n") == 1


def _raising(error):
    def raises(*_):
        raise error

    return raises


def test_no_text_of_a_csv_is_a_formula_and_numbers_stay(tmp_path):
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\uff1d1", "a=1", "tea", None]
    table = pa.table(
        {"=name": texts, "held": pa.array(texts).dictionary_encode(), "count": range(-9, 1)}
    )
    write_table(tmp_path / "a.csv", table)
    with open(tmp_path / "a.csv", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == ["'=name", "held", "count"]
    run_json = [text if text in ("a=1", "tea") else f"'{text}" for text in texts[:-1]] + [""]
    assert [row[0] for row in rows] == [row[1] for row in rows] == run_json
    assert [row[2] for row in rows] == [str(number) for number in range(-9, 1)]
    write_table(tmp_path / "a.parquet", table)
    assert pq.read_table(tmp_path / "a.parquet")["=name"].to_pylist() == texts
