"""State of MinHash, full minima or some bits of each: bytes, copies, equality and merge."""

import functools
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import integer, one_of
from sfumato.kernels.seed_keys import integer_hashes
from sfumato.kernels.sketch import minhash
from sfumato.kernels.sketch.layout import EMPTY, STEP
from sfumato.sketch.base import EXACT, SEED, KeyedSketch, Merging, Sketch, refused

__all__ = ["FULL_BITS", "PackedMinima", "coefficients"]

FULL_BITS = 32  # bits of a minimum
REFUSED = "{} bits do not order two minima; merge sketches of all 32 bits, then use with_bits."


class PackedMinima(KeyedSketch, in_files=False):
    """The state of MinHash; `held` says what is stored: "minima", or only "bits" of them."""

    permutations: Annotated[int, integer(1, 2**16)]
    seed: Annotated[int, SEED]
    kind: Annotated[str, one_of(("permutations", "one-permutation", "k-minimum"))]
    bits: Annotated[int, integer(1, FULL_BITS)]
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
        return EXACT if self.bits == FULL_BITS else refused(REFUSED.format(self.bits))

    def with_bits(self, bits: int) -> Self:
        """Copy the sketch with fewer bits of each minimum.

        Parameters
        ----------
        bits : int
            Bits of each minimum in signatures and bytes, from 1 to 32.

        Returns
        -------
        Self
            A sketch of the same set, to be compared with sketches of as many bits. This sketch must
            have all 32.
        """
        self._full_minima()
        parameters = {**self.parameters, "bits": bits}
        return self._twin(parameters, "minima", _minima=self._minima.copy())

    def copy(self) -> Self:
        arrays = {name: array.copy() for name, array in self._arrays().items()}
        return self._twin(self.parameters, self.held, **arrays)

    __copy__ = copy

    def to_bytes(self) -> bytes:
        """Serialize the sketch.

        Returns
        -------
        bytes
            Header, `bits` bits of each minimum, and a checksum. With fewer than 32 bits, the
            sketch that is read back takes no more keys.
        """
        return Sketch.to_bytes(self._packed())

    def __eq__(self, other: object) -> bool:
        """Whether the bytes of both are the same."""
        if not isinstance(other, PackedMinima):
            return NotImplemented
        return bool(Sketch.__eq__(self._packed(), other._packed()))

    @property
    def _match(self) -> float:
        """The probability that different minima agree in the stored bits."""
        return 0.0 if self.bits == FULL_BITS else float(2.0**-self.bits)

    @property
    def _dtype(self) -> Any:
        return np.uint8 if self.bits <= 8 else np.uint16 if self.bits <= 16 else np.uint32

    def _values(self) -> np.ndarray:
        """The values to compare: minima or their stored bits, EMPTY for an empty bin."""
        if self.bits == FULL_BITS:
            return self._minima
        if self.held == "bits":
            values = _unpack(self._cut, self.permutations, self.bits)
            full = bool(self.keys)
            if self.kind == "one-permutation":
                full = _unpack(self._full, self.permutations, 1) == 1
        else:
            values, full = np.empty_like(self._minima), self._minima != EMPTY
            minhash.cut(self._minima[np.newaxis], self.bits, values[np.newaxis])
        return np.where(full, values, EMPTY)

    def _full_minima(self) -> np.ndarray:
        if self.bits < FULL_BITS:
            raise ValueError(f"MinHash: full minima are needed, {self.bits} bits do not suffice.")
        return self._minima

    def _packed(self) -> Self:
        """The sketch with the content that its bytes have."""
        if self.bits == FULL_BITS or self.held == "bits":
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
        if self.kind == "k-minimum" and self.bits != FULL_BITS:
            raise ValueError(f"MinHash: bits must be {FULL_BITS} for k-minimum, not {self.bits}.")

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
        if self.held != ("minima" if self.bits == FULL_BITS else "bits"):
            raise ValueError("what is stored of the minima does not fit the bits.")
        values = self._values()
        if self.kind == "k-minimum" and not _ascending(values):
            raise ValueError("the lowest values are not in order.")
        if not self.keys and (values != EMPTY).any():
            raise ValueError("an empty set has minima.")


@functools.cache
def coefficients(permutations: int) -> tuple[np.ndarray, np.ndarray]:
    """Odd multipliers and shifts of the permutations, padded to a multiple of STEP."""
    # The same for every seed of a sketch, since the seed already determines the permuted hashes.
    drawn = integer_hashes(-(-permutations // STEP) * STEP, 0x6D696E2D68617368)
    return drawn.astype(np.uint32) | np.uint32(1), (drawn >> np.uint64(32)).astype(np.uint32)


def _pack(values: np.ndarray, bits: int) -> np.ndarray:
    """Pack the low bits of all values into as few bytes as possible."""
    positions = np.arange(bits, dtype=np.uint32)
    return np.packbits((values[:, np.newaxis].astype(np.uint32) >> positions & 1).astype(np.uint8))


def _unpack(packed: np.ndarray, size: int, bits: int) -> np.ndarray:
    """Unpack `size` values of `bits` bits each."""
    table = np.unpackbits(packed, count=size * bits).reshape(size, bits)
    return np.asarray(table @ (np.uint32(1) << np.arange(bits, dtype=np.uint32)))


def _ascending(values: np.ndarray) -> bool:
    """Whether values are strictly increasing, except that EMPTY may repeat at the end."""
    rising = values[1:] > values[:-1]
    return bool((rising | (values[1:] == EMPTY)).all())
