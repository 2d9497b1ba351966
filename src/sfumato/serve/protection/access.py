"""Who may call: keys with scopes, and origins of pages."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from sfumato.errors import StoreUnavailable
from sfumato.serve.endpoint import Call, Endpoint, Headers, Reply
from sfumato.serve.protection.problems import Problem
from sfumato.store.records import ApiKey

if TYPE_CHECKING:
    from sfumato.store import Store

__all__ = ["KeyCheck", "Origins"]

REFRESH = 0.5  # seconds between two readings of the keys
STALE = 60.0  # seconds for which the last ones count while the database does not answer


class KeyCheck:
    """Finds the key of a request: ``Authorization: Bearer``, or ``?key=`` of a public one."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        # Of its own: were all shared threads at work for requests, keys would grow too old.
        self.thread = ThreadPoolExecutor(1, "keys")

    def find(self, secret: str) -> ApiKey | None:
        """Return the valid key of a secret, from memory: no request waits for the database here."""
        return self._store.check_key(secret, longest_age=STALE)

    async def refresh(self) -> None:
        """Read the keys again, since one was made or revoked."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.thread, self._store.refresh_keys)

    async def refreshing(self) -> None:
        """Read the keys again and again, until cancelled."""
        while True:
            await asyncio.sleep(REFRESH)
            with suppress(StoreUnavailable):
                await self.refresh()

    def reads(self, call: Call) -> bool:
        """Return whether a request has a key of the scope read, which it need not have."""
        secret, in_query = _secret(call)
        try:
            key = self.find(secret) if secret and not in_query else None
        except StoreUnavailable:
            return False
        return key is not None and "metric" not in key.attributes and key.permits("read")

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
