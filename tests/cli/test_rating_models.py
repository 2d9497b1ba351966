"""Models of ratings by name on the command line: files with times and attributes, and without."""

import pytest

from sfumato.data import generate_world
from sfumato.recommend.models import MODELS
from support.cli_workspace import run, run_json

RATINGS = [
    name for name, each in MODELS.items() if each.objectives == ("ratings",) and not each.private
]
QUICK = {
    "bayesian": ["--factors", "2", "--epochs", "4", "--set", "burn_in=1"],
    "langevin": ["--factors", "2", "--epochs", "4", "--set", "burn_in=1"],
    "bellkor-blend": ["--set", "parts=damped-means,temporal-means,rating-neighbours"],
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Ratings with times and without, and attributes of users."""
    folder = tmp_path_factory.mktemp("shop")
    rows = generate_world(users=60, items=40, ratings=1200, random_state=1).interactions
    lines = zip(rows.users, rows.items, rows.ratings, strict=True)
    plain = [f"{user},{item},{rating}" for user, item, rating in lines]
    timed = [f"{line},{10**9 + 90_000 * at}" for at, line in enumerate(plain)]
    (folder / "plain.csv").write_text("user,item,rating\n" + "\n".join(plain) + "\n")
    (folder / "timed.csv").write_text("user,item,rating,time\n" + "\n".join(timed) + "\n")
    people = "".join(f"{n},{n % 3}\n" for n in range(60))
    (folder / "people.csv").write_text("user,group\n" + people)
    return folder


@pytest.mark.parametrize("name", RATINGS)
def test_every_model_of_ratings_is_fitted_evaluated_and_recommends(shop, name):
    words = ["fit", "timed.csv", "-o", "m.sfu", "--model", name, "--force", *QUICK.get(name, [])]
    if "attributes" in getattr(MODELS[name].kind, "NEEDS", ()):
        words += ["--user-features", "people.csv", "--attribute-columns", "group"]
    found = run_json(shop, *words)
    assert (found["kind"], found["ratings"]) == (MODELS[name].kind.__name__, 1200)
    assert run_json(shop, "evaluate", "m.sfu", "timed.csv")["rmse"] < 1.2
    assert len(run_json(shop, "recommend", "m.sfu", "7", "-n", "4")["rows"]) == 4


@pytest.mark.parametrize(
    "words",
    [["time-svdpp"], ["temporal-means"], ["bellkor-blend", "--set", "parts=temporal-means,dense"]],
)
def test_missing_times_are_refused_with_the_option_that_gives_them(shop, words):
    said = run(shop, "fit", "plain.csv", "-o", "none.sfu", "--model", *words, code=2)
    assert "has no times" in said
    assert "--time-column" in said
    assert not (shop / "none.sfu").exists()
