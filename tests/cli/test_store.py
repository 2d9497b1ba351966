"""`sfumato store`: what the commands print, and their one-line errors."""

import json

import pytest
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.store import open_store


def run(*words):
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def refused(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_store_is_described_backed_up_restored_and_migrated(
    store, location, new_location, tmp_path
):
    store.append({"users": ["ann", "bob"], "items": [1, 2]})
    described = run("store", "info", location)
    assert (described["events"], described["position"], described["version"]) == (2, 2, 1)
    assert run("store", "backup", location, "-o", tmp_path / "b")["event"] == 2
    assert "must be a new file" in refused("store", "backup", location, "-o", tmp_path / "b")
    there = new_location()
    assert run("store", "restore", tmp_path / "b", there)["event"] == 2
    assert "must be a new or empty store" in refused("store", "restore", tmp_path / "b", there)
    assert run("store", "migrate", there) == {"version_before": 1, "version": 1}
    with open_store(there) as other:
        assert other.read() == store.read()


def test_keys_are_created_listed_and_revoked(store, location):
    made = run("store", "keys", "create", location, "front", "--scope", "read", "--scope", "ingest")
    assert made["scopes"] == "ingest read"
    assert store.check_key(made["secret"], "read").name == "front"
    listed = CliRunner().invoke(app, ["store", "keys", "list", location]).stdout
    assert made["key_id"] in listed
    assert made["secret"].rpartition("_")[2] not in listed
    run("store", "keys", "revoke", location, made["key_id"])
    assert "there is no such key" in refused("store", "keys", "revoke", location, made["key_id"])
    (row,) = run("store", "keys", "list", location)["rows"]
    assert row["created"] <= row["revoked"]
    assert "scopes must be some of" in refused(
        "store", "keys", "create", location, "front", "--scope", "write"
    )


def test_the_first_key_makes_the_store(new_location):
    location = new_location()
    made = run("store", "keys", "create", location, "front", "--scope", "admin")
    with open_store(location, create=False) as store:
        assert store.check_key(made["secret"], "admin").name == "front"


@pytest.mark.parametrize("command", ["info", "migrate", "keys list", "keys revoke", "backup"])
def test_only_a_first_key_and_a_restored_backup_make_a_store(tmp_path, command):
    others = {"keys revoke": ["key"], "backup": ["-o", tmp_path / "backup.sfu"]}.get(command, [])
    assert "there is no store" in refused("store", *command.split(), tmp_path / "new.db", *others)
    assert not (tmp_path / "new.db").exists()


def test_inspect_knows_a_store(tmp_path):
    open_store(tmp_path / "s.db").close()
    assert run("inspect", tmp_path / "s.db")["backend"] == "sqlite"
    from sfumato import load
    from sfumato.errors import FormatError

    with pytest.raises(FormatError, match="is a store; open it with"):
        load(tmp_path / "s.db")
