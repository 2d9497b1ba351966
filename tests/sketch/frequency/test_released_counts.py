"""Releases of counter tables: exact noise for the exact sensitivity, and nothing else released."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from sfumato.privacy import Ledger
from sfumato.privacy.accounting.losses import Concentrated, GaussianNoise, LaplaceNoise, Loss, Pure
from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import AMS, CountingBloomFilter, CountMin, CountSketch, SketchFormatError, load
from sfumato.sketch.frequency.cell_bounds import CentredRow, bound_of_centred_rows

SKETCHES = [
    lambda: CountMin(64, 5),
    lambda: CountSketch(64, 5),
    lambda: AMS(64, 5),
    lambda: AMS(7, 3, kind="tug-of-war"),
]
EACH = pytest.mark.parametrize("make", SKETCHES, ids=["CountMin", "CountSketch", "AMS", "pull"])


def cells(sketch):
    return sketch._used() if isinstance(sketch, AMS) else sketch._table


def changed_cells(sketch):
    """How many cells one event changes."""
    return sketch.depth * (sketch.width if getattr(sketch, "kind", "") == "tug-of-war" else 1)


def seeded(seed=1):
    return InsecureSeededSource(seed)


@EACH
def test_laplace_noise_of_the_exact_scale_is_added_once_to_every_cell(make):
    sketch = make().update(np.arange(300), np.arange(300) % 4)
    released = sketch.release(0.1, weight=3, source=seeded())
    scale = Fraction(3 * changed_cells(sketch)) / Fraction(0.1)
    noise = discrete_laplace(scale, cells(sketch).shape, source=seeded())
    assert (released._table - cells(sketch) == noise).all()
    assert released._table.dtype == np.int64
    assert released.scale == float(scale)
    assert Loss.from_dict(released.statement.loss) == LaplaceNoise(scale, 3, changed_cells(sketch))
    assert released.statement.epsilon == 0.1
    assert released.statement.delta == 0


@EACH
def test_gaussian_noise_is_added_where_its_variance_is_smaller(make):
    sketch = make().update(np.arange(300))
    released = sketch.release(0.1, 0.01, source=seeded())
    sigma = Fraction(released.scale)
    noise = discrete_gaussian(sigma, cells(sketch).shape, source=seeded())
    assert released.noise == "Gaussian"
    assert (released._table - cells(sketch) == noise).all()
    assert Loss.from_dict(released.statement.loss) == GaussianNoise(
        sigma**2, 1, changed_cells(sketch)
    )
    assert 0.09 < released.statement.epsilon <= 0.1
    assert released.statement.delta == 0.01
    pure = sketch.release(0.1, source=seeded())
    assert released._distribution.variance < pure._distribution.variance


def test_a_delta_that_covers_everything_still_states_an_epsilon():
    released = CountMin(64).release(1e-6, 0.9).statement
    assert (released.epsilon, released.delta) == (1e-6, 0.9)


def test_laplace_noise_stays_where_a_delta_does_not_help():
    released = CountMin(64, 2).release(1.0, 1e-9)
    assert (released.noise, released.scale, released.statement.delta) == ("Laplace", 2.0, 0)


def moved(make, before, after):
    """How much the cells differ between two streams of keys and weights, by both norms."""
    one, other = (cells(make().update(*stream)).astype(np.int64) for stream in (before, after))
    return np.abs(one - other).sum(), ((one - other) ** 2).sum()


# What one unit does at worst, and how many events of weight 3 the terms allow it.
WORST = [
    ({}, ([1], [0]), ([1], [3])),
    ({"contributions": 2}, ([1], [0]), ([1, 1], [3, 3])),
    ({"relation": "replace"}, ([1], [3]), ([8], [3])),
    ({"relation": "replace"}, ([1], [-3]), ([1], [3])),
    ({"relation": "replace", "contributions": 2}, ([1, 1], [-3, -3]), ([1, 1], [3, 3])),
    ({"relation": "replace", "contributions": 2}, ([1, 1], [3, 3]), ([8, 8], [3, 3])),
]


# A Count-Min takes no event of negative weight.
POSSIBLE = [
    (make, *worst)
    for make in SKETCHES
    for worst in WORST
    if min(worst[1][1]) >= 0 or not isinstance(make(), CountMin)
]


@pytest.mark.parametrize(("make", "terms", "before", "after"), POSSIBLE)
def test_noise_is_calibrated_to_the_worst_unit(make, terms, before, after):
    sketch = make()
    first, second = moved(make, before, after)
    pure = sketch.release(0.5, weight=3, **terms)
    assert first <= pure.scale * 0.5
    mixed = sketch.release(0.5, 0.1, weight=3, **terms)
    loss = Loss.from_dict(mixed.statement.loss)
    assert mixed.noise == "Gaussian"
    assert second <= 2 * loss.rho * mixed.scale**2 * (1 + 1e-9)
    assert mixed.statement.epsilon <= 0.5
    attained = "replace" not in terms.values() or min(before[1]) < 0 or type(sketch) is CountMin
    if attained:  # the worst case exists, so less noise would violate the guarantee
        assert first == pytest.approx(pure.scale * 0.5)
        assert second == pytest.approx(2 * loss.rho * mixed.scale**2)


@EACH
def test_random_neighbours_never_differ_by_more(make):
    rng = np.random.default_rng(3)
    low = 0 if isinstance(make(), CountMin) else -5
    for _ in range(50):
        keys, weights = rng.integers(0, 40, 60), rng.integers(low, 6, 60)
        first, second = moved(make, (keys, weights), (keys[1:], weights[1:]))
        assert first <= 5 * changed_cells(make())
        assert second <= 25 * changed_cells(make())


def test_the_cost_of_several_events_is_that_of_a_group():
    released = CountSketch(64, 5).release(1.0, contributions=3, unit="user")
    assert Loss.from_dict(released.statement.loss) == Pure(1.0)
    assert released.scale == 15
    mixed = CountSketch(64, 5).release(1.0, 0.1, relation="replace")
    assert isinstance(Loss.from_dict(mixed.statement.loss), Concentrated)


@EACH
def test_a_heavier_event_than_declared_is_refused_and_not_disclosed(make):
    sketch = make().update([1, 2], [7919, 1])
    clean = make().update([3])
    for copy in (sketch, load(sketch.to_bytes()), sketch.copy(), clean.merge(sketch)):
        assert copy.heaviest == 7919
        with pytest.raises(ValueError, match="weight is 7918, but the sketch holds a heavier") as e:
            copy.release(1.0, weight=7918)
        assert "7919" not in str(e.value)
        assert copy.release(1.0, weight=7919).scale == 7919 * changed_cells(copy)
    for bad in (0, -1, 1.5, None, True, 2**31):
        with pytest.raises(ValueError, match="weight must be"):
            make().release(1.0, weight=bad)


@pytest.mark.parametrize("make", SKETCHES[1:])
def test_removals_count_by_their_size(make):
    sketch = make().update([1, 1], [5, -6]).update([1], [1])
    assert sketch.heaviest == 6
    with pytest.raises(ValueError, match="a heavier event"):
        sketch.release(1.0, weight=5)


@EACH
def test_a_file_with_an_impossible_heaviest_weight_is_refused(make):
    for weight in (-1, 0, 8):
        sketch = make().update([1, 2], [3, 4])
        sketch.heaviest = weight
        with pytest.raises(SketchFormatError, match="heaviest weight does not fit"):
            load(sketch.to_bytes())


def test_cells_whose_sensitivity_is_not_known_refuse():
    for kind in ("compact", "conservative", "logarithmic"):
        with pytest.raises(ValueError, match=r"CountMin: cannot be released, .*plain cells"):
            CountMin(64, cells=kind).release(1.0)
    with pytest.raises(ValueError, match=r"CountSketch: cannot be released, .*integer cells"):
        CountSketch(64, cells="real").release(1.0)


def test_one_event_may_change_a_full_counter_by_any_amount():
    # Why counting Bloom filters refuse: 255 is for good, one less is not.
    full, short = (CountingBloomFilter(8, 1).update([1] * n) for n in (255, 254))
    for sketch in (full, short):
        sketch.remove([1] * 200)
    assert (int(full._counts.max()), int(short._counts.max())) == (255, 54)
    with pytest.raises(ValueError, match="stays there when keys are removed"):
        full.release(1.0)


def test_noise_too_large_for_the_cells_is_refused():
    with pytest.raises(ValueError, match="CountMin: epsilon is 1e-15, for which the noise"):
        CountMin(64).release(1e-15)
    # Cells near the end of 64 bits are clipped first, which brings no two tables apart.
    sketch = CountSketch(2, 1).update([1] * 4, [2**31 - 1] * 4)
    sketch.mass, sketch._table = 2**63 - 1, np.full((1, 2), 2**63 - 5)
    released = sketch.release(1.0, weight=2**31 - 1)
    assert (np.abs(released._table - 2**62) < 2**38).all()


def test_units_of_several_events_need_contributions():
    for unit in ("user", "basket"):
        with pytest.raises(
            ValueError,
            match=f"CountMin: contributions must be given for unit '{unit}': the most events of",
        ):
            CountMin(64).release(1.0, unit=unit)
    released = CountMin(64).release(1.0, unit="user", contributions=4).statement
    assert (released.unit, released.contributions) == ("user", 4)


def test_sizes_of_totals_and_kinds_of_keys_leave_no_trace():
    light, heavy = CountMin(8, 1).update(["tea"]), CountMin(8, 1).update([1, 1], [2**31 - 1] * 2)
    assert (light._table.dtype, heavy._table.dtype) == (np.int32, np.int64)
    a, b = (sketch.release(1.0, weight=2**31 - 1, source=seeded()) for sketch in (light, heavy))
    assert len(a.to_bytes()) == len(b.to_bytes())
    assert a.statement == b.statement
    assert a.parameters == b.parameters


def test_cells_that_only_pad_are_not_released():
    released = AMS(7, 3, kind="tug-of-war").update([1]).release(1.0)
    assert released._table.shape == (3, 7)
    assert released.nbytes == 3 * 7 * 8


def test_a_release_takes_one_table_of_extra_memory():
    sketch = CountSketch(2**20, 2).update(range(1000))
    sketch.release(1.0)
    tracemalloc.start()
    released = sketch.release(1.0)
    peak = tracemalloc.get_traced_memory()[1]
    assert released.error_bound(0.9) > 0
    assert tracemalloc.get_traced_memory()[1] < released.nbytes + 2**22
    tracemalloc.stop()
    assert peak < released.nbytes + 2**22


def test_a_ledger_may_be_given_by_its_path_and_must_be_there(tmp_path):
    path = tmp_path / "a.ledger"
    sketch = CountMin(64).update([1])
    with pytest.raises(FileNotFoundError, match="there is no ledger"):
        sketch.release(1, ledger=path, dataset="views")
    assert not path.exists()
    Ledger(path).create("views", epsilon=1)
    assert sketch.release(1, ledger=str(path), dataset="views").statement.dataset == "views"
    with pytest.raises(TypeError, match="ledger must be a Ledger or its path, not int"):
        sketch.release(1, ledger=7, dataset="views")


@pytest.mark.parametrize("make", [CountMin, CountSketch], ids=lambda kind: kind.__name__)
def test_one_key_is_answered_as_in_a_column(make):
    released = make(64).update(["tea"] * 50 + ["milk"]).release(epsilon=1)
    for key in ("tea", "rum", 7, None):
        got = released.estimate(key)
        assert type(got) is float
        assert got == released.estimate([key])[0]


@pytest.mark.parametrize("position", [0, 1, None])
@pytest.mark.parametrize("width", [4, 8, 2000])
def test_every_row_that_may_be_chosen_has_its_own_part_of_the_failure_probability(width, position):
    # Which of the three answers follows from the noisy cells, so that their failures add up. At
    # 0.3 and a width of 8 some of them have a bound by cells, and others one by moments.
    released = CountMin(width, 5).update(np.arange(300) % 40).release(1.0, source=seeded())
    candidates = CentredRow.candidates(5)
    row = next(each for each in candidates if each.position == position)
    vars(released)["_row"] = row
    for miss in (0.01, 0.7):
        by_cells = bound_of_centred_rows(released._table, miss / len(candidates), row)
        by_moments = released._bound_by_moments(miss / len(candidates))
        assert released.error_bound(1 - miss) == pytest.approx(
            by_cells if by_cells < np.inf else by_moments
        )
