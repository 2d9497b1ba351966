"""compare: a leaderboard on a file, its page and JSON, and what is refused before any fit."""

import json

import pytest

from sfumato.data import read_interactions
from sfumato.recommend import ItemNeighbours
from sfumato.recommend.comparison import EvaluationProtocol, compare
from support.cli_workspace import result_of, run, run_json

LISTS = ("compare", "train.csv", "--models", "popular,item-neighbours")


def test_the_leaderboard_is_that_of_the_library(shop):
    found = run_json(shop, *LISTS, "--repeats", "2", "--seed", "3", "--metrics", "mrr@5")
    data = read_interactions(shop / "train.csv")
    protocol = EvaluationProtocol(repeats=2, random_state=3, metrics=("mrr@5",))
    known = compare({"item-neighbours": ItemNeighbours()}, data, protocol).to_dict()
    assert found["protocol"] == known["protocol"]
    metrics = {name: each["metrics"] for name, each in found["results"].items()}
    assert metrics == {name: each["metrics"] for name, each in known["results"].items()}
    printed = run(shop, *LISTS)
    assert "95 % intervals over users" in printed
    assert all(word in printed for word in ("ndcg@10", "popularity bias", "privacy", "popular"))


def test_the_page_is_written_once(shop):
    run(shop, *LISTS, "-o", "page.html")
    assert (shop / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert "--force" in run(shop, *LISTS, "-o", "page.html", code=2)
    run(shop, *LISTS, "-o", "page.html", "--force")


def test_a_model_that_fails_is_named_and_the_others_are_printed(shop):
    words = (
        "compare",
        "train.csv",
        "--models",
        "dense,popular",
        "--objective",
        "ratings",
        "--json",
    )
    result = result_of(shop, *words, code=2)
    assert set(json.loads(result.stdout)["results"]) == {"dense", "damped-means"}
    assert "sfumato: popular failed: Popular predicts no ratings" in result.stderr


def test_ctrl_c_prints_what_is_complete(shop, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ItemNeighbours, "fit", interrupted)
    result = result_of(shop, *LISTS, "--json", code=130)
    found = json.loads(result.stdout)
    assert found["stopped"]
    assert set(found["results"]) == {"popular"}
    assert "this is what was complete" in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--models", "popular,best"), "the model must be one of popular"),
        (("--models", ","), "models"),
        (("--models", "popular", "--split", "week"), "split must be one of"),
        (("--models", "popular", "--split", "time"), "have no times"),
        (("--models", "popular", "--split", "last", "--repeats", "3"), "repeats must be 1"),
        (("--models", "popular", "--metrics", "rmse"), "metrics must all be metrics of ranking"),
        (("--models", "private-factorization"), "parameters without default"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(shop, words, sentence):
    said = result_of(shop, "compare", "train.csv", *words, code=2).stderr
    assert sentence in said
    assert len(said.splitlines()) == 1
