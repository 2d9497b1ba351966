"""A backup of a service under load, restored into either database, serves as the first one did."""

import subprocess
import sys

import pytest

import sfumato
from sfumato.store import open_store
from support.service import PATIENCE, ServiceProcess, running
from support.service_load import SETTINGS, Senders, check_ledger, check_log, check_model
from support.stores import BACKENDS

ORDER = {"release": "kept", "kind": "sketch", "sketch": "pages", "dataset": "views", "epsilon": 1}


def command(*words):
    """Run `sfumato store` as an operator does."""
    run = [sys.executable, "-m", "sfumato", "store", *map(str, words)]
    subprocess.run(run, check=True, capture_output=True, timeout=PATIENCE)


# Into a database of the same kind it goes through the same file: a shorter way, left to the soak.
WAYS = [
    pytest.param(one, other, marks=pytest.mark.soak if one == other else ())
    for one in BACKENDS
    for other in BACKENDS
]


@pytest.mark.parametrize(("backend", "target"), WAYS, indirect=["backend"])
def test_a_backup_under_load_is_restored_and_serves(tmp_path, location, new_location, target):
    with running(tmp_path, SETTINGS.format(extra=""), database=location) as service:
        with service.client("admin") as admin:
            assert admin.post("/sketches/pages", json={"keys": ["home"] * 7}).status_code == 200
            released = admin.post("/releases", json=ORDER).content
        early = Senders(service, "early", threads=1)
        service.until(lambda: len(early.acknowledged) > 200)
        early.stop()
        late = Senders(service, "late", threads=2)
        command("backup", location, "-o", tmp_path / "backup.sfu")
        late.stop()
        assert late.statuses <= {200}
    there = new_location(target)
    command("restore", tmp_path / "backup.sfu", there)
    check_log(there, early.sent | late.sent, early.acknowledged)
    check_ledger(there, {"kept": released})
    restored = Restored(tmp_path, SETTINGS.format(extra=""), there, service.keys)
    try:
        check_model(restored.start())
        with restored.client("admin") as admin:
            assert admin.get("/sketches/pages", params={"n": 1}).json()["counts"] == [7.0]
            assert admin.post("/releases", json=ORDER).content == released
            assert sfumato.load(released).statement.epsilon == 1
            event = {"user": "u1", "item": "i1", "id": "after"}
            assert admin.post("/events", json=event).json()["new"] == 1
        assert restored.stop() == 0
    finally:
        if restored.process is not None:
            restored.kill()
    with open_store(there) as store:
        assert "after" in store.read(limit=10**6).event_ids.to_pylist()


class Restored(ServiceProcess):
    """A service on a restored store: clients have the keys of the first one."""

    def __init__(self, folder, settings, database, keys):
        super().__init__(folder, settings, database)
        self.keys = keys
