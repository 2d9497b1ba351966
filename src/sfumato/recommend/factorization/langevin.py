"""Langevin factorization: samples of vectors by stochastic gradient Langevin dynamics."""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    integer,
)
from sfumato.data.interactions import Coded
from sfumato.kernels.alignment import aligned
from sfumato.kernels.recommend import langevin_factors as kernels
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.factorization.gibbs import RATE, SHAPE, prior_precision
from sfumato.recommend.factorization.passes import ShuffledRatings
from sfumato.recommend.factorization.posterior_mean import Sample
from sfumato.recommend.factorization.sampled import SampledFactorization

__all__ = ["LangevinChain", "LangevinFactorization"]

LANES = 16
START = 0.1  # standard deviation of the initial components


class LangevinChain:
    """State of the dynamics: tables of users and items, and the precisions of their priors.

    A vector has the components, the own bias and a 1 beside the other side's bias. A step changes
    each number x by ``rate g slope / 2 + sqrt(rate g) z``, z normal: slope is that of the log
    posterior, estimated from one batch, and g its expected curvature, inverted. Between epochs the
    precisions of ratings, components and biases are drawn, given all others.
    """

    def __init__(
        self,
        users: np.ndarray,
        items: np.ndarray,
        targets: np.ndarray,
        plain: dict[str, Any],
        random: Generator,
    ) -> None:
        self.plain: dict[str, Any]
        self.random: np.random.Generator
        self.plain, self.random, self.epoch = plain, random, 0
        self.rows: ShuffledRatings = ShuffledRatings(
            users.copy(), items.copy(), np.asarray(targets, np.float32)
        )
        factors = plain["factors"]
        self.factors: Any
        self.size: Any
        self.factors, self.size = factors, -(-(factors + 2) // LANES) * LANES
        self.counts: list[np.ndarray] = [
            np.bincount(codes).astype(np.float32) for codes in (users, items)
        ]
        self.tables: list[np.ndarray] = [
            self._started(counts.size, side) for side, counts in enumerate(self.counts)
        ]
        self.sums: list[np.ndarray] = [aligned(table.shape, np.float32) for table in self.tables]
        # Of each side's numbers; the last is that of the bias.
        self.priors: list[np.ndarray] = [np.full(factors + 1, START**-2) for _ in self.tables]
        self.precision, self._squares = 1.0, float(np.square(targets).sum())

    def sweep(self) -> None:
        """Step once for each batch of the shuffled ratings, then draw the precisions."""
        done = self.epoch / self.plain["epochs"]
        rate = self.plain["learning_rate"] / (1 + self.plain["decay"] * done)
        self.rows.shuffle(self.random)
        batches, squares = self.plain["batches"], 0.0
        for batch in self.rows.parts(batches):
            squares += self._step(batch, batches, rate)
        self._squares, self.epoch = squares, self.epoch + 1
        self._draw_precisions()

    def sample(self) -> Sample:
        """Return the vectors as they are."""
        (p, c), (q, d) = (self._parts(side) for side in (0, 1))
        return Sample(p, q, c, d, 0.0)

    def noise(self) -> float:
        """Return the root mean square of the residuals in the last epoch."""
        return math.sqrt(self._squares / self.rows.columns[0].size)

    def _started(self, count: int, side: int) -> np.ndarray:
        """Return small random components, a bias of 0 and the 1 beside the other's bias."""
        table = aligned((count, self.size), np.float32)
        drawn = self.random.standard_normal((count, self.factors), np.float32)
        table[:, : self.factors] = drawn * np.float32(START)
        table[:, self.factors + 1 - side] = 1
        return table

    def _own(self, table: np.ndarray, side: int) -> np.ndarray:
        """Return the columns of a table that are learned: components and, last, the bias."""
        bias = self.factors + side
        columns = np.r_[: self.factors, bias]
        return table[:, columns]

    def _parts(self, side: int) -> tuple[np.ndarray, np.ndarray]:
        own = self._own(self.tables[side], side)
        return own[:, :-1], own[:, -1]

    def _step(self, batch: tuple[np.ndarray, ...], batches: int, rate: float) -> float:
        """Change all numbers by one step; return the sum of squared errors of the batch."""
        for sums in self.sums:
            sums[:] = 0
        flat = [each.reshape(-1) for each in (*self.tables, *self.sums)]
        squares = kernels.add_gradients(*batch, self.size, *flat)
        for side in (0, 1):
            table, own = self.tables[side], self._own(self.tables[side], side)
            slope = np.float32(batches * self.precision) * self._own(self.sums[side], side)
            slope -= own * self.priors[side].astype(np.float32)
            gain = np.float32(rate) / self._curvature(side)
            normals = self.random.standard_normal(own.shape, np.float32)
            own += gain / 2 * slope + np.sqrt(gain) * normals
            table[:, : self.factors], table[:, self.factors + side] = own[:, :-1], own[:, -1]
        return float(squares)

    def _curvature(self, side: int) -> np.ndarray:
        """Return the expected curvature of the log posterior, given counts and precisions.

        It depends on no vector, so that steps scaled by it keep the posterior.
        """
        squares = np.append(1 / self.priors[1 - side][:-1], 1.0)  # of what a number is beside
        data = self.precision * self.counts[side][:, None] * squares
        return np.asarray(self.priors[side] + data, np.float32)

    def _draw_precisions(self) -> None:
        for side in (0, 1):
            own = self._own(self.tables[side], side)
            self.priors[side] = np.array([prior_precision(x, 0.0, self.random) for x in own.T])
        shape = SHAPE + self.rows.columns[0].size / 2
        self.precision = float(self.random.gamma(shape) / (RATE + self._squares / 2))


class LangevinFactorization(SampledFactorization):
    """Bayesian matrix factorization of ratings by stochastic gradient Langevin dynamics.

    Gradient steps on batches of ratings with normal noise draw vectors from about their posterior
    distribution, and the predictions after a burn-in are averaged. `BayesianFactorization` draws
    exactly, with implicit feedback, and predicts better. Not differentially private.

    Parameters
    ----------
    factors : int, default=32
        Number of components of a drawn vector, beside the bias, from 1 to 1024.
    epochs : int, default=200
        Passes over the ratings, at least 1, with those of the burn-in. Each ends in a sample.
    burn_in : int, default=40
        First samples that do not count, at least 0; at most `epochs` - 1 are left out.
    batches : int, default=10
        Steps of an epoch, at least 1.
    learning_rate : float, default=0.2
        Size of the first steps, above 0 and at most 1, in units of the inverse curvature of the log
        posterior; epoch t of T has `learning_rate / (1 + decay * t / T)`.
    decay : float, default=3.0
        Decay of the steps, at least 0.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None takes them from the data.
    random_state : int, Generator or None, default=0
        Seed of initialisation, batches and noise.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    history_ : list of dict
        "epoch" and "valid_rmse" (None without validation data) of each epoch of `fit`: the error of
        the mean of the samples so far, in the burn-in of the last one alone.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    noise_ : float
        Standard deviation of ratings around the predictions of a sample.
    samples_ : int
        Number of samples averaged: after Ctrl-C those so far, or 1, the last one of the burn-in.
    user_kind_ : str
        Type of user ids, "integers" or "text".

    Notes
    -----
    **Guarantee.** The same `random_state` gives bitwise the same model. A user or item that was not
    in the training data has a vector of 0, so that the other side's bias decides.

    A step of size h changes each number by ``h slope / 2 + sqrt(h) z``, z normal: equations (2.13)
    and (2.14) of [2]_ with the factor that they lack. As h falls, the samples approach the
    posterior; at a given h their variance is larger, by about h / 4 in units of the inverse
    curvature, and by up to `batches` times that from the choice of the batch.

    No privacy is claimed: the log-likelihood of a rating is not bounded and the samples are not
    exact, both of which a private posterior sample needs ([2]_, section 2.4.6.3).

    References
    ----------
    .. [1] Welling, Teh. "Bayesian Learning via Stochastic Gradient Langevin Dynamics". ICML 2011.
       https://www.stats.ox.ac.uk/~teh/research/compstats/WelTeh2011a.pdf
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.2.5.5. https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> ratings = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = LangevinFactorization(factors=4).fit(ratings)
    >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
    True
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "factors": integer(1, 1024),
        "epochs": integer(1),
        "burn_in": integer(0),
        "batches": integer(1),
        "learning_rate": between(0, 1, above=True),
        "decay": between(0, math.inf),
        "bounds": OPTIONAL_BOUNDS,
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        *,
        factors: int = 32,
        epochs: int = 200,
        burn_in: int = 40,
        batches: int = 10,
        learning_rate: float = 0.2,
        decay: float = 3.0,
        bounds: tuple[float, float] | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.factors, self.epochs, self.burn_in = factors, epochs, burn_in
        self.batches: int
        self.learning_rate: float
        self.decay: float
        self.batches, self.learning_rate, self.decay = batches, learning_rate, decay
        self.bounds, self.random_state = bounds, random_state

    def _chain(
        self, plain: dict[str, Any], coded: Coded, targets: np.ndarray, random: Generator
    ) -> LangevinChain:
        return LangevinChain(coded.user_codes, coded.item_codes, targets, plain, random)
