"""Answers of released tables: unbiased, and within a bound that counts collisions and noise."""

import math

import numpy as np
import pytest

from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import AMS, CountMin, CountSketch, load
from sfumato.sketch.frequency import count_min as released_count_min
from sfumato.sketch.frequency.count_min import ReleasedCountMin
from support.streams import uniform, zipf


def seeded(seed=1):
    return InsecureSeededSource(seed)


def mean_errors(sketch, ask):
    """One number for each of 400 seeds of a stream of 100 keys with collisions everywhere."""
    stream = uniform(2000, 100)
    truth = np.bincount(stream)
    made = (sketch(32, 1, seed=s).update(stream).release(0.2, source=seeded(s)) for s in range(400))
    return np.array([ask(each.estimate(range(100)) - truth) for each in made])


def test_estimates_are_unbiased():
    # The mean of 400 errors is within 5 of its own deviations, p < 1e-6.
    errors = mean_errors(CountSketch, np.mean)
    assert abs(errors.mean()) < 5 * errors.std() / 20
    assert errors.std() / 20 < 2


def test_counts_are_as_often_too_high_as_too_low():
    # The difference is within 5 of its own deviations of 0, p < 1e-6, and below a tenth. The least
    # of noisy cells would be too low for 60 %, plain cells too high for all.
    errors = mean_errors(CountMin, lambda each: np.sign(each).mean())
    assert abs(errors.mean()) < 5 * errors.std() / 20 < 0.1


def test_a_heavy_key_does_not_shift_the_counts_of_others():
    # The mean of the cells is 10**6 / 64, where most keys read 0 and hardly any noise. A key meets
    # the heavy one in 3 of 5 rows with p < 4e-5, and 50 of 100 keys with p < 1e-9.
    released = CountMin(64, 5).update([1], [10**6]).release(1e6, weight=10**6, source=seeded())
    assert np.median(np.abs(released.estimate(range(2, 102)))) < 100
    assert abs(released.estimate(1) - 10**6) < 100


def test_totals_are_unbiased():
    # 500 totals, each of deviation sqrt(64 * 2 * 4**2 / 4) = 22.6: 5 of the mean's are 5.1, with
    # p < 1e-6; the deviation itself is known to 3 %, so that 15 has p < 1e-9.
    sketch = CountMin(64, 4).update(range(1000))
    totals = [sketch.release(1.0, source=seeded(s)).estimate_total() for s in range(500)]
    assert abs(np.mean(totals) - 1000) < 5.1
    assert np.std(totals) > 15


@pytest.mark.parametrize("kind", ["fast", "tug-of-war"])
@pytest.mark.parametrize(("delta", "noise"), [(0, "Laplace"), (0.3, "Gaussian")])
def test_second_moments_are_unbiased(kind, delta, noise):
    # 1200 seeds; the mean of the rows is within 5 of its own deviations, p < 1e-6. Without taking
    # the noise off, or with L / (L - 1) on the squares (thesis 3.11), it would be off by more.
    result = [
        AMS(4, 1, kind=kind, seed=s).update(range(30)).release(0.3, delta, source=seeded(s))
        for s in range(1200)
    ]
    assert result[0].noise == noise
    errors = np.array([release.estimate() - 30 for release in result])
    squares = np.array([(release._table.astype(float) ** 2).sum() for release in result])
    slip = squares / 3 / (1 if kind == "fast" else 4)
    bound = 5 * errors.std() / math.sqrt(1200)
    assert abs(errors.mean()) < bound < slip.mean()


def both(seed, width, depth, epsilon):
    """Releases of two streams of 200 keys whose inner product is 200."""
    one = AMS(width, depth, seed=seed).update(range(200))
    two = AMS(width, depth, seed=seed).update(range(200))
    return (each.release(epsilon, source=seeded(2 * seed + i)) for i, each in enumerate((one, two)))


def test_inner_products_of_two_releases_are_unbiased():
    # 800 seeds; the mean is within 5 of its own deviations, p < 1e-6, which are below 7 together.
    errors = [np.subtract(x.inner(y), 200) for x, y in (both(s, 16, 1, 1.0) for s in range(800))]
    assert abs(np.mean(errors)) < 5 * np.std(errors) / math.sqrt(800) < 15


def test_inner_products_are_within_their_bound():
    # 20 % of 200 seeds may miss; 69 would have p < 1e-6. Measured: none, and 80 % of the errors
    # within 0.26 of the bound.
    found = 0
    for x, y in (both(s, 256, 5, 1.0) for s in range(200)):
        found += abs(x.inner(y) - 200) > x.error_bound(0.8, y)
    assert found < 69


def test_inner_products_need_releases_of_equal_parameters():
    x = AMS(16, 3).release(1.0)
    assert x.inner(x) == x.inner(load(x.to_bytes())) == x.estimate()
    assert x.error_bound(0.9, x) == x.error_bound(0.9)
    with pytest.raises(ValueError, match="cannot compare, seed is 0 here and 1 there"):
        x.inner(AMS(16, 3, seed=1).release(1.0))
    with pytest.raises(TypeError, match="cannot compare with AMS"):
        x.inner(AMS(16, 3))


def misses(make, stream, confidence, *, seeds, ask, epsilon=1.0, weights=None, weight=1):
    """How many of the keys' estimates are off by more than their bound, over many seeds."""
    truth = np.bincount(stream, weights=weights, minlength=max(ask) + 1)[list(ask)]
    found = 0
    for s in range(seeds):
        released = make(s).update(stream, weights).release(epsilon, weight=weight, source=seeded(s))
        assert math.isfinite(released.error_bound(confidence))
        found += (np.abs(released.estimate(ask) - truth) > released.error_bound(confidence)).sum()
    return found


@pytest.mark.parametrize(
    ("make", "confidence"),
    [
        (lambda s: CountMin(64, 1, seed=s), 1 - 0.75 / 64),
        (lambda s: CountSketch(64, 4, seed=s), 1 - 0.9 * 4 / 64),
    ],
)
def test_error_bound_holds_on_its_worst_stream(make, confidence):
    # One huge key, hardly any noise: another key misses if it meets that in a row, which happens
    # more often than the bound may miss; so it has to allow for it. 60,000 questions: over 5
    # deviations more misses than allowed have p < 1e-6; half of the bound would miss them all.
    weights = np.array([10**6])
    result = dict(seeds=300, ask=range(2, 202), epsilon=1e6, weights=weights, weight=10**6)
    allowed = 60_000 * (1 - confidence)
    assert misses(make, np.array([1]), confidence, **result) <= allowed + 5 * math.sqrt(allowed)


@pytest.mark.parametrize("confidence", [0.8, 0.98])
@pytest.mark.parametrize("stream", [uniform(20, 20), uniform(9000, 900), zipf(9000, 900)])
@pytest.mark.parametrize(
    "make",
    [
        lambda s: CountMin(128, 5, seed=s),
        lambda s: CountSketch(128, 5, combine="median", seed=s),
        lambda s: CountSketch(128, 4, seed=s),
    ],
)
def test_error_bound_holds_where_noise_or_collisions_prevail(make, stream, confidence):
    # 20 seeds of 900 keys. The bound of medians is nearly exact: over 60 further seeds 18 % of keys
    # missed where 20 % may, with a deviation of 2 % between seeds, and 1.7 % with 0.5 % where 2 %
    # may. So 5 deviations of the mean of 20 seeds are added: p < 1e-6.
    found = misses(make, stream, confidence, seeds=20, ask=range(900))
    slack = 5 * (0.02 if confidence == 0.8 else 0.005) / math.sqrt(20)
    assert found <= 20 * 900 * (1 - confidence + slack)


def test_error_bound_is_not_absurdly_loose():
    # The bound at 95 % beside the error that 95 % of keys are within. Of medians, the tails of the
    # loads are known: over 50 seeds at most 1.12 times; of the best row, which the cells choose,
    # 1.5. Of means, Chebyshev's inequality: 2.4.
    stream = uniform(40_000, 2000)
    truth = np.bincount(stream)
    for make, most in ((CountMin, 1.6), (CountSketch, 4)):
        released = make(512, 5).update(stream).release(1.0, source=seeded())
        error = np.quantile(np.abs(released.estimate(range(2000)) - truth), 0.95)
        assert 0.9 * error <= released.error_bound(0.95) <= most * error


@pytest.mark.parametrize("kind", ["fast", "tug-of-war"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 1e6])
def test_second_moments_are_within_their_bound(kind, epsilon):
    # 20 % of 200 seeds may miss; 69 would have p < 1e-6. Measured: at most 3 %, since Chebyshev's
    # bound is twice what is needed even where, as here, the variance is all that it may be.
    found = 0
    for s in range(200):
        sketch = AMS(512, 1, kind=kind, seed=s).update(range(200))
        released = sketch.release(epsilon, source=seeded(s))
        found += abs(released.estimate() - 200) > released.error_bound(0.8)
    assert found < 69


def test_the_median_row_is_taken_not_the_least():
    # The median of five noises of scale 100 deviates by about 80, the mean of 5000 by 1.2; with
    # the collisions, 10 has p < 1e-6. The least of the five would be 150 too low on average.
    sketch = CountMin(64, 5).update(range(50))
    released = [sketch.release(0.05, source=seeded(s)).estimate(range(50)) - 1 for s in range(100)]
    assert abs(np.mean(released)) < 10


def test_bounds_grow_with_the_noise_even_of_an_empty_stream():
    # Over 300 seeds the bounds of counts grew by 101 to 103 times, with a deviation of at most 15,
    # those of squares by 10,100, with one of 490: 20 and 3000 times are more than 5 of those away,
    # p < 1e-6.
    for make, factor in ((CountMin, 20), (CountSketch, 20), (AMS, 3000)):
        loud, quiet = (make(256, 5).release(e, source=seeded()) for e in (0.01, 1.0))
        assert loud.error_bound(0.9) > factor * quiet.error_bound(0.9)
        assert quiet.error_bound(0.9) > quiet._distribution.tail_bound(0.5)


def test_few_cells_tell_no_bound():
    assert CountSketch(2, 1).release(1.0).error_bound(0.99) == math.inf
    assert AMS(2, 1).release(1.0).error_bound(0.99) == math.inf
    assert CountMin(2, 1).release(1.0).error_bound(0.99) < math.inf  # its total is known
    for release in (CountSketch(64).release(1.0), CountMin(64).release(1.0), AMS(64).release(1.0)):
        for bad in (0, 1, -1, math.nan, "x"):
            with pytest.raises(ValueError, match=f"{type(release).__name__}: confidence must be"):
                release.error_bound(bad)


def test_heavy_hitters_need_public_candidates():
    # The largest counts are 7950, 3585, 2277 and 1671, and their estimates deviate by less than 6:
    # that two of them change places has p < 1e-9.
    stream = zipf(50_000, 5000)
    sketch = CountSketch(1024, 5, track=10).update(stream)
    released = sketch.release(1.0, source=seeded())
    with pytest.raises(ValueError, match="remembers no keys; give candidates, a public column"):
        released.heavy_hitters(3)
    keys, values = released.heavy_hitters(3, candidates=range(5000))
    top = np.argsort(-np.bincount(stream))[:3]
    assert keys == top.tolist()
    assert values[0] > values[2] > 0


def test_the_median_of_rows_is_released_as_the_sketch_estimated():
    # A cell has noise with probability exp(-200,000), so a release estimates as its sketch.
    stream = zipf(20_000, 3000)
    for combine in ("mean", "median"):
        sketch = CountSketch(128, 5, combine=combine).update(stream)
        released = sketch.release(1e6, source=seeded())
        np.testing.assert_allclose(released.estimate(range(50)), sketch.estimate(range(50)), atol=1)
    table = CountMin(128, 5).update(stream).release(1e6, source=seeded())
    rows = [CountMin(128, 5).update(stream)._table[r] for r in range(5)]
    assert table._sums.round().tolist() == [row.sum() for row in rows]


def test_laws_of_releases_are_those_of_their_noise():
    released = CountSketch(2**16, 4).release(0.7, source=seeded())
    # The variance of 262,144 Laplace numbers deviates by 0.44 %; 5 of those have p < 1e-6.
    assert released._table.var() == pytest.approx(
        NoiseDistribution("Laplace", released.scale).variance, rel=0.022
    )


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
@pytest.mark.parametrize(("width", "depth"), [(64, 5), (2, 1), (1000, 4)])
def test_the_parts_of_the_failure_probability_add_up(monkeypatch, width, depth, confidence):
    # A bound that holds with probability c may give away 1 - c in all (a union bound), and should.
    released, parts = CountMin(width, depth).update(range(50)).release(1.0), []

    def noting(of):
        def noted(*given):
            parts.append(given[-1])
            return of(*given)

        return noted

    monkeypatch.setattr(
        NoiseDistribution, "mean_tail_bound", noting(NoiseDistribution.mean_tail_bound)
    )
    monkeypatch.setattr(
        ReleasedCountMin, "_largest_moment", noting(released._largest_moment.__func__)
    )
    monkeypatch.setattr(released_count_min, "row_miss", noting(released_count_min.row_miss))
    released._bound_by_moments(1 - confidence)
    assert len(parts) == 3
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(1 - confidence, rel=1e-12)
