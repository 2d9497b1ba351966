"""Continual observation: a running total told at every step, at a cost that grows as log(steps).

Step t takes fresh noise e_t, and the total told at t carries the noise
    z_t = e_t + z_(t without its lowest bit), z_0 = 0,
which is the noise of the dyadic intervals that make up 1..t: e_t belongs to the interval that ends
at t and is as long as the lowest bit of t. What is told follows from these noisy intervals. An
event lies in at most one interval of each length that fits the horizon: floor(log2 horizon) + 1.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.core.integer_columns import count_column
from sfumato.core.validation import DELTA, fraction, integer, positive
from sfumato.privacy.accounting.calibration import gaussian_sigma
from sfumato.privacy.accounting.losses import GaussianNoise, LaplaceNoise, Loss
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.noise.discrete import LARGEST, ROOM, discrete_gaussian, discrete_laplace
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.random_source import Source

__all__ = ["BinaryTreeCounter", "TreeCount"]


@dataclass(frozen=True)
class BinaryTreeCounter(Mechanism):
    """Running totals of events, one told after every step up to a public horizon.

    epsilon above 0;

    Parameters
    ----------
    epsilon : float
        TODO.
    horizon : int
        The largest number of steps, public.
    delta : float, default=0.0
        From 0.
    relation : str, default="add/remove"
        TODO.

    Notes
    -----
    **Guarantee.** All totals together are epsilon-differentially private for one event of weight 1
    (add/remove: some step counts one more or less; replace: an event moves to another step, which
    may change twice as many intervals), also where later steps depend on earlier answers; with
    delta above 0 (epsilon, delta), by Gaussian noise. The curator's state holds the true total: it
    is not pan-private.

    References
    ----------
    .. [1] Dwork, Naor, Pitassi and Rothblum 2010, section 4; Chan, Shi and Song 2011, the binary
       mechanism. With delta, the square root of the matrix of sums has a smaller error constant
       than this tree (Henzinger, Upadhyay and Upadhyay 2023), for real coefficients and all past
       noise.

    Examples
    --------
    >>> clicks = BinaryTreeCounter(epsilon=1, horizon=365).start()
    >>> clicks.update([120, 80, 95]).shape  # noisy totals after day 1, 2 and 3
    (3,)
    """

    epsilon: float
    horizon: int
    delta: float = 0.0
    domain = "a column of counts, one a step"
    LIMITS = {"epsilon": positive, "horizon": integer(1, 2**40), "delta": DELTA}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._width > LARGEST:
            raise ValueError(
                f"BinaryTreeCounter: epsilon must be larger, not {self.epsilon!r}: the scale of "
                "the noise would be above 2**40."
            )

    @property
    def sensitivity(self) -> int:
        """How many noisy intervals one event changes by 1, at most."""
        return self.levels * (2 if self.relation == "replace" else 1)

    @property
    def levels(self) -> int:
        """How many lengths of dyadic intervals fit the horizon."""
        return self.horizon.bit_length()

    def start(self) -> "TreeCount":
        """A counter at step 0.

        Returns
        -------
        TreeCount
            A counter at step 0.
        """
        return TreeCount(self)

    def run(self, value: Any, *, source: Source | None = None) -> np.ndarray:
        return self.start().update(value, source=source)

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        counts, trials = _counts(value, self.horizon), self._trials(trials)
        noise = self._noise((trials, counts.size), source)
        gather(noise, 0, np.zeros((trials, self.levels), np.int64))
        return np.asarray(noise + np.cumsum(counts))

    def error_bound(self, confidence: float = 0.99) -> float:
        """One told total is this near to the truth, with this confidence (Chernoff's bound).

        Parameters
        ----------
        confidence : float, default=0.99
            TODO.

        Returns
        -------
        float
            One told total is this near to the truth, with this confidence (Chernoff's bound).
        """
        miss = 1 - fraction.check("BinaryTreeCounter", "confidence", confidence)
        law = NoiseDistribution("Gaussian" if self.delta else "Laplace", float(self._width))
        return self.levels * law.mean_tail_bound(self.levels, miss)

    def _loss(self) -> Loss:
        if self.delta:
            return GaussianNoise(self._width**2, 1, self.sensitivity, relation=self.relation)
        return LaplaceNoise(self._width, 1, self.sensitivity, relation=self.relation)

    def _promise(self) -> tuple[float, float]:
        return (self.epsilon, self.delta) if self.delta else super()._promise()

    def _sentence(self) -> str:
        width = f"{float(self._width):.6g}"
        law = f"Gaussian, sigma {width}" if self.delta else f"Laplace, scale {width}"
        return f"running totals up to step {self.horizon} from dyadic intervals, discrete {law}"

    @cached_property
    def _width(self) -> Fraction:
        """The scale of the noise on each interval, or its sigma."""
        if not self.delta:
            return self.sensitivity / Fraction(self.epsilon)
        return gaussian_sigma(self.epsilon, self.delta, change=1, cells=self.sensitivity)

    def _noise(self, shape: tuple[int, ...], source: Source | None) -> np.ndarray:
        if self.delta:
            return np.asarray(discrete_gaussian(self._width, shape, source=source))
        return np.asarray(discrete_laplace(self._width, shape, source=source))


class TreeCount:
    """A counter under way: the step, the true total, and the noise of log2(horizon) intervals.

    It is the curator's and holds private data; only what `update` gives is private.
    """

    def __init__(self, mechanism: BinaryTreeCounter) -> None:
        self.mechanism, self.step, self._total = mechanism, 0, 0
        self._carry = np.zeros(mechanism.levels, np.int64)

    def update(self, counts: Any, *, source: Source | None = None) -> np.ndarray:
        """The noisy total after each of these further steps."""
        counts = _counts(counts, self.mechanism.horizon - self.step)
        # A total ends at 2**62 - 1, where it and its noise fit 64 bits; to clip moves none further.
        totals = np.minimum(self._total + np.cumsum(counts), ROOM - 1)
        noise = self.mechanism._noise((counts.size,), source)
        gather(noise, self.step, self._carry)
        self.step += counts.size
        self._total = int(totals[-1]) if counts.size else self._total
        return np.asarray(totals + noise)


def gather(noise: np.ndarray, before: int, carry: np.ndarray) -> None:
    """Turn fresh e_t of the steps after `before` into z_t, in place.

    carry[i] is z at `before` without its lowest i bits, and becomes that of the last step.
    """
    size, levels = noise.shape[-1], carry.shape[-1]
    for level in reversed(range(levels)):
        bit = 1 << level
        at = (bit - before - 1) % (2 * bit)  # place of the first step whose lowest bit is this
        if at < size:
            noise[..., at] += noise[..., at - bit] if at >= bit else carry[..., level]
            later = noise[..., at + 2 * bit :: 2 * bit]
            later += noise[..., at + bit :: 2 * bit][..., : later.shape[-1]]
    for level in range(levels):
        prefix = (before + size) >> level << level
        if prefix > before:
            carry[..., level] = noise[..., prefix - before - 1]


def _counts(counts: Any, left: int) -> np.ndarray:
    column = count_column("BinaryTreeCounter", "counts", counts)
    if column.size > left:
        raise ValueError(
            f"BinaryTreeCounter: counts must be at most the {left} steps that are left of the "
            f"horizon, not {column.size}."
        )
    return column
