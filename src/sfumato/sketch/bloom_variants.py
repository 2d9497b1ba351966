"""Counting Bloom filter: a set of keys that can also forget, with one small counter a cell.

Scalable Bloom filter: a set that grows with its keys and still keeps its false positive rate.
"""

import functools
import math
from typing import Annotated, Self

import numpy as np

from sfumato.core.hashing import KeyColumn
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer
from sfumato.kernels.sketch import bloom
from sfumato.sketch.base import SEED, KeyedSketch, Merging, refused
from sfumato.sketch.bloom import BloomFilter, best_size

__all__ = ["CountingBloomFilter", "ScalableBloomFilter"]


class CountingBloomFilter(KeyedSketch):
    """A set of keys, with removal.

    Parameters
    ----------
    cells : int
        Counters of eight bits, up to 2**32.
    hashes : int, default=7
        Cells per key.
    seed : int, default=0
        Of all hashes. A counter that reaches 255 stays there for good: the key is then found for
        ever, but never lost. Merges exactly as long as no removal met such a counter.

    Notes
    -----
    **Guarantee.** A key that was added and not removed is always found, provided that only added
    keys are removed; another is found with probability `error_bound()`.

    References
    ----------
    .. [1] Fan, Cao, Almeida and Broder 2000; thesis 2.3.2.2.

    Examples
    --------
    >>> here = CountingBloomFilter(4096).update(["tea", "milk"]).remove(["tea"])
    >>> here.contains(["tea", "milk"])
    array([False,  True])
    """

    cells: Annotated[int, integer(8, 2**32)]
    hashes: Annotated[int, integer(1, 64)]
    seed: Annotated[int, SEED]
    keys: str
    _counts: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _scalars = {"keys": ""}
    _no_release = (
        "a counter that reached 255 stays there when keys are removed, so that one event may "
        "change it by far more than one; release a CountMin instead."
    )

    def __init__(self, cells: int, hashes: int = 7, *, seed: int = 0) -> None:
        self._set_parameters(cells=cells, hashes=hashes, seed=seed)
        self._allocate()

    @classmethod
    def from_capacity(cls, n: int, false_positive_rate: float, *, seed: int = 0) -> Self:
        """The smallest filter that holding n different keys finds others at most at this rate.

        Parameters
        ----------
        n : int
            TODO.
        false_positive_rate : float
            TODO.
        seed : int, default=0
            TODO.

        Returns
        -------
        Self
            The smallest filter that holding n different keys finds others at most at this rate.
        """
        sized = BloomFilter.from_capacity(n, false_positive_rate)
        return cls(sized.bits, sized.hashes, seed=seed)

    def update(self, keys: Column) -> Self:
        """Add every key once more.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        self._add(column, column.size)
        self._note_keys(column)
        return self

    def remove(self, keys: Column) -> Self:
        """Take every key out once; ValueError, and nothing changes, where one cannot be in.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        for rows, hashed in self._hashes(column):
            done = bloom.count_down(self._counts, self.hashes, hashed)
            if done < hashed.size:
                self._add(column, rows.start + done)
                raise ValueError(
                    f"CountingBloomFilter: the key at row {rows.start + done} is not in the "
                    "filter; remove only keys that were added."
                )
        return self

    def contains(self, keys: Column) -> np.ndarray:
        """True for every key that is in, and by chance for a few others.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        return self.estimate(keys) > 0

    def estimate(self, keys: Column) -> np.ndarray:
        """How often each key is in: never too low below 255, where counters end.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            How often each key is in: never too low below 255, where counters end.
        """
        column = self._key_column(keys)
        out = np.empty(column.size, np.int64)
        for rows, hashed in self._hashes(column):
            bloom.fewest(self._counts, self.hashes, hashed, out[rows])
        return out

    def error_bound(self, confidence: float = 0.99) -> float:
        """The chance that a key that is not in is found, given the counters as they are.

        It is the same at every confidence: the counters are known, and with them the chance.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            The chance that a key that is not in is found, given the counters as they are.
        """
        fraction.check("CountingBloomFilter", "confidence", confidence)
        return float((np.count_nonzero(self._counts) / self.cells) ** self.hashes)

    def estimate_size(self) -> float:
        """How many different keys are in, from the share of counters that are not zero.

        Returns
        -------
        float
            How many different keys are in, from the share of counters that are not zero.
        """
        share = min(np.count_nonzero(self._counts) / self.cells, 1 - 0.5 / self.cells)
        return float(math.log1p(-share) / (self.hashes * math.log1p(-1 / self.cells)))

    def _add(self, column: KeyColumn, count: int) -> None:
        """Add the first `count` keys."""
        scratch = np.empty(bloom.CHUNK, np.uint32)
        for rows, hashed in self._hashes(column):
            first = hashed[: max(count - rows.start, 0)]
            bloom.count_up(self._counts, self.hashes, first, scratch)

    def _layout(self) -> dict[str, Cells]:
        return {"_counts": Cells(np.uint8, (self.cells,), "")}

    def _join(self, other: Self) -> None:
        room = 255 - self._counts
        self._counts += np.minimum(other._counts, room)
        self.keys = self.keys or other.keys


GROWTH = 2  # each layer holds twice the keys of the one before
MOST_BITS = 2**32  # of a layer
MOST_LAYERS = 33  # each holds twice as many keys as the one before, at a bit a key or more
LEAST_RATE = 1e-15  # below it a layer would need more hashes than there are
TIGHTEN = 0.5  # at half the rate: the rates of all layers add up to the whole one


class ScalableBloomFilter(KeyedSketch):
    """A set of keys of any number, answered by layers of Bloom filters that double in size.

    Parameters
    ----------
    capacity : int, default=65536
        Keys that the first layer holds; false_positive_rate.
    false_positive_rate : float, default=0.01
        TODO.
    seed : int, default=0
        Of all hashes. A layer has up to 2**32 bits; an update that might need more, if all its keys
        were new, raises and changes nothing. Merge is refused: layers open as keys arrive.

    Notes
    -----
    **Guarantee.** A seen key is always found; another with probability `error_bound()`, which
    however many keys came is below false_positive_rate on average over seeds.

    References
    ----------
    .. [1] Almeida, Baquero, Preguica and Hutchison 2007.

    Examples
    --------
    >>> seen = ScalableBloomFilter(100, false_positive_rate=0.01).update(range(5000))
    >>> bool(seen.contains(range(5000)).all()), seen.layers
    (True, 6)
    """

    capacity: Annotated[int, integer(8, 2**24)]
    false_positive_rate: Annotated[float, fraction]
    seed: Annotated[int, SEED]
    layers: int
    held: int
    keys: str
    version = 2  # a key has one hash, whatever its type
    _idempotent = True
    _scalars = {"layers": 1, "held": 0, "keys": ""}
    _no_release = (
        "which layers are open and where a key lies depends on all keys before it, so that one "
        "may change many bits; release a BloomFilter instead."
    )

    def __init__(
        self, capacity: int = 1 << 16, *, false_positive_rate: float = 0.01, seed: int = 0
    ) -> None:
        self._set_parameters(capacity=capacity, false_positive_rate=false_positive_rate, seed=seed)
        self._allocate()

    @property
    def merging(self) -> Merging:
        return refused("layers open in the order of the keys; use BloomFilter.from_capacity.")

    def update(self, keys: Column) -> Self:
        """Put every key in the set, opening layers as needed.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        column = self._key_column(keys)
        self._check_room(column.size)
        for _, hashed in self._hashes(column):
            fresh = np.unique(hashed[~self._found(hashed)])
            while fresh.size:
                room = self.capacity * GROWTH ** (self.layers - 1) - self.held
                if not room:
                    self._open_layer()
                    continue
                self._insert(fresh[:room])
                fresh = fresh[room:]
        self._note_keys(column)
        return self

    def contains(self, keys: Column) -> np.ndarray:
        """True for every key that was seen, and by chance for a few others.

        Parameters
        ----------
        keys : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        column = self._key_column(keys)
        out = np.empty(column.size, np.bool_)
        for rows, hashed in self._hashes(column):
            out[rows] = self._found(hashed)
        return out

    estimate = contains

    def error_bound(self, confidence: float = 0.99) -> float:
        """The chance that a key that was not seen is found, at most, given the bits that are set.

        A false yes of the filter is one of some layer, so the layers' chances are added up. It is
        the same at every confidence: the bits are known, and with them the chance.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            The chance that a key that was not seen is found, at most, given the bits that are set.
        """
        fraction.check("ScalableBloomFilter", "confidence", confidence)
        return float(
            sum(
                (np.bitwise_count(getattr(self, f"_layer{at}")).sum() / bits) ** hashes
                for at, (bits, hashes) in enumerate(self._geometry())
            )
        )

    def _check_parameters(self) -> None:
        if self.false_positive_rate < LEAST_RATE:
            raise ValueError(
                f"ScalableBloomFilter: false_positive_rate must be at least {LEAST_RATE:g}, not "
                f"{self.false_positive_rate:g}."
            )
        if _sized(*self._first, 0)[0] > MOST_BITS:
            raise ValueError(
                f"ScalableBloomFilter: a first layer of {self.capacity} keys needs more than 2**32 "
                "bits; lower capacity or raise false_positive_rate."
            )

    @property
    def _first(self) -> tuple[int, float]:
        return self.capacity, self.false_positive_rate

    def _check_room(self, keys: int) -> None:
        layers = _most_layers(*self._first)
        full = self.capacity * (GROWTH ** (self.layers - 1) - 1) + self.held
        left = self.capacity * (GROWTH**layers - 1) - full
        if keys > left:
            raise ValueError(
                f"ScalableBloomFilter: there is room for {left} more keys, not {keys}; start a "
                "second filter."
            )

    def _check_state(self) -> None:
        super()._check_state()
        if not 0 <= self.held <= self.capacity * GROWTH ** (self.layers - 1):
            raise ValueError("a layer holds more keys than it can.")

    def _geometry(self) -> list[tuple[int, int]]:
        """Bits and hashes of every layer."""
        return [_sized(*self._first, layer) for layer in range(self.layers)]

    def _layout(self) -> dict[str, Cells]:
        integer(1, MOST_LAYERS).check("ScalableBloomFilter", "layers", self.layers)
        if self._geometry()[-1][0] > MOST_BITS:
            raise ValueError("ScalableBloomFilter: its last layer has more than 2**32 bits.")
        return {
            f"_layer{at}": Cells(np.uint64, (-(-bits // 64),), "")
            for at, (bits, _) in enumerate(self._geometry())
        }

    def _found(self, hashed: np.ndarray) -> np.ndarray:
        any_layer, out = np.zeros(hashed.size, np.bool_), np.empty(hashed.size, np.uint8)
        scratch = np.empty(bloom.CHUNK, np.uint32)
        for at, (bits, hashes) in enumerate(self._geometry()):
            bloom.find(getattr(self, f"_layer{at}"), bits, hashes, hashed, scratch, out)
            any_layer |= out.view(np.bool_)
        return any_layer

    def _insert(self, hashed: np.ndarray) -> None:
        bits, hashes = self._geometry()[-1]
        scratch = np.empty(bloom.CHUNK, np.uint32)
        bloom.insert(getattr(self, f"_layer{self.layers - 1}"), bits, hashes, hashed, scratch)
        self.held += hashed.size

    def _open_layer(self) -> None:
        bits, _ = _sized(*self._first, self.layers)
        setattr(self, f"_layer{self.layers}", np.zeros(-(-bits // 64), np.uint64))
        self.layers, self.held = self.layers + 1, 0


@functools.lru_cache(1024)
def _most_layers(capacity: int, rate: float) -> int:
    layers = 1
    while _sized(capacity, rate, layers)[0] <= MOST_BITS:
        layers += 1
    return layers


@functools.lru_cache(1024)
def _sized(capacity: int, rate: float, layer: int) -> tuple[int, int]:
    """Bits and hashes of a layer: its capacity at its share of the rate."""
    return best_size(capacity * GROWTH**layer, rate * TIGHTEN ** (layer + 1))
