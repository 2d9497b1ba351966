"""No body, path or query makes the service fail: malformed ones get 4xx, and it goes on."""

import json
import random
import string

import pytest

from support.service import running

SETTINGS = """
[budgets.views]
epsilon = 1000.0
unit = "event"
[sketches.pages]
kind = "count-sketch"
dataset = "views"
commit_seconds = 0.001
[model]
cells = 65536
"""
GOOD = {
    "/events": [{"user": "u", "item": "i", "value": 1.5, "time": 2.0, "id": "x"}],
    "/sketches/pages": {"keys": ["a", 1], "weights": [1, 2], "id": "y"},
    "/density/none/query": {"points": [[0.5, 1.5]]},
    "/releases": {"release": "r", "kind": "sketch", "sketch": "pages", "dataset": "views"},
    "/keys": {"name": "k", "scopes": ["read"], "metric": "m", "origins": ["https://a.example"]},
}
ODD = [None, True, -1, 0, 2**70, 1e308, 0.1, "", "\0", "\ud800", "x" * 300, [], {}, [[]], {"a": 1}]
ODD += ["NaN", [None], "é" * 256, "a/b", {"user": {}}]


def mutated(rng, value, depth=0):
    """A value with one part replaced, removed, added or nested."""
    turn = rng.randrange(6)
    if depth > 3 or turn == 0 or not isinstance(value, dict | list) or not value:
        return rng.choice(ODD)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [*value[:at], mutated(rng, value[at], depth + 1), *value[at + 1 :]]
    key = rng.choice(list(value))
    if turn == 1:
        return {k: v for k, v in value.items() if k != key}
    if turn == 2:
        return {**value, "".join(rng.choices(string.printable, k=3)): rng.choice(ODD)}
    return {**value, key: mutated(rng, value[key], depth + 1)}


def body_of(rng, good):
    """A malformed body: of a mutated value, or of damaged bytes."""
    turn = rng.randrange(4)
    data = json.dumps(good if turn else mutated(rng, good)).encode()
    if turn == 0:
        return data
    data = bytearray(data)
    if turn == 1:
        return bytes(data[: rng.randrange(len(data))])
    if turn == 2:
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data)
    return rng.randbytes(rng.randrange(60))


def is_json(body):
    try:
        json.loads(body, parse_constant=float.fromhex)  # of NaN, a ValueError
    except (ValueError, RecursionError):
        return False
    return True


def check(client, rng, rounds):
    for _ in range(rounds):
        route = rng.choice(list(GOOD))
        body = body_of(rng, GOOD[route])
        media_type = rng.choice(["application/json"] * 4 + ["application/x-ndjson", "text/html"])
        answer = client.post(route, content=body, headers={"content-type": media_type})
        assert answer.status_code < 500, (route, body, answer.text)
        if media_type == "text/html" or not (is_json(body) or media_type == "application/x-ndjson"):
            assert answer.status_code >= 400, (route, body)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert problem["status"] == answer.status_code
            if answer.status_code == 422 and not problem["detail"].startswith(
                ("The body", "There")
            ):
                assert problem["field"], (route, body, problem)


def check_addresses(client, rng, rounds):
    letters = "%/?&=;+.~" + string.ascii_letters + "\u00e9"
    for _ in range(rounds):
        name = "".join(rng.choices(letters, k=rng.randrange(1, 12)))
        route = rng.choice(["recommendations", "explain/u", "similar", "telemetry", "statements"])
        path = (
            f"/{route}/"
            + "".join(f"%{byte:02x}" for byte in name.encode())
            + rng.choice(["", "%ff"])
        )
        answer = client.get(f"{path}?n={rng.choice(['1', 'x', '', '%00', '%ff', '9' * 30])}")
        assert answer.status_code < 500, (path, answer.text)


def test_malformed_requests_get_4xx(tmp_path):
    with running(tmp_path, SETTINGS) as service, service.client("admin") as client:
        check(client, random.Random(0), 500)
        check_addresses(client, random.Random(1), 150)
        assert client.get("/healthz").status_code == 200
        failed = [line for line in service.lines() if line["event"] == "failure"]
        assert not failed


@pytest.mark.soak
def test_ten_thousand_malformed_requests_get_4xx(tmp_path):
    with running(tmp_path, SETTINGS) as service, service.client("admin") as client:
        check(client, random.Random(2), 10_000)
        check_addresses(client, random.Random(3), 2000)
        assert client.get("/readyz").status_code == 200
