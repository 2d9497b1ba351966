"""What sketches of keys share: hashed columns, and the memory whether there were any."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from sfumato.hashing import KeyColumn
from sfumato.sketch._base import Sketch
from sfumato.sketch._format import Packed

__all__ = ["KeyedSketch"]

NONE, SOME = "", "some"


class KeyedSketch(Sketch):
    """A sketch of a column of keys of any types; see `sfumato.hashing` for what one key is."""

    seed: int
    keys: str  # "some" once there were any

    def _key_column(self, keys: Any) -> KeyColumn:
        return keys if isinstance(keys, KeyColumn) else KeyColumn(keys)

    def _note_keys(self, column: KeyColumn) -> None:
        """Remember whether there were any keys; which types they had is nowhere kept."""
        self.keys = SOME if column.size else self.keys

    @classmethod
    def _reads(cls, packed: Packed) -> bool:
        """The version before, where keys were integers: digits as text had other hashes then."""
        known = packed.version == cls.version - 1 and packed.state.get("keys") in ("", "integers")
        if known and packed.state["keys"]:
            packed.state["keys"] = SOME
        return known

    def _hashes(self, column: KeyColumn) -> Iterator[tuple[slice, np.ndarray]]:
        for start, hashes in column.blocks(self.seed):
            yield slice(start, start + hashes.size), hashes

    def _join(self, other: Self) -> None:
        super()._join(other)
        self.keys = self.keys or other.keys

    def _check_state(self) -> None:
        super()._check_state()
        if self.keys not in (NONE, SOME):
            raise ValueError("whether there are keys is not said.")
