"""Sketched factors: the vectors of a private model in one count sketch of fixed size."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, integer
from sfumato.data.interactions import item_seed
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.factorization.base import Factorization
from sfumato.recommend.factorization.sketched import LIMITS, FactorCells
from sfumato.recommend.private.factorization import PrivateFactorization

__all__ = ["SketchedFactors"]


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
    over rows of sign * cell: an unbiased estimate whose error, from collisions, has variance (sum
    of squares of all vectors) / `cells`. No list of users is stored; an unknown user reads noise of
    that variance.

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
        """
        plain = self._check()
        if not isinstance(model, PrivateFactorization) or model.statement is None:
            raise TypeError("SketchedFactors: fit takes a fitted PrivateFactorization.")
        model._check_releasable()
        items = model.item_vectors_
        cells = FactorCells(
            factors=items.shape[1],
            depth=plain["depth"],
            width=max(1, -(-plain["cells"] // plain["depth"])),
            layout="component",
            seed=plain["seed"],
        )
        cells.write(hash_column(model.catalogue_.ids, item_seed(cells.seed)), items)
        accounts = model._accounts
        if accounts.shared:
            raise ValueError(
                "SketchedFactors: users of this model share rows and cannot be listed; fit it with "
                "users= instead of rows=."
            )
        if len(accounts):
            cells.write(hash_column(accounts.ids, cells.seed), model.user_vectors_)
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
