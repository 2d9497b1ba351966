"""Vector lanes in kernels: f32x16, f64x8, u32x16 and u64x8, each 512 bits, on any CPU.

Lanes of one type take + - * and comparisons (which give masks); floats also / and unary -, whole
numbers & | ^ ~ << >> (logical, count modulo the width), masks & | ^ ~. Integers wrap. A plain
number beside lanes is converted to their scalar type and fills every lane.
"""

from llvmlite import ir
from numba.core import cgutils, types

from sfumato.kernels import lane_codegen as code
from sfumato.kernels.alignment import aligned
from sfumato.kernels.jit import intrinsic
from sfumato.kernels.lane_types import F32, F64, FLOATS, MASKS, NUMBERS, U32, U64, WHOLE

__all__ = [
    "aligned",
    "bits",
    "cells_at",
    "count_leading_zeros",
    "count_trailing_zeros",
    "f32x16",
    "f64x8",
    "flip",
    "floats",
    "fma",
    "lane",
    "largest",
    "leading_zeros",
    "load",
    "load_aligned",
    "mask8",
    "mask16",
    "maximum",
    "minimum",
    "multiply_high",
    "narrow",
    "popcount",
    "population_count",
    "prefetch",
    "prefetch_write",
    "select",
    "smallest",
    "store",
    "store_aligned",
    "stripes_at",
    "total",
    "turned",
    "u32x16",
    "u64x8",
    "widen_high",
    "widen_low",
    "words_at",
]


@intrinsic
def load(typing, array, offset):
    """The lanes from flat element `offset` on, unchecked; their type is the dtype's, unsigned."""
    return code.load("load", array, offset, aligned=False)


@intrinsic
def load_aligned(typing, array, offset):
    """`load` from an address that is a multiple of 64 bytes; any other may crash."""
    return code.load("load_aligned", array, offset, aligned=True)


@intrinsic
def words_at(typing, addresses, mask):
    """The 64-bit words at eight raw addresses, 0 where the mask is false and nothing is read."""
    return code.words_at(addresses, mask)


@intrinsic
def stripes_at(typing, addresses, mask):
    """The first, second, third and fourth word at eight raw addresses; 0 where the mask is false.

    Four words are loaded at a time: faster than `words_at` four times.
    """
    return code.stripes_at(addresses, mask)


@intrinsic
def cells_at(typing, array, low, high):
    """Sixteen float32 at the flat elements that two u64x8 name, unchecked."""
    return code.cells_at(array, low, high)


@intrinsic
def store(typing, array, offset, value):
    """Write the lanes from flat element `offset` on, unchecked."""
    return code.store("store", array, offset, value, aligned=False)


@intrinsic
def store_aligned(typing, array, offset, value):
    """`store` to an address that is a multiple of 64 bytes; any other may crash."""
    return code.store("store_aligned", array, offset, value, aligned=True)


@intrinsic
def prefetch(typing, array, offset):
    """Ask for the cache line of flat element `offset`, which may lie outside, to read it soon."""
    return code.prefetch("prefetch", array, offset, write=0)


@intrinsic
def prefetch_write(typing, array, offset):
    """Ask for the cache line of flat element `offset`, which may lie outside, to change it soon."""
    return code.prefetch("prefetch_write", array, offset, write=1)


@intrinsic
def f32x16(typing, number):
    """Sixteen float32 lanes that all hold `number`."""
    return code.broadcast(F32, number)


@intrinsic
def f64x8(typing, number):
    """Eight float64 lanes that all hold `number`."""
    return code.broadcast(F64, number)


@intrinsic
def u32x16(typing, number):
    """Sixteen uint32 lanes that all hold `number`, modulo 2**32."""
    return code.broadcast(U32, number)


@intrinsic
def u64x8(typing, number):
    """Eight uint64 lanes that all hold `number`, modulo 2**64."""
    return code.broadcast(U64, number)


@intrinsic
def fma(typing, a, b, c):
    """a * b + c of floats, rounded once (slow on CPUs that lack the instruction)."""
    return code.lanewise("fma", FLOATS, code.llvm("llvm.fma"), a, b, c)


@intrinsic
def minimum(typing, a, b):
    """a where a < b, else b; so b where either is NaN."""
    return code.lanewise("minimum", NUMBERS, code.pick("<"), a, b)


@intrinsic
def maximum(typing, a, b):
    """a where a > b, else b; so b where either is NaN."""
    return code.lanewise("maximum", NUMBERS, code.pick(">"), a, b)


@intrinsic
def popcount(typing, a):
    """How many bits are set in each integer lane."""
    return code.lanewise("popcount", WHOLE, code.llvm("llvm.ctpop"), a)


@intrinsic
def leading_zeros(typing, a):
    """How many zero bits precede the highest set bit of each lane; all of them in a lane of 0."""
    return code.lanewise("leading_zeros", WHOLE, code.llvm("llvm.ctlz", cgutils.false_bit), a)


@intrinsic
def select(typing, mask, a, b):
    """a in the lanes where the mask is true, b in the others."""
    return code.select(mask, a, b)


@intrinsic
def bits(typing, mask):
    """A uint64 whose bit i is lane i of the mask."""
    code.expect(mask in MASKS.values(), "bits", "a mask", mask)

    def pack(builder, value):
        return builder.zext(builder.bitcast(value, ir.IntType(mask.count)), ir.IntType(64))

    return code.emit(types.uint64(mask), pack)


@intrinsic
def mask16(typing, bits):
    """The mask of 16 lanes whose lane i is bit i of an integer."""
    return code.mask(16, bits)


@intrinsic
def mask8(typing, bits):
    """The mask of 8 lanes whose lane i is bit i of an integer."""
    return code.mask(8, bits)


@intrinsic
def flip(typing, value, bits):
    """Negate float lane i, for each bit i that is set in an integer."""
    code.expect(value in FLOATS, "flip", "float lanes", value)
    code.expect_integer("flip", bits)

    def negate(builder, lanes, number):
        return builder.select(code.unpack(builder, value.count, number), builder.fneg(lanes), lanes)

    return code.emit(value(value, types.uint64), negate)


@intrinsic
def narrow(typing, low, high):
    """Sixteen lanes from twice eight: the low 32 bits of integers, or rounded floats."""
    return code.narrow(low, high)


@intrinsic
def widen_low(typing, a):
    """Lanes 0 to 7 of sixteen, each twice as wide."""
    return code.widen("widen_low", a, range(8))


@intrinsic
def widen_high(typing, a):
    """Lanes 8 to 15 of sixteen, each twice as wide."""
    return code.widen("widen_high", a, range(8, 16))


@intrinsic
def floats(typing, a):
    """Integers of 32 bits as float32, each rounded to the nearest."""
    code.expect(a == U32, "floats", "u32x16", a)
    return code.emit(F32(a), lambda builder, value: builder.uitofp(value, F32.vector))


@intrinsic
def total(typing, a):
    """The sum of all lanes: of floats in no specified order, of integers modulo 2**width."""
    if a in FLOATS:
        # -0.0 is what leaves every sum as it is, 0.0 + -0.0 included.
        return code.reduce("total", a, "fadd", [ir.Constant(a.vector.element, -0.0)], ["reassoc"])
    return code.reduce("total", a, "add")


@intrinsic
def smallest(typing, a):
    """The smallest lane; NaN only if all lanes are."""
    return code.extreme("smallest", a, "minnum", "umin")


@intrinsic
def largest(typing, a):
    """The largest lane; NaN only if all lanes are."""
    return code.extreme("largest", a, "maxnum", "umax")


@intrinsic
def turned(typing, a, count):
    """A uint64, or each of its lanes, with the bits rotated up by `count` modulo 64."""
    return code.turned(a, count)


@intrinsic
def lane(typing, a, i):
    """The number in lane i, modulo how many there are."""
    code.expect(a in NUMBERS, "lane", "lanes of numbers", a)
    code.expect_integer("lane", i)
    last = ir.Constant(ir.IntType(64), a.count - 1)
    return code.emit(
        a.scalar(a, types.uint64),
        lambda builder, value, i: builder.extract_element(value, builder.and_(i, last)),
    )


@intrinsic
def multiply_high(typing, a, b):
    """The high 64 bits of the 128-bit product of two uint64."""
    code.expect_integer("multiply_high", a, b)

    def high(builder, *values):
        a, b = (builder.zext(each, ir.IntType(128)) for each in values)
        both = builder.mul(a, b)
        return builder.trunc(builder.lshr(both, ir.Constant(both.type, 64)), ir.IntType(64))

    return code.emit(types.uint64(types.uint64, types.uint64), high)


@intrinsic
def count_leading_zeros(typing, number):
    """How many zero bits precede the highest set bit of a uint64, as int64; 64 for 0."""
    code.expect_integer("count_leading_zeros", number)
    return code.emit(
        types.int64(types.uint64), lambda builder, n: builder.ctlz(n, cgutils.false_bit)
    )


@intrinsic
def count_trailing_zeros(typing, number):
    """How many zero bits stand below the lowest set bit of a uint64, as int64; 64 for 0."""
    code.expect_integer("count_trailing_zeros", number)
    return code.emit(
        types.int64(types.uint64), lambda builder, n: builder.cttz(n, cgutils.false_bit)
    )


@intrinsic
def population_count(typing, number):
    """How many bits of a uint64 are set, as int64."""
    code.expect_integer("population_count", number)
    return code.emit(types.int64(types.uint64), lambda builder, n: builder.ctpop(n))
