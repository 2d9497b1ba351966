"""The file of a ledger: its tables, its version, and transactions that survive a power cut."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["VERSION", "prepare", "reading", "writing"]

MARK = 0x53464C47  # SQLite's own place for saying whose file it is
VERSION = 1
WAIT = 120.0  # seconds for other processes, each of which holds the file for a moment

# Charges are never taken back, and bytes once stored never change: the file itself refuses.
TABLES = """
CREATE TABLE dataset (
    name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL,
    relation TEXT NOT NULL, parent TEXT REFERENCES dataset (name), created TEXT NOT NULL
);
CREATE TABLE charge (
    place INTEGER PRIMARY KEY, release_id TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL REFERENCES dataset (name), loss TEXT NOT NULL, what TEXT NOT NULL,
    stores INTEGER NOT NULL, charged TEXT NOT NULL, released TEXT, bytes BLOB
);
CREATE INDEX charge_of_dataset ON charge (dataset, loss);
CREATE TRIGGER charges_stand BEFORE DELETE ON charge
BEGIN SELECT RAISE (ABORT, 'a charge is never taken back'); END;
CREATE TRIGGER bytes_stay BEFORE UPDATE ON charge
WHEN OLD.bytes IS NOT NULL OR (OLD.place, OLD.release_id, OLD.dataset, OLD.loss, OLD.what,
    OLD.stores, OLD.charged) != (NEW.place, NEW.release_id, NEW.dataset, NEW.loss, NEW.what,
    NEW.stores, NEW.charged)
BEGIN SELECT RAISE (ABORT, 'a release is never changed'); END;
CREATE TRIGGER charges_are_new BEFORE INSERT ON charge
WHEN EXISTS (SELECT 1 FROM charge WHERE release_id = NEW.release_id OR place = NEW.place)
BEGIN SELECT RAISE (ABORT, 'a charge is never replaced'); END;
CREATE TRIGGER datasets_are_new BEFORE INSERT ON dataset
WHEN EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name OR rowid = NEW.rowid)
BEGIN SELECT RAISE (ABORT, 'a data set is never replaced'); END;
CREATE TRIGGER budgets_stay BEFORE UPDATE ON dataset
BEGIN SELECT RAISE (ABORT, 'a budget is never changed'); END;
CREATE TRIGGER datasets_stay BEFORE DELETE ON dataset
BEGIN SELECT RAISE (ABORT, 'a data set is never taken away'); END;
"""


def prepare(path: str) -> None:
    """Make the tables if the file is new; ValueError if it is something else."""
    with _open(path) as file:
        file.execute("BEGIN IMMEDIATE")
        empty = file.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if empty and _number(file, "application_id") == 0:
            for statement in _statements(TABLES):
                file.execute(statement)
            file.execute(f"PRAGMA application_id = {MARK}")
            file.execute(f"PRAGMA user_version = {VERSION}")
        _check(path, file)
        file.execute("COMMIT")
        file.execute("PRAGMA journal_mode = WAL")  # stays with the file


@contextmanager
def reading(path: str) -> Iterator[sqlite3.Connection]:
    """One consistent view of the file."""
    with _transaction(path, "BEGIN") as file:
        yield file


@contextmanager
def writing(path: str) -> Iterator[sqlite3.Connection]:
    """Alone with the file: what is read stays true until what is written is on the disk."""
    with _transaction(path, "BEGIN IMMEDIATE") as file:
        yield file


@contextmanager
def _transaction(path: str, begin: str) -> Iterator[sqlite3.Connection]:
    # A connection for each use: threads share none, and neither do processes that fork.
    if not os.path.exists(path):
        raise FileNotFoundError(f"Ledger: {path} is gone.")
    with _open(path) as file:
        _check(path, file)
        file.execute(begin)
        try:
            yield file
        except BaseException:
            file.execute("ROLLBACK")
            raise
        file.execute("COMMIT")


@contextmanager
def _open(path: str) -> Iterator[sqlite3.Connection]:
    try:
        file = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise OSError(f"Ledger: {path} cannot be opened: {error}.") from None
    try:
        file.execute("PRAGMA synchronous = FULL")
        file.execute("PRAGMA foreign_keys = ON")
        yield file
    except sqlite3.OperationalError as error:
        raise OSError(f"Ledger: {path} cannot be used: {error}.") from None
    except sqlite3.DataError:
        raise ValueError(f"Ledger: {path} keeps no more than a gigabyte of one release.") from None
    except sqlite3.DatabaseError as error:
        raise ValueError(f"Ledger: {path} is not a ledger of ours, or is damaged.") from error
    finally:
        file.close()


def _check(path: str, file: sqlite3.Connection) -> None:
    if _number(file, "application_id") != MARK:
        raise ValueError(f"Ledger: {path} is not a ledger of ours.")
    version = _number(file, "user_version")
    if version != VERSION:
        raise ValueError(
            f"Ledger: {path} has version {version}, and this program reads {VERSION}. "
            "Use the program that wrote it."
        )


def _number(file: sqlite3.Connection, pragma: str) -> int:
    return int(file.execute(f"PRAGMA {pragma}").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """One by one, as executescript would end the transaction that they belong to."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
