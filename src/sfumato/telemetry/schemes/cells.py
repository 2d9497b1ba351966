"""The cells of a value in a cohort: chosen by SHA-256, without bias for any number of cells.

One cell for a value of any dictionary in every cohort: RAPPOR's hashing with one hash. Values that
are known beforehand: categories, or the bins between edges, one cell each. Schemes for a known
domain: every category has a cell, and perhaps all other values one more.
"""

import hashlib
import math
import struct
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.core.validation import flag
from sfumato.errors import ParameterError
from sfumato.telemetry.keyed_randomness import Rows, chosen, digests
from sfumato.telemetry.values import Values, reported_column, value_column, values_of

__all__ = [
    "OTHER",
    "Categories",
    "bloom_cells",
    "category_cells",
    "check_categories",
    "checked_categories",
    "checked_edges",
    "domain_mark",
    "hashed_members",
    "in_all_cohorts",
    "own_hashed_members",
]

HEAD = b"sfumato/bloom/1\0"
LARGEST = 2**28  # entries of a table of members: 1 GiB


def bloom_cells(
    values: Values, codes: np.ndarray, cohorts: np.ndarray, cells: int, count: int
) -> np.ndarray:
    """The cells of value codes[r] in cohort cohorts[r]: int32 (n, count), no two of a row alike.

    Guarantee: as likely as any other set, if SHA-256 is a random function: from the 32-bit words of
    SHA-256("sfumato/bloom/1", 0, cohort, t, value), t = 0, 1 and on, those that would favour some
    remainder are skipped, and so are cells already taken.
    """

    def more(rows: Rows, block: int) -> np.ndarray:
        own = cohorts[rows]
        most = int(own.max(initial=0)) + 1
        if most < own.size:  # a table of all cohorts is shorter
            return digests(_heads(np.arange(most), block), own, values, codes[rows])
        return digests(_heads(own, block), np.arange(own.size), values, codes[rows])

    return chosen(codes.size, cells, count, more)


def in_all_cohorts(values: Values, cohorts: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The code and the cohort of every row of a table of all distinct values in all cohorts.

    Parameters: count, cells of a value; a table of more than 2**28 cells is refused.
    """
    if values.distinct * cohorts * count > LARGEST:
        raise ValueError(
            f"members: {values.distinct} values in {cohorts} cohorts with {count} cells each are "
            f"more than {LARGEST} entries; take at most {LARGEST // (cohorts * count)} values at a "
            "time, or fewer cohorts."
        )
    codes = np.repeat(np.arange(values.distinct), cohorts)
    return codes, np.tile(np.arange(cohorts, dtype=np.int32), values.distinct)


def _heads(cohorts: np.ndarray, block: int) -> np.ndarray:
    """What is hashed before the value, a row for every cohort."""
    out = np.empty((cohorts.size, len(HEAD) + 8), np.uint8)
    out[:, : len(HEAD)] = np.frombuffer(HEAD, np.uint8)
    out[:, len(HEAD) : -4] = cohorts.astype(">u4")[:, np.newaxis].view(np.uint8)
    out[:, -4:] = np.frombuffer(struct.pack(">I", block), np.uint8)
    return out


def hashed_members(values: Values, cohorts: int, cells: int) -> np.ndarray:
    """The cell of the value of every row in all cohorts: int32 (n, cohorts, 1)."""
    found: np.ndarray = _table(values, cohorts, cells)[values.codes]
    return found[:, :, np.newaxis]


def own_hashed_members(values: Values, own: np.ndarray, cohorts: int, cells: int) -> np.ndarray:
    """The cell of the value of every row in its own cohort: int32 (n, 1)."""
    if values.distinct * cohorts <= values.codes.size:  # fewer hashes than one a row
        found: np.ndarray = _table(values, cohorts, cells)[values.codes, own]
        return found[:, np.newaxis]
    return bloom_cells(values, values.codes, own, cells, 1)


def _table(values: Values, cohorts: int, cells: int) -> np.ndarray:
    """The cells of the distinct values in all cohorts."""
    found = bloom_cells(values, *in_all_cohorts(values, cohorts, 1), cells, 1)
    return found.reshape(values.distinct, cohorts)


MOST = 2**16  # cells


def checked_categories(owner: str, categories: Any) -> tuple[str, ...]:
    """One to 65536 different texts."""
    if isinstance(categories, str | bytes) or not hasattr(categories, "__iter__"):
        raise ValueError(f"{owner}: categories must be a list of texts.")
    texts = tuple(categories)
    if not all(isinstance(text, str) for text in texts) or not 1 <= len(texts) <= MOST:
        raise ValueError(f"{owner}: categories must be a list of 1 to {MOST} texts.")
    if len(set(texts)) < len(texts):
        raise ValueError(f"{owner}: categories must all be different; one stands there twice.")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{owner}: categories must be valid Unicode.") from None
    return tuple(str(text) for text in texts)


def checked_edges(owner: str, edges: Any) -> tuple[float, ...]:
    """Two to 65537 finite numbers, each above the one before."""
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


def domain_mark(categories: tuple[str, ...] | None, edges: tuple[float, ...] | None) -> str:
    """What a line of parameters says of the domain: "-", or its kind and SHA-256."""
    if categories is not None:
        texts = [text.encode() for text in categories]
        told = b"".join(struct.pack(">I", len(text)) + text for text in texts)
        return "categories:" + hashlib.sha256(told).hexdigest()
    if edges is not None:
        return "edges:" + hashlib.sha256(struct.pack(f">{len(edges)}d", *edges)).hexdigest()
    return "-"


def category_cells(values: Values, categories: tuple[str, ...]) -> np.ndarray:
    """The cell of every distinct value, -1 for one that is none of the categories."""
    positions = {text.encode(): at for at, text in enumerate(categories)}
    return np.array([positions.get(text, -1) for text in values.texts()], np.int32)


def check_categories(values: Values, categories: tuple[str, ...]) -> None:
    """Raise where a row holds none of the categories."""
    wrong = np.flatnonzero(category_cells(values, categories)[values.codes] < 0)
    if wrong.size:
        raise ParameterError(
            f"values: row {wrong[0]} is none of the {len(categories)} categories; let one category "
            "stand for all others, and give that.",
            owner="values",
            parameter="categories",
        )


OTHER = "(other)"  # what stands for all other values


@dataclass(frozen=True)
class Categories:
    """The categories of a scheme, in the order of their cells.

    Parameters: owner, whose errors these are; categories, different texts; other, whether a value
    that is none of them is taken as "(other)", which then has the last cell, or refused (where a
    client reports it: taken as the last category, since a refusal would tell of the value). All
    other values being one, they have one permanent response.

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
            raise ValueError(f"{self.owner}: categories must not hold {OTHER!r} with other=True.")
        if not 2 <= len(self.names) <= 2**16:
            raise ValueError(
                f"{self.owner}: categories must be 2 to 65536, that of other values among them, "
                f"not {len(self.names)}; leave them out to hash any values to cells."
            )

    @property
    def names(self) -> list[str]:
        return [*self.categories, OTHER] if self.other else list(self.categories)

    @property
    def mark(self) -> str:
        """What stands for the domain in a line of parameters."""
        return domain_mark(self.categories, None) + ("+other" if self.other else "")

    def values(self, column: Any) -> Values:
        """A column of values, each one of the categories or "(other)"; else refused by its row."""
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
        """What clients report, each row by itself: what is no category counts as the last one."""
        values = reported_column(column)
        return self._taken(values, [self._positions.get(text, -1) for text in values.texts()])

    def _taken(self, values: Values, found: list[int]) -> Values:
        """The values by the cells that were found for their texts, -1 for the last."""
        cells = np.array(found, np.int64) % len(self._positions)
        kept, codes = np.unique(cells, return_inverse=True)
        return values_of([self.names[cell].encode() for cell in kept], codes[values.codes])

    def cells(self, values: Values) -> np.ndarray:
        """The cell of the value of every row, int32."""
        found = [self._positions[text] for text in values.texts()]
        cells: np.ndarray = np.array(found, np.int32)[values.codes]
        return cells

    @cached_property
    def _positions(self) -> dict[bytes, int]:
        return {name.encode(): at for at, name in enumerate(self.names)}
