"""Backups are of one moment, checked, and restored into either database."""

import threading

import pytest

from sfumato.errors import LedgerDamaged, ParameterError, StoreDamaged, StoreVersionError
from sfumato.store import EventBatch, open_store, restore_store, schema
from sfumato.telemetry import Rappor, ReportEncoder
from support.stores import BACKENDS, run_sql


def filled(store):
    store.append(EventBatch([f"u{k}" for k in range(300)], ['ä"\\,'] * 300, times=range(300)))
    store.erase_user("u299")  # the last: its number must not be used again
    store.save_snapshot("model", bytes(range(256)) * 5000, position=299)
    store.ledger.create("views", epsilon=1, delta=1e-6)
    store.release("one", "a count", lambda key: b"1" * 70_000, dataset="views", loss=0.25)
    store.ledger.charge("views", 0.125, "elsewhere", release_id="two")
    store.release("open", "reports", lambda key: b"\0\1")
    reports = ReportEncoder(Rappor(8, 2, 4, f=0.5), seed=1).encode_many(["a", "b"])
    store.add_reports("drinks", reports)
    return reports, store.create_key("front", ["ingest"])[1]


def content(location):
    return {
        table: sorted(map(repr, run_sql(location, f"SELECT {', '.join(columns)} FROM {table}")))
        for table, columns in schema.TABLES.items()
    }


@pytest.mark.parametrize("target", BACKENDS)
def test_a_backup_is_restored_into_either_database_and_goes_on(
    store, location, new_location, target, tmp_path
):
    reports, secret = filled(store)
    counts = store.backup(tmp_path / "b")
    assert counts["event"] == 299
    there = new_location(target)
    assert restore_store(tmp_path / "b", there) == counts
    with open_store(there) as other:
        assert other.read() == store.read()
        assert other.load_snapshot("model") == store.load_snapshot("model")
        assert other.releases() == store.releases()
        assert other.find_release("one").data == b"1" * 70_000
        assert other.ledger.verify(store.ledger.chain).since == 0
        assert other.ledger.spent("views") == store.ledger.spent("views")
        assert other.check_key(secret, "ingest") is not None
        assert other.add_reports("drinks", reports) == 0
        assert other.user_digest("u299") == other.erasures()[0].digest
        assert other.append({"users": ["new"], "items": ["x"]}).position > 300
        other.ledger.charge("views", 0.125, "one more")
        assert other.erase_user("u1").record.number == 2
        other.backup(tmp_path / "again")


def test_a_backup_while_others_write_is_of_one_moment(store, new_location, tmp_path):
    # Every append adds one event of each of two users, so any moment has equally many.
    stop = threading.Event()

    def load():
        while not stop.is_set():
            store.append({"users": ["ann", "bob"], "items": ["x", "y"]})

    thread = threading.Thread(target=load)
    thread.start()
    try:
        paths = [tmp_path / f"{k}" for k in range(3)]
        for path in paths:
            store.append({"users": ["ann", "bob"] * 200, "items": ["x"] * 400})
            store.backup(path)
    finally:
        stop.set()
        thread.join()
    there = new_location()
    restore_store(paths[-1], there)
    with open_store(there) as other:
        users = other.read(limit=10**6).users.to_pylist()
        assert users.count("ann") == users.count("bob") >= 600


def test_a_damaged_backup_is_refused_and_leaves_nothing(store, new_location, tmp_path):
    filled(store)
    store.backup(tmp_path / "b")
    data = (tmp_path / "b").read_bytes()
    there, bad = new_location(), tmp_path / "bad"
    steps = range(0, len(data), len(data) // 40)
    damaged = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in steps]
    damaged += [data[:at] for at in steps] + [data + b"x", b"", b"SFSTORE\n"]
    for each in damaged:
        bad.write_bytes(each)
        with pytest.raises(StoreDamaged, match=r"^Store: [^\n]*$"):
            restore_store(bad, there)
    assert restore_store(tmp_path / "b", there)["event"] == 299


def test_only_an_empty_store_is_restored_into_and_no_file_is_overwritten(
    store, location, new_location, tmp_path
):
    filled(store)
    store.backup(tmp_path / "b")
    with pytest.raises(ParameterError, match="must be a new file"):
        store.backup(tmp_path / "b")
    before = content(location)
    with pytest.raises(ParameterError, match="must be a new or empty store"):
        restore_store(tmp_path / "b", location)
    assert content(location) == before
    there = new_location()
    open_store(there).close()
    restore_store(tmp_path / "b", there)
    assert content(there) == before


def test_a_backup_of_a_newer_program_is_refused(store, new_location, tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "version_of", lambda backend, session: 9)
    store.backup(tmp_path / "b")
    monkeypatch.undo()
    with pytest.raises(StoreVersionError, match="has version 9, newer than 1 of this program"):
        restore_store(tmp_path / "b", new_location())


def test_a_ledger_that_was_changed_by_hand_grants_nothing(store, location):
    filled(store)
    trigger = (
        "ALTER TABLE charge DISABLE TRIGGER ALL"
        if "://" in location
        else ("DROP TRIGGER charges_stay")
    )
    with pytest.raises(Exception, match="a charge is never changed"):
        run_sql(location, "UPDATE charge SET loss = '{}'")
    run_sql(location, trigger)
    with open_store(location) as other, pytest.raises(LedgerDamaged, match="are not as they were"):
        other.ledger.charge("views", 0.1, "more")
