"""API keys: of each secret a salted hash is stored, and compared in constant time."""

import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from sfumato.errors import ParameterError, ParameterTypeError, StoreUnavailable
from sfumato.store.backend import Backend, Session
from sfumato.store.events import check_text
from sfumato.store.group_commit import GroupWriter
from sfumato.store.records import SCOPES, ApiKey

__all__ = ["KeyRing"]

FRESH = 1.0  # seconds for which keys are not read again
PREFIX = "sfk"  # of a secret, so that scanners of repositories can find one
LONGEST = 200  # characters of a text that is looked at
NO_SALT, NO_HASH = bytes(16), bytes(32)


class KeyRing:
    """The keys of a store, with a copy in memory that is at most a second old.

    A secret is 256 random bits, so that a fast hash of it cannot be searched; the salt keeps equal
    secrets of two stores from having one hash.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._known: dict[str, tuple[ApiKey, bytes, bytes]] = {}
        self._read = -float("inf")
        self._changed = False

    def create(
        self,
        writer: GroupWriter,
        name: str,
        scopes: Iterable[str],
        attributes: Mapping[str, Any] | None,
    ) -> tuple[ApiKey, str]:
        """Create a key; return it and its secret."""
        name = check_text("Store", "name", name)
        given = _scopes(scopes)
        text = _json(attributes or {})
        key_id, salt = secrets.token_hex(8), os.urandom(16)
        secret = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
        created = time.time()
        row = (key_id, name, " ".join(given), salt, _hash(salt, secret), created, text)
        statement = (
            "INSERT INTO api_key (key_id, name, scopes, salt, hash, created, attributes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)"
        )
        writer.job(lambda session: session.execute(statement, row)).result()
        self._changed = True
        return ApiKey(key_id, name, given, created, None, _attributes(text)), secret

    def check(self, secret: str, scope: str | None, longest_age: float | None) -> ApiKey | None:
        """Return the valid key of a secret."""
        if scope is not None and scope not in SCOPES:
            raise ParameterError.of("Store", "scope", f"must be one of {', '.join(SCOPES)}.")
        if not isinstance(secret, str) or len(secret) > LONGEST:
            return None
        prefix, _, rest = secret.partition("_")
        known = self._current() if longest_age is None else self._at_most(longest_age)
        key, salt, stored = known.get(rest.partition("_")[0], (None, NO_SALT, NO_HASH))
        # An unknown key is hashed and compared too, so that it takes as long as a wrong one.
        same = hmac.compare_digest(_hash(salt, secret), stored)
        if key is None or not same or prefix != PREFIX or key.revoked is not None:
            return None
        return key if scope is None or key.permits(scope) else None

    def revoke(self, writer: GroupWriter, key_id: str) -> bool:
        """Revoke a key; return whether there was a valid one."""
        key_id = check_text("Store", "key_id", key_id)

        def mark(session: Session) -> bool:
            done = session.execute(
                "UPDATE api_key SET revoked = ? WHERE key_id = ? AND revoked IS NULL",
                (time.time(), key_id),
            )
            return bool(done.rowcount == 1)

        revoked: bool = writer.job(mark).result()
        self._changed = True
        return revoked

    def listed(self) -> list[ApiKey]:
        """List all keys, oldest first."""
        return sorted((key for key, _, _ in self._load().values()), key=lambda key: key.created)

    def refresh(self) -> None:
        """Read all keys again."""
        with self._lock:
            self._reload()

    def _current(self) -> dict[str, tuple[ApiKey, bytes, bytes]]:
        if self._old():
            with self._lock:
                if self._old():
                    self._reload()
        return self._known

    def _at_most(self, age: float) -> dict[str, tuple[ApiKey, bytes, bytes]]:
        """Return the copy in memory, whatever the database does, unless it is too old."""
        if time.monotonic() - self._read > age:
            raise StoreUnavailable(
                f"Store: keys were not read for {age:g} s; the database does not answer."
            )
        return self._known

    def _old(self) -> bool:
        return self._changed or time.monotonic() - self._read > FRESH

    def _reload(self) -> None:
        begin, self._changed = time.monotonic(), False
        try:
            self._known = self._load()
        except BaseException:
            self._changed = True
            raise
        self._read = begin

    def _load(self) -> dict[str, tuple[ApiKey, bytes, bytes]]:
        with self._backend.reading() as session:
            rows = session.execute(
                "SELECT key_id, name, scopes, created, revoked, attributes, salt, hash FROM api_key"
            ).fetchall()
        return {
            row[0]: (
                ApiKey(row[0], row[1], tuple(row[2].split()), row[3], row[4], _attributes(row[5])),
                bytes(row[6]),
                bytes(row[7]),
            )
            for row in rows
        }


def _hash(salt: bytes, secret: str) -> bytes:
    return hmac.digest(salt, secret.encode("utf-8", "replace"), hashlib.sha256)


def _scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    given = [scopes] if isinstance(scopes, str) else list(scopes)
    if not given or any(scope not in SCOPES for scope in given):
        raise ParameterError.of("Store", "scopes", f"must be some of {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in given)


def _json(attributes: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(attributes), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise ParameterTypeError.of("Store", "attributes", "must be JSON values.") from None


def _attributes(text: str) -> Mapping[str, Any]:
    return MappingProxyType(json.loads(text))
