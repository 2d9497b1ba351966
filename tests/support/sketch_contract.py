"""The contract every sketch passes, driven by what its class declares.

A new sketch joins by one line in SKETCHES: factories that take a seed, with default sizes and with
the smallest ones. Keyed sketches are fed integers, the others rows of numbers.
"""

import contextlib
import copy
import functools
import inspect
import os
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.core.file_format import pack
from sfumato.sketch import (
    AMS,
    BloomFilter,
    CosineSketch,
    CountingBloomFilter,
    CountMin,
    CountSketch,
    FeatureHasher,
    HyperLogLog,
    JohnsonLindenstrauss,
    KernelFourier,
    KernelGrid,
    KernelSlices,
    LpSketch,
    MinHash,
    Moments,
    PStableSketch,
    Race,
    ScalableBloomFilter,
    Sketch,
    SketchFormatError,
    TensorSketch,
    load,
)
from sfumato.sketch.base import KeyedSketch
from sfumato.sketch.lsh import Angular, Euclidean

Factory = Callable[[int], Sketch]

SKETCHES: dict[str, list[Factory]] = {}
SKETCHES["CountMin"] = [
    lambda s: CountMin(1024, seed=s),
    lambda s: CountMin(2, 1, seed=s),
    lambda s: CountMin(64, cells="compact", seed=s),
    lambda s: CountMin(8, 1, cells="compact", seed=s),
    lambda s: CountMin(64, cells="conservative", seed=s),
    lambda s: CountMin(64, cells="logarithmic", seed=s),
]

SKETCHES["CountSketch"] = [
    lambda s: CountSketch(1024, seed=s),
    lambda s: CountSketch(2, 1, seed=s),
    lambda s: CountSketch(256, 5, combine="median", seed=s),
    lambda s: CountSketch(256, cells="real", seed=s),
    lambda s: CountSketch(4096, combine="median", track=5, seed=s),
]
SKETCHES["BloomFilter"] = [
    lambda s: BloomFilter(65536, seed=s),
    lambda s: BloomFilter(65, 1, seed=s),
    lambda s: BloomFilter(65536, layout="blocked", seed=s),
    lambda s: BloomFilter(1024, 1, layout="blocked", seed=s),
]
SKETCHES["CountingBloomFilter"] = [
    lambda s: CountingBloomFilter(8192, seed=s),
    lambda s: CountingBloomFilter(101, 1, seed=s),
]
SKETCHES["ScalableBloomFilter"] = [
    lambda s: ScalableBloomFilter(seed=s),
    lambda s: ScalableBloomFilter(8, false_positive_rate=0.4, seed=s),
]
SKETCHES["HyperLogLog"] = [lambda s: HyperLogLog(seed=s), lambda s: HyperLogLog(4, seed=s)]
SKETCHES["AMS"] = [
    lambda s: AMS(seed=s),
    lambda s: AMS(2, 1, seed=s),
    lambda s: AMS(70, 3, kind="tug-of-war", seed=s),
]
SKETCHES["LpSketch"] = [
    lambda s: LpSketch(rows=64, seed=s),
    lambda s: LpSketch(0.5, 1, seed=s),
    lambda s: LpSketch(2, 3, seed=s),
]
SKETCHES["CosineSketch"] = [
    lambda s: CosineSketch(dimension=12, seed=s),
    lambda s: CosineSketch(1, dimension=12, seed=s),
    lambda s: CosineSketch(70, dimension=12, directions="sign", seed=s),
    lambda s: CosineSketch(12, dimension=12, directions="orthogonal", seed=s),
    lambda s: CosineSketch(70, dimension=12, directions="super-bit", seed=s),
    lambda s: CosineSketch(70, dimension=12, directions="frame", seed=s),
]
SKETCHES["PStableSketch"] = [
    lambda s: PStableSketch(2.0, dimension=12, seed=s),
    lambda s: PStableSketch(0.5, dimension=12, hashes=1, p=1, seed=s),
]
SKETCHES["JohnsonLindenstrauss"] = [
    lambda s: JohnsonLindenstrauss(100, seed=s),
    lambda s: JohnsonLindenstrauss(1, seed=s),
    lambda s: JohnsonLindenstrauss(16, kind="sign", seed=s),
    lambda s: JohnsonLindenstrauss(17, kind="achlioptas", seed=s),
    lambda s: JohnsonLindenstrauss(24, kind="sparse", seed=s),
]
SKETCHES["FeatureHasher"] = [
    lambda s: FeatureHasher(1024, seed=s),
    lambda s: FeatureHasher(1, seed=s),
]
SKETCHES["TensorSketch"] = [
    lambda s: TensorSketch(64, dimension=12, seed=s),
    lambda s: TensorSketch(1, dimension=12, degree=1, seed=s),
    lambda s: TensorSketch(33, dimension=12, degree=3, seed=s),
]
SKETCHES["KernelFourier"] = [
    lambda s: KernelFourier(2.0, ([-3] * 12, [3] * 12), seed=s),
    lambda s: KernelFourier(1, ([-1] * 12, [9] * 12), rows=1, kernel="exponential", seed=s),
]
SKETCHES["KernelGrid"] = [
    lambda s: KernelGrid(2.0, ([-3, -3], [3, 3]), seed=s),
    lambda s: KernelGrid(9.0, (-1, 1), kernel="gaussian", resolution=0.5, seed=s),
    lambda s: KernelGrid(2.0, ([-3] * 3, [3] * 3), kernel="exponential", seed=s),
]
SKETCHES["KernelSlices"] = [
    lambda s: KernelSlices(2.0, ([-3] * 12, [3] * 12), rows=32, seed=s),
    lambda s: KernelSlices(1, ([-1] * 12, [9] * 12), rows=1, kernel="exponential", seed=s),
]
SKETCHES["Race"] = [
    lambda s: Race(64, 256, Euclidean(1.0, (-3, 3), dimension=12), seed=s),
    lambda s: Race(1, 2, Euclidean(0.5, (-1, 9), 1, dimension=12), seed=s, strata="independent"),
    lambda s: Race(8, 512, Angular(4, 12), seed=s),
]
SKETCHES["MinHash"] = [
    lambda s: MinHash(seed=s),
    lambda s: MinHash(3, seed=s),
    lambda s: MinHash(kind="one-permutation", seed=s),
    lambda s: MinHash(3, kind="one-permutation", seed=s),
    lambda s: MinHash(kind="k-minimum", seed=s),
    lambda s: MinHash(3, kind="k-minimum", seed=s),
    lambda s: MinHash(bits=1, seed=s),
    lambda s: MinHash(33, kind="one-permutation", bits=12, seed=s),
]
SKETCHES["Moments"] = [
    lambda s: Moments(([-3] * 12, [3] * 12)),
    lambda s: Moments(([-1] * 12, [9] * 12), 2, bits=8),
]

KEYS = np.random.default_rng(5).zipf(1.3, 3000) % 10_000
ROWS = np.random.default_rng(6).normal(size=(60, 12))


def feed(sketch: Sketch, part: slice = slice(None)) -> Sketch:
    """The sketch after one stream, or a part of it, of the kind it takes."""
    wide = getattr(sketch, "dimension", 0) or 12  # a grid takes three columns at most
    column = KEYS[part] if isinstance(sketch, KeyedSketch) else ROWS[part, :wide]
    return sketch.update(column)


def parts(sketch: Sketch) -> tuple[slice, slice]:
    half = (KEYS.size if isinstance(sketch, KeyedSketch) else len(ROWS)) // 3
    return slice(None, half), slice(half, None)


def arrays(sketch: Sketch) -> list[np.ndarray]:
    return list(sketch._arrays().values())


def check_update_returns_the_sketch_and_repeats(make: Factory) -> None:
    sketch = make(1)
    assert feed(sketch) is sketch
    assert sketch == feed(make(1))
    assert sketch != make(1)


def check_seed_changes_the_cells(make: Factory) -> None:
    assert "seed" not in make(1).parameters or feed(make(1)) != feed(make(2))


def check_merges_as_declared(make: Factory) -> None:
    first, second = parts(make(1))
    whole, left, right = feed(make(1)), feed(make(1), first), feed(make(1), second)
    before, retained = left.copy(), right.copy()
    if left.merging.kind == "refused":
        with pytest.raises(ValueError, match="cannot merge"):
            left.merge(right)
        assert left.merging.reason
        assert left == before
    else:
        assert left.merge(right) is left
        if left.merging.kind == "exact":
            assert left == whole
        else:
            size = np.abs(KEYS.size if isinstance(left, KeyedSketch) else ROWS).sum()
            for got, want in zip(arrays(left), arrays(whole), strict=True):
                np.testing.assert_allclose(got, want, rtol=0, atol=left.merging.tolerance * size)
    assert right == retained


def check_merge_with_itself_is_refused_unless_it_changes_nothing(make: Factory) -> None:
    # Every event would count twice, where a release takes it for one.
    sketch = feed(make(1))
    before = sketch.copy()
    with contextlib.suppress(ValueError):
        sketch.merge(sketch)
    assert sketch == before


def check_an_interrupted_call_bounds_what_it_left(make: Factory) -> None:
    # Ctrl-C may come between any two instructions. Whatever was counted by then, the heaviest
    # weight is known, or a release would take a weight of 7 for one of 1.
    sketch = make(1)
    if "heaviest" not in sketch._scalars or sketch.parameters.get("cells") == "real":
        return  # nothing bounds its releases, or it has none
    heavy, calls = feed_weighted(make(1)), [feed_weighted]
    if sketch.merging.kind != "refused":
        calls.append(lambda into: into.merge(heavy))
    for call in calls:
        count = interrupted(call, feed(make(1)), None)
        for at in {*range(0, count, max(1, count // 40)), count - 1, count - 2}:
            left = feed(make(1))
            before = [array.copy() for array in arrays(left)]
            interrupted(call, left, at)
            same = all(map(np.array_equal, before, arrays(left)))
            assert same or left.heaviest >= HEAVY, at
            assert load(left.to_bytes()) == left, at  # and it can be saved


HEAVY = 7


def feed_weighted(sketch: Sketch) -> Sketch:
    wide = getattr(sketch, "dimension", 0) or 12
    column = KEYS[:9] if isinstance(sketch, KeyedSketch) else ROWS[:9, :wide]
    return sketch.update(column, [HEAVY] * 9)


def interrupted(call: Callable[[Sketch], Any], into: Sketch, at: int | None) -> int:
    """How many lines of sketches and their base a call runs; it is stopped before line `at`."""
    lines = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        if f"{os.sep}sfumato{os.sep}sketch{os.sep}" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if at is not None and lines > at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(into)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines


def check_merge_with_empty_changes_nothing(make: Factory) -> None:
    sketch = feed(make(1))
    if sketch.merging.kind != "refused":
        assert sketch.copy().merge(make(1)) == sketch
        assert make(1).merge(sketch) == sketch


def check_exact_sketch_ignores_order(make: Factory) -> None:
    sketch = make(1)
    if sketch.merging.kind == "exact" and isinstance(sketch, KeyedSketch):
        assert sketch.update(KEYS[::-1]) == feed(make(1))


def check_merge_of_another_seed_names_both(make: Factory) -> None:
    if "seed" not in make(1).parameters:  # it hashes nothing
        return
    left, right = feed(make(1)), feed(make(2))
    before = left.copy()
    with pytest.raises(ValueError, match="seed is 1 here and 2 there"):
        left.merge(right)
    assert left == before


def check_merge_of_another_kind_is_refused(make: Factory) -> None:
    class _Other(Sketch):
        pass

    with pytest.raises(TypeError, match="cannot merge with _Other"):
        make(1).merge(_Other())


def check_bytes_pickle_and_copy_keep_everything(make: Factory) -> None:
    for sketch in (make(1), feed(make(1))):
        data = sketch.to_bytes()
        for twin in (type(sketch).from_bytes(data), load(data), pickle.loads(pickle.dumps(sketch))):
            assert twin == sketch
            assert twin.to_bytes() == data
        for twin in (sketch.copy(), copy.copy(sketch), copy.deepcopy(sketch)):
            assert twin == sketch
        assert all(array.flags.writeable for array in arrays(load(data)))


def check_copy_is_independent(make: Factory) -> None:
    sketch = feed(make(1), parts(make(1))[0])
    twin, before = sketch.copy(), sketch.to_bytes()
    feed(twin, parts(twin)[1])
    assert sketch.to_bytes() == before
    assert twin != sketch
    after = twin.to_bytes()
    feed(sketch, parts(sketch)[0])
    assert twin.to_bytes() == after


def check_cut_off_and_flipped_bytes_are_found(make: Factory) -> None:
    data = feed(make(1)).to_bytes()
    cuts = [0, 1, 4, 15, 23, 24, 40, len(data) // 2, len(data) - 8, len(data) - 1]
    for cut in cuts:
        with pytest.raises(SketchFormatError):
            load(data[:cut])
    for at in np.linspace(0, len(data) - 1, 40).astype(int):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(SketchFormatError):
            load(bytes(damaged))
    for foreign in (b"PK\x03\x04" + bytes(100), data + b"\0", b"SFUM" * 20):
        with pytest.raises(SketchFormatError):
            load(foreign)


def check_parameters_out_of_limits_name_themselves(make: Factory) -> None:
    sketch = make(1)
    kind = type(sketch)
    for name, limit in kind._limits.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be"):
                kind(**{**sketch.parameters, name: bad})


def check_parameters_stay_as_built(make: Factory) -> None:
    sketch = make(1)
    for name, value in sketch.parameters.items():
        with pytest.raises(AttributeError, match=f"{name} cannot be changed"):
            setattr(sketch, name, value)


def check_other_version_is_refused(make: Factory) -> None:
    sketch = make(1)
    header = {
        "kind": type(sketch).__name__,
        "version": sketch.version + 1,
        "parameters": sketch.parameters,
        "state": {name: getattr(sketch, name) for name in sketch._scalars},
    }
    with pytest.raises(SketchFormatError, match=f"version {sketch.version + 1}.*only"):
        load(pack(header, sketch._arrays()))


SINGLE = ["tea", 7, 7.0, b"tea", None, np.nan, True, np.int64(-3), 2**70, np.str_("milk"), ""]


def check_one_key_is_added_as_in_a_column(make: Factory) -> None:
    sketch = make(1)
    if not isinstance(sketch, KeyedSketch) or _takes_coordinates(sketch):
        return
    want = make(1)
    for key in SINGLE:
        assert sketch.add(key) is sketch
        assert sketch == want.update([key])
    before = sketch.to_bytes()
    for column in (
        ["tea"],
        ("tea",),
        np.array(["tea"]),
        np.array(7),
        {"tea": 1},
        {"tea"},
        object(),
    ):
        with pytest.raises(TypeError, match="one key is expected"):
            sketch.add(column)
    with pytest.raises(TypeError, match="add takes one key"):
        sketch.update("tea")
    assert sketch.to_bytes() == before


def check_one_key_is_answered_as_in_a_column(make: Factory) -> None:
    sketch = make(1)
    if not isinstance(sketch, KeyedSketch) or _takes_coordinates(sketch):
        return
    feed(sketch).update(SINGLE)
    asks = [name for name in ("estimate", "contains") if _takes_keys(sketch, name)]
    for ask in (getattr(sketch, name) for name in asks):
        for key in [*SINGLE, "rum", 10**6]:
            got, (want,) = ask(key), ask([key]).tolist()
            assert type(got) is type(want)
            assert got == want
    if hasattr(sketch, "contains"):
        for key in [*SINGLE, "rum", 10**6]:
            assert (key in sketch) is bool(sketch.contains([key])[0])
        with pytest.raises(TypeError, match="one key is expected, not list"):
            assert ["tea"] in sketch


def _takes_coordinates(sketch: Sketch) -> bool:
    return sketch.parameters.get("kind") == "hadamard"


def _takes_keys(sketch: Sketch, name: str) -> bool:
    return hasattr(sketch, name) and "keys" in inspect.signature(getattr(sketch, name)).parameters


def check_every_kind_of_column_is_alike(make: Factory) -> None:
    sketch = make(1)
    if not isinstance(sketch, KeyedSketch):
        return
    words = [f"key {k}" for k in KEYS[:200]]
    for keys, others in (
        (KEYS[:200], [KEYS[:200].tolist(), KEYS[:200].astype(np.int32), pd.Series(KEYS[:200])]),
        (words, [pa.array(words), pl.Series(words), pd.Series(words), np.array(words)]),
    ):
        want = make(1).update(keys)
        for other in others:
            assert make(1).update(other) == want


def check_a_key_of_another_type_changes_no_other(make: Factory) -> None:
    sketch = make(1)
    if not isinstance(sketch, KeyedSketch):
        return
    keys = [7, -3, 2**53 + 1, 0]
    if _takes_coordinates(sketch):
        return
    for odd in ("guest", None, 0.5, object(), True, 2**70, "7.5"):
        alone = make(1).update(keys).update([odd])
        assert make(1).update([*keys, odd]) == alone
        assert make(1).update(pd.Series([*map(str, keys), odd], dtype=object)) == alone


def check_a_row_that_is_no_point_changes_no_other(make: Factory) -> None:
    sketch = make(1)
    if not hasattr(sketch, "clipped"):
        return
    wide = getattr(sketch, "dimension", 12)
    rows = ROWS[:9, :wide].tolist()
    want = make(1).update(rows)
    for odd in ("guest", None, np.nan, [1] * 50, {}, 1j, pd.NA):
        row = [odd] + [0.5] * (wide - 1)
        table = np.empty((10, wide), object)
        table[:] = [*rows, [0] * wide]
        table[9, 0] = odd
        for column in ([*rows, row], table, pd.DataFrame(table), [*rows, odd], [*rows, [1.0] * 99]):
            assert make(1).update(column) == want
    texts = pd.DataFrame([[str(number) for number in row] for row in rows])
    assert make(1).update(texts) == want
    beyond = [[np.inf, -np.inf, 1e300][at % 3] for at in range(wide)]
    assert make(1).update([*rows, beyond]).mass == want.mass + 1 if hasattr(want, "mass") else True


def check_a_clipped_weight_is_never_refused(make: Factory) -> None:
    sketch = make(1)
    if "heaviest" not in sketch._scalars or sketch.parameters.get("cells") == "real":
        return
    wide = getattr(sketch, "dimension", 0) or 12
    column = KEYS[:9] if isinstance(sketch, KeyedSketch) else ROWS[:9, :wide]
    low = 0 if isinstance(sketch, CountMin) else -7
    weights = [3, 10**400, -(10**400), "5", "guest", None, np.nan, 2.9, [1]]
    clipped = [3, 7, low, 5, 0, 0, 0, 2, 0]
    left = make(1).update(column, weights, clip=7)
    assert left == make(1).update(column, clipped)
    assert left.heaviest <= 7
    with pytest.raises(ValueError, match="clip must be"):
        sketch.update(column, weights, clip=0)


def check_bad_column_changes_nothing(make: Factory) -> None:
    sketch = feed(make(1))
    before = sketch.to_bytes()
    bad = [7, "tea", {"tea": 1}, pa.table({"key": [1]}), np.zeros((2, 2), int), pa.array([[1]])]
    if hasattr(sketch, "clipped"):  # it has releases, and so refuses no row
        bad = [np.ones((2, 2, 2)), np.ones((2, 99)), None, "tea", {"tea": 1}]
    elif not isinstance(sketch, KeyedSketch):
        bad = [[[1.0, np.nan]], [["a"]], np.full((2, 12), np.inf), np.ones((2, 2, 2)), None]
    for column in bad:
        with pytest.raises((TypeError, ValueError)):
            sketch.update(column)
        assert sketch.to_bytes() == before


def check_threads_may_read_together(make: Factory) -> None:
    sketch = feed(make(1))
    if hasattr(sketch, "estimate") and isinstance(sketch, KeyedSketch):
        takes_keys = len(inspect.signature(sketch.estimate).parameters)
        ask = functools.partial(sketch.estimate, *[KEYS] * takes_keys)
        want = ask()
        with ThreadPoolExecutor(4) as pool:
            for got in [pool.submit(ask) for _ in range(16)]:
                np.testing.assert_array_equal(got.result(), want)


def check_says_what_it_is(make: Factory) -> None:
    sketch = make(1)
    assert repr(sketch).startswith(type(sketch).__name__ + "(")
    assert sketch.nbytes == sum(array.nbytes for array in arrays(sketch))
    assert sketch.parameters.get("seed", 1) == 1


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
