"""Sketched factorization: the factors of all users and items in one count sketch of fixed size.

FactorCells: a count sketch that holds the factors of all users and items.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from sfumato.core.hashing import hash_column
from sfumato.core.storage import Cells
from sfumato.core.validation import RandomState, checked, integer, one_of, optional, positive
from sfumato.data.interactions import Interactions, item_seed
from sfumato.kernels.lanes import aligned
from sfumato.kernels.recommend import sgd_sketch_block as factor_block
from sfumato.kernels.recommend import sgd_sketch_component as factor_component
from sfumato.recommend.factorization.sgd import START, Descent, Touched, in_ratings

__all__ = ["LANES", "LIMITS", "FactorCells", "SketchFactorization"]

LANES = {"block": 16, "component": 1}  # numbers of an entity that lie side by side
LIFT = 2.0  # a bias in blocks is stored as half of itself, so that it disturbs others less
LIMITS: dict[str, Any] = {
    "factors": integer(1, 4096),
    "depth": integer(1, 32),
    "width": integer(1, 2**32),
    "layout": one_of(tuple(LANES)),
    "readout": one_of(("mean", "median")),
    "seed": integer(0, 2**63 - 1),
}


@dataclass(frozen=True)
class FactorCells:
    """Rows of cells, `depth` of them, each of `width` blocks (or single numbers), all float32.

    A read-out is the mean or median over rows of sign * cell (4.1), (4.2). The bias of an entity is
    the part of its read-out along the unit vector `spread`, times `lift`; the components are the
    rest.
    """

    factors: int
    depth: int
    width: int
    layout: str = "block"
    readout: str = "mean"
    seed: int = 0
    table: np.ndarray = field(default_factory=lambda: np.empty(0, np.float32), repr=False)

    def __post_init__(self) -> None:
        checked(self, LIMITS)
        table = aligned(self.depth * self.width * LANES[self.layout], np.float32)
        if self.table.size:
            table[:] = self.table
        object.__setattr__(self, "table", table)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copied array starts anywhere; a table that is built starts a cache line.
        return FactorCells, (*self.shape.values(), self.table)

    @property
    def shape(self) -> dict[str, Any]:
        """All but the numbers, as plain values."""
        return {name: getattr(self, name) for name in LIMITS}

    def resized(self, factors: int) -> "FactorCells":
        """The same cells, of which so many numbers are read for every entity."""
        return FactorCells(**{**self.shape, "factors": factors}, table=self.table)

    def add_noise(self, deviation: float, random: np.random.Generator) -> None:
        """Noise on all cells, so that read-outs get this standard deviation."""
        # The mean of `depth` cells has 1 / depth of their variance.
        noise = random.standard_normal(self.table.size, np.float32)
        self.table[:] += noise * np.float32(deviation * self.depth**0.5)

    def descend(self, *columns: np.ndarray, clip: float, rate: float, weight: float) -> None:
        """One pass of (4.3), (4.4) over hashes of users and items, and what is to be predicted."""
        rates = np.array([rate, -rate * weight, self.lift], np.float32)
        given = self.width, np.float32(clip), rates, self.spread, self._scale
        if self._fast:
            kernel = factor_block.descender(self._blocks, self.depth)
            kernel(*columns, *given, self.table)
        elif self.readout == "mean":
            factor_component.descend_mean(*columns, self._keys, *given[:3], self.table)
        else:
            factor_component.descend(*columns, self._keys, *given, True, self.table)

    def vectors(self, hashes: np.ndarray) -> np.ndarray:
        """Components and, last, the bias: read-outs after a reflection, which keeps products."""
        out = self._read(hashes)[:, : self.factors]
        mirror = self.spread[: self.factors].astype(np.float64)
        mirror[-1] -= 1
        length = float(mirror @ mirror)
        if length > 0:
            out -= np.outer(out @ (mirror * (2 / length)), mirror).astype(np.float32)
        out[:, -1] *= np.float32(self.lift)
        return out

    def write(self, hashes: np.ndarray, vectors: np.ndarray) -> None:
        """Add vectors, as `vectors` gives them, to those of entities; single numbers only."""
        numbers = vectors.copy()
        numbers[:, [0, -1]] = numbers[:, [-1, 0]]  # the bias stands first in the cells
        for row, keys in enumerate(self._keys):
            for number, key in zip(numbers.T, keys, strict=True):
                products = hashes * key
                signs = 1 - 2 * (products >> np.uint64(16) & np.uint64(1)).astype(np.float32)
                np.add.at(self.table, self._positions(row, products), number * signs)

    def touched(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The table in lines of whole blocks, and which of them hold numbers of these entities.

        None where they are so many that all lines cost less than a list of them.
        """
        lines = self.table.reshape(-1, LANES[self.layout])
        if 8 * hashes.size * self._keys.size >= len(lines):
            return lines, None
        rows = (self._positions(row, hashes * keys[:, None]) for row, keys in enumerate(self._keys))
        return lines, np.concatenate([positions.ravel() for positions in rows])

    def _positions(self, row: int, products: np.ndarray) -> np.ndarray:
        """The lines in a row of the sketch that these products of hash and key choose."""
        slots = (products >> np.uint64(32)) * np.uint64(self.width) >> np.uint64(32)
        return row * self.width + slots.astype(np.int64)

    def _read(self, hashes: np.ndarray) -> np.ndarray:
        out = np.empty((hashes.size, self.spread.size), np.float32)
        given = self.table, self._keys, self.width, hashes
        if self._fast:
            factor_block.read(*given, self._scale, out)
        else:
            factor_component.read(*given, self.readout == "median", self._scale, out)
        return out

    @property
    def _fast(self) -> bool:
        return self.layout == "block" and self.readout == "mean"

    @property
    def lift(self) -> float:
        """What the part along `spread` is multiplied by to be the bias."""
        return LIFT if self.layout == "block" else 1.0

    @cached_property
    def spread(self) -> np.ndarray:
        """The direction of the bias: even over the first block, so that resizing keeps it."""
        lanes = LANES[self.layout]
        spread = np.zeros(self._blocks * lanes, np.float32)
        over = min(lanes, self.factors)
        spread[:over] = over**-0.5
        return spread

    @cached_property
    def _scale(self) -> np.ndarray:
        scale = np.zeros(self.spread.size, np.float32)
        scale[: self.factors] = 1 / self.depth
        return scale

    @cached_property
    def _keys(self) -> np.ndarray:
        return factor_block.multipliers(self.depth, self._blocks)

    @property
    def _blocks(self) -> int:
        return -(-self.factors // LANES[self.layout])


class SketchFactorization(Descent):
    """Ratings from factors that share one count sketch: fixed memory, any number of users.

    The thesis, section 4.1, equations (4.1) to (4.9).

    Parameters
    ----------
    factors : int, default=32
        Numbers of each user and item, the bias included.
    depth : int, default=4
        Rows of the sketch (1 is feature hashing).
    space_gain : float, default=1.0
        How many times smaller than the dense table of the users and items of the first fit the
        sketch is (4.9), or cells, float32 numbers in it, which a model that starts with
        `partial_fit` needs.
    cells : int or None, default=None
        TODO.
    layout : str, default="block"
        "block", 16 numbers of an entity side by side, at full speed where factors is a multiple of
        16 (others leave lanes unused), or "component", every number hashed on its own.
    readout : str, default="mean"
        "mean" or "median" (slow) over rows.
    active : int or None, default=None
        How many of the factors are read, the others being 0: None in blocks means as many as the
        table has cells for an entity, in whole blocks, since more only collide, and all of them in
        "component" or where the model starts with `partial_fit`.
    epochs : int, default=20
        TODO.
    learning_rate : float, default=0.05
        TODO.
    decay : float, default=6.0
        TODO.
    regularization : float, default=0.05
        TODO.
    clip : float or None, default=None
        TODO.
    noise : float or None, default=None
        TODO.
    threads : int, default=1
        TODO.
    bounds : tuple or None, default=None
        TODO.
    seed : int, default=0
        Of the hashes; the others as in DenseFactorization.
    random_state : int, Generator or None, default=0
        TODO.

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
    **Guarantee.** The table is as large as `cells` or `space_gain` say, whoever comes; a user never
    seen reads noise near 0, and nothing tells who is known. The same random_state and one thread
    give the same model, bit for bit. Nothing is private; with clip or noise `privacy_label` is
    "measured".

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> seen = Interactions(users=[1, 1, 2, 2], items=[10, 20, 10, 30], ratings=[5, 1, 4, 2])
    >>> model = SketchFactorization(factors=16, cells=4096).fit(seen)
    >>> bool(model.predict(1, 10)[0] > model.predict(1, 20)[0])
    True
    >>> model.nbytes
    16384
    """

    version = 2  # a key has one hash, whatever its type
    LIMITS = Descent.LIMITS | {
        "depth": LIMITS["depth"],
        "space_gain": positive,
        "cells": optional(integer(1, 2**40)),
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
        random_state: RandomState = 0,
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
        self._factors = integer(self._shape["factors"], 4096).check("state", "size", state["size"])

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        if not np.isfinite(arrays["cells"]).all():
            raise ValueError("the cells must be finite.")
        self._cells = FactorCells(**self.__dict__.pop("_shape"), table=arrays["cells"])


def _in_blocks(numbers: float, lanes: int) -> int:
    """So many numbers, rounded up to whole blocks."""
    return lanes * math.ceil(numbers / lanes)
