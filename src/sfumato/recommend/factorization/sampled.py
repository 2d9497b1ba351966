"""SampledFactorization: the base of models whose prediction is the mean over posterior samples."""

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator

from sfumato.core.validation import integer, optional, positive
from sfumato.data.interactions import Coded, Interactions
from sfumato.recommend.factorization.base import _above_bias
from sfumato.recommend.factorization.posterior_mean import MeanVectors, Sample
from sfumato.recommend.factorization.stored_vectors import EpochVectors

__all__ = ["PosteriorChain", "SampledFactorization"]

COMPONENTS = 2  # stored components for each factor of a sample
RIDGE = optional(positive)


class PosteriorChain(Protocol):
    """A Markov chain whose states are samples of vectors, for ratings of mean 0 and variance 1."""

    def sweep(self) -> None:
        """Change all vectors once."""

    def sample(self) -> Sample:
        """Return the vectors as they are."""

    def noise(self) -> float:
        """Return the root mean square of the residuals."""


class SampledFactorization(EpochVectors, in_files=False):
    """Base of factorizations that average the predictions of a Markov chain of vectors.

    A subclass has the parameters `factors`, `epochs` and `burn_in`, and makes the chain in
    `_chain`. The vectors stored are `COMPONENTS` times as long as those of a sample. After Ctrl-C
    they are the mean of the samples drawn so far, or the last one of the burn-in.
    """

    factors: int
    epochs: int
    burn_in: int
    bounds: tuple[float, float] | None
    noise_: float
    samples_: int

    def recommend_fold_in(
        self,
        items: Any,
        ratings: Any = None,
        *,
        n: int = 10,
        filter: Any = None,
        ridge: float | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a new user, given some of the user's items.

        The model does not change and stores nothing of the new user.

        Parameters
        ----------
        items : array_like or scalar
            Ids of the user's items; they are not recommended again.
        ratings : array_like of shape (n_items,) or None, default=None
            Ratings of these items, clipped to the bounds. If None, every item counts as liked: its
            rating is `high_ - mean_` above the prediction from its bias, and the user's bias is 0.
        n : int, default=10
            Number of items to recommend, at least 1.
        filter : array_like of bool or None, default=None
            Mask over `catalogue_`; only items with True are recommended.
        ridge : float or None, default=None
            Ridge penalty of the new vector, above 0, as in `Factorization`. None means its
            posterior mean; see Notes.

        Returns
        -------
        tuple of ndarray
            Item ids and scores of shape (m,), m <= n, best first.

        Notes
        -----
        The posterior mean is for given vectors of items, noise of standard deviation `noise_`, and
        a normal prior whose mean is 0 and whose covariances are the mean products of the training
        users' vectors. Without items the vector is that of an unknown user, 0.
        """
        return super().recommend_fold_in(items, ratings, n=n, filter=filter, ridge=ridge)

    def _training(self, plain: dict[str, Any], train: Interactions) -> "_Averaging":
        return _Averaging(self, plain, train)

    def _take(self, training: Any) -> None:
        mean, scale, vectors = training.mean, training.scale, training.vectors
        users, items, constant = vectors.vectors()
        unit = np.full(users.shape[1], scale**0.5)
        unit[-1] = scale
        self._set_vectors(users * unit, items * unit)
        self.mean_, self.samples_ = mean + scale * constant, vectors.count
        self.noise_ = scale * max((training.variance / vectors.count) ** 0.5, 1e-6)

    def _chain(
        self, plain: dict[str, Any], coded: Coded, targets: np.ndarray, random: Generator
    ) -> PosteriorChain:
        """Return a chain for ratings of mean 0 and variance 1."""
        raise NotImplementedError

    def _folded_in(self, items: np.ndarray, ratings: Any, ridge: float | None) -> np.ndarray:
        if RIDGE.check(type(self).__name__, "ridge", ridge) is not None:
            return super()._folded_in(items, ratings, ridge)
        vectors = self._in_blocks(self._item_vectors, items).astype(np.float64)
        targets = _above_bias(self, vectors[:, -1], ratings)
        vectors[:, -1] = ratings is not None  # the column of the new user's bias
        turned = vectors @ self._prior_root
        square = turned.T @ turned + self.noise_**2 * np.eye(vectors.shape[1])
        out = self._prior_root @ np.linalg.solve(square, turned.T @ targets)
        if ratings is None:
            out[-1] = 0
        return np.asarray(out, np.float32)

    @cached_property
    def _prior_root(self) -> np.ndarray:
        """A matrix r with r r' = mean of p p' over the training users."""
        rows = self._user_rows.astype(np.float64)
        values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))

    def _changed(self) -> None:
        super()._changed()
        self.__dict__.pop("_prior_root", None)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "noise_": self.noise_, "samples_": self.samples_}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.noise_ = positive.check("state", "noise_", state["noise_"])
        self.samples_ = integer(1).check("state", "samples_", state["samples_"])


class _Averaging:
    """A chain that runs on ratings, and the mean of its samples after the burn-in."""

    def __init__(self, model: SampledFactorization, plain: dict[str, Any], train: Any) -> None:
        coded, ratings = train.coded(), train.ratings.astype(np.float64)
        self.mean, self.scale = model.mean_, float(ratings.std()) or 1.0
        if not np.isfinite(self.scale):
            raise ValueError(f"{type(model).__name__}: ratings are too large; rescale them.")
        self.burn_in = min(plain["burn_in"], plain["epochs"] - 1)
        self.components = COMPONENTS * plain["factors"]
        random = np.random.default_rng(plain["random_state"])
        targets = (ratings - self.mean) / self.scale
        self.chain = model._chain(plain, coded, targets, random)

    def epoch(self, number: int) -> None:
        """Run the chain once over all ratings, and add its state to the mean."""
        self.chain.sweep()
        if number <= self.burn_in:  # the last state before the first that counts is dropped
            self.vectors, self.variance = MeanVectors(self.components), 0.0
        self.vectors.add(self.chain.sample())
        self.variance += self.chain.noise() ** 2
