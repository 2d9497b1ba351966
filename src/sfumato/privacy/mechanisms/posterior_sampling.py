"""Posterior sampling: one draw of a parameter, private because nobody moves the posterior far.

What holds (checked by exact masses in the tests): the law of the draw has weights
prior(theta) exp(sum of l(x, theta)), l the log-likelihood of one row. One row more or less changes
a log-weight by l(x, theta), and the log-normaliser by a mean of it; so the log-ratio is at most R,
the largest range of l(x, .) over theta for one x. Exchanging a row costs 2 R. If |l| <= B then
R <= 2 B, which gives 2 B for add/remove and 4 B for replace, the theorem of Wang, Fienberg and
Smola 2015; where likelihoods are probabilities, l <= 0 and R <= B, so half of that. To reach a
wanted epsilon the likelihood is raised to the power min(1, epsilon / R) (min, not max).

Conjugate models on public grids, whose log-likelihoods are whole multiples of a public step.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.core.integer_columns import integer_column, real_column
from sfumato.core.typing import Column
from sfumato.core.validation import between, checked, integer, number, positive, rational
from sfumato.privacy.accounting.losses import Loss, Pure
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.noise.exact.reference import Bits, bernoulli_exp
from sfumato.privacy.random_source import Source, SystemSource
from sfumato.privacy.rounding import round_up

__all__ = ["STEP", "BetaBernoulli", "DirichletMultinomial", "GaussianMean", "PosteriorSample"]

STEP = Fraction(1, 2**20)  # of every logarithm
ASKED = "PosteriorSample"  # who was given the rows, for errors about them
ROWS = 2**31  # rows of one column that count, the first
FARTHEST = 2**31  # steps of a logarithm, so that the sum over all rows is below 2**62
LARGEST_GRID = 2**18
POINTS = integer(2, LARGEST_GRID)


@dataclass(frozen=True)
class _Model:
    """Public numbers with declared limits, and rows counted by the value that they take."""

    LIMITS: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)

    def _counted(self, values: np.ndarray, size: int) -> np.ndarray:
        """How many rows take each value; a row outside, and one past 2**31, is left out."""
        inside = values[(values >= 0) & (values < size)][:ROWS]
        return np.bincount(inside, minlength=size)


@dataclass(frozen=True)
class BetaBernoulli(_Model):
    """Rows of 0 and 1, of which 1 has an unknown chance with a Beta prior.

    Parameters
    ----------
    margin : float
        From 2**-50 to below 1/2.
    points : int
        The chance is one of so many evenly spaced numbers from margin to 1 - margin
        (log-likelihoods are unbounded nearer to 0 and 1).
    alpha : float, default=1.0
        Of the prior. One row moves the posterior by R = log((1 - margin) / margin).
    beta : float, default=1.0
        Of the prior. One row moves the posterior by R = log((1 - margin) / margin).

    Examples
    --------
    >>> BetaBernoulli(margin=0.25, points=3).grid
    array([0.25, 0.5 , 0.75])
    """

    margin: float
    points: int
    alpha: float = 1.0
    beta: float = 1.0
    LIMITS = {
        "margin": between(2**-50, 0.5),
        "points": POINTS,
        "alpha": positive,
        "beta": positive,
    }

    @cached_property
    def grid(self) -> np.ndarray:
        """TODO."""
        return np.linspace(self.margin, 1 - self.margin, self.points)

    @property
    def log_prior(self) -> np.ndarray:
        """TODO."""
        shape = (self.alpha - 1) * np.log(self.grid) + (self.beta - 1) * np.log1p(-self.grid)
        return _steps("BetaBernoulli", shape)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """TODO."""
        return _steps("BetaBernoulli", np.stack([np.log1p(-self.grid), np.log(self.grid)]))

    def counts(self, column: Column) -> np.ndarray:
        """TODO.

        Parameters
        ----------
        column : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        return self._counted(integer_column(ASKED, "value", column), 2)


@dataclass(frozen=True)
class DirichletMultinomial(_Model):
    """Rows of one of several categories, whose chances have a symmetric Dirichlet prior.

    categories;

    Parameters
    ----------
    categories : int
        TODO.
    parts : int
        The chances are whole multiples, at least one, of 1 / parts, so the grid has (parts - 1
        choose categories - 1) points, at most 2**18.
    alpha : float, default=1.0
        Of the prior. One row moves the posterior by R = log(parts - categories + 1).

    Examples
    --------
    >>> DirichletMultinomial(categories=2, parts=4).grid
    array([[0.25, 0.75],
           [0.5 , 0.5 ],
           [0.75, 0.25]])
    """

    categories: int
    parts: int
    alpha: float = 1.0
    LIMITS = {"categories": integer(2, 64), "parts": integer(3, LARGEST_GRID), "alpha": positive}

    def __post_init__(self) -> None:
        super().__post_init__()
        points = math.comb(self.parts - 1, self.categories - 1)
        if not 2 <= points <= LARGEST_GRID:
            raise ValueError(
                f"DirichletMultinomial: parts must give 2 to {LARGEST_GRID} points, not {points}; "
                "take more parts than categories, and fewer of both for a smaller grid."
            )

    @cached_property
    def grid(self) -> np.ndarray:
        """TODO."""
        return _compositions(self.parts, self.categories) / self.parts

    @property
    def log_prior(self) -> np.ndarray:
        """TODO."""
        shape = (self.alpha - 1) * np.log(self.grid).sum(axis=1)
        return _steps("DirichletMultinomial", shape)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """TODO."""
        return _steps("DirichletMultinomial", np.log(self.grid.T))

    def counts(self, column: Column) -> np.ndarray:
        """TODO.

        Parameters
        ----------
        column : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        rows = integer_column(ASKED, "value", column)
        return self._counted(rows, self.categories)


@dataclass(frozen=True)
class GaussianMean(_Model):
    """Real rows around an unknown mean, with a known deviation and a Gaussian prior of the mean.

    Parameters
    ----------
    low : float
        Public bounds within 2**53 that rows are clipped to.
    high : float
        Public bounds within 2**53 that rows are clipped to.
    deviation : float
        Of a row around the mean.
    points : int
        Of the mean's grid from low to high.
    prior_mean : float
        Within 2**53, and prior_deviation. One row moves the posterior by R = (high - low)**2 / (2
        deviation**2).
    prior_deviation : float
        TODO.
    cells : int, default=1024
        To whose lower ends they are then rounded (one unit stays in one cell, whatever floats do).

    Examples
    --------
    >>> heights = GaussianMean(120, 220, 30, points=5, prior_mean=170, prior_deviation=20)
    >>> heights.grid
    array([120., 145., 170., 195., 220.])
    """

    low: float
    high: float
    deviation: float
    points: int
    prior_mean: float
    prior_deviation: float
    cells: int = 1024
    LIMITS = {
        "low": number,
        "high": number,
        "prior_mean": number,
        "deviation": positive,
        "points": integer(2, 2**12),
        "prior_deviation": positive,
        "cells": integer(1, 2**11),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high", "prior_mean"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.low >= self.high:
            raise ValueError(f"GaussianMean: low must be below high ({self.high}), not {self.low}.")

    @cached_property
    def grid(self) -> np.ndarray:
        """TODO."""
        return np.linspace(self.low, self.high, self.points)

    @property
    def log_prior(self) -> np.ndarray:
        """TODO."""
        away = (self.grid - self.prior_mean) / self.prior_deviation
        return _steps("GaussianMean", -(away**2) / 2)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """TODO."""
        rows = np.linspace(self.low, self.high, self.cells + 1)[:, None]
        return _steps("GaussianMean", -(((rows - self.grid) / self.deviation) ** 2) / 2)

    def counts(self, column: Column) -> np.ndarray:
        """TODO.

        Parameters
        ----------
        column : array_like
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        rows = np.clip(real_column(ASKED, "value", column), self.low, self.high)
        cells = ((rows - self.low) * (self.cells / (self.high - self.low))).astype(np.int64)
        return self._counted(np.clip(cells, 0, self.cells), self.cells + 1)


def _steps(owner: str, logarithms: np.ndarray) -> np.ndarray:
    steps = np.rint(logarithms / float(STEP))
    if not np.abs(steps).max() < FARTHEST:
        raise ValueError(f"{owner}: a logarithm is beyond 2**11; keep the grid nearer to the rows.")
    return steps.astype(np.int64)


def _compositions(total: int, parts: int) -> np.ndarray:
    """Every way to write total as an ordered sum of so many integers from 1 up."""
    if parts == 1:
        return np.array([[total]])
    heads = range(1, total - parts + 2)
    tails = [_compositions(total - head, parts - 1) for head in heads]
    return np.concatenate(
        [np.insert(tail, 0, head, axis=1) for head, tail in zip(heads, tails, strict=True)]
    )


PARTS = ("grid", "log_prior", "log_likelihood", "counts")  # of a model


class PosteriorModel(Protocol):
    """A model on public grids: of parameters, and of the values that a row may take.

    grid: the parameters, one a row; log_prior[theta] and log_likelihood[x, theta]: integers of
    steps of 2**-20; counts(column): how many rows take each value.
    """

    @property
    def grid(self) -> np.ndarray: ...

    @property
    def log_prior(self) -> np.ndarray: ...

    @property
    def log_likelihood(self) -> np.ndarray: ...

    def counts(self, column: Any) -> np.ndarray: ...


@dataclass(frozen=True)
class PosteriorSample(Mechanism):
    """One draw from the posterior of a model, tempered to a wanted epsilon.

    Parameters
    ----------
    model : PosteriorModel
        One of `BetaBernoulli`, `DirichletMultinomial` and `GaussianMean`; epsilon above 0. Each
        draw costs epsilon again.
    epsilon : object
        TODO.
    relation : str, default="add/remove"
        TODO.

    Notes
    -----
    **Guarantee.** Pure differential privacy at the epsilon of `loss()`, which is the wanted one, or
    less where the posterior itself is more private. The log-weights are whole multiples of a public
    step and the draw follows them exactly, so R is that of the law that runs. How long a draw takes
    depends on the data, and is not covered: tell it to nobody.

    References
    ----------
    .. [1] Wang, Fienberg and Smola 2015, theorem 1, with the constants derived above.

    Examples
    --------
    >>> from sfumato.privacy.mechanisms.posterior_sampling import BetaBernoulli
    >>> click_rate = PosteriorSample(BetaBernoulli(margin=0.01, points=99), epsilon=1)
    >>> 0.01 <= click_rate.run([0, 1, 0, 0, 1]) <= 0.99
    True
    """

    model: PosteriorModel
    epsilon: Any
    domain = "a column of rows of the model"
    LIMITS = {"epsilon": rational}

    def __post_init__(self) -> None:
        super().__post_init__()
        missing = [name for name in PARTS if not hasattr(self.model, name)]
        if missing:
            kind = type(self.model).__name__
            raise TypeError(
                f"PosteriorSample: model must have {', '.join(PARTS)}, not a {kind} without "
                f"{missing[0]}; build one of the models of `sfumato.privacy.mechanisms`."
            )
        if not self.sensitivity:
            raise ValueError(
                "PosteriorSample: model must have parameters that rows tell apart, "
                f"not {self.model!r}."
            )

    @property
    def sensitivity(self) -> Fraction:
        """R, or 2 R where a row is exchanged: how far one row moves the log-weights apart."""
        table = self.model.log_likelihood
        spread = int((table.max(axis=1) - table.min(axis=1)).max())
        return spread * STEP * (2 if self.relation == "replace" else 1)

    @property
    def power(self) -> Fraction:
        """The power that the likelihood is raised to: 1 where the posterior is private enough."""
        return min(Fraction(1), Fraction(self.epsilon) / self.sensitivity)

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        drawn = self.sample(value, 1, source=source)[0]
        return float(drawn) if drawn.ndim == 0 else drawn

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        trials, gaps = self._trials(trials), self._gaps(self.model.counts(value))
        bits = Bits(source or SystemSource())
        positions = [_draw(gaps, bits) for _ in range(trials)]
        return np.asarray(self.model.grid[positions])

    def _loss(self) -> Loss:
        return Pure(round_up(self.power * self.sensitivity), relation=self.relation)

    def _sentence(self) -> str:
        return f"one draw from the posterior of {self.model!r}, likelihood to the {self.power}"

    def _gaps(self, counts: np.ndarray) -> list[Fraction]:
        """How far below the largest log-weight each parameter's lies, exactly."""
        likelihood = counts @ self.model.log_likelihood
        power, prior = self._power, self.model.log_prior
        weights = [p + power * s for p, s in zip(prior.tolist(), likelihood.tolist(), strict=True)]
        top = max(weights)
        return [(top - weight) * STEP for weight in weights]

    @cached_property
    def _power(self) -> Fraction:
        return self.power


def _draw(gaps: list[Fraction], bits: Bits) -> int:
    """A place with chance proportional to exp(-gap), by rejection from all places alike."""
    while not bernoulli_exp(gaps[place := bits.below(len(gaps))], bits):
        pass
    return place
