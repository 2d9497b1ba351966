"""A generated shop of ratings in files, and commands that run there."""

import json
import os

from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.data import generate_world

USERS, ITEMS = 200, 120
# A process that was started in the background ignores Ctrl-C, and so do its children.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "


def opened(folder):
    """Write train.csv, test.csv and the public lists items.txt and users.txt."""
    world = generate_world(users=USERS, items=ITEMS, ratings=6000, random_state=1).interactions
    for name, part in zip(("train", "test"), world.split(0.9, 0.1, random_state=0), strict=True):
        rows = zip(part.users.tolist(), part.items.tolist(), part.ratings.tolist(), strict=True)
        lines = [f"{user},{item},{rating:g}" for user, item, rating in rows]
        (folder / f"{name}.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")
    (folder / "items.txt").write_text("\n".join(map(str, range(ITEMS))))
    (folder / "users.txt").write_text("\n".join(map(str, range(USERS))))
    return folder


def run(folder, *words, code=0, stdin=None):
    """What a command prints in this folder, and that it ends as it should."""
    return result_of(folder, *words, code=code, stdin=stdin).output


def result_of(folder, *words, code=0, stdin=None):
    """The same with stdout and stderr apart."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        result = CliRunner().invoke(app, list(words), input=stdin)
    finally:
        os.chdir(before)
    assert result.exit_code == code, result.output
    return result


def run_json(folder, *words, stdin=None):
    return json.loads(result_of(folder, *words, "--json", stdin=stdin).stdout)
