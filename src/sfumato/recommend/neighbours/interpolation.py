"""Interpolation weights: item-based neighbours whose weights are learned."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sfumato.core.ids import is_one
from sfumato.core.storage import Cells
from sfumato.core.typing import Ids
from sfumato.core.validation import Limit, between, flag, integer, one_of, optional, positive
from sfumato.data.interactions import Coded
from sfumato.kernels.recommend import interpolation
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.bias import DAMPING, Dampings, at_positions, chosen_dampings
from sfumato.recommend.ranking import fitting, listing
from sfumato.recommend.ratings.base import COUNT, RatingModel
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["InterpolationWeights"]

ROUNDS = 15  # of the biases of users and items in turn
DAMPED = 0.1  # of the sum of squared similarities that relative weights are divided by
USERS = 1 << 12  # whose features are laid out at a time


class InterpolationWeights(RatingModel):
    """Item-based neighbours with learned weights on the residuals of biases.

    The prediction for user x and item i is the baseline ``b_xi = mean + b_x + b_i`` plus the sum of
    ``w_ij (r_xj - b_xj)`` over the items j that x rated among the neighbours of i. The weights
    minimise the squared error, each item by itself; they need not sum to 1.

    Parameters
    ----------
    neighbours : int, default=200
        Largest number of neighbours of an item, at least 1: those of largest positive correlation.
    regularization : float, default=1.0
        Ridge penalty of the weights, above 0.
    weights : {"relative", "plain"}, default="relative"
        "plain" learns w_ij itself, drawn to 0. "relative" learns ``v_ij``, drawn to 1, of ``w_ij =
        v_ij s_ij**2 / (0.1 + sum of s_ik**2 over the rated neighbours k)``: with a large penalty it
        is the weighted mean of item-based neighbours with similarity s**2.
    implicit : bool, default=True
        Whether to learn also ``c_ij``, which counts that j was rated, whatever the rating: the
        residual ``r_xj - b_xj`` is replaced by ``r_xj - b_xj + c_ij / v_ij``.
    shrinkage : float, default=100.0
        Correlations over n users shrink by ``n / (n + shrinkage)``, at least 0.
    damping : float, tuple of float or None, default=None
        Damping of the biases, as in `DampedMeans`: a number, a pair for users and items, or None to
        estimate both from the data.
    solver : {"exact", "gradient"}, default="exact"
        "exact" solves the normal equations of each item; "gradient" is plain full gradient descent
        from the weights that the penalty draws to.
    epochs : int, default=100
        Steps of gradient descent, at least 1.
    learning_rate : float or None, default=None
        Size of a step, above 0. None is the inverse of a bound of the curvature of each item, with
        which the error falls in every step.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    dampings_ : Dampings
        Damping of the biases of users and of items.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    history_ : list of float
        Sum of squared errors plus penalty after each step of gradient descent; empty if exact.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Mean rating of the training data.
    users_ : Catalogue
        Users with training ratings.

    Notes
    -----
    **Guarantee.** The learned numbers of item i minimise the sum over its raters of the squared
    error, plus `regularization` times the squared distance from what they are drawn to, up to
    rounding to float32. An unknown user or item, and a user without rated neighbours, is predicted
    by the baseline. Not private: the model stores the ratings.

    The cost is the sum over users of their squared number of ratings to find neighbours, and for
    each rating the rated neighbours times all of them. Memory is that of the ratings, of 16
    `neighbours` bytes per item, and one square matrix of twice `neighbours` rows.

    References
    ----------
    .. [1] Bell and Koren. "Scalable Collaborative Filtering with Jointly Derived Neighborhood
       Interpolation Weights". ICDM 2007. https://doi.org/10.1109/ICDM.2007.90
    .. [2] Koren. "Factor in the Neighbors: Scalable and Accurate Collaborative Filtering". ACM TKDD
       2010 (implicit weights). https://doi.org/10.1145/1644873.1644874

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> users = [1, 1, 2, 2, 3, 3, 4]
    >>> items = ["a", "b", "a", "b", "a", "b", "a"]
    >>> train = Interactions(users, items, [5, 5, 1, 1, 4, 5, 5])
    >>> model = InterpolationWeights(shrinkage=0.0, damping=1.0).fit(train)
    >>> model.similar_items("a")[0]
    array(['b'], dtype=object)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "neighbours": integer(1, 1 << 12),
        "regularization": positive,
        "weights": one_of(("relative", "plain")),
        "implicit": flag,
        "shrinkage": between(0, math.inf),
        "damping": DAMPING,
        "solver": one_of(("exact", "gradient")),
        "epochs": integer(1, 1 << 20),
        "learning_rate": optional(positive),
        "bounds": OPTIONAL_BOUNDS,
    }
    dampings_: Dampings
    history_: list[float]
    _rows: RatedRows  # residuals in place of ratings
    _users: np.ndarray
    _items: np.ndarray
    _neighbours: np.ndarray
    _similarities: np.ndarray
    _weights: np.ndarray
    _relative: bool

    def __init__(
        self,
        *,
        neighbours: int = 200,
        regularization: float = 1.0,
        weights: str = "relative",
        implicit: bool = True,
        shrinkage: float = 100.0,
        damping: float | tuple[float, float] | None = None,
        solver: str = "exact",
        epochs: int = 100,
        learning_rate: float | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(bounds=bounds)
        self.neighbours, self.regularization, self.weights = neighbours, regularization, weights
        self.implicit, self.shrinkage, self.damping = implicit, shrinkage, damping
        self.solver, self.epochs, self.learning_rate = solver, epochs, learning_rate

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """List the neighbours of each item.

        Parameters
        ----------
        items : array_like or scalar
            Item ids; an item outside the catalogue has no neighbours.
        n : int, default=10
            Number of items, at least 1; there are at most `neighbours`.

        Returns
        -------
        items : ndarray of shape (n_items, n)
            Item ids, most similar first; -1 or None as padding. Of shape (k,) for a single id.
        similarities : ndarray of shape (n_items, n)
            Their shrunk correlations; -inf as padding.
        """
        self._check_fitted()
        owner = type(self).__name__
        n = min(COUNT.check(owner, "n", n), self._neighbours.shape[1])
        at = self.catalogue_.positions(fitting(owner, "items", items, self.catalogue_.kind))
        found = np.where(at[:, None] >= 0, self._neighbours[at, :n], -1).astype(np.int64)
        similar = np.where(found >= 0, self._similarities[at, :n], -np.inf)
        return listing(self.catalogue_, found, similar, is_one(items))

    def _learn(self, rows: RatedRows, plain: dict[str, Any]) -> bool:
        mean = float(rows.ratings.mean(dtype=np.float64))
        who, what = rows.user_rows, rows.positions
        targets = rows.ratings - mean
        coded = Coded(who, what, rows.users.ids, np.empty(rows.items))
        dampings = chosen_dampings(plain["damping"], coded, targets)
        users, items = _biases(rows, targets, dampings)
        residuals = (targets - users[who] - items[what]).astype(np.float32)
        problem = _Problem(replace(rows, ratings=residuals, times=None), plain)
        history: list[float] = []
        if plain["solver"] == "exact":
            complete = problem.solve()
        else:
            complete, history = problem.descend()
        self._rows, self._users, self._items = problem.rows, users, items
        self._neighbours, self._similarities = problem.neighbours, problem.similarities
        self._weights, self._relative = problem.weights, problem.relative
        self.history_, self.dampings_ = history, dampings
        return complete

    def _scales(self) -> np.ndarray:
        return _scales_of(self._similarities, self._neighbours, self._relative)

    def _interpolated(self, rows: RatedRows, who: np.ndarray, what: np.ndarray) -> np.ndarray:
        """What the neighbours add to the baseline."""
        out = np.zeros(who.size)
        interpolation.interpolate(
            rows.starts,
            rows.positions,
            rows.ratings,
            who,
            what,
            self._neighbours,
            self._scales(),
            self._weights,
            *_denominator(self._relative),
            out,
        )
        return out

    def _predicted(
        self, rows: np.ndarray, columns: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        order = np.argsort(rows, kind="stable")
        base = self.mean_ + at_positions(self._users, rows) + at_positions(self._items, columns)
        base[order] += self._interpolated(self._rows, rows[order], columns[order])
        return np.asarray(base)

    def _folded_in(self, positions: np.ndarray, ratings: np.ndarray) -> np.ndarray:
        residuals = ratings - self.mean_ - self._items[positions]
        own = residuals.sum() / max(positions.size + self.dampings_.users, 1e-300)
        one = replace(
            self._rows,
            starts=np.array([0, positions.size]),
            positions=positions.astype(np.int32),
            ratings=(residuals - own).astype(np.float32),
        )
        every = np.arange(len(self.catalogue_))
        near = self._interpolated(one, 0 * every, every)
        return np.asarray(self.mean_ + own + self._items + near)

    def _explained(self, row: int, column: int, n: int) -> dict[str, Any]:
        user, item = (
            float(at_positions(values, np.array([at]))[0])
            for values, at in ((self._users, row), (self._items, column))
        )
        parts = self._parts(row, column) if row >= 0 and column >= 0 else []
        parts.sort(key=lambda each: -abs(each["part"]))
        rest = sum(each["part"] for each in parts[n:])
        score = self.mean_ + user + item + rest + sum(each["part"] for each in parts[:n])
        terms = {"mean": self.mean_, "user": user, "item": item, "neighbours": parts[:n]}
        return {**terms, "rest": float(rest), "score": float(score)}

    def _parts(self, row: int, column: int) -> list[dict[str, Any]]:
        """What each rated neighbour adds to a prediction."""
        _, positions, residuals = self._rows.take(np.array([row]))
        known = dict(zip(positions.tolist(), residuals.tolist(), strict=True))
        near, scales = self._neighbours[column].tolist(), self._scales()[column]
        rated = [k for k, j in enumerate(near) if j in known]
        damping, share = _denominator(self._relative)
        total = damping + share * float(scales[rated].sum(dtype=np.float64))
        weights, width = self._weights[column].astype(np.float64), len(near)
        parts = []
        for k in rated:
            more = weights[width + k] if weights.size > width else 0.0
            value = weights[k] * known[near[k]] + more
            name = self.catalogue_.ids[near[k]]
            parts.append(
                {
                    "item": name.item() if isinstance(name, np.generic) else name,
                    "residual": known[near[k]],
                    "part": float(scales[k] / total * value),
                }
            )
        return parts

    def _learned_layout(self) -> dict[str, Cells]:
        tables = {"_similarities": np.float32, "_weights": np.float32, "_neighbours": np.int32}
        return {
            "_users": Cells(np.float64, (-1,)),
            "_items": Cells(np.float64, (-1,)),
            **{name: Cells(dtype, (-1, -1)) for name, dtype in tables.items()},
            **RatedRows.layout(),
        }

    def _learned_arrays(self) -> dict[str, np.ndarray]:
        own = [name for name in self._learned_layout() if name.startswith("_")]
        return {**{name: getattr(self, name) for name in own}, **self._rows.arrays()}

    def _restore_learned(self, arrays: dict[str, np.ndarray]) -> None:
        ratings = {name: arrays.pop(name) for name in RatedRows.layout()}
        users, items = len(self.users_), len(self.catalogue_)
        near, weights = arrays["_neighbours"], arrays["_weights"]
        sound = (
            arrays["_users"].shape == (users,)
            and arrays["_items"].shape == (items,)
            and near.shape[0] == items == weights.shape[0]
            and near.shape[1] > 0
            and arrays["_similarities"].shape == near.shape
            and weights.shape[1] in (near.shape[1], 2 * near.shape[1])
            and (near >= -1).all()
            and (near < items).all()
            and all(np.isfinite(each).all() for each in arrays.values())
            and (arrays["_similarities"] >= 0).all()
        )
        if not sound:
            raise ValueError("weights must be finite, one row of neighbours per item.")
        self._rows = RatedRows.from_arrays(self.users_, ratings, items)
        super()._restore_learned(arrays)

    def _state(self) -> dict[str, Any]:
        more = {"relative": self._relative, "history": list(map(float, self.history_))}
        return {**super()._state(), **more, "dampings": list(self.dampings_)}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.dampings_ = Dampings.restored(state["dampings"])
        self._relative = flag.check("state", "relative", state["relative"])
        self.history_ = [float(each) for each in state["history"]]


class _Problem:
    """The least squares of all items: neighbours, similarities and weights, one row per item."""

    def __init__(self, rows: RatedRows, plain: dict[str, Any]) -> None:
        self.rows, self.plain = rows, plain
        self.relative = plain["weights"] == "relative"
        self.order = np.argsort(rows.positions, kind="stable")
        self.raters = rows.user_rows[self.order]
        self.targets = rows.ratings[self.order]
        counts = np.bincount(rows.positions, minlength=rows.items)
        self.ends = np.concatenate([[0], np.cumsum(counts)])
        shape = rows.items, min(plain["neighbours"], max(rows.items - 1, 1))
        found, values = np.full(shape, -1, np.int64), np.full(shape, -np.inf, np.float32)
        interpolation.nearest(
            rows.starts,
            rows.positions,
            rows.ratings,
            self.ends,
            self.raters,
            self.targets,
            plain["shrinkage"],
            found,
            values,
        )
        self.neighbours = found.astype(np.int32)
        self.similarities = np.where(found >= 0, values, 0).astype(np.float32)
        self.scales = _scales_of(self.similarities, self.neighbours, self.relative)
        self.local = np.full(rows.items, -1, np.int32)
        self.weights = np.zeros((shape[0], shape[1] * (2 if plain["implicit"] else 1)), np.float32)
        if self.relative:
            self.weights[:, : shape[1]] = found >= 0

    def solve(self) -> bool:
        """Solve the normal equations of every item."""
        for i in range(self.rows.items):
            columns, start = self._columns(i)
            if not columns.size:
                continue
            gram, moments = self._equations(i, columns.size)
            upper = np.triu(gram, 1)
            moments -= gram @ start + upper.T @ start
            gram.flat[:: columns.size + 1] += np.float32(self.plain["regularization"])
            factor = cho_factor(gram, overwrite_a=True, check_finite=False)
            self.weights[i, columns] = start + cho_solve(factor, moments, check_finite=False)
        return True

    def descend(self) -> tuple[bool, list[float]]:
        """Descend by full gradients; False if Ctrl-C ended it after the last complete step."""
        start, history = self.weights.copy(), []
        rates: dict[int, float] = {}
        try:
            for _ in range(self.plain["epochs"]):
                after, before = self._step(start, rates)
                self.weights = after
                history.append(before)
            history.append(self._step(start, rates)[1])
        except KeyboardInterrupt:
            return False, history[1:]
        return True, history[1:]

    def _step(self, start: np.ndarray, rates: dict[int, float]) -> tuple[np.ndarray, float]:
        """Return the weights after one step, and the error before it."""
        after, total, ridge = self.weights.copy(), 0.0, self.plain["regularization"]
        for i in range(self.rows.items):
            columns, _ = self._columns(i)
            if not columns.size:
                total += float((self.targets[self.ends[i] : self.ends[i + 1]] ** 2).sum())
                continue
            own = self.weights[i, columns].astype(np.float64)
            apart = own - start[i, columns]
            gradient, error, bound = self._gradient(i, own)
            total += error + ridge * float(apart @ apart)
            rate = self.plain["learning_rate"] or rates.setdefault(i, 0.5 / (bound + ridge))
            after[i, columns] = own - rate * 2 * (gradient + ridge * apart)
        return after, total

    def _gradient(self, i: int, own: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Half the gradient of the squared error of an item, the error, and a curvature bound."""
        gradient, error, bound = np.zeros(own.size), 0.0, 0.0
        for first in range(self.ends[i], self.ends[i + 1], USERS):
            part = slice(first, min(first + USERS, self.ends[i + 1]))
            made = np.zeros((part.stop - first, own.size), np.float32)
            interpolation.features(*self._inputs(i, part), made)
            missed = made @ own - self.targets[part]
            gradient += made.T @ missed
            error += float(missed @ missed)
            bound += float((made.astype(np.float64) ** 2).sum())
        self._forget(i)
        return gradient, error, bound

    def _equations(self, i: int, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Gram matrix (upper triangle) and moments of the features of an item."""
        gram, moments = np.zeros((size, size), np.float32), np.zeros(size, np.float32)
        part = slice(self.ends[i], self.ends[i + 1])
        *inputs, local, scales, damping, share, implicit = self._inputs(i, part)
        interpolation.normal_equations(
            *inputs, self.targets[part], local, scales, damping, share, implicit, gram, moments
        )
        self._forget(i)
        return gram, moments

    def _inputs(self, i: int, part: slice) -> tuple[Any, ...]:
        """What the kernels read of an item; its neighbours are marked in `local`."""
        near = self._near(i)
        self.local[near] = np.arange(near.size)
        rows = self.rows
        made = rows.starts, rows.positions, rows.ratings, self.raters[part], self.local
        scales, implicit = self.scales[i, : near.size], self.plain["implicit"]
        return *made, scales, *_denominator(self.relative), implicit

    def _near(self, i: int) -> np.ndarray:
        return np.asarray(self.neighbours[i, self.neighbours[i] >= 0])

    def _forget(self, i: int) -> None:
        self.local[self._near(i)] = -1

    def _columns(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Columns of the item's weights that are in use, and what they are drawn to."""
        count, width = self._near(i).size, self.neighbours.shape[1]
        columns = np.arange(count)
        start = np.full(count, 1 if self.relative else 0, np.float32)
        if self.plain["implicit"]:
            columns = np.concatenate([columns, width + columns])
            start = np.concatenate([start, np.zeros(count, np.float32)])
        return columns, start


def _scales_of(similarities: np.ndarray, neighbours: np.ndarray, relative: bool) -> np.ndarray:
    """Scale of each neighbour: its squared similarity, or 1 where weights are plain."""
    return np.asarray(similarities**2 if relative else neighbours >= 0, np.float32)


def _denominator(relative: bool) -> tuple[float, float]:
    """What is added to the sum of scales, and how much that counts."""
    return (DAMPED, 1.0) if relative else (1.0, 0.0)


def _biases(
    rows: RatedRows, targets: np.ndarray, dampings: Dampings
) -> tuple[np.ndarray, np.ndarray]:
    """Biases of users and items by ridge regression, one side after the other."""
    who, what = rows.user_rows, rows.positions
    counts = np.diff(rows.starts), np.bincount(what, minlength=rows.items)
    below = [np.maximum(n + d, 1e-300) for n, d in zip(counts, dampings, strict=True)]
    users = np.zeros(counts[0].size)
    for _ in range(ROUNDS):
        items = np.bincount(what, targets - users[who], rows.items) / below[1]
        users = np.bincount(who, targets - items[what], users.size) / below[0]
    return users, items
