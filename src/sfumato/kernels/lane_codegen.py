"""How the operations on lanes become LLVM code: what Numba's intrinsics answer, and its parts."""

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError

from sfumato.kernels.alignment import LINE
from sfumato.kernels.lane_types import (
    F32,
    F64,
    FLOATS,
    MASKS,
    NUMBERS,
    U32,
    U64,
    agreed,
    among,
    compare,
    fill,
    indices,
    joins,
    spread,
)

__all__ = [
    "broadcast",
    "call",
    "emit",
    "expect",
    "expect_integer",
    "extreme",
    "lanewise",
    "llvm",
    "load",
    "mask",
    "narrow",
    "pick",
    "prefetch",
    "reduce",
    "select",
    "store",
    "stripes_at",
    "turned",
    "unpack",
    "versioned",
    "widen",
    "words_at",
]

_LANES_OF = {lanes.scalar: lanes for lanes in NUMBERS} | {types.int32: U32, types.int64: U64}


def expect(holds, owner, wanted, *given):
    """Refuse to compile a call with arguments of the wrong types."""
    if not holds:
        raise TypingError(f"{owner}: wants {wanted}, not {', '.join(map(str, given))}.")


def expect_integer(owner, *given):
    """Refuse to compile a call with anything but integers, which convert to uint64."""
    expect(all(isinstance(each, types.Integer) for each in given), owner, "integers", *given)


def call(builder, name, answer, values, fastmath=()):
    """Call an LLVM intrinsic by its full name."""
    kind = ir.FunctionType(answer, [each.type for each in values])
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, values, fastmath=fastmath)


def versioned(name, lanes):
    """The full name of the version of an LLVM intrinsic for a lane type."""
    return f"{name}.v{lanes.count}{'f' if lanes in FLOATS else 'i'}{lanes.scalar.bitwidth}"


def emit(signature, operation):
    """What an intrinsic answers: its signature, and operation(builder, *values) to compile it."""
    return signature, lambda context, builder, signature, values: operation(builder, *values)


def lanewise(owner, accepted, operation, *given):
    """The same for operation(builder, lanes, *values) from lanes of one type to that type."""
    arguments = agreed(accepted, *given)
    expect(arguments, owner, f"equal lanes of {' or '.join(map(str, accepted))}", *given)
    lanes = among(arguments)

    def spread_operation(builder, *values):
        return operation(builder, lanes, *spread(builder, lanes, values))

    return emit(lanes(*arguments), spread_operation)


def _address(owner, array, offset):
    """A function that gives the address of element `offset` as an LLVM value."""
    known = isinstance(array, types.Array) and array.layout == "C"
    expect(known, owner, "a C-contiguous array", array)
    expect_integer(owner, offset)

    def address(context, builder, array_value, offset_value):
        data = context.make_array(array)(context, builder, array_value).data
        element = context.get_data_type(array.dtype)
        return builder.gep(data, [offset_value], source_etype=element)

    return address


def _lanes_of(owner, array, aligned):
    expect(array.dtype in _LANES_OF, owner, "an array of 32-bit or 64-bit numbers", array)
    lanes = _LANES_OF[array.dtype]
    return lanes, LINE if aligned else lanes.scalar.bitwidth // 8


def load(owner, array, offset, aligned):
    """Read lanes from memory."""
    address = _address(owner, array, offset)
    lanes, alignment = _lanes_of(owner, array, aligned)

    def lower(context, builder, signature, values):
        position = address(context, builder, *values)
        return builder.load(position, align=alignment, typ=lanes.vector)

    return lanes(array, types.intp), lower


def words_at(addresses, mask):
    """Read a word from each of eight addresses."""
    _expect_addresses("words_at", addresses, mask)

    def read(builder, *values):
        found = ir.Constant(U64.vector, ir.Undefined)
        for at, word in enumerate(_read_rows(builder, U64.vector.element, *values)):
            found = builder.insert_element(found, word, ir.Constant(ir.IntType(32), at))
        return found

    return emit(U64(addresses, mask), read)


def cells_at(array, low, high):
    """Read sixteen floats by their positions; most CPUs gather more slowly."""
    floats = isinstance(array, types.Array) and array.dtype == types.float32 and array.is_c_contig
    wanted = "a float32 array and two u64x8"
    expect(floats and low == high == U64, "cells_at", wanted, array, low, high)

    def lower(context, builder, signature, values):
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        found = ir.Constant(F32.vector, ir.Undefined)
        for at in range(F32.count):
            half, lane = divmod(at, U64.count)
            position = builder.extract_element(values[1 + half], _int32(lane))
            cell = builder.load(builder.gep(data, [position]))
            found = builder.insert_element(found, cell, _int32(at))
        return found

    return F32(array, low, high), lower


def _int32(number):
    return ir.Constant(ir.IntType(32), number)


def stripes_at(addresses, mask):
    """Read four adjacent words from each of eight addresses."""
    _expect_addresses("stripes_at", addresses, mask)
    row, answer = ir.VectorType(U64.vector.element, 4), types.UniTuple(U64, 4)

    def lower(context, builder, signature, values):
        rows = _read_rows(builder, row, *values)
        return context.make_tuple(builder, answer, list(_columns(builder, rows)))

    return answer(addresses, mask), lower


def _expect_addresses(owner, addresses, mask):
    expected = addresses == U64 and mask == MASKS[8]
    expect(expected, owner, "u64x8 and its mask", addresses, mask)


def _read_rows(builder, row, addresses, chosen):
    """The rows at eight addresses, aligned or not; zeros where they are not chosen."""
    # Eight loads, since most CPUs gather more slowly. Lanes to leave out read zeros on the stack.
    zeros = cgutils.alloca_once_value(builder, ir.Constant(row, None))
    zeros = fill(builder, U64, builder.ptrtoint(zeros, U64.vector.element))
    addresses = builder.select(chosen, addresses, zeros)
    for lane in range(U64.count):
        address = builder.extract_element(addresses, ir.Constant(ir.IntType(32), lane))
        yield builder.load(builder.inttoptr(address, row.as_pointer()), align=1, typ=row)


def _columns(builder, rows):
    """The columns of eight rows of four words, by pairs and then quarters of rows."""

    def joined(parts, chosen):
        parts = list(parts)
        twos = zip(parts[::2], parts[1::2], strict=True)
        return [builder.shuffle_vector(a, b, indices(chosen)) for a, b in twos]

    pairs = joined(rows, range(8))
    for column in (0, 2):
        halves = joined(pairs, [*range(column, 16, 4), *range(column + 1, 16, 4)])
        for first in (0, 4):
            yield joined(halves, [*range(first, first + 4), *range(first + 8, first + 12)])[0]


def store(owner, array, offset, value, aligned):
    """Write lanes to memory."""
    address = _address(owner, array, offset)
    lanes, alignment = _lanes_of(owner, array, aligned)
    expect(value == lanes and array.mutable, owner, "a writable array of its lanes", array, value)

    def lower(context, builder, signature, values):
        position = address(context, builder, *values[:2])
        position = builder.bitcast(position, lanes.vector.as_pointer())
        builder.store(values[2], position, align=alignment)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), lower


def prefetch(owner, array, offset, write):
    """Hint that a cache line is wanted."""
    address = _address(owner, array, offset)

    def lower(context, builder, signature, values):
        # After write or read: keep in all cache levels (3), as data and not instructions (1).
        settings = [ir.Constant(ir.IntType(32), each) for each in (write, 3, 1)]
        position = address(context, builder, *values)
        call(builder, "llvm.prefetch.p0", ir.VoidType(), [position, *settings])
        return context.get_dummy_value()

    return types.void(array, types.intp), lower


def broadcast(lanes, number):
    """Put a plain number in all lanes."""
    expect(joins(number, lanes), lanes.name, "a number that its lanes can hold", number)
    return emit(lanes(lanes.scalar), lambda builder, value: fill(builder, lanes, value))


def llvm(name, *constants):
    """An operation for `lanewise` that is one LLVM intrinsic."""

    def operation(builder, lanes, *values):
        return call(builder, versioned(name, lanes), lanes.vector, [*values, *constants])

    return operation


def pick(symbol):
    """An operation for `lanewise`: a where `a symbol b`, else b."""

    def operation(builder, lanes, a, b):
        return builder.select(compare(symbol)(builder, lanes, a, b), a, b)

    return operation


def select(mask, a, b):
    """Choose lanes by a mask."""
    arguments = agreed(NUMBERS, a, b)
    lanes = among(arguments)
    known = lanes is not None and mask == MASKS[lanes.count]
    expect(known, "select", "a mask and two equal lanes of its length", mask, a, b)

    def choose(builder, mask, *values):
        return builder.select(mask, *spread(builder, lanes, values))

    return emit(lanes(mask, *arguments), choose)


def unpack(builder, count, number):
    """The low `count` bits of a uint64 as a mask."""
    return builder.bitcast(builder.trunc(number, ir.IntType(count)), MASKS[count].vector)


def mask(count, bits):
    """Make a mask from an integer."""
    expect_integer(f"mask{count}", bits)
    return emit(MASKS[count](types.uint64), lambda builder, n: unpack(builder, count, n))


def narrow(low, high):
    """Join sixteen lanes from the halves of sixteen wide ones."""
    expect(low == high and low in (F64, U64), "narrow", "two f64x8 or two u64x8", low, high)
    lanes, method = (F32, "fptrunc") if low == F64 else (U32, "trunc")

    def join(builder, *values):
        half = ir.VectorType(lanes.vector.element, 8)
        halves = [getattr(builder, method)(each, half) for each in values]
        return builder.shuffle_vector(*halves, indices(range(16)))

    return emit(lanes(low, high), join)


def widen(owner, a, chosen):
    """Double the width of the chosen eight of sixteen lanes."""
    expect(a in (F32, U32), owner, "f32x16 or u32x16", a)
    lanes, method = (F64, "fpext") if a == F32 else (U64, "zext")

    def stretch(builder, value):
        half = builder.shuffle_vector(value, value, indices(chosen))
        return getattr(builder, method)(half, lanes.vector)

    return emit(lanes(a), stretch)


def turned(a, count):
    """Rotate the bits of a uint64 or of its lanes."""
    expect(a in (U64, types.uint64), "turned", "a uint64 or u64x8", a)
    expect_integer("turned", count)

    def rotate(builder, value, number):
        if a == types.uint64:
            return call(builder, "llvm.fshl.i64", value.type, [value, value, number])
        number = fill(builder, U64, number)
        return call(builder, versioned("llvm.fshl", U64), value.type, [value, value, number])

    return emit(a(a, types.uint64), rotate)


def reduce(owner, a, name, start=(), fastmath=()):
    """Reduce lanes to a number by one of LLVM's reductions."""
    expect(a in NUMBERS, owner, "lanes of numbers", a)

    def fold(builder, value):
        full_name = versioned(f"llvm.vector.reduce.{name}", a)
        return call(builder, full_name, a.vector.element, [*start, value], fastmath)

    return emit(a.scalar(a), fold)


def extreme(owner, a, float_name, whole_name):
    """Reduce lanes to the smallest or largest of those that are not NaN."""
    if a not in FLOATS:
        return reduce(owner, a, whole_name)

    def fold(builder, value):
        # LLVM's own reduction that ignores NaN goes lane by lane; halving goes by registers.
        while (half := value.type.count // 2) > 0:
            low = builder.shuffle_vector(value, value, indices(range(half)))
            high = builder.shuffle_vector(value, value, indices(range(half, 2 * half)))
            name = f"llvm.{float_name}.v{half}f{a.scalar.bitwidth}"
            value = call(builder, name, low.type, [low, high])
        return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    return emit(a.scalar(a), fold)
