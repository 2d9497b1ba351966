"""Cosine coefficients of the masses of a grid with known noise: joined, shrunk and compared.

All of it is computed from released numbers, at no cost in privacy.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.sketch.kernel_sums.grid_blocks import GridBlocks, padded
from sfumato.sketch.kernel_sums.grid_field import Nodes
from sfumato.sketch.kernel_sums.grid_levels import Levels
from sfumato.sketch.kernel_sums.grid_shrinkage import of_neighbours, uniform_masses, unit_noise

__all__ = ["Spectrum", "block_noise", "level_noise", "shrunk_error"]

GROWTH = 1.4  # ratio of the limits of neighbouring shells of frequencies
DECAY = 1.5  # power of frequency by which the energy of a coefficient falls beyond the known ones
DOUBT = 0.5  # deviations of a shell's noise by which a forecast of its energy is raised


@dataclass(frozen=True)
class Spectrum:
    """Cosine coefficients of masses less those of `size` uniform points, and their noise.

    Parameters: waves and noise, coefficients and noise variances over the padded nodes, the
    variances of unknown coefficients infinite.
    """

    nodes: Nodes
    size: float
    waves: np.ndarray
    noise: np.ndarray

    @classmethod
    def of_blocks(
        cls, nodes: Nodes, blocks: GridBlocks, sums: np.ndarray, variance: float, size: float
    ) -> "Spectrum":
        """The spectrum of noisy sums of blocks, in points, whose noise has this variance."""
        waves = np.zeros(padded(nodes.shape))
        flat = size * blocks.sums(uniform_masses(nodes))
        waves[_corner(blocks)] = blocks.waves(sums - flat)
        return cls(nodes, size, waves, block_noise(blocks, variance))

    @classmethod
    def of_levels(
        cls, nodes: Nodes, levels: Levels, masses: np.ndarray, variance: float, size: float
    ) -> "Spectrum":
        """The spectrum of least-squares masses from cells whose noise has this variance."""
        from scipy.fft import dctn

        residual = np.zeros(padded(nodes.shape))
        residual[_inside(nodes)] = masses - size * uniform_masses(nodes)
        return cls(nodes, size, dctn(residual, norm="ortho"), variance * level_noise(levels))

    def corrected(self, blocks: GridBlocks, sums: np.ndarray, variance: float) -> "Spectrum":
        """The spectrum joined with further noisy sums of blocks, by precision.

        It is corrected by how its own block sums differ, so that what is finer than the blocks,
        which their cosines take for something slower, cancels.
        """
        corner = _corner(blocks)
        other = variance * blocks.unit_noise
        known = np.isfinite(self.noise[corner])
        mine = np.where(known, self.noise[corner], 0.0)
        waves, noise = self.waves.copy(), self.noise.copy()
        gain = np.where(known, mine / (mine + other), 1.0)
        waves[corner] += gain * blocks.waves(sums - blocks.sums(self.masses()))
        noise[corner] = np.where(known, mine * other / (mine + other), other)
        return Spectrum(self.nodes, self.size, waves, noise)

    def masses(self) -> np.ndarray:
        """The masses of the nodes, without shrinkage."""
        return self._masses_of(np.where(np.isfinite(self.noise), self.waves, 0.0))

    def shrunk_masses(self, local: bool) -> np.ndarray:
        """The masses with each coefficient times signal / (signal + noise), but for their sum.

        This is Wiener's filter with energies estimated as by James and Stein: by the mean of a
        shell of frequencies, or with `local`, for signals that differ within a shell, by that of
        the nearest coefficients where it is beyond chance.

        Efron and Morris 1973 (empirical Bayes shrinkage); Cai 1999 (blocks of neighbours).
        """
        return self._masses_of(self.waves * self.fractions(local))

    def fractions(self, local: bool) -> np.ndarray:
        """The remaining fraction of each coefficient, as in `shrunk_masses`."""
        known = np.isfinite(self.noise)
        noise = np.where(known, self.noise, 1.0)
        signal = self._energy(0.0)
        if local:
            signal = np.maximum(signal, of_neighbours(self.waves**2, noise))
        out = np.where(known, signal / (signal + noise), 0.0)
        out.flat[0] = 1.0
        return np.asarray(out)

    @cached_property
    def forecast(self) -> np.ndarray:
        """Signal energy to be expected of every coefficient, also of the unknown ones."""
        return self._energy(DOUBT)

    def _energy(self, doubt: float) -> np.ndarray:
        """Signal energy by shells: the mean square beyond the noise, or that of chance if larger.

        Beyond the known shells it decays. doubt: deviations of a shell's noise that are added.
        """
        shells, frequency = _shells(padded(self.nodes.shape))
        index, known = shells.ravel(), np.isfinite(self.noise).ravel()
        known[0] = False  # the count of points is no signal
        noise = np.where(known, self.noise.ravel(), 0.0)
        all_of, counts = np.bincount(index), np.maximum(np.bincount(index, known), 1e-9)
        excess = np.bincount(index, np.where(known, self.waves.ravel() ** 2 - noise, 0.0)) / counts
        chance = np.bincount(index, noise) / counts * np.sqrt(2 / np.maximum(counts, 1))
        means = np.maximum(excess, 0.0) + doubt * chance
        full = np.flatnonzero(counts > all_of / 2)
        if full.size and full[-1] + 1 < len(means):
            last = int(full[-1])
            upper = slice(max(last - 1, 0), last + 1)
            tail = float((means[upper] * counts[upper]).sum() / counts[upper].sum())
            middle = np.bincount(index, frequency.ravel()) / all_of
            means[last + 1 :] = tail * (middle[last] / middle[last + 1 :]) ** DECAY
        return np.asarray(np.maximum(means[shells], self._chance))

    @property
    def _chance(self) -> float:
        """Energy of a coefficient by the draw of the points alone, if they were uniform."""
        return max(self.size, 1.0) / math.prod(self.nodes.shape)

    def _masses_of(self, waves: np.ndarray) -> np.ndarray:
        from scipy.fft import idctn

        flat = self.size * uniform_masses(self.nodes)
        return np.asarray(flat + idctn(waves, norm="ortho")[_inside(self.nodes)])


def shrunk_error(signal: np.ndarray, noise: np.ndarray, response: np.ndarray) -> float:
    """Squared error to be expected of answers after shrinkage, over all frequencies.

    response: the factor by which kernel sums multiply each coefficient. The constant one does not
    count, since answers are divided by the number of points.
    """
    known = np.isfinite(noise)
    finite = np.where(known, noise, 1.0)
    remaining = np.where(known, signal * finite / (signal + finite), signal) * response**2
    return float(remaining.sum() - remaining.flat[0])


def block_noise(
    blocks: GridBlocks, variance: float, energy: np.ndarray | None = None
) -> np.ndarray:
    """Noise variance of each coefficient by sums of blocks, infinite beyond what they resolve.

    With the energy of all coefficients, it includes that of faster ones, which look alike.
    """
    out = np.full(padded(blocks.shape), np.inf)
    corner = variance * blocks.unit_noise
    if energy is not None:
        corner = corner + _aliased(blocks, energy)
    out[_corner(blocks)] = corner
    return out


def _aliased(blocks: GridBlocks, energy: np.ndarray) -> np.ndarray:
    """Energy that coefficients beyond the blocks' frequencies add to those within, axis by axis."""
    out = np.zeros(blocks.counts)
    for axis, count in enumerate(blocks.counts):
        nodes, slow = energy.shape[axis], np.arange(count)
        for fast in (2 * count - slow, 2 * count + slow):
            places = [np.arange(k) for k in blocks.counts]
            places[axis] = np.minimum(fast, nodes - 1)
            part = np.where(fast < nodes, (slow / np.maximum(fast, 1)) ** 2, 0.0)
            wide = [-1 if other == axis else 1 for other in range(energy.ndim)]
            out += energy[np.ix_(*places)] * part.reshape(wide)
    return out


@lru_cache(maxsize=8)
def level_noise(levels: Levels) -> np.ndarray:
    """Noise variance of each coefficient by levels whose cells have noise of variance 1."""
    shape, wide = levels.shape, padded(levels.shape)
    nearest = [
        np.minimum(np.rint(np.arange(m) * n / m).astype(np.int64), n - 1)
        for m, n in zip(wide, shape, strict=True)
    ]
    noise = unit_noise(levels)[np.ix_(*nearest)]
    return np.asarray(noise * math.prod(shape) / math.prod(wide))


@lru_cache(maxsize=8)
def _shells(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The shell of each coefficient, by the logarithm of its frequency, and the frequency."""
    squares = np.zeros(())
    for n in shape:
        squares = np.add.outer(squares, (np.arange(n) * max(shape) / n) ** 2)
    frequency = np.sqrt(squares)
    number = np.ceil(np.log(np.maximum(frequency, 0.5)) / math.log(GROWTH) + 1e-9)
    _, dense = np.unique(number, return_inverse=True)
    return dense.reshape(shape), frequency


def _corner(blocks: GridBlocks) -> tuple[slice, ...]:
    return tuple(slice(0, count) for count in blocks.counts)


def _inside(nodes: Nodes) -> tuple[slice, ...]:
    return tuple(slice(0, n) for n in nodes.shape)
