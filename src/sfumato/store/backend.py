"""What a database offers the store: sessions in transactions, and storage for the ledger."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sfumato.privacy.ledger.store import LedgerStorage
from sfumato.store.events import EventBatch

__all__ = ["Backend", "Session"]


class Session(Protocol):
    """A transaction; ``?`` marks parameters, and statements have no percent sign."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run a statement; return a cursor with fetchone, fetchall, fetchmany and rowcount."""

    def stream(self, statement: str, rows: int) -> Iterator[list[Any]]:
        """Run a statement, and yield its result in pieces of so many rows."""

    def insert_many(self, table: str, columns: Sequence[str], rows: Sequence[Any]) -> None:
        """Insert rows into a table."""

    def append(self, batches: Sequence[EventBatch]) -> list[int]:
        """Append events to the log; return the number of new ones of each batch."""


class Backend(Protocol):
    """A database: SQLite or PostgreSQL.

    name: "sqlite" or "postgresql"; location: path or address without a password.
    """

    name: str
    location: str

    def reading(self) -> AbstractContextManager[Session]:
        """Begin a transaction that reads one moment of the database; any thread may."""

    def writing(self) -> AbstractContextManager[Session]:
        """Begin a transaction that excludes other writers; at its end all is durable."""

    def tables(self, session: Session) -> set[str]:
        """Return the names of the store's tables that are there."""

    def last_number(self, session: Session, table: str) -> int:
        """Return the last number that a table counted up to, also if its row was removed."""

    def set_last_number(self, session: Session, table: str, last: int) -> None:
        """Let a table count on from a number."""

    def nbytes(self, session: Session) -> int:
        """Return the size of the database."""

    def ledger_storage(self) -> LedgerStorage:
        """Return the storage of the ledger in the same database, on a connection of its own."""

    def scrub(self) -> None:
        """Overwrite or free the bytes of removed rows."""

    def close(self) -> None:
        """Close all connections."""
