"""Killed or stopped under load, the service has all that was acknowledged, once, and goes on."""

import os
import random
import signal
import time

import pytest

from sfumato.store import open_store
from support.service import ServiceProcess, running
from support.service_load import (
    MODEL,
    SETTINGS,
    Senders,
    check_ledger,
    check_log,
    check_model,
    check_sketch,
)


def crash(tmp_path, database, rounds, seed):
    service = ServiceProcess(tmp_path, SETTINGS.format(extra=""), database)
    rng, sent, acknowledged = random.Random(seed), set(), set()
    released, keys_sent, keys_acknowledged = {}, 0, 0
    try:
        for number in range(rounds):
            service.start()
            senders = Senders(service, f"round{number}", releases=True)
            service.until(lambda senders=senders: senders.acknowledged and senders.released)
            time.sleep(rng.random() * 0.5)
            service.kill()
            senders.stop()
            sent |= senders.sent
            acknowledged |= senders.acknowledged
            released |= senders.released
            keys_sent += senders.keys_sent
            keys_acknowledged += senders.keys_acknowledged
            check_log(service.database, sent, acknowledged)
            check_ledger(service.database, released)
        assert len(acknowledged) > rounds
        service.start()
        check_model(service)
        check_sketch(service, keys_sent, keys_acknowledged)
        assert service.stop() == 0
    finally:
        if service.process is not None:
            service.kill()


def test_killed_under_load_it_has_what_was_acknowledged_once(tmp_path, location):
    crash(tmp_path, location, 5, seed=0)


@pytest.mark.soak
def test_killed_fifty_times_it_has_what_was_acknowledged_once(tmp_path, location):
    crash(tmp_path, location, 50, seed=1)


def test_stopped_under_load_it_answers_what_is_under_way(tmp_path):
    with running(tmp_path, SETTINGS.format(extra="")) as service:
        senders = Senders(service, "graceful")
        service.until(lambda: len(senders.acknowledged) > 50)
        assert service.stop() == 0
        senders.stop()
        assert senders.statuses <= {200}
        check_log(service.database, senders.sent, senders.acknowledged)
        with open_store(service.database) as store:
            saved = store.load_snapshot("recommender").position
            assert saved + MODEL.block > store.position()
        events = [line["event"] for line in service.lines()]
        assert events[-1] == "stopped"


def test_a_trainer_that_dies_is_started_again_and_readers_go_on(tmp_path):
    with running(tmp_path, SETTINGS.format(extra="")) as service:
        senders = Senders(service, "trainer", threads=1)
        service.until(lambda: len(senders.acknowledged) > 100)
        children = f"/proc/{service.process.pid}/task/{service.process.pid}/children"
        if not os.path.exists(children):
            pytest.skip("this system does not list the children of a process")
        with open(children) as file:
            (trainer,) = map(int, file.read().split())
        os.kill(trainer, signal.SIGKILL)
        with service.client("read") as client:
            for _ in range(50):
                assert client.get("/recommendations/u1").status_code == 200
        service.until(lambda: any("ended" in line["event"] for line in service.lines()))
        senders.stop()
        check_model(service)


def test_killed_before_it_relearns_it_forgets_an_erased_user_all_the_same(tmp_path, location):
    with running(tmp_path, SETTINGS.format(extra=""), database=location) as service:
        rows = [{"user": f"u{k % 50}", "item": f"i{k % 30}"} for k in range(2000)]
        own = [{"user": "Sekret", "item": f"own{k}"} for k in range(60)]
        with service.client("admin") as client:
            assert client.post("/events", json=own + rows).status_code == 200
            service.learned()
            service.until(lambda: snapshots_with(location, b"own7"))
        service.kill()
        with open_store(location) as store:  # as the route does, before the trainer looks again
            number = store.erase_user("Sekret").record.number
        service.start()
        with service.client("admin") as client:
            path = f"/erasures/{number}"
            service.until(lambda: client.get(path).json()["model"] == "relearned")
            query = {"n": 1000, "repeat": "true"}
            items = client.get("/recommendations/Sekret", params=query).json()["items"]
        assert items
        assert not [row for row in items if row["item"].startswith("own")]
        check_model(service)
        service.until(lambda: not snapshots_with(location, b"own7"))
        assert service.stop() == 0


def snapshots_with(database, text):
    """How many stored models contain a text."""
    with open_store(database) as store:
        versions = [each.version for each in store.snapshots("recommender")]
        found = [store.load_snapshot("recommender", each) for each in versions]
        return sum(text in each.data for each in found if each is not None)
