"""Lane types: 512 bits of equal numbers as one value in a kernel, and the operators on them."""

import operator

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, models, register_model, type_callable

__all__ = [
    "F32",
    "F64",
    "FLOATS",
    "MASKS",
    "NUMBERS",
    "U32",
    "U64",
    "WHOLE",
    "Lanes",
    "agreed",
    "among",
    "compare",
    "fill",
    "indices",
    "joins",
    "spread",
]


class Lanes(types.Type):
    """`count` numbers of one scalar type. They live in registers and never reach Python."""

    def __init__(self, name, scalar, count):
        super().__init__(name)
        self.scalar, self.count = scalar, count

    @property
    def vector(self):
        """The LLVM type, <count x element>."""
        floats = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
        width = 1 if self.scalar == types.boolean else self.scalar.bitwidth
        return ir.VectorType(floats.get(self.scalar) or ir.IntType(width), self.count)


F32 = Lanes("f32x16", types.float32, 16)
F64 = Lanes("f64x8", types.float64, 8)
U32 = Lanes("u32x16", types.uint32, 16)
U64 = Lanes("u64x8", types.uint64, 8)
FLOATS, WHOLE, NUMBERS = (F32, F64), (U32, U64), (F32, F64, U32, U64)
MASKS = {count: Lanes(f"mask{count}", types.boolean, count) for count in (8, 16)}


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, fe_type.vector)


def joins(number, lanes):
    """Whether a plain number may become the scalar type of these lanes."""
    kinds = (types.Integer, types.Float) if lanes in FLOATS else types.Integer
    return lanes in NUMBERS and isinstance(number, kinds)


def among(given):
    """The first lane type in a list of types, or None."""
    return next((each for each in given if isinstance(each, Lanes)), None)


def agreed(accepted, *given):
    """The types to convert arguments to, so that numbers join the one lane type; () if none fit."""
    lanes = among(given)
    if lanes not in accepted or not all(each == lanes or joins(each, lanes) for each in given):
        return ()
    return tuple(lanes if each == lanes else lanes.scalar for each in given)


def fill(builder, lanes, number):
    """Lanes that all hold `number`."""
    undefined = ir.Constant(lanes.vector, ir.Undefined)
    one = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, indices([0] * lanes.count))


def spread(builder, lanes, values):
    """The arguments, each plain number among them in all lanes."""
    return [each if each.type == lanes.vector else fill(builder, lanes, each) for each in values]


def indices(chosen):
    """The constant that makes a shuffle choose these lanes."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), list(chosen))


def compare(symbol):
    """Lower `a symbol b` to a mask; NaN differs from all numbers and is neither below nor above."""

    def lower(builder, lanes, a, b):
        if lanes in WHOLE:
            return builder.icmp_unsigned(symbol, a, b)
        return (builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered)(symbol, a, b)

    return lower


def _arithmetic(float_method, whole_method):
    def lower(builder, lanes, a, b):
        return getattr(builder, float_method if lanes in FLOATS else whole_method)(a, b)

    return lower


def _shift(method):
    def lower(builder, lanes, a, count):
        # LLVM leaves a count past the width undefined, and CPUs differ; modulo is free if constant.
        last = ir.Constant(lanes.vector, lanes.scalar.bitwidth - 1)
        return getattr(builder, method)(a, builder.and_(count, last))

    return lower


def _define(operation, accepted, lower, answer):
    """Let kernels write `operation` between lanes, or between lanes and a number."""

    @type_callable(operation)
    def typed(context):
        def signature(a, b):
            arguments = agreed(accepted, a, b)
            return answer(among(arguments))(*arguments) if arguments else None

        return signature

    @lower_builtin(operation, Lanes, Lanes)
    @lower_builtin(operation, Lanes, types.Number)
    @lower_builtin(operation, types.Number, Lanes)
    def lowered(context, builder, signature, values):
        lanes = among(signature.args)
        return lower(builder, lanes, *spread(builder, lanes, values))


def _define_unary(operation, accepted, method):
    @type_callable(operation)
    def typed(context):
        return lambda a: a if a in accepted else None

    @lower_builtin(operation, Lanes)
    def lowered(context, builder, signature, values):
        return getattr(builder, method)(*values)


_BITWISE = (*WHOLE, *MASKS.values())
_BINARY = {
    operator.add: (NUMBERS, _arithmetic("fadd", "add")),
    operator.sub: (NUMBERS, _arithmetic("fsub", "sub")),
    operator.mul: (NUMBERS, _arithmetic("fmul", "mul")),
    operator.truediv: (FLOATS, _arithmetic("fdiv", None)),
    operator.and_: (_BITWISE, _arithmetic(None, "and_")),
    operator.or_: (_BITWISE, _arithmetic(None, "or_")),
    operator.xor: (_BITWISE, _arithmetic(None, "xor")),
    operator.lshift: (WHOLE, _shift("shl")),
    operator.rshift: (WHOLE, _shift("lshr")),
}
_COMPARISONS = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}

for _operation, (_accepted, _lower) in _BINARY.items():
    _in_place = getattr(operator, "i" + _operation.__name__.rstrip("_"))
    _define(_operation, _accepted, _lower, answer=lambda lanes: lanes)
    _define(_in_place, _accepted, _lower, answer=lambda lanes: lanes)
for _operation, _symbol in _COMPARISONS.items():
    _define(_operation, NUMBERS, compare(_symbol), answer=lambda lanes: MASKS[lanes.count])
_define_unary(operator.neg, FLOATS, "fneg")
_define_unary(operator.invert, _BITWISE, "not_")
