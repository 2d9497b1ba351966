"""Stored releases: one key, one charge, one set of bytes, however often it is requested."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sfumato.errors import BudgetExceeded, ParameterError, ParameterTypeError, StoreDamaged
from sfumato.privacy.ledger.ledger import Ledger
from sfumato.store.backend import Backend, Session
from sfumato.store.events import check_text
from sfumato.store.group_commit import GroupWriter
from sfumato.store.records import StoredRelease

__all__ = ["Request", "find", "listed", "release"]

COLUMNS = "key, what, dataset, media_type, created, nbytes"


@dataclass(frozen=True)
class Request:
    """A request for a release, checked."""

    key: str
    what: str
    dataset: str | None
    loss: Any
    request: bytes
    media_type: str

    def __post_init__(self) -> None:
        check_text("Store", "key", self.key, 200)
        check_text("Store", "what", self.what, 2000)
        check_text("Store", "media_type", self.media_type)
        if not isinstance(self.request, bytes):
            given = type(self.request).__name__
            raise ParameterTypeError.of("Store", "request", f"must be bytes, not {given}.")
        if (self.dataset is None) != (self.loss is None):
            missing = "dataset" if self.dataset is None else "loss"
            raise ParameterError(
                "Store: dataset and loss go together; give both, or neither for a release that "
                "needs no charge.",
                owner="Store",
                parameter=missing,
            )

    @property
    def digest(self) -> str:
        """Hash of what the key stands for."""
        content = hashlib.sha256(self.request).hexdigest()
        given = (self.what, self.dataset, self.media_type, content)
        return hashlib.sha256(repr(given).encode()).hexdigest()


def release(
    writer: GroupWriter, ledger: Ledger, request: Request, make: Callable[[str], bytes]
) -> StoredRelease:
    """Reserve the key, charge, make and store; a retry continues where it was interrupted."""
    if not callable(make):
        raise ParameterTypeError.of("Store", "make", "must be a function of the key.")
    if request.dataset is not None:
        ledger.dataset(request.dataset)  # raises where there is none, before the key is reserved
    writer.job(lambda session: _reserve(session, request)).result()
    if request.dataset is None:
        found = find(writer.backend, ledger, request.key)
        if found is not None:
            return found
        made = make(request.key)
        if not isinstance(made, bytes):
            raise TypeError(f"Store: make must return bytes, not {type(made).__name__}.")
        writer.job(lambda session: _fill(session, request.key, made)).result()
    else:
        try:
            ledger.release(request.dataset, request.loss, request.what, make, request.key)
        except BudgetExceeded:
            writer.job(lambda session: _forget(session, request.key)).result()
            raise
    found = find(writer.backend, ledger, request.key)
    if found is None:
        raise StoreDamaged(f"Store: release {request.key!r} was stored and is gone.")
    return found


def find(backend: Backend, ledger: Ledger, key: str) -> StoredRelease | None:
    """Return a complete release with its bytes."""
    key = check_text("Store", "key", key, 200)
    with backend.reading() as session:
        row = session.execute(
            f"SELECT {COLUMNS}, digest, data FROM stored_release WHERE key = ?", (key,)
        ).fetchone()
    if row is None:
        return None
    *fields, digest, data = row
    if fields[2] is None:
        if data is None:
            return None
        data = bytes(data)
        if hashlib.sha256(data).hexdigest() != digest:
            raise StoreDamaged(f"Store: the bytes of release {key!r} do not have their checksum.")
    else:
        charge = ledger.find(key)
        if charge is None or charge.released is None:
            return None
        data = ledger.fetch(key)
    return replace(StoredRelease(*fields), nbytes=len(data), data=data)


def listed(backend: Backend, ledger: Ledger) -> list[StoredRelease]:
    """List all releases, also those charged on the ledger directly, oldest first."""
    with backend.reading() as session:
        rows = session.execute(
            f"SELECT {COLUMNS} FROM stored_release ORDER BY created, key"
        ).fetchall()
    charged = {
        charge.release_id: charge
        for dataset in ledger.datasets()
        if dataset.parent is None
        for charge in ledger.history(dataset.name)
    }
    found = []
    for row in rows:
        charge = charged.pop(row[0], None)
        if row[2] is None:
            found.append(StoredRelease(*row))
        elif charge is not None:  # else it was reserved and never charged
            found.append(replace(StoredRelease(*row), nbytes=charge.nbytes))
    found += [
        StoredRelease(
            charge.release_id,
            charge.what,
            charge.dataset,
            "application/octet-stream",
            _seconds(charge.charged),
            charge.nbytes,
        )
        for charge in charged.values()
    ]
    return sorted(found, key=lambda each: int(each.created))  # the ledger notes full seconds


def _reserve(session: Session, request: Request) -> None:
    """Insert the row of a key, or check that it is of the same request."""
    session.execute(
        "INSERT INTO stored_release (key, what, dataset, request, media_type, created, nbytes) "
        "VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT (key) DO NOTHING",
        (
            request.key,
            request.what,
            request.dataset,
            request.digest,
            request.media_type,
            time.time(),
        ),
    )
    found = session.execute(
        "SELECT request FROM stored_release WHERE key = ?", (request.key,)
    ).fetchone()
    if found[0] != request.digest:
        raise ParameterError.of(
            "Store", "key", f"{request.key!r} was used for another request; take a new key."
        )


def _fill(session: Session, key: str, made: bytes) -> None:
    """Store the bytes, unless another call was first."""
    session.execute(
        "UPDATE stored_release SET data = ?, digest = ?, nbytes = ? WHERE key = ? AND data IS NULL",
        (made, hashlib.sha256(made).hexdigest(), len(made), key),
    )


def _forget(session: Session, key: str) -> None:
    """Give the key of a refused request back, unless it was charged meanwhile."""
    session.execute(
        "DELETE FROM stored_release WHERE key = ? AND NOT EXISTS "
        "(SELECT 1 FROM charge WHERE release_id = ?)",
        (key, key),
    )


def _seconds(text: str) -> float:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
