"""Every private class as a path from rows to what may be seen, with rows that are hard for it.

A new private class joins by one line in PATHS; tests/test_private_paths.py finds all of them and
fails for one that has not. A path takes a list of plain rows, so that odd ones can be added; what
it returns has the statement of its promise.
"""

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sfumato.data import Interactions
from sfumato.density import (
    NodeDensity,
    PrivateTableSampler,
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
    SketchSampler,
)
from sfumato.mine.cluster import PrivateBFR, PrivateKMeans
from sfumato.mine.decompose import PrivatePCA
from sfumato.mine.itemsets import PrivateItemsets
from sfumato.mine.rank import PrivateDegreeHistogram
from sfumato.privacy.mechanisms.additive import Gaussian, Laplace
from sfumato.privacy.mechanisms.binary_tree import BinaryTreeCounter
from sfumato.privacy.mechanisms.pan_private import PanPrivateCounter, PanPrivateDistinct
from sfumato.privacy.mechanisms.posterior_sampling import (
    BetaBernoulli,
    DirichletMultinomial,
    GaussianMean,
    PosteriorSample,
)
from sfumato.privacy.mechanisms.randomized_response import BinaryResponse, KaryResponse
from sfumato.privacy.mechanisms.sample_and_aggregate import SampleAndAggregate
from sfumato.privacy.mechanisms.selection import Exponential, PermuteAndFlip, ReportNoisyMax
from sfumato.privacy.mechanisms.smooth_sensitivity import SmoothMedian
from sfumato.profile import Blip, Jlt, Minima, Signs
from sfumato.recommend import (
    PrivateFactorization,
    PrivateLinearItems,
    PrivateNeighbours,
    PrivatePopular,
)
from sfumato.sketch import (
    AMS,
    BloomFilter,
    CosineSketch,
    CountMin,
    CountSketch,
    HyperLogLog,
    KernelFourier,
    KernelGrid,
    KernelSlices,
    MinHash,
    Moments,
    Race,
)
from sfumato.sketch.lsh import Angular, Euclidean, Jaccard

Rows = list[Any]


@dataclass(frozen=True)
class Path:
    """A private class: good rows, odd ones, and the way from rows to a result with a statement.

    boxes: containers that rows come in. same: whether all that comes out must be equal where the
    noisy sums are; not so for answers at random, whose noise is not a sum. fixed: whether the
    number of rows is public, so that a row can only be replaced. measured: whether the promise is
    of these rows, not of a sensitivity that the caller states. replaced: how many units apart data
    are in which one row stands for another.
    """

    of: Callable[[Any], Any]
    rows: Rows
    odd: dict[str, Any]
    boxes: tuple[Callable[[Rows], Any], ...] = (list,)
    same: bool = True
    fixed: bool = False
    measured: bool = True
    replaced: int = 2


def objects(rows: Rows) -> np.ndarray:
    """A column of Python objects, as frames make of mixed types."""
    column = np.empty(len(rows), object)
    column[:] = rows
    return column


def table(rows: Rows) -> Any:
    """A frame of objects where all rows have as many cells, else the list."""
    if len({len(row) if isinstance(row, list) else 0 for row in rows}) != 1 or not rows[0]:
        return rows
    cells = np.empty((len(rows), len(rows[0])), object)
    for at, row in enumerate(rows):
        for column, cell in enumerate(row):
            cells[at, column] = cell
    return pd.DataFrame(cells)


CELLS = {
    "text": "guest",
    "its text": "0.5",
    "none": None,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "NaN": math.nan,
    "infinite": math.inf,
    "minus infinite": -math.inf,
    "huge": 1e300,
    "beyond floats": 10**400,
    "tiny": 5e-324,
    "zero": 0,
    "true": True,
    "complex": 1j,
    "date": datetime.date(2026, 5, 17),
    "bytes": b"\xff",
    "empty": "",
    "nested": [1.0],
    "object": object(),
}
KEYS = [7, -3, 2**53 + 1, 0, 12, 7, 7, *range(40)]
ODD_KEYS = {**CELLS, "again": 7, "again as text": "7", "again as float": 7.0, "wide": 2**70}
KEY_BOXES = (list, objects, lambda rows: pd.Series(objects(rows)))


def keyed(make: Callable[[], Any], **terms: Any) -> Path:
    terms = {"epsilon": 1.0, **terms}
    return Path(lambda rows: make().update(rows).release(**terms), KEYS, ODD_KEYS, KEY_BOXES)


POINTS = np.random.default_rng(0).uniform(-3, 3, (40, 2)).round(3).tolist()
BOX = ([-3, -3], [3, 3])
ODD_POINTS = {
    **{name: [cell, 0.5] for name, cell in CELLS.items()},
    "at a bound": [3, -3],
    "beyond": [9, -9.5],
    "again": POINTS[0],
    "short": [0.5],
    "long": [0.5] * 3,
    "no row": None,
    "a word": "guest",
    "empty row": [],
    "zeros": [0, 0],
}


def points(make: Callable[[], Any], **terms: Any) -> Path:
    terms = {"epsilon": 1.0, **terms}

    def path(rows: Any) -> Any:
        return make().update(rows).release(**terms)

    return Path(path, POINTS, ODD_POINTS, (list, table))


def fitted(make: Callable[[], Any], y: Callable[[int], Any] | None = None) -> Path:
    """An estimator; y gives what stands beside row n."""

    def path(rows: Any) -> Any:
        beside = None if y is None else [y(at) for at in range(len(rows))]
        return make().fit(rows, beside)

    return Path(path, POINTS, ODD_POINTS, (list, table))


def labelled(make: Callable[[], Any], good: Callable[[int], Any]) -> Path:
    """An estimator whose odd rows have odd labels."""
    rows = [(row, good(at)) for at, row in enumerate(POINTS)]
    odd = {name: (POINTS[0], cell) for name, cell in CELLS.items()}
    odd["unlisted"] = (POINTS[0], 77)
    return Path(lambda rows: make().fit([r for r, _ in rows], [y for _, y in rows]), rows, odd)


SETS = [[1, 2, 3], [2, 3], [7, 2**53 + 1], ["a", "b"], []] * 6
ODD_SETS = {**{name: [cell, 2] for name, cell in CELLS.items()}, "no set": None, "word": "guest"}
EDGES = [[a, b] for a in range(9) for b in range(a + 1, 9, 3)]
ODD_EDGES = {
    **{name: [cell, 2] for name, cell in CELLS.items()},
    "two words": ["x", "y"],
    "loop": [3, 3],
    "again": EDGES[0],
    "short": [3],
    "long": [3, 4, 5],
    "none at all": None,
}
RATED = [[user, item, 1 + (user * item) % 5] for user in range(12) for item in range(0, 9, 2)]
ODD_RATINGS = {
    **{f"{name}, user": [cell, 2, 3.0] for name, cell in CELLS.items()},
    **{f"{name}, item": [3, cell, 3.0] for name, cell in CELLS.items()},
    **{f"{name}, rating": [3, 2, cell] for name, cell in CELLS.items()},
    "again": RATED[0],
    "written": ["3", "4", "5"],
    "unlisted": [99, 99, 3.0],
}
LISTS = dict(users=range(12), catalogue=range(9))


def interactions(rows: Any) -> Interactions:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return Interactions(*columns, invalid="drop")


def rated(of: Callable[[Interactions], Any], **how: Any) -> Path:
    return Path(lambda rows: of(interactions(rows)), RATED, ODD_RATINGS, **how)


def answered(mechanism: Any, rows: Rows, **how: Any) -> Path:
    """A mechanism of a column of rows."""
    fixed = isinstance(mechanism, BinaryResponse | KaryResponse | BinaryTreeCounter)

    def path(rows: Any) -> Any:
        return mechanism.release(rows, **how)

    return Path(path, rows, CELLS, KEY_BOXES, same=False, fixed=fixed)


def counted(mechanism: Any, size: int) -> Path:
    """A mechanism of integers, which are counts of rows and may be beyond 64 bits."""

    def path(rows: Any) -> Any:
        return mechanism.release([sum(rows)] * size if size else sum(rows))

    odd = {"beyond 64 bits": 10**30, "below": -(10**30), "wide": 2**63}
    return Path(path, [1] * 20, odd, same=False, measured=False)


def pan_private(mechanism: Any, odd: dict[str, Any]) -> Path:
    """A counter that is fed batch after batch."""

    def path(rows: Any) -> Any:
        under_way = mechanism.start().update(rows)
        return mechanism.release((rows, [])), under_way.output()

    return Path(path, [3, 1, 2] * 5, odd, KEY_BOXES, same=False)


def density(backend: str) -> Path:
    how = dict(epsilon=1.0, bounds=BOX, backend=backend, rows=16, width=64, bandwidth=1.0)
    return fitted(lambda: SketchDensity(**how))


CLASSES = dict(epsilon=1.0, bounds=BOX, classes=list(range(30)))  # many for 40 rows
TARGETS = dict(epsilon=1.0, bounds=BOX, target_bounds=(-6, 6))
FACTORS = dict(epsilon=4, delta=1e-6, bounds=(1, 5), factors=2)

PATHS: dict[str, list[Path]] = {}
PATHS["CountMin"] = [
    keyed(lambda: CountMin(64)),
    keyed(lambda: CountMin(64), delta=1e-6, noise="gaussian"),
    keyed(lambda: CountMin(64), relation="replace"),
]
PATHS["CountSketch"] = [keyed(lambda: CountSketch(64, track=4))]
PATHS["AMS"] = [keyed(lambda: AMS(64)), keyed(lambda: AMS(64, kind="tug-of-war"))]
PATHS["BloomFilter"] = [keyed(lambda: BloomFilter(512, 3))]
PATHS["HyperLogLog"] = [keyed(lambda: HyperLogLog(6), largest=10**6)]
PATHS["MinHash"] = [keyed(lambda: MinHash(64, kind="one-permutation"))]
PATHS["KernelGrid"] = [
    points(lambda: KernelGrid(2.0, BOX)),
    Path(
        lambda rows: KernelGrid(2.0, BOX).update(rows).release_adaptive(1.0),
        points(lambda: KernelGrid(2.0, BOX)).rows,
        points(lambda: KernelGrid(2.0, BOX)).odd,
        points(lambda: KernelGrid(2.0, BOX)).boxes,
    ),
]
PATHS["KernelSlices"] = [points(lambda: KernelSlices(2.0, BOX, rows=8))]
PATHS["KernelFourier"] = [points(lambda: KernelFourier(2.0, BOX, rows=8))]
PATHS["Moments"] = [
    points(lambda: Moments(BOX)),
    points(lambda: Moments(BOX), delta=1e-6, noise="gaussian"),
]
PATHS["Race"] = [
    points(lambda: Race(16, 64, Euclidean(1.0, (-3, 3), dimension=2))),
    points(lambda: Race(9, 8, Angular(3, 2))),
    Path(lambda rows: Race(16, 64, Jaccard()).update(rows).release(1.0), SETS, ODD_SETS),
]
PATHS["CosineSketch"] = [
    Path(
        lambda rows: CosineSketch(70, dimension=2).release_rows(
            rows, 1.0, 1e-6, bound=3.0, unit="user"
        ),
        POINTS,
        ODD_POINTS,
        (list, table),
        fixed=True,
    )
]
PATHS["SketchDensity"] = [density(name) for name in ("race", "grid", "slices", "fourier")]
PATHS["SketchSampler"] = [
    fitted(lambda: SketchSampler(epsilon=1.0, bounds=BOX, backend="race", rows=16, width=64))
]
TABLE = {"size": (-3.0, 3.0), "age": range(9), "city": ["Paris", "Rome"], "kind": ["x", "y"]}
PEOPLE = [[at % 7 - 3.0, at % 9, ["Paris", "Rome"][at % 2], "xy"[at % 3 % 2]] for at in range(60)]
ODD_PEOPLE = {
    **{
        f"{name}, column {column}": [*PEOPLE[0][:column], cell, *PEOPLE[0][column + 1 :]]
        for name, cell in CELLS.items()
        for column in range(4)
    },
    "beyond": [99.0, -4, "Rome", "x"],
    "unlisted": [0.0, 3, "Oslo", "x"],
    "a class beyond": [0.0, 3, "Rome", "z"],
    "again": PEOPLE[0],
    "short": [0.5],
    "long": [0.5] * 5,
    "no row": None,
    "a word": "guest",
    "empty row": [],
}


def sampled(**options: Any) -> Path:
    options = {"epsilon": 1.0, "bins": 8, "groups": 3, **options}

    def path(rows: Any) -> Any:
        model = PrivateTableSampler(TABLE, target="kind", **options)
        return model.fit(rows if isinstance(rows, list) else rows.set_axis([*TABLE], axis=1))

    return Path(path, PEOPLE, ODD_PEOPLE, (list, table))


PATHS["PrivateTableSampler"] = [
    sampled(),
    sampled(epsilon=200.0),  # with pairs
    sampled(epsilon=200.0, relation="replace", nullable=["size", "city"]),
    sampled(epsilon=30.0, delta=0.1, nullable=["age"]),
]
PATHS["SketchAnomalyDetector"] = [
    fitted(lambda: SketchAnomalyDetector(epsilon=1.0, bounds=BOX, bins=8, projections=4))
]
PATHS["SketchClassifier"] = [
    fitted(lambda: SketchClassifier(method="columns", bins=8, **CLASSES), lambda at: at % 30),
    fitted(lambda: SketchClassifier(method="kernel", **CLASSES), lambda at: at % 30),
    labelled(lambda: SketchClassifier(method="columns", bins=8, **CLASSES), lambda at: at % 30),
]
PATHS["SketchRegressor"] = [
    fitted(lambda: SketchRegressor(method="statistics", **TARGETS), lambda at: at % 7 - 3.0),
    fitted(lambda: SketchRegressor(method="angles", rows=16, **TARGETS), lambda at: at % 7 - 3.0),
    fitted(lambda: SketchRegressor(method="surrogate", rows=16, **TARGETS), lambda at: 1.0),
    labelled(lambda: SketchRegressor(method="statistics", **TARGETS), lambda at: at % 7 - 3.0),
]
PATHS["NodeDensity"] = [
    Path(
        lambda rows: NodeDensity(rows=16, width=64, epsilon=1.0).fit(rows),
        EDGES,
        ODD_EDGES,
        replaced=3,  # a list goes, the same list comes without an edge, and another one comes
    ),
    Path(
        lambda rows: NodeDensity(rows=16, width=64, epsilon=1.0, unit="edge").fit(rows),
        EDGES,
        ODD_EDGES,
        (list, table),
    ),
]
PATHS["PrivateItemsets"] = [
    Path(
        lambda rows, delta=delta, size=size: (
            PrivateItemsets(
                40, delta, max_items=3, max_size=size, vocabulary=["1", "2", "3", "7", "a", "b"]
            )
            .fit(rows)
            .release_
        ),
        SETS,
        {**ODD_SETS, "many": [*range(50), "a", "b"], "its texts": ["1", "2.0", "3", "b"]},
        (list, objects),
    )
    for delta, size in ((0.0, 3), (1e-6, 2), (0.0, 1))
]
PATHS["PrivatePCA"] = [
    fitted(lambda: PrivatePCA(1, epsilon=1.0, bounds=BOX)),
    fitted(lambda: PrivatePCA(1, epsilon=1.0, delta=1e-6, bounds=BOX)),
]
PATHS["PrivateDegreeHistogram"] = [
    Path(
        lambda rows, options=options: (
            PrivateDegreeHistogram(1.0, max_degree=6, **options).fit(rows).release_
        ),
        EDGES,
        ODD_EDGES,
        (list, table),
    )
    for options in (
        {},
        dict(degree="in", method="histogram"),
        dict(degree="undirected"),
        dict(degree="undirected", method="sequence", nodes=[*range(9), "x", "y", "guest"]),
        dict(degree="undirected", method="histogram", nodes=range(9)),
    )
]
PATHS["PrivateKMeans"] = [
    Path(
        lambda rows, options=options: PrivateKMeans(3, bounds=BOX, **options).fit(rows).release_,
        POINTS,
        ODD_POINTS,
        (list, table),
    )
    for options in ({"epsilon": 4}, {"epsilon": 4, "delta": 1e-6, "cells": 0, "rounds": 3})
]
PATHS["PrivateBFR"] = [
    Path(
        lambda rows, delta=delta: PrivateBFR(3, 4, delta, bounds=BOX).fit(rows).release_,
        POINTS,
        ODD_POINTS,
        (list, table),
    )
    for delta in (0.0, 1e-6)
]
PATHS["PrivateFactorization"] = [
    rated(lambda train: PrivateFactorization(**FACTORS).fit(train, **LISTS)),
    rated(lambda train: PrivateFactorization(covers="joint", **FACTORS).fit(train, **LISTS)),
]
PATHS["PrivateNeighbours"] = [
    rated(lambda train: PrivateNeighbours(epsilon=4, per_user=4).fit(train, catalogue=range(9))),
]
PATHS["PrivatePopular"] = [
    rated(lambda train: PrivatePopular(epsilon=4, delta=1e-6).fit(train, catalogue=range(9))),
]
PATHS["PrivateLinearItems"] = [
    rated(lambda train: PrivateLinearItems(epsilon=4, delta=1e-6).fit(train, catalogue=range(9))),
]
PATHS["Blip"] = [rated(lambda rows: Blip(bits=64, epsilon=4).release(rows, users=range(12)))]
PATHS["Jlt"] = [rated(lambda rows: Jlt(dimensions=8, epsilon=4).release(rows, users=range(12)))]
PATHS["Signs"] = [rated(lambda rows: Signs(bits=16, epsilon=4).release(rows, users=range(12)))]
PATHS["Minima"] = [rated(lambda rows: Minima(bins=16, epsilon=4).release(rows, users=range(12)))]

PATHS["Laplace"] = [counted(Laplace(1, 1), 0), counted(Laplace(2, 1), 2)]
PATHS["Gaussian"] = [counted(Gaussian(1, 1, 1e-6), 0)]
PATHS["Exponential"] = [counted(Exponential(1, 1, candidates=3), 3)]
PATHS["PermuteAndFlip"] = [counted(PermuteAndFlip(1, 1, candidates=3), 3)]
PATHS["ReportNoisyMax"] = [counted(ReportNoisyMax(1, 1, candidates=3), 3)]
PATHS["SmoothMedian"] = [answered(SmoothMedian(1, 0, 9), [3, 1, 2] * 5)]
PATHS["SampleAndAggregate"] = [
    answered(SampleAndAggregate(np.mean, 1, 3, 0, 9), [3.0, 1.0, 2.0] * 5),
    answered(SampleAndAggregate(np.mean, 1, 3, 0, 9, aggregate="median"), [3.0, 1.0] * 5),
]
PATHS["PosteriorSample"] = [
    answered(PosteriorSample(BetaBernoulli(0.1, 5), 1), [0, 1, 1] * 5),
    answered(PosteriorSample(DirichletMultinomial(3, 5), 1), [0, 1, 2] * 5),
    answered(PosteriorSample(GaussianMean(0, 9, 3, 5, 4, 2), 1), [0.5, 1.5] * 5),
]
PATHS["BinaryTreeCounter"] = [answered(BinaryTreeCounter(1, 32), [0, 1, 1] * 5)]
PATHS["BinaryResponse"] = [answered(BinaryResponse(1.0), [0, 1, 1] * 5, unit="user")]
PATHS["KaryResponse"] = [answered(KaryResponse(3, 1.0), [0, 1, 2] * 5, unit="user")]
PATHS["PanPrivateCounter"] = [pan_private(PanPrivateCounter(1, 1, outputs=1), CELLS)]
PATHS["PanPrivateDistinct"] = [pan_private(PanPrivateDistinct(1, 1, cells=16), ODD_KEYS)]
