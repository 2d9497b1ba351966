"""The OpenAPI document lists every route, and requests made from it never make the service fail."""

import re
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error

from sfumato.serve.app import ENDPOINTS
from sfumato.serve.routes.openapi import document
from support.service import running


def test_every_route_and_its_statuses_are_described():
    paths = document(ENDPOINTS)["paths"]
    listed = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert listed == {(each.method, each.route) for each in ENDPOINTS}
    for path, methods in paths.items():
        for operation in methods.values():
            assert operation["summary"].endswith(".")
            named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            secured = path not in ("/healthz", "/readyz")
            assert ("security" in operation) == secured == ("401" in operation["responses"])
    names = [each["operationId"] for methods in paths.values() for each in methods.values()]
    assert len(names) == len(set(names))


def test_the_page_lists_every_route_with_its_scope():
    page = (Path(__file__).parents[3] / "docs" / "service.md").read_text()
    rows = re.findall(r"^\| `(\w+) (/\S*)` \| ([\w ]+) \|", page, re.M)
    scopes = {
        (each.method, each.route): "public key" if each.public else str(each.scope).lower()
        for each in ENDPOINTS
    }
    assert {(method, route): scope for method, route, scope in rows} == scopes


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    text = '[sketches.pages]\nkind = "count-sketch"\n[model]\ncells = 65536\n'
    with running(tmp_path_factory.mktemp("openapi"), text) as service:
        yield service


def test_requests_made_from_the_document_never_fail(service):
    with service.client("admin") as client:
        described = client.get("/openapi.json").json()
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=f"http://127.0.0.1:{service.port}")
    headers = {"authorization": f"Bearer {service.keys['admin']}"}
    documented = {}

    for result in schema.get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case):
            answer = case.call(headers=headers)
            case.validate_response(answer, checks=[not_a_server_error])
            documented.setdefault(case.operation.label, set()).add(str(answer.status_code))

        check()
    for label, statuses in documented.items():
        method, path = label.split()
        known = set(described["paths"][path][method.lower()]["responses"])
        assert statuses <= known | {"404", "405"}, (label, statuses - known)
    assert len(documented) == len(ENDPOINTS)
