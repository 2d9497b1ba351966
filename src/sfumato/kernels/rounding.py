"""Weights rounded to a sign and a few bits of magnitude, as planes of bits for a scan of codes.

The step between magnitudes is chosen for each query: the smallest squared error among steps from
the one that just reaches the largest weight down to a fifth of it. Larger weights are clipped;
for Gaussian weights that is better than to spend the bits on the few largest.
"""

import numpy as np

from ._jit import inline, kernel
from .lanes import f32x16, fma, load, minimum, store, total

__all__ = ["round_weights"]

TRIES = 32
LEAST = 0.2
WHOLE = np.float32(1.5 * 2**23)  # adding it leaves no bits behind the point


def round_weights(
    weights: np.ndarray, words: int, precision: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Planes uint64 (q, 1 + precision, words), steps float32 (q,) and sums of magnitudes (q,).

    Plane 0 has a bit where the weight is above 0, plane p bit precision - p of the magnitude. A
    weight is close to its step * sign * magnitude.

    >>> planes, steps, wholes = round_weights(np.array([[-3, 2, 0]], np.float32), 1, 2)
    >>> planes[0, :, 0], steps, wholes
    (array([2, 3, 1], dtype=uint64), array([1.], dtype=float32), array([5.], dtype=float32))
    """
    padded = np.zeros((len(weights), 64 * words), np.float32)
    padded[:, : np.shape(weights)[1]] = weights
    planes = np.zeros((len(weights), 1 + precision, words), np.uint64)
    steps, wholes = np.zeros((2, len(weights)), np.float32)
    split(padded, planes, steps, wholes)
    return planes, steps, wholes


@inline
def _magnitudes(sizes, at, inverse, top):
    x = minimum(load(sizes, at) * f32x16(inverse), f32x16(top))
    return (x + f32x16(WHOLE)) - f32x16(WHOLE)


@inline
def _error(sizes, step, top):
    """The squared error of all magnitudes at one step."""
    error = f32x16(0.0)
    for at in range(0, sizes.size, 16):
        miss = fma(_magnitudes(sizes, at, 1 / step, top), f32x16(-step), load(sizes, at))
        error = fma(miss, miss, error)
    return total(error)


@inline
def _step(sizes, top):
    """The step of the smallest error; 0 where all weights are."""
    widest = sizes.max() / top
    best, least = widest, np.float32(np.inf)
    for i in range(TRIES if widest > 0 else 0):
        step = widest * np.float32(1 - i * (1 - LEAST) / (TRIES - 1))
        error = _error(sizes, step, top)
        if error < least:
            best, least = step, error
    return best


@inline
def _refit(sizes, whole):
    """The step that is best for these magnitudes: least squares."""
    both, own = 0.0, 0.0
    for j in range(sizes.size):
        both += sizes[j] * whole[j]
        own += whole[j] * whole[j]
    return both / own if own > 0 else 0.0


@kernel
def split(weights, planes, steps, wholes):
    """Planes, steps and sums of magnitudes of each row; planes begin as 0."""
    depth = planes.shape[1] - 1
    top = np.float32(2**depth - 1)
    whole = np.zeros(weights.shape[1], np.float32)
    for q in range(weights.shape[0]):
        sizes = np.abs(weights[q])
        step = _step(sizes, top)
        for at in range(0, sizes.size if step > 0 else 0, 16):
            store(whole, at, _magnitudes(sizes, at, 1 / step, top))
        steps[q] = _refit(sizes, whole) if step > 0 else 0
        for j in range(sizes.size if step > 0 else 0):
            bit, number = np.uint64(j % 64), np.uint64(whole[j])
            planes[q, 0, j // 64] |= np.uint64(weights[q, j] > 0) << bit
            wholes[q] += whole[j]
            for p in range(depth):
                one = (number >> np.uint64(depth - 1 - p)) & np.uint64(1)
                planes[q, 1 + p, j // 64] |= one << bit
