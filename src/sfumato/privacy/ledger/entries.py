"""Entries of a ledger's file: their names, their hash chain, and how they are verified."""

import hashlib
import heapq
import json
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.ledger import budget as _budget
from sfumato.privacy.ledger.budget import DataSet, Spending
from sfumato.privacy.ledger.store import LedgerConnection, LedgerDamaged, lay_out

__all__ = [
    "Book",
    "Charge",
    "ChargedEntry",
    "Writer",
    "check_same",
    "find_charge",
    "new_name",
    "sealed",
    "text",
    "to_text",
    "upgrade",
]

# What the chain covers of each kind of entry, in this order; of a release its hash and size.
COLUMNS = {
    "dataset": "place, name, epsilon, delta, unit, relation, parent, created, chain",
    "charge": "place, release_id, dataset, loss, what, stores, charged, chain",
    "stored": "place, release_id, released, nbytes, digest, chain",
}
# Letters that look like a Latin one, in the case in which they do; dashes and marks.
LOOKS = str.maketrans(
    "АВЕЅЗІЈКМНОРСТУХҮԌԚԜаеѕіјорсухһԁԛԝѵгѡӏк"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορτυχγωη"
    "\u0585\u057d\u0578\u1d04\u1d0f\u1d11\u1d1c\u1d20\u1d21\u1d22\u1d26\ua731"
    "01|I\u0131\u0237\u0261\u0251\u0196\u2010\u2011\u2012\u2013\u2014\u2212\u02bc\u2019\u2018",
    "ABES3lJKMHOPCTYXYGQWaesijopcyxhdqwvrwlkABEZHlKMNOPTYXaikvoptuxywnouncoouvwzrsOlllijgal------'''",
)
# Printable characters that are invisible.
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b\u180c\u180d\u180f")


@dataclass(frozen=True)
class Charge:
    """Entry of a ledger: one loss charged to a data set for a release.

    Parameters
    ----------
    release_id : str
        Name of the release, unique in the ledger.
    dataset : str
        Data set that was charged.
    loss : Loss
        Privacy loss that was charged.
    what : str
        Sentence about the release.
    charged : str
        Time of the charge, ISO 8601 in UTC.
    released : str or None
        Time when the bytes were stored; None where none were.
    nbytes : int
        Size of the stored bytes, 0 where there are none.
    stores : bool, default=False
        Whether the ledger stores the bytes of the release (`Ledger.release`) or only charges for
        one stored elsewhere (`Ledger.charge`).

    Examples
    --------
    >>> from sfumato.privacy.accounting import Pure
    >>> entry = Charge("r1", "views", Pure(0.5), "counts", "2024-05-01T12:00", None, 0, True)
    >>> entry.unfinished
    True
    """

    release_id: str
    dataset: str
    loss: Loss
    what: str
    charged: str
    released: str | None
    nbytes: int
    stores: bool = False

    @property
    def unfinished(self) -> bool:
        """Whether it was charged but never stored: the same release id completes it at no cost."""
        return self.stores and self.released is None


@dataclass
class Book:
    """Verified content of a file, up to an entry."""

    path: str
    position: int = 0
    chain: str = ""
    datasets: dict[str, DataSet] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)  # entry that its running sums go up to

    def follow(self, file: LedgerConnection) -> None:
        """Verify the entries since the last time; LedgerDamaged where the chain breaks."""
        entries, chain = self._head(file)
        if (entries, chain) == (self.position, self.chain):
            return
        if not isinstance(entries, int) or entries < self.position:
            raise self.damaged(f"it ends at entry {entries}, and {self.position} were there before")
        position, last_chain = self.position, self.chain
        new_sets: dict[str, DataSet] = {}
        last: dict[str, int] = {}
        for kind, row in _rows(file, position):
            position, last_chain = position + 1, linked(last_chain, kind, row[:-1])
            if row[0] != position:
                raise self.damaged(f"entry {position} is missing")
            if row[-1] != last_chain:
                raise self.damaged(f"entry {position} does not follow from those before it")
            if kind == "dataset":
                new_sets[row[1]], last[row[1]] = DataSet(*row[1:7]), position
            elif kind == "charge":
                last |= dict.fromkeys(_above({**self.datasets, **new_sets}, row[2]), position)
        if (position, last_chain) != (entries, chain):
            raise self.damaged(f"it says that it ends at entry {entries}, and {position} are there")
        self.datasets |= new_sets
        self.last |= last
        self.position, self.chain = position, last_chain

    def _head(self, file: LedgerConnection) -> tuple[Any, Any]:
        """Return the number of entries and the last chain that the file's head states."""
        found = file.execute("SELECT entries, chain FROM head").fetchall()
        if len(found) != 1:
            raise self.damaged("its head is missing")
        entries, chain = found[0]
        return entries, chain

    def payers(self, name: str) -> list[DataSet]:
        """Return the data set, then its parent, and so on."""
        return [self.datasets[each] for each in _above(self.datasets, self.dataset(name).name)]

    def dataset(self, name: str) -> DataSet:
        """Return the data set of this name in any spelling; ValueError where there is none."""
        line = text("dataset", name)
        if line in self.datasets:
            return self.datasets[line]
        matches = [each for each in self.datasets if named(each) == named(line)]
        if len(matches) > 1:
            raise ValueError(
                f"Ledger: {line!r} may be any of {', '.join(map(repr, matches))}, which older "
                "programs took for different data sets; spell the one that is meant."
            )
        if not matches:
            raise ValueError(f"Ledger: there is no data set {line!r}; create it with its budget.")
        return self.datasets[matches[0]]

    def family(self, name: str) -> set[str]:
        """Return the names of a data set and all its splits."""
        return {each for each in self.datasets if name in _above(self.datasets, each)}

    def charges(
        self, file: LedgerConnection, name: str | None, release_id: str | None = None
    ) -> list[Charge]:
        """Return the charges of a data set and its splits, or all, or those of one release id."""
        wanted = self.datasets.keys() if name is None else self.family(name)
        found = file.execute(
            "SELECT release_id, dataset, loss, what, charged, released, "
            "coalesce(nbytes, 0), stores "
            "FROM charge LEFT JOIN stored USING (release_id) "
            f"{'' if release_id is None else 'WHERE release_id = ? '}ORDER BY charge.place",
            () if release_id is None else (release_id,),
        )
        return [
            Charge(i, d, self.loss(line), what, charged, released, nbytes, bool(stores))
            for i, d, line, what, charged, released, nbytes, stores in found
            if d in wanted
        ]

    def counts(self, file: LedgerConnection, name: str) -> tuple[int, int]:
        """Count the charges of a data set and its splits, and those without stored output."""
        family = self.family(name)
        rows = file.execute(
            "SELECT dataset, count(*), "
            "sum(CASE WHEN stores = 1 AND stored.place IS NULL THEN 1 ELSE 0 END) "
            "FROM charge LEFT JOIN stored USING (release_id) GROUP BY dataset"
        )
        found = [(count, waiting) for dataset, count, waiting in rows if dataset in family]
        return sum(count for count, _ in found), sum(waiting for _, waiting in found)

    def losses(self, file: LedgerConnection, name: str, after: int = 0) -> Counter[str]:
        """Count the losses charged to a data set and its splits after an entry, as stored."""
        family = self.family(name)
        rows = file.execute("SELECT dataset, loss FROM charge WHERE place > ?", (after,))
        return Counter(line for dataset, line in rows if dataset in family)

    def read(self, losses: Counter[str]) -> Counter[Loss]:
        """Convert stored losses to objects, with their counts."""
        return Counter({self.loss(line): count for line, count in losses.items()})

    def loss(self, line: Any) -> Loss:
        """Read a stored loss; LedgerDamaged where it is malformed."""
        try:
            return _loss(line)
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            raise self.damaged("the loss of a charge cannot be read") from None

    def spending(self, file: LedgerConnection, name: str) -> Spending:
        """Return the running composition of a data set; LedgerDamaged where it is outdated."""
        row = file.execute(
            "SELECT dataset, place, epsilon, sums, seal FROM running WHERE dataset = ?", (name,)
        ).fetchone()
        if row is None or row[1] != self.last[name]:
            raise self.damaged(f"what {name!r} has spent is missing or not up to date")
        if row[-1] != sealed("running", row[:-1]):
            raise self.damaged(f"what {name!r} has spent was altered")
        return Spending.from_text(row[2], row[3])

    def damaged(self, what: str) -> LedgerDamaged:
        """Return the error for a damaged ledger."""
        return LedgerDamaged(
            f"Ledger: {self.path} is damaged: {what}. Nothing is granted from it; restore a backup "
            "that `sfumato budget verify` accepts."
        )


@dataclass
class Writer:
    """Writer of new entries in one transaction; the book follows when they are on the disk."""

    file: LedgerConnection
    position: int
    chain: str

    def add(self, kind: str, *values: Any, data: bytes | None = None) -> int:
        """Write an entry with its chain; return its position."""
        self.position += 1
        self.chain = linked(self.chain, kind, (self.position, *values))
        row = (self.position, *values, self.chain, *((data,) if kind == "stored" else ()))
        marks = ", ".join("?" * len(row))
        self.file.execute(f"INSERT INTO {kind} VALUES ({marks})", row)
        return self.position

    def spend(self, name: str, spending: Spending, position: int) -> None:
        """Write the running composition of a data set, up to an entry."""
        row = (name, position, *spending.to_text())
        self.file.execute(
            "INSERT INTO running VALUES (?, ?, ?, ?, ?) ON CONFLICT (dataset) DO UPDATE SET "
            "place = excluded.place, epsilon = excluded.epsilon, sums = excluded.sums, "
            "seal = excluded.seal",
            (*row, sealed("running", row)),
        )

    def close(self) -> None:
        """Write the number of entries and the last chain to the head."""
        self.file.execute("UPDATE head SET entries = ?, chain = ?", (self.position, self.chain))


@dataclass(frozen=True)
class ChargedEntry:
    """What was charged under a release id, as the file has it."""

    dataset: str
    loss: str
    what: str
    stores: int


def find_charge(file: LedgerConnection, release_id: str) -> ChargedEntry | None:
    """Return the charge of this release id, or None."""
    row = file.execute(
        "SELECT dataset, loss, what, stores FROM charge WHERE release_id = ?", (release_id,)
    ).fetchone()
    return None if row is None else ChargedEntry(*row)


def check_same(release_id: str, found: tuple, entry: tuple) -> None:
    """Raise ValueError where a retry differs from what was charged under its id."""
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


def upgrade(book: Book, old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Write the tables of version 2 from those of version 1, in the same file or in another.

    Version 1 has no chain: it begins with the entries as they are found. Another file gets no
    bytes of releases, only their hashes.
    """
    try:
        datasets = old.execute(
            "SELECT name, epsilon, delta, unit, relation, parent, created FROM dataset "
            "ORDER BY rowid"
        ).fetchall()
        rows = old.execute(
            "SELECT release_id, dataset, loss, what, stores, charged FROM charge ORDER BY place"
        ).fetchall()
        names = {row[0] for row in datasets}
        if any(row[1] not in names for row in rows):
            raise book.damaged("a charge is to no data set")
        if old is new:
            _set_aside(old)
        lay_out(new)
        writer = Writer(new, 0, "")
        for row in datasets:
            writer.add("dataset", *row)
        for row in rows:
            writer.add("charge", *row)
        _move_bytes("old_charge" if old is new else "charge", old, writer)
        book.datasets = {row[0]: DataSet(*row[:6]) for row in datasets}
        _recompose(book, new, writer)
        writer.close()
        if old is new:
            new.execute("DROP TABLE old_charge")
            new.execute("DROP TABLE old_dataset")
    except (TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, LedgerDamaged):
            raise
        raise book.damaged(f"version 1 of it cannot be read ({type(error).__name__})") from None


def _set_aside(file: sqlite3.Connection) -> None:
    """Rename the tables of version 1 and drop their indices and triggers."""
    found = file.execute(
        "SELECT type, name FROM sqlite_master WHERE type = 'trigger' OR "
        "(type = 'index' AND sql IS NOT NULL)"
    ).fetchall()
    for kind, name in found:
        quoted = str(name).replace('"', '""')
        file.execute(f'DROP {kind} "{quoted}"')
    for name in ("charge", "dataset"):
        file.execute(f"ALTER TABLE {name} RENAME TO old_{name}")


def _move_bytes(table: str, old: sqlite3.Connection, writer: Writer) -> None:
    """Write entries for the stored bytes of version 1."""
    positions = old.execute(f"SELECT place FROM {table} WHERE bytes IS NOT NULL ORDER BY place")
    for (position,) in positions.fetchall():
        release_id, released, data = old.execute(
            f"SELECT release_id, released, bytes FROM {table} WHERE place = ?", (position,)
        ).fetchone()
        digest = hashlib.sha256(data).hexdigest()
        keep = data if old is writer.file else None
        writer.add("stored", release_id, released or "", len(data), digest, data=keep)


def _recompose(book: Book, file: sqlite3.Connection, writer: Writer) -> None:
    """Write the composition of each data set's charges; version 1 granted only what fits."""
    for budget in book.datasets.values():
        spent = _budget.total_cost(book.read(book.losses(file, budget.name)), budget.delta)
        if budget.delta and spent.epsilon > budget.epsilon:
            spent = Spending(budget.epsilon, spent.pure)
        last = file.execute(
            "SELECT max(place) FROM charge WHERE dataset IN "
            f"({', '.join('?' * len(book.family(budget.name)))})",
            tuple(book.family(budget.name)),
        ).fetchone()[0]
        own = file.execute("SELECT place FROM dataset WHERE name = ?", (budget.name,)).fetchone()
        writer.spend(budget.name, spent, last or own[0])


def linked(chain: str, kind: str, values: Iterable[Any]) -> str:
    """Return the chain at an entry: the SHA-256 of the previous chain and of the entry."""
    return hashlib.sha256(f"{chain}\n{(kind, *values)!a}".encode()).hexdigest()


def sealed(kind: str, values: Iterable[Any]) -> str:
    """Return the checksum of a row that is not an entry."""
    return linked("", kind, values)


def _rows(file: LedgerConnection, after: int) -> Iterator[tuple[str, tuple]]:
    """Return all entries after one, in order."""
    found = heapq.merge(*(_read(file, kind, after) for kind in COLUMNS), key=lambda row: row[1][0])
    return iter(found)


def _read(file: LedgerConnection, kind: str, after: int) -> Iterator[tuple[str, tuple]]:
    """Return the entries of one kind after a position."""
    rows = file.execute(
        f"SELECT {COLUMNS[kind]} FROM {kind} WHERE place > ? ORDER BY place", (after,)
    )
    return ((kind, row) for row in rows)


def _above(datasets: dict[str, DataSet], name: str) -> list[str]:
    """Return the data set and its ancestors."""
    found = []
    at: str | None = name
    while at is not None and at not in found:
        found.append(at)
        known = datasets.get(at)
        at = None if known is None else known.parent
    return found


def to_text(loss: Loss) -> str:
    """Return a loss as it is stored; ValueError where it could not be read again."""
    line = json.dumps(loss.to_dict(), sort_keys=True, allow_nan=False)
    if _loss(line) != loss:
        raise ValueError(
            "Ledger: loss must be one of sfumato.privacy.accounting.losses, with short ratios."
        )
    return line


@lru_cache(4096)
def _loss(line: str) -> Loss:
    return Loss.from_dict(json.loads(line))


def text(name: str, value: Any, most: int = 200) -> str:
    """Check that a name or a sentence is one printable line."""
    if not isinstance(value, str):
        raise ValueError(f"Ledger: {name} must be a line of text, not {type(value).__name__}.")
    line: str = unicodedata.normalize("NFC", value)  # one name, however it was typed
    if not line or line != line.strip() or not line.isprintable():
        raise ValueError(f"Ledger: {name} must be a printable line without spaces around it.")
    if len(line) > most:
        raise ValueError(f"Ledger: {name} must be no longer than {most} letters.")
    return line


@lru_cache(4096)
def named(name: str) -> str:
    """Normalise a name: width, case and spaces do not distinguish names."""
    line = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", line).split())


def new_name(name: Any, there: Iterable[str]) -> str:
    """Check a name for a new data set; ValueError where it equals or resembles an existing one."""
    line = text("dataset", name)
    if any(map(_invisible, line)):
        raise ValueError(f"Ledger: dataset must be a name without invisible letters, not {line!a}.")
    for each in there:
        if named(each) == named(line):
            same = "" if each == line else f", which {line!r} is another spelling of"
            raise ValueError(f"Ledger: data set {each!r} is there already{same}; its budget stays.")
        if _looks(each) & _looks(line):
            raise ValueError(
                f"Ledger: dataset {line!r} ({line!a}) looks like the data set {each!r} that "
                "is there; charge that one, or choose a name that nobody confuses with it."
            )
    return line


def _invisible(letter: str) -> bool:
    """Return whether a letter is invisible."""
    return letter in INVISIBLE or 0xFE00 <= ord(letter) <= 0xFE0F or ord(letter) >= 0xE0000


@lru_cache(4096)
def _looks(name: str) -> frozenset[str]:
    """Return what a name is read as: as written, and in small letters."""
    line = unicodedata.normalize("NFKC", name)
    both = (line.translate(LOOKS), line.casefold().translate(LOOKS))
    return frozenset(" ".join(each.casefold().split()) for each in both)
