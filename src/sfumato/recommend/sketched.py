"""Sketched factorization: the factors of all users and items in one count sketch of fixed size."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from sfumato._require import optional, positive, whole
from sfumato.data.interactions import Interactions, item_seed
from sfumato.hashing import hash_column
from sfumato.recommend._cells import LANES, LIMITS, FactorCells
from sfumato.recommend._descent import START, Descent, in_ratings
from sfumato.recommend._undo import Touched
from sfumato.sketch._stored import Cells

__all__ = ["SketchFactorization"]


class SketchFactorization(Descent):
    """Ratings from factors that share one count sketch: fixed memory, any number of users.

    Guarantee: the table is as large as `cells` or `space_gain` say, whoever comes; a user never
    seen reads noise near 0, and nothing tells who is known. The same random_state and one thread
    give the same model, bit for bit. Nothing is private; with clip or noise `privacy_label` is
    "measured".
    Parameters: factors, numbers of each user and item, the bias included; depth, rows of the sketch
    (1 is feature hashing); space_gain, how many times smaller than the dense table of the users and
    items of the first fit the sketch is (4.9), or cells, float32 numbers in it, which a model that
    starts with `partial_fit` needs; layout, "block", 16 numbers of an entity side by side, at full
    speed where factors is a multiple of 16 (others leave lanes unused), or "component", every
    number hashed on its own; readout, "mean" or "median" (slow) over rows; active, how many of the
    factors are read, the others being 0: None in blocks means as many as the table has cells for an
    entity, in whole blocks, since more only collide, and all of them in "component" or where the
    model starts with `partial_fit`; seed, of the hashes; the others as in DenseFactorization.

    >>> from sfumato.data import Interactions
    >>> seen = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = SketchFactorization(factors=16, cells=4096).fit(seen)
    >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
    True
    >>> model.nbytes
    16384

    The thesis, section 4.1, equations (4.1) to (4.9).
    """

    version = 2  # a key has one hash, whatever its type
    LIMITS = Descent.LIMITS | {
        "depth": LIMITS["depth"],
        "space_gain": positive,
        "cells": optional(whole(1, 2**40)),
        "layout": LIMITS["layout"],
        "readout": LIMITS["readout"],
        "active": optional(LIMITS["factors"]),
        "seed": LIMITS["seed"],
    }
    STREAM = {"cells": "how many users and items will come", **Descent.STREAM}
    _factors: int
    _cells: FactorCells
    _shape: dict[str, Any]  # of cells that a file is about to give

    def __init__(
        self,
        *,
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
        random_state: int = 0,
    ) -> None:
        self.factors, self.depth, self.space_gain, self.cells = factors, depth, space_gain, cells
        self.layout, self.readout, self.active, self.seed = layout, readout, active, seed
        self.epochs, self.learning_rate, self.decay = epochs, learning_rate, decay
        self.regularization, self.clip, self.noise = regularization, clip, noise
        self.threads, self.bounds, self.random_state = threads, bounds, random_state

    def resize(self, factors: int) -> Self:
        """Read more or fewer numbers for every entity from the same cells, from now on.

        The cells stay, and so do biases, in blocks from 16 up. The components that are served turn,
        those of all entities alike, so that products over what is read before and after stay; new
        numbers read what lies in their cells, which is noise of others until they have learned.
        """
        self._check_fitted()
        wanted = LIMITS["factors"].check(type(self).__name__, "factors", factors)
        self.factors, self.active = wanted, None
        self._factors, self._cells = wanted, self._cells.resized(wanted)
        self._changed()
        return self

    def _check_together(self, plain: dict[str, Any]) -> None:
        if plain["active"] is not None and plain["active"] > plain["factors"]:
            raise ValueError(
                f"SketchFactorization: active must be at most factors, {plain['factors']}, not "
                f"{plain['active']}."
            )

    def _begin(self, plain: dict[str, Any], train: Interactions, random: Generator) -> None:
        factors, lanes = plain["factors"], LANES[plain["layout"]]
        coded = train.coded()
        dense = (coded.user_ids.size + coded.item_ids.size) * factors
        cells = plain["cells"] or dense / plain["space_gain"]
        self._place(plain, cells, min(factors, _in_blocks(factors * cells / dense, lanes)), random)

    def _place(self, plain: dict[str, Any], cells: float, active: int, random: Generator) -> None:
        """Begin with a table of so many cells, and so many numbers read for every entity."""
        width = max(1, math.ceil(cells / (plain["depth"] * LANES[plain["layout"]])))
        if plain["layout"] == "component":
            active = plain["factors"]
        shape = {name: plain[name] for name in ("depth", "layout", "readout", "seed")}
        self._factors = plain["factors"]
        self._cells = FactorCells(factors=plain["active"] or active, width=width, **shape)
        self._cells.add_noise(START, random)

    def _begin_stream(self, plain: dict[str, Any], batch: Interactions, random: Generator) -> None:
        self._place(plain, plain["cells"], plain["factors"], random)

    def _columns(self, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
        return data.hashed(self._cells.seed)

    def _tables(self) -> list[np.ndarray]:
        return [self._cells.table]

    def _touched(self, users: np.ndarray, items: np.ndarray) -> Touched:
        return [self._cells.touched(np.concatenate([users, items]))]

    def _step(self, plain: dict[str, Any], rate: float, clip: float) -> Callable[..., Any]:
        weight = float(plain["regularization"])
        return partial(self._cells.descend, rate=rate, weight=weight, clip=clip)

    def _add_noise(self, deviation: float, random: Generator) -> None:
        self._cells.add_noise(deviation, random)

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._in_ratings(hash_column(ids, self._cells.seed, name="users"))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._in_ratings(hash_column(ids, item_seed(self._cells.seed), name="items"))

    def _in_ratings(self, hashes: np.ndarray) -> np.ndarray:
        read = self._cells.vectors(hashes) * in_ratings(self._cells.factors, self.scale_)
        out = np.zeros((hashes.size, self._factors), np.float32)
        out[:, : read.shape[1] - 1], out[:, -1] = read[:, :-1], read[:, -1]
        return out

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"cells": self._cells.table}

    def _layout(self) -> dict[str, Cells]:
        size = self._shape["depth"] * self._shape["width"] * LANES[self._shape["layout"]]
        return {"cells": Cells(np.float32, (size,))}

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "size": self._factors, **self._cells.shape}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._shape = {
            name: limit.check("state", name, state[name]) for name, limit in LIMITS.items()
        }
        self._factors = whole(self._shape["factors"], 4096).check("state", "size", state["size"])

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        if not np.isfinite(arrays["cells"]).all():
            raise ValueError("the cells must be finite.")
        self._cells = FactorCells(**self.__dict__.pop("_shape"), table=arrays["cells"])


def _in_blocks(numbers: float, lanes: int) -> int:
    """So many numbers, rounded up to whole blocks."""
    return lanes * math.ceil(numbers / lanes)
