"""Information bounds of released profiles, in nats: the formulas of thesis section 3.3, corrected.

All functions take and return arrays that broadcast. A `single` formula is the information of a
release about one item of a profile, a `joint` formula that about the entire profile. Both assume
random codewords, so that the bits or numbers of a release are independent. With a catalogue of N
items, a release never carries more than the log of the number of profiles of that size.
"""

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

__all__ = [
    "any_false_positive",
    "binary_divergence",
    "binary_entropy",
    "blip_joint",
    "blip_joint_designed",
    "blip_single",
    "blip_single_designed",
    "blip_single_mixed",
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
