"""The running service: store, keys, limits, the served model, sketches and releases together."""

import asyncio
import os
from typing import Any

from sfumato.errors import SfumatoError
from sfumato.serve.config import ServiceConfig
from sfumato.serve.learning.live_sketches import LiveSketch, ticking
from sfumato.serve.learning.model_feed import ModelFeed
from sfumato.serve.learning.recent_items import RecentItems
from sfumato.serve.logs import log
from sfumato.serve.metrics import Metrics
from sfumato.serve.page.history import RateHistory
from sfumato.serve.protection.access import KeyCheck, Origins
from sfumato.serve.protection.limits import InFlight, RateLimits
from sfumato.serve.routes.density import densities
from sfumato.serve.routes.recommend import warm_up
from sfumato.serve.routes.releases import create_budgets, newest_neighbours
from sfumato.serve.routes.telemetry import schemes
from sfumato.store import Store, open_store
from sfumato.telemetry.schemes.base import Scheme

__all__ = ["Service"]


class Service:
    """What the routes share. Open it on the event loop that serves."""

    def __init__(self, config: ServiceConfig) -> None:
        self.config = config
        self.metrics = Metrics()
        self.buckets = RateLimits(config.rate, config.burst)
        self.in_flight = InFlight(config.concurrent, config.concurrent_bytes)
        self.origins = Origins(config.allowed_origins)
        self.recent = RecentItems(config.model.recent_users, config.model.recent_items)
        self.logs_requests: bool = config.log_level == "debug"
        self.openapi = b""
        self.position = 0
        self._looking: asyncio.Future[int] | None = None
        self.released_at = 0  # changes with every release that is made here
        self._neighbours: tuple[str, Any] = "", None
        self._neighbours_at = -1
        self.schemes: dict[str, Scheme] = {}
        self.densities: dict[str, Any] = {}
        self.sketches: dict[str, LiveSketch] = {}
        self.history = RateHistory(self)
        self.stopping = False
        self.failure: Exception | None = None  # for which it could not start
        self.store: Store
        self.keys: KeyCheck
        self.feed: ModelFeed

    async def open(self) -> None:
        """Open the store, fill what is in memory, and start the trainer."""
        config = self.config
        self.store = await asyncio.to_thread(
            open_store, config.database, waiting_limit=config.waiting_events
        )
        self.keys = KeyCheck(self.store)
        await self.keys.refresh()
        self.feed = ModelFeed(config)
        await asyncio.to_thread(self._prepare)
        self._ticking = asyncio.create_task(ticking(self))
        self._sampling = asyncio.create_task(self.history.run())
        self._reading_keys = asyncio.create_task(self.keys.refreshing())
        if config.trainer:
            await self.feed.start()
        self._gauges()
        log("info", "started", pid=os.getpid())

    async def close(self) -> None:
        """Write what is waiting, let the trainer store its snapshot, and close the store."""
        self.stopping = True
        self._ticking.cancel()
        self._sampling.cancel()
        self._reading_keys.cancel()
        for live in self.sketches.values():
            await live.close()
        await self.feed.stop(self.config.shutdown_seconds)
        self.keys.thread.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.store.close)
        log("info", "stopped")

    async def answers(self, seconds: float) -> bool:
        """Return whether the database answers in time; all that ask meanwhile share one look."""
        if self._looking is None or self._looking.done():
            loop = asyncio.get_running_loop()
            self._looking = loop.run_in_executor(self.keys.thread, self.store.position)
        try:
            self.position = await asyncio.wait_for(asyncio.shield(self._looking), seconds)
        except (SfumatoError, OSError, TimeoutError):
            return False
        return True

    async def neighbours(self) -> tuple[str, Any]:
        """Return the newest private release of neighbours, and its name."""
        if self.released_at != self._neighbours_at:
            at = self.released_at
            self._neighbours = await asyncio.to_thread(newest_neighbours, self.store)
            self._neighbours_at = at
        return self._neighbours

    def _prepare(self) -> None:
        """Open what the settings name, and remember the last items of users, as before."""
        config = self.config
        create_budgets(self.store.ledger, config)
        self.schemes = schemes(config.metrics)
        self.densities = densities(config.densities)
        self.sketches = {
            name: LiveSketch(name, settings, self.store)
            for name, settings in config.sketches.items()
        }
        warm_up()
        self.position = self.store.position()
        users = self.config.model.recent_users
        after = max(0, self.position - 4 * users)
        while True:
            batch = self.store.read(after, 100_000)
            self.recent.add(batch)
            if not len(batch):
                return
            after = batch.position

    def _gauges(self) -> None:
        gauge: Any = self.metrics.gauge
        feed, store = self.feed, self.store
        gauge("log_position", "Last sequence number of the log.", lambda: self.position)
        gauge(
            "model_position",
            "Last event that the model has learned.",
            lambda: feed.current.position,
        )
        gauge(
            "model_lag_events",
            "Events that the model has not learned.",
            lambda: max(0, self.position - feed.current.position),
        )
        gauge(
            "store_waiting",
            "Events and other writes that wait for the disk.",
            lambda: store.waiting,
        )
        gauge("requests_in_flight", "Requests under way.", lambda: self.in_flight.number)
        gauge("trainer_alive", "Whether the trainer runs.", lambda: float(feed.alive))
        gauge(
            "trainer_restarts", "Times that the trainer was started again.", lambda: feed.restarts
        )
        gauge("model_failures", "Blocks that could not be learned.", lambda: feed.failures)
