"""What is kept in files: declared parameters, declared cells, and bytes, == and repr from those."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_type_hints

import numpy as np

from sfumato.core import file_format
from sfumato.core.file_format import SketchFormatError
from sfumato.core.tables import described
from sfumato.core.typing import Bytes
from sfumato.core.validation import Limit, whole

__all__ = ["Cells", "Stored", "load"]

TOTAL = whole(-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Cells:
    """One array: its dtype and shape, how two of them join, and what it starts as.

    A length of -1 means "as many as were kept". A join of "" leaves the array to `_join`.
    """

    dtype: Any
    shape: tuple[int, ...]
    join: Literal["add", "or", "max", "min", ""] = "add"
    start: int = 0


class Stored:
    """The base of all that is saved: sketches, and releases of them.

    A subclass annotates its parameters with their limits, names its scalar state in `_scalars` and
    its arrays in `_layout`. Files may hold it, unless `in_files=False` says that it is only a base.
    """

    KINDS: ClassVar[dict[str, type["Stored"]]] = {}
    version: ClassVar[int] = 1  # of the cells' meaning; files of another version are refused
    _scalars: ClassVar[dict[str, int | float | str]] = {}
    _limits: ClassVar[dict[str, Limit]] = {}

    def __init_subclass__(cls, *, in_files: bool = True) -> None:
        super().__init_subclass__()
        hints = get_type_hints(cls, include_extras=True)
        named = [*cls.__annotations__, *hints]  # a class's own order first
        cls._limits = {
            name: hints[name].__metadata__[0]
            for name in named
            if hasattr(hints[name], "__metadata__")
        }
        if in_files and cls._limits:
            Stored.KINDS[cls.__name__] = cls

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._limits and name in self.__dict__:
            kind = type(self).__name__
            raise AttributeError(f"{kind}: {name} cannot be changed; build another {kind}.")
        super().__setattr__(name, value)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters the sketch was built with."""
        return {name: getattr(self, name) for name in self._limits}

    @property
    def nbytes(self) -> int:
        """Bytes of all cells."""
        return sum(int(array.nbytes) for array in self._arrays().values())

    def to_bytes(self) -> bytes:
        """The sketch as bytes with magic, version, parameters, cells and checksum."""
        header = {
            "kind": type(self).__name__,
            "version": self.version,
            "parameters": self.parameters,
            "state": self._state(),
        }
        return file_format.pack(header, self._arrays())

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The sketch in these bytes; SketchFormatError when they are not a whole, intact one."""
        packed = file_format.Packed(data)
        kind = Stored.KINDS.get(packed.kind)
        if kind is None or not issubclass(kind, cls):
            raise SketchFormatError(f"{cls.__name__}: the bytes hold a {packed.kind!r}.")
        if packed.version != kind.version and not kind._reads(packed):
            raise SketchFormatError(
                f"{packed.kind}: version {packed.version} of the format cannot be read, only "
                f"{kind.version}; use the sfumato that wrote it, or make it anew from its data."
            )
        sketch: Self = kind.__new__(kind)
        with file_format.damaged(packed.kind):
            sketch._restore(packed)
        return sketch

    @classmethod
    def _reads(cls, packed: "file_format.Packed") -> bool:
        """Whether a file of another version is read; a subclass may bring it up to date here."""
        return False

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sketch to a file that is either complete or not there."""
        file_format.write_whole(Path(path), self.to_bytes())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Stored)
        mine, yours = self._arrays(), other._arrays()
        return (
            self.parameters == other.parameters
            and all(getattr(self, name) == getattr(other, name) for name in self._scalars)
            and all(np.array_equal(mine[name], yours[name]) for name in mine)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return described(self, **self.parameters)

    def _set_parameters(self, **values: Any) -> None:
        for name, limit in self._limits.items():
            setattr(self, name, limit.check(type(self).__name__, name, values.pop(name)))
        if values:
            raise TypeError(f"{type(self).__name__}: unknown parameter {next(iter(values))!r}.")
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Raise ValueError where parameters that are fine alone do not go together."""

    def _check_same(self, other: Any, verb: Literal["merge", "compare"]) -> None:
        """Raise, saying what cannot be done, where the kind or a parameter is not the same."""
        name = type(self).__name__
        if type(other) is not type(self):
            raise TypeError(f"{name}: cannot {verb} with {type(other).__name__}.")
        for parameter in self._to_agree(other):
            mine, yours = getattr(self, parameter), getattr(other, parameter)
            if mine != yours:
                raise ValueError(
                    f"{name}: cannot {verb}, {parameter} is {mine!r} here and {yours!r} there."
                )

    def _to_agree(self, other: Self) -> Iterable[str]:
        """The parameters that must be the same for a merge or comparison with the other."""
        return self._limits

    def _state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._scalars}

    def _layout(self) -> dict[str, Cells]:
        """The arrays, from parameters and scalar state alone; nothing is allocated here."""
        raise NotImplementedError

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in self._layout()}

    def _restore(self, packed: "file_format.Packed") -> None:
        self._set_parameters(**packed.parameters)
        for name, start in self._scalars.items():
            value = packed.state[name]
            if type(value) is not type(start) or value != value:
                raise ValueError(f"{name} has the wrong type.")
            setattr(self, name, TOTAL.check("state", name, value) if type(value) is int else value)
        for name, array in packed.arrays(self._layout()).items():
            setattr(self, name, array)
        self._check_state()

    def _check_state(self) -> None:
        """Raise ValueError where cells read from a file break what the kernels rely on."""


def load(source: Any) -> Any:
    """Any sketch or release, from its bytes or from a file's path.

    >>> from sfumato.sketch import CountMin
    >>> load(CountMin(64).update([1, 1, 2]).to_bytes()).estimate([1])
    array([2])
    """
    if isinstance(source, str | os.PathLike):
        source = file_format.packed_file(source)
    return Stored.from_bytes(source)
