"""Lanes compute what NumPy computes, lane by lane, on AVX-512, on AVX2 and on any x86-64."""

import os
import platform
import subprocess
import sys
from fractions import Fraction

import numba
import numpy as np
import pytest
from llvmlite import binding
from numba.core.errors import NumbaError

from sfumato.kernels.jit import inline, kernel
from sfumato.kernels.lanes import (
    aligned,
    bits,
    cells_at,
    count_leading_zeros,
    count_trailing_zeros,
    f32x16,
    f64x8,
    flip,
    floats,
    fma,
    lane,
    largest,
    leading_zeros,
    load,
    load_aligned,
    mask8,
    mask16,
    maximum,
    minimum,
    multiply_high,
    narrow,
    popcount,
    population_count,
    prefetch,
    prefetch_write,
    select,
    smallest,
    store,
    store_aligned,
    stripes_at,
    total,
    turned,
    u32x16,
    u64x8,
    widen_high,
    widen_low,
    words_at,
)

WIDEST = {"haswell": "ymm", "x86-64": "xmm"}  # what each CPU's vector registers are called
SIZE = 256


@kernel
def compute_floats(a, b, c, count, number, signs, out):
    """Row r of out is operation r on every block of `count` lanes."""
    for i in range(0, a.size, count):
        x, y, z = load(a, i), load(b, i), load(c, i)
        store(out[0], i, x + y)
        store(out[1], i, x - y)
        store(out[2], i, x * y)
        store(out[3], i, x / y)
        store(out[4], i, -x)
        store(out[5], i, minimum(x, y))
        store(out[6], i, maximum(x, y))
        store(out[7], i, number - x)
        store(out[8], i, select(x < y, x, 7))
        store(out[9], i, flip(x, signs))
        store(out[10], i, fma(x, y, z))
        x += y
        x /= 3
        store(out[11], i, x)
        store(out[12], i, load(a, i) * y + z)


@kernel
def compute_whole(a, b, count, number, out):
    """Row r of out is operation r on every block of `count` lanes."""
    for i in range(0, a.size, count):
        x, y = load(a, i), load(b, i)
        store(out[0], i, x + y)
        store(out[1], i, x - y)
        store(out[2], i, x * y)
        store(out[3], i, x & y)
        store(out[4], i, x | y)
        store(out[5], i, x ^ y)
        store(out[6], i, ~x)
        store(out[7], i, x << y)
        store(out[8], i, x >> y)
        store(out[9], i, x << 5)
        store(out[10], i, x >> number)
        store(out[11], i, minimum(x, y))
        store(out[12], i, maximum(x, y))
        store(out[13], i, popcount(x))
        store(out[14], i, leading_zeros(x))
        store(out[15], i, number - x)
        store(out[16], i, select(x <= y, x, 7))
        x *= y
        x -= 1
        x ^= y
        x &= ~y
        x |= 3
        x <<= y
        x >>= 1
        store(out[17], i, x)


@kernel
def compare(a, b, count, masks):
    """masks[r, j] holds the bits of comparison r on block j."""
    for j in range(a.size // count):
        x, y = load(a, j * count), load(b, j * count)
        masks[0, j] = bits(x < y)
        masks[1, j] = bits(x <= y)
        masks[2, j] = bits(x == y)
        masks[3, j] = bits(x != y)
        masks[4, j] = bits(x > y)
        masks[5, j] = bits(x >= y)
        masks[6, j] = bits(((x < y) | (x == y)) & ~(x == y) ^ (x > y))


@kernel
def reduce(a, count, out):
    """Row r of out is reduction r of each block."""
    for j in range(a.size // count):
        x = load(a, j * count)
        out[0, j] = total(x)
        out[1, j] = smallest(x)
        out[2, j] = largest(x)
        out[3, j] = lane(x, j)
        out[4, j] = lane(x, 3)


@kernel
def convert(f32, f64, u32, u64, i32, i64, number):
    """Fill, widen, narrow, mask and move: blocks 0 and 1 of the 64-bit arrays go to block 2."""
    prefetch(f32, 10**6)
    prefetch_write(f32, 10**6)
    store(f64, 16, widen_low(load(f32, 0)))
    store(f64, 24, widen_high(load(f32, 0)))
    store(u64, 16, widen_low(load(u32, 0)))
    store(u64, 24, widen_high(load(u32, 0)))
    store(f32, 16, narrow(load(f64, 0), load(f64, 8)))
    store(u32, 16, narrow(load(u64, 0), load(u64, 8)))
    store(f32, 32, f32x16(number))
    store(f64, 32, f64x8(number))
    store(u32, 32, u32x16(-2))
    store(u64, 32, u64x8(-2))
    store(f32, 48, select(mask16(0x8421), f32x16(1), f32x16(2)))
    store(f64, 40, select(mask8(0xF81), f64x8(1), f64x8(2)))
    store(f32, 64, floats(load(u32, 0)))
    store(i32, 16, load(i32, 0) >> 1)
    store(i64, 8, load(i64, 0) >> 1)


@kernel
def compute_scalars(a, b, high, zeros, low, ones):
    """The 64-bit scalars of every element; returns the counts of the first."""
    for i in range(a.size):
        high[i] = multiply_high(a[i], b[i])
        zeros[i] = count_leading_zeros(a[i])
        low[i] = count_trailing_zeros(a[i])
        ones[i] = population_count(a[i])
    return count_leading_zeros(a[0]), count_trailing_zeros(a[0]), population_count(a[0])


@inline
def keep_smaller(least, factor, term, key):
    """One step of min-hash, with lanes in and out of a helper."""
    return minimum(least, factor * key + term)


@kernel
def min_hash(keys, factors, terms, out):
    """out[p] = min over keys of factors[p] * key + terms[p] modulo 2**32, for 32 p."""
    a, b = load_aligned(factors, 0), load_aligned(factors, 16)
    c, d = load_aligned(terms, 0), load_aligned(terms, 16)
    low, high = u32x16(0xFFFFFFFF), u32x16(0xFFFFFFFF)
    for i in range(keys.size):
        key = u32x16(keys[i])
        low, high = keep_smaller(low, a, c, key), keep_smaller(high, b, d, key)
    store_aligned(out, 0, low)
    store_aligned(out, 16, high)


@kernel
def read_words(addresses, chosen, out):
    """Row 0: a word of each address; rows 1 to 4: its first four; 5 and 6: turned bits."""
    at, mask = load(addresses, 0), mask8(chosen)
    store(out, 0, words_at(at, mask))
    a, b, c, d = stripes_at(at, mask)
    store(out, 8, a)
    store(out, 16, b)
    store(out, 24, c)
    store(out, 32, d)
    store(out, 40, turned(a, 12))
    for i in range(8):
        out[6, i] = turned(out[1, i], i)


@kernel
def use_cells(positions, table, out):
    """out = the cells at 16 positions."""
    store(out, 0, cells_at(table, load(positions, 0), load(positions, 8)))


KERNELS = (
    compute_floats,
    compute_whole,
    compare,
    reduce,
    convert,
    compute_scalars,
    min_hash,
    read_words,
    use_cells,
)


def float_pairs(dtype):
    """Every pair of special values, then random ones; off the 64-byte boundary."""
    limits = np.finfo(dtype)
    special = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, limits.max, limits.smallest_subnormal]
    return pairs(special, np.random.default_rng(1).normal(size=(2, SIZE)), dtype)


def whole_pairs(dtype):
    """Every pair of extreme values, then random ones; off the 64-byte boundary."""
    top = np.iinfo(dtype).max
    special = [0, 1, 2, 31, 32, 33, 64, top // 2, top // 2 + 1, top - 1, top]
    random = np.random.default_rng(2).integers(0, top, (2, SIZE), dtype, endpoint=True)
    return pairs(special, random, dtype)


def pairs(special, random, dtype):
    both = np.meshgrid(np.array(special, dtype), np.array(special, dtype))
    rows = [aligned(SIZE + 1, dtype)[1:] for _ in both]
    for row, values, rest in zip(rows, both, random, strict=True):
        row[:] = rest
        row[: values.size] = values.ravel()
        assert row.ctypes.data % 64 == row.itemsize
    return rows


def per_register(dtype):
    return 64 // np.dtype(dtype).itemsize


def assert_same(got, want, what):
    """Equal values, NaN for NaN, and zeros of the same sign."""
    np.testing.assert_array_equal(got, want, err_msg=what)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers], what)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_float_operations_are_numpys(dtype):
    a, b = float_pairs(dtype)
    c, out = -(a * b), np.zeros((13, SIZE), dtype)
    signs = 0b1010_0101_1100_0011
    compute_floats(a, b, c, per_register(dtype), 1.5, signs, out)
    negated = np.tile(signs >> np.arange(per_register(dtype)) & 1, SIZE // per_register(dtype))
    want = {
        "+": a + b,
        "-": a - b,
        "*": a * b,
        "/": a / b,
        "negate": -a,
        "minimum": np.where(a < b, a, b),
        "maximum": np.where(a > b, a, b),
        "number - a": dtype(1.5) - a,
        "select": np.where(a < b, a, dtype(7)),
        "flip": np.where(negated, -a, a),
    }
    for row, (what, values) in enumerate(want.items()):
        assert_same(out[row], values, what)
    assert_same(out[11], (a + b) / dtype(3), "in place")
    assert_same(out[12], a * b + c, "multiply, then add: rounded twice")
    # With c = -round(a b), fma gives the rounding error of a b, which is a number of its type.
    for x, y, z, got in list(zip(a, b, c, out[10], strict=True))[-128:]:
        assert Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) == Fraction(float(got))


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_whole_operations_are_numpys(dtype):
    a, b = whole_pairs(dtype)
    out = np.zeros((18, SIZE), dtype)
    width = 8 * a.itemsize
    compute_whole(a, b, per_register(dtype), 3, out)
    want = {
        "+": a + b,
        "-": a - b,
        "*": a * b,
        "&": a & b,
        "|": a | b,
        "^": a ^ b,
        "~": ~a,
        "<<": a << b % dtype(width),
        ">>": a >> b % dtype(width),
        "<< 5": a << dtype(5),
        ">> number": a >> dtype(3),
        "minimum": np.minimum(a, b),
        "maximum": np.maximum(a, b),
        "popcount": np.bitwise_count(a),
        "leading_zeros": [width - int(x).bit_length() for x in a],
        "number - a": dtype(3) - a,
        "select": np.where(a <= b, a, dtype(7)),
        "in place": (((a * b - dtype(1)) ^ b) & ~b | dtype(3)) << b % dtype(width) >> dtype(1),
    }
    for row, (what, values) in enumerate(want.items()):
        np.testing.assert_array_equal(out[row], values, err_msg=what)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint32, np.uint64])
def test_comparisons_give_one_bit_per_lane(dtype):
    a, b = (float_pairs if dtype in (np.float32, np.float64) else whole_pairs)(dtype)
    count = per_register(dtype)
    masks = np.zeros((7, SIZE // count), np.uint64)
    compare(a, b, count, masks)
    got = (masks[:, :, None] >> np.arange(64, dtype=np.uint64) & np.uint64(1)).astype(bool)
    want = [a < b, a <= b, a == b, a != b, a > b, a >= b, (a < b) ^ (a > b)]
    np.testing.assert_array_equal(got[:, :, :count].reshape(7, SIZE), want)
    assert not got[:, :, count:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_reductions_ignore_nan_and_sum_within_rounding(dtype):
    a, _ = float_pairs(dtype)
    count = per_register(dtype)
    a[-2 * count : -count] = np.nan
    out, blocks = np.zeros((5, SIZE // count), dtype), a.reshape(-1, count)
    reduce(a, count, out)
    tame = np.nan_to_num(np.abs(blocks), nan=np.inf).max(1) < 100
    assert tame.sum() > 5
    exact, size = blocks[tame].sum(1, dtype=np.longdouble), np.abs(blocks[tame]).sum(1)
    assert (np.abs(out[0, tame] - exact) <= (count - 1) * np.finfo(dtype).eps / 2 * size).all()
    np.testing.assert_array_equal(out[1], np.fmin.reduce(blocks, 1))
    np.testing.assert_array_equal(out[2], np.fmax.reduce(blocks, 1))
    check_lanes(out, blocks)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_whole_reductions_wrap_and_are_unsigned(dtype):
    a, _ = whole_pairs(dtype)
    count = per_register(dtype)
    out, blocks = np.zeros((5, SIZE // count), dtype), a.reshape(-1, count)
    reduce(a, count, out)
    np.testing.assert_array_equal(out[0], blocks.sum(1, dtype=dtype))
    np.testing.assert_array_equal(out[1], blocks.min(1))
    np.testing.assert_array_equal(out[2], blocks.max(1))
    check_lanes(out, blocks)


def check_lanes(out, blocks):
    rows = np.arange(len(blocks))
    np.testing.assert_array_equal(out[3], blocks[rows, rows % blocks.shape[1]])
    np.testing.assert_array_equal(out[4], blocks[:, 3])


def test_conversions_fills_and_masks_place_every_lane():
    rng = np.random.default_rng(3)
    f32, f64 = rng.normal(size=80).astype(np.float32), rng.normal(size=48)
    u32 = rng.integers(0, 2**32, 48, np.uint32)
    u64 = rng.integers(0, 2**64, 40, np.uint64)
    i32, i64 = np.full(32, -1, np.int32), np.full(16, -1, np.int64)
    first = {name: array.copy() for name, array in (("f64", f64), ("u64", u64))}
    convert(f32, f64, u32, u64, i32, i64, 0.1)
    np.testing.assert_array_equal(f64[16:32], f32[:16].astype(np.float64))
    np.testing.assert_array_equal(u64[16:32], u32[:16].astype(np.uint64))
    np.testing.assert_array_equal(f32[16:32], first["f64"][:16].astype(np.float32))
    np.testing.assert_array_equal(u32[16:32], first["u64"][:16].astype(np.uint32))
    assert (f32[32:48] == np.float32(0.1)).all()
    assert (f64[32:40] == 0.1).all()
    assert (u32[32:] == 2**32 - 2).all()
    assert (u64[32:] == 2**64 - 2).all()
    np.testing.assert_array_equal(f32[48:64], 2 - (0x8421 >> np.arange(16) & 1))
    np.testing.assert_array_equal(f32[64:], u32[:16].astype(np.float32))
    np.testing.assert_array_equal(f64[40:], 2 - (0x81 >> np.arange(8) & 1))
    assert (i32[16:] == 2**31 - 1).all()
    assert (i64[8:] == 2**63 - 1).all()


def test_words_are_read_at_any_address_where_the_mask_is_true():
    data = np.random.default_rng(5).integers(0, 256, 400, np.uint8)
    starts = np.array([3, 0, 8, 15, 301, 64, 7, 9])
    chosen = np.array([1, 1, 0, 1, 1, 1, 0, 1], bool)
    addresses = np.where(chosen, data.ctypes.data + starts, 0).astype(np.uint64)
    out = np.zeros((7, 8), np.uint64)
    read_words(addresses, int(np.packbits(chosen, bitorder="little")[0]), out)
    rows = np.array([data[at : at + 32].view(np.uint64) for at in starts]) * chosen[:, None]
    np.testing.assert_array_equal(out[0], rows[:, 0])
    np.testing.assert_array_equal(out[1:5], rows.T)
    twelve = rows[:, 0] << np.uint64(12) | rows[:, 0] >> np.uint64(52)
    np.testing.assert_array_equal(out[5], twelve)
    turned_bits = [(int(x) << i | int(x) >> 64 - i) % 2**64 for i, x in enumerate(rows[:, 0])]
    assert out[6].tolist() == turned_bits


def test_cells_are_read_by_position():
    table = np.arange(40, dtype=np.float32)
    positions = np.array([39, 0, 7, 7, 7, 1, 2, 39, 5, 5, 0, 38, 21, 20, 7, 3], np.uint64)
    out = np.zeros(16, np.float32)
    use_cells(positions, table, out)
    np.testing.assert_array_equal(out, table[positions])


def test_scalars_are_exact_and_counts_are_signed():
    a, b = whole_pairs(np.uint64)
    high, zeros, low, ones = (np.zeros(SIZE, np.uint64) for _ in range(4))
    answer = compute_scalars(a, b, high, zeros, low, ones)
    assert high.tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    assert zeros.tolist() == [64 - int(x).bit_length() for x in a]
    assert low.tolist() == [(int(x) & -int(x)).bit_length() - 1 if x else 64 for x in a]
    assert ones.tolist() == [int(x).bit_count() for x in a]
    assert answer == (64, 64, 0)
    [signature] = compute_scalars.nopython_signatures
    assert signature.return_type == numba.types.UniTuple(numba.int64, 3)


@pytest.mark.parametrize("shape", [0, 5, (3, 16), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.uint64])
def test_aligned_arrays_are_zeroed_and_start_a_cache_line(shape, dtype):
    retained = [aligned(shape, dtype) for _ in range(9)]
    for array in retained:
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.dtype == dtype
        assert array.shape == np.zeros(shape).shape
        assert not array.any()
        array[...] = 1


def min_hash_case():
    rng = np.random.default_rng(4)
    keys = rng.integers(0, 2**32, 1000, np.uint32)
    factors, terms, out = (aligned(32, np.uint32) for _ in range(3))
    factors[:], terms[:] = rng.integers(0, 2**32, (2, 32), np.uint32)
    return (keys, factors, terms, out), (keys[:, None] * factors + terms).min(0)


def test_kernels_with_lanes_are_loaded_from_disk():
    arguments, want = min_hash_case()
    min_hash(*arguments)
    again = kernel(min_hash.py_func)
    arguments[-1][:] = 0
    again(*arguments)
    assert sum(again.stats.cache_hits.values()) == 1
    assert not again.stats.cache_misses
    np.testing.assert_array_equal(arguments[-1], want)


def test_wrong_arguments_are_refused_when_compiling():
    f32 = np.zeros(64, np.float32)
    frozen = f32.copy()
    frozen.flags.writeable = False
    refused = {
        "a C-contiguous array": (lambda a: total(load(a, 0)), f32[::2]),
        "32-bit or 64-bit numbers": (lambda a: total(load(a, 0)), f32.astype(np.int16)),
        "a writable array": (lambda a: store(a, 0, f32x16(0)), frozen),
        "of its lanes": (lambda a: store(a, 0, f64x8(0)), f32),
        "integers": (lambda a: load(a, 0.5), f32),
        "equal lanes": (lambda a: total(minimum(load(a, 0), f64x8(0))), f32),
        "a mask and two equal lanes": (lambda a: total(select(mask8(1), load(a, 0), 0)), f32),
        "a number that its lanes can hold": (lambda a: total(u32x16(a[0])), f32),
        "No implementation of function": (lambda a: total(load(a, 0) & load(a, 0)), f32),
    }
    for message, (function, array) in refused.items():
        with pytest.raises(NumbaError, match=message):
            numba.njit(function)(array)


def test_lanes_never_reach_python():
    with pytest.raises((TypeError, NumbaError), match="f32x16"):
        numba.njit(lambda a: load(a, 0))(np.zeros(16, np.float32))


def test_code_uses_the_widest_registers_and_no_wider():
    host = "zmm" if binding.get_host_cpu_features().get("avx512f") else None
    widest = WIDEST.get(numba.config.CPU_NAME, host)
    if widest is None:
        pytest.skip("only AVX-512 hosts, and the CPUs compiled for below, promise a width")
    fresh = numba.njit(nogil=True, error_model="numpy")(min_hash.py_func)
    fresh(*min_hash_case()[0])
    code = [*fresh.inspect_asm().values()]
    assert f"%{widest}" in code[0]
    if widest != "xmm":  # SSE2 has too few registers for this loop
        assert not any("rsp" in line for line in loop_of(code[0]))
    if numba.config.CPU_NAME in WIDEST:  # then all was compiled here, by the tests above
        code += [asm for each in KERNELS for asm in each.inspect_asm().values()]
        wider = {"xmm": ("%ymm", "%zmm"), "ymm": ("%zmm",)}[widest]
        assert len(code) > 14
        assert all(code)
        assert not any(register in asm for register in wider for asm in code)
        [ir] = convert.inspect_llvm().values()
        assert ir.count("i32 0, i32 3, i32 1)") == 1 == ir.count("i32 1, i32 3, i32 1)")


def loop_of(asm):
    """The lines between the first multiplication and the last minimum."""
    lines = asm.splitlines()
    found = [i for i, line in enumerate(lines) if "vpmulld" in line or "vpminud" in line]
    return lines[found[0] : found[-1] + 1]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names x86 CPUs")
@pytest.mark.parametrize(
    "cpu",
    ["haswell", pytest.param("x86-64", marks=pytest.mark.soak)],  # as many seconds again
)
def test_all_holds_when_compiled_for(cpu, tmp_path):
    if cpu == "haswell" and not binding.get_host_cpu_features().get("avx2"):
        pytest.skip("this machine cannot run AVX2 code")
    setting = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", "-n", "0"]
    chosen = [__file__, "-k", "not compiled_for and not aligned_arrays"]
    run = subprocess.run(
        command + chosen, env=os.environ | setting, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "SKIPPED" not in run.stdout, run.stdout
