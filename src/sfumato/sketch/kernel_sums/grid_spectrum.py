"""Cosine coefficients of the masses of a grid with known noise: joined, shrunk and compared.

All of it is computed from released numbers, at no cost in privacy.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sfumato.sketch.kernel_sums.grid_blocks import GridBlocks, uniform_masses
from sfumato.sketch.kernel_sums.grid_field import Nodes
from sfumato.sketch.kernel_sums.grid_level_noise import level_noise
from sfumato.sketch.kernel_sums.grid_levels import Levels

__all__ = ["Spectrum", "answer_error", "answer_waves", "block_noise", "shrunk"]

GROWTH = 1.4  # ratio of the limits of neighbouring shells of frequencies
DECAY = 1.5  # power of frequency by which the energy of a coefficient falls, without any evidence
DECAYS = 1.0, 4.0  # of any fall that shells show
BELIEF = 1.0  # in DECAY beside the evidence of shells, in squared logarithms
FITTED = 3  # the fastest shells, which show how energy falls
DOUBT = 0.05  # squared relative error of a shell's energy beside that of its noise
SURE = 4.0  # deviations of noise that the energy of shells must exceed to be beyond chance
LIKELY = 2.0  # deviations for a shell to count in how energy falls
LEFT = 0.1  # of the energy of a shell without what looks like slower waves, at least


@dataclass(frozen=True)
class Spectrum:
    """Cosine coefficients over the box of masses relative to uniform ones, and their noise.

    Parameters: size, of all points; waves and noise, coefficients and noise variances over the
    spaces of the box, the variances of unknown ones infinite; rest, masses of nodes beside those of
    uniform points and of the waves; blocks, whose sums the waves are of, so that they hold what
    looks like them.
    """

    nodes: Nodes
    size: float
    waves: np.ndarray
    noise: np.ndarray
    rest: np.ndarray | None = None
    blocks: GridBlocks | None = None

    @classmethod
    def of_blocks(
        cls, blocks: GridBlocks, sums: np.ndarray, variance: float, size: float
    ) -> "Spectrum":
        """The spectrum of noisy sums of blocks, in points, whose noise has this variance."""
        nodes = blocks.nodes
        waves = np.zeros(nodes.spaces)
        waves[blocks.corner] = blocks.waves(sums - size * blocks.even)
        return cls(nodes, size, waves, block_noise(blocks, variance), blocks=blocks)

    @classmethod
    def of_levels(
        cls, nodes: Nodes, levels: Levels, masses: np.ndarray, variance: float, size: float
    ) -> "Spectrum":
        """The spectrum of least-squares masses from cells whose noise has this variance."""
        spaces = GridBlocks(nodes, nodes.spaces)
        waves = spaces.waves(spaces.sums(masses) - size * spaces.even)
        noise = variance * level_noise(levels, nodes.spaces)
        made = cls(nodes, size, waves, noise)
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
        the points are, while noise is everywhere. What sums of blocks take for slower waves counts
        as noise.

        Efron and Morris 1973 (empirical Bayes shrinkage).
        """
        known = np.isfinite(self.noise)
        noise = np.where(known, self.noise, 1.0)
        if self.blocks is not None:
            shells = _shells(self.nodes.spaces)[0]
            noise[self.blocks.corner] += self.blocks.aliased(self._shell_means[shells])
        out = np.where(known, self.signal / (self.signal + noise), 0.0)
        out.flat[0] = 0.0  # the count of points is `size`
        return np.asarray(out)

    @cached_property
    def signal(self) -> np.ndarray:
        """Signal energy to be expected of every coefficient near points, also of unknown ones."""
        means, shells = self._shell_means, _shells(self.nodes.spaces)[0]
        return np.asarray(self.concentration * np.maximum(means[shells], self._chance))

    @cached_property
    def concentration(self) -> float:
        """Mean density at the points over that of uniform ones: one and the energy of all waves.

        That is the sum of squared masses, over that of uniform points. Known shells count if their
        energy is beyond chance.
        """
        energy, chance, counts, all_of = self._shell_sums
        sure = (energy > SURE * chance) | (counts < all_of / 2)
        found = float((self._shell_means * all_of)[sure][1:].sum())
        spaces, unsure = math.prod(self.nodes.spaces), float(self.noise.flat[0])
        squares = max(self.size**2, SURE**2 * spaces * unsure, 1.0)
        return min(1 + spaces * found / squares, float(spaces))

    @cached_property
    def _shell_means(self) -> np.ndarray:
        """Signal energy of a coefficient of each shell: the mean square beyond the noise.

        Beyond the known shells the energy of the last two falls on as that of the known ones does,
        if it is beyond chance. By these energies the known shells lose what they hold of faster
        waves.
        """
        energy, _, counts, _ = self._shell_sums
        known = np.maximum(energy / np.maximum(counts, 1), 0.0)
        means = self._beyond(known)
        if self.blocks is None:
            return means
        return self._beyond(np.maximum(known - self._aliased(means, self.blocks), LEFT * known))

    def _beyond(self, means: np.ndarray) -> np.ndarray:
        """The mean energies of shells, those that are not known by the fall of the known ones."""
        _, chance, counts, all_of = self._shell_sums
        full = np.flatnonzero(counts > all_of / 2)
        if not full.size or full[-1] + 1 == len(means):
            return means
        last = int(full[-1])
        middle = _shells(self.nodes.spaces)[1]
        upper = slice(max(last - 1, 0), last + 1)
        number = float(counts[upper].sum())
        found, doubt = (means * counts)[upper].sum(), SURE * float(np.hypot.reduce(chance[upper]))
        level = (1 - (doubt / found) ** 2) * found / number if found > doubt else 0.0
        ratios = float((middle * counts)[upper].sum()) / number / middle[last + 1 :]
        out = means.copy()
        out[last + 1 :] = level * ratios ** self._decay(means, middle, full[-FITTED:])
        return out

    def _decay(self, means: np.ndarray, middle: np.ndarray, fastest: np.ndarray) -> float:
        """The power of frequency by which energy falls, by a line through logarithms."""
        _, chance, counts, _ = self._shell_sums
        errors = chance / np.maximum(counts, 1)
        used = fastest[(fastest > 0) & (means[fastest] > LIKELY * errors[fastest])]
        if not used.size:
            return DECAY
        squares = (errors[used] / means[used]) ** 2 + 2 / counts[used] + DOUBT
        weights = 1 / squares
        along, up = np.log(middle[used]), np.log(means[used])
        along = along - (weights * along).sum() / weights.sum()
        slope = (BELIEF * DECAY - (weights * along * up).sum()) / (
            BELIEF + (weights * along**2).sum()
        )
        return float(np.clip(slope, *DECAYS))

    def _aliased(self, means: np.ndarray, blocks: GridBlocks) -> np.ndarray:
        """The mean energy that shells take over from faster waves, whose energies these are."""
        shells = _shells(self.nodes.spaces)[0]
        taken = blocks.aliased(means[shells])
        index = shells[blocks.corner].ravel()
        number = np.maximum(np.bincount(index, minlength=len(means)), 1)
        return np.asarray(np.bincount(index, taken.ravel(), len(means)) / number)

    @cached_property
    def _shell_sums(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """By shells: the energy beyond noise, its deviation, known coefficients, all coefficients.

        The constant coefficient is not known: the count of points is no signal.
        """
        index = _shells(self.nodes.spaces)[0].ravel()
        known = np.isfinite(self.noise).ravel()
        known[0] = False
        noise = np.where(known, self.noise.ravel(), 0.0)
        energy = np.bincount(index, np.where(known, self.waves.ravel() ** 2 - noise, 0.0))
        chance = np.sqrt(2 * np.bincount(index, noise**2))
        return energy, chance, np.bincount(index, known), np.bincount(index)

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


def answer_waves(nodes: Nodes, weights: np.ndarray) -> np.ndarray:
    """What a unit of each coefficient adds to an answer that weighs the masses of nodes so."""
    from scipy.fft import dctn

    parts = weights * uniform_masses(nodes)
    for axis, (first, spaces) in enumerate(zip(nodes.firsts, nodes.spaces, strict=True)):
        starts = np.append(0, first + 1 + np.arange(spaces - 1))  # nodes beyond the box count too
        parts = np.add.reduceat(parts, starts, axis=axis)
    return np.asarray(dctn(parts, norm="ortho") * math.prod(nodes.spaces))


def shrunk(signal: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Squared error to be expected of each coefficient after shrinkage."""
    known = np.isfinite(noise)
    finite = np.where(known, noise, 1.0)
    return np.asarray(np.where(known, signal * finite / (signal + finite), signal))


def answer_error(squares: np.ndarray, response: np.ndarray) -> float:
    """Squared error of answers by the squared errors of coefficients, summed over the box.

    response: the factor by which kernel sums multiply each coefficient. The constant one does not
    count, since answers are divided by the number of points.
    """
    parts = squares * response**2
    return float(parts.sum() - parts.flat[0])


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
def _shells(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The shell of each coefficient, by the logarithm of its frequency, and shells' mean ones."""
    squares = np.zeros(())
    for n in shape:
        squares = np.add.outer(squares, (np.arange(n) * max(shape) / n) ** 2)
    frequency = np.sqrt(squares)
    number = np.ceil(np.log(np.maximum(frequency, 0.5)) / math.log(GROWTH) + 1e-9)
    _, dense = np.unique(number, return_inverse=True)
    index = dense.ravel()
    return dense.reshape(shape), np.bincount(index, frequency.ravel()) / np.bincount(index)
