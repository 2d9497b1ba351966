"""Angles are estimated without bias and within the bound; better directions lower the variance."""

from functools import partial

import numpy as np
import pytest

from sfumato.core.file_format import pack
from sfumato.sketch import CosineSketch, SketchFormatError, load
from support.concurrency import at_once

RNG = np.random.default_rng(8)
ROWS = RNG.normal(size=(70, 12))
TURN = np.linalg.qr(RNG.normal(size=(8, 8)))[0]


def pair(angle):
    """Two rows of 8 numbers at this angle, in no special position."""
    rows = np.zeros((2, 8))
    rows[:, 0], rows[1, 1] = [1, np.cos(angle)], np.sin(angle)
    return rows @ TURN


def angles(angle, bits, directions, seeds):
    """Estimates of one angle, one a seed."""
    sketches = (
        CosineSketch(bits, dimension=8, directions=directions, seed=s).update(pair(angle))
        for s in range(seeds)
    )
    return np.array([sketch.angle(sketch)[0, 1] for sketch in sketches])


@pytest.mark.parametrize("directions", ["random", "sign", "super-bit", "frame"])
@pytest.mark.parametrize("bits", [12, 64, 100])
def test_codes_are_the_signs_of_projections(directions, bits):
    sketch = CosineSketch(bits, dimension=12, directions=directions, seed=3).update(ROWS)
    sides = np.zeros((70, sketch.codes.shape[1] * 64), bool)
    sides[:, :bits] = ROWS @ sketch.normals.T > 0
    packed = np.packbits(sides, axis=1, bitorder="little").view("<u8")
    np.testing.assert_array_equal(sketch.codes, packed)
    np.testing.assert_array_equal(sketch.encode(ROWS), packed)


def test_all_pairs_are_compared_in_both_orders():
    left = CosineSketch(100, dimension=12).update(ROWS[:5])
    right = CosineSketch(100, dimension=12).update(ROWS)
    bits = [np.unpackbits(s.codes.view(np.uint8), axis=1) for s in (left, right)]
    want = (bits[0][:, None] != bits[1]).sum(axis=2)
    np.testing.assert_array_equal(left.hamming(right), want)
    np.testing.assert_array_equal(right.hamming(left), want.T)
    np.testing.assert_allclose(left.angle(right), want * np.pi / 100)
    np.testing.assert_allclose(left.cosine(right), np.cos(want * np.pi / 100), atol=1e-15)
    np.testing.assert_allclose(left.similarity(right), 1 - want / 100)
    assert left.hamming(CosineSketch(100, dimension=12)).shape == (5, 0)


def test_length_does_not_matter_and_opposite_rows_differ_in_every_bit():
    sketch = CosineSketch(65, dimension=12)
    near, far = sketch.copy().update(ROWS), sketch.copy().update(-1e140 * ROWS)
    np.testing.assert_array_equal(np.diag(near.hamming(far)), 65)
    np.testing.assert_array_equal(sketch.encode(1e-140 * ROWS), near.codes)


def test_row_of_zeros_has_the_code_zero():
    assert not CosineSketch(130, dimension=12).encode(np.zeros((1, 12))).any()


@pytest.mark.parametrize("directions", ["random", "super-bit", "frame"])
@pytest.mark.parametrize("angle", [0.6, 2.2])
def test_angles_are_unbiased(directions, angle):
    # The mean of 800 estimates of sd < pi / 2 / sqrt(24), within 4.5 sd: p < 1e-5.
    differ = angle / np.pi
    std_error = np.pi * np.sqrt(differ * (1 - differ) / 24 / 800)
    assert abs(angles(angle, 24, directions, 800).mean() - angle) < 4.5 * std_error


@pytest.mark.parametrize("directions", ["super-bit", "frame"])
@pytest.mark.parametrize("angle", [1.0, np.pi / 2, np.pi - 1.0])
def test_super_bits_and_frames_have_less_variance(directions, angle):
    # The ratio is near 0.6; a sample variance of 800 has sd 5 %, so 0.8 is passed with p < 1e-4;
    # independent bits have ratio 1 and stay below 0.8 with p < 1e-4. Turning one row around turns
    # every bit, so that the variances at an angle and at pi minus it are the same.
    differ = angle / np.pi
    independent = np.pi**2 * differ * (1 - differ) / 32
    assert angles(angle, 32, directions, 800).var() < 0.8 * independent
    assert angles(angle, 32, "random", 800).var() > 0.8 * independent


@pytest.mark.parametrize(
    ("directions", "bits", "least"), [("random", 64, 1), ("super-bit", 64, 0), ("orthogonal", 8, 0)]
)
def test_error_bound_holds_at_a_right_angle(directions, bits, least):
    # Allowed are 5 % of 1,000 misses; more than 85 have p < 1e-6. Hoeffding's bound for random bits
    # is missed by 0.8 %: none at all would mean that it is too wide (p < 1e-3).
    bound = CosineSketch(bits, dimension=8, directions=directions).error_bound(0.95)
    off = np.abs(angles(np.pi / 2, bits, directions, 1000) - np.pi / 2)
    assert least <= (off > bound).sum() <= 85


@pytest.mark.parametrize("angle", [0.05, 0.7])
def test_error_bound_at_a_known_angle_is_exact_for_random_bits(angle):
    # As above; and a bound that is one bit narrower must not hold: P(miss) > 5 % at that.
    sketch = CosineSketch(256, dimension=8)
    bound = sketch.error_bound(0.95, angle)
    off = np.abs(angles(angle, 256, "random", 1000) - angle)
    assert (off > bound + 1e-9).sum() <= 85
    assert (off > bound - np.pi / 256).sum() > 15
    assert bound < sketch.error_bound(0.95)
    assert sketch.error_bound(0.95, 0.0) == sketch.error_bound(0.95, np.pi) == 0


@pytest.mark.parametrize(
    ("directions", "dimension"), [("random", 8), ("super-bit", 8), ("orthogonal", 50_000)]
)
def test_from_error_gives_the_fewest_bits(directions, dimension):
    sketch = CosineSketch.from_error(0.2, 0.9, dimension=dimension, directions=directions)
    assert sketch.error_bound(0.9) <= 0.2 + 1e-12
    fewer = CosineSketch(sketch.bits - 1, dimension=dimension, directions=directions)
    assert fewer.error_bound(0.9) > 0.2


@pytest.mark.parametrize("directions", ["sign", "frame"])
def test_no_bound_is_claimed_where_none_is_proved(directions):
    sketch = CosineSketch(16, dimension=8, directions=directions)
    for ask in (
        sketch.error_bound,
        lambda: CosineSketch.from_error(0.1, dimension=8, directions=directions),
    ):
        with pytest.raises(ValueError, match=f"no bound is proved for '{directions}'"):
            ask()


def test_rows_are_encoded_equally_however_they_are_split():
    whole = CosineSketch(200, dimension=12, seed=2).update(ROWS)
    parts = CosineSketch(200, dimension=12, seed=2)
    for start in range(0, 70, 3):
        parts.update(ROWS[start : start + 3])
        if start % 4 == 0:
            parts = parts.copy()
    assert parts == whole
    assert len(parts) == 70
    np.testing.assert_array_equal(load(parts.to_bytes()).codes, whole.codes)


def test_copies_that_grow_apart_do_not_share_room():
    sketch = CosineSketch(64, dimension=12).update(ROWS[:10]).update(ROWS[:2])
    twin = sketch.copy()
    sketch.update(ROWS[2:4])
    twin.update(ROWS[4:6])
    np.testing.assert_array_equal(sketch.codes[12:], sketch.encode(ROWS[2:4]))
    np.testing.assert_array_equal(twin.codes[12:], sketch.encode(ROWS[4:6]))


def test_codes_cannot_be_changed_from_outside():
    with pytest.raises(ValueError, match="read-only"):
        CosineSketch(64, dimension=12).update(ROWS).codes[0] = 0


def test_directions_are_not_in_the_file_and_not_made_by_reading_it():
    data = CosineSketch(256, dimension=2**18).to_bytes()
    assert len(data) < 512
    assert load(data)._panels is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bits": 2**16, "dimension": 2**20}, "bits times dimension must be at most"),
        ({"bits": 13, "dimension": 12, "directions": "orthogonal"}, "use 'super-bit'"),
        ({"bits": 11, "dimension": 12, "directions": "frame"}, "use 'orthogonal'"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        CosineSketch(**parameters)


def test_only_sketches_of_the_same_directions_are_compared():
    one = CosineSketch(64, dimension=12).update(ROWS)
    with pytest.raises(ValueError, match="cannot compare, seed is 0 here and 1 there"):
        one.angle(CosineSketch(64, dimension=12, seed=1))
    with pytest.raises(TypeError, match="cannot compare with int"):
        one.angle(3)
    with pytest.raises(ValueError, match="angle must be from 0 to pi, not 4"):
        one.error_bound(0.9, 4)


def test_file_with_bits_beyond_the_code_is_refused():
    sketch = CosineSketch(65, dimension=12).update(ROWS)
    header = {"kind": "CosineSketch", "version": 1, "parameters": sketch.parameters, "state": {}}
    codes = sketch.codes.copy()
    assert load(pack(header, {"_codes": codes})) == sketch
    codes[3, 1] |= np.uint64(2)
    with pytest.raises(SketchFormatError, match="more bits than it should"):
        load(pack(header, {"_codes": codes}))


def test_dimension_is_taken_from_the_first_rows_or_stays_unknown():
    rows = np.random.default_rng(0).normal(size=(5, 12))
    learned, given = CosineSketch(64, seed=3), CosineSketch(64, dimension=12, seed=3)
    with pytest.raises(ValueError, match="must be finite"):
        learned.encode([[1, np.nan]])
    assert learned.dimension == 0
    with pytest.raises(ValueError, match="dimension is not known yet"):
        _ = learned.normals
    assert learned.update(np.empty((0, 4))).dimension == 0
    assert learned.update(rows) == given.update(rows)
    with pytest.raises(ValueError, match="must have 12 columns"):
        learned.update(rows[:, :5])
    short = CosineSketch(64, directions="orthogonal")
    with pytest.raises(ValueError, match="only 12 directions can be orthogonal, not 64"):
        short.update(rows)
    assert short.dimension == 0


def test_encoding_leaves_a_sketch_of_unknown_dimension_as_it_is():
    sketch, before = CosineSketch(64, seed=3), CosineSketch(64, seed=3)
    for columns in (12, 5):
        rows = ROWS[:, :columns]
        given = CosineSketch(64, dimension=columns, seed=3)
        np.testing.assert_array_equal(sketch.encode(rows), given.encode(rows))
        assert sketch == before
    with pytest.raises(ValueError, match="only 12 directions can be orthogonal, not 64"):
        CosineSketch(64, directions="orthogonal").encode(ROWS)
    with pytest.raises(ValueError, match="columns of rows must be an integer from 1 to"):
        sketch.encode(np.empty((3, 0)))


def test_no_rows_of_unknown_dimension_compare_with_any():
    full, empty = CosineSketch(64).update(ROWS), CosineSketch(64)
    assert full.hamming(empty).shape == full.angle(empty).shape == (70, 0)
    assert empty.similarity(full).shape == (0, 70)
    assert empty.similarity(CosineSketch(64)).shape == (0, 0)
    with pytest.raises(ValueError, match="cannot compare, bits is 64 here and 65 there"):
        full.angle(CosineSketch(65))
    with pytest.raises(ValueError, match="cannot compare, dimension is 12 here and 5 there"):
        full.angle(CosineSketch(64, dimension=5))


def test_file_with_codes_of_no_dimension_is_refused():
    sketch = CosineSketch(64).update(ROWS)
    parameters = {**sketch.parameters, "dimension": 0}
    header = {"kind": "CosineSketch", "version": 1, "parameters": parameters, "state": {}}
    assert load(pack(header, {"_codes": sketch.codes[:0]})) == CosineSketch(64)
    with pytest.raises(SketchFormatError, match="codes of rows, but their dimension is 0"):
        load(pack(header, {"_codes": sketch.codes}))


@pytest.mark.parametrize("directions", ["random", "super-bit"])
def test_threads_may_compare_and_encode_together(directions):
    data = CosineSketch(100, directions=directions, seed=41).update(ROWS).to_bytes()
    sketch = load(data)  # which has no directions yet
    asks = [lambda: sketch.encode(ROWS), lambda: sketch.angle(sketch)] * 4
    for got, ask in zip(at_once(asks), asks, strict=True):
        np.testing.assert_array_equal(got, ask())
    np.testing.assert_array_equal(sketch.encode(ROWS), sketch.codes)
    assert sketch.to_bytes() == data


def test_threads_may_encode_rows_of_any_length_while_the_dimension_is_unknown():
    sketch = CosineSketch(100, seed=42)
    lengths = [12, 5, 7, 12, 5, 7, 12, 5]

    def often(length):  # since a thread must be interrupted between two steps to go wrong
        return [sketch.encode(ROWS[:, :length]) for _ in range(100)]

    for got, length in zip(at_once([partial(often, n) for n in lengths]), lengths, strict=True):
        want = CosineSketch(100, dimension=length, seed=42).encode(ROWS[:, :length])
        np.testing.assert_array_equal(got, np.broadcast_to(want, (100, *want.shape)))
    assert sketch == CosineSketch(100, seed=42)
