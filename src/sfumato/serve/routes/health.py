"""Liveness, readiness and metrics."""

import asyncio

from sfumato.errors import SfumatoError
from sfumato.serve.endpoint import Call, Endpoint, Reply
from sfumato.serve.routes.messages import Health, Readiness

__all__ = ["ENDPOINTS"]


async def healthz(call: Call) -> Health:
    """Reply that the process runs."""
    return Health("ok")


async def readyz(call: Call) -> Reply:
    """Reply whether the database answers, and the first model is there."""
    service = call.service
    try:
        service.position = await asyncio.to_thread(service.store.position)
        database = True
    except (SfumatoError, OSError):
        database = False
    trainer = service.feed.alive or not service.config.trainer
    model = service.feed.arrived.is_set() or not service.config.trainer
    ready = database and trainer and model and not service.stopping
    lag = max(0, service.position - service.feed.current.position)
    status = "ready" if ready else "not ready"
    answer = Readiness(status, database, trainer, model, service.feed.current.position, lag)
    return Reply(answer, status=200 if ready else 503)


async def metrics(call: Call) -> Reply:
    """Return the metrics in the text format of Prometheus."""
    text = call.service.metrics.text().encode()
    return Reply(text, media_type=b"text/plain; version=0.0.4; charset=utf-8")


ENDPOINTS = [
    Endpoint("GET", "/healthz", healthz, None, Health),
    Endpoint("GET", "/readyz", readyz, None, Readiness, statuses=(503,)),
    Endpoint("GET", "/metrics", metrics, "admin", media_type="text/plain"),
]
