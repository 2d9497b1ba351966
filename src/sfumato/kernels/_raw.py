"""Little-endian words at raw addresses, so that one kernel reads every Arrow buffer in place."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["byte_at", "word32_at", "word64_at"]


def _reader(bits):
    @intrinsic
    def read(typing, address):
        def lower(context, builder, signature, arguments):
            word = ir.IntType(bits)
            value = builder.load(builder.inttoptr(arguments[0], word.as_pointer()))
            value.align = 1  # Arrow slices start anywhere
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.uint64(types.uint64), lower

    return read


byte_at, word32_at, word64_at = _reader(8), _reader(32), _reader(64)
