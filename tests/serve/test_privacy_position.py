"""Who may see what of whom: two logs that differ in one user answer alike wherever that is stated.

Every route that a key of the scope read can use stands in one of the lists below with what its
answers may depend on. What depends on other users is the model (joint privacy) and exact counts of
events; all else is paid for, private before it arrived, generated, or a setting.
"""

import pytest

from sfumato.serve.app import ENDPOINTS
from sfumato.store import schema
from sfumato.telemetry import Rappor, ReportEncoder, write_reports
from support.service import running
from support.stores import run_sql

SCHEME = Rappor(bits=32, hashes=1, cohorts=2, f=0.25, metric="fruit")
SETTINGS = """
catalogue = ["i0", "i1", "i2"]
[budgets.users]
epsilon = 3.0
delta = 1e-6
unit = "user"
[budgets.views]
epsilon = 3.0
unit = "event"
[sketches.pages]
kind = "count-sketch"
dataset = "views"
commit_seconds = 0.001
counter = {{dataset = "views", epsilon = 1.0, steps = 10, seconds = 1e9}}
[metrics.fruit]
scheme = "{folder}/params.json"
candidates = ["apple", "pear"]
[model]
cells = 65536
refresh_seconds = 0.05
"""
# Of the internal model: for the user's own eyes.
JOINT = {"/recommendations/{user}", "/explain/{user}/{item}"}
# Exact counts of events, for the operator's own servers; `NUMBERS` are their fields.
COUNTED = {"/overview"}
NUMBERS = {"position", "items", "age_seconds", "created", "charged", "time", "nbytes"}
# Paid for, private before arrival, generated, or of the settings: alike for both logs.
ALIKE = {
    "/similar/{item}": ["/similar/i0"],
    "/telemetry/{metric}": ["/telemetry/fruit"],
    "/density/{name}/query": ["/density/none/query"],
    "/sketches/{name}/counter": ["/sketches/pages/counter"],
    "/releases": ["/releases"],
    "/releases/{release}": ["/releases/none"],
    "/statements/{release}": ["/statements/none"],
    "/budget": ["/budget"],
    "/lab": ["/lab?epsilon=48"],
    "/lab/curve": ["/lab/curve"],
    "/lab/density": ["/lab/density"],
    "/openapi.json": ["/openapi.json"],
}
NO_KEY = {"/healthz", "/readyz"}


def without_numbers(value):
    """JSON without what counts events or tells the time."""
    if isinstance(value, list):
        return [without_numbers(each) for each in value]
    if isinstance(value, dict):
        return {k: without_numbers(v) for k, v in value.items() if k not in NUMBERS}
    return value


def before_noise(answer):
    """What the lab shows before it draws noise, anew in each process: its generated data."""
    items = [(each["title"], each["present"]) for each in answer.get("items", [])]
    return items, answer.get("exact"), answer.get("profiles")


def test_every_route_of_the_scope_read_has_a_stated_position():
    listed = {each.route for each in ENDPOINTS if each.scope in ("read", None)}
    assert listed == JOINT | COUNTED | set(ALIKE) | NO_KEY


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two services that differ in the events and keys of one user."""
    folders = [tmp_path_factory.mktemp(name) for name in ("with", "without")]
    for folder in folders:
        (folder / "params.json").write_text(SCHEME.to_json())
    one, other = (running(folder, SETTINGS.format(folder=folder)) for folder in folders)
    with one as one, other as other:
        for service in (one, other):
            rows = [{"user": f"u{user}", "item": f"i{user % 3}"} for user in range(60)]
            with service.client("ingest") as client:
                if service is one:
                    rows += [{"user": "SECRET", "item": item} for item in ("i0", "i1", "own")]
                    client.post("/sketches/pages", json={"keys": ["SECRET"] * 5})
                assert client.post("/events", json=rows).status_code == 200
            service.learned()
        yield one, other


@pytest.mark.parametrize("path", [path for paths in ALIKE.values() for path in paths])
def test_what_leaves_is_alike_for_logs_that_differ_in_one_user(pair, path):
    found = []
    for service in pair:
        with service.client("read") as client:
            if path.startswith("/density"):
                answer = client.post(path, json={"points": [[0.0, 0.0]]})
            else:
                answer = client.get(path)
        assert "SECRET" not in answer.text
        shown = before_noise if path.startswith("/lab") else without_numbers
        found.append((answer.status_code, shown(answer.json())))
    assert found[0] == found[1]


def test_counts_of_events_are_all_that_an_overview_tells(pair):
    found = []
    for service in pair:
        with service.client("read") as client:
            found.append(client.get("/overview").json())
            assert set(client.get("/readyz").json()) >= {"position", "lag"}
    assert found[0]["model"]["position"] != found[1]["model"]["position"]
    assert without_numbers(found[0]) == without_numbers(found[1])


def test_an_item_of_one_user_reaches_no_release_and_no_similar_list(pair):
    one, _ = pair
    with one.client("admin") as admin:
        order = {"release": "p", "kind": "popular", "dataset": "users", "epsilon": 1, "delta": 1e-7}
        made = admin.post("/releases", json=order)
        assert made.status_code == 201, made.text
        assert b"own" not in made.content
        assert b"SECRET" not in made.content
        order = {**order, "release": "n", "kind": "neighbours"}
        assert admin.post("/releases", json=order).status_code == 201
        assert admin.get("/similar/own").status_code == 404
        assert "own" not in admin.get("/similar/i0").text


ADDRESS = "203.0.113.7"


def test_addresses_of_browsers_are_neither_stored_nor_logged(tmp_path, location):
    (tmp_path / "params.json").write_text(SCHEME.to_json())
    settings = 'log_level = "debug"\n' + SETTINGS.format(folder=tmp_path)
    with running(tmp_path, settings, database=location) as service:
        with service.client("admin") as admin:
            wanted = {"name": "page", "scopes": ["ingest"], "metric": "fruit", "origins": []}
            secret = admin.post("/keys", json=wanted).json()["secret"]
        write_reports(tmp_path / "r.jsonl", ReportEncoder(SCHEME, seed=1).encode_many(["apple"]))
        headers = {"content-type": "text/plain", "x-forwarded-for": ADDRESS, "x-real-ip": ADDRESS}
        headers |= {"forwarded": f"for={ADDRESS}", "user-agent": "SECRET", "cookie": "SECRET"}
        with service.client() as page:
            body = (tmp_path / "r.jsonl").read_bytes()
            answer = page.post("/reports", params={"key": secret}, content=body, headers=headers)
            assert answer.json()["new"] == 1
        assert service.stop() == 0
        log = service.log.read_text()
    assert '"route": "/reports"' in log
    assert log.count("127.0.0.1") == log.count('"listening"')
    stored = "".join(repr(run_sql(location, f"SELECT * FROM {table}")) for table in schema.TABLES)
    assert "fruit" in stored
    for never in (ADDRESS, "SECRET", "127.0.0.1", secret.split("_", 2)[2]):
        assert never not in stored
        assert never == "127.0.0.1" or never not in log
