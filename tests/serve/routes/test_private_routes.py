"""What leaves is paid for or private already: releases, counters, telemetry, densities."""

import numpy as np
import pytest

import sfumato
from sfumato.density import SketchDensity
from sfumato.store import open_store
from sfumato.telemetry import Rappor, ReportEncoder, write_reports
from support.service import running

SETTINGS = """
catalogue = ["i0", "i1", "i2", "i3"]
[budgets.users]
epsilon = 10.0
delta = 1e-6
unit = "user"
[budgets.views]
epsilon = 3.0
unit = "event"
[sketches.pages]
kind = "count-sketch"
dataset = "views"
commit_seconds = 0.01
parameters = {{width = 256}}
counter = {{dataset = "views", epsilon = 1.0, steps = 100000, seconds = 0.05}}
[sketches.people]
kind = "hyper-log-log"
dataset = "views"
[metrics.fruit]
scheme = "{folder}/params.json"
candidates = ["apple", "pear", "plum"]
[densities.towns]
file = "{folder}/towns.sfu"
[model]
cells = 65536
refresh_seconds = 0.05
"""
SCHEME = Rappor(bits=32, hashes=1, cohorts=4, f=0.25, metric="fruit")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private")
    (folder / "params.json").write_text(SCHEME.to_json())
    points = np.random.default_rng(0).normal(size=(500, 2))
    SketchDensity(bandwidth=0.5, epsilon=1, bounds=(-4, 4)).fit(points).save(folder / "towns.sfu")
    with running(folder, SETTINGS.format(folder=folder)) as service:
        rows = [
            {"user": f"u{user}", "item": f"i{item}"}
            for user in range(300)
            for item in range(user % 4)
        ]
        with service.client("ingest") as client:
            assert client.post("/events", json=rows).status_code == 200
        yield service


@pytest.fixture
def admin(service):
    with service.client("admin") as client:
        yield client


def spent(client, dataset):
    found = client.get("/budget").json()["budgets"]
    return next(each for each in found if each["dataset"] == dataset)["spent_epsilon"]


def test_a_release_is_charged_once_and_a_retry_returns_its_bytes(service, admin):
    request = {"release": "p1", "kind": "popular", "dataset": "users", "epsilon": 1, "delta": 1e-7}
    before = spent(admin, "users")
    first = admin.post("/releases", json=request)
    assert first.status_code == 201, first.text
    charged = spent(admin, "users")
    assert before < charged <= before + 1
    with service.client("ingest") as client:
        client.post("/events", json={"user": "late", "item": "i1"})
    again = admin.post("/releases", json=request)
    assert (again.status_code, again.content) == (200, first.content)
    assert spent(admin, "users") == charged
    assert admin.get(first.headers["location"]).content == first.content
    released = sfumato.load(first.content)
    assert released.counts(["i1"]).size == 1
    statement = admin.get("/statements/p1").json()
    assert statement["statement"]["epsilon"] <= 1
    assert statement["statement"]["unit"] == "user"
    assert "p1" in [each["release"] for each in admin.get("/releases").json()["releases"]]
    other = admin.post("/releases", json={**request, "epsilon": 2})
    assert other.status_code == 409, other.text
    secret = admin.post("/keys", json={"name": "second", "scopes": ["admin"]}).json()["secret"]
    held = {"authorization": f"Bearer {secret}"}
    replayed = admin.post("/releases", json=request, headers=held)
    assert (replayed.status_code, replayed.content) == (200, first.content)
    taken = admin.post("/releases", json={**request, "delta": 1e-8}, headers=held)
    assert taken.status_code == 409, taken.text
    assert spent(admin, "users") == charged
    reserved = admin.post("/releases", json={**request, "release": "counter:new"})
    assert (reserved.status_code, reserved.json()["field"]) == (422, "release")


def test_similar_items_come_from_the_newest_release_of_neighbours(service, admin):
    request = {
        "release": "n1",
        "kind": "neighbours",
        "dataset": "users",
        "epsilon": 5,
        "delta": 1e-7,
        "contributions": 3,
    }
    made = admin.post("/releases", json=request)
    assert made.status_code == 201, made.text
    with service.client("read") as client:
        answer = client.get("/similar/i0", params={"n": 2})
        assert answer.status_code == 200, answer.text
        assert answer.json()["release"] == "n1"
        released = sfumato.load(made.content)
        expected = released.similar_items("i0", 2)[0].tolist()
        assert [row["item"] for row in answer.json()["items"]] == expected
        assert client.get("/similar/other").status_code == 404


def test_what_does_not_fit_the_budget_is_refused_and_costs_nothing(admin):
    request = {
        "release": "big",
        "kind": "popular",
        "dataset": "users",
        "epsilon": 50,
        "delta": 1e-7,
    }
    before = spent(admin, "users")
    answer = admin.post("/releases", json=request)
    assert (answer.status_code, answer.json()["type"]) == (
        409,
        "urn:sfumato:problem:budget-exceeded",
    )
    assert spent(admin, "users") == before
    assert admin.get("/releases/big").status_code == 404


def test_keys_of_a_sketch_are_durable_and_a_retry_adds_nothing(service, admin):
    with service.client("ingest") as client:
        request = {"keys": ["home"] * 30 + ["help"] * 10, "id": "one"}
        assert client.post("/sketches/pages", json=request).json() == {
            "added": 40,
            "repeated": False,
        }
        assert client.post("/sketches/pages", json=request).json() == {"added": 0, "repeated": True}
        people = {"keys": [f"p{k}" for k in range(1000)]}
        assert client.post("/sketches/people", json=people).json()["added"] == 1000
        assert client.post("/sketches/none", json=people).status_code == 404
        assert client.get("/sketches/pages").status_code == 403  # raw data are the curator's
    with open_store(service.database) as store:
        assert store.load_snapshot("sketch:pages") is not None
    shown = admin.get("/sketches/pages", params={"n": 2}).json()
    assert shown["keys"] == ["home", "help"]
    assert shown["counts"] == [30.0, 10.0]
    assert admin.get("/sketches/people").json()["distinct"] == pytest.approx(1000, rel=0.1)


def test_a_sketch_is_released_privately(admin):
    request = {
        "release": "s1",
        "kind": "sketch",
        "sketch": "pages",
        "dataset": "views",
        "epsilon": 1,
    }
    made = admin.post("/releases", json=request)
    assert made.status_code == 201, made.text
    assert sfumato.load(made.content).statement.epsilon == 1
    other = admin.post("/releases", json={**request, "release": "s2", "dataset": "users"})
    assert (other.status_code, other.json()["field"]) == (422, "dataset")
    unbounded = {**request, "release": "s3", "sketch": "people"}
    assert admin.post("/releases", json=unbounded).json()["field"] == "largest"


def test_running_totals_are_charged_once_and_never_change(service, admin):
    with service.client("read") as client:

        def totals():
            return client.get("/sketches/pages/counter").json()["totals"]

        service.until(lambda: len(totals()) >= 3)
        first = totals()
        service.until(lambda: len(totals()) > len(first))
        assert totals()[: len(first)] == first
        assert client.get("/sketches/people/counter").status_code == 404
    charges = [each["release"] for each in admin.get("/budget").json()["charges"]]
    assert charges.count("counter:pages") == 1
    statement = admin.get("/statements/counter:pages").json()["statement"]
    assert (statement["epsilon"], statement["unit"]) == (1.0, "event")


def test_reports_of_browsers_are_counted_and_decoded(service, admin, tmp_path):
    origin = "https://shop.example"
    wanted = {"name": "page", "scopes": ["ingest"], "metric": "fruit", "origins": [origin]}
    made = admin.post("/keys", json=wanted)
    assert made.status_code == 201, made.text
    key = {"key": made.json()["secret"]}
    values = np.random.default_rng(1).choice(["apple", "pear"], 4000, p=[0.75, 0.25])
    reports = ReportEncoder(SCHEME, seed=1).encode_many(values)
    write_reports(tmp_path / "reports.jsonl", reports)
    body = (tmp_path / "reports.jsonl").read_bytes()
    sent = {"content-type": "text/plain", "origin": origin}
    with service.client() as page:
        assert page.get("/reports/parameters", params=key).json()["metric"] == "fruit"
        answer = page.post("/reports", params=key, content=body, headers=sent)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"new": 4000, "duplicates": 0, "refused": {}}
        assert answer.headers["access-control-allow-origin"] == origin
        again = page.post("/reports", params=key, content=body, headers=sent)
        assert (again.json()["new"], again.json()["duplicates"]) == (0, 4000)
        foreign = page.post(
            "/reports",
            params=key,
            content=body,
            headers={**sent, "origin": "https://other.example"},
        )
        assert foreign.status_code == 403
        assert "access-control-allow-origin" not in foreign.headers
        junk = page.post("/reports", params=key, content=b"{}\n", headers=sent)
        assert junk.status_code == 422
        assert page.get("/telemetry/fruit", params=key).status_code == 403
        secret = {"key": service.keys["ingest"]}
        assert page.post("/reports", params=secret, content=body, headers=sent).status_code == 403
    with service.client("read") as client:
        table = client.get("/telemetry/fruit").json()
        assert table["reports"] == 4000
        rows = {row["value"]: row for row in table["rows"]}
        # 6 standard errors: a failure has probability below 1e-8, and the seeds are fixed.
        assert abs(rows["apple"]["estimate"] - 3000) < 6 * rows["apple"]["std_error"]
        assert not rows["plum"]["detected"]
        chosen = client.get("/telemetry/fruit", params={"candidate": ["apple", "fig"]}).json()
        assert {row["value"] for row in chosen["rows"]} == {"apple", "fig"}
        assert client.get("/telemetry/none").status_code == 404
        repeated = client.get("/telemetry/fruit", params={"candidate": ["fig", "fig"]})
        assert repeated.status_code == 422
    with open_store(service.database) as store:
        assert len(store.telemetry("fruit")) == 4000


def test_densities_are_answered_from_a_private_file(service):
    model = sfumato.load(service.folder / "towns.sfu")
    points = [[0.0, 0.0], [3.0, 3.0]]
    with service.client("read") as client:
        answer = client.post("/density/towns/query", json={"points": points})
        assert answer.status_code == 200, answer.text
        assert answer.json()["densities"] == pytest.approx(model.density(points).tolist())
        wrong = client.post("/density/towns/query", json={"points": [[0, 0], [1]]})
        assert (wrong.status_code, wrong.json()["position"]) == (422, 1)
        assert client.post("/density/none/query", json={"points": points}).status_code == 404


def test_an_erased_user_is_gone_from_the_log_and_the_model(service, admin):
    with service.client("ingest") as client:
        rows = [{"user": "SECRET", "item": f"own{k}"} for k in range(5)]
        client.post("/events", json=rows)
    service.learned()
    answer = admin.delete("/users/SECRET")
    assert answer.status_code == 200, answer.text
    erased = answer.json()
    assert erased["events"] == 5
    assert "p1" in erased["cannot_be_recalled"]

    def relearned():
        return admin.get(f"/erasures/{erased['erasure']}").json()["model"] == "relearned"

    service.until(relearned)
    with open_store(service.database) as store:
        assert len(store.events_of("SECRET")) == 0
    with service.client("read") as client:
        items = client.get("/recommendations/other", params={"n": 100, "repeat": "true"}).json()
        assert not [row for row in items["items"] if row["item"].startswith("own")]
    assert admin.get("/erasures/999").status_code == 404


def test_a_density_or_metric_that_is_not_private_is_refused_at_the_start(tmp_path):
    points = np.random.default_rng(0).normal(size=(50, 1))
    SketchDensity(bandwidth=0.5).fit(points).save(tmp_path / "raw.sfu")
    settings = f'[densities.raw]\nfile = "{tmp_path}/raw.sfu"\n'
    named = r'"event": "could not start"[^$]*densities\.raw\.file must be'
    with pytest.raises(AssertionError, match=named), running(tmp_path, settings):
        pass


def test_a_restart_goes_on_with_sketches_and_totals(service, admin):
    before = admin.get("/sketches/pages/counter").json()["totals"]
    assert service.stop() == 0
    service.start()
    with service.client("admin") as client:
        assert client.get("/sketches/pages", params={"n": 1}).json()["counts"] == [30.0]
        after = client.get("/sketches/pages/counter").json()["totals"]
        assert after[: len(before)] == before
        request = {"keys": ["home"], "id": "one"}
        assert client.post("/sketches/pages", json=request).json()["repeated"]
