"""What flipped filters say of profiles is right on average, and varies as is said."""

import os
from pathlib import Path

import numpy as np
import pytest

from sfumato.data import Interactions, read_interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip, load
from sfumato.profile import blip as released_blip
from sfumato.profile import released as _released
from sfumato.sketch import SketchFormatError
from support.hard_rows import released_to_all
from support.observable import repacked

REAL = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))
RATINGS = REAL / "movielens-100k" / "u.data.gz"
METRICS = ("inner", "cosine", "jaccard")


def released(profiles, seed=1, **changed):
    """A release of users 0, 1, ... with these items."""
    users = np.repeat(np.arange(len(profiles)), [len(items) for items in profiles])
    items = np.concatenate([*profiles, np.empty(0, np.int64)]).astype(np.int64)
    before = Interactions(users, items, np.ones(users.size))
    blip = Blip(**{"epsilon": 40.0, "bits": 2000, "hashes": 10, **changed})
    return blip.release(before, users=range(len(profiles)), source=InsecureSeededSource(seed))


def fresh(count, sizes=(60, 90), common=30):
    """Pairs of profiles that all have other items, so that hashes vary as flips do."""
    for pair in range(count):
        start, (a, b) = 1000 * pair, sizes
        yield np.arange(start, start + a)
        yield np.arange(start + a - common, start + a + b - common)


PAIRS = 400
TRUE = {"inner": 30.0, "cosine": 30 / np.sqrt(60 * 90), "jaccard": 30 / 120}


@pytest.fixture(scope="module", params=[10.0, 20.0, 60.0])
def pairs(request):
    return released(list(fresh(PAIRS)), epsilon=request.param)


def beside(matrix):
    """Of each pair the second beside the first."""
    rows = np.arange(0, len(matrix), 2)
    return matrix[rows, rows + 1]


def test_sizes_are_right_on_average_and_their_bounds_hold(pairs):
    # 400 profiles of each size. A mean 5 errors off has p < 1e-6; of 95 % bounds at least 90 % and
    # at most 99 % hold (outside with p < 1e-4 each).
    low, high = pairs.size_bounds(0.95)
    std_errors = np.sqrt(pairs._size_variance())
    for which, true in ((slice(0, None, 2), 60), (slice(1, None, 2), 90)):
        sizes = pairs.estimate_size()[which]
        assert abs(sizes.mean() - true) < 5 * sizes.std() / np.sqrt(PAIRS) + 0.02 * true
        assert 0.85 < sizes.std() / std_errors[which].mean() < 1.15
        inside = (low[which] <= true) & (true <= high[which])
        assert 0.90 <= inside.mean() <= 0.99
        assert ((low[which] <= sizes) & (sizes <= high[which])).all()


@pytest.mark.parametrize("metric", METRICS)
def test_similarities_are_right_on_average_and_vary_as_is_said(pairs, metric):
    # A mean 5 errors off has p < 1e-6; a deviation of 400 numbers 11 % off has p < 0.002.
    found = beside(pairs.similarity(metric=metric))
    said = beside(pairs.similarity_variance(metric=metric))
    bias = 5 * found.std() / np.sqrt(PAIRS) + 0.05 * TRUE[metric]
    assert abs(found.mean() - TRUE[metric]) < bias
    assert 0.88 < found.std() / np.sqrt(said.mean()) < 1.11


@pytest.mark.parametrize("metric", METRICS)
def test_hashes_that_meet_make_all_errors_of_a_pair_equal(metric):
    # Hardly a bit is flipped, so that errors are of collisions, and of both sizes together where
    # most items are in common: without that the variance of a cosine would be half of this.
    private_release = released(list(fresh(PAIRS, (80, 80), 64)), epsilon=200.0, bits=300, hashes=2)
    found = beside(private_release.similarity(metric=metric))
    said = beside(private_release.similarity_variance(metric=metric))
    assert 0.85 < found.std() / np.sqrt(np.median(said)) < 1.15


def test_profiles_apart_have_nothing_in_common_on_average():
    # 2,000 pairs, each about 14 items off; the mean is 5 errors off with p < 1e-6.
    private_release = released(list(fresh(100, common=0)), epsilon=20.0)
    found = private_release.similarity(metric="inner")
    off = found[np.triu_indices(200, 1)]
    assert (off < 0).any()
    assert abs(off[::10].mean()) < 5 * off.std() / np.sqrt(off[::10].size) + 0.5
    assert abs(off.mean()) < 1.5


def test_releases_at_different_noise_compare():
    few, many = (released(list(fresh(60)), epsilon=e, seed=int(e)) for e in (20.0, 90.0))
    found = np.array([few.similarity(many, metric="inner", rows=[r])[0, r] for r in range(120)])
    said = few.similarity_variance(many, metric="inner")[0, 0]
    assert abs(found.mean() - 75) < 6 * np.sqrt(said / 120) + 2
    with pytest.raises(ValueError, match=r"ReleasedBlip: cannot compare, bits is 2000 here"):
        few.similarity(released([[1]], bits=999))
    with pytest.raises(TypeError, match="ReleasedBlip: cannot compare with int"):
        few.similarity(3)


def test_a_profile_is_itself():
    private_release = released(list(fresh(5)), epsilon=8.0)
    rows = [7, 2]
    size = private_release.estimate_size()[rows]
    assert (
        private_release.similarity(metric="inner", rows=rows)[[0, 1], rows].tolist()
        == size.tolist()
    )
    assert (
        private_release.similarity_variance(metric="inner", rows=rows)[0, 7]
        == private_release._size_variance()[7]
    )
    for metric in ("cosine", "jaccard"):
        assert (private_release.similarity(metric=metric, rows=rows)[[0, 1], rows] == 1).all()
        assert (
            private_release.similarity_variance(metric=metric, rows=rows)[[0, 1], rows] == 0
        ).all()


def plain(result, other, p, q):
    """Items in common by the text book, from unpacked bits and one pair at a time."""
    bits = result.bits
    rows, columns = (
        np.unpackbits(each.words.view(np.uint8), axis=1, bitorder="little")[:, :bits].astype(float)
        for each in (result, other)
    )
    a, b = (rows - p) / (1 - 2 * p), (columns - q) / (1 - 2 * q)
    union = a.mean(axis=1)[:, None] + b.mean(axis=1) - a @ b.T / bits

    def size(share):
        return np.log1p(-np.minimum(share, 1 - 0.5 / bits)) / (result.hashes * np.log1p(-1 / bits))

    return size(a.mean(axis=1))[:, None] + size(b.mean(axis=1)) - size(union)


@pytest.mark.parametrize("bits", [9, 500, 512, 1100])
def test_the_kernels_count_what_unpacked_bits_say(bits):
    here = released(list(fresh(35)), bits=bits, hashes=2, epsilon=3.0)
    there = released(list(fresh(40)), bits=bits, hashes=2, epsilon=5.0, seed=2)
    expected = plain(here, there, float(here.flip_probability), float(there.flip_probability))
    np.testing.assert_allclose(here.similarity(there, metric="inner"), expected, atol=1e-6)
    some = here.similarity(there, metric="inner", rows=[3, 69, 3])
    np.testing.assert_allclose(some, expected[[3, 69, 3]], atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("count", [1, 3, 4, 66])
def test_where_noise_is_low_nearest_rows_are_the_best_of_all_similarities(metric, count):
    private_release = released([np.arange(at, at + 40) for at in range(0, 350, 5)], epsilon=80.0)
    scores = private_release.similarity(metric=metric)
    np.fill_diagonal(scores, -np.inf)
    rows = np.arange(count)
    found, near = private_release.nearest_rows(rows, 5, metric=metric)
    np.testing.assert_array_equal(near, -np.sort(-scores[rows], axis=1)[:, :5])
    np.testing.assert_array_equal(np.take_along_axis(scores[rows], found, axis=1), near)
    ids, again = private_release.nearest(private_release.users_[rows], 5, metric=metric)
    np.testing.assert_array_equal(ids, found)  # users are named by their rows here
    np.testing.assert_array_equal(again, near)


def test_nearest_rows_do_not_depend_on_the_parts_that_are_read(monkeypatch):
    private_release = released([np.arange(at, at + 40) for at in range(0, 350, 5)], epsilon=80.0)
    whole = private_release.nearest_rows(range(70), 4)
    monkeypatch.setattr(released_blip, "PAIRS", 16)
    monkeypatch.setattr(released_blip, "LEAST", 9)
    monkeypatch.setattr(released_blip, "ABREAST", 5)
    for one, other in zip(whole, private_release.nearest_rows(range(70), 4), strict=True):
        np.testing.assert_array_equal(one, other)


def test_nearest_among_others_leaves_out_the_same_user_and_fills_up():
    private_release, other = released([[1, 2], [1, 2], [5]]), released([[1, 2], [7]], seed=3)
    ids, near = private_release.nearest([0, 2], 3, among=other)
    assert ids[0].tolist() == [1, -1, -1]
    assert near[0, 1:].tolist() == [-np.inf, -np.inf]
    assert sorted(ids[1, :2].tolist()) == [0, 1]
    alone = released([[1, 2]])
    assert alone.nearest_rows([0], 2)[0].tolist() == [[-1, -1]]
    for bad in ({"n": 0}, {"metric": "euclidean"}):
        with pytest.raises(ValueError, match=f"ReleasedBlip: {next(iter(bad))} must be"):
            private_release.nearest([0], **bad)


def test_rows_are_found_by_users_and_errors_name_positions():
    private_release = released([[1], [2], [3]])
    assert private_release.rows([2, 0]).tolist() == [2, 0]
    with pytest.raises(ValueError, match=r"the one at position 1 is not") as refused:
        private_release.rows([0, 777])
    assert "777" not in str(refused.value)
    with pytest.raises(ValueError, match="rows must be from 0 to 2; the one at position 1"):
        private_release.similarity(rows=[0, 3])
    with pytest.raises(TypeError, match="rows must be a column of integers"):
        private_release.similarity(rows=[0.5])


def test_memberships_are_one_inside_and_zero_outside_on_average():
    # 800 profiles: means 5 errors off have p < 1e-6; the division adds a little.
    private_release = released(list(fresh(400)), epsilon=15.0)
    own = np.array(
        [private_release.memberships([1000 * pair], [2 * pair])[0, 0] for pair in range(400)]
    )
    others = private_release.memberships([-1, -2, -3])
    assert abs(own.mean() - 1) < 5 * own.std() / 20 + 0.02
    assert abs(others.mean()) < 5 * others.std() / np.sqrt(others.size) + 0.02
    assert others.shape == (800, 3)
    assert np.isnan(released([[1]], bits=8, hashes=64).memberships([1])).all()


def test_memberships_count_each_bit_of_an_item_once():
    private_release = released([[0], [1, 2]], bits=60, hashes=12, epsilon=30.0)
    p, items = float(private_release.flip_probability), range(20)
    bits = np.unpackbits(private_release.words.view(np.uint8), axis=1, bitorder="little")[:, :60]
    true, found = (bits - p) / (1 - 2 * p), private_release.memberships(items)
    positions = private_release.positions(items)
    for item in items:
        own = np.isin(np.arange(60), positions[item])
        inside, outside = true[:, own].mean(axis=1), true[:, ~own].mean(axis=1)
        expected = (inside - outside) / (1 - outside)
        np.testing.assert_allclose(found[:, item], expected, atol=1e-9)
    assert min(np.unique(each).size for each in positions) < 12  # hashes of an item meet


def test_popular_items_make_their_bits_likelier():
    private_release = released([[1]])
    shares = private_release.bit_shares([1, 2], [0.25, 1.0])
    sure = np.unique(private_release.positions([2]))
    once = np.setdiff1d(private_release.positions([1]), sure)
    assert (shares[sure] == 1).all()
    np.testing.assert_allclose(shares[once], 0.25)
    assert shares.sum() == pytest.approx(sure.size + 0.25 * once.size)


def test_a_filter_that_is_full_has_a_finite_size_and_no_upper_bound():
    private_release = released([np.arange(5000)], bits=500, hashes=20, epsilon=20.0)
    low, high = private_release.size_bounds()
    assert np.isfinite(private_release.estimate_size()).all()
    assert high[0] == np.inf
    assert 50 < low[0] < 5000
    assert np.isfinite(private_release.similarity(metric="inner")).all()
    assert private_release.similarity_variance(metric="inner").tolist() == [[np.inf]]
    empty = released([[]], epsilon=100.0).size_bounds()
    assert empty[0][0] == 0
    assert empty[1][0] < 15
    for bad in (0, 1, np.nan):
        with pytest.raises(ValueError, match="ReleasedBlip: confidence must be"):
            private_release.size_bounds(bad)


@pytest.mark.parametrize("metric", METRICS)
def test_full_filters_look_similar_and_have_infinite_variances(metric):
    profiles = [np.arange(3000), np.arange(3000, 6000), np.arange(3)]
    private_release = released(profiles, bits=64, hashes=8, epsilon=60.0)
    assert np.isinf(private_release.size_bounds()[1]).tolist() == [True, True, False]
    said = private_release.similarity_variance(metric=metric, rows=[2, 0])
    assert np.isinf(said[0]).tolist() == [True, True, False]
    assert np.isinf(said[1]).tolist() == [metric == "inner", True, True]  # similarity to itself: 1
    other = released(profiles[1:], bits=64, hashes=8, epsilon=60.0, seed=4)
    said = other.similarity_variance(private_release, metric=metric)
    assert np.isinf(said).tolist() == [[True] * 3, [True, True, False]]


@pytest.mark.parametrize("epsilon", [4.0, 20.0, 60.0, 400.0])
def test_a_full_filter_tells_no_memberships_and_no_other_tells_wild_ones(epsilon):
    # A membership is finite if at least 1.96**2 of 5000 bits are unset, and is 1 less the part of
    # an item's 20 that are, divided by that of all: below -200 it takes 4 unset ones of so few,
    # p < 2e-9 for an item and row, 5e-5 for all here. Of those too full 1 in 40 passes for less.
    sizes = (30, 300, 800, 1200, *range(1800, 2300, 50), *[3000] * 40)
    profiles = [np.arange(size) for size in sizes]
    private_release = released(profiles, epsilon=epsilon, bits=5000, hashes=20)
    found = private_release.memberships([0, 1, 2, 29, *range(10**6, 10**6 + 400)])
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[-40:]).any(axis=1).mean() > 0.8
    assert np.nanmax(np.abs(found)) < 200


def test_text_ids_come_back_and_damaged_files_are_refused(tmp_path):
    before = Interactions(["bo", "ann", "é"], ["tea", "tea", "rum"], [1, 1, 1])
    private_release = released_to_all(Blip(epsilon=30.0, bits=100, hashes=2), before)
    private_release.save(tmp_path / "released.blip")
    twin = load(tmp_path / "released.blip")
    assert twin == private_release
    assert twin.users_.tolist() == ["ann", "bo", "é"]
    assert twin.nearest(["é"], 4)[0].tolist()[0][2:] == [None, None]
    beyond, twice = private_release.words.copy(), private_release.users.copy()
    beyond[1, 1] |= np.uint64(1) << np.uint64(36)
    wrong = [{"words": beyond}, {"words": private_release.words[:2]}, {"users": twice[::-1][:4]}]
    for arrays in wrong:
        with pytest.raises(SketchFormatError):
            load(repacked(private_release, arrays))
    for lie in ({"epsilon": 1e-3}, {"loss": {}}):
        with pytest.raises(SketchFormatError, match="ReleasedBlip: damaged content"):
            load(repacked(private_release, **lie))


@pytest.mark.skipif(not RATINGS.exists(), reason="the MovieLens ratings are not here")
def test_sizes_of_real_profiles_lie_within_their_bounds():
    # 943 users: fewer than 92 % within 95 % bounds has p < 1e-4.
    before = read_interactions(RATINGS)
    blip = Blip(epsilon=28.0, bits=5000, hashes=20, typical_size=106)
    private_release = released_to_all(blip, before, source=InsecureSeededSource(1))
    true = np.bincount(before.users)[private_release.users_]
    low, high = private_release.size_bounds(0.95)
    assert ((low <= true) & (true <= high)).mean() > 0.92
    assert "106 items only at epsilon 2968" in private_release.statement.mechanism


@pytest.mark.parametrize("metric", ["cosine", "jaccard"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_similarities_are_not_cut_to_1_and_come_with_their_errors(epsilon, metric):
    # Nearly all of the nearest were cut to exactly 1 here, and so looked sure.
    private_release = released(
        [np.arange(at, at + 40) for at in range(0, 600, 10)], epsilon=epsilon
    )
    ids, near, errors = private_release.nearest_with_errors(range(60), 5, metric=metric)
    again = private_release.nearest(range(60), 5, metric=metric)
    np.testing.assert_array_equal(ids, again[0])
    np.testing.assert_array_equal(near, again[1])
    variance = private_release.similarity_variance(metric=metric)
    np.testing.assert_array_equal(errors, np.sqrt(variance[np.arange(60)[:, None], ids]))
    assert (errors > 0).all()
    assert not np.isin(near, [0.0, 1.0]).any()
    assert (near > 1).any()
    every = private_release.similarity(metric=metric)[~np.eye(60, dtype=bool)]
    assert np.unique(every).size > 0.4 * every.size  # each pair occurs twice
    assert (every < 0).any()


def test_errors_are_read_in_parts_and_of_nobody_are_none(monkeypatch):
    private_release, other = released([[1, 2], [1, 2], [5]]), released([[1, 2], [7]], seed=3)
    whole = private_release.nearest_with_errors([0, 2], 3, among=other)
    assert np.isnan(whole[2]).tolist() == np.isinf(whole[1]).tolist()
    monkeypatch.setattr(_released, "PAIRS", 1)
    parts = private_release.nearest_with_errors([0, 2], 3, among=other)
    for one, another in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, another)
    nobody = private_release.nearest_with_errors([0], 2, among=released([], seed=3))
    assert nobody[0].tolist() == [[-1, -1]]
    assert np.isnan(nobody[2]).all()
