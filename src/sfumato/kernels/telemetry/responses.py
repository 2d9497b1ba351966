"""From random words to reports: numbers without bias, coins by cell, and cells marked in a row.

Cell i of a row is bit i & 7 of byte i >> 3.

Thirty-two 16-bit numbers, high byte first, compared at once: one bit for each. Uniform subsets of
cells without bias, by Floyd's algorithm, in the bits of a payload.
"""

import numpy as np
from llvmlite import ir
from numba import types

from sfumato.kernels import lane_codegen as code
from sfumato.kernels.jit import inline, intrinsic, kernel
from sfumato.kernels.lane_types import U32
from sfumato.kernels.lanes import load

__all__ = ["answer", "at_most", "choose", "toggle"]


@intrinsic
def at_most(typing, lanes, limit):
    """A uint64 whose bit i says whether number i of the 64 bytes in the lanes is <= limit."""
    code.expect(lanes == U32, "at_most", "u32x16", lanes)
    code.expect_integer("at_most", limit)
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


@kernel
def choose(words, limit, found, out):
    """Append to out[r] numbers below the limit, no two equal; found[r] of them stand already.

    A word at or above the largest multiple of the limit is skipped, so all remainders are equally
    likely. found[r] says how many stand at the end.
    """
    fair = (np.int64(1) << 32) - (np.int64(1) << 32) % limit
    for r in range(words.shape[0]):
        done = found[r]
        for word in words[r]:
            if done == out.shape[1]:
                break
            number = np.int64(word)
            if number < fair:
                number %= limit
                fresh = True
                for j in range(done):
                    fresh &= out[r, j] != number
                if fresh:
                    out[r, done] = number
                    done += 1
        found[r] = done


@kernel
def toggle(members, out):
    """Turn the cells of row r that are listed in members[r]; -1 lists none."""
    for r in range(members.shape[0]):
        for cell in members[r]:
            if cell >= 0:
                out[r, cell >> 3] ^= np.uint8(1) << np.uint8(cell & 7)


@inline
def _below(lanes, probability):
    """Bit i: whether the i-th of 32 numbers is below the probability, of 65536."""
    return at_most(lanes, probability - 1) if probability > 0 else np.uint64(0)


@inline
def _sent(was, zero, one, shift):
    """One byte of cells: the coin for a 1 where the cell was marked, else that for a 0."""
    return np.uint8((one >> shift & was) | (zero >> shift & ~was) & np.uint64(255))


@kernel
def answer(numbers, cells, unmarked, marked, out):
    """Cell i of out[r] = (u_i < marked if it is marked, else u_i < unmarked), in units of 2**-16.

    u_i: the i-th 16-bit number of row r, high byte first. Rows are uint32, a multiple of 16 long.
    """
    for r in range(out.shape[0]):
        for begin in range(0, cells, 32):
            lanes = load(numbers, r * numbers.shape[1] + begin // 2)
            zero = _below(lanes, unmarked)
            one = _below(lanes, marked) if marked != unmarked else zero
            at = begin // 8
            if cells - begin >= 32:
                for j in range(4):
                    was = np.uint64(out[r, at + j])
                    out[r, at + j] = _sent(was, zero, one, np.uint64(8 * j))
            else:
                rest = (np.uint64(1) << np.uint64(cells - begin)) - np.uint64(1)
                for j in range(out.shape[1] - at):
                    was = np.uint64(out[r, at + j])
                    out[r, at + j] = _sent(was, zero & rest, one & rest, np.uint64(8 * j))


FULL = 1 << 32  # the number of values of a random word


@inline
def _skip(index, own):
    """The cell that is number `index` among all but one."""
    return index + (index >= own)


@kernel
def choose_subset(words, own, includes_own, chosen, cells, refused, out):
    """out[i] = the bits of a uniform set of `chosen` cells, with own[i] where includes_own[i].

    A word at or above the largest multiple of its limit would favour small numbers: such a row is
    left empty with refused[i] true and must be tried again with fresh words. out must be zero.
    """
    others = cells - 1
    for i in range(own.size):
        draws = chosen - includes_own[i]
        refused[i] = False
        for d in range(draws):
            last = others - draws + d
            limit = last + 1
            word = np.int64(words[i, d])
            if word >= FULL - FULL % limit:
                refused[i] = True
                break
            cell = _skip(word % limit, own[i])
            if out[i, cell >> 3] >> np.uint8(cell & 7) & 1:
                cell = _skip(last, own[i])
            out[i, cell >> 3] |= np.uint8(1 << (cell & 7))
        if refused[i]:
            out[i, :] = 0
        elif includes_own[i]:
            out[i, own[i] >> 3] |= np.uint8(1 << (own[i] & 7))
