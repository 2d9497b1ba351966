"""`sfumato profiles`: a paid release of profiles, and what inspect and similar say of it."""

import numpy as np
import pytest

from sfumato.data import Interactions, read_interactions
from sfumato.privacy import Ledger
from sfumato.profile import Blip, ReleasedBlip, load
from support.cli_workspace import USERS, run, run_json
from support.hard_rows import released_to_all

USERS_OPTION = ["--users", "users.txt"]
PLAIN = ["profiles", "release", "train.csv", "--mechanism", "blip", "--epsilon", "40"]
PLAIN += ["--bits", "5000", "--hashes", "20"]
RELEASE = [*PLAIN, *USERS_OPTION]


@pytest.fixture(scope="module")
def released(shop):
    run(shop, *RELEASE, "-o", "blip.sfu")
    return shop / "blip.sfu"


def test_a_release_holds_a_profile_of_every_user_and_its_statement(shop, released):
    found = load(released)
    raw = read_interactions(shop / "train.csv")
    assert isinstance(found, ReleasedBlip)
    assert found.users_.tolist() == list(range(USERS))
    sizes = np.bincount(raw.users, minlength=USERS)[found.users_]
    # At epsilon 40 a size is estimated within 2 items; 6 of them are missed with p < 1e-3.
    assert np.abs(found.estimate_size() - sizes).mean() < 3
    assert found.statement.unit == "item of a profile"


def test_inspect_tells_both_losses(shop, released):
    output = " ".join(run(shop, "inspect", "blip.sfu").split())
    assert "proved, epsilon 40" in output
    assert "one item is hidden at epsilon 40, a whole profile of 100 items only at" in output
    document = run_json(shop, "inspect", "blip.sfu")
    assert document["kind"] == "ReleasedBlip"
    assert document["profiles"] == len(load(released))
    assert document["statement"]["epsilon"] == pytest.approx(40)


@pytest.mark.parametrize(
    "words",
    [
        ["--mechanism", "jlt", "--dimensions", "50", "--delta", "1e-5"],
        ["--mechanism", "signs", "--bits", "80", "--seed", "3"],
        ["--mechanism", "minima", "--bins", "16"],
        ["--mechanism", "blip", "--bits", "64", "--hashes", "2", "--typical-size", "27"],
    ],
)
def test_every_mechanism_is_released_and_searched(shop, words):
    kind = words[1].capitalize()
    words = ["train.csv", "--epsilon", "4", *USERS_OPTION, *words]
    run(shop, "profiles", "release", *words, "-o", kind)
    found = load(shop / kind)
    assert type(found).__name__ == f"Released{kind}"
    user = found.users_[0]
    ids, near, errors = found.nearest_with_errors([user], 4, metric="jaccard")
    rows = run_json(shop, "profiles", "similar", kind, str(user), "-n", "4", "--measure", "jaccard")
    assert [row["user"] for row in rows["rows"]] == ids[0].tolist()
    assert [row["similarity"] for row in rows["rows"]] == near[0].tolist()
    shown = [error if np.isfinite(error) else None for error in errors[0].tolist()]
    assert [row["std_error"] for row in rows["rows"]] == shown


def test_the_ledger_pays_once_and_a_retry_is_free(shop):
    ledger = Ledger(shop / "profiles.ledger")
    ledger.create("shop", epsilon=50, unit="item of a profile")
    paid = ["--ledger", "profiles.ledger", "--dataset", "shop", "--release-id", "june"]
    first = run_json(shop, *RELEASE, *paid, "-o", "paid.sfu")
    assert first["stored_before"] is False
    assert ledger.spent("shop").epsilon == pytest.approx(40, rel=1e-3)
    assert first["statement"]["dataset"] == "shop"
    assert "nothing was drawn" in run(shop, *RELEASE, *paid, "-o", "retry.sfu")
    assert (shop / "retry.sfu").read_bytes() == (shop / "paid.sfu").read_bytes()
    output = run(shop, *RELEASE, *paid[:4], "-o", "more.sfu", code=2)
    assert "budget" in output or "epsilon" in output
    assert not (shop / "more.sfu").exists()
    assert "make one with budget create" in run(
        shop, *RELEASE, "--ledger", "no.ledger", "--dataset", "x", "-o", "n.sfu", code=2
    )
    assert "--ledger and --dataset go together" in run(
        shop, *RELEASE, "--dataset", "x", "-o", "n.sfu", code=2
    )


def test_a_public_list_decides_who_has_a_profile_and_must_be_given(shop):
    (shop / "more.txt").write_text("\n".join(map(str, range(USERS + 3))))
    run(shop, *PLAIN, "--users", "more.txt", "-o", "listed.sfu")
    assert load(shop / "listed.sfu").users_.tolist() == list(range(USERS + 3))
    (shop / "fewer.txt").write_text("0\n1\n")
    output = run(shop, *PLAIN, "--users", "fewer.txt", "-o", "fewer.sfu")
    assert load(shop / "fewer.sfu").users_.tolist() == [0, 1]
    assert str(USERS) not in output
    assert "--users" in run(shop, *PLAIN, "-o", "x.sfu", code=2)
    assert not (shop / "x.sfu").exists()


def test_whole_users_are_hidden_on_request(shop):
    words = [*RELEASE, "-o", "user.sfu", "--unit", "user"]
    assert "contributions" in run(shop, *words, code=2)
    found = run_json(shop, *words, "--contributions", "5")
    assert (found["statement"]["unit"], found["statement"]["contributions"]) == ("user", 5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["release", "train.csv", "--mechanism", "nope", "--epsilon", "1"], "one of 'blip'"),
        (["release", "train.csv", "--mechanism", "blip", "--epsilon", "-1"], "Blip: --epsilon"),
        (["release", "train.csv", "--mechanism", "jlt", "--epsilon", "0"], "Jlt: --epsilon"),
        (["release", "gone.csv", "--mechanism", "blip", "--epsilon", "1"], "no such file"),
        (
            ["release", "train.csv", "--mechanism", "jlt", "--epsilon", "1", "--hashes", "2"],
            "--hashes does not go with --mechanism jlt",
        ),
    ],
)
def test_bad_releases_are_one_line_and_write_nothing(shop, words, sentence):
    output = run(shop, "profiles", *words, *USERS_OPTION, "-o", "bad.sfu", code=2)
    assert sentence in output
    assert output.count("\n") == 1
    assert not (shop / "bad.sfu").exists()


def test_an_input_is_never_the_output(shop, released):
    before = (shop / "train.csv").read_bytes()
    assert "is read as well" in run(shop, *RELEASE, "-o", "train.csv", "--force", code=2)
    assert (shop / "train.csv").read_bytes() == before
    assert "use --force" in run(shop, *RELEASE, "-o", "blip.sfu", code=2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["blip.sfu", "123456"], "has no profile of the user that was named"),
        (["blip.sfu", "bob"], "ids here are integers"),
        (["train.csv", "1"], "not a sketch"),
        (["gone.sfu", "1"], "gone.sfu: No such file"),
        (["blip.sfu", "1", "--measure", "hamming"], "measure must be one of 'cosine'"),
    ],
)
def test_who_cannot_be_compared_is_told(shop, released, words, sentence):
    assert sentence in run(shop, "profiles", "similar", *words, code=2)


def test_more_than_all_others_are_not_told(shop, released):
    rows = run_json(shop, "profiles", "similar", "blip.sfu", "7", "-n", "1000")["rows"]
    assert len(rows) == len(load(released)) - 1
    assert 7 not in [row["user"] for row in rows]
    assert "similarity" in run(shop, "profiles", "similar", "blip.sfu", "7")


def test_who_is_alike_in_a_release_that_tells_nothing_is_nobody(tmp_path):
    before = Interactions([0, 0, 1, 2], [7, 8, 7, 9], [1, 1, 1, 1])
    released_to_all(Blip(epsilon=0), before).save(tmp_path / "nothing.sfu")
    output = run(tmp_path, "profiles", "similar", "nothing.sfu", "1", "--json")
    assert output.count("similarity") == 0
    assert "the release shows no similar user" in output
