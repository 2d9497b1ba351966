"""`sfumato audit profiles`: one page for the curator, or one line about what is wrong."""

import json

import pytest

from sfumato.attack import audit_profiles
from sfumato.attack.decoders import taste_prior as taste
from sfumato.cli import profiles
from sfumato.data import read_interactions
from sfumato.profile import Blip, Jlt, Minima, Signs
from support.cli_workspace import run, run_json

SMALL = ["--mechanism", "blip", "--bits", "512", "--hashes", "4", "--attacked", "30"]
AUDIT = ["audit", "profiles", "train.csv", *SMALL]


def files(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def audited(shop):
    return run_json(shop, *AUDIT, "--epsilon", "8")


def test_an_audit_is_what_the_library_finds_in_three_files(shop, audited):
    mechanism = Blip(bits=512, hashes=4, epsilon=8)
    found = audit_profiles(
        read_interactions(shop / "train.csv", duplicates="keep"), mechanism, sample=30
    )
    assert {name: audited[name] for name in found.to_dict()} == json.loads(
        json.dumps(found.to_dict())
    )
    written = found.files()
    assert set(audited["files"]) == set(written) == {"json", "png", "html"}
    for kind, data in written.items():
        assert (shop / f"train-audit.{kind}").read_bytes() == data
    assert len(found.points) == 7


def test_people_read_the_sentence_and_the_promise(shop, audited):
    output = run(shop, *AUDIT, "--epsilon", "8", "-o", "again")
    for words in (audited["sentence"], audited["promise"], "users attacked", "again.html"):
        assert words in output
    assert "not a release" in (shop / "again.html").read_text()
    first, second, *_ = [line for line in output.splitlines() if line.strip()]
    assert "audience" in first
    assert "for the curator; not a release" in first
    assert "mechanism" in second


def test_the_largest_epsilon_that_is_allowed_is_told(shop):
    words = [*AUDIT, "--choose-epsilon", "--max-recovery", "0.7"]
    found = run_json(shop, *words, "-o", "chosen")
    assert found["choice"]["low"] <= found["choice"]["epsilon"] <= found["choice"]["high"]
    assert found["choice"]["max_recovery"] == 0.7
    assert found["recovery"] <= 0.7
    assert found["choice"]["sentence"] in (shop / "chosen.html").read_text()
    assert found["choice"]["depends_on_raw_data"] is True


def test_people_are_told_that_raw_data_decided(shop):
    words = [*AUDIT, "--choose-epsilon", "--max-recovery", "0.7"]
    output = " ".join(run(shop, *words, "-o", "said", "--quiet").split())
    assert "the guarantee of a release does not cover the choice" in output
    page = " ".join(run(shop, "audit", "profiles", "--help").split())
    assert "one row can move it" in page


def test_exit_code_1_where_no_epsilon_is_small_enough(shop):
    words = [*AUDIT, "--choose-epsilon", "--max-recovery", "0.1", "--quiet"]
    output = run(shop, *words, "-o", "none", code=1)
    assert "No epsilon keeps recovery at or below 10%: popularity alone recovers" in output
    assert (shop / "none.html").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--mechanism", "nope", "--epsilon", "1"], "must be one of 'blip', 'jlt', 'signs'"),
        (["--epsilon", "0"], "audit_profiles: --epsilon must be above 0: at 0 a release carries"),
        (["--epsilon", "-1"], "Blip: --epsilon must be a number from 0 up, not -1.0"),
        (["--epsilon", "nan"], "Blip: --epsilon"),
        (["--mechanism", "jlt", "--epsilon", "0"], "Jlt: --epsilon"),
        ([], "give --epsilon, or --choose-epsilon"),
        (["--epsilon", "1", "--choose-epsilon"], "--epsilon does not go with --choose-epsilon"),
        (["--epsilon", "1", "--max-recovery", "0.3"], "--max-recovery goes with --choose-epsilon"),
        (["--choose-epsilon", "--max-recovery", "2"], "--max-recovery must be"),
        (["--epsilon", "1", "--dimensions", "9"], "--dimensions does not go with --mechanism blip"),
        (["--epsilon", "1", "--delta", "1e-6"], "--delta does not go with --mechanism blip"),
        (["--epsilon", "1", "--hashes", "0"], "Blip: --hashes"),
        (["--epsilon", "1", "--known", "1"], "known must be a number between 0 and 1"),
        (["--epsilon", "1", "--attacked", "1"], "--attacked must be an integer from 2"),
        (["--epsilon", "1", "--seed", "-1"], "seed must be"),
    ],
)
def test_bad_values_are_one_line_and_write_nothing(shop, words, sentence):
    before = files(shop)
    output = run(shop, "audit", "profiles", "train.csv", "-o", "bad", *words, code=2)
    assert output.startswith("sfumato: ")
    assert output.count("\n") == 1
    assert sentence in output
    assert files(shop) == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty"),
        ("user,item,rating\n", "at least 20 users, not 0"),
        ("user,item,rating\n" + "".join(f"{u},1,1\n" for u in range(19)), "20 users, not 19"),
        ("user,item,rating\n1,2\n", "line 2"),
    ],
)
def test_files_that_tell_too_little_are_refused(shop, text, sentence):
    (shop / "few.csv").write_text(text)
    output = run(shop, "audit", "profiles", "few.csv", "--epsilon", "1", code=2)
    assert sentence in output
    assert "few-audit.html" not in files(shop)


def test_no_file_is_lost(shop, audited):
    assert "use --force" in run(shop, *AUDIT, "--epsilon", "8", code=2)
    (shop / "own.json").write_text((shop / "train.csv").read_text())
    before = (shop / "own.json").read_bytes()
    words = ["audit", "profiles", "own.json", "--epsilon", "1", "-o", "own"]
    assert "is read as well" in run(shop, *words, "--force", code=2)
    assert (shop / "own.json").read_bytes() == before
    missing = ["audit", "profiles", "gone.csv", "--epsilon", "1"]
    assert "gone.csv: there is no such file" in run(shop, *missing, code=2)
    assert "there is no folder" in run(shop, *AUDIT, "--epsilon", "1", "-o", "no/where", code=2)


def test_ctrl_c_writes_nothing_and_says_so(shop, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(taste.TastePrior, "log_odds", stopped)
    before = files(shop)
    output = run(shop, *AUDIT, "--epsilon", "8", "-o", "stopped", code=130)
    assert "stopped; nothing was written" in output
    assert files(shop) == before


def test_repeated_rows_count_once(shop, audited):
    header, *rows = (shop / "train.csv").read_text().splitlines()
    (shop / "twice.csv").write_text("\n".join([header, *rows, *rows[:500]]) + "\n")
    words = ["audit", "profiles", "twice.csv", *SMALL, "--epsilon", "8"]
    assert run_json(shop, *words)["points"] == audited["points"]


def test_options_are_the_parameters_of_the_mechanisms():
    for kind in (Blip, Jlt, Minima, Signs):
        own = set(kind.LIMITS) - {"epsilon", "sigma", "seed", "typical_size"}
        assert own == set(profiles.KINDS[kind.__name__.lower()])
