"""One query among a million released profiles, beside reading their bytes and faiss's scan."""

import numpy as np
from _calls import call_row, cpu_microseconds

from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip

USERS, BITS, ITEMS = 1_000_000, 1024, 8
SLOWER = 1.3  # times as slow as reading the bytes, at most


def rows():
    """The nearest profiles of one user, and the row of one user id."""
    released = _released()
    words = released.words
    read = cpu_microseconds({"read": words.sum})["read"]["median"]
    peers = {"reading the bytes (NumPy)": lambda: words.sum, "faiss": lambda: _faiss(words)}
    name = "nearest among 1 M BLIP profiles of 1,024 bits"
    return [
        call_row(name, lambda: released.nearest(7, 10), SLOWER * read, peers),
        call_row("row of one user among 1 M", lambda: released.rows(7), 20.0),
    ]


def _released():
    draws = np.random.default_rng(0)
    users = np.repeat(np.arange(USERS), ITEMS)
    items = (draws.pareto(1, users.size) * 50).astype(np.int64) % 20_000
    interactions = Interactions(users, items, np.ones(users.size))
    blip = Blip(epsilon=16, bits=BITS, hashes=4)
    return blip.release(interactions, users=np.arange(USERS), source=InsecureSeededSource(1))


def _faiss(words):
    import faiss

    index = faiss.IndexBinaryFlat(BITS)
    index.add(words.view(np.uint8))
    query = words[:1].view(np.uint8)
    return lambda: index.search(query, 10)
