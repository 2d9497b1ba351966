"""GET /openapi.json: the document of all routes, from the types that validate them."""

import inspect
import re
import types
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

import sfumato
from sfumato.serve.endpoint import Call, Endpoint, Reply
from sfumato.serve.protection.problems import TITLES, ProblemDocument

__all__ = ["ENDPOINTS", "document"]

REFERENCE = "#/components/schemas/{name}"
PROBLEM = {
    "application/problem+json": {"schema": {"$ref": REFERENCE.format(name="ProblemDocument")}}
}


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of endpoints."""
    listed = list(endpoints)
    kinds = [kind for each in listed for kind in (each.answer, each.body) if _has_schema(kind)]
    kinds += [each.query for each in listed if each.query is not None] + [ProblemDocument]
    unique = list({_name(kind): kind for kind in kinds}.values())
    schemas, components = msgspec.json.schema_components(unique, ref_template=REFERENCE)
    by_name = dict(zip(map(_name, unique), schemas, strict=True))
    paths: dict[str, Any] = {}
    for each in listed:
        paths.setdefault(each.route, {})[each.method.lower()] = _operation(
            each, by_name, components
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sfumato",
            "version": sfumato.__version__,
            "description": "Events in, recommendations and private statistics out.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "publicKey": {"type": "apiKey", "in": "query", "name": "key"},
            },
        },
    }


def _operation(
    each: Endpoint, by_name: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": each.handler.__name__,
        "summary": (inspect.getdoc(each.handler) or "").partition("\n")[0],
        "parameters": [*_path_parameters(each), *_query_parameters(each, components)],
        "responses": _responses(each, by_name),
    }
    if each.scope is not None:
        made["security"] = [{"publicKey": []}] if each.public else [{"key": []}]
        made["description"] = f"Needs a key with the scope {each.scope}."
    if each.method == "POST":
        made["requestBody"] = {"required": True, "content": _content(each, by_name)}
    return made


def _content(each: Endpoint, by_name: dict[str, Any]) -> dict[str, Any]:
    schema = by_name.get(_name(each.body), {"type": "string"}) if each.body else {"type": "string"}
    media_types = each.takes or ("application/json",)
    lines = {"schema": {"type": "string"}}
    return {
        name: {"schema": schema} if name == "application/json" else lines for name in media_types
    }


def _path_parameters(each: Endpoint) -> list[dict[str, Any]]:
    schema = {"type": "string", "minLength": 1, "maxLength": 256}
    return [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name in re.findall(r"{(\w+)}", each.route)
    ]


def _query_parameters(each: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    if each.query is None:
        return []
    fields = components[_name(each.query)]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in fields.items()
    ]


def _responses(each: Endpoint, by_name: dict[str, Any]) -> dict[str, Any]:
    if each.answer is None or each.answer is bytes:
        schema: dict[str, Any] = {"type": "string"}
    else:
        schema = by_name[_name(each.answer)]
    good = {"description": "Done.", "content": {each.media_type: {"schema": schema}}}
    created = [status for status in each.statuses if status < 400]
    out: dict[str, Any] = {str(status): good for status in {200, *created}}
    if 503 in each.statuses:  # the same document says what is missing
        out["503"] = {
            "description": TITLES[503],
            "content": {**good["content"], **PROBLEM},  # type: ignore[dict-item]
        }
    problems = {503, *each.statuses} - {200, *created} - ({503} if 503 in each.statuses else set())
    if each.scope is not None:
        problems |= {401, 403, 429}
    if "{" in each.route or each.query is not None:
        problems |= {400, 422}
    if each.method == "POST":
        problems |= {400, 408, 413, 415, 422}
    for status in sorted(problems):
        out[str(status)] = {"description": TITLES[status], "content": PROBLEM}
    return out


def _has_schema(kind: Any) -> bool:
    return kind is not None and kind is not bytes


def _name(kind: Any) -> str:
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is not None:
        return str(kind)
    return str(getattr(kind, "__name__", kind))


async def get_openapi(call: Call) -> Reply:
    """Return this document."""
    return Reply(call.service.openapi)


ENDPOINTS = [Endpoint("GET", "/openapi.json", get_openapi, "read", dict[str, Any])]
