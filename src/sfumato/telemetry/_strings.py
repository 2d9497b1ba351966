"""Strings of one length over a known alphabet, and the n-grams that they are cut into."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.telemetry._values import reported_column

__all__ = ["OTHER", "PADDING", "Strings", "check_alphabet", "dictionary", "extended"]

OTHER = "\N{REPLACEMENT CHARACTER}"  # stands for every letter that is not of the alphabet
PADDING = "\N{SYMBOL FOR NULL}"  # fills up a string that is too short


@dataclass(frozen=True)
class Strings:
    """All strings of `length` letters, cut into pieces of `ngram` letters each."""

    length: int
    ngram: int
    alphabet: str

    @property
    def positions(self) -> int:
        return self.length // self.ngram

    @cached_property
    def grams(self) -> list[str]:
        """Every n-gram there can be: letters, then nothing but padding."""
        letters = self.alphabet + OTHER
        found = []
        for filled in range(self.ngram, -1, -1):
            tail = PADDING * (self.ngram - filled)
            found += ["".join(each) + tail for each in product(letters, repeat=filled)]
        return found

    def padded(self, column: Any) -> tuple[list[str], np.ndarray]:
        """The distinct strings of a column as they are reported, and the place of every row."""
        values = reported_column(column)
        texts = [text.decode("utf-8", "replace") for text in values.texts()]
        known = set(self.alphabet)
        cut = [
            "".join(letter if letter in known else OTHER for letter in text[: self.length])
            for text in texts
        ]
        return [text.ljust(self.length, PADDING) for text in cut], values.codes

    def pieces(self, padded: list[str], position: int) -> list[str]:
        """The n-gram of every string at a position."""
        begin = position * self.ngram
        return [text[begin : begin + self.ngram] for text in padded]

    def joined(self, nodes: list[np.ndarray], cliques: np.ndarray) -> list[str]:
        """Whole strings, from the n-grams of each position that a row of cliques points to.

        A string that goes on after padding is none.
        """
        pieces = [
            np.array(self.grams, object)[held][cliques[:, at]] for at, held in enumerate(nodes)
        ]
        made = ["".join(row) for row in zip(*pieces, strict=True)]
        return [text for text in made if PADDING not in text.rstrip(PADDING)]

    def shown(self, padded: str) -> str:
        """A string without its padding."""
        return padded.rstrip(PADDING)


def dictionary(texts: list[str], codes: np.ndarray) -> pa.DictionaryArray:
    """A column of texts, each named once."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int64()), pa.array(texts, pa.string()))


def extended(prefixes: list[str], alphabet: str, letters: int) -> list[str]:
    """Every prefix with every choice of so many more letters; after padding there is only more."""
    for _ in range(letters):
        prefixes = [
            prefix + letter
            for prefix in prefixes
            for letter in (PADDING if prefix.endswith(PADDING) else alphabet + OTHER + PADDING)
        ]
    return prefixes


def check_alphabet(owner: str, letters: Any) -> None:
    if not isinstance(letters, str) or not letters or len(set(letters)) < len(letters):
        raise ValueError(f"{owner}: alphabet must be text of different letters.")
    if {OTHER, PADDING} & set(letters):
        raise ValueError(f"{owner}: alphabet must not hold the marks U+FFFD and U+2400.")
