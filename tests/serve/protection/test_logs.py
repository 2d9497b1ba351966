"""No value that was sent, no key and no message of a failure is in a log, whatever the route."""

import asyncio
import io
import json
import logging
import re
import subprocess
import sys

import httpx
import pytest

from sfumato.serve import ServiceConfig, create_app, logs
from sfumato.serve.app import ENDPOINTS
from sfumato.serve.learning.model_feed import ServedModel
from sfumato.store import open_store
from support.service import running

SETTINGS = """
log_level = "debug"
[budgets.views]
epsilon = 1.0
unit = "event"
[sketches.pages]
kind = "count-sketch"
dataset = "views"
[model]
cells = 65536
"""
BODIES = {
    "/events": [{"user": "SECRET", "item": "SECRET", "id": "SECRET"}],
    "/sketches/{name}": {"keys": ["SECRET"], "id": "SECRET"},
    "/releases": {"release": "SECRET", "kind": "sketch", "dataset": "SECRET", "epsilon": 1},
    "/keys": {"name": "SECRET", "scopes": ["read"]},
    "/density/{name}/query": {"points": [[0.5]]},
    "/reports": {"SECRET": "SECRET"},
}


def requests_of(endpoint):
    """A good body, a body that lacks a field, and one that is none; SECRET at every place."""
    paths = [re.sub(r"{\w+}", name, endpoint.route) for name in ("pages", "SECRET")]
    bodies = [None]
    if endpoint.method == "POST":
        bodies = [json.dumps(BODIES[endpoint.route]), '{"SECRET": "SECRET"}', "SECRET"]
    for path in dict.fromkeys(paths):
        for body in bodies:
            yield f"{path}?key=SECRET&n=SECRET&SECRET=1", body
            yield path, body


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("logs"), SETTINGS) as service:
        yield service


def test_logs_are_json_without_values_keys_or_addresses(service):
    headers = {"content-type": "application/json", "origin": "https://SECRET.example"}
    headers |= {"user-agent": "SECRET", "referer": "https://SECRET.example", "cookie": "SECRET"}
    statuses = set()
    with service.client("admin") as client:
        for endpoint in ENDPOINTS:
            for path, body in requests_of(endpoint):
                answer = client.request(endpoint.method, path, content=body, headers=headers)
                assert answer.status_code < 500
                statuses.add(answer.status_code)
        client.get("/SECRET", headers={"authorization": "Bearer SECRET"})
    assert {200, 400, 403, 404, 422} <= statuses
    service.learned()  # the trainer writes to the same log
    lines = service.lines()
    text = "\n".join(map(json.dumps, lines))
    assert "SECRET" not in service.log.read_text()
    for secret in service.keys.values():
        assert secret.split("_", 2)[2] not in text
    assert text.count("127.0.0.1") == text.count('"listening"')
    assert {"time", "level", "event"} <= set.intersection(*map(set, lines))
    logged = {line.get("route") for line in lines}
    assert {each.route for each in ENDPOINTS} <= logged


@pytest.fixture
def written():
    """What the service logs in this process."""
    logger, stream = logging.getLogger("sfumato.serve"), io.StringIO()
    before = logger.handlers[:], logger.propagate, logger.level
    logs.configure("debug", stream)
    yield stream
    logger.handlers[:], logger.propagate, level = before
    logger.setLevel(level)


async def failing(app, secret):
    """The answer to a list from a model that raises an error with data in its message."""

    class Broken:
        def recommend(self, *_, **__):
            raise RuntimeError("SECRET of ann")

    async with app.router.lifespan_context(app):
        app.state.service.feed.current = ServedModel(Broken(), 1, 0, 0.0)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
            held = {"authorization": f"Bearer {secret}"}
            return await client.get("/recommendations/SECRET", headers=held)


def test_a_failure_is_logged_by_class_and_place_never_by_its_message(tmp_path, written):
    database = str(tmp_path / "shop.db")
    with open_store(database) as store:
        secret = store.create_key("any", ["read"])[1]
    app = create_app(ServiceConfig(database=database, trainer=False))
    answer = asyncio.run(failing(app, secret))
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "SECRET" not in answer.text + written.getvalue()
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    (failure,) = (line for line in lines if line["event"] == "failure")
    assert failure["error"] == "RuntimeError"
    assert failure["request"] in answer.json()["detail"]
    assert any(place.startswith("recommended:") for place in failure["at"])


def test_the_password_of_a_database_is_not_shown_when_it_cannot_be_reached():
    pytest.importorskip("psycopg", reason="the extra `postgres` is missing")
    address = "postgresql://ann:SECRET@127.0.0.1:1/shop"
    command = [sys.executable, "-m", "sfumato", "serve", "--database", address, "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert "127.0.0.1:1/shop cannot be used now" in done.stderr
    assert "SECRET" not in done.stdout + done.stderr
