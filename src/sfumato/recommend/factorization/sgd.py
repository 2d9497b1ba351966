"""Descent: epochs of stochastic gradient descent, shuffled, threaded, and whole after Ctrl-C.

ShuffledRatings: columns that are shuffled by moving them, so that a pass reads in order. What is
done whole or not at all: numbers that are put back, and Ctrl-C that waits.
"""

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

__all__ = [
    "START",
    "Descent",
    "ShuffledRatings",
    "Touched",
    "in_ratings",
    "is_finite",
    "put_back",
    "taken",
    "to_the_end",
]

FEW = 4096  # rows below which an exact permutation costs nothing


class ShuffledRatings:
    """Columns of users, items and ratings that are shuffled by moving them."""

    def __init__(self, *columns: np.ndarray) -> None:
        self.columns = columns
        self._spare = tuple(np.empty_like(column) for column in columns)
        self._again = 1 + int(math.log(max(columns[0].size, 1), shuffle.PILES))

    def shuffle(self, random: Generator) -> None:
        """Move every row; the first time so often that it may end at any place."""
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
        """The rows from `end` on, which filled no group, change places with random ones."""
        size = self.columns[0].size
        there = random.choice(end, size - end, replace=False)
        for column in self.columns:
            column[end:], column[there] = column[there], column[end:].copy()

    def parts(self, count: int) -> list[tuple[np.ndarray, ...]]:
        """The rows in so many parts of equal length, for as many threads."""
        size = self.columns[0].size
        ends = [size * part // count for part in range(count + 1)]
        return [
            tuple(column[start:end] for column in self.columns) for start, end in pairwise(ends)
        ]


Touched = list[tuple[np.ndarray, np.ndarray | None]]  # tables and places there; None: everywhere


def taken(touched: Touched) -> list[np.ndarray]:
    """A copy of the numbers at these places.

    >>> table = np.arange(4.0)
    >>> before = taken([(table, np.array([1, 1, 3]))])
    >>> table[:] = np.nan
    >>> put_back([(table, np.array([1, 1, 3]))], before)
    >>> table
    array([nan,  1., nan,  3.])
    """
    return [table.copy() if at is None else table[at] for table, at in touched]


def put_back(touched: Touched, before: list[np.ndarray]) -> None:
    """The numbers at these places as they were taken."""
    for (table, at), numbers in zip(touched, before, strict=True):
        table[... if at is None else at] = numbers


def is_finite(touched: Touched) -> bool:
    """Whether all numbers at these places are finite."""
    with np.errstate(all="ignore"):  # what is not finite leaves no finite sum
        sums = [(table if at is None else table[at]).sum() for table, at in touched]
    return bool(np.isfinite(sums).all())


def to_the_end(work: Callable[[], Any]) -> None:
    """Do work whole: Ctrl-C is held back until it is done, or has failed."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        work()  # Ctrl-C is not ours to hold
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *what: held.append(what))
    try:
        work()
    finally:
        signal.signal(signal.SIGINT, usual)
        if held:
            usual(*held[0])


START = 0.02  # the spread of components at the beginning
STARS = 4.0  # the width of a scale of five stars, on which rates and regularization are stated
Progress = Callable[[int, int, float | None], Any]


class Descent(Factorization, in_files=False):
    """The base of models learned by stochastic gradient descent (2.8), (2.9).

    Epoch t of T has the rate eta / (1 + decay t / T). Ratings are learned on the scale of five
    stars: from `bounds` of width 4; others are stretched to it, so that the same rates serve them.
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
    STREAM: ClassVar[dict[str, str]] = {"bounds": "the scale of ratings"}  # what no batch tells
    clip: float | None
    noise: float | None
    history_: list[dict[str, Any]]
    scale_: float  # of ratings: their width over that of five stars
    seen_: int  # ratings learned from
    hides_: bool  # whether all of them were clipped or noised
    random_state: RandomState
    _seed: int  # what random_state gave when learning began

    @property
    def privacy_label(self) -> Literal["none", "measured", "proved"]:
        """Clipping and noise hide something, how much is measured; nothing is proved."""
        hides = self.__dict__.get("hides_", self.clip is not None or self.noise is not None)
        return "measured" if hides else "none"

    def fit(
        self,
        train: Interactions,
        valid: Interactions | None = None,
        *,
        catalogue: Ids | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Learn from ratings, anew; Ctrl-C lets the running epoch end and keeps what was learned.

        Parameters
        ----------
        train : Interactions
            Interactions of two users and two items at least, since one alone tells nothing about
            taste.
        valid : Interactions or None, default=None
            Whose error `history_` reports after each epoch.
        catalogue : array_like, scalar or None, default=None
            What may be recommended, or the items of train.
        progress : callable or None, default=None
            Called as progress(done, epochs, valid_rmse or None).

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check() | {"random_state": self._new_seed()}
        self._check_train(train)
        self._check_enough(train)
        fresh = self._fresh(plain, train, catalogue)
        if valid is not None:
            self._check_train(valid, "valid")
        random = np.random.default_rng(plain["random_state"])
        fresh._begin(plain, train, random)
        rows = ShuffledRatings(*fresh._columns(train), fresh._targets(train))
        try:
            for _ in range(plain["epochs"]):
                to_the_end(lambda: fresh._epoch(plain, rows, random))
                fresh._tell(valid, plain["epochs"], progress)
        except KeyboardInterrupt:
            if fresh.history_:
                self._adopt(fresh)
            raise
        return self._adopt(fresh)

    def _check_enough(self, train: Interactions) -> None:
        for name, ids in (("user", train.users), ("item", train.items)):
            if (ids == ids[0]).all():
                raise ValueError(
                    f"{type(self).__name__}: train has one {name} only; at least two users and two "
                    "items are needed. A stream that starts so goes to partial_fit."
                )

    def partial_fit(self, batch: Interactions, *, catalogue: Ids | None = None) -> Self:
        """Learn from further ratings in one pass, in their order, at a constant rate.

        The rate is that of the middle of a fit, eta / (1 + decay / 2). The mean is that of all
        ratings seen so far. The catalogue stays as it is unless given; that of a model that starts
        with `partial_fit`, which needs bounds=, is the items of the first batch. A pass that
        diverges leaves the model as it was: while it runs, it takes as much memory again as the
        numbers that it changes, at most as all of them. Ctrl-C waits for its end.

        Parameters
        ----------
        batch : Interactions
            TODO.
        catalogue : array_like, scalar or None, default=None
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check() | {"random_state": self._new_seed()}
        self._check_train(batch, "batch")
        known = "seen_" in self.__dict__
        if not known:
            self._check_stream(plain)
        model = copy(self) if known else self._fresh(plain, batch, catalogue)
        random = np.random.default_rng([plain["random_state"], model.seen_])
        if known:
            model._go_on(plain, batch, catalogue)
        else:
            model._begin_stream(plain, batch, random)
        rows = ShuffledRatings(*model._columns(batch), model._targets(batch))
        model.seen_ += len(batch)
        to_the_end(lambda: self._adopt(model._streamed(plain, rows, random)))
        return self

    def _fresh(self, plain: dict[str, Any], train: Interactions, catalogue: Any) -> Self:
        """A copy of the model without its tables, to be learned aside."""
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
        if not isinstance(plain["random_state"], int):  # a file holds the number that was drawn
            plain["random_state"] = self.__dict__.get("_seed", 0)
        return plain

    def _new_seed(self) -> int:
        return random_seed(type(self).__name__, self.random_state)

    def _adopt(self, fresh: Self) -> Self:
        self.__dict__.update(fresh.__dict__)
        self._changed()
        return self

    def _go_on(self, plain: dict[str, Any], batch: Interactions, catalogue: Any) -> None:
        """Prepare for a further batch."""
        self._pairs(batch.users, batch.items)  # ids of another kind would all be strangers
        low, high = self._bounds_of(batch, plain["bounds"])
        shelf = self.catalogue_ if catalogue is None else self._catalogue_of(batch, catalogue)
        self._make_room(plain, batch)
        self.low_, self.high_, self.catalogue_ = min(low, self.low_), max(high, self.high_), shelf
        share = len(batch) / (self.seen_ + len(batch))
        self.mean_ += share * (float(batch.ratings.mean()) - self.mean_)

    def _streamed(self, plain: dict[str, Any], rows: ShuffledRatings, random: Generator) -> Self:
        """One pass over a batch; where it fails, the tables are as they were before."""
        users, items, _ = rows.columns
        touched = self._touched(users, items) if plain["noise"] is None else self._all()
        before = taken(touched)
        try:
            share = users.size / self.seen_
            self._pass(plain, rows, self._rate(plain, 0.5), share, random, touched)
        except BaseException:
            put_back(touched, before)
            raise
        return self

    def _check_stream(self, plain: dict[str, Any]) -> None:
        missing = {f"{name}=": why for name, why in self.STREAM.items() if plain[name] is None}
        if missing:
            raise ValueError(
                f"{type(self).__name__}: a model that starts with partial_fit needs "
                f"{' and '.join(missing)}, since a first batch does not tell "
                f"{' and '.join(missing.values())}; or call fit first."
            )

    def _targets(self, data: Interactions) -> np.ndarray:
        """What the factors have to say: ratings less the mean, in stars."""
        stars = (data.ratings - self.mean_) / self.scale_
        with np.errstate(over="ignore"):  # what float32 does not hold diverges, and is told so
            return np.asarray(stars, np.float32)

    def _epoch(self, plain: dict[str, Any], rows: ShuffledRatings, random: Generator) -> None:
        epoch = len(self.history_)
        rows.shuffle(random)
        rate = self._rate(plain, epoch / plain["epochs"])
        try:
            self._pass(plain, rows, rate, 1.0, random, self._all())
        except BaseException:
            self.history_ = []  # the tables are those of no whole epoch: nothing is to be kept
            raise
        self.seen_ = rows.columns[0].size
        self.history_.append({"epoch": epoch + 1, "valid_rmse": None})

    def _pass(
        self,
        plain: dict[str, Any],
        rows: ShuffledRatings,
        rate: float,
        share: float,
        random: Generator,
        touched: Touched,
    ) -> None:
        """One pass over the rows, in threads; noise is that of this share of an epoch."""
        self.hides_ &= plain["clip"] is not None or plain["noise"] is not None
        limit = math.inf if plain["clip"] is None else 2 * plain["clip"] / self.scale_**2
        step = self._step(plain, rate, limit)
        if plain["threads"] == 1:
            step(*rows.columns)
        else:
            with ThreadPoolExecutor(plain["threads"]) as pool:
                list(pool.map(lambda part: step(*part), rows.parts(plain["threads"])))
        if plain["noise"] is not None:
            # (2.13) corrected: in an epoch of N ratings N steps of eta / N with noise of variance
            # 2 eta / N each; their sum, given at once, has the same law.
            self._add_noise(math.sqrt(2 * rate * share * plain["noise"]), random)
        if not is_finite(touched):
            bounds = ", or bounds= for a stream" if plain["bounds"] is None else ""
            raise ValueError(
                f"{type(self).__name__}: the descent diverged at a learning rate of {rate:g}; give "
                f"a smaller learning_rate or regularization{bounds}."
            )

    def _tell(self, valid: Interactions | None, epochs: int, progress: Progress | None) -> None:
        told = self.history_[-1]
        if valid is not None:
            self._changed()
            miss = self.predict(valid.users, valid.items) - valid.ratings
            told["valid_rmse"] = float(np.sqrt(np.mean(miss * miss)))
        if progress is not None:
            progress(told["epoch"], epochs, told["valid_rmse"])

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
        """The rate when this part of the epochs is done."""
        return float(plain["learning_rate"]) / (1 + float(plain["decay"]) * done)

    def _begin(self, plain: dict[str, Any], train: Interactions, random: Generator) -> None:
        raise NotImplementedError

    def _begin_stream(self, plain: dict[str, Any], batch: Interactions, random: Generator) -> None:
        self._begin(plain, batch, random)

    def _make_room(self, plain: dict[str, Any], batch: Interactions) -> None:
        """Prepare for ids never seen; nothing where they need no room."""

    def _columns(self, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def _tables(self) -> list[np.ndarray]:
        raise NotImplementedError

    def _all(self) -> Touched:
        return [(table, None) for table in self._tables()]

    def _touched(self, users: np.ndarray, items: np.ndarray) -> Touched:
        """The numbers that a pass over these columns may change."""
        raise NotImplementedError

    def _step(self, plain: dict[str, Any], rate: float, clip: float) -> Callable[..., Any]:
        raise NotImplementedError

    def _add_noise(self, deviation: float, random: Generator) -> None:
        raise NotImplementedError


def in_ratings(factors: int, scale: float) -> np.ndarray:
    """What turns factors of stars into factors of ratings; two components share the scale."""
    weights = np.full(factors, scale**0.5, np.float32)
    weights[-1] = scale
    return weights
