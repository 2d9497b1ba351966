"""One writer per process: it gathers what is waiting, commits once, then resolves all futures."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from sfumato.errors import StoreDamaged, StoreUnavailable
from sfumato.store.backend import Backend, Session
from sfumato.store.events import EventBatch
from sfumato.store.records import Appended

__all__ = ["GroupWriter", "Job"]

GROUP = 16_384  # events of one transaction, so that none waits long
Job = Callable[[Session], Any]


class QueuedWrite:
    """An append or a job, with the future that waits for it and the event loop of that."""

    __slots__ = ("future", "job", "loop", "outcome", "weight")

    def __init__(self, job: EventBatch | Job, loop: asyncio.AbstractEventLoop | None) -> None:
        self.job: EventBatch | Callable[..., Any]
        self.job, self.loop = job, loop
        self.future: Any = Future() if loop is None else loop.create_future()
        self.weight: int = max(1, len(job)) if isinstance(job, EventBatch) else 1
        self.outcome: Any = None


class GroupWriter:
    """Queue of writes, and the thread that commits them in groups.

    A job runs in a savepoint of the group's transaction: if it raises, its own effects are undone
    and its own future gets the error. If the transaction fails, all futures of the group do.
    """

    def __init__(self, backend: Backend, limit: int) -> None:
        self.backend = backend
        self._limit = limit
        self._tasks: deque[QueuedWrite] = deque()
        self._wake = threading.Condition(threading.Lock())
        self._waiting = 0
        self._idle = False
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Events and jobs that are not durable yet."""
        return self._waiting

    def append(self, batch: EventBatch) -> "Future[Appended]":
        """Queue events for a thread."""
        return self._queue(QueuedWrite(batch, None))  # type: ignore[no-any-return]

    def append_on(
        self, loop: asyncio.AbstractEventLoop, batch: EventBatch
    ) -> "asyncio.Future[Appended]":
        """Queue events for an event loop."""
        return self._queue(QueuedWrite(batch, loop))  # type: ignore[no-any-return]

    def job(self, job: Job) -> "Future[Any]":
        """Queue any other write for a thread."""
        return self._queue(QueuedWrite(job, None))  # type: ignore[no-any-return]

    def job_on(self, loop: asyncio.AbstractEventLoop, job: Job) -> "asyncio.Future[Any]":
        """Queue any other write for an event loop."""
        return self._queue(QueuedWrite(job, loop))  # type: ignore[no-any-return]

    def close(self) -> None:
        """Commit what is waiting, and end the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _queue(self, task: QueuedWrite) -> Any:
        with self._wake:
            if self._closed:
                raise StoreUnavailable("Store: it is closed.")
            if self._waiting and self._waiting + task.weight > self._limit:
                raise StoreUnavailable(
                    f"Store: {self._waiting} events wait for the disk, and waiting_limit is "
                    f"{self._limit}; repeat later."
                )
            self._waiting += task.weight
            self._tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store", daemon=True)
                self._thread.start()
            elif self._idle:
                self._wake.notify()
        return task.future

    def _run(self) -> None:
        while group := self._next_group():
            self._commit(group)
            with self._wake:
                self._waiting -= sum(task.weight for task in group)
            _resolve(group)

    def _next_group(self) -> list[QueuedWrite]:
        """Wait for tasks; return as many as one transaction takes, none at the end."""
        with self._wake:
            while not self._tasks and not self._closed:
                self._idle = True
                self._wake.wait()
            self._idle = False
            group: list[QueuedWrite] = []
            weight = 0
            while self._tasks and (not group or weight + self._tasks[0].weight <= GROUP):
                group.append(self._tasks.popleft())
                weight += group[-1].weight
            return group

    def _commit(self, group: Sequence[QueuedWrite]) -> None:
        try:
            self._transact(group)
        except StoreUnavailable as error:
            for task in group:
                task.outcome = error
        except BaseException as error:
            if len(group) > 1:  # one of them is to blame, and fails alone
                for task in group:
                    self._commit([task])
            else:
                group[0].outcome = error

    def _transact(self, group: Sequence[QueuedWrite]) -> None:
        appends = [task for task in group if isinstance(task.job, EventBatch)]
        with self.backend.writing() as session:
            if appends:
                counts = session.append([task.job for task in appends])  # type: ignore[misc]
                position = int(
                    session.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0]
                )
                for task, new in zip(appends, counts, strict=True):
                    size = len(task.job)  # type: ignore[arg-type]
                    task.outcome = Appended(new, size - new, position)
            for task in group:
                if not isinstance(task.job, EventBatch):
                    task.outcome = _run_job(session, task.job)


def _run_job(session: Session, job: Job) -> Any:
    """Run a job in a savepoint; return its result, or the error that undid it alone."""
    session.execute("SAVEPOINT job")
    try:
        result = job(session)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        if isinstance(error, StoreDamaged):
            raise
        session.execute("ROLLBACK TO SAVEPOINT job")
        result = error
    session.execute("RELEASE SAVEPOINT job")
    return result


def _resolve(group: Sequence[QueuedWrite]) -> None:
    """Resolve the futures of a group: one call to each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[QueuedWrite]] = {}
    for task in group:
        if task.loop is not None:
            loops.setdefault(task.loop, []).append(task)
        else:
            _settle(task)
    for loop, tasks in loops.items():
        try:
            loop.call_soon_threadsafe(_settle_all, tasks)
        except RuntimeError:  # the loop was closed, so nobody waits
            continue


def _settle_all(tasks: Sequence[QueuedWrite]) -> None:
    for task in tasks:
        _settle(task)


def _settle(task: QueuedWrite) -> None:
    future: Any = task.future
    with suppress(InvalidStateError, asyncio.InvalidStateError):  # whoever waited has cancelled it
        if isinstance(task.outcome, BaseException):
            future.set_exception(task.outcome)
        else:
            future.set_result(task.outcome)
