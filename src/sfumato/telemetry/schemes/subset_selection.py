"""Subset selection: a report is a random set of cells that holds the value's own more often."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any, ClassVar

import numpy as np

from sfumato.core.typing import Column
from sfumato.core.validation import checked, integer, optional, positive
from sfumato.kernels.telemetry import responses as subsets
from sfumato.privacy.accounting.losses import Flips, Loss
from sfumato.telemetry.keyed_randomness import Stream
from sfumato.telemetry.schemes.base import GRID, Scheme, subset_step
from sfumato.telemetry.schemes.cells import Categories, hashed_members, own_hashed_members
from sfumato.telemetry.values import Values

__all__ = ["SubsetSelection"]

BLOCK = 1 << 13  # rows answered at a time, whose words stay in the cache
WORDS = 1 << 23  # of these rows at most: 32 MiB
CELLS, COHORTS = 256, 64


@dataclass(frozen=True, repr=False)
class SubsetSelection(Scheme):
    """Reports of exactly `chosen` cells, for known categories or for hashed values.

    Parameters
    ----------
    epsilon : float
        Above 0.
    categories : tuple or None, default=None
        2 to 65536 texts with a cell each (cohorts is then 1), or cells, 2 to 65536,.
    cells : int, default=None
        TODO.
    cohorts : int, default=None
        1 to 65536, for values that are hashed (256 and 64 if left out).
    metric : str, default=""
        Text that separates secrets.
    chosen : int, default=None
        1 to cells - 1, the best if left out (1 is k-ary response).
    other : bool, default=False
        Whether all values that are no category share one more cell.

    Notes
    -----
    **Guarantee.** The value's own cell is in the set with the chance `high`, a multiple of 2**-32;
    given that it is or is not, all sets are alike, without bias. So epsilon_permanent = epsilon_one
    = ln(high (cells - chosen) / ((1 - high) chosen)), never above epsilon, however often the same
    value is reported. With known categories, no scheme has a smaller worst error as n grows (Ye and
    Barg). Hashed to many cells, the count of a rare value is off as by local hashing at its best,
    by 2 exp(epsilon / 2) / (exp(epsilon) - 1) sqrt(n), but at any epsilon, since chosen / cells
    need not be one over an integer; and its cohorts (cells - 1) free counts need fewer cohorts, so
    fewer hashes to decode. The price is cells / 8 bytes a report instead of four.

    References
    ----------
    .. [1] Ye and Barg 2018, section III; Wang, Huang, Wang, Nie, Xu, Yang, Li and Qiao 2016.

    Examples
    --------
    >>> scheme = SubsetSelection(2, categories=["tea", "milk", "rum"], other=True)
    >>> scheme.cells, scheme.chosen, scheme.members(["milk", "gin"]).ravel().tolist()
    (4, 1, [1, 3])
    >>> SubsetSelection(2).chosen
    31
    """

    epsilon: float
    categories: tuple[str, ...] | None = None
    cells: int = field(default=None)  # type: ignore[assignment]  # set when built
    cohorts: int = field(default=None)  # type: ignore[assignment]
    chosen: int = field(default=None, kw_only=True)  # type: ignore[assignment]
    other: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "subset-selection"
    kind: ClassVar[str] = "subset"
    LIMITS: ClassVar[dict[str, Any]] = {
        "epsilon": positive,
        "cells": optional(integer(2, 2**16)),
        "cohorts": optional(integer(1, 2**16)),
        "chosen": optional(integer(1, 2**16 - 1)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self, self.LIMITS)
        if self.known:
            object.__setattr__(self, "categories", self.known.categories)
        elif self.other is not False:
            raise ValueError("SubsetSelection: other needs categories; hashing takes any value.")
        self._settle("cells", CELLS, len(self.known.names) if self.known else None)
        self._settle("cohorts", COHORTS, 1 if self.known else None)
        self._settle("chosen", self._best())
        if self.chosen >= self.cells:
            limit = f"below the number of cells, {self.cells}"
            raise ValueError(f"SubsetSelection: chosen must be {limit}, not {self.chosen!r}.")
        self.kept  # noqa: B018  refuses an epsilon that would tell nothing

    def _settle(self, name: str, usual: int, needed: int | None = None) -> None:
        """What was left out becomes the usual; with categories another value is refused."""
        given = getattr(self, name)
        if needed is not None and given not in (None, needed):
            raise ValueError(
                f"SubsetSelection: {name} must be {needed} with these categories, or be left out, "
                f"not {given!r}."
            )
        if given is None:
            object.__setattr__(self, name, needed or usual)

    @cached_property
    def known(self) -> Categories | None:
        """The domain, where it is known."""
        if self.categories is None:
            return None
        return Categories("SubsetSelection", self.categories, self.other)

    @property
    def domain(self) -> list[Any] | None:
        return list(self.known.names) if self.known else None

    @cached_property
    def kept(self) -> int:
        """How many of 2**32 words put the value's own cell in the set."""
        return subset_step("SubsetSelection", self.cells, self.chosen, self.epsilon)

    @property
    def high(self) -> Fraction:
        """TODO."""
        return Fraction(self.kept, GRID)

    @property
    def low(self) -> Fraction:
        """TODO."""
        return (self.chosen - self.high) / (self.cells - 1)

    def loss(self) -> Loss:
        """Between two values a report is a function of one bit that was flipped.

        Returns
        -------
        Loss
            TODO.
        """
        odds = self.high * (self.cells - self.chosen) / ((1 - self.high) * self.chosen)
        return Flips(1 / (1 + odds), relation="replace")

    def line(self) -> str:
        sizes = f"{self.cells}/{self.chosen}/{self.cohorts}/{self.kept}"
        mark = self.known.mark if self.known else "-"
        return f"sfumato/telemetry/1/{self.name}/{sizes}/{mark}/{self.metric}"

    def sentence(self) -> str:
        return (
            f"subset selection, {self.chosen} of {self.cells} cells, {self._cohort_words}, the "
            f"value's own among them for ever with probability {float(self.high):.6g}, metric "
            f"{self.metric!r}"
        )

    def values(self, column: Column) -> Values:
        return self.known.values(column) if self.known else super().values(column)

    def reported(self, column: Column) -> Values:
        return self.known.reported(column) if self.known else super().reported(column)

    def members(self, values: Any) -> np.ndarray:
        values = self.values(values)
        if self.known:
            return self.known.cells(values)[:, np.newaxis, np.newaxis]
        return hashed_members(values, self.cohorts, self.cells)

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        if self.known:
            return self.known.cells(values)[:, np.newaxis]
        return own_hashed_members(values, cohorts, self.cohorts, self.cells)

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """Word 0 of the row's stream says whether the own cell is in; the next choose the others.

        They are taken `chosen` at a time; where one of them would favour some cells, the row goes
        on with the next so many, so that what is left is uniform.

        Parameters
        ----------
        stream : Stream
            TODO.
        members : ndarray
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        members = self.inside(members)
        out = np.empty((members.shape[0], self.payload_bytes), np.uint8)
        for rows in self._blocks(len(out)):
            words = stream.words(rows, 0, 1 + self.chosen)
            kept = words[:, 0] < self.kept
            refused = self._draw(words[:, 1:], rows, kept, members, out)
            starts = count(1 + self.chosen, self.chosen)
            while refused.any():
                rows, kept = rows[refused], kept[refused]
                words = stream.words(rows, next(starts), self.chosen)
                refused = self._draw(words, rows, kept, members, out)
        return out

    def _blocks(self, rows: int) -> Iterator[np.ndarray]:
        """The numbers of a few rows at a time."""
        step = max(1, min(BLOCK, WORDS // (1 + self.chosen)))
        for begin in range(0, rows, step):
            yield np.arange(begin, min(begin + step, rows))

    def _draw(
        self, words: np.ndarray, rows: np.ndarray, kept: np.ndarray, members: np.ndarray, out: Any
    ) -> np.ndarray:
        """Write the sets of these rows and say which of them need other words."""
        refused, part = np.zeros(rows.size, bool), np.zeros((rows.size, out.shape[1]), np.uint8)
        own = members[rows, 0].astype(np.int64)
        words = np.ascontiguousarray(words)  # one kind of array, so one compiled kernel
        subsets.choose_subset(words, own, kept, self.chosen, self.cells, refused, part)
        out[rows] = part
        return refused

    def _best(self) -> int:
        """The size of a set that estimates rare values best: about cells / (exp(epsilon) + 1)."""
        odds = math.exp(min(self.epsilon, 22.0))  # beyond what chances of 2**-32 can reach
        share = self.cells / (odds + 1)
        around = {max(1, math.floor(share)), max(1, math.ceil(share))}
        return min(around, key=lambda chosen: _spread(chosen, self.cells, odds, bool(self.known)))


def _spread(chosen: int, cells: int, odds: float, known: bool) -> float:
    """The variance, per report, of the count of a rare value."""
    high = chosen * odds / (chosen * odds + cells - chosen)
    low = (chosen - high) / (cells - 1)
    if high <= low:
        return math.inf  # an epsilon so small that floats see no difference
    mean = low if known else chosen / cells  # hashed, a cell also has others' values
    return mean * (1 - mean) / (high - low) ** 2
