"""Moments: exact sums of products, sufficient for least-squares regression, and its release."""

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
    MomentNoise,
    Polynomials,
    deviation,
)

__all__ = ["Moments", "ReleasedMoments"]


class ReleasedMoments(Release):
    """Differentially private sums of products; made by `Moments.release`.

    Attributes
    ----------
    bounds : Pair
        As in `Moments`.
    degree, bits : int
        As in `Moments`.
    noise : {"Cube", "Gaussian"}
        Distribution of the noise.
    scale : float
        Scale of the noise on sums of inputs, in units of a cell.
    target_scale : float
        Scale of the noise on sums with the target, in units of a cell.
    statement : PrivacyStatement
        Privacy guarantee of the release.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy as its `statement` says. Every sum is
    unbiased, with standard deviation `noise_error()`. The matrix of noisy sums need not be positive
    semidefinite: it may have negative eigenvalues.

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import Moments
    >>> moments = Moments(([0, 0], [1, 10])).update([[0.5, 4]] * 1000)
    >>> released = moments.release(epsilon=1, source=InsecureSeededSource(1))
    >>> bool(abs(released.size() - 1000) < 6 * released.noise_error()[0])
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
        """Number of columns of a row, including the target."""
        return len(self.bounds[0])

    @property
    def features(self) -> list[tuple[int, ...]]:
        """Column indices that each feature multiplies; a repeated index is T_2 of it."""
        return self._polynomials.features

    def size(self) -> float:
        """Estimate the number of rows, by weight.

        Returns
        -------
        float
            The noisy sum of weights; unbiased.
        """
        return float(self._inputs[0] / self._unit)

    def matrix(self) -> np.ndarray:
        """Return the noisy sums of products of every two features.

        Returns
        -------
        ndarray
            Symmetric matrix in the order of `Moments.matrix`; unbiased.
        """
        inputs, targets = self._inputs / self._unit, self._targets / self._unit
        return self._polynomials.matrix(inputs, targets)

    def noise_error(self) -> tuple[float, float]:
        """Return the standard deviations of the noise of the sums.

        Returns
        -------
        tuple of float
            That of a sum of inputs, and that of a sum with the target, for columns scaled to -1 ..
            1.
        """
        inputs = deviation(self.noise, self.scale, self._inputs.size)
        targets = deviation(self.noise, self.target_scale, self._targets.size)
        return inputs / self._unit, targets / self._unit

    @property
    def _unit(self) -> float:
        """Value that a row of ones adds to a cell."""
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
EXACT = 2**53  # integers up to here are exact in float64
MASS = 2**62  # the largest value of a cell
LIGHTEST = 1 - 2**31


class Moments(WeighedRelease[ReleasedMoments], Sketch):
    """Sums of products of columns, as least-squares regression on the last column needs them.

    Parameters
    ----------
    bounds : tuple of (low, high)
        Public bounds, with one number per column, at least 2, the target last. Values outside are
        clipped to them.
    degree : {1, 2}, default=1
        1 for a linear, 2 for a quadratic regression.
    bits : int, default=14
        Binary digits of a scaled value, 8 to 18.

    Attributes
    ----------
    total : int
        Sum of the weights of all rows.
    clipped : int
        Number of rows that were moved to the bounds.
    heaviest : int
        Largest absolute value of a weight.
    mass : int
        Sum of the absolute values of all weights, removals included.

    Notes
    -----
    **Guarantee.** Every column is scaled to -1 .. 1 by its public bounds and rounded to steps of 2
    / (2**bits - 1). Products T_a T_b of Chebyshev polynomials of the inputs, up to twice the
    degree, and of the target with those up to the degree, are summed in integers. So merging and
    removal are exact, and a row of weight 1 changes any sum by at most (2**bits - 1)**2, its unit.

    Weights are integers; negative ones remove rows.

    References
    ----------
    .. [1] Mason, Handscomb. "Chebyshev polynomials". 2003, section 2.4 (products).

    Examples
    --------
    >>> moments = Moments(([0, 0], [1, 10])).update([[0.0, 1.0], [0.5, 5.0], [1.0, 9.0]])
    >>> moments.total, moments.matrix().round(3)[1]
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
        """Number of columns of a row, including the target."""
        return len(self.bounds[0])

    def update(self, rows: Any, weights: Column | None = None, *, clip: int | None = None) -> Self:
        """Add rows to the sums.

        Each row is read on its own: values beyond the bounds are clipped to them, and a row that is
        not all numbers is left out. So no row is refused or changes how another is counted.

        Parameters
        ----------
        rows : array_like of shape (n, dimension)
            Rows of numbers, the target in the last column.
        weights : array_like of shape (n,) or None, default=None
            One integer per row; None for 1 each. A negative weight removes a row.
        clip : int or None, default=None
            Public bound to which the absolute value of each weight is clipped. No weight is then
            refused, as a private release requires.

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
        # First what bounds the sensitivity: an update that is interrupted then overstates it.
        self.heaviest, self.mass = max(self.heaviest, most), mass
        self._inputs += inputs
        self._targets += targets
        self.total += added
        self.clipped += outside
        return self

    def size(self) -> float:
        """Return the total weight of all rows.

        Returns
        -------
        float
            The sum of all weights: the number of rows, if each weighs 1.
        """
        return float(self.total)

    def matrix(self) -> np.ndarray:
        """Return the sums of products of every two features.

        Returns
        -------
        ndarray
            Symmetric matrix over the features in the order of `features`, of which the first is 1,
            and the target last. Columns are scaled to -1 .. 1.
        """
        unit = float(self._most) ** 2
        return self._polynomials.matrix(self._inputs / unit, self._targets / unit)

    @property
    def features(self) -> list[tuple[int, ...]]:
        """Column indices that each feature multiplies; a repeated index is T_2 of it."""
        return self._polynomials.features

    def linear(self) -> "Moments":
        """Return the sums of degree 1, which are among those of degree 2.

        Returns
        -------
        Moments
            Sums of the same rows at degree 1.
        """
        made = Moments(self.bounds, bits=self.bits)
        features = self.dimension
        made._inputs[:] = self._inputs[: made._inputs.size]
        made._targets[:] = np.append(self._targets[:features], self._targets[-1])
        for name in self._scalars:
            setattr(made, name, getattr(self, name))
        return made

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[ReleasedMoments]:
        """**Guarantee.** (epsilon, delta)-private for one unit under the stated relation.

        An event of weight w changes every sum by at most w times the unit (2**bits - 1)**2, in
        either direction, and so by twice that if it is replaced. So does a removal, even of a row
        that was never added: none is refused. Sums of inputs take 3/5 of the cost, those with the
        target 2/5. With delta 0 each part gets noise in a cube (`privacy.noise.cube`), which costs
        largest change / scale. With a positive delta it may be discrete Gaussian instead, for which
        k sums cost k change**2 / (2 sigma**2) in zCDP; the one with the smaller variance is chosen
        unless `noise` is "cube" or "gaussian".
        """
        parts = {"_inputs": self._inputs, "_targets": self._targets}
        change = Fraction(self._most**2 * weight)
        chosen = MomentNoise.of(
            request, {name: each.size for name, each in parts.items()}, change, noise
        )
        return chosen.calibrated(ReleasedMoments, self.parameters, parts, request, weight)

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
        """All sums over these rows, in blocks short enough that no float is rounded."""
        limit = EXACT // (self._most**2 * ROWS)
        if weights is not None and most > limit:  # too heavy for a float: high and low part
            high, low = np.divmod(weights, limit)
            upper = self._sums(steps, high, int(np.abs(high).max()))
            lower = self._sums(steps, low, limit)
            return upper[0] * limit + lower[0], upper[1] * limit + lower[1]
        inputs, targets = np.zeros_like(self._inputs), np.zeros_like(self._targets)
        for start in range(0, len(steps), ROWS):
            part = slice(start, start + ROWS)
            block_weights = None if weights is None else weights[part].astype(np.float64)
            block = self._polynomials.sums(2 * steps[part] - self._most, block_weights, self._most)
            inputs += block[0]
            targets += block[1]
        return inputs, targets

    def _check_mass(self, mass: int) -> None:
        if mass * self._most**2 >= MASS:
            raise ValueError(
                f"Moments: bits is {self.bits}, with which sums of all rows would not fit into "
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
