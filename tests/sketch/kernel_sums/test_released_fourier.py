"""Releases of Fourier features: noise for the exact sensitivity, and errors as stated."""

from fractions import Fraction

import numpy as np
import pytest

from sfumato.attack import audit
from sfumato.privacy.accounting.losses import Concentrated, Loss, Pure
from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import KernelFourier, SketchFormatError

RANDOM = np.random.default_rng(4)
POINTS = RANDOM.uniform(0, 4, (500, 2))
QUERIES = RANDOM.uniform(0, 4, (40, 2))
PAIR = 46340  # floor(sqrt(2) 2**15)


def sketch(rows=64, **parameters):
    return KernelFourier(1.0, ([0, 0], [4, 4]), rows=rows, **parameters)


def seeded(seed=1):
    return InsecureSeededSource(seed)


def moved(result, first, second=None):
    """L1 and squared L2 norm of what adding or exchanging points changes, count included."""
    one, other = sketch(result.rows).update([first]), sketch(result.rows)
    if second is not None:
        other.update([second])
    count = result.count_weight * (one.total - other.total)
    change = [*(one._waves - other._waves).reshape(-1).tolist(), count]
    return sum(map(abs, change)), sum(each * each for each in change)


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_no_point_moves_the_cells_farther_than_the_noise_is_for(relation):
    # Corners, and 100 points of the box at random: their steps are all that the cells can see.
    exchanged = relation == "replace"
    pure = sketch().release(0.5, relation=relation)
    mixed = sketch().release(0.5, 1e-6, relation=relation)
    assert (pure.noise, mixed.noise) == ("Laplace", "Gaussian")
    l1 = (1 + exchanged) * 64 * PAIR + pure.count_weight
    square = (1 + 3 * exchanged) * 64 * 2**30 + mixed.count_weight**2
    assert pure.scale == float(Fraction(l1) / Fraction(0.5))
    rho = Loss.from_dict(mixed.statement.loss).rho
    assert rho >= square / (2 * mixed.scale**2) >= rho * (1 - 1e-9)
    largest = 0
    corners = [[0, 0], [0, 4], [4, 0], [4, 4]]
    for first, second in zip(
        [*corners, *POINTS[:100]], [*corners[::-1], *POINTS[100:]], strict=False
    ):
        other = second if exchanged else None
        far = moved(pure, first, other)[0], moved(mixed, first, other)[1]
        assert far[0] <= l1
        assert far[1] <= square
        largest = max(largest, far[0])
    assert largest > (0.5 if exchanged else 0.85) * l1  # the sensitivity is nearly attained


def test_the_statement_is_that_of_the_loss():
    pure = sketch().release(0.5).statement
    assert Loss.from_dict(pure.loss) == Pure(0.5)
    assert (pure.epsilon, pure.delta) == (0.5, 0.0)
    mixed = sketch().release(0.5, 1e-6).statement
    assert isinstance(Loss.from_dict(mixed.loss), Concentrated)
    assert 0.45 < mixed.epsilon <= 0.5
    assert mixed.delta == 1e-6


@pytest.mark.parametrize(("delta", "draw"), [(0.0, discrete_laplace), (1e-6, discrete_gaussian)])
def test_exact_noise_is_added_once_to_every_cell(delta, draw):
    released = sketch().update(POINTS).release(0.5, delta, source=seeded())
    source, scale = seeded(), Fraction(released.scale)
    raw = sketch().update(POINTS)._waves
    assert (released._waves - raw == draw(scale, raw.shape, source=source)).all()
    assert released._count[0] - 500 * released.count_weight == draw(scale, 1, source=source)[0]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_error_is_the_deviation_of_every_answer(delta):
    # 200 draws: the root of a mean square is 30 % off with p < 1e-6 for one of 40 queries: noise of
    # 128 cells is nearly normal, so 200 squares have a chi-square distribution. The size is one
    # cell.
    made = sketch().update(POINTS)
    released = [made.release(1.0, delta, source=seeded(seed)) for seed in range(200)]
    off = np.array([each.estimate(QUERIES) for each in released]) - made.estimate(QUERIES)
    ratio = np.sqrt((off**2).mean(axis=0)) / released[0].noise_error()
    assert (np.abs(ratio - 1) < 0.3).all()
    assert abs(np.mean(off)) < released[0].noise_error()
    sizes = np.array([each.size() for each in released])
    deviation = np.sqrt(released[0]._distribution.variance) / released[0].count_weight
    assert abs(sizes.std() / deviation - 1) < 0.5
    assert abs(sizes.mean() - 500) < 6 * deviation / np.sqrt(200)


def test_gaussian_noise_of_an_answer_does_not_grow_with_the_rows():
    few, many = (sketch(rows).release(1.0, 1e-6).noise_error() for rows in (64, 16384))
    assert abs(many / few - 1) < 0.05
    few, many = (sketch(rows).release(1.0).noise_error() for rows in (64, 16384))
    assert abs(many / few / 16 - 1) < 0.15


def test_the_size_costs_answers_little():
    for delta, most in ((0.0, 1.11), (1e-6, 1.04)):
        released = sketch(256).release(1.0, delta)
        count = released.count_weight / 2**15
        used = 1 + count / (256 * PAIR / 2**15) if not delta else np.sqrt(1 + count**2 / 256)
        assert used < most


def test_error_bound_holds_over_seeds_and_noise():
    # At 90 % at most 100 of 1,000 should miss; Hoeffding and Chebyshev leave all but none of them.
    missed = 0
    for seed in range(25):
        made = sketch(seed=seed, strata="independent").update(POINTS)
        released = made.release(2.0, source=seeded(seed))
        off = np.abs(released.estimate(QUERIES) - made.exact(POINTS, QUERIES))
        missed += int((off > released.error_bound(0.9)).sum())
    assert missed <= 10
    assert released.error_bound(0.9) < 4 * 500  # and says something
    assert released.error_bound(0.99) > released.error_bound(0.9)


def test_answers_are_not_clipped():
    released = sketch().release(0.01, source=seeded())  # of no points at all
    assert released.estimate(QUERIES).min() < 0
    mean = released.mean(QUERIES)
    np.testing.assert_array_equal(mean, released.estimate(QUERIES) / released.size())


def test_what_the_curator_knows_stays_with_the_curator():
    released = sketch().update([[9.0, 9.0]]).release(1.0)
    assert not {"clipped", "total", "heaviest"} & set(vars(released))
    assert b"clipped" not in released.to_bytes()
    with pytest.raises(ValueError, match="holds a heavier event"):
        sketch().update(POINTS, np.full(500, 3)).release(1.0, weight=2)
    heavy = sketch().update(POINTS, np.full(500, 3)).release(1.0, weight=3)
    assert heavy.scale == 3 * released.scale


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_an_audit_measures_no_more_than_is_claimed(delta):
    # A true claim fails with p < 1e-3. Neighbours: nothing, and the point of the longest waves.
    one = max((sketch(1).update([each]) for each in POINTS), key=lambda s: np.abs(s._waves).sum())
    weight = one.release(4.0, delta).count_weight
    raw = np.array([*one._waves[:, 0], weight])

    def cells(value, trials, source):
        released = [value.release(4.0, delta, source=source) for _ in range(trials)]
        return np.array([[*each._waves[:, 0], each._count[0]] for each in released])

    def likelihood(answers):
        if delta:
            return answers @ raw
        return (np.abs(answers) - np.abs(answers - raw)).sum(axis=1)

    claimed = (4.0, delta) if delta else 4.0
    found = audit(
        cells,
        (sketch(1), one),
        1500,
        confidence=0.999,
        source=seeded(),
        score=likelihood,
        claimed=claimed,
    )
    assert found.passed
    assert found.epsilon > 1  # it distinguishes the two


def test_a_forged_bandwidth_is_refused():
    released = sketch().release(1.0)
    released.__dict__["bandwidth"] = 1e-300
    with pytest.raises(SketchFormatError, match="bandwidth must be at least"):
        type(released).from_bytes(released.to_bytes())
