"""GET /metrics/history: what the service counted about itself in the last minutes, by second."""

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.page.messages import MetricsHistory

if TYPE_CHECKING:
    from sfumato.serve.service import Service

__all__ = ["ENDPOINTS", "RateHistory"]

STEP = 1.0  # seconds between two samples
LENGTH = 300  # samples that are retained
COUNTERS = ("events_total", "reports_total")


class RateHistory:
    """Differences of the service's counters, once a step, in bounded memory."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._rows: deque[tuple[float | None, ...]] = deque(maxlen=LENGTH)
        self._last: tuple[float, ...] | None = None

    async def run(self) -> None:
        """Take a sample at every step, until cancelled."""
        while True:
            self.sample(time.time())
            await asyncio.sleep(STEP)

    def sample(self, now: float) -> None:
        """Take a sample; the first only begins the counts."""
        metrics = self._service.metrics
        current = (now, *metrics.totals(), *(metrics.value(name) for name in COUNTERS))
        if self._last is not None and now > self._last[0]:
            spent = [this - last for this, last in zip(current, self._last, strict=True)]
            seconds, requests, refused, failed, busy, events, reports = spent
            rates = (each / seconds for each in (requests, refused, failed, events, reports))
            mean = 1000 * busy / requests if requests else None
            self._rows.append((now, *rates, self._lag(), mean))
        self._last = current

    def table(self) -> MetricsHistory:
        """Return all samples by column."""
        rates = ("requests", "refused", "failed", "events", "reports")
        names = ("time", *rates, "lag", "milliseconds")
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(names)
        by_name = {name: list(column) for name, column in zip(names, columns, strict=True)}
        return MetricsHistory(STEP, **by_name)

    def _lag(self) -> float:
        return float(max(0, self._service.position - self._service.feed.current.position))


async def get_history(call: Call) -> MetricsHistory:
    """Return rates of requests, events and errors, and the model's lag, by second."""
    return call.service.history.table()


ENDPOINTS = [Endpoint("GET", "/metrics/history", get_history, "admin", MetricsHistory)]
