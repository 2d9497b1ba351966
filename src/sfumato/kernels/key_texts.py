"""Hashes of a few keys: of texts in a Python bytes object, and of floats.

One kernel call instead of an Arrow column; the hashes are those of `kernels/hash.py`.
"""

import numpy as np
from numba import types
from numba.core import cgutils

from sfumato.kernels.hash import GOLDEN, byte_at, mix, of_bytes, of_integer
from sfumato.kernels.jit import intrinsic, kernel

__all__ = ["float_keys", "joined_keys", "one_key", "text_keys"]


@intrinsic
def _address(typing, text):
    """The address of the first byte of a bytes object."""

    def lower(context, builder, signature, arguments):
        held = cgutils.create_struct_proxy(text)(context, builder, value=arguments[0])
        return builder.ptrtoint(held.data, context.get_value_type(types.uint64))

    return types.uint64(text), lower


@kernel
def one_key(text, seed, out):
    """out[0] = the hash of the whole text."""
    out[0] = of_bytes(_address(text), np.uint64(len(text)), seed, mix(seed + GOLDEN))


@kernel
def joined_keys(text, seed, out):
    """out[i] = the hash of part i between zero bytes; whether there are as many parts as places."""
    key = mix(seed + GOLDEN)
    at = _address(text)
    end = at + np.uint64(len(text))
    for i in range(out.size):
        start = at
        while at < end and byte_at(at):
            at += np.uint64(1)
        out[i] = of_bytes(start, at - start, seed, key)
        if at == end:
            return i + 1 == out.size
        at += np.uint64(1)
    return False


@kernel
def text_keys(data, bounds, seed, out):
    """out[i] = the hash of text i, one after the other; it compiles sooner than `hash.strings`."""
    key = mix(seed + GOLDEN)
    for i in range(out.size):
        out[i] = of_bytes(
            data + np.uint64(bounds[i]), np.uint64(bounds[i + 1] - bounds[i]), seed, key
        )


@kernel
def float_keys(values, key, missing, out):
    """out[i] = the hash of an integral value, or `missing` for NaN; whether all are such."""
    for i in range(values.size):
        value = values[i]
        if np.isnan(value):
            out[i] = missing
        elif np.floor(value) == value and abs(value) < 2.0**63:
            out[i] = of_integer(np.int64(value), key)
        else:
            return False
    return True
