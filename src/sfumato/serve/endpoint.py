"""A route with what it needs: scope, types of query, body and answer; checked before it runs."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from sfumato.errors import StoreUnavailable
from sfumato.serve.logs import log
from sfumato.serve.protection.limits import body_bytes, read_body
from sfumato.serve.protection.problems import MEDIA_TYPE, Problem, problem_of, unexpected
from sfumato.store.records import ApiKey

if TYPE_CHECKING:
    from sfumato.serve.service import Service

__all__ = ["Call", "Endpoint", "Headers", "Reply", "respond", "send_problem"]

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]
JSON = b"application/json"
SECURITY: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]
_encode = msgspec.json.Encoder().encode


class Reply:
    """An answer that is not the JSON of a type: bytes, or another status."""

    def __init__(
        self,
        body: Any,
        *,
        status: int = 200,
        media_type: bytes = JSON,
        headers: Headers | None = None,
    ) -> None:
        self.body: bytes = body if isinstance(body, bytes) else _encode(body)
        self.status, self.media_type, self.headers = status, media_type, headers or []


@dataclass(slots=True)
class Call:
    """A request under way: who calls, what for, and the service."""

    service: "Service"
    scope: dict[str, Any]
    headers: dict[bytes, bytes]
    key: ApiKey | None = None
    body: bytes = b""
    extra: Headers = field(default_factory=list)

    def path(self, name: str) -> str:
        """Return a part of the path, of 1 to 256 characters without NUL."""
        try:
            value = unquote(str(self.scope["path_params"][name]), errors="strict")
        except UnicodeDecodeError:
            raise Problem(422, f"{name} must be UTF-8.", field=name) from None
        if not 1 <= len(value) <= 256 or "\0" in value:
            raise Problem(422, f"{name} must be 1 to 256 characters without NUL.", field=name)
        return value

    def query(self, kind: type[T]) -> T:
        """Return the parameters of the query."""
        raw = self.scope["query_string"]
        given: dict[str, Any] = {}
        if raw:
            try:
                pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
            except (UnicodeDecodeError, ValueError):
                raise Problem(400, "The query is malformed.", kind="no-query") from None
            for name, value in pairs:
                if name in given and not isinstance(given[name], list):
                    given[name] = [given[name]]
                if name in given:
                    given[name].append(value)
                else:
                    given[name] = value
            given.pop("key", None)
        for each in msgspec.structs.fields(kind):  # type: ignore[arg-type]
            if each.name in given and each.name in getattr(kind, "LISTS", ()):
                value = given[each.name]
                given[each.name] = value if isinstance(value, list) else [value]
        return msgspec.convert(given, kind, strict=False)


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Endpoint:
    """One method of one path.

    `scope` None answers without a key. `body` is the type of a JSON body, or None: the handler
    reads bytes of the media types in `takes`.
    """

    method: str
    route: str
    handler: Handler
    scope: str | None
    answer: Any = None
    query: Any = None
    body: Any = None
    takes: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    media_type: str = "application/json"
    public: bool = False  # answers pages of the origins of its key

    async def respond(self, service: "Service", scope: Any, receive: Any, send: Any) -> None:
        """Serve a request: check, run, answer, count and log it."""
        begin = time.perf_counter()
        call = Call(service, scope, dict(scope["headers"]))
        request = ""
        try:
            with service.in_flight:
                answer = await self._run(call, receive)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                request = os.urandom(6).hex()
                log("error", "failure", error=error, route=self.route, request=request)
                problem = unexpected(request)
            answer = _answer_of(problem)
        await respond(send, answer, [*call.extra, *service.origins.headers(self, call)])
        seconds = time.perf_counter() - begin
        service.metrics.request(self.method, self.route, answer.status, seconds)
        failed = answer.status >= 500 and answer.status not in self.statuses
        if service.logs_requests or failed:
            log(
                "warning" if failed else "debug",
                "request",
                method=self.method,
                route=self.route,
                status=answer.status,
                ms=round(1000 * seconds, 3),
                key=call.key.key_id if call.key else None,
            )

    async def _run(self, call: Call, receive: Any) -> Reply:
        if self.scope is not None:
            call.key = call.service.keys.check(self, call)
            call.service.buckets.take(call.key.key_id)
        if self.method in ("POST", "PUT"):
            self._check_media_type(call)
            return await self._with_body(call, receive)
        made = await self.handler(call)
        return made if type(made) is Reply else Reply(made)

    async def _with_body(self, call: Call, receive: Any) -> Reply:
        """Read the body, and run; its bytes count as under way until the end."""
        settings, in_flight = call.service.config, call.service.in_flight
        nbytes = body_bytes(call.headers, settings.largest_body)
        in_flight.reserve(nbytes)
        try:
            call.body = await read_body(receive, settings.largest_body, settings.body_seconds)
            if self.scope == "ingest":
                made = await self._written(call, settings.write_seconds)
            else:
                made = await self.handler(call)
            return made if type(made) is Reply else Reply(made)
        finally:
            in_flight.release(nbytes)

    async def _written(self, call: Call, seconds: float) -> Any:
        """Run what waits for the disk, but not for ever: a database may hang without an error."""
        try:
            async with asyncio.timeout(seconds):
                return await self.handler(call)
        except TimeoutError:
            raise StoreUnavailable("Store: the database does not answer.") from None

    def _check_media_type(self, call: Call) -> None:
        if call.headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise Problem(415, "The body must not be compressed.", field="content-encoding")
        given = call.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        wanted = self.takes or ("application/json",)
        if given.decode("latin-1") not in wanted:
            raise Problem(
                415, f"The media type must be {' or '.join(wanted)}.", field="content-type"
            )


def _answer_of(problem: Problem) -> Reply:
    return Reply(
        problem.body(), status=problem.status, media_type=MEDIA_TYPE, headers=problem.headers
    )


async def send_problem(send: Any, problem: Problem) -> None:
    """Reply with a problem."""
    await respond(send, _answer_of(problem), [])


async def respond(send: Any, answer: Reply, extra: Headers) -> None:
    """Send an answer with the headers that every answer has; its own ones come in their place."""
    usual = SECURITY
    if answer.headers or extra:
        own = {name for name, _ in answer.headers} | {name for name, _ in extra}
        usual = [pair for pair in SECURITY if pair[0] not in own]
    headers = [
        (b"content-type", answer.media_type),
        (b"content-length", b"%d" % len(answer.body)),
        *usual,
        *answer.headers,
        *extra,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
