"""The end of `sfumato demo`: the service and its page on a generated world, until Ctrl-C."""

import json
import socket
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from sfumato.density import SketchDensity
from sfumato.recommend.private.neighbours import PrivateNeighbours
from sfumato.recommend.private.popular import PrivatePopular
from sfumato.serve import ServiceConfig, serve
from sfumato.serve.page.generated import BOUNDS, choices, points, titles
from sfumato.serve.routes.releases import RequestLedger, create_budgets
from sfumato.store import Store, open_store
from sfumato.store.events import EventBatch, new_event_ids
from sfumato.telemetry import Rappor, ReportEncoder
from sfumato.telemetry.reports.jsonl import to_lines

__all__ = ["DemoWorld", "prepared", "run"]

READERS, ITEMS, EACH = 600, 400, 25
GENRES = ("drama", "comedy", "crime", "history", "music", "science", "travel", "cooking", "nature")
ABSENT = ("opera", "chess")
METRIC = "favourite genre"
REPORTS = 40_000
PORT = 8000  # if it is free
PAUSE = 0.5  # seconds between two requests of the visitors
BUDGETS = {
    "readers": {"epsilon": 4.0, "delta": 1e-6, "unit": "user"},
    "places": {"epsilon": 1.0, "unit": "event"},
}
SCHEME = Rappor(bits=32, hashes=1, cohorts=16, f=0.4, p=0.25, q=0.75, metric=METRIC)


@dataclass(frozen=True)
class DemoWorld:
    """A service that is ready to start: its settings, and the secrets of its keys."""

    config: ServiceConfig
    secret: str
    public_key: str

    @property
    def url(self) -> str:
        """Address of the service."""
        return f"http://{self.config.host}:{self.config.port}"

    @property
    def link(self) -> str:
        """Address of the page with the key in its fragment, which no request contains."""
        return f"{self.url}/#key={self.secret}"


def run(console: Console) -> None:
    """Serve a generated world; print its address when it answers."""
    console.print("\nThe service is being prepared: events, reports and private releases ...")
    with prepared() as world:
        threading.Thread(target=_visit, args=(world, console), daemon=True).start()
        serve(world.config)


@contextmanager
def prepared(port: int | None = None) -> Iterator[DemoWorld]:
    """Make a database, files and settings in a folder that goes at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "genre.json").write_text(SCHEME.to_json())
        chosen = _free_port() if port is None else port
        with open_store(folder / "world.db") as store:
            origin = {"metric": METRIC, "origins": [f"http://127.0.0.1:{chosen}"]}
            secret = store.create_key("demo", ["admin"])[1]
            public = store.create_key("page", ["ingest"], attributes=origin)[1]
            config = ServiceConfig.of(_settings(folder, chosen, public))
            create_budgets(store.ledger, config)
            _fill(store, folder)
        yield DemoWorld(config, secret, public)


def _settings(folder: Path, port: int, public_key: str) -> dict[str, Any]:
    metric = {
        "scheme": str(folder / "genre.json"),
        "candidates": [*GENRES, *ABSENT],
        "public_key": public_key,
    }
    return {
        "database": str(folder / "world.db"),
        "port": port,
        "log_level": "error",
        "catalogue": titles(ITEMS),
        "model": {"cells": 2**18, "block": 500, "learning_rate": 0.8},
        "budgets": BUDGETS,
        "metrics": {METRIC: metric},
        "densities": {"places": {"file": str(folder / "places.sfu")}},
        "page": {"generated": True, "examples": [f"reader {user}" for user in range(1, 13)]},
    }


def _fill(store: Store, folder: Path) -> None:
    """Store events and reports, and release what the budget view shows."""
    chosen, names = choices(READERS, EACH, seed=3), np.array(titles(ITEMS))
    count = READERS * EACH
    users = [f"reader {user + 1}" for user in chosen[0].tolist()]
    items, times = names[chosen[1]].tolist(), (time.time() - np.arange(count)[::-1]).tolist()
    batch = EventBatch(users, items, [1.0] * count, times, new_event_ids(count))
    store.append(batch)
    store.add_reports(METRIC, ReportEncoder(SCHEME).encode_many(_genres(REPORTS, seed=5)))
    ledger, log = RequestLedger(store, b"demo"), batch.interactions()
    for name, kind in (("popular-titles", PrivatePopular), ("similar-titles", PrivateNeighbours)):
        model: Any = kind(epsilon=1.0, delta=1e-7, per_user=EACH)
        model.fit(log, catalogue=names.tolist(), ledger=ledger, dataset="readers", release_id=name)
    density = SketchDensity(
        bandwidth=5.0,
        kernel="gaussian",
        epsilon=0.5,
        bounds=BOUNDS,
        ledger=ledger,
        dataset="places",
        release_id="places-map",
    )
    density.fit(points(20_000, seed=8)).save(folder / "places.sfu")


def _genres(count: int, seed: int) -> np.ndarray:
    """Draw genres, the first most often."""
    weights = 1 / np.arange(1, len(GENRES) + 1)
    draw = np.random.default_rng(seed)
    return np.array(GENRES)[draw.choice(len(GENRES), count, p=weights / weights.sum())]


def _free_port() -> int:
    """Return the usual port, or another one if it is taken."""
    for port in (PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("demo: no port of 127.0.0.1 is free.")


def _visit(world: DemoWorld, console: Console) -> None:
    """Wait for the service, print its address, and behave as readers and browsers do."""
    while not _answers(f"{world.url}/readyz"):
        time.sleep(0.1)
    console.print(f"\n[bold]The service runs on a generated world:[/] {world.url}")
    console.print("Open this link; its key stays in the browser. Ctrl-C ends the service.")
    console.print(world.link, soft_wrap=True, highlight=False)
    draw, names = np.random.default_rng(), titles(ITEMS)
    while True:
        time.sleep(PAUSE)
        chosen = zip(*choices(READERS, 1, int(draw.integers(2**31))), strict=True)
        count = int(draw.integers(1, 8))
        events = [
            {"user": f"reader {user + 1}", "item": names[item]}
            for user, item in islice(chosen, count)
        ]
        _post(f"{world.url}/events", json.dumps(events).encode(), "application/json", world.secret)
        reports = ReportEncoder(SCHEME).encode_many(_genres(4, int(draw.integers(2**31))))
        _post(f"{world.url}/reports", to_lines(reports), "text/plain", world.public_key)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def _post(url: str, body: bytes, media_type: str, key: str) -> None:
    headers = {"content-type": media_type, "authorization": f"Bearer {key}"}
    request = urllib.request.Request(url, body, headers)
    try:
        urllib.request.urlopen(request, timeout=5).close()
    except OSError:  # the service ends, or is busy: visitors come again
        return
