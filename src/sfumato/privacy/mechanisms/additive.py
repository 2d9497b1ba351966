"""Noise added to integers: discrete Laplace and Gaussian, exact from the scale to the sum."""

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

WIDEST = noise.LARGEST  # 2**40; such noise passes 2**61 with a chance below exp(-2**20)


@dataclass(frozen=True)
class _Additive(Stated):
    """Integers in, integers out, with fresh noise on each.

    A value and its noise fit 64 bits but for a chance below exp(-2**20). Were the sum to wrap, that
    would be a function of the exact sum alone: the answer would be odd, and the promise stand.
    """

    domain = "an integer or an array of them, below 2**62 in size; the shape is public"

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """The value with noise on each number: an int for one number, else an int64 array.

        Parameters
        ----------
        value : object
            TODO.
        source : Source or None, default=None
            TODO.

        Returns
        -------
        object
            The value with noise on each number: an int for one number, else an int64 array.
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
    """Discrete Laplace noise: k is added with chance proportional to exp(-|k| / scale).

    Parameters
    ----------
    sensitivity : int
        The L1 norm that one unit changes the whole value by at most, a whole number from 1 up;
        epsilon above 0, or scale above 0 (if both, the scale must be large enough).
    epsilon : object, default=None
        TODO.
    relation : str, default="add/remove"
        Of neighbouring data.
    scale : object, default=None
        TODO.
    cells : int, default=1
        If at most so many numbers change, each by at most sensitivity / cells (an integer): then
        charges compose more tightly.

    Notes
    -----
    **Guarantee.** Pure epsilon = sensitivity / scale, the scale being an exact fraction (Ghosh,
    Roughgarden and Sundararajan 2009). However a change is spread over the numbers, its loss is
    dominated by that of one number changed by the L1 norm. Proof: let a = exp(-1 / scale), and clip
    the noisy numbers between the two data sets, which suffices. Compare one shift by c + d with two
    shifts by c and d. The likelihood ratios are the same numbers. The first law has more mass at
    both ends and, since 1 - a**2 <= 2 (1 - a), less everywhere between. So its ratio is larger in
    the convex order, which is dominance for every (epsilon, delta).

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
    """Discrete Gaussian noise: k is added with chance proportional to exp(-k**2 / (2 sigma**2)).

    Parameters
    ----------
    sensitivity : int
        The L2 norm that one unit changes the whole value by at most, a whole number from 1 up (with
        squared=True, the square of that norm); epsilon above 0 and delta between 0 and 1, or sigma
        above 0 (if all, sigma must be large enough; with delta alone, the promise is told at it).
    epsilon : object, default=None
        TODO.
    delta : object, default=None
        TODO.
    relation : str, default="add/remove"
        Of neighbouring data.
    sigma : object, default=None
        TODO.
    squared : bool, default=False
        TODO.
    cells : int or None, default=None
        If at most so many numbers change, each by at most the same integer: then the exact mass
        applies, so for one number or a histogram say cells=1.

    Notes
    -----
    **Guarantee.** (epsilon, delta) for the discrete law that runs, by `calibrate.gaussian_sigma`,
    the exact mass; where only the L2 norm of a change is known, by zero-concentrated privacy
    (Canonne, Kamath and Steinke 2020, theorem 14). Integers whose squares sum up to 3 or less are
    all 1 or -1, so there the norm says which changes can be, and the exact mass applies.

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
        """The square of the L2 norm that one unit changes the value by, at most."""
        return self.sensitivity if self.squared else self.sensitivity**2

    def _promise(self) -> tuple[float, float]:
        if self.delta is None:
            raise ValueError(
                "Gaussian: delta must be given beside sigma to state a promise, as 1e-6."
            )
        epsilon = max(self._epsilon_at(self.delta), LEAST)  # 0 where delta alone covers it
        return epsilon if self.epsilon is None else min(epsilon, self.epsilon), self.delta

    def _sentence(self) -> str:
        return f"discrete Gaussian noise of sigma {float(self.sigma):.6g} on each number"

    @property
    def _change(self) -> int:
        """The most that each of the changed numbers changes by; exact if `cells` is."""
        return math.isqrt(self.norm_squared // (self.cells or 1))

    def _loss(self) -> Loss:
        if self.cells is None:
            return Concentrated(self._rho, relation=self.relation)
        return GaussianNoise(self.sigma**2, self._change, self.cells, relation=self.relation)

    @property
    def _rho(self) -> float:
        return round_up(Fraction(self.norm_squared) / (2 * self.sigma**2))

    def _calibrated(self) -> Fraction:
        if self.cells is None:
            norm = self.norm_squared
            return calibrate.gaussian_sigma_l2(self.epsilon, self.delta, norm_squared=norm)
        change, cells = self._change, self.cells
        return calibrate.gaussian_sigma(self.epsilon, self.delta, change=change, cells=cells)

    def _delta_at(self, epsilon: float) -> float:
        if self.cells is None:
            return calibrate.concentrated_delta(epsilon, self._rho)
        change, cells = self._change, self.cells
        return calibrate.gaussian_delta(epsilon, self.sigma, change=change, cells=cells)

    def _epsilon_at(self, delta: float) -> float:
        if self.cells is None:
            return calibrate.concentrated_epsilon(delta, self._rho)
        change, cells = self._change, self.cells
        return calibrate.gaussian_epsilon(delta, self.sigma**2, change=change, cells=cells)

    def _add(self, numbers: np.ndarray, source: Source | None) -> None:
        noise.add_gaussian(numbers, self.sigma, source=source)


def _too_wide(owner: str, name: str, width: Fraction) -> str:
    about = width.numerator.bit_length() - width.denominator.bit_length()
    return (
        f"{owner}: {name} must be at most 2**40, not about 2**{about}: noise might leave 64 bits. "
        "Scale the value and its sensitivity down, or raise epsilon."
    )


def _uneven(owner: str, name: str, cells: int) -> str:
    return (
        f"{owner}: cells must divide {name} into whole changes, and {cells} does not. "
        "Leave cells out to use the norm alone."
    )
