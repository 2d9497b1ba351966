"""What a store returns: snapshots, releases, keys, erasures and its description."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sfumato.errors import ParameterError

__all__ = [
    "SCOPES",
    "ApiKey",
    "Appended",
    "Erasure",
    "ErasureRecord",
    "Snapshot",
    "StoreInfo",
    "StoredRelease",
]

SCOPES = ("ingest", "read", "admin")


@dataclass(frozen=True)
class Appended:
    """Result of appending events, which are durable when it is returned.

    Parameters
    ----------
    new : int
        Number of events that were not in the log.
    duplicates : int
        Number of events whose id was in the log, or earlier in the same batch; they are ignored.
    position : int
        Sequence number of the last event of the log when these were committed.

    Examples
    --------
    >>> Appended(new=99, duplicates=1, position=1204).new
    99
    """

    new: int
    duplicates: int
    position: int


@dataclass(frozen=True)
class Snapshot:
    """One version of a stored model or sketch, and the position of the log that it includes.

    Parameters
    ----------
    name : str
        Name of the model or sketch.
    version : int
        Version, from 1 up, never used again.
    position : int
        Sequence number of the last event that it was learned from; replay the log after it.
    created : float
        Time when it was stored, seconds since 1970 in UTC.
    nbytes : int
        Size of the bytes.
    digest : str
        SHA-256 of the bytes, hexadecimal.
    data : bytes or None, default=None
        The bytes; None in lists.

    Examples
    --------
    >>> Snapshot("model", 3, position=1204, created=1.7e9, nbytes=5, digest="2cf2")
    Snapshot('model', version 3, position 1204, 5 bytes)
    """

    name: str
    version: int
    position: int
    created: float
    nbytes: int
    digest: str
    data: bytes | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        where = f"version {self.version}, position {self.position}"
        return f"Snapshot({self.name!r}, {where}, {self.nbytes} bytes)"


@dataclass(frozen=True)
class StoredRelease:
    """A release that left, or may have left, the curator; the same for every retry of its key.

    Parameters
    ----------
    key : str
        Key of the request, also the release id in the ledger.
    what : str
        Sentence about the release.
    dataset : str or None
        Data set that was charged; None for one that needs no charge.
    media_type : str
        Media type of the bytes.
    created : float
        Time of the request, seconds since 1970 in UTC.
    nbytes : int
        Size of the bytes; 0 while they are not made.
    data : bytes or None, default=None
        The bytes; None in lists.

    Examples
    --------
    >>> StoredRelease("r1", "daily counts", "views", "application/octet-stream", 1.7e9, 64)
    StoredRelease('r1', dataset 'views', 64 bytes)
    """

    key: str
    what: str
    dataset: str | None
    media_type: str
    created: float
    nbytes: int
    data: bytes | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"StoredRelease({self.key!r}, dataset {self.dataset!r}, {self.nbytes} bytes)"


@dataclass(frozen=True)
class ApiKey:
    """An API key without its secret, of which the store has a salted hash only.

    Parameters
    ----------
    key_id : str
        Public part of the key, which names it in lists and logs.
    name : str
        What it is for.
    scopes : tuple of {"ingest", "read", "admin"}
        What it permits; "admin" includes the others.
    created : float
        Seconds since 1970 in UTC.
    revoked : float or None, default=None
        Time of its revocation; None while it is valid.
    attributes : mapping, optional
        JSON values of the service, none by default, such as the metric and the origins of a
        public ingest key.

    Examples
    --------
    >>> key = ApiKey("4f2a", "shop front", ("ingest",), 1.7e9)
    >>> key.permits("ingest"), key.permits("read")
    (True, False)
    """

    key_id: str
    name: str
    scopes: tuple[str, ...]
    created: float
    revoked: float | None = None
    attributes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def permits(self, scope: str) -> bool:
        """Return whether the key is valid and has a scope.

        Parameters
        ----------
        scope : {"ingest", "read", "admin"}
            What the request needs.

        Returns
        -------
        bool
            Whether it may.
        """
        if scope not in SCOPES:
            raise ParameterError.of("ApiKey", "scope", f"must be one of {', '.join(SCOPES)}.")
        return self.revoked is None and (scope in self.scopes or "admin" in self.scopes)


@dataclass(frozen=True)
class ErasureRecord:
    """That a user was erased, without the user's id.

    Parameters
    ----------
    number : int
        Number of the erasure, from 1 up.
    digest : str
        Keyed hash of the user's id (`Store.user_digest`), by which a process that knows an id can
        find its erasure.
    events : int
        Number of events that were removed.
    position : int
        Sequence number of the last event of the log at the time.
    erased : float
        Seconds since 1970 in UTC.

    Examples
    --------
    >>> ErasureRecord(1, "9c56", events=12, position=1204, erased=1.7e9).events
    12
    """

    number: int
    digest: str
    events: int
    position: int
    erased: float


@dataclass(frozen=True)
class Erasure:
    """Result of erasing a user: what was removed, what to relearn, what cannot be recalled.

    Parameters
    ----------
    record : ErasureRecord
        The durable record.
    removed : EventBatch
        The removed events, for linear sketches to subtract; they are stored nowhere else.
    snapshots : tuple of Snapshot
        Snapshots that include some of these events: subtract and store anew, or relearn, then
        prune them.
    releases : tuple of StoredRelease
        Releases made before, which may have used these events and cannot be recalled.

    Examples
    --------
    >>> Erasure(ErasureRecord(1, "9c56", 0, 7, 1.7e9), (), (), ())
    Erasure(0 events, 0 snapshots to relearn, 0 releases that cannot be recalled)
    """

    record: ErasureRecord
    removed: Any
    snapshots: tuple[Snapshot, ...]
    releases: tuple[StoredRelease, ...]

    def __repr__(self) -> str:
        return (
            f"Erasure({self.record.events} events, {len(self.snapshots)} snapshots to relearn, "
            f"{len(self.releases)} releases that cannot be recalled)"
        )


@dataclass(frozen=True)
class StoreInfo:
    """Description of a store.

    Parameters
    ----------
    backend : {"sqlite", "postgresql"}
        Kind of database.
    location : str
        Path or address, without a password.
    version : int
        Version of the tables.
    events : int
        Number of events in the log.
    position : int
        Sequence number of the last event, 0 for an empty log.
    nbytes : int
        Size of the database in bytes.
    snapshots : int
        Number of snapshots.
    releases : int
        Number of stored releases.
    datasets : int
        Number of data sets in the ledger.
    metrics : int
        Number of telemetry metrics.
    keys : int
        Number of keys that are not revoked.
    erasures : int
        Number of erasures.

    Examples
    --------
    >>> StoreInfo("sqlite", "shop.db", 1, 10, 12, 4096, 1, 0, 0, 0, 2, 1).position
    12
    """

    backend: str
    location: str
    version: int
    events: int
    position: int
    nbytes: int
    snapshots: int
    releases: int
    datasets: int
    metrics: int
    keys: int
    erasures: int
