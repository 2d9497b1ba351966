"""Live sketches of keys: durable when acknowledged, shown to the curator, released to others.

A sketch is stored as one snapshot with the ids of its last requests, so that a retry after a crash
is applied once. Requests that arrive within `commit_seconds` share one write. A snapshot is stored
only if the newest is the one from which it follows: of two services on one store, as while one
replaces the other, the later one reads what the other stored, so that no total is drawn twice.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError, StoreUnavailable
from sfumato.privacy.mechanisms.binary_tree import BinaryTreeCounter, TreeCount
from sfumato.serve.config import CounterConfig, SketchConfig
from sfumato.serve.logs import log
from sfumato.serve.protection.problems import Problem
from sfumato.serve.routes.messages import ReleaseOrder, SketchKeys
from sfumato.sketch.base import load
from sfumato.sketch.frequency.count_min import CountMin
from sfumato.sketch.frequency.count_sketch import CountSketch
from sfumato.sketch.hyper_log_log import HyperLogLog
from sfumato.store import Store
from sfumato.store.records import Snapshot

if TYPE_CHECKING:
    from sfumato.serve.service import Service

__all__ = ["LiveSketch", "RunningCounter", "ticking"]

KINDS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "count-min": (CountMin, {"width": 1 << 13}),
    "count-sketch": (
        CountSketch,
        {"width": 1 << 13, "depth": 5, "combine": "median", "track": 100},
    ),
    "hyper-log-log": (HyperLogLog, {}),
}
COUNTER = "counter:"  # how names of running totals begin, which no other release may take
REQUESTS = 10_000  # ids of requests that are remembered


class RunningCounter:
    """A continual release: after every step the noisy number of keys so far.

    The charge is for all steps together and made once. A total is shown only after it was stored,
    and never drawn again.
    """

    def __init__(self, name: str, settings: CounterConfig, state: dict[str, Any] | None) -> None:
        self.name, self.settings = name, settings
        self.release: str = f"{COUNTER}{name}"
        self.mechanism = BinaryTreeCounter(
            settings.epsilon, settings.steps, settings.delta, relation="add/remove"
        )
        self.waiting = 0  # keys of the running step
        self.totals: list[int] = []
        if state is None:
            self._tree, self._begin = self.mechanism.start(), time.time()
        else:
            self._tree = TreeCount.restored(self.mechanism, state["tree"])
            self._begin, self.waiting = state["begin"], state["waiting"]
            self.totals = list(state["totals"])
        self.shown = list(self.totals)

    def charge(self, store: Store) -> None:
        """Charge for all steps; again, it costs nothing."""
        dataset, given = self.settings.dataset, self.settings
        known = store.ledger.dataset(dataset)
        if (known.unit, known.relation) != ("event", "add/remove"):
            raise ParameterError.of(
                "ServiceConfig",
                f"sketches.{self.name}.counter.dataset",
                "must be of unit event and relation add/remove.",
            )
        request = json.dumps([given.epsilon, given.delta, given.steps, given.seconds]).encode()

        def stated(release: str) -> bytes:
            paid: dict[str, Any] = dict(dataset=dataset, ledger=store.ledger.name, release=release)
            return self.mechanism.statement("event", **paid).to_json().encode()

        what = f"running total of keys of the sketch, {given.steps} steps of {given.seconds:g} s"
        store.release(
            self.release,
            what,
            stated,
            dataset=dataset,
            loss=self.mechanism.loss(),
            request=request,
            media_type="application/json",
        )

    def advance(self, now: float) -> bool:
        """Close the steps that are over; return whether there were any."""
        due = min(int((now - self._begin) // self.settings.seconds), self.settings.steps)
        steps = due - self._tree.step
        if steps <= 0:
            return False
        counts = [self.waiting] + [0] * (steps - 1)
        self.totals += self._tree.update(counts).tolist()
        self.waiting = 0
        return True

    def state(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "tree": self._tree.state(),
            "begin": self._begin,
            "waiting": self.waiting,
            "totals": self.totals,
        }


class LiveSketch:
    """A sketch that grows, with the requests that wait for its next write."""

    def __init__(self, name: str, settings: SketchConfig, store: Store) -> None:
        self.name, self.settings, self._store = name, settings, store
        self.snapshot: str = f"sketch:{name}"
        self.sketch = self._new()
        self._requests: dict[str, None] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._under_way: list[asyncio.Future[None]] = []  # those of the running write
        self._writer: asyncio.Task[None] | None = None
        self._storing = asyncio.Lock()  # an older state must not be stored after a newer one
        self._changes = self._stored_changes = 0  # requests, and those that are durable
        # Digests of the newest snapshot: of that which was read or stored, or of one of those whose
        # write failed since, which may nevertheless be on the disk.
        self._newest = {""}
        self.counter: RunningCounter | None = None
        self._restore()
        if self.counter is not None:
            self.counter.charge(store)

    def _new(self) -> Any:
        if self.settings.kind not in KINDS:
            raise ParameterError.of(
                "ServiceConfig", f"sketches.{self.name}.kind", f"must be one of {', '.join(KINDS)}."
            )
        kind, usual = KINDS[self.settings.kind]
        return kind(**{**usual, **self.settings.parameters})

    def _restore(self) -> None:
        """Read the newest snapshot, if there is one: the sketch, the requests and the counter."""
        found, header = self._store.load_snapshot(self.snapshot), dict[str, Any]()
        if found is not None:
            header = self._read(found)
        if self.settings.counter is not None:
            self.counter = RunningCounter(self.name, self.settings.counter, header.get("counter"))

    def _read(self, found: Snapshot) -> dict[str, Any]:
        """Take over the sketch and the requests of a snapshot; return all of its header."""
        assert found.data is not None
        size = int.from_bytes(found.data[:4], "big")
        header: dict[str, Any] = json.loads(found.data[4 : 4 + size])
        stored = load(found.data[4 + size :])
        if type(stored) is not type(self.sketch) or stored.parameters != self.sketch.parameters:
            raise ParameterError.of(
                "ServiceConfig",
                f"sketches.{self.name}.parameters",
                "must be those of the stored sketch; give others another name.",
            )
        self.sketch, self._requests = stored, dict.fromkeys(header["requests"])
        self._newest = {found.digest}
        return header

    async def add(self, wanted: SketchKeys) -> bool:
        """Add keys; return when they are durable, with whether the request was a repetition."""
        repeated = wanted.id is not None and wanted.id in self._requests
        if not repeated:
            self._update(wanted)
            self._changes += 1
            if wanted.id is not None:
                self._requests[wanted.id] = None
                while len(self._requests) > REQUESTS:
                    del self._requests[next(iter(self._requests))]
        elif self._stored_changes == self._changes:
            return True
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.write_soon()
        await future
        return repeated

    def _update(self, wanted: SketchKeys) -> None:
        keys = [str(key) for key in wanted.keys]
        if wanted.weights is None:
            self.sketch.update(keys)
        elif self.settings.kind == "hyper-log-log":
            raise Problem(422, "weights must be left out: distinct keys count.", field="weights")
        else:
            self.sketch.update(keys, wanted.weights, clip=self.settings.largest_weight)
        if self.counter is not None:
            self.counter.waiting += len(keys)

    def write_soon(self) -> None:
        """Store the sketch after a moment in which further requests may join."""
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(self.settings.commit_seconds)
                self._under_way, self._waiting = self._waiting, []
                error = await self._stored()
                for future in self._under_way:
                    if not future.done():
                        if error is None:
                            future.set_result(None)
                        else:
                            future.set_exception(error)
        finally:
            self._writer = None

    async def _stored(self) -> Exception | None:
        """Write a snapshot; then show the totals that are in it."""
        async with self._storing:
            return await self._store_now()

    async def _store_now(self) -> Exception | None:
        changes = self._changes
        header: dict[str, Any] = {"requests": list(self._requests)}
        totals: list[int] = []
        if self.counter is not None:
            header["counter"], totals = self.counter.state(), list(self.counter.totals)
        text = json.dumps(header).encode()
        data = len(text).to_bytes(4, "big") + text + self.sketch.to_bytes()
        digest, before = hashlib.sha256(data).hexdigest(), frozenset(self._newest)
        self._newest.add(digest)
        save = self._store.save_snapshot
        try:
            await asyncio.to_thread(save, self.snapshot, data, 0, keep=2, after=before)
        except ValueError as error:
            log("warning", "another service stored the sketch", error=error, sketch=self.name)
            return self._fallen_behind()
        except Exception as error:
            return error
        self._newest = {digest}
        self._stored_changes = changes
        if self.counter is not None:
            self.counter.shown = totals
        return None

    def _fallen_behind(self) -> Exception:
        """Read what another service stored; what is not acknowledged here has to be repeated."""
        error: Exception = StoreUnavailable("Store: another service stored the sketch; repeat.")
        try:
            self._restore()
        except Exception as unread:
            error = unread
        for future in [*self._under_way, *self._waiting]:
            if not future.done():
                future.set_exception(error)
        self._waiting = []
        self._stored_changes = self._changes
        return error

    async def tick(self) -> None:
        """Close steps of the counter that are over, and store them."""
        if self.counter is not None and self.counter.advance(time.time()):
            await self._stored()

    async def close(self) -> None:
        """Store what is waiting."""
        if self._writer is not None:
            await self._writer

    def releasing(self, wanted: ReleaseOrder, paid: dict[str, Any]) -> Callable[[], bytes]:
        """Return what releases the sketch as it is now."""
        options = dict(paid)
        if wanted.contributions is not None:
            options["contributions"] = wanted.contributions
        if self.settings.kind == "hyper-log-log":
            if wanted.largest is None:
                raise Problem(422, "largest must be given: a public bound.", field="largest")
            options["largest"] = wanted.largest
        else:
            options["weight"] = self.settings.largest_weight
        now = self.sketch.copy()
        return lambda: bytes(now.release(wanted.epsilon, wanted.delta, **options).to_bytes())


async def ticking(service: "Service") -> None:
    """Close the steps of all counters in time."""
    counters = [live for live in service.sketches.values() if live.counter is not None]
    while counters:
        pause = min(live.counter.settings.seconds for live in counters if live.counter is not None)
        await asyncio.sleep(min(1.0, pause / 2))
        for live in counters:
            await live.tick()
