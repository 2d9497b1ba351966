"""RACE: integer cells, equal for any order and partition, with unbiased kernel sums."""

import math

import numpy as np
import pandas as pd
import pytest

from sfumato.sketch import Race, load
from sfumato.sketch.lsh import Angular, Euclidean, PowerKernel, ProductKernel, WeightedSum
from sfumato.sketch.lsh.base import Draw

RNG = np.random.default_rng(8)
DATA = RNG.normal(size=(700, 3))
PLANE = Euclidean(1.0, (-3, 3), dimension=3)
FLAT = Angular(8, 2)


def race(rows=40, width=64, kernel=PLANE, **more):
    return Race(rows, width, kernel, **more)


def test_any_order_and_split_of_the_points_gives_the_same_bytes():
    full = race().update(DATA)
    assert race().update(DATA[RNG.permutation(700)]).to_bytes() == full.to_bytes()
    pieces = race()
    for part in np.array_split(DATA[::-1], 9):
        pieces.update(part)
    assert pieces.to_bytes() == full.to_bytes()
    merged = race()
    for part in (DATA[500:], DATA[:1], DATA[:0], DATA[1:500]):
        merged.merge(race().update(part))
    assert merged.to_bytes() == full.to_bytes()
    assert race().update(pd.DataFrame(DATA)).to_bytes() == full.to_bytes()


@pytest.mark.parametrize("dimension", [1, 3, 55, 300])
@pytest.mark.parametrize("p", [1, 2])
def test_no_projection_is_ever_rounded(dimension, p):
    # The bucket in Python's integers; in float64 by BLAS, by loops over permuted columns, and
    # one column at a time; and no partial sum, in whatever order, can pass 2**53 steps.
    family = Euclidean(0.7, (-2, 5), p, dimension=dimension)
    matrix = family.linear(Draw(12, 5, "independent"))
    columns = family.read("", RNG.uniform(-2, 5, (40, dimension))).parts[0]
    exponents = np.array([_last_digit(row) for row in matrix])
    full = np.ldexp(matrix, exponents[:, None])
    exact = _integers(full) @ _integers(columns)
    want = exact >> exponents[:, None].astype(object)
    ends = family.read("", np.full((1, dimension), 5.0)).parts[0]
    assert max(np.abs(_integers(full)) @ _integers(ends[:, 0])) <= 2**53
    for order in (np.arange(dimension + 1), RNG.permutation(dimension + 1)):
        total = np.zeros((12, 40))
        for column in order:
            total += matrix[:, column, None] * columns[column]
        np.testing.assert_array_equal(np.floor(total), want)
        np.testing.assert_array_equal(np.floor(matrix[:, order] @ columns[order]), want)
    buckets = family.buckets(Draw(12, 5, "independent"))
    assert (want >= 0).all()
    assert (want.max(axis=1) < buckets).all()


def _integers(matrix):
    assert (matrix == np.rint(matrix)).all()
    return matrix.astype(np.int64).astype(object)


def _last_digit(row):
    """How many binary digits after the point the numbers of a row have."""
    return next(k for k in range(1100) if (np.ldexp(row, k) == np.rint(np.ldexp(row, k))).all())


@pytest.mark.parametrize("width", [2, 16, 256, 5000])
def test_blocks_of_any_size_fall_into_the_cells_of_the_codes(width):
    # 5000 points pass several blocks; hashed codes are mixed here in Python's integers.
    points = RNG.normal(size=(5000, 3))
    sketch = race(9, width).update(points)
    codes = PLANE.codes(PLANE.read("", points), sketch._draw, slice(0, 9))
    hashes = sketch._hashes
    assert hashes.direct.all() == (width > 16)
    for r, of in enumerate(codes.T):
        cells = of if hashes.direct[r] else [_slot(c, hashes.keys[r], width) for c in of]
        np.testing.assert_array_equal(sketch._table[r], np.bincount(cells, minlength=width))


def _slot(code, key, width):
    z, mask = int(code) ^ int(key), 2**64 - 1
    z = (z ^ z >> 27) * 0x3C79AC492BA7B653 & mask
    z = (z ^ z >> 33) * 0x1C69B3F74AC4AE35 & mask
    return ((z ^ z >> 27) >> 32) * width >> 32


def test_removal_gives_back_the_cells():
    first, second = DATA[:400], DATA[400:]
    sketch = race().update(DATA).update(second, np.full(300, -1))
    np.testing.assert_array_equal(sketch._table, race().update(first)._table)
    assert (sketch.total, sketch.mass) == (400, 1000)
    weights = RNG.integers(0, 5, 400)
    by_weight = race().update(first, weights)
    repeated = race().update(np.repeat(first, weights, axis=0))
    np.testing.assert_array_equal(by_weight._table, repeated._table)
    assert (by_weight.heaviest, repeated.heaviest) == (weights.max(), 1)


def test_cells_widen_when_the_weights_need_it_and_merge_alike():
    many = 2**31 - 1
    one = race().update(DATA[:1], [many])
    assert one._table.dtype == np.int32
    two = one.copy().merge(race().update(DATA[:1]))
    assert two == one.copy().update(DATA[:1])
    assert two._table.dtype == np.int64
    assert two._table.max() == 2**31
    back = two.copy().update(DATA[:1], [-many])
    assert back.estimate(DATA[:1])[0] == 1
    assert load(back.to_bytes()) == back
    assert two.merge(two.copy())._table.max() == 2**32


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("width", [1024, 16, 2])
def test_estimates_are_unbiased_whatever_the_width(p, width):
    # 20,000 independent rows. Of 24 estimates each is within 6 of its own deviations (p < 1e-7
    # all together). Without correction those of width 16 would be too high by 6 %, of 2 by half.
    family = Euclidean(0.2, (-3, 3), p, dimension=2)
    points = np.random.default_rng(1).normal(size=(60, 2))
    queries = np.vstack([points[:3], [[2.0, -1.0]]])
    sketch = Race(20_000, width, family, strata="independent").update(points)
    truth = sketch.exact(points, queries)
    cells = sketch._hashes.gather(
        family.read("", queries), sketch._table, np.ones(20_000), np.arange(20_000)
    )
    std_error = cells.std(axis=0) * sketch._coefficients(1)[0].max() / math.sqrt(20_000)
    assert (np.abs(sketch.estimate(queries) - truth) < 6 * std_error).all()
    assert (sketch._hashes.direct.mean() > 0.5) == (width == 1024)


def test_the_kernel_is_the_collision_probability_of_the_projection():
    # By quadrature over the length t of a projection: |N| has density 2 phi, and a gap of t buckets
    # is not cut with probability 1 - t (for p = 1 the density is that of |Cauchy|).
    t = (np.arange(200_000) + 0.5) / 200_000
    for ratio in (0.1, 0.7, 2.0, 9.0):
        normal = 2 / math.sqrt(2 * math.pi) * np.exp(-((t / ratio) ** 2) / 2) / ratio
        cauchy = 2 / math.pi / (1 + (t / ratio) ** 2) / ratio
        for p, density in ((2, normal), (1, cauchy)):
            family = Euclidean(2.0, (0, 50), p)
            result = family.kernel([[10.0]], [[10 + 2 * ratio]])[0, 0]
            assert result == pytest.approx(np.mean(density * (1 - t)), rel=1e-6)


def test_a_transform_measures_distances_after_it():
    matrix = [[1.0, 0.5], [0.0, 2.0], [1.0, 1.0]]
    family = Euclidean(1.0, (0, 4), transform=matrix, dimension=2)
    plain = Euclidean(1.0, (-99, 99), dimension=3)
    x, q = RNG.uniform(0, 4, (5, 2)), RNG.uniform(0, 4, (4, 2))
    want = plain.kernel(x @ np.transpose(matrix), q @ np.transpose(matrix))
    np.testing.assert_allclose(family.kernel(x, q), want, rtol=1e-12)
    sketch = Race(20_000, 1024, family, strata="independent").update(x)
    # Deviations are at most sqrt(25 / 20,000) = 0.035.
    assert (np.abs(sketch.estimate(q) - want.sum(axis=0)) < 0.2).all()


def test_medians_and_sums_of_kernels_stay_near_the_mean():
    family = WeightedSum([(0.7, PLANE), (0.3, Angular(2, 3))])
    sketch = Race(4000, 256, family).update(DATA)
    truth = sketch.exact(DATA, DATA[:9])
    for combine in ("mean", "median"):
        # Deviations of a row are at most 700, of the rows of one kernel 700 / sqrt(1200) = 20.
        assert (np.abs(sketch.estimate(DATA[:9], combine) - truth) < 120).all()
    one = Race(5, 64, PLANE).update(DATA)
    median = np.median([_row(one, r) for r in range(5)])
    assert one.estimate(DATA[:1], "median", groups=5)[0] == median
    assert one.estimate(DATA[:1], "median", groups=99)[0] == median
    assert one.mean(DATA[:1])[0] == one.estimate(DATA[:1])[0] / 700


def _row(sketch, r):
    codes = PLANE.codes(PLANE.read("", DATA[:1]), sketch._draw, slice(r, r + 1))
    return sketch._table[r, codes[0, 0]]


def test_points_and_queries_outside_count_at_the_nearest_inside():
    far = np.array([[9.0, 0, 0], [-np.inf, 0, np.inf], [0, 0, 0]])
    near = np.array([[3.0, 0, 0], [-3, 0, 3], [0, 0, 0]])
    sketch = race().update(far)
    assert sketch.clipped == 2
    np.testing.assert_array_equal(sketch._table, race().update(near)._table)
    np.testing.assert_array_equal(sketch.estimate(far), sketch.estimate(near))
    assert sketch.merge(race().update(far)).clipped == 4


def test_bad_input_is_refused_and_changes_nothing():
    sketch = race().update(DATA)
    before = sketch.to_bytes()
    bad = [
        ((np.array([[1.0, 2.0]]),), "must have 3 columns"),
        ((DATA[:2], [1.5, 1]), "weights must be integers"),
        ((DATA[:2], [1]), "one for each of the 2"),
    ]
    for arguments, sentence in bad:
        with pytest.raises((ValueError, TypeError), match=f"Race: .*{sentence}"):
            sketch.update(*arguments)
        assert sketch.to_bytes() == before
    other = Euclidean(2.0, (-3, 3), dimension=3)
    with pytest.raises(ValueError, match=r"Race: cannot merge, kernel is .* here and .* there"):
        sketch.merge(race(kernel=other))
    with pytest.raises(ValueError, match="Race: cannot merge, strata is"):
        sketch.merge(race(strata="independent"))
    with pytest.raises(ValueError, match="Euclidean: bandwidth must be at least"):
        Euclidean(1e-14, (0, 1))
    for shrunk in ([[0.0]], [[1e-310]]):  # no line of it is longer than a bucket, but one is NaN
        with pytest.raises(ValueError, match="bandwidth must be at least 1e-150"):
            Euclidean(1e-300, (-1e150, 1e150), transform=shrunk)
    with pytest.raises(ValueError, match="column 0 holds NaN"):
        sketch.estimate([[np.nan] * 3])


@pytest.mark.parametrize(
    ("rows", "kernel"),
    [
        (2**17, Angular(32, 63)),
        (2**17, PowerKernel(PowerKernel(Angular(1, 8), 64), 64)),
        (2**17, ProductKernel(Angular(32, 9), Angular(32, 9))),
        (
            2**17,
            WeightedSum([(1, Angular(1, 2)), (1e-9, Angular(32, 2)), (1, PowerKernel(FLAT, 64))]),
        ),
        (2**17, Euclidean(1.0, (0, 1), transform=[[0.5]] * 600)),
    ],
)
def test_hash_functions_that_would_fill_the_memory_are_refused(rows, kernel):
    with pytest.raises(ValueError, match=r"Race: rows times .* at most 2\*\*26, not 131072 times"):
        Race(rows, 8, kernel)


def test_a_million_columns_take_no_square_of_room():
    assert Euclidean(1.0, (0, 1), dimension=2**20).entries == 2**20 + 1


def test_exact_sums_of_any_family_come_in_blocks():
    # 2**20 pairs at a time: 3000 x 700 are three of them.
    points, queries = np.tile(DATA, (5, 1))[:3000], DATA
    for kernel in (Angular(1, 3), ProductKernel(PLANE, Angular(1, 3))):
        weights = RNG.integers(-2, 3, 3000)
        full = kernel.kernel(points, queries)
        np.testing.assert_allclose(kernel.sums(points, queries, weights), weights @ full)
        np.testing.assert_allclose(race(kernel=kernel).exact(points, queries), full.sum(axis=0))
