"""The words of the Brown corpus as clients, or words of the same shape where it is not there."""

import gzip
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from _ratings import folder

TEN = ("of", "and", "to", "a", "in", "that", "he", "for", "with", "as")  # the table of the seed
FILE = "brown/brown_wordcounts.tsv.gz"
DISTINCT, TOKENS = 40_234, 981_716  # alphabetic words of the corpus


class Words(NamedTuple):
    """Words, the most frequent first, how many clients have each, and where they come from."""

    data: str
    text: list[str]
    counts: np.ndarray

    def clients(self):
        """One value a client, as an Arrow column with a dictionary; their order tells nothing."""
        codes = np.repeat(np.arange(len(self.text), dtype=np.int32), self.counts)
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(self.text))

    def known(self, most):
        """One value a client, with one text for all words but the most frequent."""
        codes = np.repeat(np.arange(len(self.text), dtype=np.int32), self.counts)
        text = pa.array([*self.text[:most], "(other)"])
        return pa.DictionaryArray.from_arrays(pa.array(np.minimum(codes, most)), text)

    def ten(self):
        """Where the seed's ten words are, or words of like ranks."""
        if TEN[0] in self.text:
            return np.array([self.text.index(word) for word in TEN])
        return np.array([1, 2, 3, 4, 5, 6, 9, 10, 12, 13])


def words():
    """Alphabetic tokens in lower case, by falling count."""
    path = folder() / FILE
    if not path.exists():
        return generated()
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    retained = [(word, int(count)) for word, count in rows if word.isascii() and word.isalpha()]
    retained.sort(key=lambda row: (-row[1], row[0]))
    return Words("Brown corpus", [word for word, _ in retained], np.array([n for _, n in retained]))


def generated():
    """Zipf's law over as many words and clients as the corpus has."""
    shares = 1 / (np.arange(DISTINCT) + 2.7)
    counts = np.maximum(np.rint(TOKENS * shares / shares.sum()), 1).astype(np.int64)
    return Words("generated, shape of the Brown corpus", absent(DISTINCT, "w"), counts)


def absent(n, letter="absent"):
    """Words that no client has."""
    return [f"{letter}-{i}" for i in range(n)]
