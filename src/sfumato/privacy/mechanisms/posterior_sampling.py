"""Posterior sampling: one draw of a parameter, private because no row moves the posterior far.

The draw has weights prior(theta) exp(sum of l(x, theta)), l the log-likelihood of one row (checked
by exact masses in the tests). Adding or removing a row changes a log-weight by l(x, theta), and the
log-normaliser by a mean of it; so the log-ratio is at most R, the largest range of l(x, .) over
theta for one x. Replacing a row costs 2 R. If |l| <= B then R <= 2 B, which gives 2 B for
add/remove and 4 B for replace, Theorem 1 of Wang, Fienberg and Smola 2015; where likelihoods are
probabilities, l <= 0 and R <= B, so half of that. To reach a requested epsilon the likelihood is
raised to the power min(1, epsilon / R) (min, not max).

The conjugate models are on public grids, with log-likelihoods in integer multiples of a public
step.
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
OWNER = "PosteriorSample"  # of the rows, named in errors about them
ROWS = 2**31  # rows of one column that count, the first
FARTHEST = 2**31  # steps of a logarithm, so that the sum over all rows is below 2**62
LARGEST_GRID = 2**18
POINTS = integer(2, LARGEST_GRID)


@dataclass(frozen=True)
class _Model:
    """Public parameters with declared limits, and rows counted by their value."""

    LIMITS: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)

    def _counted(self, values: np.ndarray, size: int) -> np.ndarray:
        """Count the rows of each value; a row outside, or beyond the first 2**31, is left out."""
        inside = values[(values >= 0) & (values < size)][:ROWS]
        return np.bincount(inside, minlength=size)


@dataclass(frozen=True)
class BetaBernoulli(_Model):
    """Bernoulli rows (0 or 1) with a Beta prior of the probability of 1, on a grid.

    Parameters
    ----------
    margin : float
        Distance of the grid from 0 and 1, from 2**-50 to below 1/2: log-likelihoods are unbounded
        nearer to 0 and 1.
    points : int
        Number of evenly spaced probabilities from margin to 1 - margin, from 2 to 2**18.
    alpha : float, default=1.0
        First parameter of the Beta prior, above 0.
    beta : float, default=1.0
        Second parameter of the Beta prior, above 0.

    Notes
    -----
    One row changes the log-ratio of two posterior weights by at most
    R = log((1 - margin) / margin).

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
        """Possible probabilities of 1, an ndarray of shape (points,)."""
        return np.linspace(self.margin, 1 - self.margin, self.points)

    @property
    def log_prior(self) -> np.ndarray:
        """Log prior at each grid point, in integer steps of 2**-20."""
        shape = (self.alpha - 1) * np.log(self.grid) + (self.beta - 1) * np.log1p(-self.grid)
        return _steps("BetaBernoulli", shape)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """Log-likelihood of each row value at each grid point, in integer steps of 2**-20."""
        return _steps("BetaBernoulli", np.stack([np.log1p(-self.grid), np.log(self.grid)]))

    def counts(self, column: Column) -> np.ndarray:
        """Count the rows of each value.

        Parameters
        ----------
        column : array_like
            Rows of the model; other values are left out.

        Returns
        -------
        ndarray
            Number of zeros and of ones.
        """
        return self._counted(integer_column(OWNER, "value", column), 2)


@dataclass(frozen=True)
class DirichletMultinomial(_Model):
    """Categorical rows with a symmetric Dirichlet prior of the probabilities, on a grid.

    Parameters
    ----------
    categories : int
        Number of categories, from 2 to 64; rows are 0 to categories - 1.
    parts : int
        Probabilities are integer multiples, at least one, of 1 / parts, so the grid has (parts - 1
        choose categories - 1) points, at most 2**18.
    alpha : float, default=1.0
        Parameter of the Dirichlet prior, above 0.

    Notes
    -----
    One row changes the log-ratio of two posterior weights by at most
    R = log(parts - categories + 1).

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
        """Possible probability vectors, an ndarray of shape (points, categories)."""
        return _compositions(self.parts, self.categories) / self.parts

    @property
    def log_prior(self) -> np.ndarray:
        """Log prior at each grid point, in integer steps of 2**-20."""
        shape = (self.alpha - 1) * np.log(self.grid).sum(axis=1)
        return _steps("DirichletMultinomial", shape)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """Log-likelihood of each category at each grid point, in integer steps of 2**-20."""
        return _steps("DirichletMultinomial", np.log(self.grid.T))

    def counts(self, column: Column) -> np.ndarray:
        """Count the rows of each category.

        Parameters
        ----------
        column : array_like
            Categories from 0 up; other values are left out.

        Returns
        -------
        ndarray
            Number of rows per category.
        """
        rows = integer_column(OWNER, "value", column)
        return self._counted(rows, self.categories)


@dataclass(frozen=True)
class GaussianMean(_Model):
    """Real rows of known standard deviation with a Gaussian prior of their mean, on a grid.

    Parameters
    ----------
    low : float
        Public lower bound that rows are clipped to, within 2**53.
    high : float
        Public upper bound that rows are clipped to, within 2**53 and above `low`.
    deviation : float
        Standard deviation of a row around the mean, above 0.
    points : int
        Number of evenly spaced means from low to high, from 2 to 4096.
    prior_mean : float
        Mean of the prior, within 2**53.
    prior_deviation : float
        Standard deviation of the prior, above 0.
    cells : int, default=1024
        Number of intervals from low to high, from 1 to 2048. A row is rounded to the lower end of
        its interval; so it changes one count by one, however floats are rounded.

    Notes
    -----
    One row changes the log-ratio of two posterior weights by at most
    R = (high - low)**2 / (2 deviation**2).

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
        """Possible means, an ndarray of shape (points,)."""
        return np.linspace(self.low, self.high, self.points)

    @property
    def log_prior(self) -> np.ndarray:
        """Log prior at each grid point, in integer steps of 2**-20."""
        away = (self.grid - self.prior_mean) / self.prior_deviation
        return _steps("GaussianMean", -(away**2) / 2)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        """Log-likelihood of each interval at each grid point, in integer steps of 2**-20."""
        rows = np.linspace(self.low, self.high, self.cells + 1)[:, None]
        return _steps("GaussianMean", -(((rows - self.grid) / self.deviation) ** 2) / 2)

    def counts(self, column: Column) -> np.ndarray:
        """Count the rows of each interval.

        Parameters
        ----------
        column : array_like
            Real numbers, clipped to the bounds.

        Returns
        -------
        ndarray
            Number of rows per interval, `cells` + 1 of them.
        """
        rows = np.clip(real_column(OWNER, "value", column), self.low, self.high)
        cells = ((rows - self.low) * (self.cells / (self.high - self.low))).astype(np.int64)
        return self._counted(np.clip(cells, 0, self.cells), self.cells + 1)


def _steps(owner: str, logarithms: np.ndarray) -> np.ndarray:
    """Round logarithms to integer steps; ValueError where one is too large."""
    steps = np.rint(logarithms / float(STEP))
    if not np.abs(steps).max() < FARTHEST:
        raise ValueError(f"{owner}: a logarithm is beyond 2**11; keep the grid nearer to the rows.")
    return steps.astype(np.int64)


def _compositions(total: int, parts: int) -> np.ndarray:
    """List every ordered sum of `parts` integers from 1 up that gives `total`."""
    if parts == 1:
        return np.array([[total]])
    heads = range(1, total - parts + 2)
    tails = [_compositions(total - head, parts - 1) for head in heads]
    return np.concatenate(
        [np.insert(tail, 0, head, axis=1) for head, tail in zip(heads, tails, strict=True)]
    )


PARTS = ("grid", "log_prior", "log_likelihood", "counts")  # of a model


class PosteriorModel(Protocol):
    """A model on public grids of parameters and of the values that a row may take.

    grid: the parameters, one per row; log_prior[theta] and log_likelihood[x, theta]: integers of
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
    """One draw from the posterior of a model, tempered to a requested epsilon.

    Each draw costs epsilon again.

    Parameters
    ----------
    model : PosteriorModel
        One of `BetaBernoulli`, `DirichletMultinomial` and `GaussianMean`.
    epsilon : object
        Requested epsilon, above 0.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace" of one row.

    Notes
    -----
    **Guarantee.** epsilon-differentially private for one row under `relation`, at the epsilon of
    `loss()`: the requested one, or less where the posterior itself is more private. The log-weights
    are integer multiples of a public step and the draw follows them exactly, so R is that of the
    distribution that is sampled. The time of a draw depends on the data, and is not covered: do not
    disclose it.

    References
    ----------
    .. [1] Wang, Fienberg, Smola. "Privacy for Free: Posterior Sampling and Stochastic Gradient
       Monte Carlo". ICML 2015, Theorem 1 (privacy of one posterior sample), with the constants
       derived in the module. https://arxiv.org/abs/1502.07645

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
                "PosteriorSample: model must have parameters that rows distinguish, "
                f"not {self.model!r}."
            )

    @property
    def sensitivity(self) -> Fraction:
        """Largest change of the log-ratio of two weights by one row: R, or 2 R under "replace"."""
        table = self.model.log_likelihood
        widest = int((table.max(axis=1) - table.min(axis=1)).max())
        return widest * STEP * (2 if self.relation == "replace" else 1)

    @property
    def power(self) -> Fraction:
        """Power of the likelihood, min(1, epsilon / sensitivity); 1 leaves it unchanged."""
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
        """Return how far each parameter's log-weight lies below the largest, exactly."""
        likelihood = counts @ self.model.log_likelihood
        power, prior = self._power, self.model.log_prior
        weights = [p + power * s for p, s in zip(prior.tolist(), likelihood.tolist(), strict=True)]
        top = max(weights)
        return [(top - weight) * STEP for weight in weights]

    @cached_property
    def _power(self) -> Fraction:
        return self.power


def _draw(gaps: list[Fraction], bits: Bits) -> int:
    """Sample an index with probability proportional to exp(-gap) by rejection sampling."""
    while not bernoulli_exp(gaps[index := bits.below(len(gaps))], bits):
        pass
    return index
