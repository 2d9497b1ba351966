"""Liveness, readiness and metrics."""

from sfumato.serve.endpoint import Call, Endpoint, Reply
from sfumato.serve.routes.messages import Health, Readiness

__all__ = ["ENDPOINTS"]

PATIENCE = 1.0  # seconds in which a database that is well answers


async def healthz(call: Call) -> Health:
    """Reply that the process runs."""
    return Health("ok")


async def readyz(call: Call) -> Reply:
    """Reply whether the database answers and a model is there; to a key also how many events."""
    service = call.service
    database = await service.answers(PATIENCE)
    trainer = service.feed.alive or not service.config.trainer
    model = service.feed.arrived.is_set() or not service.config.trainer
    ready = database and trainer and model and not service.stopping
    answer = Readiness("ready" if ready else "not ready", database, trainer, model)
    if service.keys.reads(call):  # counts of events are exact, so that no passer-by may watch them
        answer.position = service.feed.current.position
        answer.lag = max(0, service.position - answer.position)
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
