"""Hashes of sets collide with the Jaccard similarity, from every container, empty ones too."""

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from sfumato.sketch.lsh import Family, Jaccard
from sfumato.sketch.lsh.base import Draw
from support.collision_rates import assert_collides_by_kernel

# (size of A, size of B, members in common)
SIZES = [(1, 1, 0), (1, 2, 1), (2, 2, 1), (5, 10, 3), (100, 100, 50), (1000, 100, 90), (900, 1, 1)]
SOME = [list(range(a)) for a, _, _ in SIZES]
OTHERS = [[*range(common), *range(10**6, 10**6 + b - common)] for _, b, common in SIZES]
SIMILARITY = np.array([common / (a + b - common) for a, b, common in SIZES])


def brute_force(some, others):
    def similarity(a, b):
        return len(a & b) / len(a | b) if a | b else 1.0

    return np.array([[similarity(set(a), set(b)) for b in others] for a in some])


def test_kernel_is_members_in_common_over_all_members():
    assert np.allclose(np.diagonal(Jaccard().kernel(SOME, OTHERS)), SIMILARITY)
    rng = np.random.default_rng(3)
    some = [rng.integers(0, 12, rng.integers(0, 9)).tolist() for _ in range(30)]
    others = [rng.integers(0, 12, rng.integers(0, 9)).tolist() for _ in range(20)]
    for hashes in (1, 3):
        exact = brute_force(some, others) ** hashes
        assert np.allclose(Jaccard(hashes).kernel(some, others), exact)


@pytest.mark.parametrize("hashes", [1, 2])
def test_codes_collide_as_often_as_the_kernel_says(hashes):
    # Binomial counts of 2**16 rows, beyond the bounds with p < 2e-7 a pair: 2e-6 in all.
    assert_collides_by_kernel(Jaccard(hashes), SOME, OTHERS, rows=4096, seeds=range(16))


def test_rows_collide_independently():
    # Given the seed, the mean of R rows has the variance J (1 - J) / R, unless rows hang together.
    # Over 400 seeds its estimate strays by 7 %: beyond 40 % with p < 1e-7.
    family, rows = Jaccard(), 128
    here, there = family.read("test", SOME[2:5]), family.read("test", OTHERS[2:5])
    draws = [Draw(rows, seed) for seed in range(400)]
    every = slice(0, rows)
    fractions = [
        (family.codes(here, d, every) == family.codes(there, d, every)).mean(1) for d in draws
    ]
    exact = SIMILARITY[2:5] * (1 - SIMILARITY[2:5]) / rows
    assert np.abs(np.var(fractions, axis=0) / exact - 1).max() < 0.4


def test_codes_are_spread_evenly_over_all_cells():
    # The high bits choose a cell of 64: chi squared of 63 degrees strays by 11; 150 has p < 1e-8.
    family = Jaccard()
    singles = family.read("test", (np.arange(20001), np.arange(20000)))
    codes = family.codes(singles, Draw(32, 7), slice(0, 32))
    for row in codes.T:
        counts = np.bincount(row >> 26, minlength=64)
        assert ((counts - 312.5) ** 2 / 312.5).sum() < 150


def test_empty_sets_are_alike_and_like_no_other():
    family = Jaccard(2)
    read = family.read("test", [[], [1, 2], []])
    codes = family.codes(read, Draw(100, 1), slice(0, 100))
    assert np.array_equal(codes[0], codes[2])
    assert not (codes[0] == codes[1]).any()
    assert family.kernel([[]], [[], [1]]).tolist() == [[1.0, 0.0]]


def test_every_container_gives_the_same_codes():
    lists = [[1, 5], [], [2, 5, 9], [5]]
    offsets, members = np.array([0, 2, 2, 5, 6]), np.array([1, 5, 2, 5, 9, 5])
    dense = np.zeros((4, 10), int)
    for row, columns in enumerate(lists):
        dense[row, columns] = 7
    stored_zero = sparse.csr_array(dense)
    stored_zero.data[1] = 0  # the set is then [1] alone
    family, draw = Jaccard(), Draw(20, 4)

    def codes(data):
        return family.codes(family.read("test", data), draw, slice(0, 20))

    expected = codes(lists)
    for same in (
        (offsets, members),
        pa.array(lists),
        pa.array([[0], *lists])[1:],
        pa.chunked_array([lists[:1], lists[1:]], pa.list_(pa.int64())),
        sparse.csr_array(dense),
        sparse.coo_matrix(dense),
        [[5, 1, 1], [], [9, 2, 5], [5, 5]],
    ):
        assert np.array_equal(codes(same), expected)
    assert np.array_equal(codes(stored_zero), codes([[1], *lists[1:]]))
    twice = sparse.csr_array((np.ones(2), np.array([3, 3]), np.array([0, 2])), (1, 10))
    assert np.array_equal(codes(twice), codes([[3]]))
    assert twice.nnz == 2  # what the caller gave stays as it was


def test_text_members_and_parts_of_rows():
    family, draw = Jaccard(), Draw(50, 2)
    read = family.read("test", [["tea", "milk"], ["milk", "tea"], ["rum"]])
    codes = family.codes(read, draw, slice(0, 50))
    assert np.array_equal(codes[0], codes[1])
    assert not (codes[0] == codes[2]).any()
    assert np.array_equal(family.codes(read, draw, slice(17, 41)), codes[:, 17:41])
    assert np.array_equal(family.codes(read, draw, slice(48, 50)), codes[:, 48:])


@pytest.mark.parametrize("malformed", [np.array([1, 2]), ([0, 3], [1, 2]), ([0, 2, 1, 2], [1, 2])])
def test_what_is_no_column_of_sets_is_refused(malformed):
    with pytest.raises((ValueError, TypeError), match=r"owner|tokens"):
        Jaccard().read("owner", malformed)


def test_bad_parameters_are_refused_and_files_keep_the_family():
    for bad in (0, 65, 1.5, "many", math.nan):
        with pytest.raises(ValueError, match="Jaccard: hashes must be"):
            Jaccard(bad)
    assert Family.from_dict(Jaccard(3).to_dict()) == Jaccard(3)


def test_sets_that_were_hashed_by_type_are_refused():
    old = {**Jaccard(3).to_dict(), "name": "jaccard"}
    with pytest.raises(ValueError, match="make it anew"):
        Family.from_dict(old)
