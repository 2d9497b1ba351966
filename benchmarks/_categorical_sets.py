"""Columns of categories and strings, real and generated, as one value for each of some clients."""

import gzip
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from _ratings import folder
from _words import words

__all__ = ["Column", "columns"]

CENSUS = {"education": 4, "industry": 8}
LASTFM = "lastfm-hetrec/user_tag_artist_rels.parquet"


class Column(NamedTuple):
    """Shares of all values, the most frequent first, and their texts."""

    name: str
    text: list[str]
    shares: np.ndarray

    def clients(self, number, seed):
        """Codes of the values of this number of clients, drawn with replacement."""
        return np.random.default_rng(seed).choice(self.shares.size, number, p=self.shares)


def columns():
    """Every column whose data are there; the last two are generated."""
    found = [_brown(), *_census(), *_tagged(), _retail()]
    ranks = np.arange(1, 1001)
    found.append(_ranked("generated, 1 / rank", [f"value {n}" for n in ranks], 1 / ranks))
    # Half of the candidates are absent: to say the same of all of them is wrong for each.
    present = np.random.default_rng(0).permutation(np.arange(100) < 50)
    flat = Column("generated, 50 of 100 equal", [f"value {n}" for n in range(100)], present / 50)
    return [each for each in found if each] + [flat]


def _ranked(name, text, counts):
    order = np.argsort(-np.asarray(counts), kind="stable")
    shares = np.asarray(counts, float)[order]
    return Column(name, [text[at] for at in order], shares / shares.sum())


def _counted(name, values):
    text, counts = np.unique(values, return_counts=True)
    return _ranked(name, [str(each) for each in text], counts)


def _brown():
    world = words()
    return _ranked(world.data, world.text, world.counts)


def _census():
    path = folder() / "census-income/census-income.data.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.split(",", 9) for line in file]
    return [
        _counted(f"census, {name}", [row[at].strip() for row in rows])
        for name, at in CENSUS.items()
    ]


def _tagged():
    path = folder() / LASTFM
    if not path.exists():
        return []
    table = pq.read_table(path, columns=["tagID", "targetNodeId"])
    names = {"tags": "tagID", "artists": "targetNodeId"}
    return [_counted(f"last.fm {name}", table[column].to_numpy()) for name, column in names.items()]


def _retail():
    path = folder() / "fimi/retail.dat.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return _counted("retail items", file.read().split())
