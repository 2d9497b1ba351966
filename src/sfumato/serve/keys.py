"""Who may call: keys with scopes, origins of pages, and the routes that manage keys."""

import asyncio
import hashlib
import os
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import msgspec

from sfumato.errors import StoreUnavailable
from sfumato.serve.endpoint import Call, Endpoint, Headers, Reply
from sfumato.serve.messages import KeyList, KeyRequest, KeyRow, NewKey
from sfumato.serve.problems import Problem, not_found
from sfumato.store.records import SCOPES, ApiKey

if TYPE_CHECKING:
    from sfumato.store import Store

__all__ = ["ENDPOINTS", "KeyCheck", "Origins", "key_row"]

FRESH = 1.0  # seconds for which a key that was valid is taken for valid
STALE = 60.0  # and for which, while the database cannot be reached
REMEMBERED = 10_000
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+")
_read = msgspec.json.Decoder(KeyRequest).decode


class KeyCheck:
    """Finds the key of a request: ``Authorization: Bearer``, or ``?key=`` of a public one."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._salt = os.urandom(32)
        self._valid: dict[bytes, tuple[ApiKey, float]] = {}  # by a keyed hash of the secret

    def find(self, secret: str) -> ApiKey | None:
        """Return the valid key of a secret; the store compares it again every second."""
        name = hashlib.blake2b(secret.encode("utf-8", "replace"), key=self._salt).digest()
        found, now = self._valid.get(name), time.monotonic()
        if found is not None and now - found[1] < FRESH:
            return found[0]
        try:
            key = self._store.check_key(secret)
        except StoreUnavailable:
            if found is not None and now - found[1] < STALE:
                return found[0]
            raise
        self._valid.pop(name, None)
        if key is not None:
            if len(self._valid) >= REMEMBERED:
                self._valid.clear()
            self._valid[name] = key, now
        return key

    def forget(self) -> None:
        """Compare all keys anew, since one was revoked."""
        self._valid.clear()

    def check(self, endpoint: Endpoint, call: Call) -> ApiKey:
        """Return the key of a request; raise a problem if it does not permit the route."""
        secret, in_query = _secret(call)
        key = self.find(secret) if secret else None
        if key is None:
            raise Problem(
                401,
                "Send a valid key as Authorization: Bearer KEY.",
                kind="no-key",
                headers=[(b"www-authenticate", b"Bearer")],
            )
        public = "metric" in key.attributes
        if public != endpoint.public:
            wanted = "needs a public key of a metric" if endpoint.public else "takes no public key"
            raise Problem(403, f"The route {wanted}.", kind="public-key")
        if in_query and not public:
            raise Problem(403, "Only public keys may stand in the address.", kind="key-in-address")
        if not key.permits(str(endpoint.scope)):
            raise Problem(403, f"The key needs the scope {endpoint.scope}.", kind="scope")
        return key


def _secret(call: Call) -> tuple[str, bool]:
    header = call.headers.get(b"authorization", b"")
    if header[:7].lower() == b"bearer ":
        return header[7:].strip().decode("latin-1"), False
    query = call.scope["query_string"]
    if b"key=" in query:
        values = parse_qs(query.decode("latin-1")).get("key", [])
        return (values[0], True) if len(values) == 1 else ("", True)
    return "", False


class Origins:
    """Which pages may read answers: those named for all routes, or by a public key."""

    def __init__(self, allowed: list[str]) -> None:
        self._allowed = frozenset(allowed)

    def headers(self, endpoint: Endpoint, call: Call) -> Headers:
        """Return the headers that let a page read the answer; none for most."""
        origin = call.headers.get(b"origin")
        if origin is None:
            return []
        name, key = origin.decode("latin-1"), call.key
        named = key.attributes.get("origins", []) if key and endpoint.public else []
        if name not in self._allowed and name not in named:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"vary", b"Origin"),
            (b"cross-origin-resource-policy", b"cross-origin"),
        ]

    def preflight(self, headers: dict[bytes, bytes]) -> Reply:
        """Reply whether a page of an allowed origin may send a request with a key."""
        origin = headers.get(b"origin", b"")
        if origin.decode("latin-1") not in self._allowed:
            return Reply(b"", status=204)
        return Reply(
            b"",
            status=204,
            headers=[
                (b"access-control-allow-origin", origin),
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", b"authorization, content-type"),
                (b"access-control-max-age", b"600"),
                (b"vary", b"Origin"),
            ],
        )


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
    call.service.keys.forget()
    keys = await asyncio.to_thread(store.api_keys)
    found = [key_row(key) for key in keys if key.key_id == key_id]
    found[0].revoked = found[0].revoked or time.time()
    return found[0]


ENDPOINTS = [
    Endpoint("GET", "/keys", list_keys, "admin", KeyList),
    Endpoint("POST", "/keys", create_key, "admin", NewKey, body=KeyRequest, statuses=(201,)),
    Endpoint("DELETE", "/keys/{key_id}", revoke_key, "admin", KeyRow, statuses=(404,)),
]
