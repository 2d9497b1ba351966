"""Descent: stochastic gradient descent over shuffled ratings, in threads and safe to interrupt."""

import math
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from itertools import pairwise
from types import FrameType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.random import Generator

from sfumato.core.ids import kind_of
from sfumato.core.typing import Ids
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    flag,
    integer,
    optional,
    positive,
    random_seed,
)
from sfumato.data.interactions import Interactions
from sfumato.kernels.recommend import sgd_dense as shuffle
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.factorization.base import Factorization
from sfumato.recommend.factorization.damping import BiasPrior

__all__ = [
    "START",
    "Descent",
    "Regions",
    "ShuffledRatings",
    "in_ratings",
    "is_finite",
    "restore",
    "run_uninterrupted",
    "snapshot",
]

FEW = 4096  # rows below which an exact permutation is cheap


class ShuffledRatings:
    """Columns of users, items and ratings, shuffled in memory so that a pass reads in order."""

    def __init__(self, *columns: np.ndarray) -> None:
        self.columns = columns
        self._spare = tuple(np.empty_like(column) for column in columns)
        self._again = 1 + int(math.log(max(columns[0].size, 1), shuffle.PILES))

    def shuffle(self, random: Generator) -> None:
        """Shuffle all rows; the first call repeats it until a row may reach any position."""
        size = self.columns[0].size
        if size < FEW:
            order = random.permutation(size)
            self.columns = tuple(column[order] for column in self.columns)
            return
        for _ in range(self._again):
            words = random.integers(2**64, size=size // shuffle.PILES, dtype=np.uint64)
            shuffle.deal(*self.columns, words, *self._spare)
            self.columns, self._spare = self._spare, self.columns
            self._exchange(random, size - size % shuffle.PILES)
        self._again = 1

    def _exchange(self, random: Generator, end: int) -> None:
        """Swap the rows from `end` on, which fill no group, with random other rows."""
        size = self.columns[0].size
        there = random.choice(end, size - end, replace=False)
        for column in self.columns:
            column[end:], column[there] = column[there], column[end:].copy()

    def parts(self, count: int) -> list[tuple[np.ndarray, ...]]:
        """Split the rows into `count` parts of equal length, one per thread."""
        size = self.columns[0].size
        ends = [size * part // count for part in range(count + 1)]
        return [
            tuple(column[start:end] for column in self.columns) for start, end in pairwise(ends)
        ]


Regions = list[tuple[np.ndarray, np.ndarray | None]]  # tables, positions in them; None: all


def snapshot(regions: Regions) -> list[np.ndarray]:
    """Return copies of the values in these regions.

    >>> table = np.arange(4.0)
    >>> before = snapshot([(table, np.array([1, 1, 3]))])
    >>> table[:] = np.nan
    >>> restore([(table, np.array([1, 1, 3]))], before)
    >>> table
    array([nan,  1., nan,  3.])
    """
    return [table.copy() if at is None else table[at] for table, at in regions]


def restore(regions: Regions, before: list[np.ndarray]) -> None:
    """Write the values of a snapshot back."""
    for (table, at), numbers in zip(regions, before, strict=True):
        table[... if at is None else at] = numbers


def is_finite(regions: Regions) -> bool:
    """Return whether all values in these regions are finite."""
    with np.errstate(all="ignore"):  # a value that is not finite leaves no finite sum
        sums = [(table if at is None else table[at]).sum() for table, at in regions]
    return bool(np.isfinite(sums).all())


def run_uninterrupted(work: Callable[[], Any]) -> None:
    """Run `work` to its end; a Ctrl-C meanwhile is handled afterwards."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        work()  # only the main thread may defer Ctrl-C
        return
    pending: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *what: pending.append(what))
    try:
        work()
    finally:
        signal.signal(signal.SIGINT, handler)
        if pending:
            handler(*pending[0])


START = 0.02  # standard deviation of the initial components
STARS = 4.0  # range of five-star ratings, the scale of learning rate and regularization
Progress = Callable[[int, int, float | None], Any]


class Descent(Factorization, in_files=False):
    """Base of factorizations fitted by stochastic gradient descent.

    The learning rate of epoch t of T is eta / (1 + decay t / T). Ratings are rescaled to the range
    of five stars, so that the same learning rates suit any `bounds`; noisier ones are scaled down
    further. The updates are the gradient steps (2.8) and (2.9) of the thesis; `fit` damps biases
    after each epoch, once per user and item and not once per rating, unless `regularization` is 0
    or `clip` or `noise` is given.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "factors": integer(1, 4096),
        "epochs": integer(1),
        "learning_rate": positive,
        "decay": between(0, math.inf),
        "regularization": between(0, math.inf),
        "clip": optional(positive),
        "noise": optional(positive),
        "threads": integer(1, 256),
        "bounds": OPTIONAL_BOUNDS,
        "random_state": RANDOM_STATE,
    }
    STREAM: ClassVar[dict[str, str]] = {
        "bounds": "the scale of ratings"
    }  # needed before the first batch
    clip: float | None
    noise: float | None
    history_: list[dict[str, Any]]
    scale_: float  # rating units per star
    seen_: int  # number of ratings learned from
    hides_: bool  # whether all of them were learned with clip or noise
    random_state: RandomState
    _seed: int  # drawn from random_state when training began

    @property
    def privacy_label(self) -> Literal["none", "measured", "proved"]:
        """Privacy in one word: "measured" if all training used clip or noise, else "none"."""
        perturbed = self.__dict__.get("hides_", self.clip is not None or self.noise is not None)
        return "measured" if perturbed else "none"

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        catalogue: Ids | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the model to ratings from scratch.

        Ctrl-C ends training after the running epoch; the model keeps the epochs completed and
        KeyboardInterrupt is raised.

        Parameters
        ----------
        train : Interactions
            Ratings of at least two users and two items; one alone shows no preferences.
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
            If a parameter is invalid, a rating is outside of `bounds`, or training diverges. The
            model is then unchanged.
        """
        plain = self._check() | {"random_state": self._new_seed()}
        self._check_train(train)
        self._check_enough(train)
        fresh = self._fresh(plain, train, catalogue)
        if valid is not None:
            self._check_train(valid, "valid")
        random = np.random.default_rng(plain["random_state"])
        damped = self._damps_biases(plain)
        prior = BiasPrior.of(train.coded(), fresh._targets(train)) if damped else BiasPrior()
        fresh.scale_ *= prior.unit
        fresh._begin(plain, train, random)
        damp = fresh._damper(train, prior) if damped else None
        rows = ShuffledRatings(*fresh._columns(train), fresh._targets(train))
        try:
            for _ in range(plain["epochs"]):
                run_uninterrupted(lambda: fresh._epoch(plain, rows, random, damp))
                fresh._record(valid, plain["epochs"], progress)
        except KeyboardInterrupt:
            if fresh.history_:
                self._adopt(fresh)
            raise
        return self._adopt(fresh)

    def _check_enough(self, train: Interactions) -> None:
        """Raise ValueError unless there are at least two users and two items."""
        for name, ids in (("user", train.users), ("item", train.items)):
            if (ids == ids[0]).all():
                raise ValueError(
                    f"{type(self).__name__}: train has one {name} only; at least two users and two "
                    "items are needed. A stream that starts so goes to partial_fit."
                )

    def partial_fit(self, batch: Interactions, *, catalogue: Ids | None = None) -> Self:
        """Continue training with one pass over new ratings, in their order.

        The learning rate is constant, that of the middle of a fit: eta / (1 + decay / 2). `mean_`
        becomes the mean of all ratings so far. New users and items are added. During the pass a
        copy of the changed values is in memory, at most the size of the model. Ctrl-C is deferred
        to its end.

        Parameters
        ----------
        batch : Interactions
            New ratings, at least one.
        catalogue : array_like, scalar or None, default=None
            Ids of the items that may be recommended from now on. None leaves the catalogue as it
            is; that of a new model is the items of its first batch.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        ValueError
            If an unfitted model lacks `bounds` (and `cells`, for a sketch), or training diverges.
            The model is then unchanged.
        """
        plain = self._check() | {"random_state": self._new_seed()}
        self._check_train(batch, "batch")
        known = "seen_" in self.__dict__
        if not known:
            self._check_stream(plain)
        model = copy(self) if known else self._fresh(plain, batch, catalogue)
        random = np.random.default_rng([plain["random_state"], model.seen_])
        if known:
            model._extend(plain, batch, catalogue)
        else:
            model._begin_stream(plain, batch, random)
        rows = ShuffledRatings(*model._columns(batch), model._targets(batch))
        model.seen_ += len(batch)
        run_uninterrupted(lambda: self._adopt(model._streamed(plain, rows, random)))
        return self

    def _fresh(self, plain: dict[str, Any], train: Interactions, catalogue: Any) -> Self:
        """Return a copy of the model without tables, to be trained aside."""
        fresh = copy(self)
        fresh.low_, fresh.high_ = self._bounds_of(train, plain["bounds"])
        fresh.scale_ = (fresh.high_ - fresh.low_) / STARS or 1.0
        fresh.mean_ = float(train.ratings.mean())
        fresh.catalogue_ = self._catalogue_of(train, catalogue)
        fresh.user_kind_ = kind_of(train.users)
        fresh.history_, fresh.seen_, fresh.hides_ = [], 0, True
        fresh._seed = plain["random_state"]
        return fresh

    def _check(self) -> dict[str, Any]:
        plain = super()._check()
        if not isinstance(plain["random_state"], int):  # a file stores the seed that was drawn
            plain["random_state"] = self.__dict__.get("_seed", 0)
        return plain

    def _new_seed(self) -> int:
        """Return a seed drawn from `random_state`."""
        return random_seed(type(self).__name__, self.random_state)

    def _adopt(self, fresh: Self) -> Self:
        """Take over the fitted state of a copy."""
        self.__dict__.update(fresh.__dict__)
        self._changed()
        return self

    def _extend(self, plain: dict[str, Any], batch: Interactions, catalogue: Any) -> None:
        """Update bounds, mean, catalogue and tables for a further batch."""
        self._pairs(batch.users, batch.items)  # ids of another kind would all be unknown
        low, high = self._bounds_of(batch, plain["bounds"])
        items = self.catalogue_ if catalogue is None else self._catalogue_of(batch, catalogue)
        self._make_room(plain, batch)
        self.low_, self.high_, self.catalogue_ = min(low, self.low_), max(high, self.high_), items
        fraction = len(batch) / (self.seen_ + len(batch))
        self.mean_ += fraction * (float(batch.ratings.mean()) - self.mean_)

    def _streamed(self, plain: dict[str, Any], rows: ShuffledRatings, random: Generator) -> Self:
        """Run one pass over a batch; restore the tables if it fails."""
        users, items, _ = rows.columns
        regions = self._regions(users, items) if plain["noise"] is None else self._all()
        before = snapshot(regions)
        try:
            fraction = users.size / self.seen_
            self._pass(plain, rows, self._rate(plain, 0.5), fraction, random, regions)
        except BaseException:
            restore(regions, before)
            raise
        return self

    def _check_stream(self, plain: dict[str, Any]) -> None:
        """Raise ValueError if parameters that a first batch needs are missing."""
        missing = {f"{name}=": why for name, why in self.STREAM.items() if plain[name] is None}
        if missing:
            raise ValueError(
                f"{type(self).__name__}: a model that starts with partial_fit needs "
                f"{' and '.join(missing)}, since a first batch does not show "
                f"{' and '.join(missing.values())}; or call fit first."
            )

    def _targets(self, data: Interactions) -> np.ndarray:
        """Return what the factors are to predict: ratings less the mean, in stars."""
        stars = (data.ratings - self.mean_) / self.scale_
        with np.errstate(over="ignore"):  # overflow of float32 is reported as divergence
            return np.asarray(stars, np.float32)

    def _epoch(
        self,
        plain: dict[str, Any],
        rows: ShuffledRatings,
        random: Generator,
        damp: Callable[[float], Any] | None,
    ) -> None:
        """Run one epoch over the shuffled rows, damp the biases and record the epoch."""
        epoch = len(self.history_)
        rows.shuffle(random)
        rate = self._rate(plain, epoch / plain["epochs"])
        try:
            self._pass(plain, rows, rate, 1.0, random, self._all())
            if damp is not None:
                damp(rate)
        except BaseException:
            self.history_ = []  # the epoch is incomplete: its tables are not to be used
            raise
        self.seen_ = rows.columns[0].size
        self.history_.append({"epoch": epoch + 1, "valid_rmse": None})

    def _pass(
        self,
        plain: dict[str, Any],
        rows: ShuffledRatings,
        rate: float,
        fraction: float,
        random: Generator,
        regions: Regions,
    ) -> None:
        """Run one pass over the rows in threads; add the noise of this fraction of an epoch."""
        self.hides_ &= plain["clip"] is not None or plain["noise"] is not None
        limit = math.inf if plain["clip"] is None else 2 * plain["clip"] / self.scale_**2
        step = self._step(plain, rate, limit)
        if plain["threads"] == 1:
            step(*rows.columns)
        else:
            with ThreadPoolExecutor(plain["threads"]) as pool:
                list(pool.map(lambda part: step(*part), rows.parts(plain["threads"])))
        if plain["noise"] is not None:
            # Langevin dynamics, (2.13) corrected: an epoch of N ratings has N steps of eta / N,
            # each with noise of variance 2 eta / N. Their sum is added once: the same distribution.
            self._add_noise(math.sqrt(2 * rate * fraction * plain["noise"]), random)
        if not is_finite(regions):
            bounds = ", or bounds= for a stream" if plain["bounds"] is None else ""
            raise ValueError(
                f"{type(self).__name__}: the descent diverged at a learning rate of {rate:g}; give "
                f"a smaller learning_rate or regularization{bounds}."
            )

    def _record(self, valid: Interactions | None, epochs: int, progress: Progress | None) -> None:
        """Add the validation error to the last entry of `history_` and report progress."""
        entry = self.history_[-1]
        if valid is not None:
            self._changed()
            miss = self.predict(valid.users, valid.items) - valid.ratings
            entry["valid_rmse"] = float(np.sqrt(np.mean(miss * miss)))
        if progress is not None:
            progress(entry["epoch"], epochs, entry["valid_rmse"])

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "scale_": self.scale_,
            "seen_": self.seen_,
            "hides_": self.hides_,
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.scale_ = positive.check("state", "scale_", state["scale_"])
        self.seen_ = integer(0).check("state", "seen_", state["seen_"])
        self.hides_ = flag.check("state", "hides_", state["hides_"])
        self.history_ = []

    def _rate(self, plain: dict[str, Any], done: float) -> float:
        """Return the learning rate when this fraction of the epochs is done."""
        return float(plain["learning_rate"]) / (1 + float(plain["decay"]) * done)

    def _begin(self, plain: dict[str, Any], train: Interactions, random: Generator) -> None:
        """Create the tables for the training data."""
        raise NotImplementedError

    def _begin_stream(self, plain: dict[str, Any], batch: Interactions, random: Generator) -> None:
        """Create the tables for a first batch."""
        self._begin(plain, batch, random)

    def _make_room(self, plain: dict[str, Any], batch: Interactions) -> None:
        """Extend the tables by new ids, where the model needs that."""

    def _columns(self, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
        """Return users and items as the codes that the kernels read."""
        raise NotImplementedError

    def _tables(self) -> list[np.ndarray]:
        """Return the tables of parameters."""
        raise NotImplementedError

    def _all(self) -> Regions:
        """Return all tables as regions."""
        return [(table, None) for table in self._tables()]

    def _regions(self, users: np.ndarray, items: np.ndarray) -> Regions:
        """Return the regions that a pass over these columns may change."""
        raise NotImplementedError

    def _step(self, plain: dict[str, Any], rate: float, clip: float) -> Callable[..., Any]:
        """Return a function that runs gradient steps over columns of users, items and targets."""
        raise NotImplementedError

    def _damps_biases(self, plain: dict[str, Any]) -> bool:
        """Return whether biases are damped and not penalised at each rating."""
        # With clip or noise a rating must have no other influence than through the steps.
        return plain["regularization"] > 0 and plain["clip"] is None and plain["noise"] is None

    def _damper(self, train: Interactions, prior: BiasPrior) -> Callable[[float], Any]:
        """Return a function that shrinks all biases by one step of this learning rate."""
        raise NotImplementedError

    def _add_noise(self, deviation: float, random: Generator) -> None:
        """Add Gaussian noise of this standard deviation to all parameters."""
        raise NotImplementedError


def in_ratings(factors: int, scale: float) -> np.ndarray:
    """Return the factors that convert vectors from stars to the unit of the ratings."""
    weights = np.full(factors, scale**0.5, np.float32)
    weights[-1] = scale
    return weights
