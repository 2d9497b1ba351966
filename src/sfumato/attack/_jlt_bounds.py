"""What a noised projection tells of one item and of a whole profile, in nats: (3.25), (3.26)."""

from typing import Any

import numpy as np

from sfumato.attack._arrays import within

__all__ = ["jlt_joint", "jlt_joint_bound", "jlt_single", "jlt_single_bound"]


def jlt_single(dimensions: Any, size: Any, sigma: Any) -> np.ndarray:
    """(3.25), its equality: nats that a noised projection tells about one item of a profile.

    Guarantee: exact for codewords of independent normal numbers of variance 1 / dimensions.
    At most 1 / (2 (sigma**2 + (size - 1) / dimensions)), whatever the noise was calibrated for.
    Parameters: dimensions, from 1 up; size, from 1 up; sigma of the noise, from 0 up, in units of
    one codeword's norm. Without noise a single item still hides among the others.

    >>> round(float(jlt_single(1000, 106, 3)), 4)
    0.0549

    Thesis (3.25): its equality is right, its bound is not; see `jlt_single_bound`.
    """
    owner = "jlt_single"
    dimensions = within(owner, "dimensions", dimensions, 1)
    others = within(owner, "size", size, 1) - 1
    with np.errstate(divide="ignore"):
        ratio = 1 / (others + dimensions * within(owner, "sigma", sigma, 0) ** 2)
    return np.asarray(dimensions / 2 * np.log1p(ratio))


def jlt_joint(dimensions: Any, size: Any, sigma: Any) -> np.ndarray:
    """(3.26), its equality: nats about a whole profile (not divided by size).

    Guarantee: exact for codewords as in `jlt_single`, an upper bound for all others of norm 1 at
    most and mean 0: of all laws of one variance the normal one has the largest entropy. At most
    size / (2 sigma**2), whatever the noise was calibrated for.
    Parameters: as of `jlt_single`; size, from 0 up.

    >>> round(float(jlt_joint(1000, 106, 3)) / 106, 4)
    0.0552

    Thesis (3.26): right.
    """
    owner = "jlt_joint"
    dimensions = within(owner, "dimensions", dimensions, 1)
    size = within(owner, "size", size, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = size / (dimensions * within(owner, "sigma", sigma, 0) ** 2)
    return np.asarray(np.where(size == 0, 0.0, dimensions / 2 * np.log1p(ratio)))


def jlt_single_bound(epsilon: Any, dimensions: Any, size: Any) -> np.ndarray:
    """(3.25), its bound corrected, for noise as strong as (3.10) asks for: sigma**2 > 16 / epsilon.

    Guarantee: at least `jlt_single` for every delta that (3.10) allows. Noise calibrated tightly,
    as ours is, is weaker than (3.10) asks for: ask `jlt_single` at its sigma.

    >>> round(float(jlt_single_bound(1, 1000, 106)), 5)
    0.03105

    Thesis (3.25) multiplies (size - 1) by the dimensions; dividing is right, and the printed
    bound, 6,500 times lower in the example, is false.
    """
    owner = "jlt_single_bound"
    epsilon = within(owner, "epsilon", epsilon, 0)
    others = within(owner, "size", size, 1) - 1
    return np.asarray(
        epsilon / (32 + 2 * epsilon * others / within(owner, "dimensions", dimensions, 1))
    )


def jlt_joint_bound(epsilon: Any) -> np.ndarray:
    """(3.26), its bound: nats an item, for noise as strong as (3.10) asks for.

    Guarantee: at least `jlt_joint` / size, likewise.

    >>> float(jlt_joint_bound(1))
    0.03125

    Thesis (3.26): right; epsilon**2 / (32 log(1 / delta)) is lower still.
    """
    return np.asarray(within("jlt_joint_bound", "epsilon", epsilon, 0) / 32)
