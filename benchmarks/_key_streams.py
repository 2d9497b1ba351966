"""Streams of keys with their counts: flat, Zipf, and real ones where their files are."""

import gzip

import numpy as np
import pyarrow.parquet as pq
from _ratings import folder
from _words import words

__all__ = ["STREAMS"]


def flat():
    return _counted(np.random.default_rng(5).integers(0, 20_000, 400_000))


def zipf():
    """400,000 draws, of keys without an end, from a Zipf law of exponent 1.2."""
    return _counted(np.random.default_rng(6).zipf(1.2, 400_000))


def brown():
    """The words of the Brown corpus."""
    found = words()
    return (np.array(found.text), found.counts) if found.data.startswith("Brown") else None


def retail():
    """The items of 88,162 baskets of a Belgian shop."""
    path = folder() / "fimi" / "retail.dat.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt") as lines:
        return _counted(np.array([int(item) for line in lines for item in line.split()]))


def last_fm():
    """The artists of Last.fm with how often they were played, 69 million times in all."""
    path = folder() / "lastfm-hetrec" / "user_listen_artist_rels.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path)
    _, artists, plays = (table[name].to_numpy() for name in table.column_names[:3])
    keys, rows = np.unique(artists, return_inverse=True)
    return keys, np.bincount(rows, plays).astype(np.int64)


def _counted(stream):
    return np.unique(stream, return_counts=True)


STREAMS = {
    "flat": flat,
    "Zipf 1.2": zipf,
    "Brown words": brown,
    "retail items": retail,
    "Last.fm plays": last_fm,
}
"""Functions that return keys and counts, or None where the file is missing."""
