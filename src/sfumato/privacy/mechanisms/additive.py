"""Additive noise on integers: discrete Laplace and Gaussian mechanisms in exact arithmetic."""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.core.integer_columns import integer_values
from sfumato.core.validation import flag, fraction, integer, optional, positive, rational
from sfumato.privacy.accounting import calibration as calibrate
from sfumato.privacy.accounting.losses import Concentrated, GaussianNoise, LaplaceNoise, Loss
from sfumato.privacy.mechanisms.base import Stated
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import Source
from sfumato.privacy.rounding import LEAST, round_up

__all__ = ["Gaussian", "Laplace"]

WIDEST = noise.LARGEST  # 2**40; such noise exceeds 2**61 with probability below exp(-2**20)


@dataclass(frozen=True)
class _Additive(Stated):
    """Integers in, integers out, with independent noise on each.

    A value and its noise fit 64 bits but for a probability below exp(-2**20). Were the sum to wrap,
    that would be a function of the exact sum alone: the answer would be far off, but still private.
    """

    domain = "an integer or an array of them, below 2**62 in size; the shape is public"

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """Add independent noise to each number, without charging a ledger.

        Parameters
        ----------
        value : object
            An integer or an array of integers, below 2**62 in size; the shape is public.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        object
            An int for a single number, else an int64 ndarray of the same shape.
        """
        numbers = integer_values(type(self).__name__, value)
        self._add(numbers, source)
        return int(numbers) if numbers.ndim == 0 else numbers

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        numbers = integer_values(type(self).__name__, value)
        answers = np.repeat(numbers[np.newaxis], self._trials(trials), axis=0)
        self._add(answers, source)
        return answers

    def _add(self, numbers: np.ndarray, source: Source | None) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class Laplace(_Additive):
    """Laplace mechanism on integers: noise k has probability proportional to exp(-|k| / scale).

    Choose it for pure epsilon and few numbers; `Gaussian` adds less noise where one unit changes
    many.

    Parameters
    ----------
    sensitivity : int
        L1 sensitivity: the largest sum of absolute changes of the value by one unit, at least 1.
    epsilon : object, default=None
        Above 0, taken exactly. Required unless `scale` is given.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".
    scale : object, default=None
        Scale of the noise, above 0 up to 2**40; its standard deviation is about 1.41 times that. By
        default sensitivity / epsilon; with both given it must be at least that.
    cells : int, default=1
        Largest number of entries that one unit changes, each by at most sensitivity / cells (an
        integer). Stating it composes more tightly.

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one unit under `relation`, with epsilon =
    sensitivity / scale exactly [1]_. However a change is distributed over the numbers, its loss is
    dominated by that of one number changed by the L1 norm. Proof: let a = exp(-1 / scale), and clip
    the noisy numbers between the two data sets, which suffices. Compare one shift by c + d with two
    shifts by c and d. The likelihood ratios are the same numbers. The first distribution has more
    mass at both ends and, since 1 - a**2 <= 2 (1 - a), less everywhere between. So its ratio is
    larger in the convex order, which is dominance for every (epsilon, delta).

    References
    ----------
    .. [1] Ghosh, Roughgarden, Sundararajan. "Universally Utility-Maximizing Privacy Mechanisms".
       STOC 2009 (the geometric mechanism). https://arxiv.org/abs/0811.2841

    Examples
    --------
    >>> Laplace(1, epsilon=0.5).scale
    Fraction(2, 1)
    >>> noisy = Laplace(2, 1).run([7, 0, 12])
    """

    sensitivity: int = field()
    epsilon: Any = None
    scale: Any = field(default=None, kw_only=True)
    cells: int = field(default=1, kw_only=True)
    LIMITS: ClassVar[dict[str, Any]] = {
        **Stated.LIMITS,
        "epsilon": optional(rational),
        "scale": optional(rational),
        "cells": integer(1),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is None and self.scale is None:
            raise ValueError("Laplace: epsilon or scale must be given.")
        least = self.sensitivity / self.epsilon if self.epsilon is not None else self.scale
        scale = least if self.scale is None else self.scale
        if scale < least:
            raise ValueError(
                f"Laplace: scale must be at least {least} for that epsilon, not {scale}; "
                "leave one of the two out."
            )
        if scale > WIDEST:
            raise ValueError(_too_wide("Laplace", "scale", scale))
        if self.sensitivity % self.cells:
            raise ValueError(_uneven("Laplace", "sensitivity", self.cells))
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "epsilon", round_up(self.sensitivity / scale))

    def _sentence(self) -> str:
        return f"discrete Laplace noise of scale {float(self.scale):.6g} on each number"

    def _loss(self) -> Loss:
        change = self.sensitivity // self.cells
        return LaplaceNoise(self.scale, change, self.cells, relation=self.relation)

    def _add(self, numbers: np.ndarray, source: Source | None) -> None:
        noise.add_laplace(numbers, self.scale, source=source)


@dataclass(frozen=True)
class Gaussian(_Additive):
    """Gaussian mechanism on integers: noise k has weight exp(-k**2 / (2 sigma**2)).

    Choose it where one unit changes many numbers, and a delta above 0 is acceptable.

    Parameters
    ----------
    sensitivity : int
        L2 sensitivity: the largest Euclidean norm of the change of the value by one unit, at least
        1; its square if `squared`.
    epsilon : object, default=None
        Above 0; needs `delta`. Required unless `sigma` is given.
    delta : object, default=None
        Above 0 and below 1. Beside `sigma` alone, the statement gives epsilon at this delta.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".
    sigma : object, default=None
        Parameter of the noise, about its standard deviation, above 0 up to 2**40. By default the
        smallest for epsilon and delta; with these given it must be large enough for them.
    squared : bool, default=False
        Whether `sensitivity` is the square of the L2 sensitivity.
    cells : int or None, default=None
        Largest number of entries that one unit changes, each by at most the same integer. Then the
        exact mass applies, and less noise suffices: for one number or a histogram give cells=1.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differentially private for one unit under `relation`, for the
    discrete distribution that is sampled: by its exact mass (`gaussian_sigma`) where `cells` is
    known, and by zero-concentrated privacy [1]_ where only the L2 norm of a change is. Integers
    whose squares sum up to 3 or less are all 1 or -1, so there the norm says which changes are
    possible, and the exact mass applies.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Theorem 14 (concentrated privacy of several numbers). https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> Gaussian(1, epsilon=1, delta=1e-6).sigma < 5
    True
    >>> depth = 4  # one unit changes one number in each of four rows by 1
    >>> rows = [[5, 0], [3, 2], [5, 0], [4, 1]]
    >>> noisy = Gaussian(depth, 1, 1e-6, squared=True, cells=depth).run(rows)
    """

    sensitivity: int = field()
    epsilon: Any = None
    delta: Any = None
    sigma: Any = field(default=None, kw_only=True)
    squared: bool = field(default=False, kw_only=True)
    cells: int | None = field(default=None, kw_only=True)
    LIMITS: ClassVar[dict[str, Any]] = {
        **Stated.LIMITS,
        "epsilon": optional(positive),
        "delta": optional(fraction),
        "sigma": optional(rational),
        "squared": flag,
        "cells": optional(integer(1)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is None and self.sigma is None:
            raise ValueError("Gaussian: epsilon (with delta) or sigma must be given.")
        if self.epsilon is not None and self.delta is None:
            raise ValueError("Gaussian: delta must be given with epsilon, as 1e-6 for example.")
        if self.cells is None and self.norm_squared < 4:
            object.__setattr__(self, "cells", self.norm_squared)
        if self.cells and self.norm_squared != self.cells * self._change**2:
            raise ValueError(_uneven("Gaussian", "the square of the norm", self.cells))
        if self.sigma is None:
            object.__setattr__(self, "sigma", self._calibrated())
        elif self.epsilon is not None and self._delta_at(self.epsilon) > self.delta:
            raise ValueError(
                f"Gaussian: sigma must be at least {self._calibrated()} for that epsilon and "
                f"delta, not {self.sigma}; leave it out."
            )
        if self.sigma > WIDEST:
            raise ValueError(_too_wide("Gaussian", "sigma", self.sigma))

    @property
    def norm_squared(self) -> int:
        """Square of the L2 sensitivity."""
        return self.sensitivity if self.squared else self.sensitivity**2

    def _promise(self) -> tuple[float, float]:
        if self.delta is None:
            raise ValueError(
                "Gaussian: delta must be given beside sigma to state a guarantee, as 1e-6."
            )
        epsilon = max(self._epsilon_at(self.delta), LEAST)  # 0 where delta alone covers it
        return epsilon if self.epsilon is None else min(epsilon, self.epsilon), self.delta

    def _sentence(self) -> str:
        return f"discrete Gaussian noise of sigma {float(self.sigma):.6g} on each number"

    @property
    def _change(self) -> int:
        """Largest change of each of the changed numbers; exact if `cells` is."""
        return math.isqrt(self.norm_squared // (self.cells or 1))

    def _loss(self) -> Loss:
        if self.cells is None:
            return Concentrated(self._rho, relation=self.relation)
        return GaussianNoise(self.sigma**2, self._change, self.cells, relation=self.relation)

    @property
    def _rho(self) -> float:
        """Parameter of zero-concentrated differential privacy, rounded up."""
        return round_up(Fraction(self.norm_squared) / (2 * self.sigma**2))

    def _calibrated(self) -> Fraction:
        """Return the smallest sigma for epsilon and delta."""
        if self.cells is None:
            norm = self.norm_squared
            return calibrate.gaussian_sigma_l2(self.epsilon, self.delta, norm_squared=norm)
        change, cells = self._change, self.cells
        return calibrate.gaussian_sigma(self.epsilon, self.delta, change=change, cells=cells)

    def _delta_at(self, epsilon: float) -> float:
        """Return the delta of this sigma at an epsilon."""
        if self.cells is None:
            return calibrate.concentrated_delta(epsilon, self._rho)
        change, cells = self._change, self.cells
        return calibrate.gaussian_delta(epsilon, self.sigma, change=change, cells=cells)

    def _epsilon_at(self, delta: float) -> float:
        """Return the epsilon of this sigma at a delta."""
        if self.cells is None:
            return calibrate.concentrated_epsilon(delta, self._rho)
        change, cells = self._change, self.cells
        return calibrate.gaussian_epsilon(delta, self.sigma**2, change=change, cells=cells)

    def _add(self, numbers: np.ndarray, source: Source | None) -> None:
        noise.add_gaussian(numbers, self.sigma, source=source)


def _too_wide(owner: str, name: str, width: Fraction) -> str:
    """Return the error sentence for a noise parameter above 2**40."""
    about = width.numerator.bit_length() - width.denominator.bit_length()
    return (
        f"{owner}: {name} must be at most 2**40, not about 2**{about}: noise might leave 64 bits. "
        "Scale the value and its sensitivity down, or raise epsilon."
    )


def _uneven(owner: str, name: str, cells: int) -> str:
    """Return the error sentence for cells that do not divide the sensitivity."""
    return (
        f"{owner}: cells must divide {name} into integer changes, and {cells} does not. "
        "Leave cells out to use the norm alone."
    )
