"""Commands whose result is private: one odd row changes nobody else's part of it."""

import pytest

from sfumato.cli import _ratings
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.profile import Blip, load
from shops import run

TEXT = "user,item,rating\n" + "".join(
    f"{user},caf\u00e9-{item},1\n" for user in range(1, 51) for item in range(5)
)
ODD = b"1,\xe9,1\n"
FIT = "--epsilon 1 --delta 1e-6 --bounds 1 5 --accounts accounts.txt --catalogue items.txt"
COMMANDS = {
    "profiles": ["profiles", "release", "--mechanism", "blip", "--epsilon", "1"],
    "fit": ["fit", *FIT.split()],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("cafes")
    (found / "plain.csv").write_text(TEXT, "utf-8")
    (found / "odd.csv").write_bytes(TEXT.encode() + ODD)
    (found / "latin.csv").write_text(TEXT, "latin-1")
    (found / "accounts.txt").write_text("\n".join(map(str, range(1, 51))))
    for encoding, name in (("utf-8", "items.txt"), ("latin-1", "latin.txt")):
        text = "\n".join(f"caf\u00e9-{item}" for item in range(5))
        (found / name).write_text(text, encoding)
    return found


@pytest.fixture
def read(monkeypatch):
    """The interactions that commands read, one after the other."""
    kept, real = [], _ratings.read

    def noted(*given):
        kept.append(real(*given))
        return kept[-1]

    monkeypatch.setattr(_ratings, "read", noted)
    return kept


def rows(found):
    return list(zip(found.users.tolist(), found.items.tolist(), strict=True))


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_row_in_another_encoding_stops_or_is_skipped(folder, read, words):
    output = run(folder, *words, "odd.csv", "-o", "odd.sfu", "--force", code=2)
    assert "odd.csv: line 252: the text is not in the file's encoding" in output
    for file, more in (("plain.csv", []), ("odd.csv", ["--skip-bad"])):
        run(folder, *words, file, "-o", "x.sfu", "--force", *more)
    plain, skipped = read
    assert rows(plain) == rows(skipped)
    assert plain.items[0] == "caf\u00e9-0"


def test_the_other_profiles_are_released_as_they_were(folder, read):
    words = COMMANDS["profiles"]
    run(folder, *words, "plain.csv", "-o", "a.sfu")
    run(folder, *words, "odd.csv", "-o", "b.sfu", "--skip-bad")
    one, other = (Blip(epsilon=1).release(each, source=InsecureSeededSource(5)) for each in read)
    assert one.users_.size == 50
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_another_encoding_is_told_and_not_guessed(folder, read, words):
    words = [word.replace("items.txt", "latin.txt") for word in words]
    output = run(folder, *words, "latin.csv", "-o", "l.sfu", "--force", code=2)
    assert "encoding" in output
    run(folder, *words, "latin.csv", "-o", "l.sfu", "--force", "--encoding", "latin-1")
    assert read[-1].items[0] == "caf\u00e9-0"
    output = run(folder, *words, "latin.csv", "-o", "m.sfu", "--encoding", "klingon", code=2)
    assert "klingon" in output


def test_a_list_of_users_is_in_that_encoding_too(folder):
    (folder / "names.csv").write_text("user,item,rating\nJos\u00e9,tea,1\n", "latin-1")
    (folder / "names.txt").write_text("Jos\u00e9\nAnn\n", "latin-1")
    words = [*COMMANDS["profiles"], "names.csv", "--users", "names.txt", "-o", "names.sfu"]
    assert "names.txt is not utf-8; see --encoding" in run(folder, *words, code=2)
    run(folder, *words, "--encoding", "latin-1")
    assert load(folder / "names.sfu").users_.tolist() == ["Jos\u00e9", "Ann"]


def test_models_that_are_not_private_keep_the_guess(folder, read):
    run(folder, "fit", "latin.csv", "-o", "open.sfu", "--epochs", "1", "--quiet")
    assert read[-1].items[0] == "caf\u00e9-0"
