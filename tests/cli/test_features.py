"""Features and attributes from a shell: fit, recommend, compare and tune, and what is refused."""

import pytest

from support.cli_workspace import ITEMS, USERS, run, run_json

FEATURES = ["--item-features", "films.csv", "--text-columns", "plot", "--feature-columns", "genre"]
ATTRIBUTES = ["--user-features", "people.tsv", "--attribute-columns", "age"]


@pytest.fixture(scope="module")
def tables(shop):
    films = [f"{n},word{n % 7} word{n % 3},{n % 4}|{n % 5}" for n in range(ITEMS + 5)]
    (shop / "films.csv").write_text("\n".join(["film,plot,genre", *films]))
    people = [f"{n}\t{n % 3}\tx" for n in range(USERS)]
    (shop / "people.tsv").write_text("\n".join(["user\tage\tname", *people]))
    return shop


def test_new_items_are_recommended_from_the_file_of_the_model(tables):
    found = run_json(tables, "fit", "train.csv", "-o", "c.sfu", "--model", "content", *FEATURES,
                     "--set", "prior=0", "--set", "stop_words=word1 word2")  # fmt: skip
    assert (found["kind"], found["catalogue"]) == ("ContentBased", ITEMS + 5)
    rows = run_json(tables, "recommend", "c.sfu", "3", "-n", str(ITEMS + 5))["rows"]
    assert {row["item"] for row in rows} >= set(range(ITEMS, ITEMS + 5))
    assert run_json(tables, "evaluate", "c.sfu", "test.csv", "--seen", "train.csv")["ndcg"] > 0


def test_users_without_ratings_are_predicted_by_attributes(tables):
    found = run_json(tables, "fit", "train.csv", "-o", "a.sfu", "--model", "attribute-means",
                     *ATTRIBUTES, "--item-features", "films.csv",
                     "--feature-columns", "kind=2")  # fmt: skip
    assert found["kind"] == "AttributeMeans"
    assert run_json(tables, "evaluate", "a.sfu", "test.csv")["rmse"] > 0


def test_models_that_take_features_get_them_in_comparisons_and_searches(tables):
    found = run_json(tables, "compare", "train.csv", "--models", "popular,content", *FEATURES)
    assert set(found["results"]) == {"popular", "content"}
    rated = run_json(tables, "compare", "train.csv", "--models", "attribute-means",
                     "--objective", "ratings", *ATTRIBUTES)  # fmt: skip
    assert set(rated["results"]) == {"damped-means", "attribute-means"}
    tuned = run_json(tables, "tune", "train.csv", "--model", "content", *FEATURES)
    assert tuned["best"].keys() == {"prior"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--model content", "ContentBased needs --item-features FILE, a table of features"),
        ("--model attribute-means", "AttributeMeans needs --user-features FILE"),
        ("--model content --item-features no.csv --text-columns a", "no.csv: there is no such"),
        ("--model content --item-features films.csv", "goes with --text-columns or"),
        ("--model content --item-features films.csv --text-columns b", "there is no column 'b'"),
        ("--model popular --item-features films.csv --text-columns plot", "--item-features does"),
        ("--model popular --text-columns plot", "--text-columns does not go with no --item-feat"),
    ],
)
def test_what_is_missing_is_one_line_with_the_remedy(tables, words, sentence):
    output = run(tables, "fit", "train.csv", "-o", "no.sfu", *words.split(), code=2)
    assert sentence in output
    assert len(output.strip().splitlines()) == 1
    assert not (tables / "no.sfu").exists()
