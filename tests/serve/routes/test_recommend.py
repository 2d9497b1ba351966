"""A user's list comes from the live model, follows the user's events, and never waits for it."""

import pytest

from sfumato.serve.config import ModelConfig
from sfumato.serve.learning.learner import replay
from sfumato.serve.routes.recommend import recommended
from sfumato.store import open_store
from support.service import running
from support.service_load import MODEL as LOADED_MODEL
from support.service_load import SETTINGS as LOADED
from support.service_load import Senders

SETTINGS = "[model]\ncells = 65536\nblock = 50\nrefresh_seconds = 0.05\n"
MODEL = ModelConfig(cells=65536, block=50, refresh_seconds=0.05)


def world(users=40):
    """Two tastes: even users take even items, odd users odd ones; u0 and u1 lack the last two."""
    return [
        {"user": f"u{user}", "item": f"i{item}", "id": f"{user}-{item}-{turn}"}
        for turn in range(3)
        for user in range(users)
        for item in range(user % 2, 20, 2)
        if user > 1 or item < 18
    ]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("recommend"), SETTINGS) as service:
        with service.client("ingest") as client:
            assert client.post("/events", json=world()).status_code == 200
        service.learned()
        yield service


def items(client, user, **query):
    answer = client.get(f"/recommendations/{user}", params=query)
    assert answer.status_code == 200, answer.text
    return [row["item"] for row in answer.json()["items"]]


def test_lists_follow_what_others_of_the_same_taste_take(service):
    with service.client("read") as client:
        assert items(client, "u0", n=1) == ["i18"]
        assert items(client, "u1", n=1) == ["i19"]


def test_own_items_are_left_out_unless_repeats_are_wanted(service):
    with service.client("read") as client:
        own = {f"i{item}" for item in range(0, 18, 2)}
        assert not own & set(items(client, "u0", n=20))
        assert own & set(items(client, "u0", n=20, repeat="true"))
        assert "i18" not in items(client, "u0", n=20, exclude="i18")
        assert not {"i18", "i19"} & set(items(client, "u0", n=20, exclude=["i18", "i19"]))


def test_the_served_model_is_a_replay_of_the_log(service):
    with open_store(service.database) as store:
        learner = replay(store, MODEL)
    with service.client("read") as client:
        for user in ("u0", "u7", "nobody"):
            answer = client.get(f"/recommendations/{user}?n=20&repeat=true").json()
            assert answer["position"] == learner.position
            expected = recommended(learner.model(), user, 20, [])
            assert [(row["item"], row["score"]) for row in answer["items"]] == expected


def test_explanations_add_up_and_name_own_items(service):
    with service.client("read") as client:
        answer = client.get("/explain/u0/i18").json()
        assert answer["score"] == pytest.approx(answer["popularity"] + answer["affinity"])
        own = {f"i{item}" for item in range(0, 18, 2)}
        assert {row["item"] for row in answer["because"]} <= own
        assert answer["because"]
        missing = client.get("/explain/u0/none")
        assert (missing.status_code, missing.json()["field"]) == (404, "item")


def test_items_are_not_compared_without_a_private_release(service):
    with service.client("read") as client:
        answer = client.get("/similar/i2")
        assert answer.status_code == 409
        assert answer.json()["type"].endswith("no-release")


@pytest.mark.parametrize("query", ["n=0", "n=x", "n=1001", "other=1", "repeat=maybe", "n=%ff"])
def test_invalid_queries_are_refused(service, query):
    with service.client("read") as client:
        answer = client.get(f"/recommendations/u0?{query}")
        assert answer.status_code in (400, 422), answer.text
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_restart_serves_the_same_lists(tmp_path):
    with running(tmp_path, SETTINGS) as service:
        with service.client("ingest") as client:
            client.post("/events", json=world()[:333])
        service.learned()
        with service.client("read") as client:
            before = client.get("/recommendations/u5").json()
        assert service.stop() == 0
        with open_store(service.database) as store:
            assert store.load_snapshot("recommender").position == 300
        service.start().learned()
        with service.client("read") as client:
            after = client.get("/recommendations/u5").json()
        assert after["items"] == before["items"]
        assert before["items"]
        with service.client("ingest") as client:
            client.post("/events", json=world()[333:])
        service.learned()
        with open_store(service.database) as store:
            learner = replay(store, MODEL)
        with service.client("read") as client:
            answer = client.get("/recommendations/u5?repeat=true").json()
        assert [(row["item"], row["score"]) for row in answer["items"]] == recommended(
            learner.model(), "u5", 10, []
        )


def test_every_list_under_load_is_of_one_whole_model(tmp_path):
    answers = {}
    with running(tmp_path, LOADED.format(extra="")) as service:
        senders = Senders(service, "load", threads=2)
        with service.client("read") as client:

            def enough():
                answer = client.get("/recommendations/u1?n=20&repeat=true")
                assert answer.status_code == 200
                found = answer.json()
                answers.setdefault(found["position"], []).append(found["items"])
                return len(answers) > 12

            service.until(enough)
        senders.stop()
        positions = sorted(answers)[1::3]
        with open_store(service.database) as store:
            for position in positions:
                model = replay(store, LOADED_MODEL, until=position).model()
                expected = recommended(model, "u1", 20, [])
                for items in answers[position]:
                    assert [(row["item"], row["score"]) for row in items] == expected
