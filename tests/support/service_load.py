"""A service under load, and what must hold of its log, its ledger and its model afterwards."""

import itertools
import random
import threading

import httpx

from sfumato.serve.config import ModelConfig
from sfumato.serve.learning.learner import replay
from sfumato.serve.routes.recommend import recommended
from sfumato.store import open_store

MODEL = ModelConfig(cells=65536, block=50, refresh_seconds=0.05, snapshot_seconds=0.2)
SETTINGS = """
{extra}
[budgets.views]
epsilon = 1000.0
unit = "event"
[sketches.pages]
kind = "count-sketch"
dataset = "views"
parameters = {{width = 256}}
commit_seconds = 0.005
[model]
cells = 65536
block = 50
refresh_seconds = 0.05
snapshot_seconds = 0.2
"""
EPSILON = 0.01  # of a release


class Senders:
    """Threads that send events of known ids until they are stopped or the service is gone.

    With `releases`, one thread adds keys to a sketch and one makes private releases of it.
    """

    def __init__(self, service, name, threads=4, releases=False):
        self.service, self.name = service, name
        self.keys_sent = self.keys_acknowledged = 0
        self.released = {}
        self.sent, self.acknowledged, self.statuses = set(), set(), set()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True)
            for number in range(threads)
        ]
        if releases:
            self._threads += [
                threading.Thread(target=work, daemon=True) for work in (self._add, self._release)
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

    def _posted(self, client, path, **body):
        """An answer, or None if the service is gone."""
        try:
            answer = client.post(path, json=body)
        except httpx.TransportError:
            return None
        self.statuses.add(answer.status_code)
        return answer

    def _add(self):
        with self.service.client("ingest") as client:
            for turn in itertools.count():
                if self._stop.is_set():
                    return
                self.keys_sent += 3
                name = f"{self.name}-{turn}"
                answer = self._posted(client, "/sketches/pages", keys=["home"] * 3, id=name)
                if answer is None:
                    return
                if answer.status_code == 200:
                    self.keys_acknowledged += 3

    def _release(self):
        order = {"kind": "sketch", "sketch": "pages", "dataset": "views", "epsilon": EPSILON}
        with self.service.client("admin") as client:
            for turn in itertools.count():
                if self._stop.is_set():
                    return
                name = f"{self.name}-{turn}"
                answer = self._posted(client, "/releases", release=name, **order)
                if answer is None:
                    return
                if answer.status_code == 201:
                    self.released[name] = answer.content


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


def check_ledger(database, released):
    """Every release that was answered is charged, and its bytes are those that were sent."""
    with open_store(database) as store:
        store.ledger.verify()
        charges = [each.release_id for each in store.ledger.history("views")]
        assert len(charges) == len(set(charges))
        assert set(released) <= set(charges)
        # Sums of doubles, of thousands of charges at most.
        assert store.ledger.spent("views").epsilon >= EPSILON * len(charges) * (1 - 1e-9)
        for name, data in released.items():
            assert store.find_release(name).data == data


def check_sketch(service, sent, acknowledged):
    """Keys that were acknowledged are in the sketch, each once."""
    with service.client("admin") as client:
        (count,) = client.get("/sketches/pages", params={"n": 1}).json()["counts"]
    assert acknowledged <= count <= sent
