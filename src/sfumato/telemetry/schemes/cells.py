"""Maps from values to cells: unbiased hashing by SHA-256 per cohort, known categories, and bins."""

import hashlib
import math
import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.core.validation import flag
from sfumato.errors import ParameterError
from sfumato.telemetry.keyed_randomness import Rows, block_words, chosen, digests
from sfumato.telemetry.values import Values, reported_column, value_column, values_of

__all__ = [
    "OTHER",
    "Categories",
    "bloom_cells",
    "category_cells",
    "check_categories",
    "checked_categories",
    "checked_edges",
    "domain_digest",
    "hashed_members",
    "in_all_cohorts",
    "own_hashed_members",
]

HEAD = b"sfumato/bloom/1\0"
LARGEST = 2**28  # entries of a table of members: 1 GiB
ENTRIES = 2**20  # of it computed at a time


def bloom_cells(
    values: Values, codes: np.ndarray, cohorts: np.ndarray, cells: int, count: int
) -> np.ndarray:
    """Return the cells of value codes[r] in cohort cohorts[r]: int32 (n, count), distinct in a row.

    Guarantee: if SHA-256 is a random function, all sets are equally likely. Candidates are the
    32-bit words of SHA-256("sfumato/bloom/1", 0, cohort, t, value) for t = 0, 1, ...; words that
    would favour some remainder are skipped, and so are cells already chosen.
    """

    def more(rows: Rows, block: int) -> np.ndarray:
        own = cohorts[rows]
        if own.size == 1:
            heads, which = _single_head(int(own[0]), block), np.zeros(1, np.int64)
        elif (most := int(own.max(initial=0)) + 1) < own.size:  # a table of all cohorts is shorter
            heads, which = _heads(np.arange(most), block), own
        else:
            heads, which = _heads(own, block), np.arange(own.size)
        return digests(heads, len(HEAD) + 8, which, values, codes[rows])

    return chosen(codes.size, cells, count, more)


def in_all_cohorts(values: Values, cohorts: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the code and cohort of every row of a table of all distinct values in all cohorts."""
    check_entries(values, cohorts, count)
    codes = np.repeat(np.arange(values.distinct), cohorts)
    return codes, np.tile(np.arange(cohorts, dtype=np.int32), values.distinct)


def check_entries(values: Values, cohorts: int, count: int) -> None:
    """Raise ValueError if a table of all values in all cohorts exceeds 2**28 entries."""
    if values.distinct * cohorts * count > LARGEST:
        raise ValueError(
            f"members: {values.distinct} values in {cohorts} cohorts with {count} cells each are "
            f"more than {LARGEST} entries; take at most {LARGEST // (cohorts * count)} values at a "
            "time, or fewer cohorts."
        )


def _heads(cohorts: np.ndarray, block: int) -> np.ndarray:
    """Return the words that are hashed before the value, one row per cohort."""
    out = np.empty((cohorts.size, len(HEAD) + 8), np.uint8)
    out[:, : len(HEAD)] = np.frombuffer(HEAD, np.uint8)
    out[:, len(HEAD) : -4] = cohorts.astype(">u4")[:, np.newaxis].view(np.uint8)
    out[:, -4:] = np.frombuffer(struct.pack(">I", block), np.uint8)
    return block_words(out)


@lru_cache(256)
def _single_head(cohort: int, block: int) -> np.ndarray:
    """Return the words that are hashed before the value in one cohort: a client never leaves it."""
    return _heads(np.array([cohort]), block)


def hashed_members(values: Values, cohorts: int, cells: int) -> np.ndarray:
    """Return the cell of each row's value in all cohorts: int32 (n, cohorts, 1)."""
    found = _table(values, cohorts, cells)
    if not np.array_equal(values.codes, np.arange(values.distinct)):
        found = found[values.codes]
    return found[:, :, np.newaxis]


def own_hashed_members(values: Values, own: np.ndarray, cohorts: int, cells: int) -> np.ndarray:
    """Return the cell of each row's value in its own cohort: int32 (n, 1)."""
    if values.distinct * cohorts <= values.codes.size:  # fewer hashes than one per row
        found: np.ndarray = _table(values, cohorts, cells)[values.codes, own]
        return found[:, np.newaxis]
    return bloom_cells(values, values.codes, own, cells, 1)


def _table(values: Values, cohorts: int, cells: int) -> np.ndarray:
    """Return the cells of the distinct values in all cohorts: int32 (distinct, cohorts)."""
    check_entries(values, cohorts, 1)
    out = np.empty((values.distinct, cohorts), np.int32)
    step = max(1, ENTRIES // cohorts)
    for begin in range(0, values.distinct, step):
        some = np.arange(begin, min(begin + step, values.distinct))
        every = np.tile(np.arange(cohorts, dtype=np.int32), some.size)
        found = bloom_cells(values, np.repeat(some, cohorts), every, cells, 1)
        out[some] = found.reshape(some.size, cohorts)
    return out


MOST = 2**16  # cells


def checked_categories(owner: str, categories: Any) -> tuple[str, ...]:
    """Check that categories are 1 to 65536 distinct texts, and return them as a tuple."""
    if isinstance(categories, str | bytes) or not hasattr(categories, "__iter__"):
        raise ValueError(f"{owner}: categories must be a list of texts.")
    texts = tuple(categories)
    if not all(isinstance(text, str) for text in texts) or not 1 <= len(texts) <= MOST:
        raise ValueError(f"{owner}: categories must be a list of 1 to {MOST} texts.")
    if len(set(texts)) < len(texts):
        raise ValueError(f"{owner}: categories must all be different; one occurs twice.")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{owner}: categories must be valid Unicode.") from None
    return tuple(str(text) for text in texts)


def checked_edges(owner: str, edges: Any) -> tuple[float, ...]:
    """Check that edges are 2 to 65537 increasing finite numbers, and return them as floats."""
    try:
        given = tuple(edges)
        texts = any(isinstance(edge, str | bytes) for edge in given)  # which float() would take
        numbers = () if texts else tuple(float(edge) + 0.0 for edge in given)  # -0.0 becomes 0.0
    except (TypeError, ValueError, OverflowError):
        numbers = ()
    rising = all(a < b for a, b in pairwise(numbers))
    if not 2 <= len(numbers) <= MOST + 1 or not rising or not all(map(math.isfinite, numbers)):
        raise ValueError(
            f"{owner}: edges must be 2 to {MOST + 1} finite numbers, each above the one before."
        )
    return numbers


def domain_digest(categories: tuple[str, ...] | None, edges: tuple[float, ...] | None) -> str:
    """Return what a line of parameters says of the domain: "-", or its kind and SHA-256."""
    if categories is not None:
        texts = [text.encode() for text in categories]
        encoded = b"".join(struct.pack(">I", len(text)) + text for text in texts)
        return "categories:" + hashlib.sha256(encoded).hexdigest()
    if edges is not None:
        return "edges:" + hashlib.sha256(struct.pack(f">{len(edges)}d", *edges)).hexdigest()
    return "-"


def category_cells(values: Values, categories: tuple[str, ...]) -> np.ndarray:
    """Return the cell of every distinct value, -1 for one outside the categories."""
    positions = {text.encode(): at for at, text in enumerate(categories)}
    return np.array([positions.get(text, -1) for text in values.texts()], np.int32)


def check_categories(values: Values, categories: tuple[str, ...]) -> None:
    """Raise ParameterError if a row is outside the categories."""
    unknown = np.flatnonzero(category_cells(values, categories)[values.codes] < 0)
    if unknown.size:
        raise ParameterError(
            f"values: row {unknown[0]} is none of the {len(categories)} categories; let one "
            "category stand for all others, and give that.",
            owner="values",
            parameter="categories",
        )


OTHER = "(other)"  # stands for all other values


@dataclass(frozen=True)
class Categories:
    """Known categories of a scheme, in the order of their cells.

    With `other`, values outside the categories become "(other)", which has the last cell and one
    permanent response for all of them; without, `values` refuses them. `reported` always maps them
    to the last category, since a missing report would reveal something about the value. `owner` is
    named in errors.

    >>> known = Categories("Example", ("tea", "milk"), other=True)
    >>> known.names, known.cells(known.values(["rum", "milk", "gin"])).tolist()
    (['tea', 'milk', '(other)'], [2, 1, 2])
    """

    owner: str
    categories: tuple[str, ...]
    other: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", checked_categories(self.owner, self.categories))
        flag.check(self.owner, "other", self.other)
        if self.other and OTHER in self.categories:
            raise ValueError(
                f"{self.owner}: categories must not contain {OTHER!r} with other=True."
            )
        if not 2 <= len(self.names) <= 2**16:
            raise ValueError(
                f"{self.owner}: categories must be 2 to 65536, that of other values among them, "
                f"not {len(self.names)}; leave them out to hash any values to cells."
            )

    @property
    def names(self) -> list[str]:
        """All categories, "(other)" included."""
        return [*self.categories, OTHER] if self.other else list(self.categories)

    @property
    def digest(self) -> str:
        """What stands for the domain in a line of parameters."""
        return domain_digest(self.categories, None) + ("+other" if self.other else "")

    def values(self, column: Any) -> Values:
        """Convert a column to categories or "(other)"; raise ParameterError for any other row."""
        values = value_column(column)
        found = [self._positions.get(text, -1) for text in values.texts()]
        unknown = np.flatnonzero(np.array(found, np.int64)[values.codes] < 0)
        if not unknown.size:
            return values
        if not self.other:
            raise ParameterError(
                f"{self.owner}: row {unknown[0]} of the values is none of the "
                f"{len(self.categories)} categories; other=True makes one of all such values.",
                owner=self.owner,
                parameter="other",
            )
        return self._taken(values, found)

    def reported(self, column: Any) -> Values:
        """Convert a column row by row; whatever is no category becomes the last one."""
        values = reported_column(column)
        return self._taken(values, [self._positions.get(text, -1) for text in values.texts()])

    def _taken(self, values: Values, found: list[int]) -> Values:
        """Replace each distinct value by the category whose cell is given, the last one for -1."""
        cells = np.array(found, np.int64) % len(self._positions)
        used, codes = np.unique(cells, return_inverse=True)
        return values_of([self.names[cell].encode() for cell in used], codes[values.codes])

    def cells(self, values: Values) -> np.ndarray:
        """Return the cell of each row's value, int32."""
        found = [self._positions[text] for text in values.texts()]
        cells: np.ndarray = np.array(found, np.int32)[values.codes]
        return cells

    @cached_property
    def _positions(self) -> dict[bytes, int]:
        return {name.encode(): at for at, name in enumerate(self.names)}
