"""Posterior medians of a column: near its counts on flat streams, no worse on skewed ones."""

import numpy as np
import pytest

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CountMin, CountSketch
from support.streams import uniform, zipf

KINDS = {
    "CountMin": lambda seed: CountMin(512, 5, seed=seed),
    "CountSketch mean": lambda seed: CountSketch(512, 5, seed=seed),
    "CountSketch median": lambda seed: CountSketch(512, 5, seed=seed, combine="median"),
}
CASES = [(name, private) for name in KINDS for private in (False, True)]


def errors(name, private, stream, seed):
    """Mean absolute errors of the key of a random event: of the estimate, and of the posterior."""
    keys, counts = np.unique(stream, return_counts=True)
    sketch = KINDS[name](seed).update(stream)
    if private:
        sketch = sketch.release(1.0, source=InsecureSeededSource(seed))
    found = (sketch.estimate(keys), sketch.posterior_median(keys))
    return [float(np.average(np.abs(each - counts), weights=counts)) for each in found]


@pytest.mark.parametrize(("name", "private"), CASES)
def test_on_a_flat_stream_it_errs_about_as_little_as_one_number_for_all_keys(name, private):
    # Estimates err by 14 to 35, one number by 3.6, and the posterior, which has the distribution of
    # 2000 counts to learn from noisy ones, by 3.1 to 4.2.
    stream = uniform(40_000, 2000)
    counts = np.bincount(stream)
    alone = np.average(np.abs(counts - np.median(np.repeat(counts, counts))), weights=counts)
    for seed in range(3):
        plain, shrunk = errors(name, private, stream, seed)
        assert shrunk < 1.2 * alone < plain / 3


@pytest.mark.parametrize(("name", "private"), CASES)
def test_on_a_skewed_stream_it_errs_no_more_than_the_estimate(name, private):
    # The mean of 5 seeds; the largest keys alone are 30 % of the events.
    found = [errors(name, private, zipf(40_000, 20_000), seed) for seed in range(5)]
    plain, shrunk = np.mean(found, axis=0)
    assert shrunk <= 1.01 * plain


def test_two_levels_of_counts_are_told_apart_where_the_errors_are_larger_than_the_lower():
    counts = np.where(np.arange(3000) % 50 == 0, 500, 5)
    sketch = CountSketch(512, 5, seed=1, combine="median").update(np.arange(3000), counts)
    found = sketch.posterior_median(np.arange(3000))
    assert np.mean(np.abs(sketch.estimate(np.arange(3000)) - counts)) > 5
    assert (np.abs(found - counts) < 3).mean() > 0.95
    assert found[counts == 500].min() > 100


def test_a_heavy_key_keeps_its_count():
    keys = np.arange(4000)
    counts = np.where(keys == 7, 10**6, 10)
    for name, make in KINDS.items():
        sketch = make(1).update(keys, counts)
        found = sketch.posterior_median(keys)[7]
        assert abs(found - 10**6) < 1000, name
        assert abs(sketch.posterior_median(7) - 10**6) < 1000, name


def test_the_guarantees_of_estimates_are_not_those_of_the_posterior():
    stream = uniform(40_000, 2000)
    keys, counts = np.unique(stream, return_counts=True)
    sketch = CountMin(512, 5).update(stream)
    assert (sketch.estimate(keys) >= counts).all()
    assert (sketch.posterior_median(keys) < counts).any()


def test_weights_of_both_signs_and_units_of_real_weights_do_not_matter():
    keys = np.arange(3000)
    weights = np.random.default_rng(1).choice([-300, -2, 2, 300], 3000, p=[0.01, 0.49, 0.49, 0.01])
    whole = CountSketch(512, 5, combine="median").update(keys, weights)
    found = whole.posterior_median(keys)
    plain = whole.estimate(keys)
    assert np.abs(found - weights).mean() < 0.8 * np.abs(plain - weights).mean()
    assert (
        np.sign(found[np.abs(weights) == 300]) == np.sign(weights[np.abs(weights) == 300])
    ).all()
    one, other = (
        CountSketch(512, 5, cells="real", combine="median")
        .update(keys, weights * unit)
        .posterior_median(keys)
        for unit in (1.0, 2.0**-20)
    )
    assert other * 2.0**20 == pytest.approx(one, rel=1e-3, abs=0.5)


def test_what_has_no_posterior_says_so():
    for cells in ("compact", "conservative", "logarithmic"):
        with pytest.raises(ValueError, match=f"{cells} cells have no posterior"):
            CountMin(64, 4, cells=cells).posterior_median([1])


def test_one_row_is_not_shrunk_since_it_cannot_tell_heavy_keys_from_those_in_their_cells():
    keys, counts = np.unique(zipf(40_000, 20_000), return_counts=True)
    for sketch in (CountMin(512, 1), CountSketch(512, 1)):
        sketch.update(keys, counts)
        assert (sketch.posterior_median(keys) == sketch.estimate(keys)).all()


@pytest.mark.parametrize("name", KINDS)
def test_no_keys_one_key_and_an_empty_sketch_are_answered(name):
    empty = KINDS[name](1)
    assert empty.posterior_median([]).shape == (0,)
    assert empty.posterior_median([1, 2]).tolist() == [0, 0]
    full = empty.update([1, 1, 2])
    assert full.posterior_median(1) == 2.0
    assert isinstance(full.posterior_median(1), float)
