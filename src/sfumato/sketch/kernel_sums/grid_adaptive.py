"""Private kernel sums of a grid at a resolution that a noisy pilot chose, shrunk by their noise."""

import math
from fractions import Fraction
from functools import cached_property
from typing import Annotated

import numpy as np

from sfumato.core.file_format import Packed
from sfumato.core.storage import Cells
from sfumato.core.validation import positive
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.noise import discrete
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.sketch.kernel_sums.grid import GridAnswers, KernelGrid
from sfumato.sketch.kernel_sums.grid_blocks import GridBlocks, blocks_for
from sfumato.sketch.kernel_sums.grid_field import Nodes, kernel_response, node_weights
from sfumato.sketch.kernel_sums.grid_level_noise import level_noise
from sfumato.sketch.kernel_sums.grid_levels import Levels, tuned_levels
from sfumato.sketch.kernel_sums.grid_spectrum import (
    Spectrum,
    answer_error,
    answer_waves,
    block_noise,
    shrunk,
)
from sfumato.sketch.kernel_sums.noisy_cells import CLIP, Sensitivity

__all__ = ["ReleasedAdaptiveGrid", "adaptive_release"]

PILOT = Fraction(3, 50)  # of epsilon
PILOT_BLOCKS = (14, 9, 6, 5)  # along the longest axis, at most, in 1 to 4 dimensions
MOST_BLOCKS = (512, 64, 36, 16)
LEAST_VARIANCE = 1e-60  # of a cell: at a large epsilon that of the noise is too small for a float
# Power of the concentration by which the choice weighs what blocks lose near points against noise:
# values of a kernel without long tails differ most, and noise is worst beside the small ones.
NEARNESS = {"p-stable": 1.0, "gaussian": 0.5, "exponential": 0.5}
LEVELS = 0  # the choice of nested levels instead of blocks


class ReleasedAdaptiveGrid(GridAnswers, Release):
    """Differentially private kernel sums, shrunk by their noise; by `KernelGrid.release_adaptive`.

    A pilot of coarse block sums takes a part of epsilon. By it alone either blocks of some size or
    the nested levels of `ReleasedKernelGrid` are chosen, whichever promises the smaller error, and
    released with the rest. Both together give the masses of the nodes. By blocks, their cosine
    coefficients are shrunk towards those of uniform points by the known noise.

    Attributes
    ----------
    bandwidth : float
        As in `KernelGrid`.
    bounds : Pair
        As in `KernelGrid`.
    kernel : str
        As in `KernelGrid`.
    resolution : float or None
        As in `KernelGrid`.
    seed : int
        As in `KernelGrid`.
    pilot_scale : float
        Scale of the Laplace noise on each block of the pilot, in units of a cell.
    block_scale : float
        The same of the chosen blocks.
    level_scale : float
        The same of the cells of levels, if these were chosen.
    statement : PrivacyStatement
        Privacy guarantee of the release.

    Notes
    -----
    **Guarantee.** epsilon-differential privacy as its `statement` says; the choice and the
    shrinkage read nothing but released cells. With blocks, estimates are biased towards those of
    uniform points where noise exceeds the signal. The size is unbiased.

    References
    ----------
    .. [1] Efron, Morris. "Stein's estimation rule and its competitors: an empirical Bayes
       approach". JASA 68, 1973. https://doi.org/10.1080/01621459.1973.10481350

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> from sfumato.sketch import KernelGrid
    >>> points = np.random.default_rng(0).uniform(0, 9, (20_000, 2))
    >>> sketch = KernelGrid(0.5, ([0, 0], [9, 9]), kernel="gaussian").update(points)
    >>> released = sketch.release_adaptive(epsilon=0.1, source=InsecureSeededSource(1))
    >>> error = released.mean(points[:100]) / sketch.mean(points[:100]) - 1
    >>> bool(np.abs(error).mean() < 0.1)
    True
    """

    version = 3  # the pilot of four columns is finer

    pilot_scale: Annotated[float, positive]
    block_scale: Annotated[float, positive]
    level_scale: Annotated[float, positive]
    _pilot: np.ndarray
    _cells: np.ndarray
    _choice: np.ndarray
    _of = "KernelGrid"

    def size(self) -> float:
        """Estimate the number of points, by weight.

        Returns
        -------
        float
            The sum of all masses; unbiased.
        """
        return self._size

    @cached_property
    def _size(self) -> float:
        return float(self._best.sum())

    @cached_property
    def _size_error(self) -> float:
        spectrum = self._spectrum
        return math.sqrt(float(spectrum.noise.flat[0]) * spectrum.noise.size)

    def noise_error(self) -> float:
        """Return the standard deviation of an estimate's noise at a query amid the box.

        Returns
        -------
        float
            Standard deviation in the unit of `estimate`, a number of points, for the kernel and
            bandwidth of the sketch. Where blocks are shrunk, it is that of the shrunk noise, by the
            fractions as they are: that these were estimated adds to it.
        """
        return self._noise_error

    @cached_property
    def _noise_error(self) -> float:
        nodes, levels = self._nodes, self._levels
        weights = node_weights(nodes.shape, nodes.spacing, self.kernel, self.bandwidth)
        if levels is not None:
            variance = _variance(self.level_scale, nodes.unit)
            return math.sqrt(variance * levels.variance_of(weights))
        spectrum = self._spectrum
        remaining = np.where(np.isfinite(spectrum.noise), spectrum.noise, 0.0)
        remaining *= spectrum.fractions**2
        remaining.flat[0] = spectrum.noise.flat[0]  # of the size, which nothing shrinks
        return math.sqrt(float((remaining * answer_waves(nodes, weights) ** 2).sum()))

    @cached_property
    def _best(self) -> np.ndarray:
        return self._spectrum.masses() if self._levels else self._spectrum.shrunk_masses()

    def _masses(self) -> np.ndarray:
        return self._best

    @cached_property
    def _spectrum(self) -> Spectrum:
        """The coefficients by the chosen cells and the pilot."""
        nodes, unit, coarse = self._nodes, self._nodes.unit, _pilot_of(self._nodes)
        pilot, variance = self._pilot / unit, _variance(self.pilot_scale, unit)
        levels = self._levels
        if levels is not None:
            masses, fine = levels.best(self._cells) / unit, _variance(self.level_scale, unit)
            size = max(float(masses.sum()), 1.0)
            main = Spectrum.of_levels(nodes, levels, masses, fine, size)
        else:
            blocks, fine = self._chosen_blocks, _variance(self.block_scale, unit)
            sums = self._cells.reshape(blocks.counts) / unit
            size = _joint_size((pilot, variance), (sums, fine))
            main = Spectrum.of_blocks(blocks, sums, fine, size)
        return main.corrected(coarse, pilot, variance)

    @cached_property
    def _levels(self) -> Levels | None:
        """The levels if they were chosen."""
        if int(self._choice[0]) != LEVELS:
            return None
        return tuned_levels(self._nodes.shape, "Laplace", self.kernel)

    @property
    def _chosen_blocks(self) -> GridBlocks:
        return _candidates(self._nodes)[int(self._choice[0])]

    def _layout(self) -> dict[str, Cells]:
        return {
            "_pilot": Cells(np.int64, _pilot_of(self._nodes).counts),
            "_cells": Cells(np.int64, (-1,)),
            "_choice": Cells(np.int64, (1,)),
        }

    def _restore(self, packed: Packed) -> None:
        super()._restore(packed)
        choice, nodes = int(self._choice[0]), self._nodes
        if choice == LEVELS:
            cells = tuned_levels(nodes.shape, "Laplace", self.kernel).cells
        elif choice in _candidates(nodes):
            cells = _candidates(nodes)[choice].cells
        else:
            raise ValueError("the choice is of no blocks of this grid.")
        if len(self._cells) != cells:
            raise ValueError("the cells are not those of the choice.")


def adaptive_release(
    grid: KernelGrid, request: ReleaseRequest, weight: int
) -> CalibratedRelease[ReleasedAdaptiveGrid]:
    """The calibrated release of a grid in two steps.

    Guarantee: epsilon-private. A point of weight w adds to the nodes non-negative integers that sum
    to w unit, so block sums, in which each node counts once, change by w unit in L1; levels as
    `Levels.sensitivity` proves. The pilot costs PILOT epsilon. What follows is chosen by its noisy
    cells alone, and costs the rest for any choice, so that both sum to epsilon (sequential
    composition of adaptive queries).
    """
    nodes = grid._nodes
    levels = tuned_levels(nodes.shape, "Laplace", grid.kernel)
    coarse = Sensitivity(l1=nodes.unit, l2_squared=nodes.unit**2, weight=weight)
    fine = levels.sensitivity(nodes.unit, nodes.longest, weight)
    scales = (
        _scale(request, coarse, PILOT),
        _scale(request, coarse, 1 - PILOT),
        _scale(request, fine, 1 - PILOT),
    )
    if max(scales) > discrete.LARGEST:
        raise ValueError(
            f"KernelGrid: epsilon is {request.epsilon!r}, for which the noise would not fit into "
            "cells of 64 bits; raise it, or lower weight or contributions."
        )
    if grid.mass * nodes.unit * max(levels.units) >= discrete.ROOM:
        raise ValueError(
            "KernelGrid: the points weigh too much for cells of 64 bits, in which levels count "
            "them many times; release them in several sketches, or with smaller weights."
        )
    request.check_room(8 * levels.cells)
    names = ("pilot_scale", "block_scale", "level_scale")
    parameters = {**grid.parameters, **dict(zip(names, map(float, scales), strict=True))}
    mechanism = (
        f"discrete Laplace noise in two steps, scale {float(scales[0]):.6g} on each of "
        f"{_pilot_of(nodes).cells} block sums, then, by these, {float(scales[1]):.6g} on "
        f"other block sums or {float(scales[2]):.6g} on {levels.cells} cells of levels; an event "
        f"weighs at most {weight}"
    )

    def noisy(source: Source) -> dict[str, np.ndarray]:
        pilot = _noisy(_pilot_of(nodes).sums(grid._table), scales[0], source)
        choice = _chosen(grid, pilot, parameters)
        if choice == LEVELS:
            cells = _noisy(levels.cell_values(grid._table), scales[2], source)
        else:
            sums = _candidates(nodes)[choice].sums(grid._table)
            cells = _noisy(sums.reshape(-1), scales[1], source)
        return {"_pilot": pilot, "_cells": cells, "_choice": np.array([choice], np.int64)}

    loss = Pure(request.epsilon, relation=request.relation)
    return CalibratedRelease(ReleasedAdaptiveGrid, parameters, loss, mechanism, noisy)


def _scale(request: ReleaseRequest, sensitivity: Sensitivity, part: Fraction) -> Fraction:
    """Scale of Laplace noise that costs this part of the requested epsilon."""
    l1 = sensitivity.norms(request.relation)[0] * sensitivity.weight * request.contributions
    return Fraction(l1) / (Fraction(request.epsilon) * part)


def _noisy(cells: np.ndarray, scale: Fraction, source: Source) -> np.ndarray:
    """A copy of the cells, clipped so that they cannot overflow, with noise on each."""
    out: np.ndarray = np.clip(cells, -CLIP, CLIP).astype(np.int64, order="C")
    discrete.add_laplace(out, scale, source=source)
    return out


def _chosen(grid: KernelGrid, pilot: np.ndarray, parameters: dict[str, float]) -> int:
    """The number of blocks along the longest axis, or LEVELS, by the noisy pilot alone."""
    nodes, unit = grid._nodes, grid._nodes.unit
    sums = pilot / unit
    variances = [
        _variance(parameters[name], unit) for name in ("pilot_scale", "block_scale", "level_scale")
    ]
    coarse, size = _pilot_of(nodes), max(float(sums.sum()), 1.0)
    spectrum = Spectrum.of_blocks(coarse, sums, variances[0], size)
    energy = spectrum.signal * spectrum.concentration ** (NEARNESS[grid.kernel] - 1)
    response = kernel_response(nodes.spaces, nodes.spacing, grid.kernel, grid.bandwidth)
    levels = tuned_levels(nodes.shape, "Laplace", grid.kernel)
    fine = variances[2] * level_noise(levels, nodes.spaces)
    errors = {LEVELS: answer_error(fine, response)}
    for number, blocks in _candidates(nodes).items():
        noise = block_noise(blocks, variances[1], energy)
        errors[number] = answer_error(shrunk(energy, noise), response)
    return min(errors, key=lambda number: errors[number])


def _pilot_of(nodes: Nodes) -> GridBlocks:
    """The blocks of the pilot."""
    return blocks_for(nodes, PILOT_BLOCKS[len(nodes.spaces) - 1])[-1]


def _candidates(nodes: Nodes) -> dict[int, GridBlocks]:
    """The blocks to choose from, by their number along the longest axis."""
    made = blocks_for(nodes, MOST_BLOCKS[len(nodes.spaces) - 1])
    return {max(each.counts): each for each in made if max(each.counts) > 1}


def _joint_size(*measured: tuple[np.ndarray, float]) -> float:
    """The number of points by sums of blocks and their variance, weighted by precision."""
    weights = np.array([1 / (sums.size * variance) for sums, variance in measured])
    totals = np.array([sums.sum() for sums, _ in measured])
    return max(float((weights * totals).sum() / weights.sum()), 1.0)


def _variance(scale: float, unit: int) -> float:
    """Variance of Laplace noise of this scale, in squared points; of none, next to nothing."""
    return max(NoiseDistribution("Laplace", scale).variance, LEAST_VARIANCE) / unit**2
