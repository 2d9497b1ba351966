"""One party's part of a secure sum: numbers that nobody but a secure sum may see."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sfumato._require import whole
from sfumato.sketch._format import Packed, SketchFormatError, damaged, pack
from sfumato.sketch._stored import Cells

__all__ = ["NoisyShare"]

FIELDS = ("kind", "parameters", "promise", "insecure", "masked")


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyShare:
    """A sketch with a share of noise that is too small to hide anybody: not a release.

    It answers nothing and promises nothing. It can only be added to the shares of other parties,
    modulo 2**64; `sum_shares` makes a release of the sum.
    Parameters: terms, agreed on by all; members, the parties whose shares are in it; kind and
    parameters of the release that the sum will be, and promise, what the statement of that will
    say; insecure, True if the noise came from a seed; masked, True while masks of a secure sum are
    on the cells.
    """

    terms: dict[str, Any]
    kind: str
    parameters: dict[str, Any]
    promise: dict[str, Any]
    members: tuple[int, ...]
    insecure: bool
    cells: dict[str, np.ndarray]
    masked: bool = False
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        known = range(whole(1, 2**31).check("NoisyShare", "parties", self.terms["parties"]))
        inside = {member for member in self.members if member in known}
        if not self.members or sorted(inside) != list(self.members):
            raise ValueError("NoisyShare: members must be parties of the terms, each once.")

    def __add__(self, other: "NoisyShare") -> "NoisyShare":
        """The sum, modulo 2**64, once both are of the same terms and of different parties."""
        if not isinstance(other, NoisyShare):
            return NotImplemented
        for name in ("terms", "kind", "parameters", "promise", "masked"):
            mine, yours = getattr(self, name), getattr(other, name)
            if mine != yours:
                raise ValueError(
                    f"NoisyShare: cannot add, {name} is {mine!r} here and {yours!r} there."
                )
        shapes = [{name: at.shape for name, at in one.cells.items()} for one in (self, other)]
        if shapes[0] != shapes[1]:
            raise ValueError("NoisyShare: cannot add, the cells are not of the same shapes.")
        twice = sorted(set(self.members) & set(other.members))
        if twice:
            raise ValueError(f"NoisyShare: cannot add, party {twice[0]} is in both.")
        return replace(
            self,
            members=tuple(sorted(self.members + other.members)),
            insecure=self.insecure or other.insecure,
            cells={name: array + other.cells[name] for name, array in self.cells.items()},
        )

    def moved(self, by: dict[str, np.ndarray], *, masked: bool) -> Self:
        """The share with something added to its cells, modulo 2**64."""
        cells = {name: array + by[name] for name, array in self.cells.items()}
        return replace(self, cells=cells, masked=masked)

    def to_bytes(self) -> bytes:
        """The share as bytes, for the channel to the secure sum."""
        state = {name: getattr(self, name) for name in FIELDS}
        header = {
            "kind": "NoisyShare",
            "version": self.version,
            "parameters": self.terms,
            "state": {**state, "members": list(self.members)},
        }
        return pack(header, self.cells)

    @classmethod
    def from_bytes(cls, data: Any) -> Self:
        """The share in these bytes; SketchFormatError when they are not a whole, intact one."""
        packed = Packed(data)
        if packed.kind != "NoisyShare" or packed.version != cls.version:
            raise SketchFormatError(f"NoisyShare: the bytes hold a {packed.kind!r}.")
        with damaged("NoisyShare"):
            state = {name: packed.state[name] for name in FIELDS}
            members = tuple(int(each) for each in packed.state["members"])
            layout = {name: Cells(np.uint64, tuple(shape)) for name, _, shape in packed._listed}
            cells = packed.arrays(layout)
            return cls(terms=packed.parameters, members=members, cells=cells, **state)

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.members))
        return f"NoisyShare of {self.kind}, party {names}: not private, for a secure sum only"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)
