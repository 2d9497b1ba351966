"""HyperLogLog: how many different keys were seen, in a few kilobytes.

Released HyperLogLog: how many different keys there were, from one flipped bit a register.
"""

import math
from functools import cached_property
from statistics import NormalDist
from typing import Annotated, Self, Unpack

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer
from sfumato.kernels.sketch import counters as distinct
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.sketch.base import SEED, KeyedSketch
from sfumato.sketch.response_release import Answered, bits_answered

__all__ = ["LARGEST_COUNT", "PRECISION", "HyperLogLog", "ReleasedHyperLogLog", "levels"]

PRECISION = integer(4, 18)
LARGEST_COUNT = integer(1, 2**62)
# Shares of level 1 for one of every other level: it alone tells small counts, with no lower level
# to help it. Of 1, 4, 5, 7, 9 and 13, seven keep the worst relative error over counts from a
# quarter of the registers to the largest the least, or within 2 %, at epsilon 0.5 to 4.
FIRST = 7
BEYOND = 16  # times the largest count are estimates looked for
OCTAVE = 8  # counts tried in each doubling before the best one is refined


class ReleasedHyperLogLog(Answered):
    """The number of different keys, from one bit of each register that was flipped at random.

    Made by `HyperLogLog.release`. Register j tells whether it reached `levels(...)[j]`, which is
    public.

    precision and seed of the sketch; largest, the largest count expected. Merge is refused: that a
    register of a union reached its level is no function of flipped bits.

    Notes
    -----
    **Guarantee.** Epsilon-differential privacy with a public seed, as its `statement` says;
    |estimate - true| <= error_bound(c) with probability about c.

    References
    ----------
    .. [1] Plain sketches of counts are not private (Desfontaines, Lochbihler and Basin 2019);
       flipped bits: Hehir, Ting and Cormode 2023, whose bitmaps keep every level and need that much
       more room.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import HyperLogLog
    >>> seen = HyperLogLog(12).update(range(30_000))
    >>> told = seen.release(epsilon=4, largest=100_000, source=InsecureSeededSource(1))
    >>> bool(abs(told.estimate() - 30_000) <= told.error_bound(0.9999))
    True
    """

    precision: Annotated[int, PRECISION]
    seed: Annotated[int, SEED]
    largest: Annotated[int, LARGEST_COUNT]
    _words: np.ndarray
    _of = "HyperLogLog"

    def estimate(self) -> float:
        """The number of different keys that makes the bits likeliest, up to 16 times `largest`.

        Returns
        -------
        float
            The number of different keys that makes the bits likeliest, up to 16 times `largest`.
        """
        return self._likeliest[0]

    def error_bound(self, confidence: float = 0.99) -> float:
        """How many keys the estimate may be off by, with about this probability.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            How many keys the estimate may be off by, with about this probability.

        References
        ----------
        .. [1] The counts whose likelihood is not too far below the highest (Wilks 1938). Keys are
           taken to fall into registers independently, which only makes it wider.
        """
        confidence = fraction.check(type(self).__name__, "confidence", confidence)
        here, top = self._likeliest
        bar = top - NormalDist().inv_cdf((1 + confidence) / 2) ** 2 / 2
        counts = np.sort(np.append(self._counts, here))
        inside = np.flatnonzero(self._log_likelihood(counts) >= bar - 1e-9)
        if inside[-1] == counts.size - 1:
            return math.inf
        low = counts[0]
        if inside[0] > 0:
            low = self._crossing(bar, counts[inside[0]], counts[inside[0] - 1])
        high = self._crossing(bar, counts[inside[-1]], counts[inside[-1] + 1])
        return float(max(here - low, high - here))

    def _crossing(self, bar: float, inside: float, outside: float) -> float:
        """Where between two counts the likelihood falls below the bar."""
        for _ in range(50):
            middle = (inside + outside) / 2
            if self._log_likelihood(np.array([middle]))[0] >= bar:
                inside = middle
            else:
                outside = middle
        return outside

    @cached_property
    def _likeliest(self) -> tuple[float, float]:
        """The count of the highest likelihood, and its logarithm."""
        best = int(np.argmax(self._log_likelihood(self._counts)))
        low = self._counts[max(best - 1, 0)]
        high = self._counts[min(best + 1, self._counts.size - 1)]
        for _ in range(24):  # the best third of nine points, again and again
            tried = np.linspace(low, high, 9)
            at = int(np.argmax(self._log_likelihood(tried)))
            low, high = tried[max(at - 1, 0)], tried[min(at + 1, 8)]
        return float(tried[at]), float(self._log_likelihood(tried[at : at + 1])[0])

    @cached_property
    def _counts(self) -> np.ndarray:
        octaves = math.log2(BEYOND * self.largest)
        return np.append(0.0, 2.0 ** np.arange(-1, octaves, 1 / OCTAVE))

    def _log_likelihood(self, counts: np.ndarray) -> np.ndarray:
        """For each count n: a register reaches level v with chance 1 - exp(-n 2**(1 - v) / m)."""
        ones, sizes = self._tallies
        rate = 2.0 ** -np.arange(sizes.size) / 2**self.precision
        reached = -np.expm1(-counts[:, np.newaxis] * rate)
        shown = self._flip + (1 - 2 * self._flip) * reached
        return np.asarray(np.log(shown) @ ones + np.log1p(-shown) @ (sizes - ones))

    @cached_property
    def _tallies(self) -> tuple[np.ndarray, np.ndarray]:
        """How many bits of each level are set, and how many there are."""
        at = levels(self.precision, self.largest) - 1
        bits = np.unpackbits(self._words.view(np.uint8), count=at.size, bitorder="little")
        return np.bincount(at, bits), np.bincount(at).astype(np.float64)

    def _layout(self) -> dict[str, Cells]:
        return {"_words": Cells(np.uint64, (-(-(2**self.precision) // 64),), "")}

    def _check_state(self) -> None:
        if self.precision < 6 and self._words[0] >> np.uint64(2**self.precision):
            raise ValueError("a bit is set beyond the last.")


def levels(precision: int, largest: int) -> np.ndarray:
    """The level that each register's bit is about: 1 up to one that `largest` keys seldom reach.

    Registers in order, FIRST shares of them at level 1 and one at each further level. Nothing but
    the register's number and public parameters decides.

    >>> levels(4, 64).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3]
    """
    size = 2**precision
    highest = min(max((largest - 1).bit_length() - precision, 0) + 1, 64 - precision + 1)
    shares = highest - 1 + FIRST
    return np.asarray(np.maximum(1, np.arange(size) * shares // size - FIRST + 2))


SPREAD = 1.04  # standard error of registers / estimate, times the root of their number


class HyperLogLog(KeyedSketch):
    """The number of different keys, with a relative standard error near 1.04 / sqrt(2**precision).

    Parameters
    ----------
    precision : int, default=14
        4 to 18, log2 of the number of one-byte registers.
    seed : int, default=0
        Of the hash. Merges exactly. Registers cannot overflow.

    Notes
    -----
    **Guarantee.** |estimate - true| <= error_bound(c) * true + 1 with probability about c: the
    inverse of the estimate is nearly normal (and among a few keys two may share a register, hence
    the 1).

    References
    ----------
    .. [1] Flajolet et al. 2007; the estimator, free of thresholds and tables, is Ertl 2017,
       algorithm 6.

    Examples
    --------
    >>> seen = HyperLogLog(precision=12).update(range(1000)).update(range(500))
    >>> bool(abs(seen.estimate() - 1000) < 1000 * seen.error_bound(0.999))
    True
    """

    precision: Annotated[int, PRECISION]
    seed: Annotated[int, SEED]
    keys: str
    _registers: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _idempotent = True
    _scalars = {"keys": ""}

    def __init__(self, precision: int = 14, *, seed: int = 0) -> None:
        self._set_parameters(precision=precision, seed=seed)
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, *, seed: int = 0) -> Self:
        """The smallest sketch whose relative error is within `error` with this probability.

        Parameters
        ----------
        error : float
            TODO.
        confidence : float, default=0.99
            TODO.
        seed : int, default=0
            TODO.

        Returns
        -------
        Self
            The smallest sketch whose relative error is within `error` with this probability.
        """
        error = fraction.check("HyperLogLog", "error", error)
        for precision in range(4, 19):
            sketch = cls(precision, seed=seed)
            if sketch.error_bound(confidence) <= error:
                return sketch
        raise ValueError(
            f"HyperLogLog: error must be {sketch.error_bound(confidence):.2g} or more, not {error}."
        )

    def update(self, keys: Column) -> Self:
        """See every key.

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
        for _, hashes in self._hashes(column):
            distinct.observe(self._registers, self.precision, hashes)
        self._note_keys(column)
        return self

    def estimate(self) -> float:
        """The number of different keys.

        Returns
        -------
        float
            The number of different keys.
        """
        size, top = self._registers.size, 64 - self.precision + 1
        counts = np.bincount(self._registers, minlength=top + 1)
        z = size * _tau(1 - counts[top] / size)
        for k in range(top - 1, 0, -1):
            z = 0.5 * (z + counts[k])
        z += size * _sigma(counts[0] / size)
        return float(size / (2 * math.log(2)) * size / z) if z else math.inf

    def error_bound(self, confidence: float = 0.99) -> float:
        """The relative error that is kept with this probability.

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            The relative error that is kept with this probability.
        """
        confidence = fraction.check("HyperLogLog", "confidence", confidence)
        off = NormalDist().inv_cdf((1 + confidence) / 2) * SPREAD / 2 ** (self.precision / 2)
        return off / (1 - off) if off < 1 else math.inf

    def release(
        self,
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        *,
        largest: int,
        **options: Unpack[ReleaseOptions],
    ) -> ReleasedHyperLogLog:
        """A private copy: one bit a register, whether it reached a public level, perhaps flipped.

        epsilon above 0;

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            TODO.
        delta : float, default=0.0
            Which is not spent.
        largest : int
            The largest count expected, from public knowledge (each doubling adds a level and so a
            little noise).
        **options : dict
            Ledger and dataset, unit, relation, contributions, release_id (docs/privacy.md).

        Returns
        -------
        ReleasedHyperLogLog
            A private copy: one bit a register, whether it reached a public level, perhaps flipped.

        Notes
        -----
        **Guarantee.** Epsilon-private for one unit, with a public seed. A key that is added or
        removed changes one register at most, hence one bit, which is flipped with probability p = 1
        / (1 + exp(epsilon)), rounded up; an exchanged key changes two. Registers themselves would
        tell: a high one is nearly proof of its key.

        Examples
        --------
        >>> HyperLogLog(10).update(range(99)).release(epsilon=1, largest=1000).statement.delta
        0.0
        """
        request = ReleaseRequest.of("HyperLogLog", epsilon, delta, options)
        largest = LARGEST_COUNT.check("HyperLogLog", "largest", largest)
        size = 2**self.precision
        answer = bits_answered(request, min(request.events, size))
        p = answer.flip_probability
        how = f"one bit a register, flipped with probability {float(p):.6g}"

        def flipped(source: Source) -> dict[str, np.ndarray]:
            bits = np.zeros(-(-size // 64) * 64, np.uint8)
            bits[:size] = self._registers >= levels(self.precision, largest)
            words = np.packbits(bits, bitorder="little").view(np.uint64)
            return {"_words": words ^ noise.flips(p, size, source=source)}

        parameters = {**self.parameters, "largest": largest}
        plan = CalibratedRelease(ReleasedHyperLogLog, parameters, answer.loss(), how, flipped)
        return plan.publish(request)

    def _layout(self) -> dict[str, Cells]:
        return {"_registers": Cells(np.uint8, (2**self.precision,), "max")}

    def _check_state(self) -> None:
        super()._check_state()
        if self._registers.max() > 64 - self.precision + 1:
            raise ValueError("a register is out of range.")


def _sigma(x: float) -> float:
    """x + sum over k of x**(2**k) 2**(k - 1): the share of empty registers."""
    if x == 1.0:
        return math.inf
    y, z, last = 1.0, x, -1.0
    while z != last:
        x, last = x * x, z
        z += x * y
        y += y
    return z


def _tau(x: float) -> float:
    """(1 - x - sum over k of (1 - x**(2**-k))**2 2**-k) / 3: the share of full registers."""
    if x in (0.0, 1.0):
        return 0.0
    y, z, last = 1.0, 1 - x, -1.0
    while z != last:
        x, last = math.sqrt(x), z
        y *= 0.5
        z -= (1 - x) ** 2 * y
    return z / 3
