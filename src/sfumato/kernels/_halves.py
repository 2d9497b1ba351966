"""Thirty-two 16-bit numbers, high byte first, compared at once: one bit for each."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from . import _lane_code as code
from ._lane_types import U32

__all__ = ["at_most"]


@intrinsic
def at_most(typing, lanes, limit):
    """A uint64 whose bit i says whether number i of the 64 bytes in the lanes is <= limit."""
    code.expect(lanes == U32, "at_most", "u32x16", lanes)
    code.expect_whole("at_most", limit)
    numbers = ir.VectorType(ir.IntType(16), 32)

    def compare(builder, value, bound):
        value = builder.bitcast(value, numbers)
        value = code.call(builder, "llvm.bswap.v32i16", numbers, [value])
        first = builder.insert_element(
            ir.Constant(numbers, ir.Undefined),
            builder.trunc(bound, ir.IntType(16)),
            ir.Constant(ir.IntType(32), 0),
        )
        every = ir.Constant(ir.VectorType(ir.IntType(32), 32), [0] * 32)
        bounds = builder.shuffle_vector(first, first, every)
        found = builder.icmp_unsigned("<=", value, bounds)
        return builder.zext(builder.bitcast(found, ir.IntType(32)), ir.IntType(64))

    return code.emit(types.uint64(lanes, types.uint64), compare)
