"""HyperLogLog: how many different keys were seen, in a few kilobytes."""

import math
from statistics import NormalDist
from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato._require import fraction
from sfumato.kernels import distinct
from sfumato.privacy import noise
from sfumato.privacy._source import Source
from sfumato.sketch._base import SEED, Cells
from sfumato.sketch._keyed import KeyedSketch
from sfumato.sketch._release import Options, Plan, Terms
from sfumato.sketch._responses import bits_answered
from sfumato.sketch.released_hyper_log_log import (
    LARGEST_COUNT,
    PRECISION,
    ReleasedHyperLogLog,
    levels,
)

__all__ = ["HyperLogLog"]

SPREAD = 1.04  # standard error of registers / estimate, times the root of their number


class HyperLogLog(KeyedSketch):
    """The number of different keys, with a relative standard error near 1.04 / sqrt(2**precision).

    Guarantee: |estimate - true| <= error_bound(c) * true + 1 with probability about c: the inverse
    of the estimate is nearly normal (and among a few keys two may share a register, hence the 1).
    Parameters: precision, 4 to 18, log2 of the number of one-byte registers; seed, of the hash.
    Merges exactly. Registers cannot overflow.

    >>> seen = HyperLogLog(precision=12).update(range(1000)).update(range(500))
    >>> bool(abs(seen.estimate() - 1000) < 1000 * seen.error_bound(0.999))
    True

    Flajolet et al. 2007; the estimator, free of thresholds and tables, is Ertl 2017, algorithm 6.
    """

    precision: Annotated[int, PRECISION]
    seed: Annotated[int, SEED]
    keys: str
    _registers: np.ndarray
    version = 2  # a key has one hash, whatever its type
    _scalars = {"keys": ""}

    def __init__(self, precision: int = 14, *, seed: int = 0) -> None:
        self._set_parameters(precision=precision, seed=seed)
        self._allocate()

    @classmethod
    def from_error(cls, error: float, confidence: float = 0.99, *, seed: int = 0) -> Self:
        """The smallest sketch whose relative error is within `error` with this probability."""
        error = fraction.check("HyperLogLog", "error", error)
        for precision in range(4, 19):
            sketch = cls(precision, seed=seed)
            if sketch.error_bound(confidence) <= error:
                return sketch
        raise ValueError(
            f"HyperLogLog: error must be {sketch.error_bound(confidence):.2g} or more, not {error}."
        )

    def update(self, keys: Any) -> Self:
        """See every key."""
        column = self._key_column(keys)
        for _, hashes in self._hashes(column):
            distinct.observe(self._registers, self.precision, hashes)
        self._note_keys(column)
        return self

    def estimate(self) -> float:
        """The number of different keys."""
        size, top = self._registers.size, 64 - self.precision + 1
        counts = np.bincount(self._registers, minlength=top + 1)
        z = size * _tau(1 - counts[top] / size)
        for k in range(top - 1, 0, -1):
            z = 0.5 * (z + counts[k])
        z += size * _sigma(counts[0] / size)
        return float(size / (2 * math.log(2)) * size / z) if z else math.inf

    def error_bound(self, confidence: float = 0.99) -> float:
        """The relative error that is kept with this probability."""
        confidence = fraction.check("HyperLogLog", "confidence", confidence)
        off = NormalDist().inv_cdf((1 + confidence) / 2) * SPREAD / 2 ** (self.precision / 2)
        return off / (1 - off) if off < 1 else math.inf

    def release(
        self, epsilon: float, delta: float = 0.0, *, largest: int, **options: Unpack[Options]
    ) -> ReleasedHyperLogLog:
        """A private copy: one bit a register, whether it reached a public level, perhaps flipped.

        Guarantee: epsilon-private for one unit, with a public seed. A key that is added or removed
        changes one register at most, hence one bit, which is flipped with probability
        p = 1 / (1 + exp(epsilon)), rounded up; an exchanged key changes two. Registers themselves
        would tell: a high one is nearly proof of its key.
        Parameters: epsilon above 0; delta, which is not spent; largest, the largest count expected,
        from public knowledge (each doubling adds a level and so a little noise); options:
        ledger and dataset, unit, relation, contributions, release_id (docs/privacy.md).

        >>> HyperLogLog(10).update(range(99)).release(epsilon=1, largest=1000).statement.delta
        0.0
        """
        terms = Terms.of("HyperLogLog", epsilon, delta, options)
        largest = LARGEST_COUNT.check("HyperLogLog", "largest", largest)
        size = 2**self.precision
        answer = bits_answered(terms, min(terms.events, size))
        p = answer.flip_probability
        how = f"one bit a register, flipped with probability {float(p):.6g}"

        def flipped(source: Source) -> dict[str, np.ndarray]:
            bits = np.zeros(-(-size // 64) * 64, np.uint8)
            bits[:size] = self._registers >= levels(self.precision, largest)
            words = np.packbits(bits, bitorder="little").view(np.uint64)
            return {"_words": words ^ noise.flips(p, size, source=source)}

        parameters = {**self.parameters, "largest": largest}
        plan = Plan(ReleasedHyperLogLog, parameters, answer.loss(), how, flipped)
        return plan.publish(terms)

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
