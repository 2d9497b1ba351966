"""The durable state of a service: one interface over SQLite and PostgreSQL."""

import asyncio
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato.errors import ParameterError
from sfumato.privacy.ledger.ledger import Ledger
from sfumato.store import backup as _backup
from sfumato.store import erasure as _erasure
from sfumato.store import keys as _keys
from sfumato.store import releases as _releases
from sfumato.store import snapshots as _snapshots
from sfumato.store import telemetry_counts as _telemetry
from sfumato.store.backend import Backend
from sfumato.store.events import EventBatch, as_batch
from sfumato.store.group_commit import GroupWriter
from sfumato.store.records import (
    ApiKey,
    Appended,
    Erasure,
    ErasureRecord,
    Snapshot,
    StoredRelease,
    StoreInfo,
)

if TYPE_CHECKING:
    from sfumato.telemetry import Counts, Reports

__all__ = ["Store"]

WAITING = 200_000  # events that may wait for the disk


class Store:
    """Durable state: event log, snapshots, ledger, releases, telemetry, keys and erasures.

    Made by `open_store`. Threads may share it. All writes of a process go through one writer,
    which gathers what is waiting and commits it at once: many small appends cost one
    synchronisation of the disk. Other processes may open the same store; their writes take turns.

    Every method blocks until its work is durable. On an event loop, await `append_async` and
    `add_reports_async`, which block nothing; run any other method by `asyncio.to_thread`.

    Parameters
    ----------
    backend : Backend
        The database.
    waiting_limit : int, default=200000
        Number of events that may wait for the disk; more are refused by `StoreUnavailable`.

    Notes
    -----
    **Guarantee.** An append that returns is on the disk of the database: it survives the end of the
    process and of the machine (if the disk keeps what it reports as synchronised). An event
    id is in the log at most once. Sequence numbers increase in the order in which readers can see
    the events and are never used again, so a reader that continues after its last position misses
    none. An append that raises may still have been committed where the connection was lost
    meanwhile; repeat it with the same event ids.

    Examples
    --------
    >>> import tempfile
    >>> from sfumato.store import open_store
    >>> with open_store(tempfile.mkdtemp() + "/shop.db") as store:
    ...     batch = EventBatch(["ann", "bob"], ["tea", "milk"])
    ...     store.append(batch)
    ...     store.append(batch)
    ...     store.read(after=1).users.to_pylist()
    Appended(new=2, duplicates=0, position=2)
    Appended(new=0, duplicates=2, position=2)
    ['bob']
    """

    def __init__(self, backend: Backend, *, waiting_limit: int = WAITING) -> None:
        self._backend = backend
        self._writer = GroupWriter(backend, waiting_limit)
        self._keys = _keys.KeyRing(backend)
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self._backend.location!r})"

    def close(self) -> None:
        """Write what is waiting and close all connections; closing again does nothing."""
        self._writer.close()
        if self._ledger is not None:
            self._ledger.close()
        self._backend.close()

    @property
    def waiting(self) -> int:
        """Number of events and other writes that wait for the disk."""
        return self._writer.waiting

    def append(self, events: EventBatch | Mapping[str, Any]) -> Appended:
        """Append events; return when they are durable.

        Parameters
        ----------
        events : EventBatch or mapping
            Events, or the columns of an `EventBatch` by name.

        Returns
        -------
        Appended
            How many were new.

        Raises
        ------
        StoreUnavailable
            If the database cannot be written now, as when its disk is full. Nothing was
            acknowledged; repeat with the same event ids.
        """
        return self.submit(events).result()

    def submit(self, events: EventBatch | Mapping[str, Any]) -> "Future[Appended]":
        """Queue events, without waiting for the disk.

        Parameters
        ----------
        events : EventBatch or mapping
            As for `append`.

        Returns
        -------
        concurrent.futures.Future
            Its result is an `Appended` when the events are durable.
        """
        return self._writer.append(as_batch(events))

    async def append_async(self, events: EventBatch | Mapping[str, Any]) -> Appended:
        """Append events from an event loop; return when they are durable.

        Parameters
        ----------
        events : EventBatch or mapping
            As for `append`.

        Returns
        -------
        Appended
            How many were new.
        """
        loop = asyncio.get_running_loop()
        return await self._writer.append_on(loop, as_batch(events))

    def read(self, after: int = 0, limit: int = 100_000) -> EventBatch:
        """Read events of the log in order.

        Parameters
        ----------
        after : int, default=0
            Sequence number after which to begin.
        limit : int, default=100000
            Largest number of events to return.

        Returns
        -------
        EventBatch
            Events with their sequence numbers; empty at the end of the log.
        """
        after = _not_negative("after", after)
        limit = _not_negative("limit", limit)
        with self._backend.reading() as session:
            rows = session.execute(
                "SELECT seq, user_id, item_id, value, time, event_id FROM event WHERE seq > ? "
                "ORDER BY seq LIMIT ?",
                (after, limit),
            ).fetchall()
        return EventBatch._from_rows(rows)

    def events_of(self, user: str | int) -> EventBatch:
        """Read all events of one user, by a scan of the log.

        Parameters
        ----------
        user : str or int
            User id.

        Returns
        -------
        EventBatch
            The user's events in order, as for a request for access.
        """
        return _erasure.events_of(self._backend, str(user))

    def position(self) -> int:
        """Return the sequence number of the last event in the log, 0 if it is empty.

        Returns
        -------
        int
            The sequence number.
        """
        with self._backend.reading() as session:
            return int(session.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])

    def save_snapshot(
        self,
        name: str,
        data: bytes,
        position: int,
        *,
        keep: int | None = None,
        after: Collection[str] | None = None,
    ) -> Snapshot:
        """Store a new version of a model or sketch.

        Readers see the old version until the new one is complete and durable. Large ones are
        written in parts, between which waiting events are committed.

        Parameters
        ----------
        name : str
            Name of the model or sketch.
        data : bytes
            Its bytes, as `to_bytes` or the file of `save`.
        position : int
            Sequence number of the last event it was learned from.
        keep : int or None, default=None
            Number of versions to retain, at least 1; None retains all.
        after : collection of str or None, default=None
            Digests of the versions from which this one follows, "" for none at all. Unless the
            newest version has one of them, ValueError is raised: another process stored it. None
            stores in any case.

        Returns
        -------
        Snapshot
            The new version, without its bytes.
        """
        at = _not_negative("position", position)
        return _snapshots.save(self._writer, name, data, at, keep, after)

    def load_snapshot(self, name: str, version: int | None = None) -> Snapshot | None:
        """Read a snapshot with its bytes.

        Parameters
        ----------
        name : str
            Name of the model or sketch.
        version : int or None, default=None
            Version; None is the newest.

        Returns
        -------
        Snapshot or None
            None if there is none.

        Raises
        ------
        StoreDamaged
            If the bytes do not have their checksum.
        """
        return _snapshots.load(self._backend, name, version)

    def snapshots(self, name: str | None = None) -> list[Snapshot]:
        """List snapshots without their bytes, newest first.

        Parameters
        ----------
        name : str or None, default=None
            Name of a model or sketch; None lists all.

        Returns
        -------
        list of Snapshot
            Newest first.
        """
        return _snapshots.listed(self._backend, name)

    def prune_snapshots(self, name: str, keep: int) -> int:
        """Remove all but the newest versions.

        Parameters
        ----------
        name : str
            Name of the model or sketch.
        keep : int
            Number of versions to retain; 0 removes all.

        Returns
        -------
        int
            Number of versions removed.
        """
        return _snapshots.prune(self._writer, name, _not_negative("keep", keep))

    @property
    def ledger(self) -> Ledger:
        """The privacy ledger of this store: the contract of `sfumato.privacy.Ledger`."""
        with self._lock:
            if self._ledger is None:
                self._ledger = Ledger.on(self._backend.ledger_storage())
            return self._ledger

    def release(
        self,
        key: str,
        what: str,
        make: Callable[[str], bytes],
        *,
        dataset: str | None = None,
        loss: Any = None,
        request: bytes = b"",
        media_type: str = "application/octet-stream",
    ) -> StoredRelease:
        """Charge for a release, make and store its bytes; or return those stored under its key.

        Parameters
        ----------
        key : str
            Key of the request; a retry with the same key returns the stored bytes.
        what : str
            Sentence about the release, free of personal data.
        make : callable
            Called with the key after the charge is durable; returns bytes. It must disclose
            nothing but these.
        dataset : str or None, default=None
            Data set of the ledger to charge; None for a release that needs no charge, as of
            reports that were randomised by their senders.
        loss : object, default=None
            What to charge: a `Loss`, an epsilon or a pair (epsilon, delta).
        request : bytes, default=b''
            Content of the request; another one under the same key is refused.
        media_type : str, default="application/octet-stream"
            Media type of the bytes.

        Returns
        -------
        StoredRelease
            The release with its bytes, which are durable.

        Raises
        ------
        BudgetExceeded
            If the loss does not fit the budget; nothing was charged or stored.
        ValueError
            If the key was used for another request.
        """
        given = _releases.Request(key, what, dataset, loss, request, media_type)
        return _releases.release(self._writer, self.ledger, given, make)

    def find_release(self, key: str) -> StoredRelease | None:
        """Return a release with its bytes, if they are made.

        Parameters
        ----------
        key : str
            Key of the request.

        Returns
        -------
        StoredRelease or None
            None if the key is unknown or its release was never completed.
        """
        return _releases.find(self._backend, self.ledger, key)

    def releases(self) -> list[StoredRelease]:
        """List all releases without their bytes, oldest first.

        Returns
        -------
        list of StoredRelease
            Requests through `release`, and charges made directly on the ledger.
        """
        return _releases.listed(self._backend, self.ledger)

    def add_reports(self, metric: str, reports: "Reports") -> int:
        """Count telemetry reports; return when the counts are durable.

        Parameters
        ----------
        metric : str
            Name of the metric; its scheme is that of its first reports.
        reports : Reports
            Reports as `ReportEncoder` or `read_reports` makes them.

        Returns
        -------
        int
            Number of reports that were new; one whose id was counted before is ignored.
        """
        result: int = self._writer.job(_telemetry.adding(metric, reports)).result()
        return result

    async def add_reports_async(self, metric: str, reports: "Reports") -> int:
        """Count telemetry reports from an event loop; return when the counts are durable.

        Parameters
        ----------
        metric : str
            Name of the metric.
        reports : Reports
            As for `add_reports`.

        Returns
        -------
        int
            Number of reports that were new.
        """
        loop = asyncio.get_running_loop()
        result: int = await self._writer.job_on(loop, _telemetry.adding(metric, reports))
        return result

    def telemetry(self, metric: str) -> "Counts | None":
        """Return the counts of a metric.

        Parameters
        ----------
        metric : str
            Name of the metric.

        Returns
        -------
        Counts or None
            Counts without report ids, for `sfumato.telemetry.decode`; None if there are none.
        """
        return _telemetry.counts_of(self._backend, metric)

    def metrics(self) -> list[str]:
        """List the metrics that have counts.

        Returns
        -------
        list of str
            Names in alphabetical order.
        """
        return _telemetry.metrics(self._backend)

    def create_key(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        attributes: Mapping[str, Any] | None = None,
    ) -> tuple[ApiKey, str]:
        """Create an API key.

        Parameters
        ----------
        name : str
            What it is for.
        scopes : iterable of {"ingest", "read", "admin"}
            What it permits, at least one.
        attributes : mapping or None, default=None
            JSON values for the service, such as a metric and origins.

        Returns
        -------
        tuple
            The `ApiKey`, and the secret text to hand out; it is stored nowhere.
        """
        return self._keys.create(self._writer, name, scopes, attributes)

    def check_key(
        self, secret: str, scope: str | None = None, *, longest_age: float | None = None
    ) -> ApiKey | None:
        """Return the valid key of a secret, comparing in constant time.

        Parameters
        ----------
        secret : str
            Text that a client sent.
        scope : str or None, default=None
            Scope that the key must have; None takes any.
        longest_age : float or None, default=None
            Seconds since keys were last read, for a caller that must not wait for the database and
            calls `refresh_keys` elsewhere; None reads them here when they are older than a second.

        Returns
        -------
        ApiKey or None
            None for an unknown, wrong or revoked key, or one without the scope.

        Raises
        ------
        StoreUnavailable
            If keys cannot be read, or were not read for `longest_age`.

        Notes
        -----
        Keys are read again every second: a revocation by another process takes effect within one.
        """
        return self._keys.check(secret, scope, longest_age)

    def refresh_keys(self) -> None:
        """Read all keys again, so that `check_key` knows those of other processes."""
        self._keys.refresh()

    def revoke_key(self, key_id: str) -> bool:
        """Revoke a key for good.

        Parameters
        ----------
        key_id : str
            Public part of the key.

        Returns
        -------
        bool
            Whether there was such a valid key.
        """
        return self._keys.revoke(self._writer, key_id)

    def api_keys(self) -> list[ApiKey]:
        """List all keys, revoked ones too, oldest first.

        Returns
        -------
        list of ApiKey
            Without secrets.
        """
        return self._keys.listed()

    def erase_user(self, user: str | int) -> Erasure:
        """Remove all events of a user, and record that without the user's id.

        Parameters
        ----------
        user : str or int
            User id.

        Returns
        -------
        Erasure
            The removed events, the snapshots to relearn and the releases that cannot be recalled.

        Notes
        -----
        **Guarantee.** When it returns, no table of the store contains an event of the user that was
        acknowledged before the call. SQLite overwrites the bytes in its file, and empties its log
        unless a reader still needs it; PostgreSQL frees them by VACUUM. Backups, archived logs of
        PostgreSQL, snapshots and releases made before are not changed. An event that arrives later
        is a new event.
        """
        return _erasure.erase(self, str(user))

    def erasures(self, after: int = 0) -> list[ErasureRecord]:
        """List erasures in order.

        Parameters
        ----------
        after : int, default=0
            Number of the erasure after which to begin.

        Returns
        -------
        list of ErasureRecord
            Without user ids.
        """
        return _erasure.listed(self._backend, _not_negative("after", after))

    def user_digest(self, user: str | int) -> str:
        """Return the keyed hash of a user id that records of erasures contain.

        Parameters
        ----------
        user : str or int
            User id.

        Returns
        -------
        str
            HMAC-SHA256 under a key of this store, hexadecimal.
        """
        return _erasure.digest(self._backend, str(user))

    def info(self) -> StoreInfo:
        """Describe the store.

        Returns
        -------
        StoreInfo
            Backend, version and numbers of what it contains.
        """
        with self._backend.reading() as session:
            return _backup.described(self._backend, session)

    def backup(self, path: str | os.PathLike[str]) -> dict[str, int]:
        """Write everything to one file, while others go on writing.

        Parameters
        ----------
        path : path_like
            File to write, atomically; it must not exist.

        Returns
        -------
        dict
            Number of rows by table.

        Notes
        -----
        **Guarantee.** The file is the state of one moment. It has a version and a SHA-256, and
        `restore_store` reads it into an empty store of either backend. It contains personal data
        and hashed keys: protect it as the database.
        """
        return _backup.write(self._backend, Path(path))


def _not_negative(name: str, value: Any) -> int:
    with suppress(TypeError, ValueError):
        if not isinstance(value, bool) and int(value) == value and 0 <= value < 2**63:
            return int(value)
    raise ParameterError.of("Store", name, f"must be an integer from 0 up, not {value!r:.50}.")
