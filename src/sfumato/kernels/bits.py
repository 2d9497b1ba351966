"""Codes of bits packed 64 to a word, lowest first: made from signs, compared by their distance."""

import numpy as np

from ._jit import kernel
from .lanes import bits, load, narrow, popcount, store, u64x8

__all__ = ["hamming", "pack_signs"]


@kernel
def pack_signs(values, out):
    """Bit j of out[r] says values[r, j] > 0; values has a multiple of 8 columns."""
    count, width = values.shape
    for r in range(count):
        for word in range(out.shape[1]):
            packed = np.uint64(0)
            for j in range(64 * word, min(64 * word + 64, width), 8):
                positive = bits(load(values, r * width + j) > 0.0)
                packed |= positive << np.uint64(j - 64 * word)
            out[r, word] = packed


@kernel
def hamming(codes, panels, out):
    """out[r, 16 p + c] = how many bits differ between codes[r] and panels[p, :, c]."""
    words, width = panels.shape[1], out.shape[1]
    for p in range(panels.shape[0]):
        for r in range(codes.shape[0]):
            low, high = u64x8(0), u64x8(0)
            for word in range(words):
                at = 16 * (p * words + word)
                code = u64x8(codes[r, word])
                low += popcount(load(panels, at) ^ code)
                high += popcount(load(panels, at + 8) ^ code)
            store(out, r * width + 16 * p, narrow(low, high))
