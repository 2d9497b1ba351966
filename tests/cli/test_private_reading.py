"""Commands whose result is private: one odd row changes nobody else's part of it."""

import json

import pytest

from sfumato.cli import input_files
from sfumato.profile import load
from support.cli_workspace import run

TEXT = "user,item,rating\n" + "".join(
    f"{user},caf\u00e9-{item},1\n" for user in range(1, 51) for item in range(5)
)
ODD = b"1,\xe9,1\n"
FIT = "--epsilon 1 --delta 1e-6 --bounds 1 5 --accounts accounts.txt --catalogue items.txt"
PROFILES = ["profiles", "release", "--mechanism", "blip", "--epsilon", "1"]
COMMANDS = {
    "profiles": [*PROFILES, "--users", "accounts.txt"],
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
    retained, real = [], input_files.read

    def noted(*given):
        retained.append(real(*given))
        return retained[-1]

    monkeypatch.setattr(input_files, "read", noted)
    return retained


def rows(found):
    return list(zip(found.users.tolist(), found.items.tolist(), strict=True))


ODD_LINES = {
    "encoding": ODD,
    "too many fields": b"1,x,1,2\n",
    "too few fields": b"1,x\n",
    "no number": b"1,caf\xc3\xa9-1,many\n",
    "NaN": b"1,caf\xc3\xa9-1,nan\n",
    "infinite": b"1,caf\xc3\xa9-1,1e999\n",
    "beyond the bounds": b"1,caf\xc3\xa9-1,77\n",
    "no item": b"1,,1\n",
    "no user": b",caf\xc3\xa9-1,1\n",
    "not closed": b'1,"x,1\n',
    "quote inside": b'1,"x"y",1\n',
    "spans lines": b'1,"x\ny",1\n',
    "guest": b"guest,caf\xc3\xa9-1,1\n",
    "teapot": b"1,teapot,1\n",
    "no line": b"",
}


def lasting(output):
    """What a command prints, but for names, what is made of noise, and how long it took."""
    noisy = ("seconds", "file bytes", "components")
    output = output.replace("odd.csv", "plain.csv")
    return [line for line in output.splitlines() if not any(each in line for each in noisy)]


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("odd", ODD_LINES.values(), ids=ODD_LINES)
def test_no_line_stops_a_private_command_or_is_told_of(folder, read, words, odd):
    half = TEXT.encode().index(b"\n25,") + 1
    (folder / "odd.csv").write_bytes(TEXT.encode()[:half] + odd + TEXT.encode()[half:])
    plain = run(folder, *words, "plain.csv", "-o", "x.sfu", "--force")
    other = run(folder, *words, "odd.csv", "-o", "x.sfu", "--force")
    assert lasting(other) == lasting(plain)
    good, found = (rows(each) for each in read)
    texts = [(str(user), item) for user, item in found]
    for user, item in good:
        texts.remove((str(user), item))
    assert len(texts) <= 1  # all others are as they were
    assert good[0] == (1, "caf\u00e9-0")


def test_the_curator_may_ask_what_was_left_out(folder):
    text = TEXT + "guest,caf\u00e9-1,1\n1,caf\u00e9-1,9\n1,caf\u00e9-1,x\n1,teapot,1\n"
    (folder / "odd.csv").write_text(text, "utf-8")
    for words, retained, clipped in ((COMMANDS["fit"], 251, 1), (COMMANDS["profiles"], 252, 0)):
        output = run(
            folder, *words, "odd.csv", "-o", "x.sfu", "--force", "--report", "curator.json"
        )
        assert "curator" not in output
        document = json.loads((folder / "curator.json").read_text())
        assert document["audience"].startswith("the curator alone")
        assert document["read"]["skipped"] == {"the rating is not a finite number": 1}
        assert (document["used"]["kept"], document["used"]["clipped"]) == (retained, clipped)
        same = [*words, "odd.csv", "-o", "x.sfu", "--force", "--report", "x.sfu"]
        assert "is the output as well" in run(folder, *same, code=2)
    words = ["fit", "plain.csv", "-o", "open.sfu", "--report", "r.json"]
    assert "--report does not go with a model without --epsilon" in run(folder, *words, code=2)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_where_all_is_told_no_line_is_looked_at(folder, read, words):
    # The first line is then a row like others: odd, or the only one, or not there.
    good = [(user, f"caf\u00e9-{item}") for user, item in ((1, 0), (2, 1))]
    text = "".join(f"{user};{item};1;0\n" for user, item in good)
    result = ["--no-header", "--delimiter", ";"]
    for first in ("user;item;rating\n", "odd\n", "item;user;7\n", ""):
        (folder / "bare.data").write_text(first + text, "utf-8")
        run(folder, *words, "bare.data", "-o", "x.sfu", "--force", *result)
        assert [pair for pair in rows(read[-1]) if pair[1] != "user"] in (
            good,
            [(str(user), item) for user, item in good],
        )
    (folder / "bare.data").write_text("")
    run(folder, *words, "bare.data", "-o", "x.sfu", "--force", *result)
    assert len(read[-1]) == 0


@pytest.mark.parametrize(("words", "code"), [(COMMANDS["profiles"], 0), (COMMANDS["fit"], 2)])
def test_another_encoding_is_told_and_not_guessed(folder, read, words, code):
    words = [word.replace("items.txt", "latin.txt") for word in words]
    output = run(folder, *words, "latin.csv", "-o", "l.sfu", "--force", code=code)
    assert len(read) == 0 or len(read[-1]) == 0
    run(folder, *words, "latin.csv", "-o", "l.sfu", "--force", "--encoding", "latin-1")
    assert read[-1].items[0] == "caf\u00e9-0"
    output = run(folder, *words, "latin.csv", "-o", "m.sfu", "--encoding", "klingon", code=2)
    assert "klingon" in output


def test_a_list_of_users_is_in_that_encoding_too(folder):
    (folder / "names.csv").write_text("user,item,rating\nJos\u00e9,tea,1\n", "latin-1")
    (folder / "names.txt").write_text("Jos\u00e9\nAnn\n", "latin-1")
    words = [*PROFILES, "names.csv", "--users", "names.txt", "-o", "names.sfu"]
    assert "names.txt is not utf-8; see --encoding" in run(folder, *words, code=2)
    run(folder, *words, "--encoding", "latin-1")
    assert load(folder / "names.sfu").users_.tolist() == ["Jos\u00e9", "Ann"]


def test_models_that_are_not_private_keep_the_guess(folder, read):
    run(folder, "fit", "latin.csv", "-o", "open.sfu", "--quiet")
    assert read[-1].items[0] == "caf\u00e9-0"
