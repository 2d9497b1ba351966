"""Erasing a user: the events go, a record without the id stays, and what is out is named."""

import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any

from sfumato.store import releases as _releases
from sfumato.store.backend import Backend, Session
from sfumato.store.events import EventBatch, check_text
from sfumato.store.records import Erasure, ErasureRecord, Snapshot

if TYPE_CHECKING:
    from sfumato.store.store import Store

__all__ = ["digest", "erase", "events_of", "listed"]

SELECT = "SELECT seq, user_id, item_id, value, time, event_id FROM event"
REMOVED = 500  # rows of one statement


def events_of(backend: Backend, user: str) -> EventBatch:
    """Read all events of a user."""
    user = check_text("Store", "user", user)
    with backend.reading() as session:
        return EventBatch._from_rows(_scan(session, user, 0))


def erase(store: "Store", user: str) -> Erasure:
    """Find the events beside the writers, then remove them and any later ones in one transaction.

    The log has no index of users, which would slow every append: the scan of most of the log reads
    a moment of it, and keeps no one waiting.
    """
    user = check_text("Store", "user", user)
    backend = store._backend
    with backend.reading() as session:
        early = _scan(session, user, 0)
        end = int(session.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])

    def remove(session: Session) -> tuple[list[Any], ErasureRecord]:
        rows = [*early, *_scan(session, user, end)]
        position = int(session.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()[0])
        found = [row[0] for row in rows]
        gone = 0
        for start in range(0, len(found), REMOVED):
            some = found[start : start + REMOVED]
            marks = ", ".join("?" * len(some))
            gone += session.execute(f"DELETE FROM event WHERE seq IN ({marks})", some).rowcount
        now, name = time.time(), _digest(_key(session), user)
        number = session.execute(
            "INSERT INTO erasure (digest, events, position, erased) VALUES (?, ?, ?, ?) "
            "RETURNING number",
            (name, gone, position, now),
        ).fetchone()[0]
        return rows, ErasureRecord(int(number), name, gone, position, now)

    rows, record = store._writer.job(remove).result()
    backend.scrub()
    removed = EventBatch._from_rows(rows)
    return Erasure(
        record,
        removed,
        _including(store.snapshots(), removed),
        tuple(_releases.listed(backend, store.ledger)),
    )


def listed(backend: Backend, after: int) -> list[ErasureRecord]:
    """List erasures in order."""
    with backend.reading() as session:
        rows = session.execute(
            "SELECT number, digest, events, position, erased FROM erasure WHERE number > ? "
            "ORDER BY number",
            (after,),
        ).fetchall()
    return [ErasureRecord(*row) for row in rows]


def digest(backend: Backend, user: str) -> str:
    """Return the keyed hash of a user id."""
    user = check_text("Store", "user", user)
    with backend.reading() as session:
        return _digest(_key(session), user)


def _scan(session: Session, user: str, after: int) -> list[Any]:
    rows: list[Any] = session.execute(
        f"{SELECT} WHERE user_id = ? AND seq > ? ORDER BY seq", (user, after)
    ).fetchall()
    return rows


def _key(session: Session) -> bytes:
    row = session.execute("SELECT value FROM secret WHERE name = ?", ("erasure",)).fetchone()
    return bytes(row[0])


def _digest(key: bytes, user: str) -> str:
    return hmac.new(key, user.encode(), hashlib.sha256).hexdigest()


def _including(snapshots: list[Snapshot], removed: EventBatch) -> tuple[Snapshot, ...]:
    """Return the snapshots that were learned from at least the first of the removed events."""
    if removed.sequence is None or not len(removed):
        return ()
    return tuple(each for each in snapshots if each.position >= removed.sequence[0])
