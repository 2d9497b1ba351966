"""Limits before any route: open connections, bytes and seconds of a request's head and body."""

import asyncio
import resource
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.serve.endpoint import SECURITY
from sfumato.serve.logs import log
from sfumato.serve.protection.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from sfumato.serve.service import Service

__all__ = ["GuardedConnection", "guarded"]

HEAD = 1 << 16  # bytes of a head; one read of the socket may exceed them
GRACE = 1.0  # seconds in which a route may still answer a body that came too slowly
SPARE = 256  # descriptors for the database, the trainer and files


class GuardedConnection(HttpToolsProtocol):
    """A connection of uvicorn that is closed when its request does not arrive, or is too many.

    uvicorn bounds the time between two requests only: a client that sends half a head, or none at
    all, would occupy a descriptor for ever, and a head without an end would fill the memory.
    """

    service: "Service"
    limit: int
    _refused = False
    _in_head = True
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection, or refuse it while there are too many."""
        if len(self.connections) >= self.limit:
            self.transport, self._refused = transport, True
            self.service.metrics.add("connections_refused_total")
            self._refuse(503, "Too many connections are open; wait, then repeat.", "connections")
            return
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; wait for the remaining part, but not for ever."""
        if self._refused:
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._head_bytes > HEAD:
            self._refuse(431, f"The head must have at most {HEAD} bytes.", "head-too-large")
        elif self._timer is None and (self._head_bytes or not self._in_head):
            self._wait()

    def on_message_begin(self) -> None:
        """Note that a head has begun."""
        self._head_bytes = 1
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the request."""
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the next bytes are those of another request."""
        self._in_head, self._head_bytes = True, 0
        self._stop_waiting()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Reply to what is no HTTP."""
        self._refuse(400, "The request is no HTTP that is understood here.", "no-http")

    def _wait(self) -> None:
        seconds = self.service.config.body_seconds + (0.0 if self._in_head else GRACE)
        self._timer = self.loop.call_later(seconds, self._late)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        """Close a connection whose request did not arrive in time."""
        self._timer = None
        if self.pipeline or (self._in_head and self._answering()):
            self._wait()  # until the requests before it are answered
        elif self._in_head and self._head_bytes:
            self._refuse(408, "The head did not arrive in time.", "slow-head")
        else:
            self.transport.close()

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int, detail: str, kind: str) -> None:
        """Write a problem, unless an answer is under way, and close."""
        if not self._answering():
            self.transport.write(_response(Problem(status, detail, kind=kind)))
        self.transport.close()


def guarded(service: "Service") -> type[GuardedConnection]:
    """Return the class of a service's connections; raise the limit of open files to their number.

    Where the system allows fewer files, fewer connections are taken.
    """
    wanted = service.config.connections + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < possible:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
    limit = max(1, possible - SPARE)
    if limit < service.config.connections:
        log("warning", "fewer connections: the limit of open files", connections=limit)
    return type("Connection", (GuardedConnection,), {"service": service, "limit": limit})


def _response(problem: Problem) -> bytes:
    """Return the bytes of an answer that no route gives."""
    body = problem.body()
    headers = [
        (b"content-type", MEDIA_TYPE),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *SECURITY,
        *problem.headers,
    ]
    if problem.status == 503:
        headers.append((b"retry-after", b"1"))
    first = f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\n".encode()
    return first + b"".join(b"%s: %s\r\n" % pair for pair in headers) + b"\r\n" + body
