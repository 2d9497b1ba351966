"""Versions of models and sketches, written in parts so that events need not wait for them."""

import hashlib
import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

from sfumato.core.validation import integer
from sfumato.errors import ParameterTypeError, StoreDamaged
from sfumato.store.backend import Backend, Session
from sfumato.store.events import check_text
from sfumato.store.group_commit import GroupWriter
from sfumato.store.records import Snapshot

__all__ = ["listed", "load", "prune", "save"]

PART = 1 << 20  # bytes
KEEP = integer(1)
COLUMNS = "name, version, position, created, nbytes, digest"


def save(
    writer: GroupWriter,
    name: str,
    data: Any,
    position: int,
    keep: int | None,
    after: Collection[str] | None,
) -> Snapshot:
    """Store a new version; it is visible when all its parts are durable."""
    name = check_text("Store", "name", name)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ParameterTypeError.of("Store", "data", f"must be bytes, not {type(data).__name__}.")
    if keep is not None:
        keep = KEEP.check("Store", "keep", keep)
    data = bytes(data)
    version: int = writer.job(lambda session: _number(session, name)).result()
    snapshot = Snapshot(
        name, version, position, time.time(), len(data), hashlib.sha256(data).hexdigest()
    )
    for part, start in enumerate(range(0, len(data), PART)):
        row = (name, version, part, data[start : start + PART])
        writer.job(partial(_insert, row)).result()

    def publish(session: Session) -> None:
        if after is not None:
            _check_newest(session, name, after)
        written = session.execute(
            "SELECT count(*) FROM snapshot_part WHERE name = ? AND version = ?", (name, version)
        ).fetchone()[0]
        if written != -(-len(data) // PART):
            raise ValueError(
                f"Store: another process stored a newer version of {name!r} meanwhile; version "
                f"{version} is given up."
            )
        row = (name, version, position, snapshot.created, snapshot.nbytes, snapshot.digest)
        session.execute(f"INSERT INTO snapshot ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", row)
        if keep is not None:
            _prune(session, name, keep)

    writer.job(publish).result()
    return snapshot


def load(backend: Backend, name: str, version: int | None) -> Snapshot | None:
    """Read a snapshot and check its bytes."""
    name = check_text("Store", "name", name)
    with backend.reading() as session:
        only, given = ("", ()) if version is None else (" AND version = ?", (version,))
        row = session.execute(
            f"SELECT {COLUMNS} FROM snapshot WHERE name = ?{only} ORDER BY version DESC LIMIT 1",
            (name, *given),
        ).fetchone()
        if row is None:
            return None
        parts = session.execute(
            "SELECT data FROM snapshot_part WHERE name = ? AND version = ? ORDER BY part",
            (name, row[1]),
        ).fetchall()
    data = b"".join(bytes(part) for (part,) in parts)
    if hashlib.sha256(data).hexdigest() != row[5]:
        raise StoreDamaged(
            f"Store: version {row[1]} of snapshot {name!r} does not have its checksum; load an "
            "older version, or relearn it from the log."
        )
    return replace(Snapshot(*row), data=data)


def listed(backend: Backend, name: str | None) -> list[Snapshot]:
    """List snapshots, newest first."""
    only, given = ("", ()) if name is None else ("WHERE name = ? ", (name,))
    with backend.reading() as session:
        rows = session.execute(
            f"SELECT {COLUMNS} FROM snapshot {only}ORDER BY created DESC, version DESC", given
        ).fetchall()
    return [Snapshot(*row) for row in rows]


def prune(writer: GroupWriter, name: str, keep: int) -> int:
    """Remove all but the newest versions."""
    name = check_text("Store", "name", name)
    removed: int = writer.job(lambda session: _prune(session, name, keep)).result()
    return removed


def _number(session: Session, name: str) -> int:
    """Return a new version number; remove parts of older versions that were never completed."""
    session.execute(
        "INSERT INTO snapshot_name VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET "
        "last_version = snapshot_name.last_version + 1",
        (name,),
    )
    found = session.execute("SELECT last_version FROM snapshot_name WHERE name = ?", (name,))
    session.execute(
        "DELETE FROM snapshot_part WHERE name = ? AND version < "
        "(SELECT coalesce(max(version), 0) FROM snapshot WHERE snapshot.name = ?) "
        "AND NOT EXISTS (SELECT 1 FROM snapshot WHERE snapshot.name = snapshot_part.name "
        "AND snapshot.version = snapshot_part.version)",
        (name, name),
    )
    return int(found.fetchone()[0])


def _check_newest(session: Session, name: str, after: Collection[str]) -> None:
    """Raise unless the newest version has one of these digests, "" standing for no version."""
    # Its row is locked first, so that of two processes the second sees what the first stored.
    session.execute("UPDATE snapshot_name SET last_version = last_version WHERE name = ?", (name,))
    found = session.execute(
        "SELECT digest FROM snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", (name,)
    ).fetchone()
    if (found[0] if found else "") not in after:
        raise ValueError(
            f"Store: another process stored a version of {name!r} meanwhile; this one does not "
            "follow from it, and is given up."
        )


def _insert(row: tuple[Any, ...], session: Session) -> None:
    session.execute("INSERT INTO snapshot_part VALUES (?, ?, ?, ?)", row)


def _prune(session: Session, name: str, keep: int) -> int:
    rows = session.execute(
        "SELECT version FROM snapshot WHERE name = ? ORDER BY version DESC", (name,)
    ).fetchall()
    for (version,) in rows[keep:]:
        for table in ("snapshot", "snapshot_part"):
            session.execute(f"DELETE FROM {table} WHERE name = ? AND version = ?", (name, version))
    return len(rows[keep:])
