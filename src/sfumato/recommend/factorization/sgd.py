"""Descent: stochastic gradient descent over shuffled ratings, in threads and safe to interrupt."""

import math
import operator
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.random import Generator

from sfumato.core.ids import kind_of
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    flag,
    integer,
    one_of,
    optional,
    positive,
)
from sfumato.data.interactions import Interactions
from sfumato.kernels.seed_keys import GOLDEN, MASK, key_of
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.factorization.descent_tables import DescentTables
from sfumato.recommend.factorization.epochs import Progress, run_epochs, run_uninterrupted
from sfumato.recommend.factorization.passes import (
    ShuffledRatings,
    Undo,
    is_finite,
    split,
)
from sfumato.recommend.factorization.preferences import ItemPopularity, preference_vector

__all__ = ["START", "Descent"]

MANY_ROWS, LARGE_TABLES = 1 << 16, 1 << 23  # below either, threads slow each other down
NOWHERE = np.empty(0, np.int64)  # positions of items where none are counted
OBJECTIVES = ("ratings", "ranking")
START = 0.02  # standard deviation of the initial components
RIDGE, SMALLEST = optional(positive), 1e-3  # penalties of a fold-in
LARGE_STARS = 1e30
STARS = 4.0  # range of five-star ratings, the scale of learning rate and regularization


class Descent(DescentTables, in_files=False):
    """Base of factorizations fitted by stochastic gradient descent.

    The learning rate of epoch t of T is eta / (1 + decay t / T). Ratings are rescaled to the range
    of five stars, so that the same learning rates suit any `bounds`; noisier ones are scaled down
    further. The updates are the gradient steps (2.8) and (2.9) of the thesis; `fit` damps biases
    after each epoch, once per user and item and not once per rating, unless `regularization` is 0
    or `clip` or `noise` is given. With `objective="ranking"` rows are preferences, learned against
    items drawn by popularity (`kernels/recommend/sgd_ranking.py`).
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "objective": one_of(OBJECTIVES),
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
    STREAM_RANKING: ClassVar[dict[str, str]] = {}
    objective: str
    clip: float | None
    noise: float | None
    history_: list[dict[str, Any]]
    scale_: float  # rating units per star
    seen_: int  # number of ratings learned from
    hides_: bool  # whether all of them were learned with clip or noise
    random_state: RandomState
    _popularity: ItemPopularity | None = None  # of a fitted model that ranks
    _least: int = 1  # count from which on a ranking learns an item's vector

    @property
    def predicts_ratings(self) -> bool:
        """Whether `predict` returns ratings: with the objective "ratings", of the last fit."""
        fitted = "catalogue_" in self.__dict__
        return self._popularity is None if fitted else self.objective == "ratings"

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
            Ratings of at least two users and two items; one alone shows no preferences. For
            rankings a row is a preference, and rows of items outside the catalogue are ignored.
        valid : Interactions or None, default=None
            Ratings whose error is added to `history_` after each epoch; for rankings the NDCG@10 of
            lists without training items.
        catalogue : array_like, scalar or None, default=None
            Ids of the items that may be recommended; None means the items of `train`.
        progress : callable or None, default=None
            Called as `progress(epoch, epochs, valid_rmse)` after each epoch; `valid_rmse` (for
            rankings the NDCG) is None without `valid`.

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
        train = self._preferences(plain, train, catalogue)
        self._check_enough(train, " A stream that starts so goes to partial_fit.")
        fresh = self._fresh(plain, train, catalogue)
        if valid is not None:
            self._check_train(valid, "valid")
            valid = self._preferences(plain, valid, fresh.catalogue_, "valid")
        random = np.random.default_rng(plain["random_state"])
        damped = self._damps_biases(plain)
        prior = BiasPrior.of(train.coded(), fresh._targets(train)) if damped else BiasPrior()
        fresh.scale_ *= prior.unit
        fresh._begin(plain, train, random)
        counted = fresh._positions(train)
        fresh._count(counted)
        damp = fresh._damper(train, prior) if damped else None
        rows = ShuffledRatings(*fresh._rows(train, counted, fresh._columns(train)))
        complete = run_epochs(
            plain["epochs"],
            lambda: fresh._epoch(plain, rows, random, damp),
            lambda: fresh._record(train, valid, plain["epochs"], progress),
        )
        return self._adopt(fresh, complete)

    def partial_fit(self, batch: Interactions, *, catalogue: Ids | None = None) -> Self:
        """Continue training with one pass over new ratings, in their order.

        The learning rate is constant, that of the middle of a fit: eta / (1 + decay / 2). `mean_`
        becomes the mean of all ratings so far. New users and items are added; for rankings, rows of
        items outside the catalogue are ignored, and a model that starts with `partial_fit` stays
        near popularity for long unless `learning_rate` is larger, about 0.2. During the pass a copy
        of the changed values is in memory, at most the size of the model. Ctrl-C is deferred to its
        end.

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
        plain = self._checked()
        self._check_train(batch, "batch")
        known = "seen_" in self.__dict__
        if not known:
            self._check_stream(plain)
            batch = self._preferences(plain, batch, catalogue, "batch")
        model = self._twin() if known else self._fresh(plain, batch, catalogue)
        if known:
            batch, counted = model._extend(plain, batch, catalogue)
        else:
            model._begin_stream(plain, batch, np.random.default_rng([plain["random_state"], 0]))
            counted = model._positions(batch)
        if not len(batch):  # no row is of the catalogue, which may be new
            return self._adopt(model)
        columns = model._make_room(plain, batch) if known else model._columns(batch)
        model.seen_ += len(batch)
        run_uninterrupted(lambda: self._learn(model, plain, batch, counted, columns))
        return self

    def _learn(
        self,
        model: Self,
        plain: dict[str, Any],
        batch: Interactions,
        counted: np.ndarray,
        columns: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Run one pass of a twin and take over its state; cached vectors stay where they may."""
        changes = model._streamed(plain, batch, counted, columns)
        last = self.__dict__.get("_catalogue_vectors")
        same = "catalogue_" in self.__dict__ and model.catalogue_ is self.catalogue_
        self._adopt(model)
        if last is not None and same and changes is not None:
            self.__dict__["_catalogue_vectors"] = last.after(changes, self._most_changes())

    def _checked(self) -> dict[str, Any]:
        """Return what `_check` does and a seed; computed once for parameters that stay as given."""
        kind: Any = type(self)
        given = _given(kind)(self)
        last = self.__dict__.get("_checked_parameters")
        if last is not None and all(map(operator.is_, given, last[0])):
            found: dict[str, Any] = last[1]
            return found
        plain = self._check() | {"random_state": self._new_seed()}
        if all(map(_is_constant, given)) and self.random_state is not None:
            self.__dict__["_checked_parameters"] = given, plain
        return plain

    def __copy__(self) -> Self:
        """Return a model with tables of its own: learning changes tables in place."""
        twin = self._twin()
        if "catalogue_" in self.__dict__:
            twin._own_tables()
        return twin

    def _preferences(
        self, plain: dict[str, Any], data: Interactions, catalogue: Any, name: str = "train"
    ) -> Interactions:
        """Return the rows that a ranking learns from; raise ValueError if there are none."""
        if plain["objective"] == "ratings" or catalogue is None:
            return data
        items = self._catalogue_of(data, catalogue)
        chosen = items.positions(data.items) >= 0
        if not chosen.any():
            raise ValueError(
                f"{type(self).__name__}: {name} has no row of the catalogue's items, so there is "
                "nothing to learn; name the items in catalogue."
            )
        return data if chosen.all() else data.filter(chosen)

    def _fresh(self, plain: dict[str, Any], train: Interactions, catalogue: Any) -> Self:
        """Return a copy of the model without tables, to be trained aside."""
        fresh = self._twin()
        fresh.catalogue_ = self._catalogue_of(train, catalogue)
        if plain["objective"] == "ratings":
            fresh.low_, fresh.high_ = self._bounds_of(train, plain["bounds"])
            fresh.scale_ = (fresh.high_ - fresh.low_) / STARS or 1.0
            fresh.mean_, fresh._popularity = float(train.ratings.mean()), None
        else:
            fresh.mean_, fresh.low_, fresh.high_, fresh.scale_ = 0.0, 0.0, 1.0, 1.0
            fresh._popularity = ItemPopularity(fresh.catalogue_)
        fresh.user_kind_ = kind_of(train.users)
        fresh.history_, fresh.seen_, fresh.hides_ = [], 0, True
        fresh._seed = plain["random_state"]
        return fresh

    def _check_together(self, plain: dict[str, Any]) -> None:
        for name in ("clip", "noise"):
            if plain["objective"] == "ranking" and plain[name] is not None:
                raise ValueError(
                    f"{type(self).__name__}: {name} is for objective='ratings'; leave it at None."
                )

    def _extend(
        self, plain: dict[str, Any], batch: Interactions, catalogue: Any
    ) -> tuple[Interactions, np.ndarray]:
        """Update bounds, mean and catalogue for a further batch.

        Returns the rows to learn from, and for rankings their items' positions in the catalogue.
        """
        if (plain["objective"] == "ratings") != self.predicts_ratings:
            raise ValueError(
                f"{type(self).__name__}: the model was fitted with another objective; fit it anew."
            )
        self._user_ids(batch.users)  # ids of another kind would all be unknown
        self._item_ids(batch.items)
        items = self.catalogue_ if catalogue is None else self._catalogue_of(batch, catalogue)
        if self._popularity is not None:
            return self._extend_preferences(plain, batch, items)
        low, high = self._bounds_of(batch, plain["bounds"])
        count = len(batch)
        self.low_, self.high_, self.catalogue_ = min(low, self.low_), max(high, self.high_), items
        fraction = count / (self.seen_ + count)
        mean = float(np.add.reduce(batch.ratings)) / count
        self.mean_ += fraction * (mean - self.mean_)
        return batch, NOWHERE

    def _extend_preferences(
        self, plain: dict[str, Any], batch: Interactions, items: Catalogue
    ) -> tuple[Interactions, np.ndarray]:
        """Take over the catalogue; return the rows of its items, and their positions in it."""
        assert self._popularity is not None
        if items is not self.catalogue_:
            self.catalogue_, self._popularity = items, self._popularity.moved(items)
        positions = self._popularity.positions(batch.items)
        chosen = positions >= 0
        if not chosen.all():
            batch, positions = batch.filter(chosen), positions[chosen]
        return batch, positions

    def _streamed(
        self,
        plain: dict[str, Any],
        batch: Interactions,
        counted: np.ndarray,
        columns: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray | None:
        """Run one pass over a batch; restore the tables if it fails.

        Returns the changes of which items' vectors depend, None if they may all have changed.
        """
        self._count(counted)
        rows = users, items, numbers = self._rows(batch, counted, columns)
        number, start = self.seen_, self.seen_ - len(batch)
        if self._popularity is not None and self._popularity.negatives is not None:
            seed = _pass_seed(plain, number)
            drawn = self._popularity.negatives.of_rows(numbers, seed)
            items = np.concatenate([items, drawn])
        before = self._before(plain, users, items)
        try:
            fraction = len(batch) / self.seen_
            random = partial(np.random.default_rng, [plain["random_state"], start])
            self._pass(plain, rows, self._rate(plain, 0.5), fraction, random, before, number)
        except BaseException:
            before.restore()
            if self._popularity is not None:
                self._popularity.add(counted, -1)
            raise
        self._remember(users)
        return None if plain["noise"] is not None else self._changes(batch, users, items)

    def _before(self, plain: dict[str, Any], users: np.ndarray, items: np.ndarray) -> Undo:
        """Return what restores the tables after a pass over these columns."""
        if plain["noise"] is not None:
            return Undo(self._all())
        log = self._log(users.size) if self._popularity is None else None
        if log is None:
            return Undo(self._regions(users, items))
        return Undo([], log, lambda: self._restore(users, items, log))

    def _rows(
        self, data: Interactions, counted: np.ndarray, codes: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """Return the columns of a pass; a ranking learns nothing of items that are too rare."""
        columns = *codes, self._targets(data)
        if self._popularity is not None and self._least > 1:
            chosen = self._popularity.counts[counted] >= self._least
            columns = tuple(column[chosen] for column in columns)
        return columns

    def _positions(self, data: Interactions) -> np.ndarray:
        """Return each row's position in the catalogue of a model that ranks."""
        if self._popularity is None:
            return NOWHERE
        coded = data.coded()
        found = self._popularity.positions(coded.item_ids)
        return np.asarray(found[coded.item_codes])

    def _count(self, positions: np.ndarray) -> None:
        """Count these items of a model that ranks; renew its negatives where they are stale."""
        if self._popularity is not None:
            self._popularity.add(positions)
            if self._popularity.stale():
                self._popularity.build(self._codes(self.catalogue_.ids), self._least)

    def _check_stream(self, plain: dict[str, Any]) -> None:
        """Raise ValueError if parameters that a first batch needs are missing."""
        needed = self.STREAM if plain["objective"] == "ratings" else self.STREAM_RANKING
        missing = {f"{name}=": why for name, why in needed.items() if plain[name] is None}
        if missing:
            raise ValueError(
                f"{type(self).__name__}: a model that starts with partial_fit needs "
                f"{' and '.join(missing)}, since a first batch does not show "
                f"{' and '.join(missing.values())}; or call fit first."
            )

    def _targets(self, data: Interactions) -> np.ndarray:
        """Return what the factors are to predict: ratings less the mean, in stars.

        For rankings, the numbers of the rows, by which their negatives are drawn.
        """
        if self._popularity is not None:
            return np.arange(len(data), dtype=np.uint32)
        stars = (data.ratings - self.mean_) / self.scale_
        if (self.high_ - self.low_) / self.scale_ < LARGE_STARS:  # none overflows float32
            return np.asarray(stars, np.float32)
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
        seed = _pass_seed(plain, -1 - epoch)
        self._pass(
            plain, rows.columns, rate, 1.0, lambda: random, Undo(self._all(), copied=False), seed
        )
        if damp is not None:
            damp(rate)
        if not epoch:
            self._remember(rows.columns[0])
        self.seen_ = rows.columns[0].size
        self.history_.append({"epoch": epoch + 1, self._measure: None})

    def _pass(
        self,
        plain: dict[str, Any],
        rows: tuple[np.ndarray, ...],
        rate: float,
        fraction: float,
        random: Callable[[], Generator],
        before: Undo,
        number: int,
    ) -> None:
        """Run one pass over the rows in threads; add the noise of this fraction of an epoch.

        Its negatives are drawn by `_pass_seed` of the number.
        """
        self.hides_ &= plain["clip"] is not None or plain["noise"] is not None
        limit = math.inf if plain["clip"] is None else 2 * plain["clip"] / self.scale_**2
        if self._popularity is None:
            step = self._step(plain, rate, limit, before.log)
        else:
            step = self._ranking_step(plain, rate, _pass_seed(plain, number))
        threads = 1 if before.log.size else self._threads(plain, rows[0].size)
        if threads == 1:
            checks = [step(*rows)]
        else:
            with ThreadPoolExecutor(threads) as pool:
                checks = list(pool.map(lambda part: step(*part), split(rows, threads)))
        if plain["noise"] is not None:
            # Langevin dynamics, (2.13) corrected: an epoch of N ratings has N steps of eta / N,
            # each with noise of variance 2 eta / N. Their sum is added once: the same distribution.
            self._add_noise(math.sqrt(2 * rate * fraction * plain["noise"]), random())
        known = [check for check in checks if check is not None]
        checked = len(known) == len(checks) and plain["noise"] is None
        if not (all(map(math.isfinite, known)) if checked else is_finite(before.regions)):
            bounds = ", or bounds= for a stream" if plain["bounds"] is None else ""
            raise ValueError(
                f"{type(self).__name__}: the descent diverged at a learning rate of {rate:g}; give "
                f"a smaller learning_rate or regularization{bounds}."
            )

    def _threads(self, plain: dict[str, Any], rows: int) -> int:
        """Return how many threads run a pass: one where they would wait for each other's writes."""
        tables = sum(table.nbytes for table in self._tables())
        small = rows < MANY_ROWS or tables < LARGE_TABLES
        return 1 if small else int(plain["threads"])

    @property
    def _measure(self) -> str:
        """What `history_` has of validation data."""
        return "valid_rmse" if self._popularity is None else "valid_ndcg"

    def _record(
        self,
        train: Interactions,
        valid: Interactions | None,
        epochs: int,
        progress: Progress | None,
    ) -> None:
        """Add the validation error to the last entry of `history_` and report progress."""
        entry = self.history_[-1]
        if valid is not None:
            self._changed()
            entry[self._measure] = self._validated(train, valid)
        if progress is not None:
            progress(entry["epoch"], epochs, entry[self._measure])

    def _validated(self, train: Interactions, valid: Interactions) -> float:
        """Return the RMSE of ratings, or the NDCG@10 of lists without the training items."""
        if self._popularity is None:
            miss = self.predict(valid.users, valid.items) - valid.ratings
            return float(np.sqrt(np.mean(miss * miss)))
        from sfumato.recommend.metrics import ndcg  # which needs the models

        users, relevant = valid.coded().user_ids, cast(Any, valid)
        lists, scores = self.recommend(users, 10, exclude=train)
        return float(ndcg(lists, relevant, scores=scores, users=users))

    def _folded_in(self, items: np.ndarray, ratings: Any, ridge: float | None) -> np.ndarray:
        if self._popularity is None:
            return super()._folded_in(items, ratings, ridge)
        penalty = RIDGE.check(type(self).__name__, "ridge", ridge)
        if penalty is None:
            penalty = max(2 * float(self._check()["regularization"]), SMALLEST)
        found = self._popularity.positions(items)
        vectors = self._in_blocks(self._item_vectors, self.catalogue_.ids)
        return preference_vector(vectors, found[found >= 0], penalty)

    def _ranked_items(self, ids: np.ndarray, components: np.ndarray) -> np.ndarray:
        """Write log P(item) as the bias of each item, and zeros for items not learned from."""
        assert self._popularity is not None
        found = self._popularity.positions(ids)
        components[np.where(found >= 0, self._popularity.counts[found], 0) < self._least] = 0
        components[:, -1] = self._popularity.log_probabilities(found)
        return components

    def _scored_vectors(self, ids: np.ndarray) -> np.ndarray:
        vectors = self._item_vectors(ids)
        if self._popularity is not None:  # what an event changes in all biases is a common score
            vectors[:, -1] = self._popularity.log_counts(self._popularity.positions(ids))
        return vectors

    @property
    def _common_score(self) -> float:
        return self.mean_ - (0.0 if self._popularity is None else self._popularity.log_total)

    def _state(self) -> dict[str, Any]:
        if self._popularity is not None:
            self._popularity.forget_negatives()
        ranks = {} if self._popularity is None else {"ranks": True}
        return {
            **super()._state(),
            "scale_": self.scale_,
            "seen_": self.seen_,
            "hides_": self.hides_,
            **ranks,
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.scale_ = positive.check("state", "scale_", state["scale_"])
        self.seen_ = integer(0).check("state", "seen_", state["seen_"])
        self.hides_ = flag.check("state", "hides_", state["hides_"])
        self._ranks = flag.check("state", "ranks", state.get("ranks", False))
        self.history_ = []

    def _layout(self) -> dict[str, Cells]:
        return ItemPopularity.layout() if self._ranks else {}

    def _arrays(self) -> dict[str, np.ndarray]:
        return {} if self._popularity is None else {"counts": self._popularity.counts}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self._popularity = None
        if self.__dict__.pop("_ranks"):
            self._popularity = ItemPopularity.restored(self.catalogue_, arrays["counts"])

    def _rate(self, plain: dict[str, Any], done: float) -> float:
        """Return the learning rate when this fraction of the epochs is done."""
        return float(plain["learning_rate"]) / (1 + float(plain["decay"]) * done)

    def _damps_biases(self, plain: dict[str, Any]) -> bool:
        """Return whether biases are damped and not penalised at each rating."""
        # With clip or noise a rating must have no other influence than through the steps.
        free = plain["clip"] is None and plain["noise"] is None
        penalty = plain["regularization"]  # several are those of biases too
        damped = isinstance(penalty, float) and penalty > 0
        return plain["objective"] == "ratings" and damped and free


@cache
def _given(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads all parameters of a model of this class."""
    return operator.attrgetter(*kind.LIMITS)


def _is_constant(value: Any) -> bool:
    """Return whether a parameter has a plain type, so that the same object is the same value."""
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return value is None or type(value) in (int, float, str, bool)


def _pass_seed(plain: dict[str, Any], number: int) -> int:
    """Return the seed of a pass's negatives; numbers below 0 are epochs, others rows so far."""
    return int(key_of((plain["random_state"] + (number & MASK) * int(GOLDEN)) & MASK))
