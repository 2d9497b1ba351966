"""The file of a ledger: its tables, transactions that survive a power cut, and blobs."""

import ctypes
import fcntl
import hashlib
import os
import shutil
import sqlite3
import stat
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

from sfumato.errors import LedgerDamaged

__all__ = [
    "BLOB",
    "TABLES",
    "LedgerConnection",
    "LedgerDamaged",
    "LedgerFile",
    "LedgerStorage",
    "check_tables",
    "checked_bytes",
    "lay_out",
    "lay_tables",
    "read_blob",
    "settle_blob",
    "statements",
    "version",
    "write_blob",
]

MARK = 0x53464C47  # SQLite's field for the application of a file
VERSION = 2
WAIT = 120.0  # seconds for other processes, each of which locks the file for a moment
BLOB = 2**16  # bytes of a release stored inside the file; larger ones are stored beside it

# Entries are data sets, charges and stored releases, numbered together; each one's chain covers
# itself and the chain before it. They are never changed or taken away: the file itself refuses.
TABLES = """
CREATE TABLE head (
    id INTEGER PRIMARY KEY CHECK (id = 1), entries INTEGER NOT NULL, chain TEXT NOT NULL
);
CREATE TABLE dataset (
    place INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, epsilon REAL NOT NULL,
    delta REAL NOT NULL, unit TEXT NOT NULL, relation TEXT NOT NULL, parent TEXT,
    created TEXT NOT NULL, chain TEXT NOT NULL
);
CREATE TABLE charge (
    place INTEGER PRIMARY KEY, release_id TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL,
    loss TEXT NOT NULL, what TEXT NOT NULL, stores INTEGER NOT NULL, charged TEXT NOT NULL,
    chain TEXT NOT NULL
);
CREATE TABLE stored (
    place INTEGER PRIMARY KEY, release_id TEXT NOT NULL UNIQUE, released TEXT NOT NULL,
    nbytes INTEGER NOT NULL, digest TEXT NOT NULL, chain TEXT NOT NULL, bytes BLOB
);
CREATE TABLE running (
    dataset TEXT PRIMARY KEY, place INTEGER NOT NULL, epsilon REAL NOT NULL, sums TEXT NOT NULL,
    seal TEXT NOT NULL
);
CREATE TABLE product (
    dataset TEXT PRIMARY KEY, place INTEGER NOT NULL, seal TEXT NOT NULL, body BLOB NOT NULL
);
CREATE TRIGGER head_grows BEFORE UPDATE ON head WHEN NEW.entries <= OLD.entries
BEGIN SELECT RAISE (ABORT, 'the head of a ledger never goes back'); END;
CREATE TRIGGER spending_grows BEFORE UPDATE ON running
WHEN NEW.epsilon < OLD.epsilon OR NEW.place < OLD.place
BEGIN SELECT RAISE (ABORT, 'what is spent never becomes less'); END;
CREATE TRIGGER charges_stand BEFORE DELETE ON charge
BEGIN SELECT RAISE (ABORT, 'a charge is never taken back'); END;
CREATE TRIGGER charges_stay BEFORE UPDATE ON charge
BEGIN SELECT RAISE (ABORT, 'a charge is never changed'); END;
CREATE TRIGGER charges_are_new BEFORE INSERT ON charge
WHEN EXISTS (SELECT 1 FROM charge WHERE release_id = NEW.release_id OR place = NEW.place)
BEGIN SELECT RAISE (ABORT, 'a charge is never replaced'); END;
CREATE TRIGGER releases_stand BEFORE DELETE ON stored
BEGIN SELECT RAISE (ABORT, 'a release is never taken back'); END;
CREATE TRIGGER releases_stay BEFORE UPDATE ON stored
BEGIN SELECT RAISE (ABORT, 'a release is never changed'); END;
CREATE TRIGGER releases_are_new BEFORE INSERT ON stored
WHEN EXISTS (SELECT 1 FROM stored WHERE release_id = NEW.release_id OR place = NEW.place)
BEGIN SELECT RAISE (ABORT, 'a release is never replaced'); END;
CREATE TRIGGER datasets_are_new BEFORE INSERT ON dataset
WHEN EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name OR place = NEW.place)
BEGIN SELECT RAISE (ABORT, 'a data set is never replaced'); END;
CREATE TRIGGER budgets_stay BEFORE UPDATE ON dataset
BEGIN SELECT RAISE (ABORT, 'a budget is never changed'); END;
CREATE TRIGGER datasets_stay BEFORE DELETE ON dataset
BEGIN SELECT RAISE (ABORT, 'a data set is never taken away'); END;
"""


class LedgerConnection(Protocol):
    """What a transaction runs statements on: SQLite's connection, or one that looks like it."""

    def execute(self, statement: str, parameters: Any = (), /) -> Any: ...


class LedgerStorage(Protocol):
    """Where a ledger is stored: the tables above, and transactions on them.

    path: name of the file or database, without secrets. blob_limit: bytes of a release stored in
    the tables; a storage without a folder beside it has no limit.
    """

    path: str
    blob_limit: float

    @property
    def blobs(self) -> str: ...

    @property
    def identity(self) -> tuple[int, ...] | None: ...

    def exists(self) -> bool: ...

    def make(self, fresh: bool) -> None: ...

    def sweep(self) -> None: ...

    def close(self) -> None: ...

    def transaction(self, write: bool) -> AbstractContextManager[LedgerConnection]: ...

    def version(self, file: LedgerConnection) -> int: ...

    def check_tables(self, file: LedgerConnection) -> None: ...


class LedgerFile:
    """A path, and the one connection to its file, which stays open between transactions.

    Threads take turns. A fork closes the connection first, in an idle moment, so that parent and
    child each open their own. The path is checked before each transaction: a file that is gone is
    not made anew, and one that replaced it is opened instead of the old one.
    """

    blob_limit: float = BLOB
    embedded = False  # whether the file is that of a store, which has other tables too

    def __init__(self, path: str) -> None:
        self.path = path
        self.opened = False  # whether a file was ever found there
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, ...] | None = None
        _OPEN.add(self)

    @property
    def blobs(self) -> str:
        """Folder of large releases."""
        return f"{self.path}.blobs"

    @property
    def identity(self) -> tuple[int, ...] | None:
        """Device and inode of the open file."""
        return None if self._identity is None else self._identity[:2]

    def exists(self) -> bool:
        """Return whether there is a file."""
        return os.path.exists(self.path)

    def version(self, file: LedgerConnection) -> int:
        """Return the version of the tables."""
        return version(file)

    def check_tables(self, file: LedgerConnection) -> None:
        """Check that tables and triggers are as written, and SQLite's pages intact."""
        check_tables(self.path, file)

    def check_mark(self, file: LedgerConnection) -> None:
        """Raise LedgerDamaged unless the file is a ledger of a known version."""
        _check(self.path, file)

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = self._identity = None

    def make(self, fresh: bool) -> None:
        """Make a new ledger without entries, atomically; not over an existing one.

        fresh: also where there are signs that a ledger was here.
        """
        if os.path.exists(self.path):
            return
        left = [end for end in ("-wal", ".blobs") if os.path.exists(self.path + end)]
        if (self.opened or left) and not fresh:
            signs = f", and {os.path.basename(self.path)}{left[0]} is left of it" if left else ""
            raise FileNotFoundError(
                f"Ledger: {self.path} is gone{signs}. Restore it, or what was spent is forgotten; "
                "create(..., new_file=True) begins anew."
            )
        if "-wal" in left:
            os.unlink(self.path + "-wal")  # of the ledger that is given up
        with _errors(self.path), _temporary_folder(self.path) as folder:
            part = os.path.join(folder, "ledger")
            _write_new(part)
            _publish(part, self.path)

    def sweep(self) -> None:
        """Remove leftovers of processes that were killed while they made this ledger."""
        folder, name = os.path.split(self.path)
        for each in os.listdir(folder):
            if each.startswith(f"{name}.") and each.endswith(".part"):
                left_behind = os.path.join(folder, each)
                with suppress(OSError):
                    handle = _lock(left_behind, wait=False)
                    shutil.rmtree(left_behind, ignore_errors=True)
                    os.close(handle)

    @contextmanager
    def transaction(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Open a transaction: a consistent view, or exclusive writing until all is on the disk."""
        with self._lock, _errors(self.path):
            file = self._current()
            file.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield file
                file.execute("COMMIT")
            finally:
                if file.in_transaction:  # a full disk has ended it already
                    file.execute("ROLLBACK")
            if write and self._identity != self._there():
                # Closing would copy what it wrote over what others wrote since: it stays open.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))
                self._connection = self._identity = None
                raise OSError(
                    f"Ledger: {self.path} or its write-ahead log was moved away while it was "
                    "written; look into its history before the next release."
                )

    def _current(self) -> sqlite3.Connection:
        """Return the open connection, reopened where the path now names another file."""
        if not os.path.exists(self.path):
            self._drop()
            raise FileNotFoundError(
                f"Ledger: {self.path} is {'gone' if self.opened else 'not there'}; restore it, or "
                "create a data set first, which makes the ledger."
            )
        if self._connection is not None and self._identity == self._there():
            return self._connection
        self._drop()
        if os.path.getsize(self.path) == 0:
            raise LedgerDamaged(
                f"Ledger: {self.path} is empty, and no ledger; restore it, or remove the file."
            )
        self._connection = self._connect()
        self.opened = True
        self._identity = self._there()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        """Open a connection in WAL mode, after checking the file."""
        file = sqlite3.connect(
            self.path, timeout=WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            file.execute("PRAGMA synchronous = FULL")
            self.check_mark(file)
            if file.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                file.execute("PRAGMA journal_mode = WAL")
            file.execute("SELECT count(*) FROM sqlite_master").fetchone()  # now its log is there
        except BaseException:
            file.close()
            raise
        return file

    def _there(self) -> tuple[int, ...] | None:
        """Return device and inode of the file and of its write-ahead log at the path.

        A program that opens and closes the file by itself drops SQLite's locks on it in the same
        process; another process may then remove the log that this connection still writes to.
        """
        try:
            both = [os.stat(self.path + end) for end in ("", "-wal")]
        except FileNotFoundError:
            return None
        return tuple(number for each in both for number in (each.st_dev, each.st_ino))

    def _drop(self) -> None:
        """Close a connection whose file or log was moved away.

        SQLite leaves a moved file alone, but would remove the log of that name, which may be
        another's: it is stored under a second name meanwhile.
        """
        if self._connection is None:
            return
        log, second_name = f"{self.path}-wal", f"{self.path}-wal.{uuid.uuid4().hex}"
        with suppress(OSError):
            os.link(log, second_name)
        self.close()
        if os.path.exists(second_name):
            with suppress(FileExistsError):
                os.link(second_name, log)
            os.unlink(second_name)


_OPEN: "weakref.WeakSet[LedgerFile]" = weakref.WeakSet()
_LOCKED: list[LedgerFile] = []  # during a fork


def _before_fork() -> None:
    for each in list(_OPEN):
        each._lock.acquire()
        _LOCKED.append(each)
        if each._connection is not None and not each._connection.in_transaction:
            each.close()


def _after_fork() -> None:
    while _LOCKED:
        _LOCKED.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Raise errors of SQLite as errors of the ledger."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = " ".join(str(error).split())
        if "decode" in reason:
            raise LedgerDamaged(f"Ledger: {path} is damaged: a text in it is none.") from None
        if any(word in reason for word in ("malformed", "no such", "corrupt")):
            raise LedgerDamaged(f"Ledger: {path} is damaged: {reason}.") from None
        raise OSError(f"Ledger: {path} cannot be used: {reason}.") from None
    except sqlite3.DatabaseError as error:
        reason = " ".join(str(error).split())
        raise LedgerDamaged(
            f"Ledger: {path} is not a ledger of ours, or is damaged: {reason}."
        ) from None
    except (UnicodeError, OverflowError, RecursionError, sqlite3.Error) as error:
        raise LedgerDamaged(f"Ledger: {path} is damaged: {type(error).__name__}.") from None


def _check(path: str, file: LedgerConnection) -> None:
    if _number(file, "application_id") != MARK:
        raise LedgerDamaged(f"Ledger: {path} is not a ledger of ours, or its beginning is damaged.")
    version = _number(file, "user_version")
    if version not in (1, VERSION):
        raise LedgerDamaged(
            f"Ledger: {path} has version {version}, and this program reads 1 and {VERSION}. "
            "Use the program that wrote it, or a backup if the file is damaged."
        )


def version(file: LedgerConnection) -> int:
    """Return the version of the file's tables."""
    return _number(file, "user_version")


def lay_out(file: LedgerConnection) -> None:
    """Create the tables of a ledger without entries."""
    lay_tables(file)
    file.execute(f"PRAGMA application_id = {MARK}")
    file.execute(f"PRAGMA user_version = {VERSION}")


def lay_tables(file: LedgerConnection) -> None:
    """Create the tables alone, as in a file that has others."""
    for statement in statements(TABLES):
        file.execute(statement)
    file.execute("INSERT INTO head VALUES (1, 0, '')")


def check_tables(path: str, file: LedgerConnection, names: tuple[str, ...] = ()) -> None:
    """Check that tables and triggers are as written, and SQLite's pages intact.

    names: the ledger's tables in a file that has others; none if all are the ledger's.
    """
    only = f" AND tbl_name IN ({', '.join('?' * len(names))})" if names else ""
    made = f"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL{only}"
    found = Counter(file.execute(made, names))
    if found != Counter((each.rstrip(";"),) for each in statements(TABLES)):
        raise LedgerDamaged(f"Ledger: {path} is damaged: its tables are not as they were made.")
    for extent in names or ("1",):
        sound = file.execute(f"PRAGMA integrity_check ({extent})").fetchone()[0]
        if sound != "ok":
            reason = " ".join(str(sound).split())
            raise LedgerDamaged(f"Ledger: {path} is damaged: {reason}.")


def write_blob(folder: str, data: bytes, known: set[str]) -> str:
    """Store bytes durably before an entry refers to them; return their SHA-256.

    For the one process in the write transaction. They have the name of a part until `settle_blob`.
    Of parts that killed processes left, those that an entry knows get their name, so that nothing
    is written over them; others were never released, and are removed.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name in os.listdir(folder):
        left = name.removesuffix(".part")
        if left != name and left in known:
            settle_blob(folder, left)
        elif left != name:
            os.unlink(os.path.join(folder, name))
    digest = hashlib.sha256(data).hexdigest()
    part = os.path.join(folder, f"{digest}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    _sync(folder)
    _sync(os.path.dirname(folder))
    return digest


def settle_blob(folder: str, digest: str) -> None:
    """Give the bytes their final name, now that an entry refers to them."""
    with suppress(OSError):  # they are read under the name of a part as well
        os.replace(os.path.join(folder, f"{digest}.part"), os.path.join(folder, digest))
        _sync(folder)


def read_blob(folder: str, digest: str, size: int, release_id: str) -> bytes:
    """Return the bytes of that hash and size; LedgerDamaged where they are missing or altered."""
    name = os.path.join(os.path.basename(folder), digest)
    data = None
    for end in (".part", ""):
        with suppress(FileNotFoundError):
            data = _read_regular(os.path.join(folder, digest + end), size)
    if data is None:
        raise LedgerDamaged(
            f"Ledger: the bytes of release {release_id!r} belong in {name}, which is missing; "
            "restore that file. The charge stands."
        )
    return checked_bytes(data, digest, release_id, name)


def _read_regular(path: str, size: int) -> bytes:
    """Return the bytes of a regular file of this size; b"" for a device, a pipe or another size."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        complete = stat.S_ISREG(found.st_mode) and found.st_size == size
        return file.read(size) if complete else b""


def checked_bytes(data: bytes, digest: str, release_id: str, where: str) -> bytes:
    """Return the bytes if they have that hash, else raise LedgerDamaged."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise LedgerDamaged(
            f"Ledger: the bytes of release {release_id!r} in {where} were altered; restore "
            "them. The charge stands."
        )
    return data


@contextmanager
def _temporary_folder(path: str) -> Iterator[str]:
    """Make a folder beside a file, removed at the end; a lock shows that it is in use."""
    folder, handle = _locked_folder(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _locked_folder(path: str) -> tuple[str, int]:
    while True:
        folder = f"{path}.{uuid.uuid4().hex}.part"
        try:
            os.mkdir(folder, mode=0o700)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        with suppress(FileNotFoundError):  # taken for that of a killed process, before the lock
            handle = _lock(folder)
            if os.path.exists(folder):
                return folder, handle
            os.close(handle)


def _lock(folder: str, wait: bool = True) -> int:
    """Lock a folder until the handle is closed or the process ends; OSError where it is locked."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _write_new(path: str) -> None:
    """Write a new ledger file with its tables."""
    file = sqlite3.connect(path, isolation_level=None)
    try:
        file.execute("PRAGMA synchronous = FULL")
        file.execute("BEGIN IMMEDIATE")
        lay_out(file)
        file.execute("COMMIT")
        file.execute("PRAGMA journal_mode = WAL")  # stays with the file
    finally:
        file.close()


def _publish(part: str, path: str) -> None:
    """Give a complete file its name, but never over a file that another process made meanwhile."""
    try:
        os.link(part, path)
    except FileExistsError:
        return
    except OSError:  # a disk without second names
        if not os.path.exists(path):
            os.rename(part, path)
    _sync(os.path.dirname(path))


def _sync(folder: str) -> None:
    """Make new names in a folder durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _number(file: LedgerConnection, pragma: str) -> int:
    return int(file.execute(f"PRAGMA {pragma}").fetchone()[0])


def statements(script: str) -> Iterator[str]:
    """Split a script into statements: executescript would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
