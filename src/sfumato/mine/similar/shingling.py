"""Shingles of texts: the hashed windows of characters or words that a text contains, as sets."""

import functools
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.tables import described
from sfumato.core.validation import integer, one_of
from sfumato.errors import ParameterError
from sfumato.kernels import key_texts
from sfumato.kernels.mine.similar import shingles as kernels
from sfumato.mine.similar.texts import Texts, address, offsets
from sfumato.sketch.base import SEED
from sfumato.sketch.similarity.token_sets import checked_offsets

__all__ = [
    "BLOCK",
    "LENGTH",
    "NORMALISED",
    "NORMALS",
    "UNIT",
    "WORDS",
    "ShingleSets",
    "Shingling",
    "shingles",
]

NORMALISED = ("case", "punctuation", "space", "unicode")
LENGTH = integer(1, 2**16)
UNIT = one_of(("characters", "words"))
BLOCK = 1 << 18  # bytes of text at a time: their hashes stay in the second cache
TABLE = 0x20000  # code points past it have neither case nor punctuation
APOSTROPHES = "'\u2019\u02bc"


class NameList:
    """Limit of a parameter: distinct names, all of them among `choices` if there are any."""

    def __init__(self, choices: tuple[str, ...] = ()) -> None:
        self.choices = choices

    def check(self, owner: str, name: str, value: Any) -> tuple[str, ...]:
        names = tuple(value) if isinstance(value, list | tuple | set | frozenset) else None
        known = names is not None and all(isinstance(each, str) for each in names)
        if names is None or not known or not set(names) <= set(self.choices or names):
            among = f" among {', '.join(map(repr, self.choices))}" if self.choices else ""
            kind = type(value).__name__
            wanted = f"must be a list of texts{among}, not this {kind}."
            raise ParameterError.of(owner, name, wanted)
        return tuple(sorted(set(names)))

    def bad(self) -> list[Any]:
        return ["text", None, 1, [1], *([["no such choice"]] if self.choices else [])]


NORMALS = NameList(NORMALISED)
WORDS = NameList()


class Hashed(NamedTuple):
    """Hashes of all windows of some texts: those of text i are hashes[ends[i] : ends[i + 1]]."""

    hashes: np.ndarray
    ends: np.ndarray
    fingerprints: np.ndarray


@dataclass(frozen=True)
class Shingling:
    """How texts become sets of shingles; the parameters are those of `shingles`."""

    k: int = 5
    unit: str = "characters"
    normalise: tuple[str, ...] = NORMALISED
    stop_words: tuple[str, ...] = ()
    seed: int = 0

    @classmethod
    def of(
        cls, owner: str, k: int, unit: str, normalise: Any, stop_words: Any, seed: int
    ) -> "Shingling":
        """Check the parameters of a call."""
        found = cls(
            LENGTH.check(owner, "k", k),
            UNIT.check(owner, "unit", unit),
            NORMALS.check(owner, "normalise", normalise),
            WORDS.check(owner, "stop_words", stop_words),
            SEED.check(owner, "seed", seed),
        )
        if found.stop_words and found.unit != "words":
            raise ValueError(f'{owner}: stop_words need unit="words", not {unit!r}.')
        return found

    def hashed(self, chunk: pa.Array) -> Hashed:
        """Hash all windows of an array of large strings."""
        data, bounds = self._normalised(chunk)
        start = np.uint64(data.ctypes.data)
        seed, count = np.uint64(self.seed), bounds.size - 1
        hashes, ends = np.empty(bounds[-1], np.uint64), np.empty(count + 1, np.int64)
        if self.unit == "characters":
            kernels.character_windows(start, bounds, self.k, seed, hashes, ends)
        else:
            kernels.word_windows(start, bounds, self.k, seed, self._stop_table, hashes, ends)
        fingerprints = np.empty(count, np.uint64)
        key_texts.text_keys(start, bounds, seed, fingerprints)
        return Hashed(hashes[: ends[-1]], ends, fingerprints)

    def _normalised(self, chunk: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """The bytes of the normalised texts, and where each starts and ends."""
        ends = offsets(chunk)
        plain = not len(chunk) or _is_ascii(chunk, ends)
        if not plain and "unicode" in self.normalise:
            chunk = pc.utf8_normalize(chunk, form="NFKC")
            ends = offsets(chunk)
        collapse = "space" in self.normalise or self.unit == "words"
        table = _table(self.normalise, collapse, 128 if plain else TABLE)
        data = np.empty(2 * int(ends[-1] - ends[0]) + 8, np.uint8)
        bounds = np.empty(ends.size, np.int64)
        kernels.normalise(address(chunk), ends, table, collapse, data, bounds)
        return data, bounds

    @functools.cached_property
    def _stop_table(self) -> np.ndarray:
        """The hashes of the normalised stop words, in an open table."""
        if not self.stop_words:
            return np.empty(0, np.uint64)
        data, bounds = self._normalised(pa.array(self.stop_words, pa.large_string()))
        words = np.empty(bounds.size - 1, np.uint64)
        key_texts.text_keys(np.uint64(data.ctypes.data), bounds, np.uint64(self.seed), words)
        table = np.zeros(1 << (2 * words.size).bit_length(), np.uint64)
        for word in set(words.tolist()):
            slot = word % table.size
            while table[slot]:
                slot = (slot + 1) % table.size
            table[slot] = word
        return table


def _is_ascii(chunk: pa.Array, ends: np.ndarray) -> bool:
    data = chunk.buffers()[2]
    used = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data else np.empty(0, np.uint8)
    return not used.size or int(used.max()) < 128


@functools.cache
def _table(normalise: tuple[str, ...], collapse: bool, size: int) -> np.ndarray:
    """What each code point becomes: itself, its lower case, a space (32), or nothing (0)."""
    found = np.arange(size, dtype=np.uint32)
    for code in range(size):
        found[code] = _mapped(chr(code), normalise, collapse)
    return found


def _mapped(one: str, normalise: tuple[str, ...], collapse: bool) -> int:
    kind = unicodedata.category(one)
    if collapse and (one.isspace() or kind == "Cc"):
        return 32
    if collapse and kind == "Cf":  # marks without width
        return 0
    if "punctuation" in normalise and one in APOSTROPHES:
        return 0
    if "punctuation" in normalise and (kind[0] == "P" or one in string.punctuation):
        return 32
    lower = one.lower() if "case" in normalise else one
    return ord(lower) if len(lower) == 1 else ord(one)


class ShingleSets:
    """Sets of hashes, one per document, in the layout of sparse rows.

    Made by `shingles`, or from hashes of your own for `signatures` and `near_duplicates`.

    Parameters
    ----------
    offsets : array_like of shape (n + 1,)
        Integers from 0 to the number of hashes that do not decrease: document i has the hashes
        offsets[i] to offsets[i + 1].
    hashes : array_like of uint64 or uint32
        Uniformly distributed hashes, as of `shingles`; repeats change nothing.

    Attributes
    ----------
    offsets : ndarray of shape (n + 1,)
        The offsets, int64.
    hashes : ndarray
        The hashes.

    Examples
    --------
    >>> ShingleSets([0, 2, 3], np.array([5, 9, 9], np.uint64)).sizes
    array([2, 1])
    """

    def __init__(self, offsets: Any, hashes: Any) -> None:
        found = np.ascontiguousarray(hashes)
        if found.ndim != 1 or found.dtype not in (np.uint32, np.uint64):
            raise TypeError(
                "ShingleSets: hashes must be one column of uint64 or uint32, not "
                f"{found.dtype} of shape {found.shape}; hash other values by hash_column first."
            )
        self.hashes = found
        self.offsets: np.ndarray = checked_offsets("ShingleSets", offsets, found.size, "hashes")

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __repr__(self) -> str:
        return described(self, documents=len(self), hashes=self.hashes.size)

    @property
    def sizes(self) -> np.ndarray:
        """Number of hashes of each document."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of hashes and offsets."""
        return int(self.hashes.nbytes + self.offsets.nbytes)


def shingles(
    texts: Any,
    k: int = 5,
    unit: str = "characters",
    *,
    normalise: Sequence[str] = NORMALISED,
    stop_words: Sequence[str] = (),
    bits: int = 64,
    seed: int = 0,
) -> ShingleSets:
    """Split texts into sets of hashed shingles: all runs of k characters or words.

    Parameters
    ----------
    texts : array_like of str
        A list, or an Arrow, pandas, polars or NumPy column, of texts or of bytes in UTF-8.
    k : int, default=5
        Characters (code points) or words of a shingle, 1 to 2**16. About 5 characters for short
        messages, 9 for long articles; 3 words.
    unit : {"characters", "words"}, default="characters"
        What a shingle is made of. Words are separated by white space.
    normalise : sequence of str, default=('case', 'punctuation', 'space', 'unicode')
        Differences to remove first:

        - "case": upper and lower case;
        - "punctuation": apostrophes are dropped, other punctuation becomes a space;
        - "space": runs of white space and control characters become one space, none at the ends;
          characters without width are dropped. Always done for words;
        - "unicode": equivalent ways to write a character, by the normal form NFKC.
    stop_words : sequence of str, default=()
        With words, only shingles whose first word is one of these. A stop word and the next two
        (k = 3) tell the prose of a news article from what surrounds it on a page.
    bits : {32, 64}, default=64
        Bits of a hash.
    seed : int, default=0
        Seed of the hashes.

    Returns
    -------
    ShingleSets
        One set per text, without repeats, in ascending order.

    Notes
    -----
    **Guarantee.** A text of n >= k units has at most n - k + 1 shingles, and one changed character
    changes at most k shingles of characters. A shorter text is one shingle, the whole text; a text
    that is empty after normalisation, or missing, has none. The hash of a shingle is that of its
    normalised text by `hash_column`. Two different shingles have equal hashes with probability
    2**-bits.

    References
    ----------
    .. [1] Broder. "On the resemblance and containment of documents". SEQUENCES 1997.
       https://doi.org/10.1109/SEQUEN.1997.666900
    .. [2] Theobald, Siddharth, Paepcke. "SpotSigs: robust and efficient near duplicate detection in
       large web collections". SIGIR 2008 (stop words). https://doi.org/10.1145/1390334.1390431

    Examples
    --------
    >>> sets = shingles(["abcab", "Abc, ab!", ""], k=2)
    >>> sets.sizes
    array([3, 4, 0])
    """
    shingling = Shingling.of("shingles", k, unit, normalise, stop_words, seed)
    if bits not in (32, 64):
        raise ValueError(f"shingles: bits must be 32 or 64, not {bits!r}.")
    found, ends, last = [np.empty(0, np.uint64)], [np.zeros(1, np.int64)], 0
    for _, chunk in Texts("shingles", texts).blocks(BLOCK):
        hashes, bounds = _distinct(shingling.hashed(chunk), bits)
        found.append(hashes)
        ends.append(bounds[1:] + last)
        last += hashes.size
    dtype = np.uint32 if bits == 32 else np.uint64
    return ShingleSets(np.concatenate(ends), np.concatenate(found).astype(dtype))


def _distinct(block: Hashed, bits: int) -> tuple[np.ndarray, np.ndarray]:
    spare = np.uint64(64 - bits)
    hashes, bounds = block.hashes << spare, np.empty_like(block.ends)  # sorted by the high bits
    kernels.distinct(hashes, block.ends, bounds)
    return hashes[: bounds[-1]] >> spare, bounds
