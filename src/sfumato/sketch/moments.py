"""Moments: exact sums of products, all that least squares needs of any number of rows."""

from fractions import Fraction
from typing import Annotated, Any, Self, Unpack

import numpy as np

from sfumato._require import whole
from sfumato.sketch._base import Cells, Sketch
from sfumato.sketch._heaviest import bounded_weight, check_heaviest, heaviest
from sfumato.sketch._moment_noise import MomentPlan
from sfumato.sketch._points import BOUNDS, Box, Pair, weighed_points
from sfumato.sketch._polynomials import CELLS, Polynomials
from sfumato.sketch._release import Options, Terms
from sfumato.sketch.released_moments import ReleasedMoments

__all__ = ["Moments"]

ROWS = 2**13  # that are multiplied at a time
EXACT = 2**53  # whole numbers that a float holds
MASS = 2**62  # the most that a cell may hold
LIGHTEST = 1 - 2**31


class Moments(Sketch):
    """Sums of products of columns, the last of which is a target to be told from the others.

    Guarantee: every column is scaled to -1 .. 1 by its public bounds and rounded to a whole number
    of 2 / (2**bits - 1); products T_a T_b of Chebyshev polynomials of those, up to twice the
    degree, and of the target with those up to the degree, are summed in whole numbers. So merging
    and removal are exact, and no row moves any sum by more than (2**bits - 1)**2, its unit.
    Parameters: bounds, a pair (low, high) with one number per column, target last: rows outside are
    moved to the nearest point inside, and `clipped` tells how many; degree, 1 for a linear and 2
    for a quadratic regression; bits, 8 to 18, of a number.
    Weights are whole numbers; negative ones remove what was added, never more than all of it.

    >>> seen = Moments(([0, 0], [1, 10])).update([[0.0, 1.0], [0.5, 5.0], [1.0, 9.0]])
    >>> seen.total, seen.matrix().round(3)[1]
    (3, array([0. , 2. , 1.6]))

    Chebyshev polynomials: Mason and Handscomb 2003, section 2.4.
    """

    bounds: Annotated[Pair, BOUNDS]
    degree: Annotated[int, whole(1, 2)]
    bits: Annotated[int, whole(8, 18)]
    total: int
    clipped: int
    heaviest: int
    mass: int
    _inputs: np.ndarray
    _targets: np.ndarray
    _scalars = {"total": 0, "clipped": 0, "heaviest": 0, "mass": 0}

    def __init__(self, bounds: Any, degree: int = 1, *, bits: int = 14) -> None:
        self._set_parameters(bounds=bounds, degree=degree, bits=bits)
        self._allocate()

    @property
    def dimension(self) -> int:
        """How many columns a row has, with the target."""
        return len(self.bounds[0])

    def update(self, rows: Any, weights: Any = None, *, clip: int | None = None) -> Self:
        """Add the products of every row, by its whole weight or once.

        Rows are read one by one: what is beyond the bounds is clipped to them, and a row that is
        not all numbers is left out, so that no row is refused or changes another.
        Parameters: weights, whole numbers; clip, a public bound of their size that they are clipped
        to: each weight is then read by itself and none is refused, as a private release needs.
        """
        box = Box(*self.bounds)
        column, weighted = weighed_points("Moments", rows, self.dimension, weights, clip)
        table, outside = box.clip(column)
        sizes = None if weighted is None else np.abs(weighted)
        added = len(table) if weighted is None else int(weighted.sum())
        mass = self.mass + (len(table) if sizes is None else int(sizes.sum()))
        self._check_mass(mass)
        most = heaviest(sizes, len(table))
        inputs, targets = self._sums(box.steps(table, self.bits), weighted, most)
        # First what bounds an event's reach: an update that is stopped half-way claims too much.
        self.heaviest, self.mass = max(self.heaviest, most), mass
        self._inputs += inputs
        self._targets += targets
        self.total += added
        self.clipped += outside
        return self

    def size(self) -> float:
        """How many rows there are, by weight."""
        return float(self.total)

    def matrix(self) -> np.ndarray:
        """Sums of products of every two features, the first being 1 and the last the target.

        Columns are scaled to -1 .. 1 and features in the order of `features`.
        """
        unit = float(self._most) ** 2
        return self._polynomials.matrix(self._inputs / unit, self._targets / unit)

    @property
    def features(self) -> list[tuple[int, ...]]:
        """The columns that each feature multiplies, twice the same one being T_2 of it."""
        return self._polynomials.features

    def release(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        weight: int = 1,
        noise: str | None = None,
        **options: Unpack[Options],
    ) -> ReleasedMoments:
        """A private copy with noise on every sum.

        Guarantee: (epsilon, delta)-private for one unit: an event of weight w moves every sum by at
        most w times the unit, in either direction, and so twice that where it is exchanged. So does
        a removal, even of a row that had not been added: none is refused. Sums of inputs take 3/5
        of the cost, those with the target 2/5. At delta 0 each part gets noise in a
        cube (`sfumato.privacy._cube`), which costs largest change / scale; with a delta it may be
        discrete Gaussian instead, of which k sums cost k change**2 / (2 sigma**2) in zCDP,
        whichever has the smaller variance.
        Parameters: epsilon above 0; delta from 0 to 1; weight, the most that one event weighs,
        public, refused where the sketch holds a heavier one; noise, "cube" or "gaussian"; options:
        ledger and dataset, unit, relation, contributions, release_id (docs/privacy.md).

        >>> told = Moments(([0, 0], [1, 10])).update([[0.5, 4]]).release(epsilon=1)
        >>> told.statement.epsilon, told.statement.ledger
        (1.0, 'unaccounted')
        """
        weight = bounded_weight("Moments", weight, self.heaviest)
        terms = Terms.of("Moments", epsilon, delta, options)
        parts = {"_inputs": self._inputs, "_targets": self._targets}
        change = Fraction(self._most**2 * weight)
        plan = MomentPlan.of(
            terms, {name: each.size for name, each in parts.items()}, change, noise
        )
        return plan.planned(ReleasedMoments, self.parameters, parts, terms, weight).publish(terms)

    @property
    def _most(self) -> int:
        return int(2**self.bits - 1)

    @property
    def _polynomials(self) -> Polynomials:
        return Polynomials.of(self.dimension - 1, self.degree)

    def _check_parameters(self) -> None:
        if self.dimension < 2:
            raise ValueError("Moments: bounds must be for 2 columns at least, the target last.")
        if Polynomials.count(self.dimension - 1, self.degree) > CELLS:
            raise ValueError(
                f"Moments: {self.dimension} columns at degree {self.degree} are more than {CELLS} "
                "sums; lower the degree or leave columns out."
            )

    def _layout(self) -> dict[str, Cells]:
        made = self._polynomials
        return {
            "_inputs": Cells(np.int64, (len(made.inputs),)),
            "_targets": Cells(np.int64, (made.targets,)),
        }

    def _sums(
        self, steps: np.ndarray, weights: np.ndarray | None, most: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """All sums over these rows, in blocks so short that no float is rounded."""
        limit = EXACT // (self._most**2 * ROWS)
        if weights is not None and most > limit:  # too heavy for a float: high and low part
            high, low = np.divmod(weights, limit)
            upper = self._sums(steps, high, int(np.abs(high).max()))
            lower = self._sums(steps, low, limit)
            return upper[0] * limit + lower[0], upper[1] * limit + lower[1]
        inputs, targets = np.zeros_like(self._inputs), np.zeros_like(self._targets)
        for start in range(0, len(steps), ROWS):
            part = slice(start, start + ROWS)
            share = None if weights is None else weights[part].astype(np.float64)
            told = self._polynomials.sums(2 * steps[part] - self._most, share, self._most)
            inputs += told[0]
            targets += told[1]
        return inputs, targets

    def _check_mass(self, mass: int) -> None:
        if mass * self._most**2 >= MASS:
            raise ValueError(
                f"Moments: bits is {self.bits}, with which sums of so many rows would not fit into "
                "cells of 64 bits; lower it."
            )

    def _join(self, other: Self) -> None:
        self._check_mass(self.mass + other.mass)
        self.heaviest = most = max(self.heaviest, other.heaviest)  # first, as in `update`
        super()._join(other)
        self.heaviest = most

    def _largest(self) -> int:
        return max(int(np.abs(self._inputs).max()), int(np.abs(self._targets).max()))

    def _check_state(self) -> None:
        super()._check_state()
        if not abs(self.total) <= self.mass or self.clipped < 0:
            raise ValueError("the total does not fit.")
        self._check_mass(self.mass)
        if self._largest() > self.mass * self._most**2:
            raise ValueError("a sum is larger than its rows allow.")
        check_heaviest(self.heaviest, self.mass)
