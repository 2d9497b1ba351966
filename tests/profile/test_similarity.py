"""Sizes, items in common and memberships are unbiased, and their stated variances are right.

One release of a thousand users, all items of whom are their own, is a thousand independent draws
of the noise and of the codebook. Seeds are fixed; at 5 standard errors a test fails with p < 1e-6.
"""

import numpy as np
import pytest

from sfumato.privacy.random_source import InsecureSeededSource
from support.hard_rows import released_to_all
from support.profile_pairs import COMMON, COUNT, LEFT, MECHANISMS, RIGHT, both, interactions, near

KINDS = pytest.mark.parametrize("kind", MECHANISMS)
TRUE = {
    "inner": COMMON,
    "cosine": COMMON / np.sqrt(LEFT * RIGHT),
    "jaccard": COMMON / (LEFT + RIGHT - COMMON),
}
# Cosine and Jaccard divide by what is estimated: right but for these.
BIAS = {"inner": 0.0, "cosine": 0.05, "jaccard": 0.05}


@pytest.fixture(scope="module")
def released():
    return {kind: both(make()) for kind, make in MECHANISMS.items()}


@KINDS
def test_sizes_are_unbiased_and_their_bounds_hold(released, kind):
    # A miss has p = 0.05, so of 1,000 users 50 miss, give or take 5 * 7; p < 1e-5.
    for release, size in zip(released[kind], (LEFT, RIGHT), strict=True):
        private_release = release.estimate_size()
        assert near(private_release, size)
        assert release._size_variance().mean() == pytest.approx(private_release.var(), rel=0.25)
        low, high = release.size_bounds(0.95)
        assert 15 <= ((size < low) | (size > high)).sum() <= 85
        assert (low <= high).all()


@KINDS
@pytest.mark.parametrize("metric", TRUE)
def test_similarities_are_right_on_average_and_so_is_their_variance(released, kind, metric):
    left, right = released[kind]
    result = np.diag(left.similarity(right, metric=metric))
    allowed = 5 * result.std() / np.sqrt(COUNT) + BIAS[metric] + (kind == "signs") * 0.005 * COMMON
    assert abs(result.mean() - TRUE[metric]) <= allowed
    variance = np.diag(left.similarity_variance(right, metric=metric))
    if metric == "inner":  # 5 standard errors of a variance of 1,000 draws: 22 %
        assert np.median(variance) == pytest.approx(result.var(), rel=0.25)
    else:  # what is cut at 0 and 1 varies less
        assert 0.7 * result.var() <= np.median(variance) <= 2.5 * result.var()


@pytest.mark.parametrize("metric", TRUE)
@pytest.mark.parametrize("code_bits", [2, 7])
def test_variances_of_minima_include_the_sampling_of_items(metric, code_bits):
    # Where answers are nearly all right, what varies is which item of a bin is its minimum, what
    # symbols it shares and how many bins are full. 5 errors of a variance of 1,000 draws: 22 %.
    left, right = both(MECHANISMS["minima"](epsilon=20, code_bits=code_bits))
    result = np.diag(left.similarity(right, metric=metric))
    variance = np.diag(left.similarity_variance(right, metric=metric))
    assert np.median(variance) == pytest.approx(result.var(), rel=0.35)


@KINDS
def test_items_in_common_of_strangers_are_none_on_average(released, kind):
    left, right = released[kind]
    result = np.diag(left.similarity(right, metric="inner"), 1)
    assert near(result, 0)


@KINDS
def test_memberships_are_1_for_items_that_are_there_and_0_for_others(released, kind):
    left, _ = released[kind]
    width = LEFT + RIGHT - COMMON
    inside = np.diag(left.memberships(width * np.arange(200) + 3, rows=np.arange(200)))
    outside = np.diag(left.memberships(width * np.arange(200) + LEFT, rows=np.arange(200)))
    assert near(inside, 1)
    assert near(outside, 0)
    assert inside.mean() > outside.mean() + 0.5


@KINDS
def test_a_profile_beside_itself_has_its_own_size_in_common(released, kind):
    left, _ = released[kind]
    rows = np.array([5, 0, 999])
    own = np.arange(3), rows
    inner = left.similarity(metric="inner", rows=rows)
    np.testing.assert_allclose(inner[own], left.estimate_size()[rows])
    assert (left.similarity(metric="cosine", rows=rows)[own] > 0.9).all()
    result = left.similarity_variance(metric="inner", rows=rows)[own]
    np.testing.assert_allclose(result, left._size_variance()[rows])
    assert not left.similarity_variance(metric="jaccard", rows=rows)[own].any()


@KINDS
def test_two_releases_of_one_profile_have_all_its_items_in_common(kind):
    make = MECHANISMS[kind]()
    same = [
        released_to_all(
            make,
            interactions(*(np.arange(80) + 100 * np.arange(300)[:, np.newaxis])),
            source=InsecureSeededSource(seed),
        )
        for seed in (1, 2)
    ]
    result = np.diag(same[0].similarity(same[1], metric="inner"))
    assert abs(result.mean() - 80) <= 5 * result.std() / np.sqrt(300) + 0.5


@KINDS
def test_releases_of_other_noise_are_compared_but_not_of_other_codes(kind):
    make = MECHANISMS[kind]
    left, right = both(make(), 300)[0], both(make(epsilon=20 if kind != "minima" else 6), 300)[1]
    result = np.diag(left.similarity(right, metric="inner"))
    assert abs(result.mean() - COMMON) <= 5 * result.std() / np.sqrt(300) + 0.5
    with pytest.raises(ValueError, match="cannot compare, seed is 0 here and 1 there"):
        left.similarity(both(make(seed=1), 3)[0])
    with pytest.raises(TypeError, match="cannot compare with str"):
        left.similarity("bob")


@KINDS
def test_neighbours_are_those_who_share_items(kind):
    # Pairs of users share all of 80 items at little noise: to miss one has p < 1e-6.
    make = MECHANISMS[kind](epsilon=100 if kind != "minima" else 8)
    pairs = [np.arange(80) + 1000 * (user // 2) for user in range(60)]
    release = released_to_all(make, interactions(*pairs), source=InsecureSeededSource(3))
    ids, near_by = release.nearest(np.arange(60), 3)
    assert ids.shape == near_by.shape == (60, 3)
    np.testing.assert_array_equal(ids[:, 0], np.arange(60) ^ 1)
    assert not (ids == np.arange(60)[:, np.newaxis]).any()
    for metric in TRUE:
        found, private_release = release.nearest_rows([7, 8], 59, metric=metric)
        assert [sorted(row) for row in found.tolist()] == [
            [each for each in range(60) if each != row] for row in (7, 8)
        ]
        all_of_them = release.similarity(metric=metric, rows=[7, 8])
        np.testing.assert_allclose(
            private_release, np.take_along_axis(all_of_them, found, 1), atol=1e-6
        )
    found, private_release = release.nearest_rows([4], 70)
    assert (found[0, 59:] == -1).all()
    assert (private_release[0, 59:] == -np.inf).all()


@KINDS
def test_neighbours_among_others_leave_the_same_user_out(kind):
    left, right = both(MECHANISMS[kind](epsilon=50 if kind != "minima" else 8), 40)
    ids, _ = left.nearest([3, 4], 39, among=right)
    assert [sorted(row) for row in ids.tolist()] == [
        [each for each in range(40) if each != row] for row in (3, 4)
    ]
