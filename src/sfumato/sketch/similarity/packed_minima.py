"""Minima as MinHash holds them, whole or a few bits of each: bytes, copies, equality and merge."""

import functools
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.validation import integer, one_of
from sfumato.kernels.sketch.minhash import EMPTY, STEP, cut
from sfumato.sketch.base import EXACT, SEED, KeyedSketch, Merging, Sketch, refused

__all__ = ["WHOLE", "PackedMinima", "coefficients"]

WHOLE = 32  # bits of a minimum
REFUSED = "{} bits do not tell which of two minima is lower; merge whole ones, then use with_bits."


class PackedMinima(KeyedSketch, in_files=False):
    """The state of MinHash. `held` says what of it there is: "minima", or only "bits" of them."""

    permutations: Annotated[int, integer(1, 2**16)]
    seed: Annotated[int, SEED]
    kind: Annotated[str, one_of(("permutations", "one-permutation", "k-minimum"))]
    bits: Annotated[int, integer(1, WHOLE)]
    keys: str
    held: str
    _minima: np.ndarray
    _cut: np.ndarray
    _full: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _idempotent = True
    _scalars = {"keys": "", "held": "minima"}

    @property
    def merging(self) -> Merging:
        return EXACT if self.bits == WHOLE else refused(REFUSED.format(self.bits))

    def with_bits(self, bits: int) -> Self:
        """This set as a sketch that keeps fewer bits of each minimum.

        Parameters
        ----------
        bits : int
            TODO.

        Returns
        -------
        Self
            This set as a sketch that keeps fewer bits of each minimum.
        """
        self._whole_minima()
        parameters = {**self.parameters, "bits": bits}
        return self._twin(parameters, "minima", _minima=self._minima.copy())

    def copy(self) -> Self:
        """An independent sketch with the same content, which takes keys if this one does.

        Returns
        -------
        Self
            An independent sketch with the same content, which takes keys if this one does.
        """
        arrays = {name: array.copy() for name, array in self._arrays().items()}
        return self._twin(self.parameters, self.held, **arrays)

    __copy__ = copy

    def to_bytes(self) -> bytes:
        """The sketch as bytes; of each minimum, only `bits` bits are written.

        Returns
        -------
        bytes
            The sketch as bytes; of each minimum, only `bits` bits are written.
        """
        return Sketch.to_bytes(self._kept())

    def __eq__(self, other: object) -> bool:
        """Whether the bytes of both are the same."""
        if not isinstance(other, PackedMinima):
            return NotImplemented
        return bool(Sketch.__eq__(self._kept(), other._kept()))

    __hash__ = None  # type: ignore[assignment]

    @property
    def _chance(self) -> float:
        """The probability that different minima agree in the bits that are kept."""
        return 0.0 if self.bits == WHOLE else float(2.0**-self.bits)

    @property
    def _dtype(self) -> Any:
        return np.uint8 if self.bits <= 8 else np.uint16 if self.bits <= 16 else np.uint32

    def _values(self) -> np.ndarray:
        """What is compared: minima or their kept bits, EMPTY where there is none."""
        if self.bits == WHOLE:
            return self._minima
        if self.held == "bits":
            values = _unpack(self._cut, self.permutations, self.bits)
            full = bool(self.keys)
            if self.kind == "one-permutation":
                full = _unpack(self._full, self.permutations, 1) == 1
        else:
            values, full = np.empty_like(self._minima), self._minima != EMPTY
            cut(self._minima[np.newaxis], self.bits, values[np.newaxis])
        return np.where(full, values, EMPTY)

    def _whole_minima(self) -> np.ndarray:
        if self.bits < WHOLE:
            raise ValueError(f"MinHash: whole minima are needed, {self.bits} bits do not do.")
        return self._minima

    def _kept(self) -> Self:
        """The sketch as its bytes hold it."""
        if self.bits == WHOLE or self.held == "bits":
            return self
        values = self._values()
        arrays = {"_cut": _pack(values, self.bits)}
        if self.kind == "one-permutation":
            arrays["_full"] = _pack(values != EMPTY, 1)
        return self._twin(self.parameters, "bits", **arrays)

    def _twin(self, parameters: dict[str, Any], held: str, **arrays: np.ndarray) -> Self:
        twin = type(self).__new__(type(self))
        twin._set_parameters(**parameters)
        twin.keys, twin.held = self.keys, held
        for name, array in arrays.items():
            setattr(twin, name, array)
        return twin

    def _check_parameters(self) -> None:
        if self.kind == "k-minimum" and self.bits != WHOLE:
            raise ValueError(f"MinHash: bits must be {WHOLE} for k-minimum, not {self.bits}.")

    def _layout(self) -> dict[str, Cells]:
        if self.held == "bits":
            names = {"_cut": self.bits} | ({"_full": 1} if self.kind == "one-permutation" else {})
            return {
                name: Cells(np.uint8, (-(-self.permutations * bits // 8),), "")
                for name, bits in names.items()
            }
        shape, start = (self.permutations,), int(EMPTY)
        if self.kind == "k-minimum":
            return {"_minima": Cells(np.uint32, shape, "", start)}
        return {"_minima": Cells(np.uint32, shape, "min", start)}

    def _join(self, other: Self) -> None:
        if self.kind == "k-minimum":
            lowest = np.union1d(self._minima, other._minima)[: self.permutations]
            self._minima[: lowest.size] = lowest
            self.keys = self.keys or other.keys
        else:
            super()._join(other)

    def _check_state(self) -> None:
        super()._check_state()
        if self.held != ("minima" if self.bits == WHOLE else "bits"):
            raise ValueError("what is held of the minima does not go with the bits.")
        values = self._values()
        if self.kind == "k-minimum" and not _ascending(values):
            raise ValueError("the lowest values are not in order.")
        if not self.keys and (values != EMPTY).any():
            raise ValueError("an empty set has minima.")


@functools.cache
def coefficients(permutations: int) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers, all odd, and shifts of the permutations, and of unused ones up to a STEP."""
    # The same for every seed of a sketch, which already chooses the hashes that are permuted.
    drawn = hash_column(range(-(-permutations // STEP) * STEP), seed=0x6D696E2D68617368)
    return drawn.astype(np.uint32) | np.uint32(1), (drawn >> np.uint64(32)).astype(np.uint32)


def _pack(values: np.ndarray, bits: int) -> np.ndarray:
    """The low bits of every value, one value after the other, in as few bytes as they fill."""
    positions = np.arange(bits, dtype=np.uint32)
    return np.packbits((values[:, np.newaxis].astype(np.uint32) >> positions & 1).astype(np.uint8))


def _unpack(packed: np.ndarray, size: int, bits: int) -> np.ndarray:
    """The values that were packed."""
    table = np.unpackbits(packed, count=size * bits).reshape(size, bits)
    return np.asarray(table @ (np.uint32(1) << np.arange(bits, dtype=np.uint32)))


def _ascending(values: np.ndarray) -> bool:
    """Whether values rise, each different, and only EMPTY ones follow the first of those."""
    rising = values[1:] > values[:-1]
    return bool((rising | (values[1:] == EMPTY)).all())
