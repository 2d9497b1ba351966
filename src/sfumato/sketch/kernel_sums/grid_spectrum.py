"""Cosine coefficients of the masses of a grid with known noise: joined, shrunk and compared.

All of it is computed from released numbers, at no cost in privacy.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sfumato.sketch.kernel_sums.grid_blocks import GridBlocks, uniform_masses
from sfumato.sketch.kernel_sums.grid_field import Nodes
from sfumato.sketch.kernel_sums.grid_level_noise import wave_noise
from sfumato.sketch.kernel_sums.grid_levels import Levels

__all__ = ["Spectrum", "block_noise", "concentration", "level_noise", "shrunk_error"]

GROWTH = 1.4  # ratio of the limits of neighbouring shells of frequencies
DECAY = 2.5  # power of frequency by which the energy of a coefficient falls beyond the known ones
SURE = 3.0  # deviations of noise that the energy of the last known shells must exceed to go on


@dataclass(frozen=True)
class Spectrum:
    """Cosine coefficients over the box of masses relative to uniform ones, and their noise.

    Parameters: size, of all points; concentration, of these (see there); waves and noise,
    coefficients and noise variances over the spaces of the box, the variances of unknown ones
    infinite; rest, masses of nodes beside those of uniform points and of the waves.
    """

    nodes: Nodes
    size: float
    concentration: float
    waves: np.ndarray
    noise: np.ndarray
    rest: np.ndarray | None = None

    @classmethod
    def of_blocks(
        cls,
        blocks: GridBlocks,
        sums: np.ndarray,
        variance: float,
        size: float,
        concentrated: float,
    ) -> "Spectrum":
        """The spectrum of noisy sums of blocks, in points, whose noise has this variance."""
        nodes = blocks.nodes
        waves = np.zeros(nodes.spaces)
        waves[blocks.corner] = blocks.waves(sums - size * blocks.even)
        return cls(nodes, size, concentrated, waves, block_noise(blocks, variance))

    @classmethod
    def of_levels(
        cls,
        nodes: Nodes,
        levels: Levels,
        masses: np.ndarray,
        variance: float,
        size: float,
        concentrated: float,
    ) -> "Spectrum":
        """The spectrum of least-squares masses from cells whose noise has this variance."""
        spaces = GridBlocks(nodes, nodes.spaces)
        waves = spaces.waves(spaces.sums(masses) - size * spaces.even)
        noise = variance * level_noise(levels, nodes)
        made = cls(nodes, size, concentrated, waves, noise)
        return replace(made, rest=masses - made.masses())

    def corrected(self, blocks: GridBlocks, sums: np.ndarray, variance: float) -> "Spectrum":
        """The spectrum joined with further noisy sums of blocks, by precision.

        It is corrected by how its own block sums differ, so that what is finer than the blocks,
        which their cosines take for something slower, cancels; but for the noise of that.
        """
        corner = blocks.corner
        known = np.isfinite(self.noise)
        beyond = np.where(known, self.noise, 0.0)
        mine, known = beyond[corner], known[corner]
        other = variance * blocks.unit_noise + blocks.aliased(beyond)
        waves, noise = self.waves.copy(), self.noise.copy()
        gain = np.where(known, mine / (mine + other), 1.0)
        waves[corner] += gain * blocks.waves(sums - blocks.sums(self.masses()))
        noise[corner] = np.where(known, mine * other / (mine + other), other)
        return replace(self, waves=waves, noise=noise)

    def masses(self) -> np.ndarray:
        """The masses of the nodes, without shrinkage."""
        return self._masses_of(self.waves)

    def shrunk_masses(self) -> np.ndarray:
        """The masses with each coefficient times `fractions`, and `size` in all."""
        masses = self._masses_of(self.waves * self.fractions)
        return np.asarray(masses + (self.size - masses.sum()) * uniform_masses(self.nodes))

    @cached_property
    def fractions(self) -> np.ndarray:
        """The remaining fraction of each coefficient: signal / (signal + noise), Wiener's filter.

        Signal energies are estimated as by James and Stein from the mean square of a shell of
        frequencies, and multiplied by the concentration: what shrinkage removes is missed where
        the points are, while noise is everywhere.

        Efron and Morris 1973 (empirical Bayes shrinkage).
        """
        known = np.isfinite(self.noise)
        noise = np.where(known, self.noise, 1.0)
        out = np.where(known, self.signal / (self.signal + noise), 0.0)
        out.flat[0] = 0.0  # the count of points is `size`
        return np.asarray(out)

    @cached_property
    def signal(self) -> np.ndarray:
        """Signal energy to be expected of every coefficient near points, also of unknown ones.

        By shells: the mean square beyond the noise, or that of chance if larger. Beyond the known
        shells the energy of the last two decays, if it is beyond chance.
        """
        shells, frequency = _shells(self.nodes.spaces)
        index, known = shells.ravel(), np.isfinite(self.noise).ravel()
        known[0] = False  # the count of points is no signal
        noise = np.where(known, self.noise.ravel(), 0.0)
        all_of, counts = np.bincount(index), np.maximum(np.bincount(index, known), 1e-9)
        excess = np.bincount(index, np.where(known, self.waves.ravel() ** 2 - noise, 0.0))
        means = np.maximum(excess / counts, 0.0)
        full = np.flatnonzero(counts > all_of / 2)
        if full.size and full[-1] + 1 < len(means):
            last = int(full[-1])
            upper = slice(max(last - 1, 0), last + 1)
            energy = float(excess[upper].sum())
            chance = math.sqrt(2 * float(np.bincount(index, noise**2)[upper].sum()))
            sure = 1 - (SURE * chance / energy) ** 2 if energy > SURE * chance else 0.0
            middle = np.bincount(index, frequency.ravel()) / all_of
            decayed = (middle[last] / middle[last + 1 :]) ** DECAY
            means[last + 1 :] = sure * energy / float(counts[upper].sum()) * decayed
        return np.asarray(self.concentration * np.maximum(means[shells], self._chance))

    @property
    def _chance(self) -> float:
        """Energy of a coefficient by the draw of the points alone, if they were uniform."""
        return max(self.size, 1.0) / math.prod(self.nodes.spaces)

    def _masses_of(self, waves: np.ndarray) -> np.ndarray:
        """The masses of uniform points times one plus the waves, and the rest."""
        from scipy.fft import idctn

        nodes, even = self.nodes, uniform_masses(self.nodes)
        relative = idctn(waves, norm="ortho") * math.prod(nodes.spaces)
        inside = (
            np.clip(np.arange(n) - first, 0, spaces - 1)
            for n, first, spaces in zip(nodes.shape, nodes.firsts, nodes.spaces, strict=True)
        )
        masses = even * (self.size + relative[np.ix_(*inside)])
        return np.asarray(masses if self.rest is None else masses + self.rest)


def concentration(blocks: GridBlocks, sums: np.ndarray, variance: float) -> float:
    """Mean density at the points over that of uniform ones, at the scale of noisy block sums.

    The squared sums less the variance of their noise are unbiased for those without noise.
    """
    size = max(float(sums.sum()), 1.0)
    found = float(((sums**2 - variance) / blocks.even).sum()) / size**2
    return min(max(found, 1.0), float(blocks.cells))


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
    out = np.full(blocks.nodes.spaces, np.inf)
    corner = variance * blocks.unit_noise
    if energy is not None:
        corner = corner + blocks.aliased(energy)
    out[blocks.corner] = corner
    return out


@lru_cache(maxsize=8)
def level_noise(levels: Levels, nodes: Nodes) -> np.ndarray:
    """Noise variance of each coefficient by levels whose cells have noise of variance 1."""
    nearest = [
        np.minimum(np.rint(np.arange(m) * n / m).astype(np.int64), n - 1)
        for m, n in zip(nodes.spaces, nodes.shape, strict=True)
    ]
    return np.asarray(wave_noise(levels)[np.ix_(*nearest)])


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
