"""Models of lists from a shell: two columns are enough, and the default beats popularity."""

import json

import numpy as np
import pytest

from sfumato.data import read_interactions
from sfumato.privacy import Ledger
from sfumato.recommend import LinearItems, Popular, PrivateNeighbours, load
from sfumato.recommend.models import MODELS
from support.cli_workspace import run, run_json

LISTS = [name for name, each in MODELS.items() if "ranking" in each.objectives]
LISTS = [name for name in LISTS if not MODELS[name].private]
ERRORS = {"rmse", "mae"}


@pytest.fixture(scope="module")
def pairs(shop):
    """The same shop, with neither ratings nor names of columns, and users that are words."""
    for name in ("train", "test"):
        rows = np.loadtxt(shop / f"{name}.csv", delimiter=",", skiprows=1, dtype=int)[:, :2]
        text = "".join(f"u{user}\t{item}\n" for user, item in rows)
        (shop / f"{name}.tsv").write_text(text)
    return shop


def test_the_default_makes_lists_that_beat_popularity(shop):
    found = run_json(shop, "fit", "train.csv", "-o", "lists.sfu")
    assert (found["kind"], found["ratings"], found["privacy"]) == ("LinearItems", 5400, "none")
    run(shop, "fit", "train.csv", "-o", "popular.sfu", "--model", "popular")
    ours, popular = (
        run_json(shop, "evaluate", name, "test.csv", "--seen", "train.csv")
        for name in ("lists.sfu", "popular.sfu")
    )
    assert not ERRORS & ours.keys()
    assert ours["ndcg"] > 1.05 * popular["ndcg"] > 0
    assert ours["places"] == 10


def test_a_parameter_without_default_is_required_by_its_name(pairs):
    words = ["fit", "train.tsv", "-o", "m.sfu", "--model", "curated"]
    assert "fit: --model curated needs --set items=VALUE" in run(pairs, *words, code=2)


@pytest.mark.parametrize("name", LISTS)
def test_every_model_of_lists_needs_two_columns_only(pairs, name):
    words = ["fit", "train.tsv", "-o", "m.sfu", "--model", name, "--valid", "test.tsv", "--force"]
    if "features" in getattr(MODELS[name].kind, "NEEDS", ()):
        lines = "".join(f"{n},{n % 5}\n" for n in range(120))
        (pairs / "kinds.csv").write_text("item,kind\n" + lines)
        words += ["--item-features", "kinds.csv", "--feature-columns", "kind"]
    words += ["--set", "items=3,5"] if name == "curated" else []
    found = run_json(pairs, *words)
    assert (found["kind"], found["interactions"]) == (MODELS[name].kind.__name__, 5400)
    measured = run_json(pairs, "evaluate", "m.sfu", "test.tsv", "--seen", "train.tsv")
    assert not ERRORS & measured.keys()
    if "valid" not in MODELS[name].kind.fit.__code__.co_varnames:
        assert found["valid_ndcg"] == measured["ndcg"]
    rows = run_json(pairs, "recommend", "m.sfu", "u7", "-n", "4", "--seen", "train.tsv")["rows"]
    train = [line.split("\t") for line in (pairs / "train.tsv").read_text().split("\n")]
    own = {int(row[1]) for row in train if row[0] == "u7"}
    assert len({row["item"] for row in rows} - own) == 4
    assert len(run_json(pairs, "recommend", "m.sfu", "--likes", "3", "-n", "2")["rows"]) == 2
    assert run_json(pairs, "inspect", "m.sfu")["kind"] == found["kind"]


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        (
            "--model item-neighbours --neighbours 7 --weighting log --relevant-from 2 "
            "--set shrinkage=3 --set metric=jaccard",
            {
                "neighbours": 7,
                "weighting": "log",
                "relevant_from": 2.0,
                "shrinkage": 3.0,
                "metric": "jaccard",
            },
        ),
        ("--regularization 20", {"regularization": 20.0}),
        ("--model dense --objective ratings --factors 4 --set decay=2", {"decay": 2.0}),
        ("--epochs 1 --seed 0 --set seed=3", {"epochs": 1, "random_state": 0, "seed": 3}),
    ],
)
def test_options_and_settings_reach_the_model(shop, words, parameters):
    run(shop, "fit", "train.csv", "-o", "set.sfu", "--force", *words.split())
    found = load(shop / "set.sfu").get_params()
    assert {name: found[name] for name in parameters} == parameters


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("--objective ratings", "SketchFactorization"),
        ("--objective ratings --gain 2", "SketchFactorization"),
        ("--epochs 1", "SketchFactorization"),
        ("--objective ratings --clip 2", "SketchFactorization"),
        ("--objective ratings --dense", "DenseFactorization"),
        ("--dense", "DenseFactorization"),
        ("--weighting log", "LinearItems"),
    ],
)
def test_options_imply_the_model_that_has_them(shop, words, kind):
    assert run_json(shop, "fit", "train.csv", "-o", "i.sfu", "--force", *words.split())[
        "kind"
    ] == kind  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--model linear-items --depth 2", "fit: --depth does not go with --model linear-items."),
        ("--model popular --regularization 3", "--regularization does not go with --model popular"),
        ("--model dense --neighbours 3", "--neighbours does not go with --model dense"),
        ("--model linear-items --objective ratings", "--model linear-items, which learns lists"),
        ("--model popular --epsilon 1", "--epsilon does not go with --model popular"),
        ("--model popular --dense", "--dense does not go with --model popular"),
        ("--model ease", "the model must be one of popular, curated,"),
        ("--objective stars", "--objective must be one of"),
        ("--set shrinkage", "--set must be NAME=VALUE"),
        ("--set regularization=3", "--set regularization: that is --regularization"),
        ("--model sketch --set random_state=3", "--set random_state: that is --seed"),
        ("--model item-neighbours --set k=3", "no parameter 'k'; those that --set gives are: metr"),
        ("--model item-neighbours --set shrinkage=[1]", "ItemNeighbours: --set shrinkage must be"),
        ("--no-ratings --rating-column 2", "--rating-column does not go with --no-ratings"),
        ("--no-ratings --objective ratings", "train has no ratings to learn from"),
        ("--no-ratings --relevant-from 3", "--relevant-from must be left out, since train has no"),
    ],
)
def test_what_a_model_does_not_take_is_one_line_and_nothing_is_written(shop, words, sentence):
    output = run(shop, "fit", "train.csv", "-o", "no.sfu", *words.split(), code=2)
    assert sentence in output
    assert len(output.strip().splitlines()) == 1
    assert not (shop / "no.sfu").exists()


def test_the_models_are_listed(shop):
    rows = run_json(shop, "models")["rows"]
    assert [row["name"] for row in rows] == list(MODELS)
    wanted = {"name", "class", "learns", "needs", "stores", "privacy", "about"}
    assert all(row.keys() == wanted and all(row.values()) for row in rows)
    shown = run(shop, "models")
    assert all(name in shown and MODELS[name].about in shown for name in MODELS)


def test_lists_are_tuned_by_their_ndcg(shop):
    words = ["tune", "train.csv", "--log", "lists.jsonl"]
    found = run_json(shop, *words, "-o", "tuned.sfu")
    assert found["best"].keys() == {"regularization"}
    trials = [json.loads(line) for line in (shop / "lists.jsonl").read_text().splitlines()[1:]]
    assert found["valid_ndcg"] == max(trial["ndcg"] for trial in trials)
    assert found["trials"] == len(trials) > 6
    assert load(shop / "tuned.sfu").regularization == found["best"]["regularization"]
    retained = (shop / "lists.jsonl").read_bytes()
    assert run_json(shop, *words)["best"] == found["best"]
    assert (shop / "lists.jsonl").read_bytes() == retained
    assert "popular has nothing to tune" in run(shop, *words[:2], "--model", "popular", code=2)


def test_lists_are_measured_where_ratings_cannot_be(shop, pairs):
    run(shop, "fit", "train.csv", "-o", "stars.sfu", "--objective", "ratings", "--epochs", "2")
    both = run_json(shop, "evaluate", "stars.sfu", "test.csv", "--seen", "train.csv")
    assert both.keys() > ERRORS
    assert both["places"] == 10
    (shop / "pairs.csv").write_text("user,item\n7,3\n7,5\n")
    alone = run_json(shop, "evaluate", "stars.sfu", "pairs.csv")
    assert not ERRORS & alone.keys()
    assert alone["places"] == 10
    words = ["evaluate", "stars.sfu", "pairs.csv", "--relevant-from", "3"]
    assert "--relevant-from must be left out, since test has no ratings" in run(
        shop, *words, code=2
    )


def test_a_model_of_lists_is_audited_by_its_scores(pairs):
    run(pairs, "fit", "train.tsv", "-o", "audited.sfu")
    words = ["audit", "model", "audited.sfu", "--train", "train.tsv", "--test", "test.tsv"]
    found = run_json(pairs, *words)
    auc = found["membership"]["attacks"]["likelihood ratio"]["auc"]
    assert auc["low"] > 0.5  # it fits its rows better than others, and is not private


def test_ctrl_c_of_a_model_without_epochs_writes_nothing(shop, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LinearItems, "_learn", stopped)
    output = run(shop, "fit", "train.csv", "-o", "never.sfu", code=130)
    assert "stopped; nothing was written" in output
    assert not (shop / "never.sfu").exists()


def test_counts_of_plays_are_read_as_they_come(shop):
    (shop / "plays.dat").write_text("userID\tartistID\tweight\n" + "2\t51\t13883\n3\t52\t11690\n")
    run(shop, "fit", "plays.dat", "-o", "plays.sfu", "--model", "popular")
    assert isinstance(load(shop / "plays.sfu"), Popular)
    found = run_json(shop, "fit", "plays.dat", "-o", "log.sfu", "--weighting", "log")
    assert (found["ratings"], found["catalogue"]) == (2, 2)


def test_a_private_model_of_ratings_refuses_rows_without_before_it_is_paid(shop, pairs):
    ledger = Ledger(shop / "pairs.ledger")
    ledger.create("pairs", epsilon=8, delta=1e-6)
    private = ["--epsilon", "4", "--delta", "1e-6", "--bounds", "1", "5", "--set", "rows=64"]
    private += ["--catalogue", "items.txt", "--ledger", "pairs.ledger", "--dataset", "pairs"]
    output = run(pairs, "fit", "train.tsv", "-o", "p.sfu", *private, code=2)
    assert "train has no ratings to learn from" in output
    assert ledger.spent("pairs").epsilon == 0
    found = run_json(pairs, "fit", "train.csv", "-o", "p.sfu", *private)
    assert (found["parameters"]["rows"], found["privacy"]) == (64, "proved")


def test_a_release_of_neighbours_recommends_from_the_users_own_items(pairs):
    rows = read_interactions(pairs / "train.csv", ratings=False, invalid="drop")
    model = PrivateNeighbours(epsilon=8, delta=1e-6, per_user=20)
    model.fit(rows, catalogue=range(120)).release_.save(pairs / "near.sfu")
    output = run(pairs, "recommend", "near.sfu", "7", code=2)
    assert "needs the user's own items; give --seen" in output
    found = run_json(pairs, "recommend", "near.sfu", "7", "-n", "3", "--seen", "train.csv")["rows"]
    own = set(rows.items[rows.users == 7].tolist())
    assert len({row["item"] for row in found} - own) == 3
    assert len(run_json(pairs, "recommend", "near.sfu", "--likes", "3", "-n", "2")["rows"]) == 2
    measured = run_json(pairs, "evaluate", "near.sfu", "test.csv", "--seen", "train.csv")
    assert not ERRORS & measured.keys()
