"""Limits of a client: requests per second by key, requests under way, bytes and time of a body."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from sfumato.serve.protection.problems import Problem

__all__ = ["InFlight", "RateLimits", "body_bytes", "read_body"]

BUCKETS = 10_000  # keys whose rates are remembered
CLOSE = (b"connection", b"close")


class RateLimits:
    """Token buckets by key: `rate` requests per second, `burst` at once."""

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, float(burst), clock
        self._state: dict[str, tuple[float, float]] = {}  # tokens, and when they were counted

    def take(self, key: str) -> None:
        """Take one token of a key; raise a problem if there is none."""
        now = self._clock()
        tokens, then = self._state.get(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        if tokens < 1:
            seconds = max(1, round((1 - tokens) / self._rate + 0.5))
            raise Problem(
                429,
                "The key sends more requests than it may; wait, then repeat.",
                kind="rate-limit",
                headers=[(b"retry-after", str(seconds).encode())],
            )
        if key not in self._state and len(self._state) >= BUCKETS:
            del self._state[next(iter(self._state))]
        self._state[key] = tokens - 1, now


class InFlight:
    """Requests under way and the bytes of their bodies; more are refused at once."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self.limit, self.number = limit, 0
        self.limit_bytes, self.nbytes = limit_bytes, 0

    def __enter__(self) -> None:
        if self.number >= self.limit:
            raise _overload()
        self.number += 1

    def __exit__(self, *error: object) -> None:
        self.number -= 1

    def reserve(self, nbytes: int) -> None:
        """Count the bytes of a body that is about to be read; `release` them afterwards."""
        if self.nbytes and self.nbytes + nbytes > self.limit_bytes:
            raise _overload()
        self.nbytes += nbytes

    def release(self, nbytes: int) -> None:
        """Count bytes no more."""
        self.nbytes -= nbytes


def _overload() -> Problem:
    return Problem(
        503,
        "Too many requests are under way; wait, then repeat.",
        kind="overload",
        headers=[(b"retry-after", b"1")],
    )


def body_bytes(headers: dict[bytes, bytes], limit: int) -> int:
    """Return how many bytes a body may have: as stated, or the limit; raise if that is more."""
    length = headers.get(b"content-length")
    if length is None:
        return limit
    if not length.isdigit() or int(length) > limit:
        raise _too_large(limit)
    return int(length)


async def read_body(receive: Any, limit: int, seconds: float) -> bytes:
    """Read a body of at most so many bytes in so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            return await _all_parts(receive, limit)
    except TimeoutError:
        raise Problem(
            408, "The body did not arrive in time.", kind="slow-body", headers=[CLOSE]
        ) from None


async def _all_parts(receive: Any, limit: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "The request ended before its body.", kind="incomplete")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(limit: int) -> Problem:
    return Problem(413, f"The body must have at most {limit} bytes.", kind="body-too-large")
