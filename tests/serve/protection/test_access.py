"""Only health answers without a key; scopes, origins, headers, rates and logs are as stated."""

import asyncio
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sfumato.serve.app import ENDPOINTS
from sfumato.serve.protection.access import KeyCheck
from sfumato.serve.protection.limits import RateLimits
from sfumato.serve.protection.problems import Problem
from sfumato.store import open_store
from support.service import running

ORIGIN = "https://shop.example"
ROUTES = [(each.method, each.route, each.scope) for each in ENDPOINTS if not each.public]
SETTINGS = f"""
log_level = "debug"
allowed_origins = ["{ORIGIN}"]
body_seconds = 0.3
[sketches.pages]
kind = "count-sketch"
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("access"), SETTINGS) as service:
        yield service


def request(client, method, route, **options):
    path = re.sub(r"{\w+}", "SECRET", route)
    body = {"content": b"{}"} if method == "POST" else {}
    headers = {"content-type": "application/json", **options.pop("headers", {})}
    return client.request(method, path, headers=headers, **body, **options)


def test_every_route_has_one_of_the_scopes_and_only_health_has_none():
    assert {route for _, route, scope in ROUTES if scope is None} == {"/healthz", "/readyz"}
    assert {scope for _, _, scope in ROUTES} == {None, "ingest", "read", "admin"}


@pytest.mark.parametrize(("method", "route", "scope"), ROUTES)
def test_a_route_answers_only_keys_of_its_scope(service, method, route, scope):
    for given in (None, "ingest", "read", "admin"):
        with service.client(given) as client:
            answer = request(client, method, route)
        allowed = scope is None or given in (scope, "admin")
        refused = answer.status_code in (401, 403)
        assert refused != allowed, (given, answer.status_code, answer.text)
        assert answer.status_code < 500
        if refused:
            assert answer.status_code == (401 if given is None else 403)
            assert answer.headers["content-type"] == "application/problem+json"


def test_whoever_has_no_key_learns_that_it_is_ready_and_no_number_of_events(service):
    for given in (None, "ingest"):
        with service.client(given) as client:
            ready = client.get("/readyz").json()
            assert set(ready) == {"status", "database", "trainer", "model"}
            assert set(client.get("/healthz").json()) == {"status"}
    with service.client("read") as client:
        assert {"position", "lag"} <= set(client.get("/readyz").json())


def test_wrong_revoked_and_misplaced_keys_are_refused(service):
    with service.client("admin") as admin:
        made = admin.post("/keys", json={"name": "short", "scopes": ["read"]}).json()
        held = {"authorization": f"Bearer {made['secret']}"}
        assert admin.get("/budget", headers=held).status_code == 200
        assert admin.delete(f"/keys/{made['key']['key_id']}").status_code == 200
        assert admin.get("/budget", headers=held).status_code == 401
        assert admin.delete(f"/keys/{made['key']['key_id']}").status_code == 404
        listed = admin.get("/keys").json()["keys"]
        assert made["secret"] not in json.dumps(listed)
        other = admin.post("/keys", json={"name": "other", "scopes": ["read"]}).json()
        with open_store(service.database) as store:  # as another process
            store.revoke_key(other["key"]["key_id"])
        held = {"authorization": f"Bearer {other['secret']}"}
        end = time.monotonic() + 20  # two seconds are stated, on a machine that is not busy
        while admin.get("/budget", headers=held).status_code == 200:
            assert time.monotonic() < end
        assert [key["revoked"] is not None for key in listed if key["name"] == "short"] == [True]
        bad = {"name": "x", "scopes": ["root"]}
        assert admin.post("/keys", json=bad).json()["field"] == "scopes"
        unknown = {"name": "x", "scopes": ["ingest"], "metric": "none", "origins": []}
        assert admin.post("/keys", json=unknown).json()["field"] == "metric"
    with service.client() as client:
        wrong = ("Bearer", "Bearer x", "Basic abc", "Bearer " + "k" * 5000, "Bearer sfk_é_x")
        for text in map(str.encode, wrong):
            assert client.get("/budget", headers={"authorization": text}).status_code == 401
        address = {"key": service.keys["read"]}
        assert client.get("/budget", params=address).status_code == 403


def test_keys_are_read_also_while_all_shared_threads_are_at_work(tmp_path):
    async def refreshed(store):
        loop, gate = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, gate.wait)
        try:
            await asyncio.wait_for(KeyCheck(store).refresh(), 30)
        finally:
            gate.set()
            await busy

    with open_store(tmp_path / "keys.db") as store:
        asyncio.run(refreshed(store))


def test_pages_of_other_origins_read_nothing(service):
    with service.client("read") as client:
        own = client.get("/budget", headers={"origin": ORIGIN})
        assert own.headers["access-control-allow-origin"] == ORIGIN
        other = client.get("/budget", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
        ask = client.options("/budget", headers={"origin": ORIGIN})
        assert (ask.status_code, ask.headers["access-control-allow-origin"]) == (204, ORIGIN)
        ask = client.options("/budget", headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in ask.headers


def test_every_answer_has_security_headers(service):
    with service.client("read") as client:
        for path in ("/healthz", "/budget", "/nowhere", "/similar/x"):
            answer = client.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "server" not in answer.headers
        missing = client.get("/nowhere")
        assert missing.json()["status"] == missing.status_code == 404
        method = client.delete("/healthz")
        assert method.status_code == 405
        assert sorted(method.headers["allow"].split(", ")) == ["GET", "HEAD"]
        assert method.headers["content-type"] == "application/problem+json"


def test_a_body_that_does_not_arrive_is_given_up(service):
    with socket.create_connection(("127.0.0.1", service.port)) as slow:
        head = f"authorization: Bearer {service.keys['ingest']}\r\ncontent-type: application/json"
        text = f"POST /events HTTP/1.1\r\nhost: x\r\n{head}\r\ncontent-length: 100\r\n\r\n{{"
        slow.sendall(text.encode())
        slow.settimeout(30)
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_metrics_count_routes_not_people(service):
    with service.client("admin") as client:
        client.get("/recommendations/SECRET")
        text = client.get("/metrics").text
    assert 'sfumato_requests_total{method="GET",route="/recommendations/{user}"' in text
    assert "sfumato_model_lag_events" in text
    assert "SECRET" not in text
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r"\w+({[^}]*}|{.*}|) [-0-9.e+]+", line), line


def test_buckets_refill_at_their_rate():
    now = [0.0]
    buckets = RateLimits(rate=2.0, burst=3, clock=lambda: now[0])
    for _ in range(3):
        buckets.take("a")
    with pytest.raises(Problem) as caught:
        buckets.take("a")
    assert caught.value.status == 429
    assert dict(caught.value.headers)[b"retry-after"] == b"1"
    buckets.take("b")  # another key has its own
    now[0] = 0.5
    buckets.take("a")
    with pytest.raises(Problem):
        buckets.take("a")
