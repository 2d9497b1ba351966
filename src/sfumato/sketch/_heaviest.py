"""The heaviest weight a sketch has taken: what bounds the effect of one event on its counters."""

import numpy as np

from sfumato._require import whole

__all__ = ["bounded_weight", "check_heaviest", "heaviest"]

WEIGHT = whole(1, 2**31 - 1)


def heaviest(sizes: np.ndarray | None, count: int) -> int:
    """The largest of so many sizes of weights; None stands for all ones."""
    return min(count, 1) if sizes is None else int(sizes.max(initial=0))


def bounded_weight(owner: str, weight: int, most: int) -> int:
    """The weight that a caller promises no event exceeds, once no event did."""
    weight = WEIGHT.check(owner, "weight", weight)
    if most > weight:
        # How heavy it is stays untold: the sentence may end up in a log.
        raise ValueError(
            f"{owner}: weight is {weight}, but the sketch holds a heavier event; give what is "
            "publicly known to bound every event (do not search for it: that would tell), or clip "
            "the weights before they are counted."
        )
    return weight


def check_heaviest(most: int, mass: int) -> None:
    """Raise ValueError where a file's heaviest weight contradicts the sum of all sizes."""
    if not min(mass, 1) <= most <= min(mass, WEIGHT.high):
        raise ValueError("the heaviest weight does not fit the sum of all.")
