"""The tables of the density benchmarks: each with public bounds and a bandwidth fixed beforehand.

The paper's salaries, codrna, covtype, nomao, occupancy, pulsar and naval are not available here;
STANDS_FOR names what stands for each. Bounds are what a curator knows without looking: the range of
a byte, of an angle, of an age, or a round number of deviations where a table comes standardised.
"""

import gzip
from dataclasses import dataclass
from functools import cache
from math import pi, sqrt

import numpy as np
from _ratings import folder

from sfumato.sketch.kernel_sums.radial_kernels import profile

STANDS_FOR = {
    "skin": "skin of the paper, the same file",
    "age": "NYC salaries: ages of census-income",
    "wage": "SF salaries: hourly wages above 0 of census-income, in cents",
    "magic": "codrna and pulsar: magic.gamma, standardised",
    "cover": "covtype: the ten numeric columns of two of its classes",
    "census": "nomao and occupancy: census-income",
    "airfoil": "airfoil of the paper, the same file",
    "gas": "gas of the paper, most likely an extract of it",
    "elevators": "naval: elevators",
}
NUMERIC = (0, 5, 16, 17, 18, 30, 36, 39)  # of census-income: ages, money, employers, weeks
NUMERIC_TOP = (90, 9999, 99_999, 4_608, 99_999, 6, 2, 52)
WEIGHT, YEAR, LABEL = 24, 40, 41  # the instance weight is no attribute
COVER = ((0, 0, 0, 0, -200, 0, 0, 0, 0, 0), (4000, 360, 90, 1400, 700, 7200, 255, 255, 255, 7200))


@dataclass(frozen=True)
class Kernel:
    """The collision probability of the p-stable hash, and where its Fourier features come from."""

    bandwidth: float

    def __call__(self, distance):
        return profile("p-stable", distance / self.bandwidth)

    def frequencies(self, count, dimension, rng):
        """Normal directions times draws of the density (1 - cos x) / (pi x^2), by rejection."""
        drawn = np.empty(0)
        while drawn.size < count:
            x = 2 / rng.uniform(-1, 1, 4 * count)  # the tail of 1 / x^2 beyond 2
            inside = rng.random(x.size) < 0.5
            x = np.where(inside, rng.uniform(-2, 2, x.size), x)
            top = np.where(inside, 1 / (2 * pi), 2 / (pi * x**2))
            retained = rng.random(x.size) * top < (1 - np.cos(x)) / (pi * x**2)
            drawn = np.append(drawn, x[retained])
        return rng.normal(size=(count, dimension)) * drawn[:count, None] / self.bandwidth


@dataclass(frozen=True)
class Table:
    """Points, their public box, a bandwidth, and a class or number for each where there is one."""

    name: str
    points: np.ndarray
    bounds: tuple
    bandwidth: float
    target: np.ndarray | None = None

    def held_out(self, queries, seed=0):
        """The points without some drawn ones, and those as queries."""
        order = np.random.default_rng(seed).permutation(len(self.points))
        return self.points[order[queries:]], self.points[order[:queries]]

    def in_unit_box(self, points):
        """The points moved and shrunk by one factor, so that distances keep their ratios."""
        low, high = (np.broadcast_to(np.asarray(b, float), points.shape[1]) for b in self.bounds)
        return (np.clip(points, low, high) - low) / self.span

    @property
    def span(self):
        low, high = (np.asarray(b, float) for b in self.bounds)
        return float(np.max(high - low))


@cache
def skin():
    values = np.loadtxt(folder() / "uci-skin" / "Skin_NonSkin.txt.gz")
    return Table("skin", values[:, :3], (0, 255), 5.0, values[:, 3].astype(int))


@cache
def census_rows(part):
    with gzip.open(folder() / "census-income" / f"census-income.{part}.gz", "rt") as file:
        return [[cell.strip() for cell in line.rstrip(".\n").split(",")] for line in file]


@cache
def ages():
    column = np.array([float(row[0]) for row in census_rows("data")])
    return Table("age", column[:, None], (0, 90), 2.0)


@cache
def wages():
    column = np.array([float(row[5]) for row in census_rows("data")])
    return Table("wage", column[column > 0][:, None], (0, 9999), 100.0)


def adbench(number_and_name):
    held = np.load(folder() / "adbench" / f"{number_and_name}.npz", allow_pickle=True)
    return held["X"].astype(float), held["y"].astype(int)


@cache
def magic():
    points, kind = adbench("22_magic.gamma")
    return Table("magic", points, (-4, 4), 0.5, kind)


@cache
def cover():
    points, kind = adbench("10_cover")
    return Table("cover", points, COVER, 20.0, kind)


@cache
def census():
    """Train and test of census-income: numbers in their box, and categories as columns of 0 and 1.

    The categories are those of the training file, a stand-in for the published code book.
    """
    train, test = census_rows("data"), census_rows("test")
    sizes = len(train)
    columns = list(zip(*(train + test), strict=True))
    made, top = [], []
    for j, column in enumerate(columns):
        if j in (WEIGHT, LABEL):
            continue
        if j in NUMERIC:
            made.append(np.array(column, float)[:, None])
            top.append(NUMERIC_TOP[NUMERIC.index(j)])
            continue
        names, codes = np.unique(column, return_inverse=True)
        made.append(np.eye(len(names))[codes])
        top += [1] * len(names)
    points = np.hstack(made)
    rich = np.array([label.startswith("50000") for label in columns[LABEL]]).astype(int)
    whole = Table("census", points, (tuple([0] * len(top)), tuple(top)), sqrt(len(top)), rich)
    return whole, sizes


@cache
def regression(name):
    values = np.loadtxt(folder() / "uci-regression" / f"{name}.csv.gz", delimiter=",")
    return values[:, :-1], values[:, -1]
