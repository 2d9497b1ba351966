"""Events are durable when they are acknowledged, once each, and malformed ones are refused."""

import gzip
import json

import pytest

from sfumato.store import open_store
from support.service import running


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("events"), "largest_batch = 50\n") as service:
        yield service


@pytest.fixture
def ingest(service):
    with service.client("ingest") as client:
        yield client


def test_one_event_an_array_and_lines_are_appended_in_order(service, ingest):
    one = ingest.post("/events", json={"user": "ann", "item": 7, "value": 4.5, "id": "a"})
    assert one.status_code == 200, one.text
    assert (one.json()["new"], one.json()["duplicates"]) == (1, 0)
    rows = [{"user": "bob", "item": "tea", "id": f"b{k}"} for k in range(3)]
    assert ingest.post("/events", json=rows).json()["new"] == 3
    lines = "\n".join(json.dumps({"user": 3, "item": "milk", "id": f"c{k}"}) for k in range(2))
    answer = ingest.post("/events", content=lines, headers={"content-type": "application/x-ndjson"})
    assert answer.json()["new"] == 2
    with open_store(service.database) as store:
        log = store.read()
    assert log.event_ids.to_pylist() == ["a", "b0", "b1", "b2", "c0", "c1"]
    assert log.users.to_pylist()[0] == "ann"
    assert log.items.to_pylist()[0] == "7"
    assert log.values[0] == 4.5
    assert log.position == answer.json()["position"]


def test_a_retry_is_a_duplicate(ingest):
    event = {"user": "ann", "item": "tea", "id": "retry"}
    assert ingest.post("/events", json=event).json()["new"] == 1
    again = ingest.post("/events", json=[event, event]).json()
    assert (again["new"], again["duplicates"]) == (0, 2)


@pytest.mark.parametrize(
    ("body", "status", "field", "position"),
    [
        (b"", 400, None, None),
        (b"{", 400, None, None),
        (b"[]", 422, None, None),
        (b"7", 422, None, None),
        (b'{"user": "SECRET"}', 422, "item", None),
        (b'[{"user": 1, "item": 2}, {"user": "SECRET"}]', 422, "[1].item", 1),
        (b'{"user": "SECRET", "item": ""}', 422, "item", None),
        (b'{"user": "SECRET", "item": 1.5}', 422, "item", None),
        (b'{"user": "SECRET", "item": 1, "value": "SECRET"}', 422, "value", None),
        (b'{"user": "SECRET", "item": 1, "SECRET": 1}', 422, None, None),
        (b'[{"user": 1, "item": 2}, {"user": null, "item": "SECRET"}]', 422, "[1].user", 1),
        (b'{"user": "SECRET\\u0000", "item": 1}', 422, "user", 0),
        (b'[{"user": 1, "item": 2}, {"user": 1, "item": "\\u0000"}]', 422, "item", 1),
        (b'{"user": "SECRET\\ud800", "item": 1}', 400, None, None),
        (b'{"user": "SECRET", "item": 1, "value": 1e999}', 422, "value", None),
        (b'{"user": "SECRET", "item": 1, "value": NaN}', 400, None, None),
        (b'{"user": "SECRET", "item": 1, "value": Infinity}', 400, None, None),
        (b'{"user": "SECRET", "item": 123456789012345678901234567890}', 422, "item", None),
        (b'{"user": "SECRET", "item": 1, "value": ' + b"9" * 5000 + b"}", 422, "value", None),
        (b'{"user": "SECRET", "item": ' + b"[" * 100_000 + b"}", 422, "item", None),
        (b"[" * 100_000, 422, "[0]", None),
        (b'{"user": "SECRET", "item": 1, "x": ' + b'{"a":' * 50_000, 422, None, None),
        (b"\xef\xbb\xbf[]", 400, None, None),
        (b'{"user": "SECRET", "item": 1}{"user": "SECRET", "item": 1}', 400, None, None),
    ],
)
def test_malformed_bodies_name_field_and_position_never_values(
    ingest, body, status, field, position
):
    answer = ingest.post("/events", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem.get("field") == field
    assert position is None or problem["position"] == position
    assert "SECRET" not in answer.text


def test_blank_lines_are_no_events_and_of_a_name_that_stands_twice_the_last_counts(service, ingest):
    lines = b'\n{"user": "n", "item": "a", "id": "n1"}\n\r\n\n{"user": "n", "item": "b"}\n\n'
    sent = {"content-type": "Application/x-ndjson; charset=utf-8"}
    assert ingest.post("/events", content=lines, headers=sent).json()["new"] == 2
    assert ingest.post("/events", content=b"\n\n", headers=sent).status_code == 422
    twice = b'{"user": "first", "item": "a", "user": "last"}'
    sent = {"content-type": "Application/JSON"}
    assert ingest.post("/events", content=twice, headers=sent).json()["new"] == 1
    with open_store(service.database) as store:
        assert len(store.events_of("n")) == 2
        assert (len(store.events_of("first")), len(store.events_of("last"))) == (0, 1)


def test_batches_bodies_and_media_types_are_limited(ingest):
    rows = [{"user": 1, "item": 2}] * 51
    assert ingest.post("/events", json=rows).status_code == 413
    large = b'{"user": "' + b"a" * (5 << 20) + b'"}'
    answer = ingest.post("/events", content=large, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    text = ingest.post("/events", content=b"{}", headers={"content-type": "text/plain"})
    assert text.status_code == 415
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    small = gzip.compress(b" " * 10**6 + json.dumps(rows[0]).encode())
    answer = ingest.post("/events", content=small, headers=packed)
    assert (answer.status_code, answer.json()["field"]) == (415, "content-encoding")
    blank = b"\n" * (1 << 20) + b"x"  # to look for the line in error takes long
    answer = ingest.post("/events", content=blank, headers={"content-type": "application/x-ndjson"})
    assert (answer.status_code, answer.json()["type"]) == (
        413,
        "urn:sfumato:problem:batch-too-large",
    )
    lines = b'{"user": 1, "item": 2}\n{"user": 1, "item"\n'
    torn = ingest.post("/events", content=lines, headers={"content-type": "application/x-ndjson"})
    assert (torn.status_code, torn.json()["position"]) == (400, 1)
