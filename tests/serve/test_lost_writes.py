"""A power cut under the service: what is left has all that was answered, once, and goes on."""

import json
import subprocess
import sys
from pathlib import Path

from sfumato.errors import LedgerDamaged, StoreDamaged, StoreUnavailable
from sfumato.store import open_store
from support.service import running
from support.service_load import SETTINGS, check_ledger, check_log, check_model, check_sketch

POWER_CUT = Path(__file__).parents[1] / "support" / "service_power_cut.py"


def images(folder, seed, mode="full"):
    """What power cuts leave of a service under load: (path, what clients were answered)."""
    folder.mkdir()
    command = [sys.executable, POWER_CUT, folder, str(seed), mode]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    for k in range(int(done.stdout)):
        answered = json.loads((folder / f"image-{k}.json").read_text())
        answered["releases"] = {k: bytes.fromhex(v) for k, v in answered["releases"].items()}
        yield folder / f"image-{k}.db", answered


def check(path, answered):
    check_log(path, set(answered["sent"]), set(answered["events"]))
    check_ledger(path, answered["releases"])
    with open_store(path) as store:
        found = store.load_snapshot("sketch:pages")
        assert found is not None or not answered["keys"]


def test_a_power_cut_loses_nothing_that_was_answered_and_the_service_goes_on(tmp_path):
    found = list(images(tmp_path / "images", 1))
    assert len(found) > 20
    for path, answered in found:
        check(path, answered)
    path, answered = found[-1]
    assert min(len(answered["events"]), answered["keys"], len(answered["releases"])) > 10
    with running(tmp_path, SETTINGS.format(extra=""), database=path) as service:
        check_model(service)
        check_sketch(service, answered["keys_sent"], answered["keys"])
        with service.client("ingest") as client:
            event = {"user": "after", "item": "i1", "id": "after"}
            assert client.post("/events", json=event).json()["new"] == 1


def test_the_power_cut_would_notice_a_service_that_does_not_synchronise(tmp_path):
    lost = 0
    for path, answered in images(tmp_path / "images", 2, "off"):
        try:
            check(path, answered)
        except (AssertionError, StoreDamaged, LedgerDamaged, StoreUnavailable, ValueError):
            lost += 1
    assert lost > 0
