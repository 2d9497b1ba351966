"""Sketched factors: the vectors of a private model inside one count sketch of fixed size."""

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
    """A private model whose file is as large as told, whatever the number of users and items.

    The thesis, equations (4.1) and (4.2).

    Parameters
    ----------
    cells : int
        Float32 numbers.
    depth : int, default=4
        Rows.
    seed : int, default=0
        Of the hashes.

    Attributes
    ----------
    catalogue_ : Catalogue
        TODO.
    high_ : float
        TODO.
    low_ : float
        TODO.
    mean_ : float
        TODO.
    user_kind_ : str
        TODO.

    Notes
    -----
    **Guarantee.** That of the model it was made from, whose statement it carries: it is computed
    from that model alone, so it costs nothing more. A vector is read as the mean over rows of sign
    * cell, right on average; the error is that of collisions, with a variance of sum of squares /
    cells. Nothing tells whose vectors it holds; a stranger reads such noise.

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
        """Write the vectors of a fitted private model into the cells, and nothing else.

        A personal copy is refused: its vectors are users' own.

        Parameters
        ----------
        model : PrivateFactorization
            TODO.

        Returns
        -------
        Self
            The object itself.
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
        told = {"statement": self._statement.to_dict()}
        return {**super()._state(), **self._cells.shape, **told}

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
