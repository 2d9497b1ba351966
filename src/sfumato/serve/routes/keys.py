"""Routes that manage keys: create, list, revoke."""

import asyncio
import re
import time
from typing import Any

import msgspec

from sfumato.serve.endpoint import Call, Endpoint, Reply
from sfumato.serve.protection.problems import Problem, not_found
from sfumato.serve.routes.messages import KeyList, KeyRequest, KeyRow, NewKey
from sfumato.store.records import SCOPES, ApiKey

__all__ = ["ENDPOINTS", "key_row"]

ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+")
_read = msgspec.json.Decoder(KeyRequest).decode


def key_row(key: ApiKey) -> KeyRow:
    """Return a key as it is shown."""
    own: Any = key.attributes
    return KeyRow(
        key.key_id,
        key.name,
        list(key.scopes),
        key.created,
        key.revoked,
        own.get("metric"),
        own.get("origins"),
    )


async def create_key(call: Call) -> Reply:
    """Create a key; its secret is in this answer only."""
    wanted = _read(call.body)
    if any(scope not in SCOPES for scope in wanted.scopes):
        raise Problem(422, f"scopes must be some of {', '.join(SCOPES)}.", field="scopes")
    attributes: dict[str, Any] = {}
    if wanted.metric is not None or wanted.origins is not None:
        if wanted.metric not in call.service.config.metrics:
            raise Problem(422, "metric must be one of the settings.", field="metric")
        if wanted.scopes != ["ingest"]:
            raise Problem(422, "scopes of a public key must be ingest alone.", field="scopes")
        origins = wanted.origins or []
        for position, origin in enumerate(origins):
            if not ORIGIN.fullmatch(origin):
                raise Problem(
                    422,
                    "origins must be such as https://shop.example, without a path.",
                    field="origins",
                    position=position,
                )
        attributes = {"metric": wanted.metric, "origins": origins}
    key, secret = await asyncio.to_thread(
        call.service.store.create_key, wanted.name, wanted.scopes, attributes=attributes
    )
    await call.service.keys.refresh()
    return Reply(NewKey(key_row(key), secret), status=201)


async def list_keys(call: Call) -> KeyList:
    """List keys without secrets."""
    keys = await asyncio.to_thread(call.service.store.api_keys)
    return KeyList([key_row(key) for key in keys])


async def revoke_key(call: Call) -> KeyRow:
    """Revoke a key for good."""
    key_id, store = call.path("key_id"), call.service.store
    if not await asyncio.to_thread(store.revoke_key, key_id):
        raise not_found("valid key", field="key_id")
    await call.service.keys.refresh()
    keys = await asyncio.to_thread(store.api_keys)
    found = [key_row(key) for key in keys if key.key_id == key_id]
    found[0].revoked = found[0].revoked or time.time()
    return found[0]


ENDPOINTS = [
    Endpoint("GET", "/keys", list_keys, "admin", KeyList),
    Endpoint("POST", "/keys", create_key, "admin", NewKey, body=KeyRequest, statuses=(201,)),
    Endpoint("DELETE", "/keys/{key_id}", revoke_key, "admin", KeyRow, statuses=(404,)),
]
