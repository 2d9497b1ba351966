"""L-infinity noise: integer vectors with probability proportional to exp(-max |n_i| / scale).

For k cells that one unit may all change by as much as c, scale c / epsilon keeps pure epsilon: the
largest of |noise| changes by at most c. The standard deviation of each cell is then about
(c / epsilon) k / sqrt(3), where Laplace noise, calibrated to the L1 sensitivity k c, has
sqrt(2) k c / epsilon.
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
    """Sample integers n_1 to n_k with joint probability proportional to exp(-max |n_i| / scale).

    Parameters
    ----------
    scale : Fraction
        Above 0 up to 2**40, taken exactly.
    size : int
        Number of integers k, at least 1.
    source : Source or None, default=None
        Source of random bits, for tests only.

    Returns
    -------
    ndarray
        k integers, int64.

    Notes
    -----
    **Guarantee.** Exact. Since exp(-m / s) is the sum over r >= m of exp(-r / s), up to a factor,
    the numbers are uniform in a cube from -r to r, whose r has probability proportional to exp(-r /
    s) (2 r + 1)**k. A sum of k + 1 geometric numbers has exp(-r / s) (r + 1) ... (r + k) and is
    accepted with probability (2 r + 1)**k / ((2 r + 2) ... (2 r + 2 k)).

    References
    ----------
    .. [1] Hardt, Talwar. "On the Geometry of Differential Privacy". STOC 2010, section 4 (the
       K-norm mechanism, for continuous noise). https://arxiv.org/abs/0907.3754
    .. [2] Awan, Slavković. "Structure and Sensitivity in Differential Privacy: Comparing K-Norm
       Mechanisms". JASA 2021. https://arxiv.org/abs/1801.09236

    Examples
    --------
    >>> discrete_cube(Fraction(5), 3).shape
    (3,)
    """
    scale = rational.check("discrete_cube", "scale", scale)
    size = integer(1).check("discrete_cube", "size", size)
    source = source or SystemSource()
    bits = reference.Bits(source)
    while True:
        radius = int(_geometric(scale, size + 1, source).sum())
        if 2 * radius >= noise.ROOM:
            raise ValueError(f"discrete_cube: scale is too large for {size} cells of 64 bits.")
        acceptances = (Fraction(2 * radius + 1, 2 * (radius + i)) for i in range(1, size + 1))
        if all(reference.bernoulli(probability, bits) for probability in acceptances):
            return noise.uniform(2 * radius + 1, size, source=source) - radius


def add_cube(cells: np.ndarray, scale: Fraction, *, source: Source | None = None) -> None:
    """Add noise of `discrete_cube` to a contiguous int64 array, in place."""
    cells += discrete_cube(scale, cells.size, source=source).reshape(cells.shape)


def cube_deviation(scale: float, size: int) -> float:
    """Return the standard deviation of one number, for scales well above 1.

    r is then nearly a Gamma number of shape k + 1, and a uniform number's variance r**2 / 3.
    """
    return scale * math.sqrt((size + 1) * (size + 2) / 3)


def _geometric(scale: Fraction, count: int, source: Source) -> np.ndarray:
    """Sample numbers k >= 0 with probability proportional to exp(-k / scale).

    Non-negative Laplace numbers; as many are drawn as it takes, since a negative one says nothing
    about the others.
    """
    found: list[np.ndarray] = []
    while (missing := count - sum(part.size for part in found)) > 0:
        drawn = noise.discrete_laplace(scale, 2 * missing + 16, source=source)
        found.append(drawn[drawn >= 0][:missing])
    return np.concatenate(found)
