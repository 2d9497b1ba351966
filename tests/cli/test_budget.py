"""The budget commands end to end: what they print, what they refuse, and that help stays light."""

import json
import shutil
import subprocess
import sys
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from sfumato.cli import app, budget
from sfumato.privacy import Ledger
from sfumato.privacy.accounting.losses import GaussianNoise, LaplaceNoise, Sampled
from sfumato.privacy.statement import UNITS
from sfumato.sketch import CountMin


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return "shop.ledger"


def run(*arguments):
    return CliRunner().invoke(app, ["budget", *map(str, arguments)])


def printed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def answer(*arguments):
    return json.loads(printed(*arguments, "--json"))


def refused(*arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("sfumato: ")
    return result.stderr


def test_create_makes_the_ledger_and_tells_the_budget(file):
    result = answer("create", file, "views", "--epsilon", 1, "--delta", 1e-6, "--unit", "user")
    assert result == dict(
        dataset="views",
        epsilon=1.0,
        delta=1e-6,
        unit="user",
        relation="add/remove",
        parent=None,
        spent=0.0,
        spent_delta=0.0,
        remaining=1.0,
        releases=0,
        unfinished=0,
    )
    part = answer("create", file, "train", "--epsilon", 0.5, "--parent", "views")
    assert (part["parent"], part["unit"]) == ("views", "user")
    other = answer("create", file, "swap", "--epsilon", 2, "--relation", "replace")
    assert other["relation"] == "replace"
    assert [each.name for each in Ledger(file).datasets()] == ["views", "train", "swap"]
    assert "views" in printed("show", file)


def test_a_budget_that_hides_next_to_nothing_warns(file):
    assert "warning: epsilon above 20" in run("create", file, "a", "--epsilon", 21).stderr
    assert "warning: delta" in run("create", file, "b", "--epsilon", 1, "--delta", 1e-4).stderr
    assert run("create", file, "c", "--epsilon", 20, "--delta", 9e-5).stderr == ""


def test_show_tells_what_is_spent_and_draws_it(file):
    printed("create", file, "views", "--epsilon", 2)
    printed("create", file, "other", "--epsilon", 1)
    Ledger(file).charge("views", LaplaceNoise(Fraction(2)), "a count")
    result = answer("show", file, "views")
    assert (result["spent"], result["remaining"], result["releases"]) == (0.5, 1.5, 1)
    assert "budget" not in result
    assert "██████░░░░░░░░░░░░░░░░░░ 25%" in printed("show", file, "views")
    rows = answer("show", file)["rows"]
    assert [(row["dataset"], row["spent"]) for row in rows] == [("views", 0.5), ("other", 0.0)]
    assert "░" * 24 + " 0%" in printed("show", file)


@pytest.mark.parametrize(
    ("spent", "bar"), [(0.001, "█" + "░" * 23), (0.999, "█" * 23 + "░"), (1, "█" * 24)]
)
def test_the_bar_is_empty_or_full_only_when_the_budget_is(file, spent, bar):
    printed("create", file, "views", "--epsilon", 1)
    Ledger(file).charge("views", spent, "a count")
    assert bar in printed("show", file, "views")


def test_history_tells_the_charges_and_those_of_the_splits(file):
    printed("create", file, "views", "--epsilon", 3, "--delta", 1e-6)
    printed("create", file, "train", "--epsilon", 1, "--parent", "views")
    ledger = Ledger(file)
    ledger.release("train", 0.5, "a greeting", lambda release_id: b"hello", release_id="one")
    ledger.charge("views", Sampled(0.1, GaussianNoise(Fraction(9))), "sums", "two [bold]")
    first, second = answer("history", file, "views")["rows"]
    assert (first["dataset"], first["what"], first["nbytes"]) == ("train", "a greeting", 5)
    assert first["release_id"] == "one"
    assert first["charged"] <= first["released"] <= second["charged"]
    assert second["released"] is None
    assert second["loss"]["of"]["kind"] == "GaussianNoise"
    text = printed("history", file, "views")
    assert "elsewhere" in text
    assert first["epsilon"] == 0.5
    assert 0 < second["epsilon"] < 1
    assert "two [bold]" in text
    assert answer("history", file, "train")["rows"] == [first]


def test_errors_are_one_line_and_looking_makes_no_ledger(file, tmp_path):
    assert "there is no such ledger" in refused("show", file)
    assert "there is no such ledger" in refused("history", file, "views")
    assert not (tmp_path / file).exists()
    printed("create", file, "views", "--epsilon", 1)
    assert "epsilon must be" in refused("create", file, "new", "--epsilon", "nan")
    assert "delta must be" in refused("create", file, "new", "--epsilon", 1, "--delta", 1)
    assert "unit must be" in refused("create", file, "new", "--epsilon", 1, "--unit", "person")
    assert "is there already" in refused("create", file, "views", "--epsilon", 1)
    assert "no data set 'nobody'" in refused("show", file, "nobody")
    assert "no data set 'nobody'" in refused("history", file, "nobody")
    assert "--epsilon" in refused("create", file, "new")
    (tmp_path / "notes.txt").write_text("plain text " * 100)
    assert "not a ledger of ours" in refused("show", "notes.txt")
    assert "no folder" in refused("create", "nowhere/x.ledger", "views", "--epsilon", 1)


def test_help_names_the_units_and_loads_nothing_heavy():
    assert tuple(budget.UNITS.split(", ")) == UNITS
    code = (
        "import sys; from sfumato.cli import app\n"
        "try: app(['budget', 'create', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = 'numpy numba scipy dp_accounting sqlite3 rich duckdb pyarrow'.split()\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "[]"


def test_a_refused_budget_and_a_look_make_no_ledger(file, tmp_path):
    refused("create", file, "views", "--epsilon", "nan")
    refused("create", file, "views", "--epsilon", 1, "--delta", 2)
    assert not (tmp_path / file).exists()
    refused("create", file, "views", "--epsilon", 1, "--unit", "person")
    refused("create", file, "views", "--epsilon", 1, "--parent", "nobody")
    assert not (tmp_path / file).exists()
    (tmp_path / file).touch()
    assert "is empty, and no ledger" in refused("show", file)
    assert (tmp_path / file).stat().st_size == 0


def test_verify_prints_the_chain_and_knows_older_copies(file, tmp_path):
    printed("create", file, "views", "--epsilon", 1)
    early = answer("verify", file)
    assert (early["whole"], early["entries"]) == (True, 1)
    assert early["chain"] == answer("show", file)["chain"] == answer("show", file, "views")["chain"]
    assert f"chain {early['chain']}" in printed("show", file)
    shutil.copy(file, "copy.ledger")
    with Ledger(file) as ledger:
        ledger.charge("views", 0.5, "a count")
    late = answer("verify", file, "--expect", early["chain"])
    assert (late["entries"], late["since_expected"]) == (2, 1)
    assert late["chain"] in printed("verify", file)
    assert "never reached the chain" in refused("verify", "copy.ledger", "--expect", late["chain"])
    data = (tmp_path / file).read_bytes()
    place = data.index(b"a count")
    (tmp_path / file).write_bytes(data[:place] + b"A" + data[place + 1 :])
    for words in (["verify", file], ["show", file], ["create", file, "new", "--epsilon", 1]):
        assert "is damaged: entry 2 does not follow" in refused(*words)
    assert "there is no such ledger" in refused("verify", "nowhere")


def test_a_ledger_that_was_removed_is_begun_anew_only_when_told(file, tmp_path):
    printed("create", file, "views", "--epsilon", 1)
    with Ledger(file) as ledger:
        ledger.release("views", 0.5, "a model", lambda release_id: bytes(10**5))
    (tmp_path / file).unlink()
    assert "shop.ledger.blobs is left of it" in refused("create", file, "views", "--epsilon", 1)
    assert answer("create", file, "views", "--epsilon", 1, "--new-file")["remaining"] == 1


def test_resume_writes_what_was_stored_and_tells_how_to_complete_the_rest(file, tmp_path):
    printed("create", file, "views", "--epsilon", 1)
    CountMin(64).update(["tea"]).save("counts.sfu")
    with Ledger(file) as ledger, pytest.raises(ZeroDivisionError):
        ledger.release("views", 0.25, "ReleasedCountMin: x", lambda _: 1 // 0, release_id="lost")
    words = ["sketch", "release", "counts.sfu", "--epsilon", "0.5", "--ledger", file]
    words += ["--dataset", "views", "--release-id", "june", "-o", "june.sfu"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert answer("show", file, "views")["unfinished"] == 1
    assert "Charged without output: lost." in printed("history", file, "views")
    assert "none yet" in printed("history", file, "views")
    rows = answer("history", file, "views")["rows"]
    assert [(row["release_id"], row["unfinished"]) for row in rows] == [
        ("lost", True),
        ("june", False),
    ]
    (tmp_path / "june.sfu").rename(tmp_path / "first.sfu")
    assert answer("resume", file, "june", "-o", "june.sfu")["dataset"] == "views"
    assert (tmp_path / "june.sfu").read_bytes() == (tmp_path / "first.sfu").read_bytes()
    assert "use --force" in refused("resume", file, "june", "-o", "june.sfu")
    sentence = refused("resume", file, "lost", "-o", "lost.sfu")
    assert "sketch release SKETCH ... --ledger shop.ledger --dataset 'views'" in sentence
    assert "--release-id 'lost'" in sentence
    assert "draws its noise once and costs nothing more" in sentence
    assert not (tmp_path / "lost.sfu").exists()
    assert "there is no release 'other'" in refused("resume", file, "other", "-o", "x")
    with Ledger(file) as ledger:
        ledger.charge("views", 0.125, "mine", release_id="mine")
    assert "is stored elsewhere" in refused("resume", file, "mine", "-o", "x")
    assert answer("show", file, "views")["spent"] == 0.875


def test_a_full_disk_names_the_release_that_was_paid(file, tmp_path, monkeypatch):
    printed("create", file, "views", "--epsilon", 1)
    CountMin(64).update(["tea"]).save("counts.sfu")

    def full(*_):
        raise OSError(28, "No space left on device")

    words = ["sketch", "release", "counts.sfu", "--epsilon", "0.5", "--ledger", file]
    words += ["--dataset", "views", "-o", "x.sfu"]
    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "_store", full)
        result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    (charge,) = Ledger(file).history("views")
    assert charge.unfinished
    assert f"release '{charge.release_id}' of 'views' was charged" in result.stderr
    assert f"--release-id {charge.release_id} was charged; with it the next run is free" in (
        result.stderr
    )
    assert result.stderr.count("\n") == 1
    assert CliRunner().invoke(app, [*words, "--release-id", charge.release_id]).exit_code == 0
    assert answer("show", file, "views")["spent"] == 0.5
