"""StoredVectors: the base of factor models that store a vector per user and item after `fit`."""

from copy import copy
from typing import Any, Protocol, Self

import numpy as np

from sfumato.core.ids import kind_of
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import RandomState, integer, one_of
from sfumato.data.interactions import Interactions
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.factorization.base import Factorization
from sfumato.recommend.factorization.epochs import Progress, run_epochs

__all__ = ["FACTORS", "EpochTraining", "EpochVectors", "StoredVectors"]

FACTORS = integer(1, 4096)
KIND = one_of(("integers", "text"))
SIDES = ("user", "item")


class StoredVectors(Factorization, in_files=False):
    """Base of models of ratings whose vectors are two tables, in the unit of the ratings.

    A subclass has the parameters `bounds` and, if it draws at random, `random_state`. Its `fit`
    trains the result of `_fresh` and calls `_set_vectors` and `_adopt`. Users and items that were
    not in the training data have vectors of 0.
    """

    _known_users: SortedCatalogue
    _known_items: SortedCatalogue
    _item_kind: str  # "integers" or "text"
    _user_rows: np.ndarray
    _item_rows: np.ndarray
    random_state: RandomState

    def _fresh(self, train: Interactions, catalogue: Any, bounds: Any) -> Self:
        """Check the training data; return a copy of the model for it, without vectors."""
        self._check_train(train)
        self._check_enough(train)
        fresh, coded = copy(self), train.coded()
        fresh.catalogue_ = self._catalogue_of(train, catalogue)
        fresh.low_, fresh.high_ = self._bounds_of(train, bounds)
        fresh.mean_, fresh.user_kind_ = float(train.ratings.mean()), kind_of(train.users)
        fresh._known_users = SortedCatalogue(coded.user_ids)
        fresh._known_items = SortedCatalogue(coded.item_ids)
        fresh._item_kind = fresh._known_items.kind
        return fresh

    def _set_vectors(self, users: np.ndarray, items: np.ndarray) -> None:
        """Take rows of components and, last, biases, in the order of the data's codes."""
        self._user_rows, self._item_rows = (
            np.ascontiguousarray(rows, np.float32) for rows in (users, items)
        )

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        return _taken(self._user_rows, self._known_users.positions(ids))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        return _taken(self._item_rows, self._known_items.positions(ids))

    def _layout(self) -> dict[str, Cells]:
        layout: dict[str, Cells] = {}
        for side, kind in zip(SIDES, (self.user_kind_, self._item_kind), strict=True):
            layout |= {f"{side}_{name}": cells for name, cells in Catalogue.layout(kind).items()}
            layout[f"{side}_rows"] = Cells(np.float32, (-1, -1))
        return layout

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays: dict[str, np.ndarray] = {}
        for side in SIDES:
            known = getattr(self, f"_known_{side}s")
            arrays |= {f"{side}_{name}": array for name, array in known.arrays().items()}
            arrays[f"{side}_rows"] = getattr(self, f"_{side}_rows")
        return arrays

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        for side in SIDES:
            rows = arrays.pop(f"{side}_rows")
            ids = {name: array for name, array in arrays.items() if name.startswith(side)}
            known = SortedCatalogue.from_arrays(
                {name.removeprefix(f"{side}_"): array for name, array in ids.items()}
            )
            if len(rows) != len(known) or not rows.shape[1] or not np.isfinite(rows).all():
                raise ValueError(f"{side}_rows must be finite, one row for each {side}.")
            setattr(self, f"_known_{side}s", known)
            setattr(self, f"_{side}_rows", rows)
        if self._user_rows.shape[1] != self._item_rows.shape[1]:
            raise ValueError("user_rows and item_rows must have as many columns.")

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "items": self._item_kind}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._item_kind = KIND.check("state", "items", state["items"])
        KIND.check("state", "user_kind_", self.user_kind_)


class EpochTraining(Protocol):
    """What a model learns from: tables that every epoch changes."""

    def epoch(self, number: int) -> None:
        """Run one epoch, the first is 0."""


class EpochVectors(StoredVectors, in_files=False):
    """Base of models of ratings that are trained in epochs.

    A subclass has the parameters `epochs` and `random_state`, makes the training of an epoch in
    `_training`, and takes what it learned in `_take`.
    """

    history_: list[dict[str, Any]]

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
            If a parameter is invalid, a rating is outside of `bounds`, or training diverges. The
            model is then unchanged.
        """
        plain = self._check() | {"random_state": self._new_seed()}
        fresh = self._fresh(train, catalogue, plain["bounds"])
        if valid is not None:
            self._check_train(valid, "valid")
        fresh._seed, fresh.history_ = plain["random_state"], []
        training = fresh._training(plain, train)

        def epoch() -> None:
            training.epoch(len(fresh.history_))
            fresh.history_.append({"epoch": len(fresh.history_) + 1, "valid_rmse": None})

        def report() -> None:
            entry = fresh.history_[-1]
            if valid is not None:
                fresh._take(training)
                miss = fresh.predict(valid.users, valid.items) - valid.ratings
                entry["valid_rmse"] = float(np.sqrt(np.mean(miss * miss)))
            if progress is not None:
                progress(entry["epoch"], plain["epochs"], entry["valid_rmse"])

        complete = run_epochs(plain["epochs"], epoch, report)
        fresh._take(training)
        return self._adopt(fresh, complete)

    def _training(self, plain: dict[str, Any], train: Interactions) -> EpochTraining:
        """Return tables to be trained on these rows; the model has all else already."""
        raise NotImplementedError

    def _take(self, training: Any) -> None:
        """Set the vectors, and what else the training has learned so far."""
        raise NotImplementedError

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.history_ = []


def _taken(rows: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Return copies of these rows, zeros where the position is -1."""
    out = rows[found]
    out[found < 0] = 0
    return np.asarray(out)
