"""Conjugate models on public grids, whose log-likelihoods are whole multiples of a public step.

A likelihood that reaches 0 has no bounded logarithm, so every grid stays away from there.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato._require import between, checked, number, positive, whole
from sfumato.privacy._columns import real_column, whole_column

__all__ = ["STEP", "BetaBernoulli", "DirichletMultinomial", "GaussianMean"]

STEP = Fraction(1, 2**20)  # of every logarithm
ASKED = "PosteriorSample"  # who was given the rows, for errors about them
ROWS = 2**31  # rows of one column that count, the first
FARTHEST = 2**31  # steps of a logarithm, so that the sum over all rows is below 2**62
LARGEST_GRID = 2**18
POINTS = whole(2, LARGEST_GRID)


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

    Parameters: margin, from 2**-50 to below 1/2; points: the chance is one of so many evenly spaced
    numbers from margin to 1 - margin (log-likelihoods are unbounded nearer to 0 and 1); alpha and
    beta, of the prior.
    One row moves the posterior by R = log((1 - margin) / margin).

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
        return np.linspace(self.margin, 1 - self.margin, self.points)

    @property
    def log_prior(self) -> np.ndarray:
        shape = (self.alpha - 1) * np.log(self.grid) + (self.beta - 1) * np.log1p(-self.grid)
        return _steps("BetaBernoulli", shape)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        return _steps("BetaBernoulli", np.stack([np.log1p(-self.grid), np.log(self.grid)]))

    def counts(self, column: Any) -> np.ndarray:
        return self._counted(whole_column(ASKED, "value", column), 2)


@dataclass(frozen=True)
class DirichletMultinomial(_Model):
    """Rows of one of several categories, whose chances have a symmetric Dirichlet prior.

    Parameters: categories; parts: the chances are whole multiples, at least one, of 1 / parts, so
    the grid has (parts - 1 choose categories - 1) points, at most 2**18; alpha, of the prior.
    One row moves the posterior by R = log(parts - categories + 1).

    >>> DirichletMultinomial(categories=2, parts=4).grid
    array([[0.25, 0.75],
           [0.5 , 0.5 ],
           [0.75, 0.25]])
    """

    categories: int
    parts: int
    alpha: float = 1.0
    LIMITS = {"categories": whole(2, 64), "parts": whole(3, LARGEST_GRID), "alpha": positive}

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
        return _compositions(self.parts, self.categories) / self.parts

    @property
    def log_prior(self) -> np.ndarray:
        shape = (self.alpha - 1) * np.log(self.grid).sum(axis=1)
        return _steps("DirichletMultinomial", shape)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        return _steps("DirichletMultinomial", np.log(self.grid.T))

    def counts(self, column: Any) -> np.ndarray:
        rows = whole_column(ASKED, "value", column)
        return self._counted(rows, self.categories)


@dataclass(frozen=True)
class GaussianMean(_Model):
    """Real rows around an unknown mean, with a known deviation and a Gaussian prior of the mean.

    Parameters: low and high, public bounds within 2**53 that rows are clipped to; cells, to whose
    lower ends they are then rounded (one unit stays in one cell, whatever floats do); deviation, of
    a row around the mean; points, of the mean's grid from low to high; prior_mean, within 2**53,
    and prior_deviation.
    One row moves the posterior by R = (high - low)**2 / (2 deviation**2).

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
        "points": whole(2, 2**12),
        "prior_deviation": positive,
        "cells": whole(1, 2**11),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high", "prior_mean"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.low >= self.high:
            raise ValueError(f"GaussianMean: low must be below high ({self.high}), not {self.low}.")

    @cached_property
    def grid(self) -> np.ndarray:
        return np.linspace(self.low, self.high, self.points)

    @property
    def log_prior(self) -> np.ndarray:
        away = (self.grid - self.prior_mean) / self.prior_deviation
        return _steps("GaussianMean", -(away**2) / 2)

    @cached_property
    def log_likelihood(self) -> np.ndarray:
        rows = np.linspace(self.low, self.high, self.cells + 1)[:, None]
        return _steps("GaussianMean", -(((rows - self.grid) / self.deviation) ** 2) / 2)

    def counts(self, column: Any) -> np.ndarray:
        rows = np.clip(real_column(ASKED, "value", column), self.low, self.high)
        cells = ((rows - self.low) * (self.cells / (self.high - self.low))).astype(np.int64)
        return self._counted(np.clip(cells, 0, self.cells), self.cells + 1)


def _steps(owner: str, logarithms: np.ndarray) -> np.ndarray:
    steps = np.rint(logarithms / float(STEP))
    if not np.abs(steps).max() < FARTHEST:
        raise ValueError(f"{owner}: a logarithm is beyond 2**11; keep the grid nearer to the rows.")
    return steps.astype(np.int64)


def _compositions(total: int, parts: int) -> np.ndarray:
    """Every way to write total as an ordered sum of so many whole numbers from 1 up."""
    if parts == 1:
        return np.array([[total]])
    heads = range(1, total - parts + 2)
    tails = [_compositions(total - head, parts - 1) for head in heads]
    return np.concatenate(
        [np.insert(tail, 0, head, axis=1) for head, tail in zip(heads, tails, strict=True)]
    )
