"""A disk that loses what was not synchronised, and one that is full."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sfumato.errors import LedgerDamaged, StoreDamaged, StoreUnavailable
from sfumato.store import open_store
from support.stores import store_on_small_disk

POWER_CUT = Path(__file__).parents[1] / "support" / "power_cut.py"


def images(folder, seed, mode="full"):
    """What power cuts leave of a store under load: (path, what was acknowledged)."""
    command = [sys.executable, POWER_CUT, folder, str(seed), mode]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    for k in range(int(done.stdout)):
        yield folder / f"image-{k}.db", json.loads((folder / f"image-{k}.json").read_text())


def losses(path, acknowledged):
    """What was acknowledged and is not in a store."""
    with open_store(path) as store:
        events = store.read(limit=10**6).event_ids.to_pylist()
        assert len(events) == len(set(events))
        store.ledger.verify()
        charges = [each.release_id for each in store.ledger.history("views")]
        spent = store.ledger.spent("views").epsilon
        assert spent == pytest.approx(0.001 * len(charges))
        found = {"event": set(events), "charge": set(charges)}
        lost = [name for kind, name in acknowledged if name not in found[kind]]
        store.append({"users": ["next"], "items": ["x"]})
        return lost


@pytest.mark.parametrize("seed", [1, 2])
def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path, seed):
    found = list(images(tmp_path, seed))
    assert len(found) > 5
    assert [losses(*each) for each in found] == [[]] * len(found)
    assert any(len(acknowledged) > 200 for _, acknowledged in found)


def test_the_power_cut_would_notice_a_store_that_does_not_synchronise(tmp_path):
    lost = 0
    for path, acknowledged in images(tmp_path, 3, "off"):
        try:
            lost += len(losses(path, acknowledged))
        except (StoreDamaged, LedgerDamaged, StoreUnavailable, FileNotFoundError):
            lost += 1
    assert lost > 0


FULL = """
    import resource, sys
    from sfumato.errors import StoreUnavailable
    from sfumato.store import EventBatch, open_store

    def batch(k):
        ids = [f"{k}-{j}" for j in range(500)]
        return EventBatch(["ann"] * 500, ["x"] * 500, event_ids=ids)

    with open_store(sys.argv[1]) as store:
        store.ledger.create("views", epsilon=100)
        store.append(batch(-1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
        acknowledged, charged = [-1], 0
        try:
            for k in range(1000):
                store.append(batch(k))
                acknowledged.append(k)
                store.ledger.charge("views", 0.01, "a count", release_id=str(k))
                charged += 1
        except OSError as error:
            print(type(error).__name__, error)
        for attempt in range(3):  # it stays so, and says so
            try:
                store.append(batch(2000 + attempt))
                acknowledged.append(2000 + attempt)
            except StoreUnavailable as error:
                assert "Nothing was acknowledged" in str(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert store.append(batch(3000)).new == 500
        acknowledged.append(3000)
        store.ledger.charge("views", 0.01, "a count", release_id="after")
        print(len(acknowledged) * 500, charged + 1)
"""


def test_a_full_disk_is_a_clear_error_and_writing_goes_on_when_there_is_room(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(FULL), tmp_path / "s.db"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    refusal, (acknowledged, charged) = (
        done.stdout.splitlines()[0],
        map(int, done.stdout.splitlines()[1].split()),
    )
    assert refusal.startswith(("StoreUnavailable Store: ", "OSError Ledger: "))
    assert "cannot be used" in refusal
    with open_store(tmp_path / "s.db") as store:
        found = store.read(limit=10**6).event_ids.to_pylist()
        assert len(found) == len(set(found)) >= acknowledged
        assert len(store.ledger.history("views")) >= charged
        assert store.ledger.verify().entries == 1 + len(store.ledger.history("views"))


def test_a_full_disk_of_the_server_is_a_clear_error_and_writing_goes_on(postgres_server, tmp_path):
    with (
        store_on_small_disk("postgresql", tmp_path, 24_000_000) as (address, disk),
        open_store(address) as store,
    ):
        store.ledger.create("views", epsilon=100)
        (disk / "ballast").write_bytes(bytes(8_000_000))
        acknowledged, refused = 0, ""
        for k in range(200):
            ids = [f"{k}-{j}" for j in range(2000)]
            try:
                store.append({"users": ids, "items": ids, "event_ids": ids})
            except StoreUnavailable as error:
                refused = str(error)
                break
            acknowledged += 2000
        assert "No space left on device" in refused
        assert store.info().events == acknowledged
        (disk / "ballast").unlink()
        assert store.append({"users": ids, "items": ids, "event_ids": ids}).new == 2000
        assert len(store.read(limit=10**6)) == acknowledged + 2000
        store.ledger.charge("views", 0.5, "a count")
