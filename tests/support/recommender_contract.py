"""Models that tests share: one whose vectors are known, and makers of every public model."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.core.ids import positions
from sfumato.core.storage import Cells
from sfumato.data import Interactions
from sfumato.recommend import (
    ALS,
    BayesianFactorization,
    Catalogue,
    DenseFactorization,
    Factorization,
    ImputedSVD,
    LangevinFactorization,
    PrivateFactorization,
    SketchFactorization,
    SVDpp,
)
from sfumato.recommend.base import OPTIONAL_BOUNDS


class Known(Factorization):
    """A model whose vectors are given: row u belongs to user u, row i to the i-th of the items."""

    LIMITS = {"bounds": OPTIONAL_BOUNDS}

    def __init__(self, *, bounds: Any = None) -> None:
        self.bounds = bounds

    @classmethod
    def of(cls, users, items, ids=None, *, mean=3.0, bounds=(1.0, 5.0)) -> "Known":
        model = cls(bounds=bounds)
        model.users_ = np.array(users, np.float32)
        model.items_ = np.array(items, np.float32)
        model.mean_, (model.low_, model.high_) = mean, bounds
        model.catalogue_ = Catalogue(np.arange(len(items)) if ids is None else ids)
        return model

    def _user_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._rows(self.users_, ids if ids.dtype == np.int64 else np.full(ids.size, -1))

    def _item_vectors(self, ids: np.ndarray) -> np.ndarray:
        return self._rows(self.items_, positions(ids, self.catalogue_.ids))

    @staticmethod
    def _rows(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        inside = (rows >= 0) & (rows < len(vectors))
        return np.where(inside[:, None], vectors[rows * inside], np.float32(0))

    def _layout(self) -> dict[str, Cells]:
        return {"users_": Cells(np.float32, (-1, -1)), "items_": Cells(np.float32, (-1, -1))}


def random_world(users: int, items: int, factors: int, seed: int = 0) -> Known:
    """A known model of normal vectors, whose answers a test works out by plain NumPy."""
    rng = np.random.default_rng(seed)
    return Known.of(rng.normal(0, 0.5, (users, factors)), rng.normal(0, 0.5, (items, factors)))


def checkerboard(users: int = 12, items: int = 16) -> Interactions:
    """Even users give 5 to even items and 1 to odd ones, odd users the reverse; all are rated."""
    who, what = np.divmod(np.arange(users * items), items)
    return Interactions(who + 100, what + 500, np.where((who + what) % 2, 1.0, 5.0))


def known_rank(seed=0, users=300, items=200, rows=20_000, rank=3):
    """Ratings of known rank: the spread is 1, of which noise is 0.3."""
    random = np.random.default_rng(seed)
    p, q = random.normal(0, 1, (users, rank)), random.normal(0, 1, (items, rank))
    who, what = random.integers(users, size=rows), random.integers(items, size=rows)
    bias = random.normal(0, 0.5, items)[what]
    ratings = 3 + bias + (p[who] * q[what]).sum(1) / rank + random.normal(0, 0.3, rows)
    return Interactions(who, what, np.clip(ratings, 1, 5)).split(0.8, 0.2, random_state=seed)


def rmse(model, data):
    return float(np.sqrt(np.mean((model.predict(data.users, data.items) - data.ratings) ** 2)))


Maker = Callable[[], Factorization]
MODELS: dict[str, list[Maker]] = {}
MODELS["DenseFactorization"] = [
    lambda: DenseFactorization(epochs=10),
    lambda: DenseFactorization(factors=7, epochs=10, bounds=(1, 5)),
    lambda: DenseFactorization(factors=8, epochs=10, clip=2.0, noise=1e-6),
]
MODELS["SketchFactorization"] = [
    lambda: SketchFactorization(epochs=10),
    lambda: SketchFactorization(factors=16, depth=1, epochs=10, bounds=(1, 5)),
    lambda: SketchFactorization(factors=16, cells=4096, epochs=10, clip=2.0, noise=1e-6),
    lambda: SketchFactorization(factors=5, layout="component", readout="median", epochs=10),
]
MODELS["SVDpp"] = [
    lambda: SVDpp(epochs=10),
    lambda: SVDpp(factors=7, epochs=10, regularization=0.1, bounds=(1, 5)),
]
MODELS["PrivateFactorization"] = [
    lambda: PrivateFactorization(epsilon=50, delta=1e-6, bounds=(1, 5), rows=200),
    lambda: PrivateFactorization(epsilon=50, delta=1e-6, bounds=(1, 5), covers="joint", rows=90),
    lambda: PrivateFactorization(
        epsilon=50, delta=1e-6, bounds=(1, 5), unit="user", covers="joint", per_user=30
    ),
]
MODELS["ALS"] = [
    lambda: ALS(factors=8, epochs=4),
    lambda: ALS(factors=20, regularization=0.3, solver="cholesky", weighting="log", epochs=4),
]
MODELS["BayesianFactorization"] = [
    lambda: BayesianFactorization(factors=8, epochs=20, burn_in=5),
    lambda: BayesianFactorization(factors=3, epochs=20, burn_in=5, implicit=None, bounds=(1, 5)),
]
MODELS["LangevinFactorization"] = [
    lambda: LangevinFactorization(factors=4, epochs=60, burn_in=20),
]
MODELS["ImputedSVD"] = [
    lambda: ImputedSVD(factors=6, iterations=5),
    lambda: ImputedSVD(factors=3, shrinkage=0.0, iterations=0, bounds=(1, 5)),
]

RATED, SHELF = 60, 40  # users and items of the small world
BOUNDS = (1.0, 5.0)


def small_world(seed: int = 5) -> Interactions:
    """Ratings from 1 to 5 with clear biases of items, each pair at most once."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(RATED * SHELF)[: RATED * SHELF * 3 // 4]
    users, items = np.divmod(pairs, SHELF)
    exact = 3 + np.linspace(-1.2, 1.2, SHELF)[items] + rng.normal(0, 0.5, RATED)[users]
    ratings = np.clip(np.rint(exact + rng.normal(0, 0.3, pairs.size)), *BOUNDS)
    return Interactions(users, items + 1000, ratings)


TRAIN = small_world()
ITEMS = np.arange(SHELF) + 1000


def learned(make: Maker, train: Interactions = TRAIN, **options: Any) -> Factorization:
    """A model of this maker after it learned the small world, or other ratings."""
    return make().fit(train, **{"catalogue": ITEMS, **options})
