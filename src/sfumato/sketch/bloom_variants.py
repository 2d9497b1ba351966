"""Bloom filters with removal (counting), and of a size that grows with the keys (scalable)."""

import functools
import math
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.hashing import KeyColumn
from sfumato.core.storage import Cells
from sfumato.core.typing import Column, Key, Keys
from sfumato.core.validation import fraction, integer
from sfumato.kernels.sketch import bloom
from sfumato.sketch.base import SEED, KeyedSketch, Merging, answers_to, refused
from sfumato.sketch.bloom import BloomFilter, best_size, scratch
from sfumato.sketch.frequency.cell_errors import CellErrors, drawn
from sfumato.sketch.frequency.key_intervals import KeyIntervals

__all__ = ["CountingBloomFilter", "ScalableBloomFilter"]

FULL = 255  # a counter that stays, and stands for this or more


class CountingBloomFilter(KeyIntervals, KeyedSketch):
    """Approximate set of keys from which keys can be removed.

    It takes eight times the memory of a `BloomFilter`.

    Parameters
    ----------
    cells : int
        Number of 8-bit counters, from 8 to 2**32.
    hashes : int, default=7
        Counters per key, from 1 to 64.
    seed : int, default=0
        Seed of the hash functions. Filters merge only if their seeds are equal.

    Notes
    -----
    **Guarantee.** A key that was added and not removed is always found, provided that only added
    keys are removed. Another key is found with probability ``error_bound()``.

    A counter that reaches 255 stays there: its keys are then found even after removal, but none is
    lost. The merge is exact as long as no removal hit such a counter.

    References
    ----------
    .. [1] Fan, Cao, Almeida, Broder. "Summary Cache: A Scalable Wide-Area Web Cache Sharing
       Protocol". IEEE/ACM Trans. Networking 2000.
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.3.2.2 (Bloom filters). https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> items = CountingBloomFilter(4096).update(["tea", "milk"]).remove(["tea"])
    >>> items.contains(["tea", "milk"])
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
        """Build the smallest filter for a number of keys and a false positive rate.

        Parameters
        ----------
        n : int
            Number of distinct keys in the set at one time, from 1 to 2**32.
        false_positive_rate : float
            Maximum false positive rate with n keys, between 0 and 1.
        seed : int, default=0
            Seed of the hash functions.

        Returns
        -------
        Self
            An empty filter.
        """
        sized = BloomFilter.from_capacity(n, false_positive_rate)
        return cls(sized.bits, sized.hashes, seed=seed)

    def update(self, keys: Column) -> Self:
        """Add keys to the set.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.
            A key that is added twice must be removed twice.

        Returns
        -------
        Self
            The sketch itself.
        """
        hashed = self._hashed(keys)
        for _, hashes in hashed.blocks:
            self._insert(hashes)
        self._note_keys(hashed)
        return self

    def add(self, key: Key) -> Self:
        self._insert(self._key_hash(key))
        self._note_key()
        return self

    def remove(self, keys: Column) -> Self:
        """Remove keys from the set, each once.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys that were added before.

        Returns
        -------
        Self
            The sketch itself.

        Raises
        ------
        ValueError
            A key is certainly not in the set. Nothing is changed.
        """
        again = type(keys) in (list, tuple, np.ndarray)  # what can be read twice as it is
        column = keys if again else self._key_column(keys)
        for rows, hashed in self._hashed(column).blocks:
            done = bloom.count_down(self._counts, self.hashes, hashed)
            if done < hashed.size:
                self._restore_first(column, rows.start + done)
                raise ValueError(
                    f"CountingBloomFilter: the key at row {rows.start + done} is not in the "
                    "filter; remove only keys that were added."
                )
        return self

    def __contains__(self, key: Key) -> bool:
        """Test whether one key is in the set, as ``contains(key)`` does."""
        out = np.empty(1, np.int64)
        self._estimates(self._key_hash(key), out)
        return bool(out[0])

    def contains(self, keys: Keys) -> Any:
        """Test whether keys are in the set.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types.

        Returns
        -------
        ndarray of shape (n,) or bool
            Booleans: True for every key in the set, and for a few others. One Boolean for one key,
            as ``key in filter`` gives.
        """
        return self.estimate(keys) > 0

    def estimate(self, keys: Keys) -> Any:
        """Estimate the multiplicity of every key.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types.

        Returns
        -------
        ndarray of shape (n,) or int
            Additions minus removals, int64; never too low, up to 255, where counters saturate. One
            number for one key.
        """
        return answers_to(keys, self.seed, np.int64, self._estimates)

    def _estimates(self, hashes: np.ndarray, out: np.ndarray) -> None:
        bloom.fewest(self._counts, self.hashes, hashes, out)

    def _error_distribution(self) -> CellErrors:
        fewest = drawn(self._counts[None], self.hashes).min(axis=0)
        return CellErrors(fewest[None], "smallest")

    def _limits_of(
        self, hashes: np.ndarray, confidence: float, errors: CellErrors
    ) -> tuple[np.ndarray, np.ndarray]:
        raw = np.empty(hashes.size, np.int64)
        self._estimates(hashes, raw)
        low, high = errors.interval(raw[None], confidence)
        return np.maximum(low, 0), np.where(raw < FULL, np.maximum(high, 0), np.inf)

    def false_positive_rate(self) -> float:
        """Compute the false positive rate of the filter as it is.

        Returns
        -------
        float
            Probability that `contains` is True for a key that is not in the set, as `error_bound`
            gives.
        """
        return self.error_bound()

    def error_bound(self, confidence: float = 0.99) -> float:
        """Compute the false positive rate of the filter as it is.

        Parameters
        ----------
        confidence : float, default=0.99
            Not used, since the counters are known: the rate is exact. Between 0 and 1.

        Returns
        -------
        float
            Probability that `contains` is True for a key that is not in the set.
        """
        fraction.check("CountingBloomFilter", "confidence", confidence)
        return float((np.count_nonzero(self._counts) / self.cells) ** self.hashes)

    def estimate_size(self) -> float:
        """Estimate the number of distinct keys in the set.

        Returns
        -------
        float
            The number for which the expected fraction of non-zero counters is the observed one.
        """
        filled = min(np.count_nonzero(self._counts) / self.cells, 1 - 0.5 / self.cells)
        return float(math.log1p(-filled) / (self.hashes * math.log1p(-1 / self.cells)))

    def _insert(self, hashes: np.ndarray) -> None:
        bloom.count_up(self._counts, self.hashes, hashes, scratch(hashes))

    def _restore_first(self, column: Column | KeyColumn, count: int) -> None:
        """Add the first `count` keys again."""
        for rows, hashes in self._hashed(column).blocks:
            self._insert(hashes[: max(count - rows.start, 0)])

    def _layout(self) -> dict[str, Cells]:
        return {"_counts": Cells(np.uint8, (self.cells,), "")}

    def _join(self, other: Self) -> None:
        room = 255 - self._counts
        self._counts += np.minimum(other._counts, room)
        self.keys = self.keys or other.keys


GROWTH = 2  # each layer has twice the capacity of the previous one
MOST_BITS = 2**32  # of a layer
MOST_LAYERS = 33  # capacities double, at one bit per key or more
LEAST_RATE = 1e-15  # below it a layer would need more hashes than a filter can have
TIGHTEN = 0.5  # ratio of the rates of successive layers, which then add up to the total rate


class ScalableBloomFilter(KeyedSketch):
    """Approximate set that grows with its keys, for when their number is not known in advance.

    It is a list of Bloom filters ("layers") of doubling capacity. It cannot merge, since layers are
    opened in the order of the keys; use `BloomFilter` if it must.

    Parameters
    ----------
    capacity : int, default=65536
        Number of keys in the first layer, from 8 to 2**24.
    false_positive_rate : float, default=0.01
        Bound on the expected false positive rate for any number of keys, from 1e-15 to below 1.
    seed : int, default=0
        Seed of the hash functions.

    Attributes
    ----------
    layers : int
        Number of layers.
    held : int
        Number of keys in the last layer.

    Notes
    -----
    **Guarantee.** A key that was added is always found. Another key is found with probability at
    most ``error_bound()``, whose mean over seeds is below `false_positive_rate`, for any number of
    keys.

    A layer has up to 2**32 bits. An update that would need more if all its keys were new raises
    ValueError and changes nothing.

    References
    ----------
    .. [1] Almeida, Baquero, Preguiça, Hutchison. "Scalable Bloom Filters". Inf. Process. Lett.
       2007.

    Examples
    --------
    >>> items = ScalableBloomFilter(100, false_positive_rate=0.01).update(range(5000))
    >>> bool(items.contains(range(5000)).all()), items.layers
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
        """Add keys to the set; layers are opened as needed.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.

        Returns
        -------
        Self
            The sketch itself.
        """
        hashed = self._hashed(keys)
        self._check_room(hashed.size)
        for _, hashes in hashed.blocks:
            self._insert_new(np.unique(hashes[~self._found(hashes)]))
        self._note_keys(hashed)
        return self

    def add(self, key: Key) -> Self:
        hashes = self._key_hash(key)
        if not self._found(hashes)[0]:
            self._check_room(1)
            self._insert_new(hashes)
        self._note_key()
        return self

    def __contains__(self, key: Key) -> bool:
        """Test whether one key is in the set, as ``contains(key)`` does."""
        return bool(self._found(self._key_hash(key))[0])

    def contains(self, keys: Keys) -> Any:
        """Test whether keys are in the set.

        Parameters
        ----------
        keys : array_like of shape (n,) or scalar
            Keys of any types.

        Returns
        -------
        ndarray of shape (n,) or bool
            Booleans: True for every key that was added, and for a few others. One Boolean for one
            key, as ``key in filter`` gives.
        """
        return answers_to(keys, self.seed, np.bool_, self._find)

    estimate = contains

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the false positive rate of the filter as it is.

        Parameters
        ----------
        confidence : float, default=0.99
            Not used, since the bits are known: the bound is certain. Between 0 and 1.

        Returns
        -------
        float
            Bound on the probability that `contains` is True for a key that was not added: the sum
            of the false positive rates of the layers.
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
        room = self.capacity * (GROWTH**layers - 1) - full
        if keys > room:
            raise ValueError(
                f"ScalableBloomFilter: there is room for {room} more keys, not {keys}; start a "
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
        out = np.empty(hashed.size, np.bool_)
        self._find(hashed, out)
        return out

    def _find(self, hashed: np.ndarray, out: np.ndarray) -> None:
        found, slots = out.view(np.uint8), scratch(hashed)
        for at, (bits, hashes) in enumerate(self._geometry()):
            here = np.empty(hashed.size, np.uint8) if at else found
            bloom.find(getattr(self, f"_layer{at}"), bits, hashes, hashed, slots, here)
            if at:
                found |= here

    def _insert_new(self, fresh: np.ndarray) -> None:
        """Insert distinct hashes that no layer contains, and open layers as they fill."""
        while fresh.size:
            room = self.capacity * GROWTH ** (self.layers - 1) - self.held
            if not room:
                self._open_layer()
                continue
            self._insert(fresh[:room])
            fresh = fresh[room:]

    def _insert(self, hashed: np.ndarray) -> None:
        bits, hashes = self._geometry()[-1]
        words = getattr(self, f"_layer{self.layers - 1}")
        bloom.insert(words, bits, hashes, hashed, scratch(hashed))
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
    """Bits and hashes of a layer, for its capacity and its part of the rate."""
    return best_size(capacity * GROWTH**layer, rate * TIGHTEN ** (layer + 1))
