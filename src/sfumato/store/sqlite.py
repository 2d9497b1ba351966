"""SQLite as the database of a store: one file in WAL mode, synchronised at every commit."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from sfumato.errors import SfumatoError, StoreDamaged, StoreUnavailable
from sfumato.privacy.ledger import store as ledger_store
from sfumato.store.events import EventBatch
from sfumato.store.turns import Turns

__all__ = ["MARK", "SqliteBackend"]

MARK = 0x53465354  # SQLite's field for the application of a file
WAIT = 60.0  # seconds for another process, should it not take turns
CACHE = 65_536  # KiB of pages in memory, of the writer
CHECKPOINT = 4_000  # pages of the log after which they are copied to the file
LEDGER = ("head", "dataset", "charge", "stored", "running", "product")
APPEND = (
    "INSERT OR IGNORE INTO event (user_id, item_id, value, time, event_id) VALUES (?, ?, ?, ?, ?)"
)


class SqliteSession:
    """A transaction of SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute

    def stream(self, statement: str, rows: int) -> Iterator[list[Any]]:
        """Run a statement, and yield its result in pieces of so many rows."""
        cursor = self.connection.execute(statement)
        while piece := cursor.fetchmany(rows):
            yield piece

    def insert_many(self, table: str, columns: Sequence[str], rows: Sequence[Any]) -> None:
        """Insert rows into a table."""
        marks = ", ".join("?" * len(columns))
        statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        self.connection.executemany(statement, rows)

    def append(self, batches: Sequence[EventBatch]) -> list[int]:
        """Append events; a group without duplicates is one statement."""
        self.connection.execute("SAVEPOINT append")
        total = sum(map(len, batches))
        rows = (row for batch in batches for row in batch.rows())
        if self._insert(rows) == total:
            counts = [len(batch) for batch in batches]
        else:
            self.connection.execute("ROLLBACK TO SAVEPOINT append")
            counts = [self._insert(batch.rows()) for batch in batches]
        self.connection.execute("RELEASE SAVEPOINT append")
        return counts

    def _insert(self, rows: Iterator[tuple[Any, ...]]) -> int:
        before = self.connection.total_changes
        self.connection.executemany(APPEND, rows)
        return self.connection.total_changes - before


class SqliteBackend:
    """The file, one connection that writes, and some that read."""

    name = "sqlite"

    def __init__(self, path: str, *, create: bool) -> None:
        self.location = path
        self._path = os.path.abspath(path)
        self._lock = threading.RLock()  # of the connection that writes
        self._pool = threading.Lock()  # of those that read
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        folder = os.path.dirname(self._path)
        if not os.path.isdir(folder):
            raise StoreUnavailable(f"Store: there is no folder for {path}.")
        if os.path.isdir(self._path):
            raise StoreUnavailable(f"Store: {path} is a folder; name a file in it.")
        if not create and not os.path.exists(self._path):
            raise StoreUnavailable(f"Store: there is no store {path}.")
        self._check_mark()
        self.turns: Turns = Turns(f"{self._path}-turn")

    def close(self) -> None:
        """Close all connections."""
        with self._lock, self._pool:
            self._closed = True
            for each in (*self._readers, self._writer):
                if each is not None:
                    each.close()
            self._readers, self._writer = [], None
            self.turns.close()

    @contextmanager
    def reading(self) -> Iterator[SqliteSession]:
        """Begin a transaction that reads one moment of the database."""
        with self._errors():
            connection = self._reader()
            try:
                connection.execute("BEGIN")
                yield SqliteSession(connection)
            except sqlite3.Error:
                connection.close()
                raise
            except BaseException:
                connection.execute("ROLLBACK")
                self._return(connection)
                raise
            connection.execute("COMMIT")
            self._return(connection)

    @contextmanager
    def writing(self) -> Iterator[SqliteSession]:
        """Begin a transaction that excludes other writers; at its end all is durable."""
        with self._lock, self._errors():
            connection = self._writing_connection()
            with self.turns.turn():
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield SqliteSession(connection)
                    connection.execute("COMMIT")
                except BaseException as error:
                    with suppress(sqlite3.Error):
                        if connection.in_transaction:  # a full disk has ended it already
                            connection.execute("ROLLBACK")
                    if isinstance(error, sqlite3.Error):  # begin again with what is on the disk
                        connection.close()
                        self._writer = None
                    raise

    def tables(self, session: Any) -> set[str]:
        """Return the names of the tables that are there."""
        rows = session.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name for (name,) in rows if not name.startswith("sqlite_")}

    def last_number(self, session: Any, table: str) -> int:
        """Return the last number that a table counted up to, also if its row was removed."""
        row = session.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return 0 if row is None else int(row[0])

    def set_last_number(self, session: Any, table: str, last: int) -> None:
        """Let a table count on from a number."""
        session.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        session.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, last))

    def nbytes(self, session: Any) -> int:
        """Return the size of the file and of its log."""
        return sum(
            os.path.getsize(self._path + end)
            for end in ("", "-wal")
            if os.path.exists(self._path + end)
        )

    def ledger_storage(self) -> "StoreLedgerFile":
        """Return the storage of the ledger in the same file."""
        return StoreLedgerFile(self._path)

    def scrub(self) -> None:
        """Empty the log, unless a reader needs it: removed rows are overwritten in the file."""
        with self._lock, self._errors():
            connection = self._writing_connection()
            connection.execute("PRAGMA busy_timeout = 1000")
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(1000 * WAIT)}")

    def _reader(self) -> sqlite3.Connection:
        with self._pool:
            self._check_open()
            if self._readers:
                return self._readers.pop()
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _return(self, connection: sqlite3.Connection) -> None:
        with self._pool:
            if self._closed:
                connection.close()
            else:
                self._readers.append(connection)

    def _writing_connection(self) -> sqlite3.Connection:
        self._check_open()
        if self._writer is None:
            fresh = not os.path.exists(self._path)
            connection = self._connect()
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{CACHE}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
            connection.execute("PRAGMA journal_size_limit = 67108864")
            connection.execute("PRAGMA secure_delete = ON")
            if fresh:
                _sync_folder(os.path.dirname(self._path))
            self._writer = connection
        return self._writer

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path,
            timeout=WAIT,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("Store: it is closed.")

    def _check_mark(self) -> None:
        """Raise unless the file is new, empty, or a store of ours."""
        if not os.path.exists(self._path) or os.path.getsize(self._path) == 0:
            return
        with self._errors():
            connection = self._connect()
            try:
                mark = connection.execute("PRAGMA application_id").fetchone()[0]
                tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            finally:
                connection.close()
        if mark == ledger_store.MARK:
            raise StoreDamaged(
                f"Store: {self.location} is a ledger; give the store a file of its own."
            )
        if mark != MARK and tables:
            raise StoreDamaged(f"Store: {self.location} is not a store of ours.")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of the store."""
        try:
            yield
        except sqlite3.OperationalError as error:
            reason = " ".join(str(error).split())
            if any(word in reason for word in ("malformed", "no such", "corrupt")):
                raise StoreDamaged(f"Store: {self.location} is damaged: {reason}.") from None
            raise StoreUnavailable(
                f"Store: {self.location} cannot be used now: {reason}. Nothing was acknowledged; "
                "make room or wait, then repeat."
            ) from None
        except sqlite3.IntegrityError as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"Store: {self.location} refuses the rows: {reason}.") from None
        except sqlite3.Error as error:
            reason = " ".join(str(error).split())
            raise StoreDamaged(
                f"Store: {self.location} is not a store of ours, or is damaged: {reason}."
            ) from None
        except OSError as error:
            if isinstance(error, SfumatoError):
                raise
            raise StoreUnavailable(
                f"Store: {self.location} cannot be used now: {error.strerror or error}."
            ) from None


class StoreLedgerFile(ledger_store.LedgerFile):
    """The tables of the ledger in the file of a store, on a connection of their own."""

    blob_limit: float = float("inf")
    embedded = True

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._turns = Turns(f"{path}-turn")

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        super().close()
        self._turns.close()

    def make(self, fresh: bool) -> None:
        """Refuse: the store made the tables, or its file is gone."""
        raise FileNotFoundError(f"Ledger: {self.path} is gone. Restore the store from a backup.")

    def sweep(self) -> None:
        """Do nothing: no temporary files are made."""

    @contextmanager
    def transaction(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction; one that writes waits its turn behind other writers."""
        turn = self._turns.turn() if write else nullcontext()
        with self._lock, turn, _unavailable(), super().transaction(write) as file:
            yield file

    def version(self, file: Any) -> int:
        """Return the version of the ledger's tables, which the schema of the store fixes."""
        return ledger_store.VERSION

    def check_mark(self, file: Any) -> None:
        """Raise LedgerDamaged unless the file is a store."""
        if file.execute("PRAGMA application_id").fetchone()[0] != MARK:
            raise ledger_store.LedgerDamaged(f"Ledger: {self.path} is not a store of ours.")

    def check_tables(self, file: Any) -> None:
        """Check the ledger's tables and triggers, and their pages."""
        ledger_store.check_tables(self.path, file, LEDGER)


@contextmanager
def _unavailable() -> Iterator[None]:
    """Raise what a ledger's file raises while it cannot be used, as on a full disk."""
    try:
        yield
    except OSError as error:
        if isinstance(error, SfumatoError):
            raise
        raise StoreUnavailable(str(error)) from None


def _sync_folder(folder: str) -> None:
    """Make a new name in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
