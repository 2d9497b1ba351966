"""Joins find what brute force finds, up to the recall that they state."""

import itertools

import numpy as np
import pytest

from sfumato.mine.similar import distances, similarity_join


def pairs(table):
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    found = {(first, second): value for first, second, value in rows}
    assert len(found) == table.num_rows, "a pair comes twice"
    return found


def stated_recall(table):
    return float(table.schema.metadata[b"recall"])


def brute_force(rows, metric, within):
    left, right = np.triu_indices(len(rows), 1)
    values = distances([rows[i] for i in left], [rows[i] for i in right], metric)
    if metric == "cosine":
        values = np.cos(np.pi * values)
    inside = values >= within if metric == "cosine" else values <= within
    found = zip(left[inside], right[inside], values[inside], strict=True)
    return {(int(i), int(j)): float(value) for i, j, value in found}


def near_rows(draws, n=300, dimension=12, noise=0.1):
    rows = draws.normal(size=(n, dimension))
    rows[n // 2 :] = rows[: n // 2] + noise * draws.normal(size=(n // 2, dimension))
    return rows


@pytest.mark.parametrize(("metric", "threshold"), [("cosine", 0.98), ("euclidean", 0.5)])
def test_vectors_are_joined_with_the_recall_that_is_stated(metric, threshold):
    # Each pair is missed with p <= 0.01, most with far less: of about 150, more than 8 are missed
    # with p < 1e-4.
    rows = near_rows(np.random.default_rng(0))
    expected = brute_force(rows, metric, threshold)
    table = similarity_join(rows, threshold, metric)
    found = pairs(table)
    assert stated_recall(table) == 0.99
    assert len(expected) > 100
    assert found == pytest.approx({pair: expected[pair] for pair in found})
    assert len(expected) - len(found) <= 8


def test_lower_recall_misses_more():
    # At a recall of 0.5 pairs near the threshold are missed: none of 150 with p < 1e-9.
    rows = near_rows(np.random.default_rng(1), noise=0.3)
    expected = brute_force(rows, "euclidean", 1.2)
    found = pairs(similarity_join(rows, 1.2, "euclidean", recall=0.5))
    assert 0.4 * len(expected) < len(found) < len(expected)


@pytest.mark.parametrize("threshold", [0, 1, 3])
def test_close_codes_are_all_found(threshold):
    draws = np.random.default_rng(2)
    bits = draws.integers(0, 2, (300, 64))
    bits[150:] = bits[:150]
    for row in bits[150:]:
        row[draws.choice(64, draws.integers(0, 7), replace=False)] ^= 1
    table = similarity_join(bits, threshold, "hamming")
    assert stated_recall(table) == 1.0
    assert pairs(table) == brute_force(bits.tolist(), "hamming", threshold)
    assert len(table) > 10


def test_far_codes_are_found_with_the_recall_that_is_stated():
    # As for vectors: of about 150 pairs, more than 8 are missed with p < 1e-4.
    draws = np.random.default_rng(3)
    bits = draws.integers(0, 2, (300, 64))
    bits[150:] = bits[:150]
    for row in bits[150:]:
        row[draws.choice(64, 8, replace=False)] ^= 1
    table = similarity_join(bits, 8, "hamming")
    expected = brute_force(bits.tolist(), "hamming", 8)
    assert stated_recall(table) == 0.99
    assert pairs(table).items() <= expected.items()
    assert len(expected) - len(table) <= 8


def test_symbols_are_compared_by_their_values():
    rows = [[100, -7, 3] * 6, [100, -7, 3] * 5 + [100, -7, 4], [0] * 18]
    assert pairs(similarity_join(rows, 1, "hamming")) == {(0, 1): 1.0}


@pytest.mark.parametrize("threshold", [0, 1, 2, 3, 6])
def test_near_texts_are_all_found(threshold):
    draws = np.random.default_rng(4)
    words = ["".join(draws.choice(list("abé"), draws.integers(0, 14))) for _ in range(120)]
    words += ["".join(draws.choice(list("abcdefgh"), draws.integers(5, 90))) for _ in range(40)]
    words += [word[:2] + "x" + word[3:-1] for word in words[-40:]]
    table = similarity_join(words, threshold, "edit")
    assert stated_recall(table) == 1.0
    assert pairs(table) == brute_force(words, "edit", threshold)


def test_texts_are_joined_in_blocks(monkeypatch):
    draws = np.random.default_rng(5)
    words = ["".join(draws.choice(list("ab"), draws.integers(0, 9))) for _ in range(150)]
    expected = pairs(similarity_join(words, 2, "edit"))
    monkeypatch.setattr("sfumato.mine.similar.joins.NUMBERS", 512)
    assert pairs(similarity_join(words, 2, "edit")) == expected


def test_vectors_are_hashed_and_measured_in_blocks(monkeypatch):
    rows = near_rows(np.random.default_rng(6), n=60)
    expected = pairs(similarity_join(rows, 0.9, "cosine"))
    monkeypatch.setattr("sfumato.mine.similar.joins.NUMBERS", 100)
    assert pairs(similarity_join(rows, 0.9, "cosine")) == expected
    assert len(expected) > 20


def test_sets_of_any_tokens_are_joined():
    baskets = [["tea", "milk", 7], ["milk", "tea", "7"], [], ["rum"], []]
    assert pairs(similarity_join(baskets, 0.9, "jaccard")) == {(0, 1): 1.0}


def test_rows_of_zeros_have_no_direction():
    assert len(similarity_join([[0, 0], [0, 0], [1, 0]], 0.5, "cosine")) == 0
    rows = [[0, 0], [0, 0], [3, 0]]
    assert pairs(similarity_join(rows, 0.5, "euclidean")) == {(0, 1): 0.0}


def test_many_pairs_are_written(tmp_path):
    rows = [[1.0, 2.0]] * 40
    with pytest.warns(UserWarning, match=r"780 pairs.*max_pairs = 100.*output="):
        found = similarity_join(rows, 0.1, "euclidean", max_pairs=100)
    assert found.count_rows() == 780
    found = similarity_join(rows, 0.1, "euclidean", output=tmp_path / "pairs.parquet")
    assert found.count_rows() == 40 * 39 // 2
    expected = set(itertools.combinations(range(40), 2))
    assert set(pairs(found.to_table())) == expected


@pytest.mark.parametrize("metric", ["jaccard", "cosine", "euclidean", "hamming", "edit"])
def test_no_and_one_row(metric):
    one = {"jaccard": [["a"]], "edit": ["a"]}.get(metric, [[1, 2]])
    for rows in (one, []):
        assert len(similarity_join(rows, 1 if metric in ("hamming", "edit") else 0.5, metric)) == 0


@pytest.mark.parametrize(
    ("rows", "threshold", "metric", "says"),
    [
        ([[1.0]], -1, "cosine", "threshold"),
        ([[1.0]], 1, "cosine", "threshold"),
        ([[1.0]], 0, "euclidean", "threshold"),
        ([[1, 0]], 2, "hamming", "threshold"),
        ([[1, 0]], 0.5, "hamming", "threshold"),
        ([[1.5, 0]], 1, "hamming", "integers or bits"),
        (["a"], -1, "edit", "threshold"),
        ([[1]], 0.5, "chebyshev", "metric"),
    ],
)
def test_wrong_parameters_are_refused(rows, threshold, metric, says):
    with pytest.raises(ValueError, match=f"similarity_join: .*{says}"):
        similarity_join(rows, threshold, metric)
