"""Signatures are those of MinHash; explicit functions give the numbers of the course."""

import numpy as np
import pytest

from sfumato.mine.similar import (
    ShingleSets,
    explicit_signatures,
    linear_hashes,
    permutation_ranks,
    shingles,
    signatures,
)
from sfumato.sketch import MinHash


def test_signatures_are_those_of_minhash_of_the_shingle_texts():
    texts = ["a rose is a rose", "ab", "", "no thorns"]
    found = signatures(texts, 40, k=4, seed=3)
    for text, row in zip(texts, found, strict=True):
        parts = [text[i : i + 4] for i in range(max(len(text) - 3, 1))] if text else []
        expected = MinHash(40, seed=3).update(parts).signature()
        np.testing.assert_array_equal(row, expected)


@pytest.mark.parametrize("bits", [32, 64])
def test_signatures_of_sets_are_those_of_their_texts(bits):
    texts = ["the cat sat on the mat", "dogs", "", "the cat sat on the rug"]
    sets = shingles(texts, 3, bits=bits)
    np.testing.assert_array_equal(signatures(sets), signatures(texts, k=3))


def test_agreement_estimates_the_jaccard_similarity():
    # 4,096 positions: a difference of 0.035 or more has p < 2 exp(-2 * 4096 * 0.035**2) < 1e-4.
    hashes = np.random.default_rng(0).integers(0, 2**64, 300, dtype=np.uint64)
    sets = ShingleSets([0, 200, 400], np.concatenate((hashes[:200], hashes[100:])))
    left, right = signatures(sets, 4096)
    assert abs((left == right).mean() - 1 / 3) < 0.035


def test_a_permutation_of_the_course():
    ranks = permutation_ranks([[3, 1, 4, 2]])
    np.testing.assert_array_equal(explicit_signatures([[1, 3], [2, 3]], ranks), [[3], [1]])


def test_similarity_of_two_signatures_of_the_course():
    left, right = np.array([[2, 1, 4, 7, 5, 3], [2, 3, 4, 9, 6, 3]], np.uint32)
    assert MinHash(6).similarities(left[None], right[None]).tolist() == [0.5]


def test_linear_hashes_of_the_course():
    table = linear_hashes([1, 2], [0, 1], 5, range(1, 6))
    np.testing.assert_array_equal(table[1], [3, 0, 2, 4, 1])
    found = explicit_signatures([[0, 2, 3], [1, 2, 4]], table)
    np.testing.assert_array_equal(found, [[1, 2], [0, 0]])


def test_explicit_signatures_are_the_minima_of_a_scan():
    draws = np.random.default_rng(2)
    table = draws.integers(0, 100, (7, 20))
    sets = [draws.choice(20, draws.integers(0, 8), replace=False).tolist() for _ in range(30)]
    sets += [[], [3]]
    top = np.iinfo(table.dtype).max
    expected = [[min((row[m] for m in each), default=top) for row in table] for each in sets]
    np.testing.assert_array_equal(explicit_signatures(sets, table), expected)
    offsets = np.cumsum([0, *map(len, sets)])
    flat = explicit_signatures((offsets, [m for each in sets for m in each]), table)
    np.testing.assert_array_equal(flat, expected)


def test_wrong_functions_are_refused():
    with pytest.raises(ValueError, match="rows from 0 to 3"):
        explicit_signatures([[4]], [[1, 2, 3, 4]])
    with pytest.raises(TypeError, match="matrix of integers"):
        explicit_signatures([[0]], [0.5])
    with pytest.raises(ValueError, match="every row from 1 up once"):
        permutation_ranks([[0, 1, 2]])
    with pytest.raises(ValueError, match="modulus"):
        linear_hashes([1], [0], 1, [1])
    with pytest.raises(ValueError, match="as many"):
        linear_hashes([1], [0, 1], 5, [1])
    with pytest.raises(ValueError, match="signatures: permutations"):
        signatures(["a"], 0)
