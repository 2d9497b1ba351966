"""Snapshots, releases, telemetry and keys: one contract on both databases."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sfumato.errors import (
    BudgetExceeded,
    ParameterError,
    ParameterTypeError,
    StoreDamaged,
    StoreUnavailable,
)
from sfumato.sketch import CountMin
from sfumato.store import keys as keys_module
from sfumato.store import open_store
from sfumato.telemetry import Rappor, ReportEncoder
from support.stores import run_sql


def never(key):
    raise AssertionError("made again")


def test_the_newest_snapshot_is_loaded_and_older_ones_are_pruned(store, location):
    sketches = [CountMin(64).update(range(k)) for k in (10, 20, 30)]
    for k, sketch in enumerate(sketches):
        saved = store.save_snapshot("clicks", sketch.to_bytes(), position=k)
        assert (saved.version, saved.position, saved.data) == (k + 1, k, None)
    store.save_snapshot("other", b"", position=0)
    with open_store(location) as other:
        found = other.load_snapshot("clicks")
        assert (found.version, found.position) == (3, 2)
        assert CountMin.from_bytes(found.data) == sketches[2]
        assert found.digest == hashlib.sha256(found.data).hexdigest()
        assert CountMin.from_bytes(other.load_snapshot("clicks", 1).data) == sketches[0]
        assert [each.version for each in other.snapshots("clicks")] == [3, 2, 1]
    assert store.prune_snapshots("clicks", keep=2) == 1
    assert store.load_snapshot("clicks", 1) is None
    assert store.save_snapshot("clicks", b"new", 9, keep=1).version == 4
    assert [each.version for each in store.snapshots("clicks")] == [4]
    assert store.prune_snapshots("clicks", keep=0) == 1
    assert store.load_snapshot("clicks") is None
    assert store.save_snapshot("clicks", b"new", 9).version == 5  # no number is used again
    assert store.load_snapshot("other").data == b""


def test_a_snapshot_may_be_stored_only_after_the_one_it_follows_from(store, location):
    first = store.save_snapshot("clicks", b"first", 0, after={""})
    with open_store(location) as other:
        both = (store, b"one"), (other, b"two")

        def stored(where, data):
            try:
                return where.save_snapshot("clicks", data, 0, after={first.digest}).digest
            except ValueError as error:
                return str(error)

        with ThreadPoolExecutor(2) as threads:
            found = [each.result() for each in [threads.submit(stored, *each) for each in both]]
    newest = store.load_snapshot("clicks")
    assert found.count(newest.digest) == 1
    assert sum("another process" in each for each in found) == 1
    assert store.save_snapshot("clicks", b"next", 0, after={"", newest.digest}).nbytes == 4
    with pytest.raises(ValueError, match="does not follow"):
        store.save_snapshot("clicks", b"anew", 0, after={""})


def test_a_large_snapshot_is_written_in_parts_and_appears_only_complete(store, location):
    data = np.random.default_rng(0).bytes(3 * 2**20 + 17)
    store.save_snapshot("model", b"old", 1)
    jobs, usual = [], store._writer.job
    with open_store(location) as other:

        def watched(job):
            done = usual(job)
            done.result()
            jobs.append(other.load_snapshot("model").data == data)
            return done

        store._writer.job = watched
        store.save_snapshot("model", data, 2)
    assert jobs == [False] * 5 + [True]  # a number, four parts, then it is there
    assert store.load_snapshot("model").data == data


def test_a_damaged_snapshot_is_noticed_and_parts_of_a_killed_process_are_removed(store, location):
    store.save_snapshot("model", b"content", 1)
    run_sql(
        location,
        "UPDATE snapshot_part SET data = '\\x00'"
        if "://" in location
        else "UPDATE snapshot_part SET data = x'00'",
    )
    with pytest.raises(StoreDamaged, match="version 1 of snapshot 'model' does not have its check"):
        store.load_snapshot("model")
    store._writer.job(
        lambda session: session.execute(
            "INSERT INTO snapshot_part VALUES (?, ?, ?, ?)", ("model", 0, 0, b"left")
        )
    ).result()
    store.save_snapshot("model", b"content", 1, keep=1)
    assert run_sql(location, "SELECT version FROM snapshot_part") == [(2,)]


def test_a_release_is_made_once_whoever_retries(store, location):
    store.ledger.create("views", epsilon=1)
    request = dict(dataset="views", loss=0.75, request=b"q", media_type="text/plain")
    first = store.release("key 1", "a count", lambda key: key.encode(), **request)
    assert (first.data, first.nbytes, first.media_type) == (b"key 1", 5, "text/plain")
    with open_store(location) as other:
        assert other.release("key 1", "a count", never, **request) == first
        assert other.find_release("key 1") == first
        assert other.ledger.spent("views").epsilon == 0.75
        with pytest.raises(ParameterError, match="key 'key 1' was used for another request"):
            other.release("key 1", "a count", never, **{**request, "request": b"other"})
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.25 left of 1"):
        store.release("key 2", "a count", never, **request)
    assert store.find_release("key 2") is None
    store.release("key 2", "another", lambda key: b"", **{**request, "loss": 0.25})
    assert [each.key for each in store.releases()] == ["key 1", "key 2"]


def test_a_release_that_failed_is_completed_at_no_further_cost(store):
    store.ledger.create("views", epsilon=1)

    def fail(key):
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError):
        store.release("one", "a count", fail, dataset="views", loss=0.75)
    assert store.find_release("one") is None
    assert store.ledger.spent("views").epsilon == 0.75
    made = store.release("one", "a count", lambda key: b"made", dataset="views", loss=0.75)
    assert made.data == b"made"
    assert store.ledger.spent("views").epsilon == 0.75


def test_a_release_without_charge_is_stored_too(store):
    assert store.release("open", "decoded reports", lambda key: b"table").data == b"table"
    assert store.release("open", "decoded reports", never).data == b"table"
    with pytest.raises(ParameterError, match="dataset and loss go together"):
        store.release("half", "a count", never, dataset="views")
    with pytest.raises(TypeError, match="make must return bytes, not str"):
        store.release("text", "a count", lambda key: "text")
    assert [each.key for each in store.releases() if each.nbytes] == ["open"]


def test_large_releases_are_stored_in_the_database(store, location):
    store.ledger.create("views", epsilon=1)
    data = np.random.default_rng(1).bytes(300_000)
    store.release("large", "a model", lambda key: data, dataset="views", loss=0.5)
    assert store.find_release("large").data == data
    assert store.ledger.verify().entries == 3


def test_reports_are_counted_once(store, location):
    scheme = Rappor(16, 2, 4, f=0.5)
    reports = ReportEncoder(scheme, seed=1).encode_many(["tea", "milk", "tea", "rum"])
    assert store.telemetry("drinks") is None
    assert store.add_reports("drinks", reports) == 4
    assert store.add_reports("drinks", reports) == 0
    more = ReportEncoder(scheme, seed=2).encode_many(["tea"] * 5)
    with open_store(location) as other:
        assert other.add_reports("drinks", more) == 5
    counts = store.telemetry("drinks")
    assert len(counts) == 9
    from sfumato.telemetry import Counts

    expected = Counts(scheme, keep_ids=False).update([reports, more])
    assert np.array_equal(counts.cells, expected.cells)
    assert store.metrics() == ["drinks"]
    with pytest.raises(ValueError, match="give other parameters another metric"):
        store.add_reports("drinks", ReportEncoder(Rappor(8, 2, 4, f=0.5)).encode_many(["x"]))
    assert len(store.telemetry("drinks")) == 9
    with pytest.raises(ParameterTypeError, match="reports must be Reports, not list"):
        store.add_reports("drinks", ["x"])


def test_a_job_that_fails_undoes_itself_alone(store):
    import threading

    gate = threading.Event()
    held = store._writer.job(lambda session: gate.wait(60))

    def fail(session):
        session.execute("INSERT INTO secret VALUES (?, ?)", ("half", b""))
        raise ValueError("no")

    bad, good = store._writer.job(fail), store.submit({"users": ["a"], "items": ["b"]})
    gate.set()
    held.result()
    with pytest.raises(ValueError, match="no"):
        bad.result()
    assert good.result().new == 1
    with store._backend.reading() as session:
        assert session.execute("SELECT name FROM secret").fetchall() == [("erasure",)]


def test_keys_are_checked_by_secret_and_scope_and_end_when_revoked(store, location):
    ingest, secret = store.create_key("front", ["ingest"], attributes={"origins": ["https://a.b"]})
    admin, master = store.create_key("boss", "admin")
    assert store.check_key(secret) == ingest
    assert ingest.attributes["origins"] == ["https://a.b"]
    assert store.check_key(secret, "ingest") == ingest
    assert store.check_key(secret, "read") is store.check_key(secret, "admin") is None
    assert store.check_key(master, "ingest") == store.check_key(master, "read") == admin
    head, tail = secret[:20], secret[21:]
    for wrong in (
        "",
        "x",
        secret[:-1],
        secret + "x",
        f"{head}_{tail[::-1]}",
        "sfk__",
        "\ud800",
        secret.replace("sfk", "xyz"),
        None,
        master[:20] + secret[20:],
        "a" * 10_000,
    ):
        assert store.check_key(wrong) is None
    assert store.revoke_key(ingest.key_id) is True
    assert store.revoke_key(ingest.key_id) is False
    assert store.check_key(secret) is None
    assert [each.revoked is None for each in store.api_keys()] == [False, True]
    with open_store(location) as other:
        assert other.check_key(secret) is None
        assert other.check_key(master) == admin
    with pytest.raises(ParameterError, match="scopes must be some of ingest, read, admin"):
        store.create_key("bad", ["write"])


def test_a_revocation_by_another_process_takes_effect(store, location, monkeypatch):
    key, secret = store.create_key("front", ["ingest"])
    assert store.check_key(secret) == key
    with open_store(location) as other:
        other.revoke_key(key.key_id)
    monkeypatch.setattr(keys_module, "FRESH", 0.0)
    assert store.check_key(secret) is None


def test_keys_are_checked_from_memory_by_callers_that_must_not_wait(store, location, monkeypatch):
    key, secret = store.create_key("front", ["ingest"])
    store.refresh_keys()
    with open_store(location) as other:
        other.revoke_key(key.key_id)
        with monkeypatch.context() as patch:
            patch.setattr(store._backend, "reading", None)  # nothing is read
            assert store.check_key(secret, longest_age=60) == key
            with pytest.raises(StoreUnavailable, match="keys were not read for 0 s"):
                store.check_key(secret, longest_age=0)
    store.refresh_keys()
    assert store.check_key(secret, longest_age=60) is None


def test_no_secret_is_stored(store, location):
    _, secret = store.create_key("front", ["ingest"])
    rows = run_sql(location, "SELECT * FROM api_key")
    random = secret.split("_", 2)[2]
    assert random not in repr(rows)
    assert hashlib.sha256(secret.encode()).digest() not in [bytes(rows[0][4])]  # salted
    assert random not in repr(store.api_keys())


def test_checking_a_key_compares_in_constant_time(store, monkeypatch):
    compared = []
    usual = keys_module.hmac.compare_digest
    monkeypatch.setattr(
        keys_module.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or usual(a, b)
    )
    _, secret = store.create_key("front", ["ingest"])
    for text in (secret, secret[:-1], "unknown", "sfk_0123_x"):
        store.check_key(text)
    assert len(compared) == 4
    assert {len(part) for pair in compared for part in pair} == {32}
