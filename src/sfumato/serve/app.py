"""The ASGI application: every route of the service, and problem+json for what is none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.serve.config import ServiceConfig
from sfumato.serve.endpoint import SECURITY, Endpoint, respond
from sfumato.serve.logs import log
from sfumato.serve.page import history, lab, overview, shell
from sfumato.serve.protection.problems import MEDIA_TYPE, Problem
from sfumato.serve.routes import (
    density,
    events,
    health,
    keys,
    openapi,
    recommend,
    releases,
    sketches,
    telemetry,
    users,
)
from sfumato.serve.service import Service

__all__ = ["ENDPOINTS", "create_app"]

# In the order in which they are tried. Files of the page, which contain no data, come after them.
ENDPOINTS: list[Endpoint] = [
    *events.ENDPOINTS,
    *recommend.ENDPOINTS,
    *telemetry.ENDPOINTS,
    *density.ENDPOINTS,
    *sketches.ENDPOINTS,
    *releases.ENDPOINTS,
    *users.ENDPOINTS,
    *keys.ENDPOINTS,
    *health.ENDPOINTS,
    *overview.ENDPOINTS,
    *lab.ENDPOINTS,
    *history.ENDPOINTS,
    *openapi.ENDPOINTS,
]


def create_app(config: ServiceConfig, *, pages: Any = ()) -> Starlette:
    """Make the ASGI application of the service.

    Its lifespan opens the store and starts the trainer, and closes both at the end.

    Parameters
    ----------
    config : ServiceConfig
        Settings, as `load_config` reads them.
    pages : iterable of starlette.routing.BaseRoute, default=()
        Further routes, such as those of pages; their handlers find the service in
        ``request.app.state.service``.

    Returns
    -------
    Starlette
        The application, for any ASGI server with one worker.

    Examples
    --------
    >>> app = create_app(ServiceConfig(database="shop.db"))
    >>> sorted(route.path for route in app.routes)[:2]
    ['/', '/budget']
    """
    service = Service(config)
    service.openapi = msgspec.json.encode(openapi.document(ENDPOINTS))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await service.open()
        except Exception as error:
            log("error", "could not start", error=error)
            service.failure = error
            raise
        try:
            yield
        finally:
            await service.close()

    app = Starlette(
        routes=[*_routes(service), *pages],
        middleware=[Middleware(_Front, service=service)],
        lifespan=lifespan,
        exception_handlers={HTTPException: _problem, 500: _problem},
    )
    app.state.service = service
    app.router.redirect_slashes = False
    return app


class _Front:
    """Serve paths without parameters at once; match others as sent: ids may contain a slash."""

    def __init__(self, app: Any, service: Service) -> None:
        self._app, self._service = app, service
        self._exact = {
            (each.method, each.route): each for each in ENDPOINTS if "{" not in each.route
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            found = self._exact.get((scope["method"], scope["path"]))
            if found is not None:
                await found.respond(self._service, scope, receive, send)
                return
            raw = scope.get("raw_path") or b""
            if b"%" in raw:
                scope["path"] = raw.decode("latin-1")
        await self._app(scope, receive, send)


class _Served:
    """An endpoint as the ASGI application of its route."""

    def __init__(self, service: Service, endpoint: Endpoint) -> None:
        self._service, self._endpoint = service, endpoint

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._endpoint.respond(self._service, scope, receive, send)


class _Preflight:
    """The answer to OPTIONS of one path."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, self._service.origins.preflight(dict(scope["headers"])), [])


def _routes(service: Service) -> list[Route]:
    listed = [*ENDPOINTS, *(shell.ENDPOINTS if service.config.page.enabled else [])]
    routes = [Route(each.route, _Served(service, each), methods=[each.method]) for each in listed]
    if service.config.allowed_origins:
        paths = dict.fromkeys(each.route for each in ENDPOINTS)
        routes += [Route(path, _Preflight(service), methods=["OPTIONS"]) for path in paths]
    return routes


async def _problem(request: Request, error: Exception) -> Response:
    """Reply what no route answers."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    details = {
        404: "There is no such route; /openapi.json lists them.",
        405: "The route has other methods; /openapi.json lists them.",
    }
    problem = Problem(status, details.get(status, "The request cannot be served."))
    headers = {name.decode(): value.decode() for name, value in SECURITY}
    headers |= dict(getattr(error, "headers", None) or {})
    return Response(problem.body(), status, headers, MEDIA_TYPE.decode())
