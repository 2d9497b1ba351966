"""The entries of a ledger's file: data sets, what they are parts of, and their charges."""

import json
import sqlite3
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sfumato.privacy._budget import DataSet
from sfumato.privacy.loss import Loss

__all__ = ["Charge", "charges", "dataset", "datasets", "losses", "payers", "text", "told"]

COLUMNS = "name, epsilon, delta, unit, relation, parent"
# A data set and the parts of it, and the parts of those.
FAMILY = """WITH RECURSIVE family (name) AS (
    VALUES (?) UNION SELECT dataset.name FROM dataset JOIN family ON parent = family.name
) """


@dataclass(frozen=True)
class Charge:
    """One entry of a ledger; `released` is None where no bytes were stored."""

    release_id: str
    dataset: str
    loss: Loss
    what: str
    charged: str
    released: str | None
    nbytes: int


def datasets(file: sqlite3.Connection) -> list[DataSet]:
    """All, in the order of their creation."""
    return [DataSet(*row) for row in file.execute(f"SELECT {COLUMNS} FROM dataset ORDER BY rowid")]


def charges(file: sqlite3.Connection, dataset: str) -> list[Charge]:
    """Those of a data set and its parts, oldest first."""
    found = file.execute(
        FAMILY + "SELECT release_id, dataset, loss, what, charged, released, "
        "ifnull(length(bytes), 0) FROM charge "
        "WHERE dataset IN (SELECT name FROM family) ORDER BY place",
        (dataset,),
    )
    return [Charge(i, d, _loss(told), *rest) for i, d, told, *rest in found]


def payers(file: sqlite3.Connection, name: str) -> list[DataSet]:
    """The data set, then what it is a part of, and so on."""
    found = [dataset(file, name)]
    while found[-1].parent is not None:
        found.append(dataset(file, found[-1].parent))
    return found


def dataset(file: sqlite3.Connection, name: str) -> DataSet:
    """The data set of this name; ValueError where there is none."""
    name = text("dataset", name)
    row = file.execute(f"SELECT {COLUMNS} FROM dataset WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise ValueError(f"Ledger: there is no data set {name!r}; create it with its budget.")
    return DataSet(*row)


def losses(file: sqlite3.Connection, dataset: str) -> Counter[Loss]:
    """What a data set and its parts were charged, and how often."""
    found = file.execute(
        FAMILY + "SELECT loss, count(*) FROM charge WHERE dataset IN (SELECT name FROM family) "
        "GROUP BY loss",
        (dataset,),
    )
    return Counter({_loss(told): count for told, count in found})


def told(loss: Loss) -> str:
    """The loss as it is stored; ValueError, before it is, where it could not be read again."""
    text = json.dumps(loss.to_dict(), sort_keys=True, allow_nan=False)
    if _loss(text) != loss:
        raise ValueError("Ledger: loss must be one of sfumato.privacy.loss, with short ratios.")
    return text


@lru_cache(4096)
def _loss(told: str) -> Loss:
    return Loss.from_dict(json.loads(told))


def text(name: str, value: Any, most: int = 200) -> str:
    """A name or a sentence: one line that can be printed."""
    if not isinstance(value, str):
        raise ValueError(f"Ledger: {name} must be a line of text, not {type(value).__name__}.")
    line: str = unicodedata.normalize("NFC", value)  # one name, however it was typed
    if not line or line != line.strip() or not line.isprintable():
        raise ValueError(f"Ledger: {name} must be a printable line without spaces around it.")
    if len(line) > most:
        raise ValueError(f"Ledger: {name} must be no longer than {most} letters.")
    return line
