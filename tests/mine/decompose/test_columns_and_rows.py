"""cur: columns and rows of the matrix itself, the best matrix between them, duplicates joined."""

import numpy as np
import pytest
from scipy import sparse

from sfumato.core.storage import load_any
from sfumato.mine.decompose import CUR, cur, svd
from support.matrices import FILMS, world


def low_rank(seed=0, rank=3):
    draws = np.random.default_rng(seed)
    return draws.normal(size=(40, rank)) @ draws.normal(size=(rank, 25))


def test_columns_are_drawn_by_their_squares_and_scaled():
    # 4,000 draws of probability p: the counts are within 5 deviations with p < 1e-4 in all.
    squares = (FILMS**2).sum(axis=0) / (FILMS**2).sum()
    parts = cur(FILMS, 4000, 4000)
    counts = np.zeros(5)
    counts[parts.column_positions] = parts.column_counts
    assert (np.abs(counts - 4000 * squares) < 5 * np.sqrt(4000 * squares)).all()
    scale = np.sqrt(parts.column_counts / (4000 * squares[parts.column_positions]))
    np.testing.assert_allclose(parts.c.toarray(), FILMS[:, parts.column_positions] * scale)
    down = (FILMS**2).sum(axis=1) / (FILMS**2).sum()
    scale = np.sqrt(parts.row_counts / (4000 * down[parts.row_positions]))
    wanted = FILMS[parts.row_positions] * scale[:, np.newaxis]
    np.testing.assert_allclose(parts.r.toarray(), wanted)


def test_c_times_its_transpose_estimates_that_of_the_matrix_and_joins_keep_it():
    # E[C C'] = A A'; joined duplicates give the same C C' and R'R bit for bit up to rounding.
    joined, loose = (cur(FILMS, 30, 30, join=join, random_state=4) for join in (True, False))
    assert joined.c.shape[1] < 30 == loose.c.shape[1]
    np.testing.assert_allclose((joined.c @ joined.c.T).toarray(), (loose.c @ loose.c.T).toarray())
    np.testing.assert_allclose((joined.r.T @ joined.r).toarray(), (loose.r.T @ loose.r).toarray())
    assert joined.column_counts.sum() == joined.row_counts.sum() == 30
    assert joined.error() == pytest.approx(loose.error(), abs=1e-6)
    many = [cur(FILMS, 50, 50, random_state=seed).c for seed in range(200)]
    mean = sum((c @ c.T).toarray() for c in many) / 200
    assert np.linalg.norm(mean - FILMS @ FILMS.T) < 0.05 * np.linalg.norm(FILMS @ FILMS.T)


@pytest.mark.parametrize("u", ["projection", "pseudo-inverse"])
@pytest.mark.parametrize("sampling", ["length-squared", "leverage"])
@pytest.mark.parametrize("selection", ["replacement", "distinct", "largest"])
def test_a_matrix_of_low_rank_is_reproduced(u, sampling, selection):
    matrix = low_rank()
    parts = cur(matrix, 12, 12, u=u, sampling=sampling, selection=selection)
    np.testing.assert_allclose(parts.reconstruct(), matrix, atol=1e-4)
    assert parts.error() < 1e-5 * parts.norm


def test_u_is_that_of_the_pseudo_inverses_and_no_other_is_better():
    matrix = world(50, 40, seed=6)
    dense = matrix.toarray()
    parts = cur(matrix, 10, 10, random_state=1)
    c, r = parts.c.toarray(), parts.r.toarray()
    wanted = np.linalg.pinv(c) @ dense @ np.linalg.pinv(r)
    np.testing.assert_allclose(parts.u, wanted, atol=1e-8)
    draws = np.random.default_rng(0)
    for _ in range(50):
        other = parts.u + draws.normal(size=parts.u.shape) * 10.0 ** draws.integers(-4, 0)
        assert np.linalg.norm(dense - c @ other @ r) >= parts.error()
    assert parts.error() < parts.norm  # zero loses


def test_w_is_the_crossing_in_the_scales_of_its_columns_and_rows():
    matrix = world(50, 40, seed=6)
    parts = cur(matrix, 10, 10, u="pseudo-inverse", random_state=1)
    c, r = parts.c.toarray(), parts.r.toarray()
    rows, columns = parts.row_positions, parts.column_positions
    plain = matrix.toarray()[np.ix_(rows, columns)]
    down = np.abs(r).sum(axis=1) / np.abs(matrix.toarray()[rows]).sum(axis=1)
    across = np.abs(c).sum(axis=0) / np.abs(matrix.toarray()[:, columns]).sum(axis=0)
    np.testing.assert_allclose(parts.u, np.linalg.pinv(plain * np.outer(down, across)), atol=1e-7)


def test_the_pseudo_inverse_of_w_can_be_worse_than_zero():
    worse = [
        cur(world(60, 50, seed), 20, 20, u="pseudo-inverse", random_state=seed) for seed in range(5)
    ]
    assert max(parts.error() / parts.norm for parts in worse) > 1
    for seed in range(5):
        assert cur(world(60, 50, seed), 20, 20, random_state=seed).error() < worse[seed].error()


def test_the_error_is_that_of_the_product():
    for seed in range(8):
        matrix = world(30, 45, seed)
        for u in ("projection", "pseudo-inverse"):
            parts = cur(matrix, 8, 9, u=u, random_state=seed)
            formed = np.linalg.norm(matrix.toarray() - parts.reconstruct())
            assert parts.error() == pytest.approx(formed, rel=1e-7)
            assert parts.error(matrix) == pytest.approx(formed, rel=1e-7)
            other = matrix.toarray() * 3 + 1
            formed = np.linalg.norm(other - parts.reconstruct())
            assert parts.error(other) == pytest.approx(formed, rel=1e-7)
    np.testing.assert_allclose(parts.reconstruct([3, 1]), parts.reconstruct()[[3, 1]])


def test_factors_stay_sparse_and_have_the_zeros_of_the_matrix():
    matrix = world()
    parts = cur(matrix, 20, 20)
    assert parts.c.nnz == matrix[:, parts.column_positions].nnz
    assert parts.r.nnz == matrix[parts.row_positions].nnz
    assert parts.entries == parts.c.nnz + parts.r.nnz + parts.u.size
    assert parts.entries < parts.c.size + parts.r.size + parts.rows * parts.columns


def test_leverage_is_the_share_in_the_leading_vectors():
    matrix = world(60, 50, seed=2)
    parts = cur(matrix, 5, 5, sampling="leverage", selection="largest", leverage_rank=4)
    _, _, vt = np.linalg.svd(matrix.toarray())
    wanted = np.argsort(-(vt[:4] ** 2).sum(axis=0))[:5]
    assert set(parts.column_positions) == set(wanted)


def test_largest_takes_the_largest_and_distinct_never_repeats():
    matrix = world()
    squares = np.asarray((matrix.toarray() ** 2).sum(axis=0))
    largest = cur(matrix, 7, 7, selection="largest", random_state=1)
    assert set(largest.column_positions) == set(np.argsort(-squares)[:7])
    assert largest == cur(matrix, 7, 7, selection="largest", random_state=2)
    distinct = cur(matrix, 70, 120, selection="distinct")
    assert distinct.column_positions.tolist() == list(range(70))
    assert distinct.error() < 1e-5 * distinct.norm


def test_zeros_are_decomposed_and_columns_of_zeros_not_drawn():
    zero = cur(np.zeros((4, 3)), 2, 2)
    assert zero.error() == 0
    assert not zero.reconstruct().any()
    some = np.zeros((5, 6))
    some[1:3, 2:4] = 7.0
    assert set(cur(some, 50, 50).column_positions) <= {2, 3}
    assert set(cur(some, 6, 5, selection="distinct").column_positions) == {2, 3}
    assert cur(some, 6, 5, selection="largest").error() < 1e-6


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_numbers_of_any_size_keep_their_digits(size):
    parts = cur(low_rank() * size, 12, 12)
    np.testing.assert_allclose(parts.reconstruct() / size, low_rank(), atol=1e-4)
    assert parts.norm / size == pytest.approx(np.linalg.norm(low_rank()))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"columns": 0, "rows": 2}, "columns must be an integer from 1"),
        ({"columns": 6, "rows": 2, "selection": "distinct"}, "columns must be .* from 1 to 5"),
        ({"columns": 2, "rows": 8, "selection": "largest"}, "rows must be an integer from 1 to 7"),
        ({"columns": 2, "rows": 2, "sampling": "uniform"}, "sampling must be one of"),
        ({"columns": 2, "rows": 2, "u": "W"}, "u must be one of"),
        ({"columns": 2, "rows": 2, "join": 1}, "join must be True or False"),
        ({"columns": 2, "rows": 2, "leverage_rank": 9}, "leverage_rank must be"),
    ],
)
def test_bad_parameters_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        cur(FILMS, **options)


def test_bad_matrices_are_refused():
    with pytest.raises(ValueError, match="at least one row"):
        cur(np.zeros((3, 0)), 1, 1)
    with pytest.raises(ValueError, match="finite"):
        cur(sparse.csr_array([[np.nan]]), 1, 1)
    with pytest.raises(TypeError, match="is made by cur"):
        CUR()


def test_files_hold_the_factors():
    parts = cur(world(), 9, 8)
    again = load_any(parts.to_bytes())
    assert again == parts
    np.testing.assert_allclose(again.reconstruct(), parts.reconstruct())


def test_more_columns_and_rows_than_the_rank_beat_the_best_of_a_lower_rank():
    # As of MovieLens in the benchmark: 10 times as many columns and rows as the rank.
    matrix = world(300, 200, seed=9)
    best = svd(matrix, 5, tolerance=1e-8)
    assert cur(matrix, 80, 80, selection="distinct").error() < best.error()
