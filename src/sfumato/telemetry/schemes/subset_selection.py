"""Subset selection: a report is a random subset of cells that favours the value's own cell."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any, ClassVar

import numpy as np

from sfumato.core.deprecation import renamed_property
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
    """Subset selection: reports of exactly `chosen` cells, for known categories or hashed values.

    Use it where accuracy matters more than the size of a report, cells / 8 bytes. With
    ``chosen=1`` and categories it is k-ary randomized response.

    Parameters
    ----------
    epsilon : float
        Largest privacy loss of all reports of one value, above 0.
    categories : tuple of str or None, default=None
        Known values, 2 to 65536 with "(other)", one cell each; None hashes any value to cells.
    cells : int, default=None
        Range of the hash functions, from 2 to 65536; if None, 256. Follows from `categories`.
    cohorts : int, default=None
        Number of cohorts and hash functions, from 1 to 65536; if None, 64. With `categories`, 1.
    metric : str, default=""
        Name of what is collected; noise of different metrics is independent.
    chosen : int, default=None
        Cells of a report, from 1 to cells - 1; if None the best for rare values, close to
        cells / (exp(epsilon) + 1).
    other : bool, default=False
        Whether values outside the categories share one more cell, "(other)".

    Notes
    -----
    **Guarantee.** Under replacing the value of one client, all reports of a value together are
    epsilon-differentially private, however often it is reported with one secret. The value's own
    cell is in the subset with probability `high`, a multiple of 2**-32; given that it is or is not,
    all such subsets are equally likely. So ``epsilon_permanent = epsilon_one = ln(high (cells -
    chosen) / ((1 - high) chosen)) <= epsilon``.

    With known categories, no scheme has a smaller worst-case error as n grows [1]_. Hashed to many
    cells, the standard error of the count of a rare value is that of local hashing at its best,
    ``2 exp(epsilon / 2) / (exp(epsilon) - 1) sqrt(n)``, but at any epsilon, since chosen / cells
    need not be one over an integer. Its ``cohorts (cells - 1)`` degrees of freedom allow fewer
    cohorts, hence fewer hashes to decode. The price is cells / 8 bytes per report instead of four.

    References
    ----------
    .. [1] Ye, Barg. "Optimal Schemes for Discrete Distribution Estimation under Locally
       Differential Privacy". IEEE Transactions on Information Theory 2018, section III.
       https://arxiv.org/abs/1702.00610
    .. [2] Wang, Huang, Wang, Nie, Xu, Yang, Li, Qiao. "Mutual Information Optimally Local Private
       Discrete Distribution Estimation". 2016. https://arxiv.org/abs/1607.08025

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
        self.own_words  # noqa: B018  refuses an epsilon at which reports carry no information

    def _settle(self, name: str, usual: int, needed: int | None = None) -> None:
        """Replace a parameter of None by its default; refuse one that the categories exclude."""
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
        """Known categories; None if values are hashed."""
        if self.categories is None:
            return None
        return Categories("SubsetSelection", self.categories, self.other)

    @property
    def domain(self) -> list[Any] | None:
        return list(self.known.names) if self.known else None

    @cached_property
    def own_words(self) -> int:
        """Number of the 2**32 random words that put the value's own cell in the subset."""
        return subset_step("SubsetSelection", self.cells, self.chosen, self.epsilon)

    kept = renamed_property("kept", "own_words")

    @property
    def high(self) -> Fraction:
        """Probability that the value's own cell is in the subset."""
        return Fraction(self.own_words, GRID)

    @property
    def low(self) -> Fraction:
        """Probability that any other cell is in the subset."""
        return (self.chosen - self.high) / (self.cells - 1)

    def loss(self) -> Loss:
        # Between two values a report is a function of one flipped bit.
        odds = self.high * (self.cells - self.chosen) / ((1 - self.high) * self.chosen)
        return Flips(1 / (1 + odds), relation="replace")

    def line(self) -> str:
        sizes = f"{self.cells}/{self.chosen}/{self.cohorts}/{self.own_words}"
        digest = self.known.digest if self.known else "-"
        return f"sfumato/telemetry/1/{self.name}/{sizes}/{digest}/{self.metric}"

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
        """Draw the permanent response of every row: a subset of `chosen` cells.

        Word 0 of a row's stream decides whether the own cell is in; the next `chosen` words choose
        the others. Where one of these words would favour some cells, the row goes on with the next
        `chosen` words, so that the subset is uniform.

        Parameters
        ----------
        stream : Stream
            Uniform 32-bit words, one stream per row: keyed by the client's secret, or fresh.
        members : ndarray of shape (n, 1)
            Cell of each row's value in its cohort.

        Returns
        -------
        ndarray of shape (n, payload_bytes) with dtype uint8
            Payload of each row.
        """
        members = self.inside(members)
        out = np.empty((members.shape[0], self.payload_bytes), np.uint8)
        for rows in self._blocks(len(out)):
            words = stream.words(rows, 0, 1 + self.chosen)
            included = words[:, 0] < self.own_words
            refused = self._draw(words[:, 1:], rows, included, members, out)
            starts = count(1 + self.chosen, self.chosen)
            while refused.any():
                rows, included = rows[refused], included[refused]
                words = stream.words(rows, next(starts), self.chosen)
                refused = self._draw(words, rows, included, members, out)
        return out

    def _blocks(self, rows: int) -> Iterator[np.ndarray]:
        """Yield row numbers in blocks."""
        step = max(1, min(BLOCK, WORDS // (1 + self.chosen)))
        for begin in range(0, rows, step):
            yield np.arange(begin, min(begin + step, rows))

    def _draw(
        self,
        words: np.ndarray,
        rows: np.ndarray,
        included: np.ndarray,
        members: np.ndarray,
        out: np.ndarray,
    ) -> np.ndarray:
        """Write the subsets of these rows and return which of them need other words."""
        refused, part = np.zeros(rows.size, bool), np.zeros((rows.size, out.shape[1]), np.uint8)
        own = members[rows, 0].astype(np.int64)
        words = np.ascontiguousarray(words)  # one kind of array, so one compiled kernel
        subsets.choose_subset(words, own, included, self.chosen, self.cells, refused, part)
        out[rows] = part
        return refused

    def _best(self) -> int:
        """Return the subset size of least variance, about cells / (exp(epsilon) + 1)."""
        odds = math.exp(min(self.epsilon, 22.0))  # beyond what steps of 2**-32 can express
        ideal = self.cells / (odds + 1)
        around = {max(1, math.floor(ideal)), max(1, math.ceil(ideal))}
        return min(around, key=lambda chosen: _variance(chosen, self.cells, odds, bool(self.known)))


def _variance(chosen: int, cells: int, odds: float, known: bool) -> float:
    """Return the variance per report of the count of a rare value."""
    high = chosen * odds / (chosen * odds + cells - chosen)
    low = (chosen - high) / (cells - 1)
    if high <= low:
        return math.inf  # an epsilon so small that both are one float
    mean = low if known else chosen / cells  # a hashed cell is also that of other values
    return mean * (1 - mean) / (high - low) ** 2
