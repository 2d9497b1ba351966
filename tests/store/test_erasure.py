"""Erasure removes a user's events, records it without the id, and names what is out."""

import threading
from pathlib import Path

import pytest

from sfumato.sketch import CountMin
from sfumato.store import open_store, schema
from support.stores import run_sql


def test_the_events_go_and_linear_sketches_can_subtract_them(store):
    users = ["Sekret", "bob", "Sekret", "eve"] * 50
    items = [f"item {k % 9}" for k in range(200)]
    store.append({"users": users, "items": items})
    rest = [item for user, item in zip(users, items, strict=True) if user != "Sekret"]
    counts = CountMin(256).update(items)
    result = store.erase_user("Sekret")
    assert (result.record.events, len(result.removed)) == (100, 100)
    expected = CountMin(256).update(rest)
    gone = CountMin(256).update(result.removed.items)
    assert [
        int(a) - int(b) for a, b in zip(counts.estimate(items), gone.estimate(items), strict=True)
    ] == [int(c) for c in expected.estimate(items)]
    assert len(store.events_of("Sekret")) == 0
    assert set(store.read().users.to_pylist()) == {"bob", "eve"}
    assert store.append({"users": ["z"], "items": ["z"]}).position > 200


def test_no_table_contains_the_id_and_the_record_does_not_show_it(store, location):
    store.append({"users": ["Sekret", "bob"], "items": ["a", "b"], "event_ids": ["Sekret-1", "2"]})
    result = store.erase_user("Sekret")
    for table in (*schema.TABLES, "schema_version"):
        assert "Sekret" not in repr(run_sql(location, f"SELECT * FROM {table}")), table
    assert store.erasures() == [result.record]
    assert result.record.digest == store.user_digest("Sekret") != store.user_digest("bob")
    assert store.erasures(after=1) == []
    assert "Sekret" not in repr(result)


def test_the_bytes_are_gone_from_the_files_of_sqlite(tmp_path):
    path = tmp_path / "shop.db"
    with open_store(path) as store:
        store.append({"users": ["Sekret"] * 300 + ["bob"], "items": ["a"] * 301})
        assert b"Sekret" in path.read_bytes() + Path(f"{path}-wal").read_bytes()
        store.erase_user("Sekret")
        assert b"Sekret" not in path.read_bytes() + Path(f"{path}-wal").read_bytes()


def test_snapshots_to_relearn_and_releases_that_cannot_be_recalled_are_named(store):
    store.ledger.create("views", epsilon=2)
    store.save_snapshot("model", b"empty", position=0)
    store.append({"users": ["bob"], "items": ["a"]})
    store.save_snapshot("model", b"bob", position=store.position())
    store.append({"users": ["ann"], "items": ["a"]})
    store.save_snapshot("model", b"both", position=store.position())
    store.release("one", "counts of views", lambda key: b"1", dataset="views", loss=0.5)
    store.ledger.charge("views", 0.25, "a model stored elsewhere", release_id="two")
    result = store.erase_user("ann")
    assert [each.version for each in result.snapshots] == [3]
    assert [(each.key, each.what) for each in result.releases] == [
        ("one", "counts of views"),
        ("two", "a model stored elsewhere"),
    ]
    unknown = store.erase_user("nobody")
    assert (unknown.record.events, unknown.snapshots) == (0, ())
    assert [each.number for each in store.erasures()] == [1, 2]


def test_erasing_while_others_append_removes_all_that_came_before(store):
    stop = threading.Event()

    def load():
        while not stop.is_set():
            store.append({"users": ["ann", "bob"] * 20, "items": ["x"] * 40})

    thread = threading.Thread(target=load)
    store.append({"users": ["ann"] * 500, "items": ["x"] * 500})
    thread.start()
    try:
        results = [store.erase_user("ann") for _ in range(5)]
    finally:
        stop.set()
        thread.join()
    for result in results:
        left = store.events_of("ann").sequence
        assert (left > result.record.position).all()
        assert len(result.removed) == result.record.events
    found = store.read(limit=10**6).users.to_pylist()
    removed = sum(result.record.events for result in results)
    assert found.count("bob") == found.count("ann") + removed - 500


def test_an_integer_id_is_its_text(store):
    store.append({"users": [7, 8], "items": [1, 1]})
    assert store.erase_user(7).record.events == 1
    with pytest.raises(ValueError, match="user must be 1 to 256 characters"):
        store.erase_user("")
