"""What sketches of keys share: hashed columns, and the memory whether keys are integers or text."""

from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np

from sfumato.hashing import KeyColumn
from sfumato.sketch._base import Sketch

__all__ = ["KeyedSketch"]


class KeyedSketch(Sketch):
    """A sketch of a column of keys; it remembers whether they are integers or text.

    An integer and its digits as text are different keys, so a sketch of one refuses the other.
    """

    seed: int
    keys: str

    def _key_column(self, keys: Any) -> KeyColumn:
        column = keys if isinstance(keys, KeyColumn) else KeyColumn(keys)
        self._check_kind(column.kind)
        return column

    def _check_kind(self, kind: str) -> None:
        if self.keys and kind and kind != self.keys:
            raise TypeError(
                f"{type(self).__name__}: keys are {kind}, but the sketch holds {self.keys}."
            )

    def _hashes(self, column: KeyColumn) -> Iterator[tuple[slice, np.ndarray]]:
        for start, hashes in column.blocks(self.seed):
            yield slice(start, start + hashes.size), hashes

    def _check_same(self, other: Any, verb: Literal["merge", "compare"]) -> None:
        super()._check_same(other, verb)
        if self.keys and other.keys and self.keys != other.keys:
            raise TypeError(
                f"{type(self).__name__}: cannot {verb}, keys are {self.keys} here and "
                f"{other.keys} there."
            )

    def _join(self, other: Self) -> None:
        super()._join(other)
        self.keys = self.keys or other.keys

    def _check_state(self) -> None:
        super()._check_state()
        if self.keys not in ("", "integers", "text"):
            raise ValueError("keys are neither integers nor text.")
