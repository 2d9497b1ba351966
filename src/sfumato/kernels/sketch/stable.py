"""Entries of stable distributions, made from the hashes of keys: sums of weighted columns."""

import math

import numpy as np

from sfumato.kernels.hash import GOLDEN, mix
from sfumato.kernels.jit import inline, kernel

__all__ = ["add"]

LOW = np.uint64(2**32 - 1)
HALF = np.uint64(32)


@inline
def _uniform(bits):
    return (np.float64(np.int64(bits)) + 0.5) * 2.0**-32


@inline
def _entry(word, p):
    """A symmetric p-stable number: Chambers, Mallows and Stuck 1976."""
    angle = math.pi * (_uniform(word >> HALF) - 0.5)
    if p == 1.0:
        return math.tan(angle)
    wait = -math.log(_uniform(word & LOW))
    first = math.sin(p * angle) / math.cos(angle) ** (1.0 / p)
    return first * (math.cos((1.0 - p) * angle) / wait) ** ((1.0 - p) / p)


@kernel
def add(hashes, weights, p, cells):
    """cells[j] += sum over i of weights[i] times the p-stable entry j of key i."""
    for i in range(hashes.size):
        for j in range(cells.size):
            word = mix(hashes[i] + np.uint64(j + 1) * GOLDEN)
            cells[j] += weights[i] * _entry(word, p)
