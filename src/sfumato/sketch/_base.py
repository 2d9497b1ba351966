"""What every sketch is: how it starts, copies and merges, from the cells it declares."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np

from sfumato._require import whole
from sfumato.kernels.lanes import aligned
from sfumato.sketch._stored import TOTAL, Cells, Stored, load

__all__ = ["EXACT", "Cells", "Merging", "Sketch", "load", "refused", "rounding"]

SEED = whole(0, 2**64 - 1)
JOINS = {"add": np.add, "or": np.bitwise_or, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Merging:
    """How a sketch merges: bit for bit, up to rounding, or not at all, and why.

    tolerance: the most that a cell of a rounding merge may differ from that of one stream, as a
    share of the sum of the sizes of all that was added.
    """

    kind: Literal["exact", "rounding", "refused"]
    reason: str = ""
    tolerance: float = 0.0


EXACT = Merging("exact")


def rounding(reason: str, tolerance: float = 1e-9) -> Merging:
    return Merging("rounding", reason, tolerance)


def refused(reason: str) -> Merging:
    return Merging("refused", reason)


class Sketch(Stored):
    """The base of all sketches.

    Several threads may read one sketch at a time; a thread that updates or merges needs the sketch
    to itself (give each thread its own and merge them, as the engine does). A call that raises
    leaves the sketch as it was; Ctrl-C may leave a part of the column counted, but what bounds the
    effect of one event (`heaviest`, `mass`) is written before any cell, so that no release of the
    rest claims less than is true.
    """

    _no_release = "no mechanism is proved for it."
    _idempotent: ClassVar[bool] = False  # whether a key that comes again changes nothing

    @property
    def merging(self) -> Merging:
        """How this sketch merges; see `Merging`."""
        return EXACT

    def merge(self, other: Self) -> Self:
        """Take in another sketch of the same parameters, as if its stream had come here too."""
        self._check_mergeable(other)
        self._join(other)
        return self

    def copy(self) -> Self:
        """An independent sketch with the same content."""
        twin = type(self).__new__(type(self))
        for name in (*self._limits, *self._scalars):
            setattr(twin, name, getattr(self, name))
        for name, array in self._arrays().items():
            fresh = aligned(array.shape, array.dtype)
            fresh[...] = array
            setattr(twin, name, fresh)
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def release(self, *args: Any, **options: Any) -> Any:
        """A private release; refused here, with the reason."""
        self._refuse_release()

    def _refuse_release(self) -> NoReturn:
        raise ValueError(f"{type(self).__name__}: cannot be released, {self._no_release}")

    def _allocate(self) -> None:
        for name, value in self._scalars.items():
            setattr(self, name, value)
        for name, cells in self._layout().items():
            array = aligned(tuple(max(length, 0) for length in cells.shape), cells.dtype)
            if cells.start:
                array.fill(cells.start)
            setattr(self, name, array)

    def _check_mergeable(self, other: "Sketch") -> None:
        self._check_same(other, "merge")
        if self.merging.kind == "refused":
            raise ValueError(f"{type(self).__name__}: cannot merge, {self.merging.reason}")
        if other is self and not self._idempotent:
            raise ValueError(
                f"{type(self).__name__}: cannot merge with itself, every event would count twice; "
                "merge a sketch of other events."
            )

    def _join(self, other: Self) -> None:
        totals = {
            name: TOTAL.check(type(self).__name__, name, getattr(self, name) + getattr(other, name))
            for name, start in self._scalars.items()
            if type(start) is int
        }
        self.__dict__.update(totals)  # at once, or Ctrl-C might leave some that do not fit
        for name, cells in self._layout().items():
            mine = getattr(self, name)
            JOINS[cells.join](mine, getattr(other, name), out=mine)
