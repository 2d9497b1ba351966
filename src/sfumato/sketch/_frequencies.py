"""Frequencies of a kernel in whole parts of a turn for each step of a box: phases without rounding.

A phase is the sum of steps times turns modulo 2**32, so that every machine finds the same one.
"""

import math
from functools import lru_cache

import numpy as np

from sfumato.kernels.lanes import aligned
from sfumato.kernels.waves import PANEL
from sfumato.sketch._points import Box
from sfumato.sketch._radial import frequencies

__all__ = ["BITS", "check_turns", "outer_steps", "steps", "turns"]

BITS = 20  # of a coordinate: a frequency is then off by 2**-13 turns over the whole side, at most
FARTHEST = 2.0**31 - 1  # steps: two thousand sides away from the box
MOST = 2**26  # numbers of all frequencies: 256 MiB, and a few times that while they are made
PARTS = 2.0**32  # of a turn


def check_turns(owner: str, bandwidth: float, box: Box, rows: int) -> None:
    """Raise ValueError where phases would be too coarse, or frequencies too many for memory."""
    longest = float(box.widths.max())
    if longest > bandwidth * 2**14:
        raise ValueError(
            f"{owner}: bandwidth must be at least 2**-14 of the longest side, which is "
            f"{longest:g}, not {bandwidth!r}; points are kept in 2**20 steps a side; "
            "rescale the columns or widen the bandwidth."
        )
    if rows * box.dimension > MOST:
        raise ValueError(
            f"{owner}: rows must be at most {MOST // box.dimension} for {box.dimension} columns, "
            f"not {rows}; more frequencies would not fit into memory."
        )


@lru_cache(8)
def turns(kind: str, bandwidth: float, box: Box, rows: int, strata: str, seed: int) -> np.ndarray:
    """Panels of 16 frequencies: for each coordinate, parts of a turn in one step, modulo a turn.

    The last panel is filled up with frequencies of 0.
    """
    radians = frequencies(kind, rows, box.dimension, seed, strata == "stratified")
    step = box.widths / ((2.0**BITS - 1) * bandwidth)
    parts = np.fmod(np.rint(radians * (step * (PARTS / (2 * math.pi)))), PARTS)
    panels = aligned((-(-rows // PANEL), box.dimension, PANEL), np.uint32)
    filled = np.zeros((len(panels) * PANEL, box.dimension), np.int64)
    filled[:rows] = parts
    panels[...] = filled.reshape(-1, PANEL, box.dimension).transpose(0, 2, 1)  # negative ones wrap
    panels.flags.writeable = False
    return panels


def steps(box: Box, clipped: np.ndarray) -> np.ndarray:
    """Points of the box in whole steps."""
    return np.ascontiguousarray(box.steps(clipped, BITS), np.uint32)


def outer_steps(box: Box, queries: np.ndarray) -> np.ndarray:
    """Any points in whole steps, modulo 2**32; those past two thousand sides are moved in."""
    with np.errstate(over="ignore"):
        scaled = np.rint((queries - np.array(box.low)) * ((2.0**BITS - 1) / box.widths))
    whole = np.clip(scaled, -FARTHEST, FARTHEST).astype(np.int64)
    return np.asarray(whole.astype(np.uint32))
