"""Reports of one cell: one random word decides whether it is of the value or any of all cells."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato._require import positive
from sfumato.privacy.loss import Flips, Loss
from sfumato.telemetry._chances import GRID, symbol_step
from sfumato.telemetry._permanent import Stream
from sfumato.telemetry._scheme import Scheme

__all__ = ["SymbolScheme"]

BLOCK = 1 << 16  # rows answered at a time, whose words stay in the cache


@dataclass(frozen=True)
class SymbolScheme(Scheme):
    """A report marks one cell: of 2**32 words, `wrong` lead to each cell, the rest to the value's.

    A value has `set_size` cells, which share that rest equally, so a cell that is the value's has
    the chance `high` and any other `low`; their ratio is at most exp(epsilon).
    """

    epsilon: float = field(kw_only=True)
    kind: ClassVar[str] = "symbol"
    LIMITS: ClassVar[dict[str, Any]] = {"epsilon": positive}

    @property
    def set_size(self) -> int:
        return 1

    @cached_property
    def wrong(self) -> int:
        """How many of 2**32 words lead to each cell that is not the value's."""
        return symbol_step(type(self).__name__, self.cells, self.set_size, self.epsilon)

    @property
    def extra(self) -> int:
        """How many more lead to each cell of the value."""
        return (GRID - self.cells * self.wrong) // self.set_size

    @property
    def high(self) -> Fraction:
        return Fraction(self.wrong + self.extra, GRID)

    @property
    def low(self) -> Fraction:
        return Fraction(self.wrong, GRID)

    def loss(self) -> Loss:
        """Between two values a report is a function of one bit that was flipped."""
        return Flips(self.low / (self.high + self.low), relation="replace")

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """The cell that the first word of each row's stream leads to, as uint32, low byte first."""
        out = np.empty((members.shape[0], 4), np.uint8)
        for begin in range(0, len(out), BLOCK):
            own = members[begin : begin + BLOCK]
            words = stream.words(np.arange(begin, begin + len(own)), 0, 1)[:, 0]
            answers = self._cells_of(words.astype(np.int64), own).astype("<u4")
            out[begin : begin + BLOCK] = answers.view(np.uint8).reshape(-1, 4)
        return out

    def _cells_of(self, words: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The first cells * wrong words lead to all cells alike, the others to the value's own."""
        rest = words - self.cells * self.wrong
        kept = own[np.arange(len(own)), np.maximum(rest, 0) // self.extra]
        return np.where(rest < 0, words // self.wrong, kept)
