"""What released profiles can give away, in nats: the formulas of thesis section 3.3, corrected.

All take and give arrays that broadcast. `single` is what a release tells about one item of a
profile, `joint` what it tells about the whole of it. Both are those of a simple model: codewords
are drawn at random, so the bits or numbers of a release are independent. A real catalogue of N
items never gives more than the log of the number of profiles of that size.
"""

from typing import Any, NamedTuple

import numpy as np

from sfumato.attack.leakage.decoding_limits import (
    any_false_positive,
    largest_catalogue,
    largest_joint_catalogue,
    least_false_positive_rate,
)
from sfumato.attack.leakage.profile_bounds import (
    blip_joint,
    blip_joint_designed,
    blip_single,
    blip_single_designed,
    blip_single_mixed,
    flip_bound,
    flip_chance,
    jlt_joint,
    jlt_joint_bound,
    jlt_single,
    jlt_single_bound,
    occupancy,
    recommended_hashes,
)
from sfumato.attack.leakage.symbol_bounds import (
    minima_joint,
    minima_single,
    signs_joint,
    signs_single,
)
from sfumato.attack.numerics import binary_divergence, binary_entropy
from sfumato.core.tables import described

__all__ = [
    "Figure31",
    "any_false_positive",
    "binary_divergence",
    "binary_entropy",
    "blip_joint",
    "blip_joint_designed",
    "blip_single",
    "blip_single_designed",
    "blip_single_mixed",
    "figure_3_1",
    "flip_bound",
    "flip_chance",
    "jlt_joint",
    "jlt_joint_bound",
    "jlt_single",
    "jlt_single_bound",
    "largest_catalogue",
    "largest_joint_catalogue",
    "least_false_positive_rate",
    "minima_joint",
    "minima_single",
    "occupancy",
    "recommended_hashes",
    "signs_joint",
    "signs_single",
]


class Figure31(NamedTuple):
    """The grids of figure 3.1: a row for each size, a column for each number of bits."""

    sizes: np.ndarray
    bits: np.ndarray
    joint: np.ndarray
    difference: np.ndarray

    def __repr__(self) -> str:
        return described(self, **self._asdict())


def figure_3_1(sizes: Any = None, bits: Any = None, epsilon: float = 20) -> Figure31:
    """Figure 3.1: joint nats an item, and how many more they are than single ones.

    Parameters: sizes, 10 to 500 unless given; bits, 100 to 10,000 unless given; epsilon. The
    hashes are those of (3.20).

    >>> told = figure_3_1()
    >>> round(float(told.joint.max()), 3), round(float(told.difference.max()), 3)
    (4.899, 1.502)

    The thesis reads 1.25 off its figure, e**1.25 = 3.5 times more items. In this model it is 1.50
    or 4.5 times, at every size, where there are 11.5 bits an item and so 8 hashes. It is 1.504,
    the largest (1 / log 2 - 1) (log 2 - h(flip)) hashes, where hashes need not be whole.
    """
    sizes = np.arange(10, 501, 10) if sizes is None else np.asarray(sizes)
    bits = np.arange(100, 10_001, 100) if bits is None else np.asarray(bits)
    rows = sizes[:, None]
    hashes = recommended_hashes(bits, rows)
    flip = flip_chance(epsilon, hashes)
    joint = blip_joint(bits, hashes, flip, rows) / rows
    return Figure31(sizes, bits, joint, joint - blip_single(bits, hashes, flip, rows))
