"""The ledger: what a data set's budget was spent on, charged for good before anything is released.

It holds losses, names, times and released bytes; never the data that they are about.
"""

import os
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple
from datetime import UTC, datetime
from typing import Any, Self

from sfumato._require import between, one_of, positive
from sfumato.privacy import _budget, _ledger_file
from sfumato.privacy import _ledger_entries as _entries
from sfumato.privacy._budget import BudgetExceeded, Cost, DataSet
from sfumato.privacy._ledger_entries import Charge
from sfumato.privacy.loss import RELATIONS, Loss, as_loss
from sfumato.privacy.statement import UNITS

__all__ = ["BudgetExceeded", "Charge", "Cost", "DataSet", "Ledger"]


class Ledger:
    """A file of budgets that many processes and threads may charge at once.

    Guarantee: the losses charged to a data set and to its parts compose, by the `Accountant`, to at
    most its budget (with a delta, where they were not themselves chosen by earlier answers). A
    charge is on the disk before `release` draws any noise, and the bytes are before they are
    returned: a process killed between leaves the charge standing, and a retry with the same
    release id returns the stored bytes or completes the release, and costs nothing.
    Parameters: path, of the file, which is made if it is not there. It may not lie on a network
    disk, where SQLite's locks do not hold.

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
        self.path = os.path.abspath(os.fspath(path))
        if not os.path.isdir(os.path.dirname(self.path)):
            raise FileNotFoundError(f"Ledger: there is no folder for {os.fspath(path)}.")
        if os.path.isdir(self.path):
            raise IsADirectoryError(f"Ledger: {os.fspath(path)} is a folder; name a file in it.")
        if not self.name.isprintable():  # statements tell it, on one line
            raise ValueError(f"Ledger: path must have a printable name, not {self.name!r}.")
        _ledger_file.prepare(self.path)

    @property
    def name(self) -> str:
        """What statements call this ledger: the file's name, without its folder."""
        return os.path.basename(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open between calls."""

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
    ) -> None:
        """Give a data set its budget, once and for good.

        Parameters: epsilon, above 0; delta, from 0 to 1 (0 takes pure losses only); unit, whose
        presence is hidden ("event" unless told); relation ("add/remove" unless told); parent, the
        data set that this one is a split of: its budget is charged too. A split has the unit and
        the relation of its parent; its own budget limits its own releases, not those of the parent.
        """
        name = _entries.text("dataset", dataset)
        epsilon = positive.check("Ledger", "epsilon", epsilon)
        delta = between(0, 1).check("Ledger", "delta", delta)
        with _ledger_file.writing(self.path) as file:
            above = None if parent is None else _entries.dataset(file, parent)
            if any(name == each.name for each in _entries.datasets(file)):
                raise ValueError(f"Ledger: data set {name!r} is there already; its budget stays.")
            new = DataSet(
                name,
                epsilon,
                delta,
                _inherited("unit", unit, "event", UNITS, above),
                _inherited("relation", relation, "add/remove", RELATIONS, above),
                None if above is None else above.name,
            )
            file.execute(
                "INSERT INTO dataset VALUES (?, ?, ?, ?, ?, ?, ?)", (*astuple(new), _now())
            )

    def charge(self, dataset: str, loss: Any, what: str, release_id: str | None = None) -> str:
        """Spend a loss on a release that is kept elsewhere; its id, when the charge is on the disk.

        Parameters: loss, a Loss, an epsilon or (epsilon, delta); what, a sentence about the
        release, free of people's data; release_id, a new one unless given, unique in the ledger:
        one that was charged before is refused, as its noise was perhaps drawn. BudgetExceeded where
        it does not fit. Prefer `release`, whose retries are safe.
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
        """Charge, then make, store and return the bytes of a release; or those already stored.

        Parameters: as for `charge`; make, called with the release id after the charge is on the
        disk. It must let nothing out but the bytes it returns. If it raises, the charge stands,
        since that cannot be checked; a retry with the same release id calls it again.
        """
        if not callable(make):
            raise TypeError("Ledger: make must be a function of the release id.")
        release_id, stored = self._charge(dataset, loss, what, release_id, stores=True)
        if stored is not None:
            return stored
        made = make(release_id)
        if not isinstance(made, bytes):
            raise TypeError(f"Ledger: make must return bytes, not {type(made).__name__}.")
        return self._store(release_id, made)

    def dataset(self, dataset: str) -> DataSet:
        """The budget, unit and relation of a data set."""
        with _ledger_file.reading(self.path) as file:
            return _entries.dataset(file, dataset)

    def datasets(self) -> list[DataSet]:
        """All data sets, in the order of their creation."""
        with _ledger_file.reading(self.path) as file:
            return _entries.datasets(file)

    def spent(self, dataset: str) -> Cost:
        """What the data set and its parts were charged: the sum of pure epsilons if it fits.

        Otherwise the least epsilon of all losses composed, at the delta of the budget.
        """
        with _ledger_file.reading(self.path) as file:
            budget = _entries.dataset(file, dataset)
            losses = _entries.losses(file, budget.name)
        return _budget.spent(losses, budget)

    def remaining(self, dataset: str) -> Cost:
        """What is left, here and in every data set that this one is a part of."""
        with _ledger_file.reading(self.path) as file:
            paid = [
                (_entries.losses(file, each.name), each) for each in _entries.payers(file, dataset)
            ]
        return min((_budget.left(*each) for each in paid), key=lambda cost: cost.epsilon)

    def history(self, dataset: str) -> list[Charge]:
        """The charges of the data set and its parts, oldest first."""
        with _ledger_file.reading(self.path) as file:
            return _entries.charges(file, _entries.dataset(file, dataset).name)

    def _charge(
        self, dataset: str, loss: Any, what: str, release_id: str | None, *, stores: bool
    ) -> tuple[str, bytes | None]:
        """The release id, and its bytes if they are stored."""
        what = _entries.text("what", what, 2000)
        identity = (
            uuid.uuid4().hex if release_id is None else _entries.text("release_id", release_id)
        )
        with _ledger_file.writing(self.path) as file:
            payers = _entries.payers(file, dataset)
            known = as_loss("Ledger", loss, payers[0].relation)
            entry = (payers[0].name, _entries.told(known), what, int(stores))
            found = file.execute(
                "SELECT dataset, loss, what, stores, bytes FROM charge WHERE release_id = ?",
                (identity,),
            ).fetchone()
            if found is not None:
                _check_same(identity, found, entry)
                if not stores:
                    raise ValueError(
                        f"Ledger: release {identity!r} was charged already; draw no fresh noise "
                        "for it. A new release needs a new release_id."
                    )
                return identity, found[-1]
            _check_fits(file, known, payers)
            file.execute(
                "INSERT INTO charge (release_id, dataset, loss, what, stores, charged) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (identity, *entry, _now()),
            )
        return identity, None

    def _store(self, release_id: str, made: bytes) -> bytes:
        """What is stored: if two processes made the same release, the first one's, for both."""
        with _ledger_file.writing(self.path) as file:
            file.execute(
                "UPDATE charge SET bytes = ?, released = ? WHERE release_id = ? AND bytes IS NULL",
                (made, _now(), release_id),
            )
            row = file.execute("SELECT bytes FROM charge WHERE release_id = ?", (release_id,))
            return bytes(row.fetchone()[0])


def _check_fits(file: sqlite3.Connection, loss: Loss, payers: Iterable[DataSet]) -> None:
    for payer in payers:
        if loss.relation != payer.relation:
            raise ValueError(
                f"Ledger: the loss is under {loss.relation!r}, and data set {payer.name!r} under "
                f"{payer.relation!r}; state it under that relation."
            )
        before = _entries.losses(file, payer.name)
        if not _budget.fits(before + Counter({loss: 1}), payer):
            alone = _budget.alone(loss, payer)
            rest, all_of_it = _budget.left(before, payer), Cost(payer.epsilon, payer.delta)
            raise BudgetExceeded(payer.name, rest, all_of_it, alone)


def _check_same(release_id: str, found: tuple, entry: tuple) -> None:
    for name, there, here in zip(("dataset", "loss", "what"), found, entry, strict=False):
        if there != here:
            raise ValueError(
                f"Ledger: release {release_id!r} was charged with another {name}; "
                "a new release needs a new release_id."
            )
    if found[3] != entry[3]:
        raise ValueError(
            f"Ledger: release {release_id!r} was made by the other of charge and release; "
            "a new release needs a new release_id."
        )


def _inherited(
    name: str, given: str | None, usual: str, choices: tuple[str, ...], above: DataSet | None
) -> str:
    wanted = usual if above is None else getattr(above, name)
    value = one_of(choices).check("Ledger", name, wanted if given is None else given)
    if above is not None and value != wanted:
        raise ValueError(
            f"Ledger: {name} of a split must be that of its parent, {wanted!r}, not {value!r}."
        )
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
