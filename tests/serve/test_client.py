"""The clients carry every call, repeat what may be repeated, and raise what the service says."""

import asyncio
import http.server
import threading

import pytest

import sfumato
from sfumato.errors import ServiceError
from support.service import running

SETTINGS = """
catalogue = ["tea", "milk"]
[budgets.users]
epsilon = 2.0
delta = 1e-6
[budgets.views]
epsilon = 2.0
unit = "event"
[sketches.pages]
kind = "count-sketch"
dataset = "views"
[model]
cells = 65536
refresh_seconds = 0.05
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("client"), SETTINGS) as service:
        yield service


@pytest.fixture
def client(service):
    url = f"http://127.0.0.1:{service.port}"
    with sfumato.Client(url, service.keys["admin"]) as client:
        yield client


def test_calls_of_the_client_reach_their_routes(service, client):
    done = client.add_events(["ann", "bob", "a/b?c"], ["tea", "milk", "tea"], [1, 2, 3])
    assert done["new"] == 3
    again = client.add_events(["ann"], ["tea"], ids=["x"], times=[1.5])
    assert client.add_events(["ann"], ["tea"], ids=["x"])["duplicates"] == again["new"] == 1
    service.learned()
    items = [row["item"] for row in client.recommend("nobody")["items"]]
    assert sorted(items) == ["milk", "tea"]
    assert [row["item"] for row in client.recommend("a/b?c")["items"]] == ["milk"]
    assert client.recommend("nobody", exclude=["tea"])["items"][0]["item"] == "milk"
    assert len(client.recommend("ann", repeat=True)["items"]) == 2
    assert client.explain("ann", "milk")["item"] == "milk"
    assert client.add_keys("pages", ["home", "home"])["added"] == 2
    assert client.sketch("pages", 1)["counts"] == [2.0]
    data = client.release("r1", "popular", "users", 1, delta=1e-7)
    assert client.release("r1", "popular", "users", 1, delta=1e-7) == data
    assert sfumato.load(data).statement.epsilon <= 1
    assert client.statement("r1")["statement"]["unit"] == "user"
    assert {each["dataset"] for each in client.budget()["budgets"]} == {"users", "views"}
    assert client.erase("bob")["events"] == 1
    assert client.ready()["status"] == "ready"


def test_refusals_raise_the_services_sentence(service, client):
    with pytest.raises(ServiceError, match="one of the settings") as caught:
        client.release("r2", "sketch", "views", 1, sketch="none")
    assert (caught.value.status, caught.value.problem["field"]) == (422, "sketch")
    with pytest.raises(ServiceError, match="private release only"):
        client.similar("tea")
    with (
        sfumato.Client(f"http://127.0.0.1:{service.port}", "wrong") as stranger,
        pytest.raises(ServiceError, match="Bearer"),
    ):
        stranger.budget()


def test_the_client_of_event_loops_has_the_same_calls(service):
    async def calls():
        url = f"http://127.0.0.1:{service.port}"
        async with sfumato.AsyncClient(url, service.keys["admin"]) as client:
            await client.add_events(["eve"], ["tea"])
            lists = await asyncio.gather(*(client.recommend(f"u{k}") for k in range(20)))
            with pytest.raises(ServiceError):
                await client.telemetry("none")
            return lists

    assert len(asyncio.run(calls())) == 20


def test_calls_are_repeated_with_the_same_ids_while_the_service_is_overloaded():
    bodies = []

    class Overloaded(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200 if len(bodies) == 3 else 503)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Overloaded)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with sfumato.Client(f"http://127.0.0.1:{server.server_port}", "k") as client:
            assert client.add_events(["ann"], ["tea"]) == {}
        assert len(bodies) == 3
        assert len(set(bodies)) == 1
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    with (
        sfumato.Client(f"http://127.0.0.1:{server.server_port}", "k", tries=2) as client,
        pytest.raises(ServiceError, match="could not be reached, 2 times"),
    ):
        client.budget()
