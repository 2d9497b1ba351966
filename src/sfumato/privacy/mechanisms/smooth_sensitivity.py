"""Smooth sensitivity: a private median or quantile with noise fitted to the data, by Cauchy noise.

The scale of the noise is one of a public ladder b_0 < b_1 < ..., and rung j covers changes up to
shift_j = floor(b_j / c). Let x_1 <= x_2 <= ... be the sorted data, `low` before them and `high`
after, k the index of the quantile, and U_t the largest x_(k+s) - x_(k+s-t-1) over s = 0 to t + 1.
Adding, removing or replacing a row makes every U_t at most the other data's U_(t+1), and
moves the quantile by at most U_0. So with rung(u) the least j of shift_j >= u, the rung
    L = max over t of rung(U_t) - t
differs by at most 1 between neighbours, and covers the change of the quantile in both. This is the
smooth bound of Nissim, Raskhodnikova and Smith 2007 (section 3.1: the median) with integers in
place of exp(-beta t); the noise is `cauchy`, whose costs hold for the discrete distribution.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.core.integer_columns import integer_column
from sfumato.core.validation import between, integer, rational
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.noise.exact.reference import Bits
from sfumato.privacy.random_source import Source, SystemSource

__all__ = ["SmoothMedian", "cauchy", "scale_cost", "shift_cost"]


def cauchy(scale: Fraction, bits: Bits) -> int:
    """Sample an integer k with probability proportional to 1 / (scale**2 + k**2).

    By rejection sampling from blocks on which the envelope is flat: block 0 contains 0 to m - 1 and
    block j the numbers from m 2**(j-1) to m 2**j - 1, with m = ceil(scale). Their envelopes are 1 /
    scale**2 and 1 / (m 2**(j-1))**2, so block 0 has the weight m**2 / (m**2 + 2 scale**2) and every
    further block half of what remains. All probabilities are ratios of integers.
    """
    m = math.ceil(scale)
    s, t = scale.numerator**2, scale.denominator**2
    while True:
        start, width, over = 0, m, s
        if bits.below(m * m * t + 2 * s) >= m * m * t:
            start = width = m << _halvings(bits)
            over = t * start * start
        k = start + bits.below(width)
        negative = bits.take(1)
        if bits.below(s + t * k * k) < over and (k or not negative):
            return -k if negative else k


def _halvings(bits: Bits) -> int:
    """Sample a geometric number: how many bits are 1 before the first 0."""
    count = 0
    while bits.take(1):
        count += 1
    return count


def shift_cost(change: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the largest log-ratio of two Cauchy distributions of one scale and shifted centres.

    The largest value of (1 + (u - d)**2) / (1 + u**2) over all u, with d = change / scale, is
    (d/2 + sqrt(1 + d**2/4))**2.
    """
    return np.asarray(2 * np.arcsinh(change / scale / 2))


def scale_cost(scale: np.ndarray, larger: np.ndarray) -> np.ndarray:
    """Return the largest log-ratio, in both directions, of two Cauchy distributions of one centre.

    The weights differ by a factor from 1 to (larger / scale)**2, the normalisers (pi / b) coth(pi
    b) by a factor z; so the log-ratio is at most 2 log(larger / scale) - log z in one direction and
    log z in the other.
    """
    ratio = np.log(larger / scale)
    normaliser = ratio + np.log(np.tanh(np.pi * larger) / np.tanh(np.pi * scale))
    return np.asarray(np.maximum(normaliser, 2 * ratio - normaliser))


BOUND = integer(-(2**60), 2**60)
UNIT = 2**32  # scales are integer multiples of 1 / UNIT
LOWEST = UNIT // 16  # a scale at which 99 of 100 answers are exact
UP = 1 + 2**-40  # floats of a few operations, rounded up for certain


@dataclass(frozen=True)
class SmoothMedian(Mechanism):
    """Median or quantile of bounded integers, with less noise where the data agree about it.

    Parameters
    ----------
    epsilon : float
        From 1/1024 to below 64.
    low : int
        Public lower bound that values are clipped to, within 2**60.
    high : int
        Public upper bound that values are clipped to, within 2**60 and above `low`.
    quantile : object, optional
        Above 0 and below 1: the answer estimates element ceil(quantile * n) of the n sorted values,
        so the default 1/2 is the lower median.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace"; both have the same loss.

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one row, under add/remove and under replace,
    for every column. The scale of the noise is one of a public list; the index that the data
    select differs by at most 1 between neighbours. `loss()` is the largest log-ratio of the output
    distributions over equal and successive scales, each with the largest change of the quantile
    that it covers.

    References
    ----------
    .. [1] Nissim, Raskhodnikova, Smith. "Smooth Sensitivity and Sampling in Private Data Analysis".
       STOC 2007, sections 2 and 3.1 (smooth sensitivity, the median), here for discrete noise.
       https://doi.org/10.1145/1250790.1250803

    Examples
    --------
    >>> ages = SmoothMedian(epsilon=1, low=0, high=120)
    >>> 0 <= ages.run([31, 35, 35, 38, 40, 41, 77]) <= 120
    True
    """

    epsilon: float
    low: int
    high: int
    quantile: Any = Fraction(1, 2)
    domain = "a column of integers, clipped to the bounds"
    LIMITS = {
        "epsilon": between(2**-10, 64),
        "low": BOUND,
        "high": BOUND,
        "quantile": rational,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.high <= self.low:
            raise ValueError(f"SmoothMedian: high must be above low ({self.low}), not {self.high}.")
        if self.quantile >= 1:
            raise ValueError(f"SmoothMedian: quantile must be below 1, not {self.quantile}.")

    @property
    def sensitivity(self) -> int:
        """Global sensitivity, high - low; the noise follows the smooth sensitivity of the data."""
        return self.high - self.low

    def scale(self, value: Any) -> Fraction:
        """Return the scale of the noise for these data; it is not private.

        Parameters
        ----------
        value : object
            Column of integers.

        Returns
        -------
        Fraction
            Scale of the Cauchy noise, which depends on the data: for the curator alone.
        """
        return Fraction(self._scales[self._rung(self._around(value))], UNIT)

    def run(self, value: Any, *, source: Source | None = None) -> int:
        """Return a noisy quantile, without charging a ledger.

        Parameters
        ----------
        value : object
            Column of integers; values beyond the bounds are clipped.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        int
            Noisy quantile, from `low` to `high`.
        """
        return int(self.sample(value, 1, source=source)[0])

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        trials, near = self._trials(trials), self._around(value)
        scale, middle = Fraction(self._scales[self._rung(near)], UNIT), int(near[near.size // 2])
        bits = Bits(source or SystemSource())
        drawn = (middle + cauchy(scale, bits) for _ in range(trials))
        return np.array([min(max(k, self.low), self.high) for k in drawn], np.int64)

    def _loss(self) -> Pure:
        scales = np.array(self._scales, float) / UNIT
        next_rung = shift_cost(self._shifts[:-1], scales[1:]) + scale_cost(scales[:-1], scales[1:])
        same_rung = shift_cost(self._shifts, scales)
        epsilon = float(max(next_rung.max(initial=0), same_rung.max())) * UP
        return Pure(epsilon, relation=self.relation)

    def _sentence(self) -> str:
        return (
            f"quantile {float(self.quantile):.6g} of values from {self.low} to {self.high}, with "
            "discrete Cauchy noise of smooth sensitivity"
        )

    @cached_property
    def _noise_per_change(self) -> Fraction:
        """Ratio c of scale and shift, so that epsilon pays for a shift and a change of rung."""
        ratio, low, high = math.exp(self.epsilon / 2), 2.0**-20, 2.0**20
        for _ in range(100):
            c = math.sqrt(low * high)
            with_rung = 2 * math.asinh(1 / (2 * c * ratio)) - math.log(math.tanh(math.pi * c))
            fits = max(with_rung + self.epsilon / 2, 2 * math.asinh(1 / (2 * c))) <= self.epsilon
            low, high = (low, c) if fits else (c, high)
        return Fraction(high * (1 + 2**-18))

    @cached_property
    def _scales(self) -> list[int]:
        """Ladder of scales, in units; each step multiplies by at most exp(epsilon / 2)."""
        ratio = Fraction(math.exp(self.epsilon / 2) * (1 - 2**-30))
        enough = math.ceil(self._noise_per_change * (self.high - self.low) * UNIT)
        ladder = [LOWEST]
        while ladder[-1] < enough:
            ladder.append(ladder[-1] * ratio.numerator // ratio.denominator)
        return ladder

    @cached_property
    def _shifts(self) -> np.ndarray:
        """Largest shift of the quantile that each rung covers."""
        unit = self._noise_per_change * UNIT
        most = self.high - self.low
        shifts = (each * unit.denominator // unit.numerator for each in self._scales)
        return np.array([min(each, most) for each in shifts], np.int64)

    def _around(self, value: Any) -> np.ndarray:
        """Return the sorted values around the quantile, x_(k-w) to x_(k+w); it is in the middle."""
        column = np.clip(integer_column("SmoothMedian", "value", value), self.low, self.high)
        k, w = math.ceil(self.quantile * column.size), len(self._scales)
        first, last = max(k - w - 1, 0), min(k + w, column.size)
        if first < last:
            column = np.sort(np.partition(column, (first, last - 1))[first:last])
        before = np.full(max(w + 1 - k, 0), self.low, np.int64)
        after = np.full(k + w - last, self.high, np.int64)
        return np.concatenate((before, column, after))

    def _rung(self, near: np.ndarray) -> int:
        """Return L; U_t grows with t, so a range of t whose last rung is too low is skipped."""
        last, middle = len(self._scales) - 1, near.size // 2

        def rung(t: int) -> int:
            spans = near[middle : middle + t + 2] - near[middle - t - 1 : middle + 1]
            return int(np.searchsorted(self._shifts, spans.max()))

        best, ranges = rung(0), [(1, last + 1, last)]
        while ranges:
            start, stop, most = ranges.pop()
            if start < stop and most - start > best:
                t = (start + stop) // 2
                here = rung(t)
                best = max(best, here - t)
                ranges += [(start, t, here), (t + 1, stop, most)]
        return best
