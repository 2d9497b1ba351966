"""Moments: exact sums of products, all that least squares needs of any number of rows.

Released moments: private sums of products, and how noisy they are.
"""

from fractions import Fraction
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.bounds import BOUNDS, Box, Pair, weighed_points
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import integer, one_of, positive
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.sketch.base import Sketch, WeighedRelease, check_heaviest, heaviest
from sfumato.sketch.kernel_sums.polynomial_features import (
    CELLS,
    NOISES,
    MomentPlan,
    Polynomials,
    deviation,
)

__all__ = ["Moments", "ReleasedMoments"]


class ReleasedMoments(Release):
    """Sums of products that may leave the curator; made by `Moments.release`.

    those of the sketch; noise, "Cube" or "Gaussian"; scale and target_scale, of the noise on sums
    of inputs and on sums with the target, in units of a cell.

    Notes
    -----
    **Guarantee.** As its statement says; every sum is unbiased, with the deviation that
    `noise_error` tells. A matrix of such sums need not be one of any rows: it may have negative
    eigenvalues.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import Moments
    >>> seen = Moments(([0, 0], [1, 10])).update([[0.5, 4]] * 1000)
    >>> told = seen.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(told.size() - 1000) < 6 * told.noise_error()[0])
    True
    """

    bounds: Annotated[Pair, BOUNDS]
    degree: Annotated[int, integer(1, 2)]
    bits: Annotated[int, integer(8, 18)]
    noise: Annotated[str, one_of(NOISES)]
    scale: Annotated[float, positive]
    target_scale: Annotated[float, positive]
    _inputs: np.ndarray
    _targets: np.ndarray
    _of = "Moments"

    @property
    def dimension(self) -> int:
        """How many columns a row has, with the target."""
        return len(self.bounds[0])

    @property
    def features(self) -> list[tuple[int, ...]]:
        """The columns that each feature multiplies, twice the same one being T_2 of it."""
        return self._polynomials.features

    def size(self) -> float:
        """How many rows there are, by weight, with noise.

        Returns
        -------
        float
            How many rows there are, by weight, with noise.
        """
        return float(self._inputs[0] / self._unit)

    def matrix(self) -> np.ndarray:
        """Noisy sums of products of every two features, as `Moments.matrix` tells them.

        Returns
        -------
        ndarray
            TODO.
        """
        inputs, targets = self._inputs / self._unit, self._targets / self._unit
        return self._polynomials.matrix(inputs, targets)

    def noise_error(self) -> tuple[float, float]:
        """The noise's standard deviation in a sum of inputs, and in one with the target.

        Returns
        -------
        tuple
            The noise's standard deviation in a sum of inputs, and in one with the target.
        """
        inputs = deviation(self.noise, self.scale, self._inputs.size)
        targets = deviation(self.noise, self.target_scale, self._targets.size)
        return inputs / self._unit, targets / self._unit

    @property
    def _unit(self) -> float:
        """What a row of ones adds to a cell."""
        return float(2**self.bits - 1) ** 2

    @property
    def _polynomials(self) -> Polynomials:
        return Polynomials.of(self.dimension - 1, self.degree)

    def _check_parameters(self) -> None:
        if self.dimension < 2:
            raise ValueError("ReleasedMoments: bounds must be for 2 columns at least.")
        if Polynomials.count(self.dimension - 1, self.degree) > CELLS:  # listing them takes memory
            raise ValueError(f"ReleasedMoments: bounds must be for at most {CELLS} sums.")
        if max(self.scale, self.target_scale) > noise.LARGEST:
            raise ValueError("ReleasedMoments: scale must be at most 2**40.")

    def _layout(self) -> dict[str, Cells]:
        made = self._polynomials
        return {
            "_inputs": Cells(np.int64, (len(made.inputs),)),
            "_targets": Cells(np.int64, (made.targets,)),
        }


ROWS = 2**13  # that are multiplied at a time
EXACT = 2**53  # integers that a float holds
MASS = 2**62  # the most that a cell may hold
LIGHTEST = 1 - 2**31


class Moments(WeighedRelease[ReleasedMoments], Sketch):
    """Sums of products of columns, the last of which is a target to be told from the others.

    Parameters
    ----------
    bounds : object
        A pair (low, high) with one number per column, target last: rows outside are moved to the
        nearest point inside, and `clipped` tells how many.
    degree : int, default=1
        1 for a linear and 2 for a quadratic regression.
    bits : int, default=14
        8 to 18, of a number. Weights are integers; negative ones remove what was added, never more
        than all of it.

    Notes
    -----
    **Guarantee.** Every column is scaled to -1 .. 1 by its public bounds and rounded to an integer
    of 2 / (2**bits - 1); products T_a T_b of Chebyshev polynomials of those, up to twice the
    degree, and of the target with those up to the degree, are summed in integers. So merging and
    removal are exact, and no row moves any sum by more than (2**bits - 1)**2, its unit.

    References
    ----------
    .. [1] Chebyshev polynomials: Mason and Handscomb 2003, section 2.4.

    Examples
    --------
    >>> seen = Moments(([0, 0], [1, 10])).update([[0.0, 1.0], [0.5, 5.0], [1.0, 9.0]])
    >>> seen.total, seen.matrix().round(3)[1]
    (3, array([0. , 2. , 1.6]))
    """

    bounds: Annotated[Pair, BOUNDS]
    degree: Annotated[int, integer(1, 2)]
    bits: Annotated[int, integer(8, 18)]
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

    def update(self, rows: Any, weights: Column | None = None, *, clip: int | None = None) -> Self:
        """Add the products of every row, by its whole weight or once.

        Rows are read one by one: what is beyond the bounds is clipped to them, and a row that is
        not all numbers is left out, so that no row is refused or changes another.

        Parameters
        ----------
        rows : object
            TODO.
        weights : array_like or None, default=None
            Integers.
        clip : int or None, default=None
            A public bound of their size that they are clipped to: each weight is then read by
            itself and none is refused, as a private release needs.

        Returns
        -------
        Self
            The object itself.
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
        """How many rows there are, by weight.

        Returns
        -------
        float
            How many rows there are, by weight.
        """
        return float(self.total)

    def matrix(self) -> np.ndarray:
        """Sums of products of every two features, the first being 1 and the last the target.

        Columns are scaled to -1 .. 1 and features in the order of `features`.

        Returns
        -------
        ndarray
            TODO.
        """
        unit = float(self._most) ** 2
        return self._polynomials.matrix(self._inputs / unit, self._targets / unit)

    @property
    def features(self) -> list[tuple[int, ...]]:
        """The columns that each feature multiplies, twice the same one being T_2 of it."""
        return self._polynomials.features

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedMoments]:
        """A private copy with noise on every sum.

        Guarantee: (epsilon, delta)-private for one unit: an event of weight w moves every sum by at
        most w times the unit, in either direction, and so twice that where it is exchanged. So does
        a removal, even of a row that had not been added: none is refused. Sums of inputs take 3/5
        of the cost, those with the target 2/5. At delta 0 each part gets noise in a
        cube (`privacy.noise.cube`), which costs largest change / scale; with a delta it may be
        discrete Gaussian instead, of which k sums cost k change**2 / (2 sigma**2) in zCDP,
        whichever has the smaller variance.
        Parameters: epsilon above 0; delta from 0 to 1; weight, the most that one event weighs,
        public, refused where the sketch holds a heavier one; noise, "cube" or "gaussian"; options:
        ledger and dataset, unit, relation, contributions, release_id (docs/privacy.md).

        >>> told = Moments(([0, 0], [1, 10])).update([[0.5, 4]]).release(epsilon=1)
        >>> told.statement.epsilon, told.statement.ledger
        (1.0, 'unaccounted')
        """
        parts = {"_inputs": self._inputs, "_targets": self._targets}
        change = Fraction(self._most**2 * weight)
        plan = MomentPlan.of(
            request, {name: each.size for name, each in parts.items()}, change, noise
        )
        return plan.planned(ReleasedMoments, self.parameters, parts, request, weight)

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
