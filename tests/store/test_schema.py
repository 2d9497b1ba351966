"""Versions of the tables: migrated step by step, never half, and never from the future."""

import sqlite3

import pytest

from sfumato.errors import StoreDamaged, StoreUnavailable, StoreVersionError
from sfumato.privacy import Ledger
from sfumato.store import migrate_store, open_store, schema
from support.stores import run_sql


def add_note(session, dialect):
    session.execute("CREATE TABLE note (content TEXT)")
    session.execute("INSERT INTO note VALUES ('second')")


def fail_half(session, dialect):
    session.execute("CREATE TABLE half (content TEXT)")
    session.execute("INSERT INTO note VALUES ('third')")
    raise ValueError("interrupted")


def test_an_older_store_is_refused_until_it_is_migrated(location, monkeypatch):
    with open_store(location) as store:
        store.append({"users": ["ann"], "items": ["tea"]})
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add_note])
    with pytest.raises(StoreVersionError, match="has version 1, and this program uses 2; make a b"):
        open_store(location)
    assert migrate_store(location) == (1, 2)
    assert migrate_store(location) == (2, 2)
    with open_store(location) as store:
        assert (store.info().version, len(store.read())) == (2, 1)
    versions = run_sql(location, "SELECT version, program FROM schema_version ORDER BY version")
    assert [version for version, _ in versions] == [1, 2]


def test_an_interrupted_migration_leaves_the_version_it_had_reached(location, monkeypatch):
    open_store(location).close()
    usual = schema.MIGRATIONS
    monkeypatch.setattr(schema, "MIGRATIONS", [*usual, add_note, fail_half])
    with pytest.raises(ValueError, match="interrupted"):
        migrate_store(location)
    monkeypatch.setattr(schema, "MIGRATIONS", [*usual, add_note])
    assert migrate_store(location) == (2, 2)
    assert run_sql(location, "SELECT content FROM note") == [("second",)]
    with pytest.raises(Exception, match="half"):
        run_sql(location, "SELECT * FROM half")


def test_a_newer_store_is_refused_by_one_sentence(location):
    open_store(location).close()
    run_sql(location, "INSERT INTO schema_version VALUES (7, 0, 'later')")
    for call in (open_store, migrate_store):
        with pytest.raises(StoreVersionError, match="has version 7, newer than 1") as error:
            call(location)
        assert "\n" not in str(error.value)


def test_a_store_is_made_only_where_that_is_meant(location, new_location):
    with pytest.raises(StoreUnavailable, match="there is no store"):
        open_store(location, create=False)
    with pytest.raises(StoreUnavailable, match="there is no store"):
        migrate_store(new_location())
    open_store(location).close()
    open_store(location, create=False).close()


def test_other_files_are_not_stores(tmp_path):
    with Ledger(tmp_path / "shop.ledger") as ledger:
        ledger.create("views", epsilon=1)
    with pytest.raises(StoreDamaged, match="is a ledger; give the store a file of its own"):
        open_store(tmp_path / "shop.ledger")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (a)")
    other.close()
    (tmp_path / "text.db").write_text("something else " * 100)
    for name in ("other.db", "text.db"):
        with pytest.raises(StoreDamaged, match="is not a store of ours"):
            open_store(tmp_path / name)
    with pytest.raises(StoreUnavailable, match="is a folder; name a file in it"):
        open_store(tmp_path)
    open_store(tmp_path / "s.db").close()
    with pytest.raises(ValueError, match=r"Ledger: .* is not a ledger of ours"):
        Ledger(tmp_path / "s.db")
    assert len(Ledger(tmp_path / "shop.ledger").datasets()) == 1


def test_the_ledger_of_a_store_is_not_copied_to_another_process(store):
    import pickle

    with pytest.raises(TypeError, match="that of a store is opened there"):
        pickle.dumps(store.ledger)


def test_an_address_is_shown_without_its_password():
    pytest.importorskip("psycopg", reason="the extra `postgres` is missing")
    from sfumato.store.postgres import location_of

    shown = location_of("postgresql://ann:Sekret@db.example:5433/shop?sslmode=require")
    assert shown == "postgresql://ann@db.example:5433/shop"


def test_a_server_that_is_not_there_is_unavailable():
    pytest.importorskip("psycopg", reason="the extra `postgres` is missing")
    with pytest.raises(StoreUnavailable, match="cannot be used now") as error:
        open_store("postgresql://ann:Sekret@127.0.0.1:1/shop")
    assert "Sekret" not in str(error.value)
