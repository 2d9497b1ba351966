"""The ledger: privacy budgets of data sets, charged durably before anything is released.

It stores losses, names, times and released bytes; never the data that they are about.
"""

import hashlib
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any, Self

from sfumato.core.validation import between, one_of, positive
from sfumato.errors import StoreUnavailable
from sfumato.privacy.accounting.losses import RELATIONS, as_loss
from sfumato.privacy.ledger import entries as _entries
from sfumato.privacy.ledger import store
from sfumato.privacy.ledger.budget import BudgetExceeded, Cost, DataSet, Spending
from sfumato.privacy.ledger.entries import Book, Charge, Writer, check_same, find_charge
from sfumato.privacy.ledger.spending import Compositions, check_running
from sfumato.privacy.ledger.store import LedgerConnection, LedgerDamaged
from sfumato.privacy.units import UNITS

__all__ = [
    "BudgetExceeded",
    "Charge",
    "Cost",
    "DataSet",
    "Ledger",
    "LedgerDamaged",
    "Verification",
]


@dataclass(frozen=True)
class Verification:
    """Result of reading a ledger from end to end and finding it intact.

    Parameters
    ----------
    entries : int
        Number of entries: data sets, charges and stored releases.
    chain : str
        Checksum over all entries.
    since : int or None, default=None
        Number of entries after the expected chain; None if none was given.

    Examples
    --------
    >>> Verification(entries=3, chain="9f2c", since=1).since
    1
    """

    entries: int
    chain: str
    since: int | None = None


class Ledger:
    """File of privacy budgets that many processes and threads may charge at once.

    Parameters
    ----------
    path : path_like
        The file. Nothing is written before `create`, which makes the file of the first data set.
        It may not lie on a network disk, where SQLite's locks do not work.

    Notes
    -----
    **Guarantee.** The losses charged to a data set and to its splits compose, by the `Accountant`,
    to at most its budget (with a delta, only if the losses were not chosen adaptively, by earlier
    answers). `spent` is within one percent of the exact composition, never below it, and never
    decreases. A charge is on the disk before `release` draws any noise, and the bytes are on the
    disk before they are returned. If the process is killed in between, the charge stays; a retry
    with the same release id returns the stored bytes or completes the release, at no further cost.

    **What is verified.** Every entry (data set, charge, hash of a stored release) carries a SHA-256
    over itself and the previous entry; the head of the file states their number and the last of
    these. The first use of a `Ledger` object, and of a file that replaced another, checks SQLite's
    pages and tables and the entire chain. Each later use checks the head, all entries that are new
    since then, and the checksum of each running sum that it reads. Stored bytes are hashed when
    they are returned. `verify` does all of it again, hashes all bytes, and composes all charges
    anew. A ledger that fails raises `LedgerDamaged` and grants nothing. An older copy of a ledger
    is intact in itself: only a `chain` noted elsewhere reveals it (`verify(expect=)`).

    The connection stays open between calls: `close` it, or use the ledger in a `with` block, before
    its file is copied (SQLite stores the newest entries in a second file until then).

    Examples
    --------
    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp() + "/shop.ledger")
    >>> ledger.create("views", epsilon=1)
    >>> ledger.release("views", 0.75, "a greeting", lambda release_id: b"hello", release_id="one")
    b'hello'
    >>> ledger.release("views", 0.75, "a greeting", lambda release_id: b"other", release_id="one")
    b'hello'
    >>> ledger.remaining("views").epsilon
    0.25
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: str = os.path.abspath(os.fspath(path))
        if not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"Ledger: there is no folder for {os.fspath(path)}.")
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"Ledger: {os.fspath(path)} is a folder; name a file in it.")
        if not self.name.isprintable():  # statements show it, on one line
            raise ValueError(f"Ledger: path must have a printable name, not {self.name!r}.")
        self._begin(store.LedgerFile(self.path))

    @classmethod
    def on(cls, storage: store.LedgerStorage) -> Self:
        """Open the ledger that is part of a larger database, as of `sfumato.store`.

        Parameters
        ----------
        storage : LedgerStorage
            Its tables and transactions.

        Returns
        -------
        Self
            A ledger of the same contract; data sets are created in the tables that are there.
        """
        ledger = cls.__new__(cls)
        ledger.path = storage.path
        ledger._begin(storage)
        return ledger

    def _begin(self, storage: store.LedgerStorage) -> None:
        self._file = storage
        self._book = Book(self.path)
        self._checked: tuple[int, ...] | None = None  # the file whose pages were
        self._view: tuple[int, sqlite3.Connection] | None = None  # of a file of version 1
        self._compositions = Compositions()
        if storage.exists():
            try:
                with self._reading():
                    pass
            except BaseException:
                self.close()
                raise

    @property
    def name(self) -> str:
        """Name of the ledger in statements: that of the file or database, without its folder."""
        return os.path.basename(self.path)

    @property
    def chain(self) -> str:
        """Checksum over all entries: noted elsewhere, it reveals an older copy of the file."""
        with self._reading() as (_, book):
            return book.chain

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self._file, store.LedgerFile) or self._file.embedded:
            raise TypeError("Ledger: that of a store is opened there, by `Store.ledger`.")
        return type(self), (self.path,)

    def __repr__(self) -> str:
        return f"Ledger({self.name!r})"

    def create(
        self,
        dataset: str,
        epsilon: float,
        delta: float = 0,
        unit: str | None = None,
        relation: str | None = None,
        parent: str | None = None,
        *,
        new_file: bool = False,
    ) -> None:
        """Create a data set with its budget, which never changes; the first one makes the file.

        Parameters
        ----------
        dataset : str
            Name, shown as it is written here. Width, case and spacing do not distinguish names, and
            a name that resembles an existing one is refused.
        epsilon : float
            Epsilon of the budget, above 0.
        delta : float, default=0
            Delta of the budget, from 0 to below 1; with 0 only pure losses fit.
        unit : str or None, default=None
            Unit of privacy; None is that of the parent, or "event".
        relation : str or None, default=None
            Adjacency, "add/remove" or "replace"; None is that of the parent, or "add/remove".
        parent : str or None, default=None
            Data set of which this one is a split: its budget is charged too. A split has the unit
            and the relation of its parent; its own budget limits its own releases, not those of the
            parent.
        new_file : bool, default=False
            Make a file also where a ledger was and is gone: its spending is then forgotten.
        """
        name = _entries.new_name(dataset, ())
        epsilon = float(positive.check("Ledger", "epsilon", epsilon))
        delta = float(between(0, 1).check("Ledger", "delta", delta))
        self._file.sweep()
        if not self._file.exists():
            if parent is not None:
                raise ValueError(f"Ledger: there is no data set {parent!r}; create it first.")
            _inherited("unit", unit, "event", UNITS, None)
            _inherited("relation", relation, "add/remove", RELATIONS, None)
            self._file.make(new_file)
            self._book, self._compositions = Book(self.path), Compositions()
        with self._writing() as (file, book):
            above = None if parent is None else book.dataset(parent)
            new = DataSet(
                _entries.new_name(name, book.datasets),
                epsilon,
                delta,
                _inherited("unit", unit, "event", UNITS, above),
                _inherited("relation", relation, "add/remove", RELATIONS, above),
                None if above is None else above.name,
            )
            writer = Writer(file, book.position, book.chain)
            position = writer.add("dataset", *astuple(new), _now())
            writer.spend(new.name, Spending(), position)
            writer.close()

    def charge(self, dataset: str, loss: Any, what: str, release_id: str | None = None) -> str:
        """Charge a loss for a release that is stored elsewhere.

        Prefer `release`, whose retries are safe.

        Parameters
        ----------
        dataset : str
            Data set to charge.
        loss : object
            A `Loss`, an epsilon or a pair (epsilon, delta).
        what : str
            Sentence about the release, free of personal data.
        release_id : str or None, default=None
            Name of the release, unique in the ledger; None makes a new one. One that was charged
            before is refused, as its noise may have been drawn.

        Returns
        -------
        str
            The release id; the charge is on the disk.

        Raises
        ------
        BudgetExceeded
            If the loss does not fit the budget of the data set or of a parent.
        """
        return self._charge(dataset, loss, what, release_id, stores=False)[0]

    def release(
        self,
        dataset: str,
        loss: Any,
        what: str,
        make: Callable[[str], bytes],
        release_id: str | None = None,
    ) -> bytes:
        """Charge, then make, store and return the bytes of a release; or return stored ones.

        Parameters
        ----------
        dataset : str
            Data set to charge.
        loss : object
            A `Loss`, an epsilon or a pair (epsilon, delta).
        what : str
            Sentence about the release, free of personal data.
        make : callable
            Called with the release id after the charge is on the disk; returns bytes. It must
            disclose nothing but these. If it raises, the charge stands, since that cannot be
            checked; a retry with the same release id calls it again.
        release_id : str or None, default=None
            Name of the release, unique in the ledger; None makes a new one. A retry with the same
            data set, loss and sentence returns the stored bytes at no cost.

        Returns
        -------
        bytes
            The stored bytes.

        Raises
        ------
        BudgetExceeded
            If the loss does not fit the budget of the data set or of a parent.
        """
        if not callable(make):
            raise TypeError("Ledger: make must be a function of the release id.")
        release_id, stored = self._charge(dataset, loss, what, release_id, stores=True)
        if stored is not None:
            return stored
        made = make(release_id)
        if not isinstance(made, bytes):
            raise TypeError(f"Ledger: make must return bytes, not {type(made).__name__}.")
        try:
            return self._store(release_id, made)
        except OSError as error:
            kind = StoreUnavailable if isinstance(error, StoreUnavailable) else OSError
            raise kind(
                f"Ledger: release {release_id!r} of {dataset!r} was charged, but its bytes could "
                f"not be stored ({str(error).rstrip('.')}), and nothing of it was let out. Make "
                f"room, then repeat with release_id={release_id!r}, which costs nothing more."
            ) from error

    def fetch(self, release_id: str) -> bytes:
        """Return the stored bytes of a release, without any charge.

        Parameters
        ----------
        release_id : str
            Name of the release.

        Returns
        -------
        bytes
            The stored bytes.

        Raises
        ------
        ValueError
            If there are none; the message says how to get them.
        """
        with self._reading() as (file, _):
            found = find_charge(file, _entries.text("release_id", release_id))
            if found is None:
                raise ValueError(f"Ledger: there is no release {release_id!r}.")
            stored = self._stored(file, release_id) if found.stores else None
        if stored is not None:
            return stored
        if not found.stores:
            raise ValueError(
                f"Ledger: the output of {release_id!r} was charged for and is stored elsewhere."
            )
        raise ValueError(
            f"Ledger: release {release_id!r} of {found.dataset!r} was charged, but nothing of it "
            f"was made or stored. Make it again with release_id={release_id!r} and the same data "
            "set, loss and parameters: that draws its noise once and costs nothing more."
        )

    def find(self, release_id: str) -> Charge | None:
        """Return the charge of a release id, if there is one.

        Parameters
        ----------
        release_id : str
            Name of the release.

        Returns
        -------
        Charge or None
            The entry; None if this release id was never charged.
        """
        with self._reading() as (file, book):
            wanted = _entries.text("release_id", release_id)
            found = book.charges(file, None, wanted)
        return found[0] if found else None

    def dataset(self, dataset: str) -> DataSet:
        """Return the budget, unit and relation of a data set.

        Parameters
        ----------
        dataset : str
            Name of the data set.

        Returns
        -------
        DataSet
            The data set as it was created.
        """
        with self._reading() as (_, book):
            return book.dataset(dataset)

    def datasets(self) -> list[DataSet]:
        """Return all data sets.

        Returns
        -------
        list
            `DataSet` objects in the order of their creation.
        """
        with self._reading() as (_, book):
            return list(book.datasets.values())

    def spent(self, dataset: str) -> Cost:
        """Return what was charged to a data set and its splits, composed at the budget's delta.

        Parameters
        ----------
        dataset : str
            Name of the data set.

        Returns
        -------
        Cost
            Epsilon and delta, never decreasing; delta is 0 where epsilon is the sum of pure
            epsilons.
        """
        with self._reading() as (file, book):
            budget = book.dataset(dataset)
            return book.spending(file, budget.name).cost(budget)

    def remaining(self, dataset: str) -> Cost:
        """Return what remains of a budget, here and in all parents.

        Parameters
        ----------
        dataset : str
            Name of the data set.

        Returns
        -------
        Cost
            The smallest remaining epsilon, with the delta of that budget: a pure loss up to it
            fits.
        """
        with self._reading() as (file, book):
            costs = [book.spending(file, each.name).left(each) for each in book.payers(dataset)]
        return min(costs, key=lambda cost: cost.epsilon)

    def history(self, dataset: str) -> list[Charge]:
        """Return the charges of a data set and its splits.

        Parameters
        ----------
        dataset : str
            Name of the data set.

        Returns
        -------
        list
            `Charge` objects, oldest first.
        """
        with self._reading() as (file, book):
            return book.charges(file, book.dataset(dataset).name)

    def counts(self, dataset: str) -> tuple[int, int]:
        """Count the charges of a data set and its splits.

        Parameters
        ----------
        dataset : str
            Name of the data set.

        Returns
        -------
        tuple
            Number of charges, and how many of them still wait for their output.
        """
        with self._reading() as (file, book):
            return book.counts(file, book.dataset(dataset).name)

    def verify(self, expect: str | None = None) -> Verification:
        """Read the ledger from end to end, with all stored bytes, and compose all charges anew.

        Parameters
        ----------
        expect : str or None, default=None
            A `chain` noted earlier. A file that does not contain it is another ledger or an older
            copy.

        Returns
        -------
        Verification
            Number of entries, the chain, and how many entries came after `expect`.

        Raises
        ------
        LedgerDamaged
            If the file was changed other than by a ledger, or does not contain `expect`.
        """
        with self._reading() as (file, book):
            fresh = Book(self.path)
            self._file.check_tables(file)
            fresh.follow(file)
            for budget in fresh.datasets.values():
                check_running(file, fresh, budget)
            for (release_id,) in file.execute("SELECT release_id FROM stored").fetchall():
                if self._view is None:
                    self._stored(file, release_id)
            since = None if expect is None else self._since(file, book, expect)
        return Verification(book.position, book.chain, since)

    @contextmanager
    def _reading(self) -> Iterator[tuple[LedgerConnection, Book]]:
        with self._file.transaction(write=False) as file:
            yield self._verified(file)

    @contextmanager
    def _writing(self) -> Iterator[tuple[LedgerConnection, Book]]:
        with self._file.transaction(write=True) as file:
            yield self._verified(file, write=True)

    def _verified(
        self, file: LedgerConnection, *, write: bool = False
    ) -> tuple[LedgerConnection, Book]:
        """Return the file, or its view as version 2 while a file of version 1 is only read."""
        if self._file.version(file) == 1:
            if not write:
                return self._old(file)
            assert isinstance(file, sqlite3.Connection)
            _entries.upgrade(Book(self.path), file, file)
        if self._view is not None:
            self._view, self._book = None, Book(self.path)
        there = self._file.identity
        if self._checked is None or self._checked != there:
            self._file.check_tables(file)
        self._book.follow(file)
        self._checked = there
        return file, self._book

    def _old(self, file: LedgerConnection) -> tuple[LedgerConnection, Book]:
        assert isinstance(file, sqlite3.Connection)
        version = file.execute("PRAGMA data_version").fetchone()[0]
        if self._view is None or self._view[0] != version:
            memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            _entries.upgrade(Book(self.path), file, memory)
            self._book = Book(self.path)
            self._book.follow(memory)
            self._view = version, memory
        return self._view[1], self._book

    def _charge(
        self, dataset: str, loss: Any, what: str, release_id: str | None, *, stores: bool
    ) -> tuple[str, bytes | None]:
        """Charge a loss; return the release id, and its bytes if they are stored."""
        what = _entries.text("what", what, 2000)
        identity = (
            uuid.uuid4().hex if release_id is None else _entries.text("release_id", release_id)
        )
        try:
            return self._charged(dataset, loss, what, identity, stores=stores)
        except OSError as error:
            if error.filename is not None or isinstance(error, FileNotFoundError):
                raise
            kind = StoreUnavailable if isinstance(error, StoreUnavailable) else OSError
            raise kind(f"{error} {self._standing(identity)}") from None

    def _charged(
        self, dataset: str, loss: Any, what: str, identity: str, *, stores: bool
    ) -> tuple[str, bytes | None]:
        with self._writing() as (file, book):
            payers = book.payers(dataset)
            known = as_loss("Ledger", loss, payers[0].relation)
            entry = (payers[0].name, _entries.to_text(known), what, int(stores))
            found = find_charge(file, identity)
            if found is not None:
                check_same(identity, astuple(found), entry)
                if not stores:
                    raise ValueError(
                        f"Ledger: release {identity!r} was charged already; draw no fresh noise "
                        "for it. A new release needs a new release_id."
                    )
                return identity, self._stored(file, identity)
            after = [self._compositions.after(file, book, payer, known) for payer in payers]
            writer = Writer(file, book.position, book.chain)
            position = writer.add("charge", identity, *entry, _now())
            for payer, (spending, _, _) in zip(payers, after, strict=True):
                writer.spend(payer.name, spending, position)
            grown = self._compositions.save(file, writer, payers, after)
            writer.close()
        self._compositions.known |= grown
        return identity, None

    def _store(self, release_id: str, made: bytes) -> bytes:
        """Store the bytes; if two processes made the same release, return the first one's."""
        digest = hashlib.sha256(made).hexdigest()
        with self._writing() as (file, book):
            stored = self._stored(file, release_id)
            if stored is not None:
                return stored
            small = len(made) <= self._file.blob_limit
            if not small:
                beside = file.execute("SELECT digest FROM stored WHERE bytes IS NULL")
                known = {each for (each,) in beside}
                store.write_blob(self._file.blobs, made, known)
            writer = Writer(file, book.position, book.chain)
            values = (release_id, _now(), len(made), digest)
            writer.add("stored", *values, data=made if small else None)
            writer.close()
        if not small:
            store.settle_blob(self._file.blobs, digest)
        return made

    def _stored(self, file: LedgerConnection, release_id: str) -> bytes | None:
        """Return the bytes of a release, checked against their hash; None if there are none."""
        row = file.execute(
            "SELECT digest, nbytes, bytes FROM stored WHERE release_id = ?", (release_id,)
        ).fetchone()
        if row is None:
            return None
        digest, size, data = row
        if data is None:
            return store.read_blob(self._file.blobs, digest, size, release_id)
        return store.checked_bytes(bytes(data), digest, release_id, self.name)

    def _standing(self, release_id: str) -> str:
        """Say in a sentence what became of a charge that could not be written."""
        try:
            with self._reading() as (file, _):
                found = find_charge(file, release_id) is not None
        except (OSError, ValueError):
            return (
                f"Whether release {release_id!r} was charged cannot be read; nothing was drawn. "
                "Look with `sfumato budget history`, then repeat with this release id."
            )
        if found:
            return (
                f"Release {release_id!r} was charged and nothing was drawn; repeat with this "
                "release id, which costs nothing more."
            )
        return f"Release {release_id!r} was not charged, and nothing was drawn."

    def _since(self, file: LedgerConnection, book: Book, expect: str) -> int:
        """Return how many entries came after the one with this chain."""
        wanted = str(expect).strip().lower()
        for kind in ("dataset", "charge", "stored"):
            row = file.execute(f"SELECT place FROM {kind} WHERE chain = ?", (wanted,)).fetchone()
            if row is not None:
                return book.position - int(row[0])
        raise LedgerDamaged(
            f"Ledger: {self.path} never reached the chain {wanted!r}: it is another ledger, or an "
            "older copy of the one that did."
        )


def _inherited(
    name: str, given: str | None, usual: str, choices: tuple[str, ...], above: DataSet | None
) -> str:
    """Check unit or relation, by default that of the parent."""
    wanted = usual if above is None else getattr(above, name)
    value = one_of(choices).check("Ledger", name, wanted if given is None else given)
    if above is not None and value != wanted:
        raise ValueError(
            f"Ledger: {name} of a split must be that of its parent, {wanted!r}, not {value!r}."
        )
    return value


def _now() -> str:
    """Return the current time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
