"""Sketched factors: the vectors of a private model in one count sketch of fixed size."""

import warnings
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, integer
from sfumato.data.interactions import item_seed
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.factorization.base import Factorization
from sfumato.recommend.factorization.factor_cells import LIMITS, FactorCells
from sfumato.recommend.private.factorization import PrivateFactorization

__all__ = ["SketchedFactors"]

STEPS = 100  # of conjugate gradients; half as many reach four digits of the error
ENOUGH = 1e-10  # squared length of the gradient, as a fraction of the first, at which they end
FLOOR = 0.1  # least mean square of a component, of that of the biases: errors meet errors
UNKNOWN = 0.01  # pairs with an unknown user, who reads noise, for each with a known one
PAIRS = 1 << 14  # random pairs whose predictions are compared with those of the model
NEGLIGIBLE = 0.02  # error of these as a fraction of their variance


class SketchedFactors(Factorization):
    """Private factorization compressed into a count sketch of fixed size.

    Use it to publish a `PrivateFactorization` in a file whose size does not depend on the number of
    users and items.

    Parameters
    ----------
    cells : int
        Number of float32 cells, at least 1; rounded up to a multiple of `depth`.
    depth : int, default=4
        Rows of the sketch, from 1 to 32.
    seed : int, default=0
        Seed of the hash functions; part of the model file.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Noisy mean rating of the private model.
    user_kind_ : str
        Type of user ids, "integers" or "text"; "" if unknown.

    Notes
    -----
    **Guarantee.** That of the private model, whose `statement` it has: it is computed from the
    released model alone (post-processing) and costs no further budget. A vector is read as the mean
    over rows of sign * cell, and the cells are fitted to all vectors by least squares, weighted by
    what an error of each number does to predictions: with more cells than the vectors have numbers
    the read-outs are nearly the vectors, with fewer they are shrunk. `fit` warns, and says how many
    cells suffice, where the biases of the model alone would predict better. No list of users is
    stored; an unknown user reads noise.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equations (4.1) and (4.2) (read-out of the count sketch).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.recommend import PrivateFactorization
    >>> world = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
    >>> model = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5))
    >>> model = model.fit(world, users=range(60), catalogue=range(40))
    >>> small = SketchedFactors(cells=4096).fit(model)
    >>> small.nbytes, small.statement == model.statement
    (16384, True)
    """

    version = 2  # a key has one hash, whatever its type
    LIMITS: ClassVar[dict[str, Limit]] = {
        "cells": integer(1, 2**40),
        "depth": LIMITS["depth"],
        "seed": LIMITS["seed"],
    }
    _cells: FactorCells
    _shape: dict[str, Any]  # of the cells, while a file is read
    _statement: PrivacyStatement | None = None

    def __init__(self, *, cells: int, depth: int = 4, seed: int = 0) -> None:
        self.cells: int
        self.depth: int
        self.seed: int
        self.cells, self.depth, self.seed = cells, depth, seed

    def fit(self, model: PrivateFactorization) -> Self:
        """Write the vectors of a fitted private model into the sketch.

        Parameters
        ----------
        model : PrivateFactorization
            A fitted model whose users are listed (fitted with `users=`, not `rows=`) or that has
            none.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        TypeError
            If the model is not a fitted PrivateFactorization.
        ValueError
            If it is a personal copy, which contains users' own vectors, or its users share rows.

        Warns
        -----
        UserWarning
            If the cells are too few to predict better than the biases of the model alone.
        """
        plain = self._check()
        if not isinstance(model, PrivateFactorization) or model.statement is None:
            raise TypeError("SketchedFactors: fit takes a fitted PrivateFactorization.")
        model._check_releasable()
        accounts, items = model._accounts, model.item_vectors_
        if accounts.shared:
            raise ValueError(
                "SketchedFactors: users of this model share rows and cannot be listed; fit it with "
                "users= instead of rows=."
            )
        cells = FactorCells(
            factors=items.shape[1],
            depth=plain["depth"],
            width=max(1, -(-plain["cells"] // plain["depth"])),
            layout="component",
            seed=plain["seed"],
        )
        hashes = [hash_column(model.catalogue_.ids, item_seed(cells.seed))]
        if len(accounts):
            hashes.append(hash_column(accounts.ids, cells.seed))
        sides = [items, model.user_vectors_][: len(hashes)]
        _approximate(cells, *map(np.concatenate, (hashes, sides, _weights(*sides))))
        _warn_if_few(plain["cells"], sides, [cells.vectors(each) for each in hashes])
        self._cells, self._statement, self.catalogue_ = cells, model.statement, model.catalogue_
        for name in ("mean_", "low_", "high_", "user_kind_"):
            setattr(self, name, getattr(model, name))
        self._changed()
        return self

    @property
    def statement(self) -> PrivacyStatement | None:
        return self._statement

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._cells.vectors(hash_column(ids, self._cells.seed, name="users"))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._cells.vectors(hash_column(ids, item_seed(self._cells.seed), name="items"))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"cells": self._cells.table}

    def _layout(self) -> dict[str, Cells]:
        return {"cells": Cells(np.float32, (self._shape["depth"] * self._shape["width"],))}

    def _state(self) -> dict[str, Any]:
        assert self._statement is not None
        statement = {"statement": self._statement.to_dict()}
        return {**super()._state(), **self._cells.shape, **statement}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._shape = {
            name: limit.check("state", name, state[name]) for name, limit in LIMITS.items()
        }
        self._statement = PrivacyStatement.from_dict(state["statement"])

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        if not np.isfinite(arrays["cells"]).all():
            raise ValueError("the cells must be finite.")
        self._cells = FactorCells(**self.__dict__.pop("_shape"), table=arrays["cells"])


def _weights(items: np.ndarray, users: np.ndarray | None = None) -> list[np.ndarray]:
    """Return what a squared error of each number adds to the mean squared error of predictions.

    An error of a component counts as much as the mean square of that of the other side; without
    users these are taken to be like items. Every item, and every user, is in equally many pairs.
    """
    sides = [items] if users is None else [items, users]
    weights = []
    for side, other in zip(sides, reversed(sides), strict=True):
        squares = np.asarray(np.mean(other**2, axis=0, dtype=np.float64))
        squares = np.maximum(squares, FLOOR * squares[-1])
        squares[-1] = 1.0  # beside a bias is a 1
        weights.append(np.tile((squares / len(side)).astype(np.float32), (len(side), 1)))
    return weights


def _warn_if_few(cells: int, sides: list[np.ndarray], read: list[np.ndarray]) -> None:
    """Warn if the read-outs predict worse than the biases of the vectors without components."""
    random = np.random.default_rng(0)
    rows = [random.integers(len(side), size=PAIRS) for side in sides]
    wanted, found = (
        [each[at].astype(np.float64) for each, at in zip(both, rows, strict=True)]
        for both in (sides, read)
    )
    biases = sum(each[:, -1] for each in wanted)
    scores = biases + _products(wanted)
    error = np.mean((sum(each[:, -1] for each in found) + _products(found) - scores) ** 2)
    if error > max(np.mean((scores - biases) ** 2), NEGLIGIBLE * np.var(scores)):
        enough = 3 * sum(side.size for side in sides) // 2
        warnings.warn(
            f"SketchedFactors: cells={cells} are too few for these vectors, whose biases alone "
            f"would predict better; cells={enough} reproduce them nearly.",
            stacklevel=3,
        )


def _products(pairs: list[np.ndarray]) -> Any:
    """Return the products of components of items and users; 0 without users."""
    return np.einsum("ij,ij->i", pairs[0][:, :-1], pairs[1][:, :-1]) if len(pairs) == 2 else 0.0


def _approximate(
    cells: FactorCells, hashes: np.ndarray, vectors: np.ndarray, weights: np.ndarray
) -> None:
    """Fit the cells to the vectors by weighted least squares.

    Conjugate gradients for least squares (CGLS), from cells of 0: read-outs are linear in the
    cells, and `FactorCells.write` is the transpose of reading, times `depth`. A ridge penalty is
    the error of unknown users: each of their numbers has the cells' mean square over `depth`.
    """
    table = cells.table
    fitted, errors = np.zeros_like(table), vectors.astype(np.float32)
    ridge = UNKNOWN * float(weights.sum(dtype=np.float64)) / (table.size * cells.depth)

    def gradient() -> np.ndarray:
        table[:] = 0
        cells.write(hashes, weights * errors)
        return table / np.float32(cells.depth) - np.float32(ridge) * fitted

    toward = gradient()
    direction, length = toward, float(toward @ toward)
    smallest = ENOUGH * length
    for _ in range(STEPS):
        if length <= smallest:
            break
        table[:] = direction
        read = cells.vectors(hashes)
        curvature = float((weights * read**2).sum(dtype=np.float64))
        step = np.float32(length / (curvature + ridge * float(direction @ direction)))
        fitted += step * direction
        errors -= step * read
        toward, before = gradient(), length
        length = float(toward @ toward)
        direction = toward + np.float32(length / before) * direction
    table[:] = fitted
