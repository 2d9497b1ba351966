"""Schemes for a known domain: every category has a cell, and perhaps all other values one more."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato._require import flag
from sfumato.telemetry._domain import checked_categories, domain_mark
from sfumato.telemetry._values import Values, reported_column, value_column, values_of

__all__ = ["OTHER", "Known"]

OTHER = "(other)"  # what stands for all other values


@dataclass(frozen=True)
class Known:
    """The categories of a scheme, in the order of their cells.

    Parameters: owner, whose errors these are; categories, different texts; other, whether a value
    that is none of them is taken as "(other)", which then has the last cell, or refused (where a
    client reports it: taken as the last category, since a refusal would tell of the value). All
    other values being one, they have one permanent response.

    >>> known = Known("Example", ("tea", "milk"), other=True)
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
        found = [self._places.get(text, -1) for text in values.texts()]
        unknown = np.flatnonzero(np.array(found, np.int64)[values.codes] < 0)
        if not unknown.size:
            return values
        if not self.other:
            raise ValueError(
                f"{self.owner}: row {unknown[0]} of the values is none of the "
                f"{len(self.categories)} categories; other=True makes one of all such values."
            )
        return self._taken(values, found)

    def reported(self, column: Any) -> Values:
        """What clients report, each row by itself: what is no category counts as the last one."""
        values = reported_column(column)
        return self._taken(values, [self._places.get(text, -1) for text in values.texts()])

    def _taken(self, values: Values, found: list[int]) -> Values:
        """The values by the cells that were found for their texts, -1 for the last."""
        cells = np.array(found, np.int64) % len(self._places)
        kept, codes = np.unique(cells, return_inverse=True)
        return values_of([self.names[cell].encode() for cell in kept], codes[values.codes])

    def cells(self, values: Values) -> np.ndarray:
        """The cell of the value of every row, int32."""
        found = [self._places[text] for text in values.texts()]
        cells: np.ndarray = np.array(found, np.int32)[values.codes]
        return cells

    @cached_property
    def _places(self) -> dict[bytes, int]:
        return {name.encode(): at for at, name in enumerate(self.names)}
