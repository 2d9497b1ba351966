"""SampledFactorization: the base of models whose prediction is the mean over posterior samples."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.random import Generator

from sfumato.core.typing import Ids
from sfumato.core.validation import integer, optional, positive
from sfumato.data.interactions import Coded, Interactions
from sfumato.recommend.factorization.base import _above_bias
from sfumato.recommend.factorization.posterior_mean import MeanVectors, Sample
from sfumato.recommend.factorization.sgd import run_uninterrupted
from sfumato.recommend.factorization.stored_vectors import StoredVectors

__all__ = ["PosteriorChain", "SampledFactorization"]

COMPONENTS = 2  # stored components for each factor of a sample
RIDGE = optional(positive)
Progress = Callable[[int, int, float | None], Any]


class PosteriorChain(Protocol):
    """A Markov chain whose states are samples of vectors, for ratings of mean 0 and variance 1."""

    def sweep(self) -> None:
        """Change all vectors once."""

    def sample(self) -> Sample:
        """Return the vectors as they are."""

    def noise(self) -> float:
        """Return the root mean square of the residuals."""


class SampledFactorization(StoredVectors, in_files=False):
    """Base of factorizations that average the predictions of a Markov chain of vectors.

    A subclass has the parameters `factors`, `epochs` and `burn_in`, and makes the chain in
    `_chain`. The vectors stored are `COMPONENTS` times as long as those of a sample.
    """

    factors: int
    epochs: int
    burn_in: int
    bounds: tuple[float, float] | None
    history_: list[dict[str, Any]]
    noise_: float
    samples_: int

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        catalogue: Ids | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the model to ratings from scratch.

        Ctrl-C ends training after the running epoch; the model is the mean of the samples drawn so
        far, or the last one of the burn-in, and KeyboardInterrupt is raised.

        Parameters
        ----------
        train : Interactions
            Ratings of at least two users and two items.
        valid : Interactions or None, default=None
            Ratings whose error is added to `history_` after each epoch.
        catalogue : array_like, scalar or None, default=None
            Ids of the items that may be recommended; None means the items of `train`.
        progress : callable or None, default=None
            Called as `progress(epoch, epochs, valid_rmse)` after each epoch; `valid_rmse` is None
            without `valid`.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        ValueError
            If a parameter is invalid, a rating is outside of `bounds`, or numbers overflow. The
            model is then unchanged.
        """
        plain = self._check() | {"random_state": self._new_seed()}
        fresh = self._fresh(train, catalogue, plain["bounds"])
        fresh._seed, fresh.history_, fresh.samples_ = plain["random_state"], [], 0
        if valid is not None:
            self._check_train(valid, "valid")
        run = _Averaging(fresh, plain, train)
        try:
            for _ in range(plain["epochs"]):
                run_uninterrupted(lambda: run.epoch(valid))
                if progress is not None:
                    entry = fresh.history_[-1]
                    progress(entry["epoch"], plain["epochs"], entry["valid_rmse"])
        except KeyboardInterrupt:
            if fresh.history_:
                self._adopt(run.averaged())
            raise
        return self._adopt(run.averaged())

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
        self.history_ = []


class _Averaging:
    """A chain that runs for a model, and the mean of its samples after the burn-in."""

    def __init__(self, model: SampledFactorization, plain: dict[str, Any], train: Any) -> None:
        coded, ratings = train.coded(), train.ratings.astype(np.float64)
        self.model, self.mean = model, model.mean_
        self.scale = float(ratings.std()) or 1.0
        if not np.isfinite(self.scale):
            raise ValueError(f"{type(model).__name__}: ratings are too large; rescale them.")
        self.burn_in = min(plain["burn_in"], plain["epochs"] - 1)
        self.components = COMPONENTS * plain["factors"]
        random = np.random.default_rng(plain["random_state"])
        targets = (ratings - self.mean) / self.scale
        self.chain = model._chain(plain, coded, targets, random)

    def epoch(self, valid: Interactions | None) -> None:
        """Run the chain once over all ratings, and add its state to the mean."""
        history = self.model.history_
        self.chain.sweep()
        if len(history) <= self.burn_in:  # the last state before the first that counts is dropped
            self.vectors, self.variance = MeanVectors(self.components), 0.0
        self.vectors.add(self.chain.sample())
        self.variance += self.chain.noise() ** 2
        history.append({"epoch": len(history) + 1, "valid_rmse": None})
        if valid is not None:
            miss = self.averaged().predict(valid.users, valid.items) - valid.ratings
            history[-1]["valid_rmse"] = float(np.sqrt(np.mean(miss * miss)))

    def averaged(self) -> Any:
        """Return the model with the mean of the samples so far, in the unit of the ratings."""
        users, items, constant = self.vectors.vectors()
        unit = np.full(users.shape[1], self.scale**0.5)
        unit[-1] = self.scale
        self.model._set_vectors(users * unit, items * unit)
        self.model._changed()
        self.model.mean_ = self.mean + self.scale * constant
        self.model.samples_ = self.vectors.count
        noise = self.scale * (self.variance / self.vectors.count) ** 0.5
        self.model.noise_ = max(noise, 1e-6 * self.scale)
        return self.model
