"""Noise in a cube: integers whose largest, and nothing else, decides how likely they are.

For k cells that one unit may all change by as much as c, scale c / epsilon keeps pure epsilon: the
largest of |noise| moves by at most c. Each cell's deviation is then about (c / epsilon) k / sqrt(3)
where Laplace noise, which must count the sum k c of all changes, has sqrt(2) k c / epsilon.
"""

import math
from fractions import Fraction

import numpy as np

from sfumato.core.validation import integer, rational
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.exact import reference
from sfumato.privacy.random_source import Source, SystemSource

__all__ = ["add_cube", "cube_deviation", "discrete_cube"]


def discrete_cube(scale: Fraction, size: int, *, source: Source | None = None) -> np.ndarray:
    """Integers n_1 to n_k, together with chance proportional to exp(-max |n_i| / scale).

    Guarantee: exact. Since exp(-m / s) is the sum over r >= m of exp(-r / s), up to a factor, the
    numbers are uniform in a cube from -r to r, whose r has chance proportional to
    exp(-r / s) (2 r + 1)**k. A sum of k + 1 geometric numbers has exp(-r / s) (r + 1) ... (r + k)
    and is kept with chance (2 r + 1)**k / ((2 r + 2) ... (2 r + 2 k)).
    Parameters: scale, above 0 up to 2**40, exactly; size, k; source, for tests only.

    >>> discrete_cube(Fraction(5), 3).shape
    (3,)

    Hardt and Talwar 2010, section 4 (for continuous noise); Awan and Slavkovic 2021.
    """
    scale = rational.check("discrete_cube", "scale", scale)
    size = integer(1).check("discrete_cube", "size", size)
    source = source or SystemSource()
    bits = reference.Bits(source)
    while True:
        radius = int(_geometric(scale, size + 1, source).sum())
        if 2 * radius >= noise.ROOM:
            raise ValueError("discrete_cube: scale is too large for so many cells of 64 bits.")
        kept = (Fraction(2 * radius + 1, 2 * (radius + i)) for i in range(1, size + 1))
        if all(reference.bernoulli(chance, bits) for chance in kept):
            return noise.uniform(2 * radius + 1, size, source=source) - radius


def add_cube(cells: np.ndarray, scale: Fraction, *, source: Source | None = None) -> None:
    """Add noise in a cube to a contiguous int64 array, in place."""
    cells += discrete_cube(scale, cells.size, source=source).reshape(cells.shape)


def cube_deviation(scale: float, size: int) -> float:
    """The standard deviation of one number, for scales well above 1 (there the noise is not 0).

    r is then nearly a Gamma number of shape k + 1, and a uniform number's variance r**2 / 3.
    """
    return scale * math.sqrt((size + 1) * (size + 2) / 3)


def _geometric(scale: Fraction, count: int, source: Source) -> np.ndarray:
    """So many k >= 0, each with chance proportional to exp(-k / scale): Laplace, if not negative.

    As many are drawn as it takes; a negative one says nothing about the others.
    """
    found: list[np.ndarray] = []
    while (missing := count - sum(part.size for part in found)) > 0:
        drawn = noise.discrete_laplace(scale, 2 * missing + 16, source=source)
        found.append(drawn[drawn >= 0][:missing])
    return np.concatenate(found)
