"""Dense factorization: every user and item has factors of its own, memory grows with both."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from sfumato.core.storage import Cells
from sfumato.core.validation import RandomState
from sfumato.data.interactions import Interactions
from sfumato.kernels.lanes import aligned
from sfumato.kernels.recommend import sgd_dense as factor_dense
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.factorization.sgd import START, Descent, Touched, in_ratings

__all__ = ["DenseFactorization"]

ROOM = 16  # numbers after the last row: kernels read whole blocks
SIDES = ("user", "item")


class DenseFactorization(Descent):
    """Ratings from the factors of users and items, learned by stochastic gradient descent.

    Parameters
    ----------
    factors : int, default=32
        Numbers for each user and item, the bias included.
    epochs : int, default=20
        Passes over the data.
    learning_rate : float, default=0.05
        Eta, of stars.
    decay : float, default=6.0
        B, of eta / (1 + b t / T).
    regularization : float, default=0.05
        Lambda.
    clip : float or None, default=None
        The loss (r - prediction)**2 / 2 above which a rating is left out in that epoch.
    noise : float or None, default=None
        The temperature of Langevin dynamics (1 samples the posterior of ratings with variance 1).
    threads : int, default=1
        Which share the tables without locks, so that two runs differ.
    bounds : tuple or None, default=None
        (low, high) of ratings, or None for those of the data.
    random_state : int, Generator or None, default=0
        An int, a numpy Generator or None.

    Attributes
    ----------
    catalogue_ : Catalogue
        TODO.
    hides_ : bool
        TODO.
    high_ : float
        TODO.
    history_ : list
        TODO.
    low_ : float
        TODO.
    mean_ : float
        TODO.
    scale_ : float
        TODO.
    seen_ : int
        TODO.
    user_kind_ : str
        TODO.

    Notes
    -----
    **Guarantee.** The same random_state and one thread give the same model, bit for bit. A user or
    item that was not in the data has factors 0, so the other side's bias decides. Nothing is
    private; with clip or noise `privacy_label` is "measured".

    References
    ----------
    .. [1] Koren, Bell and Volinsky 2009; the thesis, section 2.2.5.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> seen = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = DenseFactorization(factors=4).fit(seen)
    >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
    True
    """

    LIMITS = Descent.LIMITS
    _known_users: SortedCatalogue
    _known_items: SortedCatalogue
    _factors: int
    _user_table: np.ndarray
    _item_table: np.ndarray

    def __init__(
        self,
        *,
        factors: int = 32,
        epochs: int = 20,
        learning_rate: float = 0.05,
        decay: float = 6.0,
        regularization: float = 0.05,
        clip: float | None = None,
        noise: float | None = None,
        threads: int = 1,
        bounds: tuple[float, float] | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.factors, self.epochs, self.learning_rate, self.decay = (
            factors,
            epochs,
            learning_rate,
            decay,
        )
        self.regularization, self.clip, self.noise = regularization, clip, noise
        self.threads, self.bounds, self.random_state = threads, bounds, random_state

    def resize(self, factors: int) -> Self:
        """Give every user and item more or fewer components; biases and the first ones stay.

        New components start at small random values.

        Parameters
        ----------
        factors : int
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        self._check_fitted()
        wanted = self.LIMITS["factors"].check(type(self).__name__, "factors", factors)
        random = np.random.default_rng([self._check()["random_state"], wanted])
        tables = [_resized(_rows(table, self._factors), wanted, random) for table in self._tables()]
        self.factors = self._factors = wanted
        (self._user_table, self._item_table) = tables
        self._changed()
        return self

    def _begin(self, plain: dict[str, Any], train: Interactions, random: Generator) -> None:
        coded = train.coded()
        self._factors = plain["factors"]
        self._known_users, self._known_items = (
            SortedCatalogue(coded.user_ids),
            SortedCatalogue(coded.item_ids),
        )
        self._user_table = _kept(_started(len(self._known_users), self._factors, random))
        self._item_table = _kept(_started(len(self._known_items), self._factors, random))

    def _make_room(self, plain: dict[str, Any], batch: Interactions) -> None:
        random = np.random.default_rng([plain["random_state"], self.seen_, 1])
        coded = batch.coded()
        for side, ids in zip(SIDES, (coded.user_ids, coded.item_ids), strict=True):
            known, table = getattr(self, f"_known_{side}s"), getattr(self, f"_{side}_table")
            more = ids[known.positions(ids) < 0]
            if more.size:
                rows = _rows(table, self._factors), _started(more.size, self._factors, random)
                setattr(self, f"_known_{side}s", SortedCatalogue(np.concatenate([known.ids, more])))
                setattr(self, f"_{side}_table", _kept(np.concatenate(rows)))

    def _columns(self, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
        coded = data.coded()
        users = self._known_users.positions(coded.user_ids).astype(np.int32)
        items = self._known_items.positions(coded.item_ids).astype(np.int32)
        return users[coded.user_codes], items[coded.item_codes]

    def _tables(self) -> list[np.ndarray]:
        return [self._user_table, self._item_table]

    def _touched(self, users: np.ndarray, items: np.ndarray) -> Touched:
        both = zip(self._tables(), (users, items), strict=True)
        return [(table, _blocks(rows, self._factors, table.size)) for table, rows in both]

    def _step(self, plain: dict[str, Any], rate: float, clip: float) -> Callable[..., Any]:
        weight = plain["regularization"]
        step = np.zeros(self._factors + ROOM, np.float32)
        step[: self._factors] = rate
        shrink = -step * np.float32(weight)
        kernel = factor_dense.descend_two if self._factors == 32 else factor_dense.descend

        def run(users: np.ndarray, items: np.ndarray, ratings: np.ndarray) -> None:
            kernel(users, items, ratings, np.float32(clip), step, shrink, *self._tables())

        return run

    def _add_noise(self, deviation: float, random: Generator) -> None:
        for table in self._tables():
            size = table.size - ROOM
            table[:-ROOM] += random.standard_normal(size, np.float32) * np.float32(deviation)

    def _vectors(self, known: SortedCatalogue, table: np.ndarray, ids: np.ndarray) -> np.ndarray:
        found = known.positions(ids)
        out: np.ndarray = _rows(table, self._factors)[found] * in_ratings(
            self._factors, self.scale_
        )
        out[found < 0] = 0
        return out

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._vectors(self._known_users, self._user_table, ids)

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._vectors(self._known_items, self._item_table, ids)

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays: dict[str, np.ndarray] = {}
        for side, table in zip(SIDES, self._tables(), strict=True):
            known = getattr(self, f"_known_{side}s")
            arrays |= {f"{side}_{name}": array for name, array in known.arrays().items()}
            arrays[f"{side}_rows"] = _rows(table, self._factors)
        return arrays

    def _layout(self) -> dict[str, Cells]:
        layout: dict[str, Cells] = {}
        for side, kind in zip(SIDES, self._kinds, strict=True):
            layout |= {f"{side}_{name}": cells for name, cells in Catalogue.layout(kind).items()}
            layout[f"{side}_rows"] = Cells(np.float32, (-1, self._factors))
        return layout

    def _state(self) -> dict[str, Any]:
        return {
            **super()._state(),
            "users": self._known_users.kind,
            "items": self._known_items.kind,
            "factors": self._factors,
        }

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._kinds = state["users"], state["items"]
        self._factors = self.LIMITS["factors"].check("state", "factors", state["factors"])

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        for side in SIDES:
            own = {name: array for name, array in arrays.items() if name.startswith(side)}
            rows = own.pop(f"{side}_rows")
            ids = {name.removeprefix(f"{side}_"): array for name, array in own.items()}
            known = SortedCatalogue.from_arrays(ids)
            if rows.shape[0] != len(known) or not np.isfinite(rows).all():
                raise ValueError(f"{side}_rows must be finite, one row for each {side}.")
            setattr(self, f"_known_{side}s", known)
            setattr(self, f"_{side}_table", _kept(rows))


def _rows(flat: np.ndarray, factors: int) -> np.ndarray:
    """The rows in a flat table, without the room after them."""
    return flat[:-ROOM].reshape(-1, factors)


def _blocks(rows: np.ndarray, factors: int, size: int) -> np.ndarray | None:
    """Where kernels write for these rows, which is whole blocks; None: at most places of all."""
    lanes = np.arange(-(-factors // ROOM) * ROOM)
    if 4 * rows.size * lanes.size >= size:
        return None
    return np.asarray(rows.astype(np.int64)[:, None] * factors + lanes)


def _kept(rows: np.ndarray) -> np.ndarray:
    """A flat, aligned table of these rows and the room after them."""
    flat = aligned(rows.size + ROOM, np.float32)
    flat[:-ROOM] = rows.ravel()
    return flat


def _started(count: int, factors: int, random: Generator) -> np.ndarray:
    """Rows of small random components and biases of 0."""
    rows = random.standard_normal((count, factors), np.float32) * np.float32(START)
    rows[:, -1] = 0
    return rows


def _resized(rows: np.ndarray, factors: int, random: Generator) -> np.ndarray:
    resized = _started(rows.shape[0], factors, random)
    kept = min(factors, rows.shape[1]) - 1
    resized[:, :kept], resized[:, -1] = rows[:, :kept], rows[:, -1]
    return _kept(resized)
