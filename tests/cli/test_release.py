"""`sfumato sketch release`: a private copy, its statement, and who pays."""

import json

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.privacy import Ledger
from sfumato.sketch import BloomFilter, CountMin, CountSketch, HyperLogLog, load


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def counted(tmp_path):
    path = tmp_path / "items.sketch"
    sketch = CountSketch(4096, 5, combine="median", track=10)
    sketch.update(["tea"] * 5000 + ["milk"] * 100).save(path)
    return path


def test_a_release_is_written_and_shown_with_its_statement(counted, tmp_path):
    out = tmp_path / "items.release"
    released = run("sketch", "release", counted, "-o", out, "--epsilon", 1)
    assert "PrivacyStatement: proved, epsilon 1" in released
    assert "unaccounted" in released
    assert "PrivacyStatement" in run("inspect", out)
    found = json.loads(run("inspect", out, "--json"))
    assert found["kind"] == "ReleasedCountSketch"
    assert found["statement"]["epsilon"] == 1
    assert found["statement"] == load(out).statement.to_dict()


def test_a_release_answers_about_keys_and_a_public_list(counted, tmp_path):
    out, listed = tmp_path / "items.release", tmp_path / "catalogue.txt"
    run("sketch", "release", counted, "-o", out, "--epsilon", 1)
    # Laplace noise of scale 5 in three of five rows passes 500 with p < 1e-80.
    (row,) = json.loads(run("sketch", "estimate", out, "tea", "--json"))["rows"]
    assert abs(row["estimate"] - 5000) < 500
    listed.write_text("rum\ntea\nmilk\n")
    found = json.loads(run("sketch", "top", out, "-k", 1, "--among", listed, "--json"))["rows"]
    assert found[0]["key"] == "tea"
    assert "--among FILE" in run("sketch", "top", out, code=2)


def test_integer_keys_of_a_release_are_asked_as_integers(tmp_path):
    path, out = tmp_path / "numbers.sketch", tmp_path / "numbers.release"
    CountSketch(4096).update([7] * 5000).save(path)
    run("sketch", "release", path, "-o", out, "--epsilon", 1)
    (row,) = json.loads(run("sketch", "estimate", out, 7, "--json"))["rows"]
    assert abs(row["estimate"] - 5000) < 500


def test_a_ledger_pays_once_for_a_name_and_refuses_past_its_budget(counted, tmp_path):
    ledger, first, second = tmp_path / "b.ledger", tmp_path / "1", tmp_path / "2"
    run("budget", "create", ledger, "shop", "--epsilon", 1.5)
    paid = ("--epsilon", 1, "--ledger", ledger, "--dataset", "shop")
    run("sketch", "release", counted, "-o", first, *paid, "--release-id", "june")
    again = ("sketch", "release", counted, "-o", second, *paid, "--release-id", "june", "--json")
    assert json.loads(run(*again))["stored_before"] is True
    assert first.read_bytes() == second.read_bytes()
    third = tmp_path / "3"
    assert "shop" in run("sketch", "release", counted, "-o", third, *paid, code=2)
    assert not third.exists()
    assert Ledger(ledger).spent("shop").epsilon == 1
    assert load(first).statement.release == "june"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--epsilon", "0"], "epsilon must be"),
        (["--epsilon", "1", "--delta", "1"], "delta must be"),
        (["--epsilon", "1", "--dataset", "shop"], "--ledger and --dataset go together"),
        (["--epsilon", "1", "--ledger", "no.ledger", "--dataset", "shop"], "there is no ledger"),
        (["--epsilon", "1", "--set", "wait=1"], "no setting 'wait'; it has weight"),
        (["--epsilon", "1", "--set", "weight=much"], "must be an integer"),
        (["--epsilon", "1", "--unit", "user"], "contributions must be"),
    ],
)
def test_bad_options_are_one_sentence_and_write_nothing(counted, tmp_path, words, sentence):
    out = tmp_path / "out"
    assert sentence in run("sketch", "release", counted, "-o", out, *words, code=2)
    assert not out.exists()


def test_other_kinds_are_released_with_their_own_settings(tmp_path):
    path, out = tmp_path / "a", tmp_path / "b"
    HyperLogLog(10).update(range(1000)).save(path)
    assert "--set largest=VALUE" in run(
        "sketch", "release", path, "-o", out, "--epsilon", 1, code=2
    )
    run("sketch", "release", path, "-o", out, "--epsilon", 4, "--set", "largest=100000")
    BloomFilter(1024, 2).update(["tea"]).save(path)
    run("sketch", "release", path, "-o", out, "--epsilon", 4, "--force")
    again = run("sketch", "release", out, "-o", tmp_path / "c", "--epsilon", 4, code=2)
    assert "is a release already" in again


def test_the_noise_can_be_chosen(counted, tmp_path):
    out = tmp_path / "out"
    for law, delta in (("laplace", 0), ("gaussian", 1e-6)):
        how = ("--epsilon", 1, "--delta", delta, "--set", f"noise={law}", "--force")
        released = run("sketch", "release", counted, "-o", out, *how)
        assert f"discrete {law.capitalize()} noise" in released
    how = ("--epsilon", 1, "--set", "noise=gaussian", "--force")
    assert "needs a delta" in run("sketch", "release", counted, "-o", out, *how, code=2)
    how = ("--epsilon", 1, "--set", "noise=loud", "--force")
    assert "noise must be one of" in run("sketch", "release", counted, "-o", out, *how, code=2)


def test_gaussian_noise_may_be_asked_for_at_any_epsilon(counted, tmp_path):
    how = ("--epsilon", 1000, "--delta", 1e-6, "--set", "noise=gaussian")
    assert "discrete Gaussian" in run("sketch", "release", counted, "-o", tmp_path / "out", *how)


def test_a_released_count_min_ranks_a_public_list(tmp_path):
    path, out, listed = tmp_path / "a", tmp_path / "b", tmp_path / "catalogue.txt"
    CountMin(4096, 5).update(["tea"] * 5000 + ["milk"] * 100).save(path)
    run("sketch", "release", path, "-o", out, "--epsilon", 1)
    listed.write_text("rum\ntea\nmilk\n")
    found = json.loads(run("sketch", "top", out, "-k", 1, "--among", listed, "--json"))["rows"]
    assert found[0]["key"] == "tea"


def test_a_heavier_event_is_hinted_at_without_confusing_keys(tmp_path):
    path = tmp_path / "a"
    CountMin(64).update(["tea"], [5]).save(path)
    released = run("sketch", "release", path, "-o", tmp_path / "b", "--epsilon", 1, code=2)
    assert "That is --set weight=W." in released
    assert "--text" not in released
