"""Sketched factorization: the vectors of all users and items in one count sketch of fixed size."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.random import Generator

from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import RandomState, integer, one_of, optional, positive
from sfumato.data.interactions import Interactions, item_seed
from sfumato.errors import ParameterError
from sfumato.kernels.recommend import sgd_ranking
from sfumato.recommend.checkpoints import Checkpoint
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.factorization.epochs import Progress
from sfumato.recommend.factorization.factor_cells import (
    LANES,
    LIMITS,
    FactorCells,
    LineReaders,
    cells_of,
)
from sfumato.recommend.factorization.passes import Regions
from sfumato.recommend.factorization.preferences import (
    CELLS_PER_NUMBER,
    least_count,
    shrinkages,
    trust,
)
from sfumato.recommend.factorization.sgd import START, Descent
from sfumato.recommend.factorization.vector_cache import VectorCache

if TYPE_CHECKING:
    from sfumato.engine import Engine
    from sfumato.recommend.factorization.strata import RatingSummary

__all__ = ["SketchFactorization"]

LAYOUTS = ("block", "component")  # "half" is chosen for small tables of rankings
PER_COUNTER = 8  # cells of the table for each byte in either row of the users' counters
RATING_START = 0.005  # deviation of first read-outs; small, since unknown users go on reading it
COLLISIONS = 2.0  # numbers written to a table for each of its cells, in each row
SHARED = 128  # lines of a table for each change that costs less than all vectors: see VectorCache


class SketchFactorization(Descent):
    """Matrix factorization whose user and item vectors share one count sketch.

    Memory is fixed by `cells` (or `space_gain`) and independent of the number of users and items.
    Not differentially private.

    Parameters
    ----------
    objective : {"ratings", "ranking"}, default="ratings"
        What is learned: to predict ratings, or to rank items. For "ranking" every row is a
        preference whatever its rating (drop low ones with `Interactions.filter`), learned by a
        softmax against items drawn by popularity; scores are log P(item) plus what the components
        add, up to a constant for each user.
    factors : int, default=32
        Number of factors per user and item, including the bias, from 1 to 4096.
    depth : int, default=4
        Rows of the sketch, from 1 to 32; 1 is feature hashing.
    space_gain : float, default=1.0
        How many times smaller the sketch is than the dense tables for the users and items of the
        first fit, above 0. Ignored if `cells` is given.
    cells : int or None, default=None
        Number of float32 cells, from 1 to 2**40. Required if training starts with `partial_fit`.
    layout : {"block", "component"}, default="block"
        "block" stores 16 numbers of an entity together; it is fastest if `factors` is a multiple of
        16 (otherwise lanes remain unused). "component" hashes every number separately, as the
        thesis does: 16 times as many cache lines, and about six times the time.
    readout : {"mean", "median"}, default="mean"
        How the rows of the sketch are combined; "median" takes up to twice the time of "mean".
    active : int or None, default=None
        How many of the factors are read, the others being 0; at most `factors`. None means all in
        layout "component" or if training starts with `partial_fit`; in layout "block" it means as
        many as half of the table's cells per entity, in complete blocks, since more collide more
        than they help; for rankings at least 8.
    epochs : int, default=20
        Passes of `fit` over the data, at least 1.
    learning_rate : float, default=0.05
        Initial learning rate eta, above 0, for ratings in stars; epoch t of T uses `eta / (1 +
        decay * t / T)`.
    decay : float, default=6.0
        Decay of the learning rate, at least 0.
    regularization : float, default=0.05
        L2 penalty lambda per rating, at least 0. Above 0, `fit` also damps biases; see Notes.
    clip : float or None, default=None
        Largest loss `(rating - prediction)**2 / 2`, above 0; in an epoch, ratings with a larger
        loss are skipped. None skips none.
    noise : float or None, default=None
        Temperature of Langevin dynamics, above 0; 1 samples the posterior for ratings of variance
        1. None adds no noise.
    threads : int, default=1
        Most threads of a pass, from 1 to 256. They update shared tables without locks, so that two
        runs with several threads differ. Passes over fewer than 65,536 rows, and tables of less
        than 8 MiB, take one: threads would wait for each other's cache lines.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None takes them from the data.
    seed : int, default=0
        Seed of the hash functions; part of the model file.
    random_state : int, Generator or None, default=0
        Seed of initialisation, shuffling and noise.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    hides_ : bool
        Whether all training used `clip` or `noise`.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    history_ : list of dict
        "epoch" and "valid_rmse" (for rankings "valid_ndcg"; None without validation data) of each
        epoch of `fit`.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean of all training ratings.
    scale_ : float
        Rating units per star, in which learning rates are: the range of the ratings divided by
        that of five stars, 4, or, in `fit`, their deviation around the biases divided by 0.9 if
        that is more.
    seen_ : int
        Number of ratings learned from.
    user_kind_ : str
        Type of user ids, "integers" or "text".

    Notes
    -----
    **Guarantee.** The size of the table is given by `cells` or `space_gain`, however many users and
    items are added. An unknown user reads noise near 0, and no list of known users is stored. With
    one thread, the same `random_state` gives bitwise the same model. No privacy is proved: with
    `clip` or `noise`, `privacy_label` is "measured", otherwise "none".

    `fit` shrinks all biases after each epoch as if every user and item came with more ratings equal
    to the mean. How many is estimated from the variances of biases and residuals in the data
    (empirical Bayes), for users and items apart, so that ids with few ratings are not overfitted.
    There is no damping with `clip` or `noise`, nor in `partial_fit`, which makes a single pass.

    For rankings the model also has one count for each item of the catalogue, exact, and a count-min
    sketch of the rows of each user, of one byte for every four cells. A user's components are
    weighted by n / (n + 5) for n rows, so that an unknown user gets the items by popularity, unless
    both counters of that user are shared. In a table with fewer than 64 cells for each user and
    item (at 32 factors), items used fewer than 2 to 6 times are ranked by popularity alone.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 4.1: read-out (4.1)-(4.2), gradient steps (4.3)-(4.4), space
       gain (4.9). https://theses.hal.science/tel-01430156
    .. [2] Oord, Li, Vinyals. "Representation Learning with Contrastive Predictive Coding". 2018,
       section 2.3 (softmax against samples of the marginal). https://arxiv.org/abs/1807.03748

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> ratings = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = SketchFactorization(factors=16, cells=4096).fit(ratings)
    >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
    True
    >>> model.nbytes
    16384
    >>> lists = SketchFactorization(objective="ranking", factors=16, cells=4096).fit(ratings)
    >>> lists.recommend(99, n=1)[0]  # an unknown user
    array([10])
    """

    version = 2  # a key has one hash, whatever its type
    LIMITS = Descent.LIMITS | {
        "depth": LIMITS["depth"],
        "space_gain": positive,
        "cells": optional(integer(1, 2**40)),
        "layout": one_of(LAYOUTS),
        "readout": LIMITS["readout"],
        "active": optional(LIMITS["factors"]),
        "seed": LIMITS["seed"],
    }
    STREAM_RANKING = {"cells": "how many users and items will come"}
    STREAM = {**STREAM_RANKING, **Descent.STREAM}
    _factors: int
    _cells: FactorCells
    _shape: dict[str, Any]  # of the cells, while a file is read
    _user_counts: np.ndarray  # of a model that ranks: rows of each user, in two rows of bytes

    def __init__(
        self,
        *,
        objective: str = "ratings",
        factors: int = 32,
        depth: int = 4,
        space_gain: float = 1.0,
        cells: int | None = None,
        layout: str = "block",
        readout: str = "mean",
        active: int | None = None,
        epochs: int = 20,
        learning_rate: float = 0.05,
        decay: float = 6.0,
        regularization: float = 0.05,
        clip: float | None = None,
        noise: float | None = None,
        threads: int = 1,
        bounds: tuple[float, float] | None = None,
        seed: int = 0,
        random_state: RandomState = 0,
    ) -> None:
        self.objective = objective
        self.depth: int
        self.space_gain: float
        self.cells: int | None
        self.factors, self.depth, self.space_gain, self.cells = factors, depth, space_gain, cells
        self.layout: str
        self.readout: str
        self.seed: int
        self.layout, self.readout, self.active, self.seed = layout, readout, active, seed
        self.epochs: int
        self.learning_rate: float
        self.decay: float
        self.epochs, self.learning_rate, self.decay = epochs, learning_rate, decay
        self.regularization: float
        self.regularization, self.clip, self.noise = regularization, clip, noise
        self.threads: int
        self.bounds: tuple[float, float] | None
        self.threads, self.bounds, self.random_state = threads, bounds, random_state

    def fit_rows(
        self,
        source: Any,
        *,
        engine: "Engine",
        columns: tuple[str, str, str] = ("user", "item", "rating"),
        groups: int | None = None,
        valid: Interactions | None = None,
        catalogue: Ids | None = None,
        checkpoint: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the model from scratch to ratings on an engine, in rounds.

        Only for ``objective="ratings"``; `threads` is ignored.

        Parameters
        ----------
        source : object
            What the engine reads: see the engine.
        engine : Engine
            Where the work runs: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        columns : tuple of str, default=('user', 'item', 'rating')
            Names of the columns of users, items and ratings.
        groups : int or None, default=None
            Groups of users that learn at once, from 1 to 256. None for as many as the engine has
            cores, from 2 to 256, or as the checkpoint has. An epoch has `groups` + 1 rounds, so
            that more groups than cores take longer.
        valid : Interactions or None, default=None
            Ratings whose error is added to `history_` after each epoch.
        catalogue : array_like, scalar or None, default=None
            Ids of the items that may be recommended; None means the items of the source, sorted.
        checkpoint : path_like or None, default=None
            File that is replaced after each round. If it is there and of the same data and
            parameters, training goes on from its last round. It contains the table and is as
            sensitive as the model.
        progress : callable or None, default=None
            Called as `progress(epoch, epochs, valid_rmse)` after each epoch.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        ValueError
            If a parameter or row is invalid, a rating is outside of `bounds`, the checkpoint is of
            another training, or training diverges. The model is then unchanged.

        Notes
        -----
        **Guarantee.** The same rows in any order, on any engine, give the same model up to the
        rounding of sums, for the same `groups`; with a checkpoint also after a failure. The driver
        holds the table and the ids of the items, and a partition one more table and its own
        ratings.

        In a round each group of users learns from the ratings of a group of items that no other
        one has ([1]_), and the changes of the table are added. Only cells that happen to be shared
        make a difference to passes one after the other.

        References
        ----------
        .. [1] Gemulla, Nijkamp, Haas, Sismanis. "Large-Scale Matrix Factorization with Distributed
           Stochastic Gradient Descent". KDD 2011, section 4.
           https://doi.org/10.1145/2020408.2020426

        Examples
        --------
        >>> from sfumato.engine import LocalEngine
        >>> ratings = {"user": [1, 1, 2, 2], "item": [10, 20, 10, 30], "rating": [5, 1, 4, 2]}
        >>> model = SketchFactorization(factors=16, cells=4096)
        >>> model = model.fit_rows(ratings, engine=LocalEngine(threads=2))
        >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
        True
        """
        from sfumato.recommend.factorization import rounds  # and with it the engines

        groups = rounds.groups_for(groups, engine, checkpoint)
        plain = self._check() | {"random_state": self._new_seed()}
        self._check_rounds(plain, checkpoint)
        if valid is not None:
            self._check_train(valid, "valid")
        rows = engine.rows(source, columns)
        summary = rounds.summarised(rows, columns)
        fresh = self._fresh_of(plain, summary, catalogue)
        saved = Checkpoint.of("SketchFactorization", checkpoint, plain, summary.check, groups)
        saved = replace(saved, groups=groups)
        strata = rounds.RatingStrata(rows, columns, plain["seed"], groups)
        try:
            fresh._begin_rounds(plain, summary, strata, saved).run(valid, progress)
        finally:
            strata.unpersist()
        return self._adopt(fresh)

    def resize(self, factors: int) -> Self:
        """Change how many numbers are read per user and item from the same cells.

        The cells do not change, and neither do biases, in layout "block" from 16 factors up. The
        components of all entities are rotated by one common matrix, which preserves products over
        the numbers read both before and after. Additional numbers read the cells of other entities,
        hence noise, until they are trained.

        Parameters
        ----------
        factors : int
            Number of factors per user and item, including the bias, from 1 to 4096.

        Returns
        -------
        Self
            The object itself.
        """
        self._check_fitted()
        wanted = LIMITS["factors"].check(type(self).__name__, "factors", factors)
        self.factors, self.active = wanted, None
        self._factors, self._cells = wanted, self._cells.resized(wanted)
        self._changed()
        return self

    def _check_together(self, plain: dict[str, Any]) -> None:
        super()._check_together(plain)
        for name, value in (("layout", "block"), ("readout", "mean")):
            if plain["objective"] == "ranking" and plain[name] != value:
                raise ValueError(
                    f"SketchFactorization: {name} must be {value!r} for objective='ranking', not "
                    f"{plain[name]!r}."
                )
        if plain["active"] is not None and plain["active"] > plain["factors"]:
            raise ValueError(
                f"SketchFactorization: active must be at most factors, {plain['factors']}, not "
                f"{plain['active']}."
            )

    def _begin(self, plain: dict[str, Any], train: Interactions, random: Generator) -> None:
        factors, lanes = plain["factors"], LANES[plain["layout"]]
        coded = train.coded()
        entities = coded.user_ids.size + coded.item_ids.size
        if plain["objective"] == "ranking":
            cells = plain["cells"] or entities * factors / plain["space_gain"]
            counts = np.bincount(coded.item_codes)
            self._least, numbers = least_count(counts, coded.user_ids.size, cells, factors)
            half, numbers = LANES["half"], numbers / CELLS_PER_NUMBER
            numbers = half if numbers <= half else max(1, round(numbers / lanes)) * lanes
            self._allocate(plain, cells, min(factors, numbers), random)
            return
        self._begin_ratings(plain, entities, random)

    def _begin_ratings(self, plain: dict[str, Any], entities: int, random: Generator) -> None:
        """Create the table for ratings of so many users and items."""
        factors, dense = plain["factors"], entities * plain["factors"]
        cells = plain["cells"] or dense / plain["space_gain"]
        blocks = _in_blocks(factors * cells / dense / COLLISIONS, LANES[plain["layout"]])
        self._allocate(plain, cells, min(factors, blocks), random)

    def _check_rounds(self, plain: dict[str, Any], checkpoint: Any) -> None:
        """Raise ValueError for parameters that `fit_rows` does not support."""
        owner = type(self).__name__
        if plain["objective"] != "ratings":
            raise ParameterError.of(owner, "objective", "must be 'ratings' for fit_rows.")
        Checkpoint.check_seed(owner, checkpoint, self.random_state)

    def _fresh_of(self, plain: dict[str, Any], summary: "RatingSummary", catalogue: Any) -> Self:
        """Return a copy of the model without tables, for ratings with this summary."""
        low, high = plain["bounds"] or (summary.low, summary.high)
        if summary.low < low or summary.high > high:
            wanted = f"must contain all ratings: widen ({low:g}, {high:g}), or drop rows."
            raise ParameterError.of(type(self).__name__, "bounds", wanted)
        kind, ids = next(iter(summary.kinds))[0], sorted(summary.items)
        ratings = np.linspace(summary.low, summary.high, len(ids))
        fresh = self._fresh(
            plain, Interactions(np.zeros(len(ids), np.int64), ids, ratings), catalogue
        )
        fresh.mean_, fresh.user_kind_ = summary.total / summary.rows, kind
        fresh.seen_ = summary.rows
        fresh.hides_ = plain["clip"] is not None or plain["noise"] is not None
        return fresh

    def _begin_rounds(
        self, plain: dict[str, Any], summary: "RatingSummary", strata: Any, checkpoint: Any
    ) -> Any:
        """Create the table and return the training of `fit_rows`."""
        from sfumato.recommend.factorization.rounds import RoundTraining

        users = strata.count_users()
        if users < 2:
            raise ValueError(
                f"{type(self).__name__}: the source has one user only; at least two are needed."
            )
        prior = strata.bias_prior(summary, self.scale_) if self._damps_biases(plain) else None
        self.scale_ *= 1.0 if prior is None else prior.unit
        entities = users + len(summary.items)
        self._begin_ratings(plain, entities, np.random.default_rng(plain["random_state"]))
        ids = Interactions(np.zeros(len(summary.items), np.int64), sorted(summary.items))
        items = ids.hashed(plain["seed"])[1]
        return RoundTraining(self, plain, strata, prior, items, checkpoint)

    def _allocate(
        self, plain: dict[str, Any], cells: float, active: int, random: Generator
    ) -> None:
        """Create a table of at least `cells` cells and set the numbers read per entity."""
        shape = {name: plain[name] for name in ("depth", "layout", "readout", "seed")}
        if plain["layout"] == "component":
            active = plain["factors"]
        active = plain["active"] or active
        if plain["objective"] == "ranking" and active <= LANES["half"]:
            shape["layout"] = "half"
        width = max(1, math.ceil(cells / (plain["depth"] * LANES[shape["layout"]])))
        self._factors = plain["factors"]
        self._cells = FactorCells(factors=active, width=width, **shape)
        start = RATING_START if plain["objective"] == "ratings" else START
        self._cells.add_noise(start, random)
        if plain["objective"] == "ranking":
            self._user_counts = np.zeros(_counters(self._cells.table.size), np.uint8)

    def _begin_stream(self, plain: dict[str, Any], batch: Interactions, random: Generator) -> None:
        self._least = 1
        self._allocate(plain, plain["cells"], plain["factors"], random)

    def _columns(self, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
        if data.users.dtype == data.items.dtype == np.int64:
            return self._cells.hashed(data.users, 0), self._cells.hashed(data.items, 1)
        return data.hashed(self._cells.seed)

    def _log(self, rows: int) -> np.ndarray | None:
        return self._cells.log(rows)

    def _restore(self, users: np.ndarray, items: np.ndarray, log: np.ndarray) -> None:
        self._cells.undo(users, items, log)

    def _own_tables(self) -> None:
        self._cells = FactorCells(**self._cells.shape, table=self._cells.table)
        if self._popularity is not None:
            self._popularity, self._user_counts = self._popularity.copy(), self._user_counts.copy()

    def _changes(self, batch: Interactions, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        counted = [] if self._popularity is None else [self._codes(batch.items)]
        return np.concatenate([users, items, *counted])

    def _most_changes(self) -> int:
        return self._cells.depth * self._cells.width // SHARED if self._cells.in_lines else 0

    def _changed_positions(self, changes: list[np.ndarray], cache: VectorCache) -> np.ndarray:
        if cache.readers is None:
            cache.readers = self._cells.line_readers(self._codes(self.catalogue_.ids))
        readers: LineReaders = cache.readers
        return readers.of(changes)

    def _pair_score(self, users: Any, items: Any) -> float | None:
        one = self._one_pair(users, items)
        if one is None or self._popularity is not None:
            return None
        return self._cells.pair(*one, self.mean_, self.scale_)

    def _tables(self) -> list[np.ndarray]:
        return [self._cells.table]

    def _regions(self, users: np.ndarray, items: np.ndarray) -> Regions:
        return [self._cells.region(np.concatenate([users, items]))]

    def _step(
        self, plain: dict[str, Any], rate: float, clip: float, log: np.ndarray
    ) -> Callable[..., float | None]:
        weight, biases = float(plain["regularization"]), not self._damps_biases(plain)
        return partial(
            self._cells.descend, rate=rate, weight=weight, biases=biases, clip=clip, log=log
        )

    def _damper(self, train: Interactions, prior: BiasPrior) -> Callable[[float], Any]:
        coded, seed = train.coded(), self._cells.seed
        users = hash_column(coded.user_ids, seed, name="users")
        items = hash_column(coded.item_ids, item_seed(seed), name="items")

        def damp(rate: float) -> None:
            for hashes, damping in ((users, prior.user_damping), (items, prior.item_damping)):
                self._cells.damp(hashes, 1 - 1 / (1 + rate * damping))

        return damp

    def _ranking_step(self, plain: dict[str, Any], rate: float, seed: int) -> Callable[..., Any]:
        assert self._popularity is not None
        return partial(
            self._cells.rank,
            seed=seed,
            negatives=self._popularity.negatives,
            rates=shrinkages(rate, plain["regularization"]),
            components=self._components,
        )

    def _codes(self, items: np.ndarray) -> np.ndarray:
        return self._cells.hashed(items, 1)

    def _remember(self, users: np.ndarray) -> None:
        if self._popularity is not None:
            sgd_ranking.count(users, self._user_counts)

    @property
    def _components(self) -> int:
        """Numbers of an entity that a ranking reads: the last factor is the item's popularity."""
        return min(self._cells.factors, self._factors - 1)

    def _add_noise(self, deviation: float, random: Generator) -> None:
        self._cells.add_noise(deviation, random)

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        hashes = self._cells.hashed(ids, 0)
        if self._popularity is None:
            return self._cells.vectors(hashes, self._factors, self.scale_)
        rows = np.empty(hashes.size, np.uint8)
        sgd_ranking.counts(hashes, self._user_counts, rows)
        return np.asarray(self._ranking_vectors(hashes) * trust(rows))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        hashes = self._codes(ids)
        if self._popularity is None:
            return self._cells.vectors(hashes, self._factors, self.scale_)
        return self._ranked_items(ids, self._ranking_vectors(hashes))

    def _ranking_vectors(self, hashes: np.ndarray) -> np.ndarray:
        """Return components of these hashes, and biases of 0."""
        out = np.zeros((hashes.size, self._factors), np.float32)
        out[:, : self._components] = self._cells.components(hashes, self._components)
        return out

    def _arrays(self) -> dict[str, np.ndarray]:
        users = {} if self._popularity is None else {"user_counts": self._user_counts}
        return {"cells": self._cells.table, **users, **super()._arrays()}

    def _layout(self) -> dict[str, Cells]:
        size = cells_of(self._shape)
        users = {"user_counts": Cells(np.uint8, _counters(size))} if self._ranks else {}
        return {"cells": Cells(np.float32, (size,)), **users, **super()._layout()}

    def _state(self) -> dict[str, Any]:
        least = {} if self._popularity is None else {"least": self._least}
        return {**super()._state(), "size": self._factors, **self._cells.shape, **least}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._shape = {
            name: limit.check("state", name, state[name]) for name, limit in LIMITS.items()
        }
        self._factors = integer(self._shape["factors"], 4096).check("state", "size", state["size"])
        self._least = integer(1).check("state", "least", state.get("least", 1))

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        if not np.isfinite(arrays["cells"]).all():
            raise ValueError("the cells must be finite.")
        super()._restore_arrays(arrays)
        self._cells = FactorCells(**self.__dict__.pop("_shape"), table=arrays["cells"])
        if self._popularity is not None:
            self._user_counts = arrays["user_counts"]


def _counters(cells: int) -> tuple[int, int]:
    """Return the shape of the users' counters beside so many cells."""
    return 2, -(-cells // PER_COUNTER)


def _in_blocks(numbers: float, lanes: int) -> int:
    """Return the number rounded up to a multiple of `lanes`."""
    return lanes * math.ceil(numbers / lanes)
