"""Open, migrate and restore stores by path or address."""

import os
from pathlib import Path
from typing import Any

from sfumato.store import backup as _backup
from sfumato.store import schema as _schema
from sfumato.store.backend import Backend
from sfumato.store.store import WAITING, Store

__all__ = ["migrate_store", "open_store", "restore_store"]

POSTGRES = ("postgresql://", "postgres://")


def open_store(
    location: str | os.PathLike[str],
    *,
    create: bool = True,
    waiting_limit: int = WAITING,
) -> Store:
    """Open the store at a path (SQLite) or an address (PostgreSQL).

    Parameters
    ----------
    location : path_like
        Path of a SQLite file, or ``postgresql://user:password@host:port/database``. PostgreSQL
        needs version 15 or newer and the extra ``sfumato[postgres]``.
    create : bool, default=True
        Whether to make the tables where there are none; otherwise that is an error.
    waiting_limit : int, default=200000
        Number of events that may wait for the disk; more are refused by `StoreUnavailable`.

    Returns
    -------
    Store
        The open store; close it, or use it in a ``with`` block.

    Raises
    ------
    StoreVersionError
        If the tables have another version than this program: a newer one needs a newer program,
        an older one `migrate_store`.
    StoreUnavailable
        If the database cannot be reached.

    Examples
    --------
    >>> import tempfile
    >>> with open_store(tempfile.mkdtemp() + "/shop.db") as store:
    ...     store.info().backend
    'sqlite'
    """
    backend = _backend(location, create)
    try:
        _schema.prepare(backend, create)
        return Store(backend, waiting_limit=waiting_limit)
    except BaseException:
        backend.close()
        raise


def migrate_store(location: str | os.PathLike[str]) -> tuple[int, int]:
    """Bring the tables of a store to the version of this program.

    Parameters
    ----------
    location : path_like
        As for `open_store`.

    Returns
    -------
    tuple of int
        The version before and after. Each step is one transaction: an interrupted migration leaves
        the version that it reached.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/shop.db"
    >>> open_store(path).close()
    >>> migrate_store(path)
    (1, 1)
    """
    backend = _backend(location, create=False)
    try:
        return _schema.migrate(backend)
    finally:
        backend.close()


def restore_store(path: str | os.PathLike[str], location: str | os.PathLike[str]) -> dict[str, int]:
    """Fill an empty store from a backup, of either backend.

    Parameters
    ----------
    path : path_like
        File that `Store.backup` wrote.
    location : path_like
        New or empty store, as for `open_store`.

    Returns
    -------
    dict
        Number of rows by table.

    Notes
    -----
    **Guarantee.** The checksum of the file is verified before anything is written. All is written
    in one transaction: a restore that fails leaves the store empty.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open_store(folder + "/shop.db") as store:
    ...     _ = store.append({"users": ["ann"], "items": ["tea"]})
    ...     _ = store.backup(folder + "/shop.backup")
    >>> restore_store(folder + "/shop.backup", folder + "/copy.db")["event"]
    1
    """
    backend = _backend(location, create=True)
    try:
        return _backup.restore(backend, Path(path))
    finally:
        backend.close()


def _backend(location: Any, create: bool) -> Backend:
    """Return the unopened backend of a location."""
    if isinstance(location, str) and location.startswith(POSTGRES):
        from sfumato.store.postgres import PostgresBackend

        return PostgresBackend(location)
    from sfumato.store.sqlite import SqliteBackend

    return SqliteBackend(os.fspath(location), create=create)
