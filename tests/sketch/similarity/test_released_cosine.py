"""Released cosine sketches: exact sensitivities, signs of noised integers, angles undone."""

import itertools

import numpy as np
import pytest

from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CosineSketch, ReleasedCosineSketch, SketchFormatError, load
from sfumato.sketch.similarity.cosine import GRAM, SCALE, sensitivity
from support.observable import repacked

ITEM, USER = "item of a profile", "user"


def directions(sketch):
    return np.rint(sketch.normals.T * SCALE).astype(np.int64)


@pytest.mark.parametrize("seed", range(5))
def test_sensitivities_hold_for_all_neighbouring_rows(seed):
    # Every row of 4 numbers in -2..2 steps and every neighbour of it, in integers.
    sketch = CosineSketch(5, dimension=4, seed=seed)
    matrix, steps = directions(sketch), 2
    rows = np.array(list(itertools.product(range(-steps, steps + 1), repeat=4)))
    item, user = (sensitivity(matrix.astype(np.int32), unit) * steps**2 for unit in (ITEM, USER))
    moved = (rows[:, None] - rows[None]).reshape(-1, 4)
    square = ((moved @ matrix) ** 2).sum(axis=1)
    changed, largest = (moved != 0).sum(axis=1), np.abs(moved).max(axis=1)
    assert square[(changed == 1) & (largest <= steps)].max() == item  # an item, or none
    assert square[changed == 1].max() == 4 * item  # an item for another value of it
    from_zero = ((rows @ matrix) ** 2).sum(axis=1)
    assert from_zero.max() <= user <= 16 * from_zero.max()
    assert square.max() <= 4 * user


def test_sensitivity_of_a_user_with_many_columns_is_the_sum_of_lengths():
    matrix = np.random.default_rng(0).integers(-9, 10, (GRAM + 1, 3)).astype(np.int32)
    lengths = np.sqrt((matrix.astype(float) ** 2).sum(axis=1)).sum()
    assert lengths**2 <= sensitivity(matrix, USER) <= (lengths + 2 * GRAM + 4) ** 2
    assert sensitivity(np.zeros((2, 2), np.int32), ITEM) == 1


@pytest.mark.parametrize(
    ("unit", "relation"), list(itertools.product((ITEM, USER), ("add/remove", "replace")))
)
def test_noise_is_calibrated_to_the_sensitivity(unit, relation):
    sketch = CosineSketch(64, dimension=6)
    terms = dict(unit=unit, relation=relation, contributions=3, step=0.25)
    released = sketch.release_rows(np.ones((2, 6)), 2, 1e-6, bound=2, **terms)
    moved = sensitivity(directions(sketch).astype(np.int32), unit) * (8 * 3) ** 2
    moved *= 4 if relation == "replace" else 1
    rho = Loss.from_dict(released.statement.loss).rho
    assert moved / (2 * released.sigma**2) <= rho <= moved / (2 * released.sigma**2) * (1 + 1e-12)
    assert 1.9 < released.statement.epsilon <= 2
    assert (released.statement.delta, released.statement.unit) == (1e-6, unit)
    assert "number of rows" in released.statement.covers


@pytest.mark.parametrize("bits", [1, 63, 64, 130])
def test_codes_are_signs_of_whole_projections_with_noise(bits):
    sketch = CosineSketch(bits, dimension=7, seed=2)
    rows = np.random.default_rng(1).normal(size=(9, 7)) * 3
    released = sketch.release_rows(rows, 4, 1e-5, bound=2, step=0.5, source=InsecureSeededSource(6))
    steps = np.clip(np.trunc(np.clip(rows, -2, 2) / 0.5), -4, 4).astype(np.int64)
    cells = steps @ directions(sketch)
    noise.add_gaussian(cells, released.sigma, source=InsecureSeededSource(6))
    packed = np.zeros((9, -(-bits // 64) * 64), np.uint8)
    packed[:, :bits] = cells > 0
    want = np.packbits(packed, axis=1, bitorder="little").view(np.uint64)
    np.testing.assert_array_equal(released.codes, want)  # spare bits are 0 by that


def test_numbers_beyond_the_bound_tell_no_more_than_the_bound():
    sketch = CosineSketch(64, dimension=3)

    def codes(rows):
        return sketch.release_rows(rows, 2, 1e-6, bound=1.5, source=InsecureSeededSource(1)).codes

    np.testing.assert_array_equal(codes([[1.5, -1.5, 0]]), codes([[1e150, -7, 1e-9]]))


def test_angles_are_those_of_noisy_rows_and_with_norms_of_the_rows():
    # 40 rows of norm 30; 780 pairs, each with a deviation of about 0.1 in the cosine, that share
    # rows and directions: 20 releases, so a mean of the error off by 0.02 has p < 1e-6.
    rng = np.random.default_rng(3)
    base = rng.choice([-1.0, 1.0], size=(40, 900))
    base[20:] = np.where(rng.random((20, 900)) < 0.15, -base[:20], base[:20])
    cosines, pairs = base @ base.T / 900, np.triu_indices(40, 1)
    plain, freed, misses = [], [], []
    for seed in range(20):
        sketch = CosineSketch(256, dimension=900, seed=seed)
        released = sketch.release_rows(base, 4, 1e-6, bound=1, source=InsecureSeededSource(seed))
        left = 1 / (1 + (released.noise / 30) ** 2)
        shown = np.arccos(np.clip(cosines * left, -1, 1))
        plain.append((released.angle(released) - shown)[pairs])
        misses.append(np.abs(plain[-1]) > released.error_bound(0.9))
        close = (np.abs(cosines) > 0.5)[pairs]
        freed.append((released.cosine(released, norms=(30, 30)) - cosines)[pairs][close])
        off = released.angle(released, norms=(30, [30] * 40)) - np.arccos(np.clip(cosines, -1, 1))
        assert (np.abs(off[pairs]) <= released.error_bound(1 - 1e-9, norms=(30, 30))[0, 0]).all()
    assert 0.3 < left < 0.9
    assert abs(np.mean(plain)) < 0.02
    assert abs(np.mean(freed)) < 0.02
    assert np.mean(misses) <= 0.1


def test_releases_at_different_noise_are_compared_each_with_its_own():
    sketch = CosineSketch(128, dimension=400)
    rows = np.ones((3, 400))
    few, much = (sketch.release_rows(rows, epsilon, 1e-6, bound=1) for epsilon in (8, 1))
    assert few.noise < much.noise
    assert few.hamming(much).shape == (3, 3)
    np.testing.assert_array_equal(few.hamming(much), much.hamming(few).T)
    both = few.error_bound(0.9, much, norms=(20, 20))
    assert few.error_bound(0.9, norms=(20, 20)) <= both <= much.error_bound(0.9, norms=(20, 20))
    np.testing.assert_allclose(few.similarity(few).diagonal(), 1)


def test_codes_themselves_refuse_and_name_the_way_out():
    sketch = CosineSketch(16).update([[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"CosineSketch: cannot be released.*use release_rows"):
        sketch.release(1)


def test_what_has_no_proof_is_refused():
    rows = [[1.0, 2.0]]
    for kind in ("sign", "orthogonal", "super-bit", "frame"):
        with pytest.raises(ValueError, match="directions must be 'random' to be released"):
            CosineSketch(2, dimension=2, directions=kind).release_rows(rows, 1, 1e-6, bound=1)
    with pytest.raises(ValueError, match="dimension is not known yet"):
        CosineSketch(2).release_rows(rows, 1, 1e-6, bound=1)
    sketch = CosineSketch(2, dimension=2)
    for unit in ("event", "basket"):
        with pytest.raises(ValueError, match="unit must be one of"):
            sketch.release_rows(rows, 1, 1e-6, bound=1, unit=unit, contributions=1)
    for bad in (0, 1, np.nan, None):
        with pytest.raises(ValueError, match="delta must be"):
            sketch.release_rows(rows, 1, bad, bound=1)
    for name in ("bound", "step"):
        for bad in (0, -1, np.inf, np.nan, "1"):
            with pytest.raises(ValueError, match=f"CosineSketch: {name} must be"):
                sketch.release_rows(rows, 1, 1e-6, **{"bound": 1, name: bad})
    with pytest.raises(ValueError, match="bound / step must be an integer from 1"):
        sketch.release_rows(rows, 1, 1e-6, bound=1, step=2)
    with pytest.raises(ValueError, match="noise would be too large"):
        sketch.release_rows(rows, 1e-7, 1e-6, bound=1, step=2**-20)
    with pytest.raises(ValueError, match="rows must have 2 columns"):
        sketch.release_rows(np.ones((1, 1)), 1, 1e-6, bound=1)


def test_no_row_is_refused_or_changes_how_another_is_read():
    sketch, base = CosineSketch(64, dimension=3, seed=1), [[1, 0.5, 0], [0, 2, -1]]

    def codes(rows):
        return sketch.release_rows(rows, 8, 1e-6, bound=2, source=InsecureSeededSource(1)).codes

    zero = codes([*base, [0, 0, 0]])
    nan, huge = float("nan"), 10**400
    for invalid in ([nan, None, "x"], [], [1, 2], None, "abc", 7, [{}, [1], nan], {"a": 1}):
        assert np.array_equal(codes([*base, invalid]), zero), invalid
    assert np.array_equal(codes([*base, [huge, -huge, nan]]), codes([*base, [2, -2, 0]]))
    assert np.array_equal(codes([*base, ["1", 1e200, 0.5]]), codes([*base, [1, 2, 0.5]]))
    mixed = np.array([[*map(str, row)] for row in base] + [["x", "y", "z"]])
    assert np.array_equal(codes(mixed), zero)


def test_damaged_codes_and_other_parameters_are_refused():
    released = CosineSketch(3, dimension=2, seed=1).release_rows([[1, 2]], 1, 1e-6, bound=1)
    with pytest.raises(SketchFormatError, match="more bits than it should"):
        load(repacked(released, {"_codes": released.codes | np.uint64(8)}))
    other = CosineSketch(3, dimension=2, seed=2).release_rows([[1, 2]], 1, 1e-6, bound=1)
    with pytest.raises(ValueError, match="cannot compare, seed is 1 here and 2 there"):
        released.angle(other)
    for bad in (0, -1, np.nan, [[1]]):
        with pytest.raises(ValueError, match="norms must be finite numbers above 0"):
            released.angle(released, norms=(1, bad))
    assert isinstance(released, ReleasedCosineSketch)
    assert len(released) == 1
