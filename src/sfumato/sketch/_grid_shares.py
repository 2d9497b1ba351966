"""How the levels of a grid share the budget: a public rule of dimension, size and noise."""

import math
from functools import lru_cache

from sfumato.privacy.noise_law import NoiseLaw
from sfumato.sketch._grid_filters import Filter
from sfumato.sketch._grid_levels import Levels
from sfumato.sketch._noisy_cells import Reach

__all__ = ["guessed_error", "shared_levels"]

BASE = Filter(4, 2)
# Of the base and of upper levels, the nodes taking 1, for 1, 2 and 3 dimensions: those that nearly
# minimise the variance of an answer amid grids of 1000, 150 x 150 and 58 x 58 x 58 nodes.
SHARES: dict[str, dict[str, tuple[tuple[float, ...], ...]]] = {
    "Laplace": {
        "p-stable": ((1.9,), (0.7, 0.55), (0.55, 0.3, 0.05)),
        "exponential": ((1.9,), (1.15,), (0.7, 0.1)),
        "gaussian": ((1.8,), (0.8,), (0.5,)),
    },
    "Gaussian": {
        "p-stable": ((0.9, 0.25, 0.4, 0.17), (0.5, 0.4, 0.15, 0.05), (0.35, 0.3, 0.12, 0.05)),
        "exponential": ((1.1, 0.2, 0.28, 0.05), (0.6, 0.37, 0.05), (0.5, 0.25, 0.1)),
        "gaussian": ((1.1, 0.1, 0.05), (0.55, 0.1, 0.05), (0.36, 0.07)),
    },
}
REACHED = {"Laplace": (1.9, 3.0, 4.3), "Gaussian": (1.1, 1.3, 1.7)}  # an answer's error at norm 1
COUNT = 0.04  # what the count of all points takes
FINE = 2  # the smallest multiple, so that no share is rounded by more than a quarter


@lru_cache(maxsize=16)
def shared_levels(shape: tuple[int, ...], law: str, kernel: str) -> Levels:
    """The levels whose noise is nearly least for sums of this kernel over such a grid."""
    middle = max(BASE.cells(n) for n in shape)
    base, *upper = SHARES[law][kernel][len(shape) - 1]
    kept = [(Filter(4, 2, 4**k), u) for k, u in enumerate(upper) if 4 ** (k + 1) < middle]
    filters = tuple(filter for filter, _ in kept)
    shares = (1.0, base, *(share for _, share in kept), COUNT)
    parts = Levels(shape, BASE, filters, (1,) * len(shares)).units
    scale = FINE * max(part / share for part, share in zip(parts, shares, strict=True))
    times = [round(scale * share / part) for part, share in zip(parts, shares, strict=True)]
    return Levels(shape, BASE, filters, tuple(times))


def guessed_error(levels: Levels, reach: Reach, law: NoiseLaw) -> float:
    """The usual standard deviation of an answer's noise, well enough to choose between laws."""
    norm = reach.l1 if law.kind == "Laplace" else math.sqrt(reach.l2_squared)
    return REACHED[law.kind][len(levels.shape) - 1] * math.sqrt(law.variance) / norm
