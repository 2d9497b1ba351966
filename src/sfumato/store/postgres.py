"""PostgreSQL as the database of a store: version 15 or newer, in a schema of its own."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sfumato.errors import StoreDamaged, StoreUnavailable
from sfumato.store.events import EventBatch

try:
    import psycopg
    from psycopg.adapt import Dumper
except ImportError:  # pragma: no cover - the extra is installed in tests
    raise StoreUnavailable(
        "Store: PostgreSQL needs psycopg; install it by `pip install sfumato[postgres]`."
    ) from None

__all__ = ["PostgresBackend", "PostgresConnection", "location_of", "translated"]

OLDEST = 150_000  # server_version_num
SCHEMA = "sfumato"
WRITERS = 0x53465354  # key of the advisory lock that orders writers
APPEND = (
    "INSERT INTO event (user_id, item_id, value, time, event_id) "
    "SELECT * FROM unnest(%s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[]) "
    "ON CONFLICT (event_id) DO NOTHING"
)


class ArrayText(str):
    """An array as PostgreSQL writes it, sent without another conversion."""

    __slots__ = ()


class ArrayTextDumper(Dumper):
    """Sends the text of an array as it is; the statement names its type."""

    def dump(self, obj: Any) -> bytes:
        """Return the bytes to send."""
        return str(obj).encode()


class PostgresConnection:
    """A connection whose statements have ``?`` for parameters, as those of SQLite."""

    def __init__(self, address: str, location: str) -> None:
        with translated(location):
            self.connection = psycopg.connect(
                address, autocommit=True, connect_timeout=10, application_name="sfumato"
            )
        self.connection.adapters.register_dumper(ArrayText, ArrayTextDumper)
        try:
            with translated(location):
                self._check(location)
        except BaseException:
            self.connection.close()
            raise

    @property
    def usable(self) -> bool:
        """Whether the connection is open and in no transaction."""
        if self.connection.closed:
            return False
        return self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> Any:
        """Run a statement."""
        query: Any = statement.replace("?", "%s") if parameters else statement
        return self.connection.execute(query, parameters or None, binary=True)

    def make_schema(self) -> None:
        """Make the schema that the store's tables are in, where it is missing and permitted."""
        found = self.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (SCHEMA,))
        if found.fetchone() is None:
            self.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")

    def commit(self) -> None:
        """End the transaction; raise unless the server says that all of it is committed."""
        if self.connection.execute("COMMIT").statusmessage != "COMMIT":
            raise psycopg.OperationalError("the transaction was rolled back")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _check(self, location: str) -> None:
        """Check the server and set what durability rests on."""
        if self.connection.info.server_version < OLDEST:
            raise StoreUnavailable(
                f"Store: {location} is PostgreSQL {self.connection.info.server_version // 10_000}, "
                "and 15 or newer is needed."
            )
        if self.execute("SHOW fsync").fetchone()[0] != "on":
            raise StoreUnavailable(
                f"Store: {location} runs with fsync off, so nothing it commits is durable; turn it "
                "on."
            )
        if self.execute("SHOW server_encoding").fetchone()[0] != "UTF8":
            raise StoreUnavailable(f"Store: {location} must be a database of encoding UTF8.")
        self.execute("SET synchronous_commit = on")
        self.execute(f"SET search_path = {SCHEMA}")
        self.execute("SET client_encoding = 'UTF8'")


class PostgresSession:
    """A transaction of PostgreSQL."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self.execute: Callable[..., Any] = connection.execute

    def stream(self, statement: str, rows: int) -> Iterator[list[Any]]:
        """Run a statement, and yield its result in pieces of so many rows."""
        with self._connection.connection.cursor("stream", binary=True) as cursor:
            query: Any = statement
            cursor.execute(query)
            while piece := cursor.fetchmany(rows):
                yield piece

    def insert_many(self, table: str, columns: Sequence[str], rows: Sequence[Any]) -> None:
        """Insert rows into a table."""
        with self._connection.connection.cursor() as cursor:
            copied: Any = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
            with cursor.copy(copied) as copy:
                for row in rows:
                    copy.write_row(row)

    def append(self, batches: Sequence[EventBatch]) -> list[int]:
        """Append events by one statement; only where some are duplicates, find out which."""
        columns = [[value for part in parts for value in part] for parts in _columns(batches)]
        arrays = (
            _text_array(columns[0]),
            _text_array(columns[1]),
            _number_array(columns[2]),
            _number_array(columns[3]),
            _text_array(columns[4]),
        )
        self.execute("SAVEPOINT append")
        done = self._connection.connection.execute(APPEND, arrays).rowcount
        if done == len(columns[0]):
            counts = [len(batch) for batch in batches]
        else:
            self.execute("ROLLBACK TO SAVEPOINT append")
            statement = f"{APPEND} RETURNING event_id"
            rows = self._connection.connection.execute(statement, arrays, binary=True).fetchall()
            counts = _new_of_each(batches, {event_id for (event_id,) in rows})
        self.execute("RELEASE SAVEPOINT append")
        return counts


class PostgresBackend:
    """The database, one connection that writes, and some that read."""

    name = "postgresql"

    def __init__(self, address: str) -> None:
        self._address = address
        self.location: str = location_of(address)
        self._lock = threading.RLock()  # of the connection that writes
        self._pool = threading.Lock()  # of those that read
        self._writer: PostgresConnection | None = None
        self._readers: list[PostgresConnection] = []
        self._closed = False
        connection = self.connect()
        with translated(self.location):
            connection.make_schema()
        self._readers.append(connection)

    def connect(self) -> PostgresConnection:
        """Open a connection."""
        return PostgresConnection(self._address, self.location)

    def close(self) -> None:
        """Close all connections."""
        with self._lock, self._pool:
            self._closed = True
            for each in (*self._readers, self._writer):
                if each is not None:
                    each.close()
            self._readers, self._writer = [], None

    @contextmanager
    def reading(self) -> Iterator[PostgresSession]:
        """Begin a transaction that reads one moment of the database."""
        with translated(self.location):
            connection = self._begun(
                self._reader(), "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            )
            try:
                yield PostgresSession(connection)
                connection.commit()
            finally:
                _roll_back(connection)
                self._return(connection)

    @contextmanager
    def writing(self) -> Iterator[PostgresSession]:
        """Begin a transaction that excludes other writers; at its end all is durable.

        With one writer at a time sequence numbers are in the order of commits.
        """
        with self._lock, translated(self.location):
            if self._closed:
                raise StoreUnavailable("Store: it is closed.")
            connection = self._writer = self._begun(self._writer, "BEGIN")
            try:
                connection.execute(f"SELECT pg_advisory_xact_lock({WRITERS})")
                yield PostgresSession(connection)
                connection.commit()
            finally:
                _roll_back(connection)

    def tables(self, session: Any) -> set[str]:
        """Return the names of the store's tables that are there."""
        rows = session.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = ?", (SCHEMA,)
        ).fetchall()
        return {name for (name,) in rows}

    def last_number(self, session: Any, table: str) -> int:
        """Return the last number that a table counted up to, also if its row was removed."""
        row = session.execute(f"SELECT last_value, is_called FROM {_sequence(table)}").fetchone()
        return int(row[0]) if row[1] else int(row[0]) - 1

    def set_last_number(self, session: Any, table: str, last: int) -> None:
        """Let a table count on from a number."""
        session.execute("SELECT setval(?::regclass, ?, false)", (_sequence(table), last + 1))

    def nbytes(self, session: Any) -> int:
        """Return the size of the store's tables and indices."""
        row = session.execute(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relkind = 'r'",
            (SCHEMA,),
        ).fetchone()
        return int(row[0])

    def ledger_storage(self) -> Any:
        """Return the storage of the ledger in the same database."""
        from sfumato.store.postgres_ledger import PostgresLedgerStorage

        return PostgresLedgerStorage(self.connect, self.location)

    def scrub(self) -> None:
        """Free the rows that were removed, as far as no reader needs them."""
        with translated(self.location):
            connection = self.connect()
            try:
                connection.execute("VACUUM event")
            finally:
                connection.close()

    def _begun(self, connection: PostgresConnection | None, begin: str) -> PostgresConnection:
        """Begin a transaction, on a new connection if the server has dropped this one."""
        if connection is not None and connection.usable:
            with suppress(psycopg.OperationalError):
                connection.execute(begin)
                return connection
        if connection is not None:
            connection.close()
        connection = self.connect()
        connection.execute(begin)
        return connection

    def _reader(self) -> PostgresConnection | None:
        with self._pool:
            if self._closed:
                raise StoreUnavailable("Store: it is closed.")
            return self._readers.pop() if self._readers else None

    def _return(self, connection: PostgresConnection) -> None:
        with self._pool:
            if self._closed or not connection.usable:
                connection.close()
            else:
                self._readers.append(connection)


def location_of(address: str) -> str:
    """Return an address without password and parameters."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    user = parts.netloc.rpartition("@")[0].partition(":")[0]
    return urlunsplit((parts.scheme, f"{user}@{host}" if user else host, parts.path, "", ""))


@contextmanager
def translated(location: str, damaged: Callable[[str], Exception] = StoreDamaged) -> Iterator[None]:
    """Raise errors of PostgreSQL as errors of the store."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        reason = _reason(error)
        raise StoreUnavailable(
            f"Store: {location} cannot be used now: {reason}. Nothing was acknowledged; repeat "
            "later."
        ) from None
    except psycopg.IntegrityError as error:
        raise ValueError(f"Store: {location} refuses the rows: {_reason(error)}.") from None
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction) as error:
        raise StoreUnavailable(
            f"Store: {location} refuses: {_reason(error)}; grant it to the user."
        ) from None
    except psycopg.Error as error:
        raise damaged(f"Store: {location} is damaged, or no store: {_reason(error)}.") from None


def _reason(error: psycopg.Error) -> str:
    """Return what happened, without values of rows, which PostgreSQL puts into its details."""
    primary = error.diag.message_primary
    text = primary if primary else str(error).partition("\n")[0]
    return " ".join(text.split()).rstrip(".")


def _roll_back(connection: PostgresConnection) -> None:
    if not connection.connection.closed and not connection.usable:
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")


def _sequence(table: str) -> str:
    column = {"event": "seq", "erasure": "number"}[table]
    return f"{SCHEMA}.{table}_{column}_seq"


def _columns(batches: Sequence[EventBatch]) -> Iterator[tuple[list[Any], ...]]:
    return zip(*(batch.lists() for batch in batches), strict=True)


def _text_array(values: Sequence[str]) -> ArrayText:
    """Write texts as an array; only those with a quote or backslash are escaped one by one."""
    joined = '","'.join(values)
    if "\\" in joined or joined.count('"') != 2 * (len(values) - 1):
        joined = '","'.join(value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return ArrayText(f'{{"{joined}"}}' if values else "{}")


def _number_array(values: Sequence[float]) -> ArrayText:
    return ArrayText(f"{{{','.join(map(repr, values))}}}")


def _new_of_each(batches: Sequence[EventBatch], inserted: set[str]) -> list[int]:
    """Count the inserted ids of each batch; of equal ids the first was inserted."""
    counts = []
    for batch in batches:
        new = 0
        for event_id in batch.lists()[4]:
            if event_id in inserted:
                inserted.discard(event_id)
                new += 1
        counts.append(new)
    return counts
