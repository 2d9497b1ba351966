"""Kill and overload the service: what was acknowledged is there once, and it recovers."""

import asyncio
import os
import random
import signal
import threading
import time

import httpx
import pytest

from sfumato.serve.config import ModelConfig
from sfumato.serve.learning.learner import replay
from sfumato.serve.routes.recommend import recommended
from sfumato.store import open_store
from support.service import ServiceProcess, running

MODEL = ModelConfig(cells=65536, block=50, refresh_seconds=0.05, snapshot_seconds=0.2)
SETTINGS = """
{extra}
[model]
cells = 65536
block = 50
refresh_seconds = 0.05
snapshot_seconds = 0.2
"""


class Senders:
    """Threads that send events of known ids until they are stopped or the service is gone."""

    def __init__(self, service, name, threads=4):
        self.service, self.name = service, name
        self.sent, self.acknowledged, self.statuses = set(), set(), set()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number):
        rng = random.Random(f"{self.name}-{number}")
        with self.service.client("ingest") as client:
            turn = 0
            while not self._stop.is_set():
                turn += 1
                ids = [f"{self.name}-{number}-{turn}-{k}" for k in range(rng.randrange(1, 20))]
                rows = [
                    {"user": f"u{rng.randrange(50)}", "item": f"i{rng.randrange(30)}", "id": each}
                    for each in ids
                ]
                self.sent.update(ids)
                try:
                    answer = client.post("/events", json=rows)
                except httpx.TransportError:
                    return
                self.statuses.add(answer.status_code)
                if answer.status_code == 200:
                    self.acknowledged.update(ids)


def check_log(database, sent, acknowledged):
    """Every acknowledged event is in the log, once, and nothing that was never sent."""
    with open_store(database) as store:
        ids = store.read(limit=10**7).event_ids.to_pylist()
    assert len(ids) == len(set(ids))
    assert acknowledged <= set(ids) <= sent


def check_model(service):
    """What is served is what a replay of the log gives."""
    service.learned()
    with open_store(service.database) as store:
        learner = replay(store, MODEL)
    with service.client("read") as client:
        for user in ("u1", "u2", "nobody"):
            answer = client.get(f"/recommendations/{user}?repeat=true").json()
            assert answer["position"] == learner.position
            expected = recommended(learner.model(), user, 10, [])
            assert [(row["item"], row["score"]) for row in answer["items"]] == expected


def crash(tmp_path, database, rounds, seed):
    service = ServiceProcess(tmp_path, SETTINGS.format(extra=""), database)
    rng, sent, acknowledged = random.Random(seed), set(), set()
    try:
        for number in range(rounds):
            service.start()
            senders = Senders(service, f"round{number}")
            service.until(lambda senders=senders: senders.acknowledged)
            time.sleep(rng.random() * 0.5)
            service.kill()
            senders.stop()
            sent |= senders.sent
            acknowledged |= senders.acknowledged
            check_log(service.database, sent, acknowledged)
        assert len(acknowledged) > rounds
        service.start()
        check_model(service)
        assert service.stop() == 0
    finally:
        if service.process is not None:
            service.kill()


def test_killed_under_load_it_has_every_acknowledged_event_once(tmp_path, location):
    crash(tmp_path, location, 5, seed=0)


@pytest.mark.soak
def test_killed_fifty_times_it_has_every_acknowledged_event_once(tmp_path, location):
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


def test_a_database_that_is_away_gives_503_and_nothing_acknowledged_is_lost(
    tmp_path, postgres_server
):
    address = postgres_server.new_database()
    with running(tmp_path, SETTINGS.format(extra=""), database=address) as service:
        with service.client("ingest") as client, service.client("read") as reader:

            def post(name):
                return client.post("/events", json={"user": "u", "item": "i", "id": name})

            assert post("before").status_code == 200
            service.learned()
            assert reader.get("/recommendations/u").status_code == 200
            postgres_server.stop()
            away = post("away")
            assert away.status_code == 503
            assert away.json()["type"] == "urn:sfumato:problem:store-unavailable"
            assert away.headers["retry-after"] == "1"
            assert client.get("/readyz").json()["database"] is False
            answer = reader.get("/recommendations/u", params={"repeat": "true"})
            assert answer.json()["items"], "lists are served from memory"
            postgres_server.start()
            service.until(lambda: post("after").status_code == 200)
        check_log(address, {"before", "away", "after"}, {"before", "after"})
        check_model(service)
    postgres_server.give_back(address)


async def flood(service, requests):
    """Send requests at once; return their statuses."""
    limits = httpx.Limits(max_connections=200)
    headers = {"authorization": f"Bearer {service.keys['ingest']}"}
    url = f"http://127.0.0.1:{service.port}"
    async with httpx.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=60
    ) as client:

        async def one(number):
            event = {"user": "u", "item": "i", "id": f"flood-{number}"}
            return number, (await client.post("/events", json=event)).status_code

        return await asyncio.gather(*map(one, range(requests)))


@pytest.mark.parametrize(
    ("limit", "status"), [("rate = 20.0\nburst = 20", 429), ("concurrent = 5", 503)]
)
def test_overload_is_refused_and_passes(tmp_path, limit, status):
    with running(tmp_path, SETTINGS.format(extra=limit)) as service:
        answers = asyncio.run(flood(service, 400))
        assert {given for _, given in answers} == {200, status}
        good = {f"flood-{number}" for number, given in answers if given == 200}
        check_log(service.database, {f"flood-{number}" for number, _ in answers}, good)

        def recovered():
            with service.client("ingest") as client:
                event = {"user": "u", "item": "i", "id": "after"}
                return client.post("/events", json=event).status_code == 200

        service.until(recovered)
