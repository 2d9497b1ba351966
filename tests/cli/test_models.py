"""fit, evaluate, recommend, tune and audit model: from a file of ratings to answers and reports."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from sfumato.cli.demo.recommend import _label
from sfumato.data import generate_world
from sfumato.privacy import Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import PrivateFactorization, load
from support.cli_workspace import INTERRUPTIBLE, result_of, run, run_json

STARS = ("--objective", "ratings")


@pytest.fixture(scope="module")
def model(shop):
    run(shop, "fit", "train.csv", "-o", "model.sfu", *STARS, "--epochs", "5")
    return shop / "model.sfu"


def test_a_fitted_model_is_what_the_library_fits(shop, model):
    loaded = load(model)
    assert loaded.get_params()["epochs"] == 5
    found = run_json(shop, "fit", "train.csv", "-o", "again.sfu", *STARS, "--epochs", "5")
    assert (found["kind"], found["ratings"]) == ("SketchFactorization", 5400)
    assert (shop / "again.sfu").read_bytes() == model.read_bytes()


def test_evaluate_tells_errors_rows_and_memory(shop, model):
    found = run_json(shop, "evaluate", "model.sfu", "test.csv")
    rows = np.loadtxt(shop / "test.csv", delimiter=",", skiprows=1)
    predicted = load(model).predict(rows[:, 0].astype(int), rows[:, 1].astype(int))
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((predicted - rows[:, 2]) ** 2)))
    assert found["mae"] == pytest.approx(np.mean(np.abs(predicted - rows[:, 2])))
    assert (found["n"], found["nbytes"]) == (len(rows), load(model).nbytes)
    ranked = run_json(
        shop, "evaluate", "model.sfu", "test.csv", "--top", "5", "--seen", "train.csv"
    )
    assert 0 <= ranked["ndcg"] <= 1


def test_recommend_leaves_out_what_was_seen(shop, model):
    rows = run_json(shop, "recommend", "model.sfu", "7", "-n", "4", "--seen", "train.csv")["rows"]
    train = np.loadtxt(shop / "train.csv", delimiter=",", skiprows=1)
    observed = set(train[train[:, 0] == 7, 1].astype(int).tolist())
    assert len(rows) == 4
    assert not observed & {row["item"] for row in rows}
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)


def test_a_user_whom_the_model_does_not_know_is_said_to_get_what_is_popular(shop, model):
    run(shop, "fit", "train.csv", "--model", "popular", "-o", "popular.sfu", "--force")
    words = ("recommend", "popular.sfu")
    assert "does not know user 99999" in result_of(shop, *words, "99999").stderr
    assert "does not know" not in result_of(shop, *words, "7").stderr
    assert result_of(shop, *words, "99999", "-q").stderr == ""


def test_a_guest_is_served_from_likes(shop, model):
    rows = run_json(shop, "recommend", "model.sfu", "--likes", "3", "--likes", "5", "-n", "3")[
        "rows"
    ]
    assert len(rows) == 3
    assert not {3, 5} & {row["item"] for row in rows}
    assert "give either a user's id" in run(shop, "recommend", "model.sfu", code=2)


def test_a_private_model_needs_its_public_inputs_and_is_paid_first(shop):
    ledger = Ledger(shop / "stars.ledger")
    ledger.create("stars", epsilon=8, delta=1e-6)
    base = ["fit", "train.csv", "-o", "private.sfu", "--epsilon", "4", "--delta", "1e-6", *STARS]
    assert "--bounds" in run(shop, *base, code=2)
    bounded = [*base, "--bounds", "1", "5"]
    assert "catalogue" in run(shop, *bounded, code=2)
    public = [*bounded, "--catalogue", "items.txt", "--accounts", "users.txt"]
    paid = ["--ledger", "stars.ledger", "--dataset", "stars", "--release-id", "june"]
    found = run_json(shop, *public, *paid)
    assert found["privacy"] == "proved"
    assert "ratings" not in found  # their number is not printed
    assert ledger.spent("stars").epsilon == pytest.approx(found["statement"]["epsilon"], rel=1e-3)
    first = (shop / "private.sfu").read_bytes()
    run_json(shop, *public, *paid, "--force")
    assert (shop / "private.sfu").read_bytes() == first
    assert "proved" in run(shop, "inspect", "private.sfu")


def test_a_private_model_with_one_list_for_all_says_so_and_what_would_personalise(shop):
    # 6000 ratings of 200 users and 120 items are too few at epsilon 0.2 and enough at 40.
    private = ["--delta", "1e-6", *STARS, "--bounds", "1", "5"]
    public = ["--catalogue", "items.txt", "--accounts", "users.txt"]
    few = result_of(shop, "fit", "train.csv", "-o", "a.sfu", "--epsilon", "0.2", *private, *public)
    assert "warning: All users get one list" in few.stderr
    assert "a larger epsilon, with covers='joint'" in few.stderr
    got = result_of(shop, "recommend", "a.sfu", "7")
    assert "sfumato: All users get one list" in got.stderr
    assert result_of(shop, "recommend", "a.sfu", "7", "-q").stderr == ""
    assert "All users get one list" in run_json(shop, "inspect", "a.sfu")["one_list"]
    many = result_of(shop, "fit", "train.csv", "-o", "b.sfu", "--epsilon", "40", *private, *public)
    assert "one list" not in many.output
    assert "one list" not in result_of(shop, "recommend", "b.sfu", "7").output


def test_a_private_model_counts_every_row_and_answers_ids_as_they_are_written(shop, monkeypatch):
    text = (shop / "train.csv").read_text()
    (shop / "twice.csv").write_text(text + "7,3,5\n" * 2 + "guest,3,5\n")
    rows, plain = [], PrivateFactorization.fit

    def noted(model, train, **options):
        rows.append(len(train))
        return plain(model, train, **options)

    monkeypatch.setattr(PrivateFactorization, "fit", noted)
    private = [
        "--epsilon",
        "4",
        "--delta",
        "1e-6",
        "--bounds",
        "1",
        "5",
        "--catalogue",
        "items.txt",
    ]
    joint = ["--unit", "user", "--covers", "joint", "--per-user", "9"]
    run(shop, "fit", "twice.csv", "-o", "twice.sfu", *private, *joint)
    assert rows == [text.count("\n") - 1 + 3]
    for observed in ([], ["--seen", "train.csv"], ["--seen", "twice.csv"]):
        assert run_json(shop, "recommend", "twice.sfu", "7", "-n", "2", *observed)["rows"]


def test_seeded_noise_is_no_privacy_in_the_demo():
    world = generate_world(users=20, items=10, ratings=90, random_state=1).interactions
    model = PrivateFactorization(epsilon=4, delta=1e-6, bounds=(1, 5))
    assert _label(model) == "none"
    public = {"users": range(20), "catalogue": range(10)}
    assert _label(model.fit(world, **public)) == "epsilon 4, proved"
    assert _label(model.fit(world, **public, source=InsecureSeededSource(1))) == "none"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--dense", "--depth", "2"], "fit: --depth does not go with --model dense"),
        (["--epsilon", "1", "--clip", "1"], "--clip does not go with --model private-"),
        (["--epsilon", "1", "--seed", "0"], "--seed does not go with --model private-"),
        (["--epsilon", "1", "--valid", "test.csv"], "--valid does not go with --model private-"),
        (["--factors", "0", *STARS], "factors must be"),
        (["--dataset", "stars"], "--dataset does not go with a model without --epsilon"),
        (["--catalogue", "none.txt"], "none.txt"),
    ],
)
def test_options_that_do_not_go_together_are_one_line_and_nothing_is_written(shop, words, sentence):
    output = run(shop, "fit", "train.csv", "-o", "wrong.sfu", *words, code=2)
    assert sentence in output
    assert len(output.strip().splitlines()) == 1
    assert not (shop / "wrong.sfu").exists()


def test_half_a_model_file_is_one_line(shop, model):
    half = shop / "half.sfu"
    half.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    for command in (["evaluate", "half.sfu", "test.csv"], ["recommend", "half.sfu", "1"]):
        output = run(shop, *command, code=2)
        assert len(output.strip().splitlines()) == 1


def test_tune_goes_on_from_its_log(shop):
    words = ["tune", "train.csv", *STARS, "--epochs", "2", "--log", "trials.jsonl"]
    first = run_json(shop, *words)
    assert set(first["best"]) == {"learning_rate", "regularization", "factors"}
    retained = (shop / "trials.jsonl").read_bytes()
    second = run_json(shop, *words, "-o", "best.sfu")
    assert (second["best"], (shop / "trials.jsonl").read_bytes()) == (first["best"], retained)
    assert load(shop / "best.sfu").learning_rate == first["best"]["learning_rate"]
    assert "another" in run(shop, *words[:4], "--depth", "1", "--log", "trials.jsonl", code=2)


def test_audit_model_writes_figures_picture_and_page(shop, model):
    words = ["audit", "model", "model.sfu", "--train", "train.csv", "--test", "test.csv"]
    found = run_json(shop, *words)
    assert set(found["files"]) == {"json", "png", "html"}
    assert json.loads((shop / "model-audit.json").read_text())["model"] == "SketchFactorization"
    assert (shop / "model-audit.png").read_bytes().startswith(b"\x89PNG")
    assert "not a release" in (shop / "model-audit.html").read_text()
    assert "use --force" in run(shop, *words, code=2)
    assert "attack" in run(shop, *words, "--force")


def test_ctrl_c_keeps_the_last_whole_epoch(shop):
    code = (
        INTERRUPTIBLE + "import sys; from sfumato.cli import main; sys.argv[0] = 'sfumato'; main()"
    )
    words = ["fit", "train.csv", "-o", "stopped.sfu", *STARS, "--epochs", "1000000", "--quiet"]
    running = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=shop, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and _cpu(running.pid) < 4:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "last whole epoch" in errors
    assert np.isfinite(load(shop / "stopped.sfu").predict(1, 1)).all()


def _cpu(pid):
    """Seconds of work a process has done: it is past its imports after a few."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
