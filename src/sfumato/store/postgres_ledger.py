"""The ledger on PostgreSQL: the tables and triggers of its file, and transactions that exclude."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from sfumato.privacy.ledger import store as ledger_store
from sfumato.store.postgres import SCHEMA, PostgresConnection, translated

__all__ = ["PostgresLedgerStorage", "lay_tables"]

TABLES = """
CREATE TABLE head (
    id bigint PRIMARY KEY CHECK (id = 1), entries bigint NOT NULL, chain text NOT NULL
);
CREATE TABLE dataset (
    place bigint PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
    epsilon double precision NOT NULL, delta double precision NOT NULL, unit text NOT NULL,
    relation text NOT NULL, parent text, created text NOT NULL, chain text NOT NULL
);
CREATE TABLE charge (
    place bigint PRIMARY KEY, release_id text COLLATE "C" NOT NULL UNIQUE, dataset text NOT NULL,
    loss text NOT NULL, what text NOT NULL, stores bigint NOT NULL, charged text NOT NULL,
    chain text NOT NULL
);
CREATE TABLE stored (
    place bigint PRIMARY KEY, release_id text COLLATE "C" NOT NULL UNIQUE, released text NOT NULL,
    nbytes bigint NOT NULL, digest text NOT NULL, chain text NOT NULL, bytes bytea
);
CREATE TABLE running (
    dataset text COLLATE "C" PRIMARY KEY, place bigint NOT NULL, epsilon double precision NOT NULL,
    sums text NOT NULL, seal text NOT NULL
);
CREATE TABLE product (
    dataset text COLLATE "C" PRIMARY KEY, place bigint NOT NULL, seal text NOT NULL,
    body bytea NOT NULL
);
"""
FUNCTION = """
CREATE FUNCTION ledger_refuses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '%', TG_ARGV[0]; END $$
"""
# Name, what it guards, and what the database says; each is as in the ledger's file.
TRIGGERS = {
    "head_grows": (
        "BEFORE UPDATE ON head FOR EACH ROW WHEN (NEW.entries <= OLD.entries)",
        "the head of a ledger never goes back",
    ),
    "spending_grows": (
        "BEFORE UPDATE ON running FOR EACH ROW "
        "WHEN (NEW.epsilon < OLD.epsilon OR NEW.place < OLD.place)",
        "what is spent never becomes less",
    ),
    "charges_stand": ("BEFORE DELETE ON charge FOR EACH ROW", "a charge is never taken back"),
    "charges_stay": ("BEFORE UPDATE ON charge FOR EACH ROW", "a charge is never changed"),
    "charges_remain": ("BEFORE TRUNCATE ON charge", "a charge is never taken back"),
    "releases_stand": ("BEFORE DELETE ON stored FOR EACH ROW", "a release is never taken back"),
    "releases_stay": ("BEFORE UPDATE ON stored FOR EACH ROW", "a release is never changed"),
    "releases_remain": ("BEFORE TRUNCATE ON stored", "a release is never taken back"),
    "budgets_stay": ("BEFORE UPDATE ON dataset FOR EACH ROW", "a budget is never changed"),
    "datasets_stay": ("BEFORE DELETE ON dataset FOR EACH ROW", "a data set is never taken away"),
    "datasets_remain": ("BEFORE TRUNCATE ON dataset", "a data set is never taken away"),
}


def lay_tables(session: Any) -> None:
    """Create the tables of a ledger without entries."""
    for statement in ledger_store.statements(TABLES):
        session.execute(statement)
    session.execute(FUNCTION)
    for name, (event, sentence) in TRIGGERS.items():
        session.execute(
            f"CREATE TRIGGER {name} {event} EXECUTE FUNCTION ledger_refuses('{sentence}')"
        )
    session.execute("INSERT INTO head VALUES (1, 0, '')")


class PostgresLedgerStorage:
    """A ledger's tables in PostgreSQL, on one connection; threads take turns.

    A transaction that writes locks the head of the ledger against all others that write, in any
    process, until it is durable; so charges are in one order, as in the ledger's file.
    """

    blob_limit: float = float("inf")
    blobs = ""

    def __init__(self, connect: Callable[[], PostgresConnection], location: str) -> None:
        self.path = location
        self._connect = connect
        self._lock = threading.RLock()
        self._connection: PostgresConnection | None = None
        self._connections = 0

    @property
    def identity(self) -> tuple[int, ...] | None:
        """Number of the connection: tables are checked anew on each."""
        return None if self._connection is None else (self._connections,)

    def exists(self) -> bool:
        """Return True: the store made the tables."""
        return True

    def make(self, fresh: bool) -> None:
        """Do nothing: the store made the tables."""

    def sweep(self) -> None:
        """Do nothing: there are no temporary files."""

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    @contextmanager
    def transaction(self, write: bool) -> Iterator[PostgresConnection]:
        """Open a transaction: a consistent view, or exclusive writing until all is durable."""
        with self._lock, translated(self.path, ledger_store.LedgerDamaged):
            connection = self._begun(
                "BEGIN" if write else "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            )
            try:
                if write:
                    connection.execute("LOCK TABLE head IN EXCLUSIVE MODE")
                yield connection
                connection.commit()
            finally:
                if not connection.usable:  # an error left it open, or the server is gone
                    self.close()

    def version(self, file: Any) -> int:
        """Return the version of the ledger's tables, which the schema of the store fixes."""
        return ledger_store.VERSION

    def check_tables(self, file: Any) -> None:
        """Check that the triggers that guard the entries are there and enabled."""
        rows = file.execute(
            "SELECT t.tgname::text, t.tgenabled::text FROM pg_trigger t "
            "JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND NOT t.tgisinternal",
            (SCHEMA,),
        ).fetchall()
        if dict(rows) != dict.fromkeys(TRIGGERS, "O"):
            raise ledger_store.LedgerDamaged(
                f"Ledger: {self.path} is damaged: its triggers are not as they were made."
            )

    def _begun(self, begin: str) -> PostgresConnection:
        """Begin a transaction, on a new connection if the server has dropped the old one."""
        if self._connection is not None and self._connection.usable:
            with suppress(psycopg.OperationalError):
                self._connection.execute(begin)
                return self._connection
        self.close()
        self._connection = self._connect()
        self._connections += 1
        self._connection.execute(begin)
        return self._connection
