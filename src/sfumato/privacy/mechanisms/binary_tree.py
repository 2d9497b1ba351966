"""Continual observation: running totals released at every step, with noise growing as log(steps).

Step t takes fresh noise e_t, and the total released at t carries the noise
    z_t = e_t + z_(t without its lowest bit), z_0 = 0,
which is the noise of the dyadic intervals that make up 1..t: e_t belongs to the interval that ends
at t and is as long as the lowest bit of t. The outputs follow from these noisy intervals. An event
lies in at most one interval of each length that fits the horizon: floor(log2 horizon) + 1.
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
    """Binary tree mechanism: a noisy running total after every step up to a public horizon.

    Parameters
    ----------
    epsilon : float
        Above 0.
    horizon : int
        Public largest number of steps, from 1 to 2**40.
    delta : float, default=0.0
        From 0 to below 1; above 0 the noise is Gaussian, else Laplace.
    relation : str, default="add/remove"
        Adjacency: "add/remove" (one step counts one event more or less) or "replace" (one event
        moves to another step, which may change twice as many intervals).

    Notes
    -----
    **Guarantee.** All totals together are epsilon-differentially private for one event of weight 1
    under `relation`, also where later steps depend on earlier outputs; with delta above 0 they are
    (epsilon, delta)-differentially private, by Gaussian noise. The curator's state contains the
    true total: it is not pan-private.

    References
    ----------
    .. [1] Dwork, Naor, Pitassi, Rothblum. "Differential Privacy under Continual Observation". STOC
       2010, section 4. https://doi.org/10.1145/1806689.1806787
    .. [2] Chan, Shi, Song. "Private and Continual Release of Statistics". ACM TISSEC 14(3), 2011
       (the binary mechanism). https://doi.org/10.1145/2043621.2043626
    .. [3] Henzinger, Upadhyay, Upadhyay. "Almost Tight Error Bounds on Differentially Private
       Continual Counting". SODA 2023 (with delta, the square root of the matrix of sums has a
       smaller error constant than this tree, for real coefficients and all past noise).
       https://arxiv.org/abs/2211.05006

    Examples
    --------
    >>> clicks = BinaryTreeCounter(epsilon=1, horizon=365).start()
    >>> clicks.update([120, 80, 95]).shape  # noisy totals after day 1, 2 and 3
    (3,)
    """

    epsilon: float
    horizon: int
    delta: float = 0.0
    domain = "a column of counts, one per step"
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
        """Largest number of noisy intervals that one event changes by 1."""
        return self.levels * (2 if self.relation == "replace" else 1)

    @property
    def levels(self) -> int:
        """Number of lengths of dyadic intervals that fit the horizon."""
        return self.horizon.bit_length()

    def start(self) -> "TreeCount":
        """Start a counter at step 0.

        Returns
        -------
        TreeCount
            Counter whose `update` takes further steps. It contains private data.
        """
        return TreeCount(self)

    def run(self, value: Any, *, source: Source | None = None) -> np.ndarray:
        """Return the noisy total after every step, without charging a ledger.

        Parameters
        ----------
        value : object
            Column of counts, one per step, at most `horizon` of them.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        ndarray
            Noisy totals, one int64 per step.
        """
        return self.start().update(value, source=source)

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        counts, trials = _counts(value, self.horizon), self._trials(trials)
        noise = self._noise((trials, counts.size), source)
        gather(noise, 0, np.zeros((trials, self.levels), np.int64))
        return np.asarray(noise + np.cumsum(counts))

    def error_bound(self, confidence: float = 0.99) -> float:
        """Return a bound on the error of one released total.

        Parameters
        ----------
        confidence : float, default=0.99
            Above 0 and below 1.

        Returns
        -------
        float
            `|released - true|` is at most this with probability at least `confidence` (Chernoff
            bound).
        """
        miss = 1 - fraction.check("BinaryTreeCounter", "confidence", confidence)
        noise = NoiseDistribution("Gaussian" if self.delta else "Laplace", float(self._width))
        return self.levels * noise.mean_tail_bound(self.levels, miss)

    def _loss(self) -> Loss:
        if self.delta:
            return GaussianNoise(self._width**2, 1, self.sensitivity, relation=self.relation)
        return LaplaceNoise(self._width, 1, self.sensitivity, relation=self.relation)

    def _promise(self) -> tuple[float, float]:
        return (self.epsilon, self.delta) if self.delta else super()._promise()

    def _sentence(self) -> str:
        width = f"{float(self._width):.6g}"
        noise = f"Gaussian, sigma {width}" if self.delta else f"Laplace, scale {width}"
        return f"running totals up to step {self.horizon} from dyadic intervals, discrete {noise}"

    @cached_property
    def _width(self) -> Fraction:
        """Scale of the Laplace noise on each interval, or sigma of the Gaussian noise."""
        if not self.delta:
            return self.sensitivity / Fraction(self.epsilon)
        return gaussian_sigma(self.epsilon, self.delta, change=1, cells=self.sensitivity)

    def _noise(self, shape: tuple[int, ...], source: Source | None) -> np.ndarray:
        """Draw independent noise of the intervals."""
        if self.delta:
            return np.asarray(discrete_gaussian(self._width, shape, source=source))
        return np.asarray(discrete_laplace(self._width, shape, source=source))


class TreeCount:
    """Running counter: the step, the true total, and the noise of log2(horizon) intervals.

    It is the curator's and contains private data; only the results of `update` are private.
    """

    def __init__(self, mechanism: BinaryTreeCounter) -> None:
        self.mechanism: BinaryTreeCounter
        self.mechanism, self.step, self._total = mechanism, 0, 0
        self._carry = np.zeros(mechanism.levels, np.int64)

    @classmethod
    def restored(cls, mechanism: BinaryTreeCounter, state: dict[str, Any]) -> "TreeCount":
        """Return a counter that goes on where `state` was taken."""
        counter = cls(mechanism)
        counter.step, counter._total = int(state["step"]), int(state["total"])
        counter._carry = np.array(state["carry"], np.int64)
        if counter._carry.shape != (mechanism.levels,):
            raise ValueError("TreeCount: state is of a counter with another horizon.")
        return counter

    def state(self) -> dict[str, Any]:
        """Return step, true total and noise as JSON values: private data of the curator."""
        return {"step": self.step, "total": self._total, "carry": self._carry.tolist()}

    def update(self, counts: Any, *, source: Source | None = None) -> np.ndarray:
        """Return the noisy total after each of these further steps."""
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
        at = (bit - before - 1) % (2 * bit)  # index of the first step whose lowest bit is this
        if at < size:
            noise[..., at] += noise[..., at - bit] if at >= bit else carry[..., level]
            later = noise[..., at + 2 * bit :: 2 * bit]
            later += noise[..., at + bit :: 2 * bit][..., : later.shape[-1]]
    for level in range(levels):
        prefix = (before + size) >> level << level
        if prefix > before:
            carry[..., level] = noise[..., prefix - before - 1]


def _counts(counts: Any, remaining: int) -> np.ndarray:
    """Check a column of counts against the remaining steps of the horizon."""
    column = count_column("BinaryTreeCounter", "counts", counts)
    if column.size > remaining:
        raise ValueError(
            f"BinaryTreeCounter: counts must be at most the {remaining} steps that are left of the "
            f"horizon, not {column.size}."
        )
    return column
