"""svd: the course's promises of a truncated decomposition, by every method, dense and sparse."""

import numpy as np
import pytest
from scipy import sparse

from sfumato.core.storage import load_any
from sfumato.errors import ParameterError
from sfumato.mine.decompose import SVD, power_iteration, svd
from sfumato.mine.decompose.krylov import leading_by_energy
from sfumato.mine.decompose.matrices import Matrix
from support.matrices import FILMS, world

METHODS = ("randomized", "power", "gram")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix])
def test_factors_are_orthonormal_and_those_of_numpy(method, turned, form):
    dense = world().toarray().T if turned else world().toarray()
    found = svd(form(dense), 6, method=method, tolerance=1e-10, max_iterations=5000)
    u, s, vt = np.linalg.svd(dense)
    np.testing.assert_allclose(found.s, s[:6], rtol=1e-7)
    np.testing.assert_allclose(found.u.T @ found.u, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(found.vt @ found.vt.T, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(np.abs((found.vt * vt[:6]).sum(axis=1)), 1, atol=1e-4)
    np.testing.assert_allclose(np.abs((found.u * u[:, :6]).sum(axis=0)), 1, atol=1e-4)
    assert (np.diff(found.s) <= 0).all()
    assert (found.vt[np.arange(6), np.abs(found.vt).argmax(axis=1)] > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_squared_error_is_the_sum_of_the_squares_that_were_dropped(method):
    # Eckart and Young: no matrix of this rank is nearer.
    matrix = world(seed=1)
    dropped = np.linalg.svd(matrix.toarray())[1][5:]
    found = svd(matrix, 5, method=method, tolerance=1e-10, max_iterations=5000)
    formed = np.linalg.norm(matrix.toarray() - found.reconstruct())
    for error in (found.error(), found.error(matrix), found.error(matrix.toarray()), formed):
        assert error**2 == pytest.approx((dropped**2).sum(), rel=1e-7)
    draws = np.random.default_rng(2)
    for _ in range(20):
        other = found.reconstruct() + 0.1 * np.outer(draws.normal(size=120), draws.normal(size=70))
        near = svd(other, 5, tolerance=1e-12).reconstruct()
        assert np.linalg.norm(matrix.toarray() - near) >= found.error() * (1 - 1e-9)


def test_the_course_s_spectrum_has_99_31_per_cent_of_its_energy_in_two_values():
    parts = SVD(np.eye(3), [12.4, 9.5, 1.3], np.eye(3))
    assert parts.energies[1] == pytest.approx(0.9931, abs=5e-5)
    assert parts.truncated(2).energy == pytest.approx(parts.energies[1])
    found = svd(np.diag([9.5, 1.3, 12.4]), energy=0.9)
    np.testing.assert_allclose(found.s, [12.4, 9.5])


@pytest.mark.parametrize("energy", [0.1, 0.5, 0.8, 0.9, 0.999, 1.0])
def test_energy_chooses_the_smallest_rank_that_has_it(energy):
    matrix = world(seed=3)
    squares = np.linalg.svd(matrix.toarray())[1] ** 2
    sums = np.cumsum(squares) / squares.sum()
    wanted = int(np.searchsorted(sums, energy * (1 - 1e-12))) + 1
    for method in ("randomized", "gram"):
        found = svd(matrix, energy=energy, method=method)
        assert found.rank == min(wanted, 70)
        assert found.energy >= energy - 1e-9
    # The route of wide matrices, on the same one.
    blocks = leading_by_energy(Matrix.of("t", matrix), energy, 1e-9, np.random.default_rng(0))
    assert blocks.shape[1] == min(wanted, 70)


def test_randomized_blocks_lose_little_of_the_energy_at_the_default_tolerance():
    # A flat spectrum is the hard one; 60 seeds of the first block are all within the tolerance.
    matrix = sparse.random_array((400, 300), density=0.05, rng=np.random.default_rng(5))
    exact = (np.linalg.svd(matrix.toarray())[1][:10] ** 2).sum()
    for seed in range(60):
        found = svd(matrix, 10, random_state=seed)
        assert exact * (1 - 1e-3) <= (found.s**2).sum() <= exact * (1 + 1e-12)


def test_a_query_meets_users_in_concept_space_with_whom_it_shares_no_film():
    parts = svd(FILMS, 2)
    query = parts.concepts([5, 0, 0, 0, 0])  # who likes Matrix
    other = parts.concepts([0, 4, 5, 0, 0])  # Alien and Serenity
    romance = parts.concepts([0, 0, 0, 4, 5])
    np.testing.assert_allclose(query, np.array([5, 0, 0, 0, 0]) @ parts.vt.T)

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    assert cosine(query, other) > 0.9
    assert abs(cosine(query, romance)) < 0.5
    both = parts.concepts(sparse.csr_array([[5.0, 0, 0, 0, 0], [0, 4, 5, 0, 0]]))
    np.testing.assert_allclose(both, [query, other])
    assert parts.concepts([[5, 0, 0, 0, 0]]).shape == (1, 2)


def test_right_vectors_are_eigenvectors_of_the_gram_matrix():
    parts = svd(FILMS, 3, tolerance=1e-12)
    for value, vector in zip(parts.s, parts.vt, strict=True):
        np.testing.assert_allclose(FILMS.T @ FILMS @ vector, value**2 * vector, atol=1e-8)


def test_power_iteration_finds_the_eigenvalues_of_largest_size_in_order():
    draws = np.random.default_rng(0)
    for size in (2, 5, 9):
        basis = np.linalg.qr(draws.normal(size=(size, size)))[0]
        values = draws.permutation(np.arange(1, size + 1)) * np.where(np.arange(size) % 2, -1, 1)
        matrix = (basis * values) @ basis.T
        found, vectors = power_iteration((matrix + matrix.T) / 2, size, tolerance=1e-11)
        np.testing.assert_allclose(found, values[np.argsort(-np.abs(values))], atol=1e-7)
        np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-6)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=1e-10)


def test_equal_eigenvalues_give_orthonormal_vectors_of_their_space():
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    matrix = (basis * [4, 4, 4, 1, 0, 0]) @ basis.T
    values, vectors = power_iteration((matrix + matrix.T) / 2, 6)
    np.testing.assert_allclose(values, [4, 4, 4, 1, 0, 0], atol=1e-8)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-10)
    np.testing.assert_allclose(vectors[:, :3] @ vectors[:, :3].T, basis[:, :3] @ basis[:, :3].T)


def test_power_iteration_says_what_it_cannot_do():
    with pytest.warns(UserWarning, match="max_iterations is 3"):
        power_iteration(np.diag([3.0, -3.0]), max_iterations=3)
    with pytest.raises(ParameterError, match="must be symmetric"):
        power_iteration([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="must be square"):
        power_iteration([[1.0, 2.0]])


@pytest.mark.parametrize("rank", [1, 3, 5])
@pytest.mark.parametrize("method", METHODS)
def test_a_matrix_of_smaller_rank_has_zeros_at_the_end(rank, method):
    for matrix in (np.zeros((7, 5)), np.ones((7, 5)), np.outer(np.arange(7.0), np.arange(5.0))):
        found = svd(matrix, rank, method=method)
        want = np.linalg.svd(matrix)[1][:rank]
        np.testing.assert_allclose(found.s, want, atol=1e-9)
        np.testing.assert_allclose(found.u.T @ found.u, np.eye(rank), atol=1e-9)
        np.testing.assert_allclose(found.vt @ found.vt.T, np.eye(rank), atol=1e-9)
        assert found.energy == pytest.approx(1.0)
        assert found.error(matrix) == pytest.approx(0, abs=1e-6)


def test_every_rank_up_to_the_smaller_side_is_exact():
    for seed in range(5):
        matrix = world(30, 17, seed)
        want = np.linalg.svd(matrix.toarray())[1]
        for rank in (1, 8, 16, 17):
            np.testing.assert_allclose(svd(matrix, rank, tolerance=1e-12).s, want[:rank], atol=1e-8)


@pytest.mark.parametrize("size", [1e-140, 1e-30, 1e30, 1e140])
def test_numbers_of_any_size_keep_their_digits(size):
    found = svd(world() * size, 3, tolerance=1e-10)
    np.testing.assert_allclose(found.s / size, np.linalg.svd(world().toarray())[1][:3], rtol=1e-9)
    assert found.energy == pytest.approx(svd(world(), 3, tolerance=1e-10).energy)
    assert found.error(world() * size) == pytest.approx(found.error(), rel=1e-6)


def test_float32_is_computed_in_float32():
    single = world().astype(np.float32)
    for matrix in (single, single.toarray()):
        found = svd(matrix, 4)
        assert found.u.dtype == found.vt.dtype == found.s.dtype == np.float32
        np.testing.assert_allclose(found.s, np.linalg.svd(world().toarray())[1][:4], rtol=1e-3)


def test_a_position_that_is_stored_twice_counts_once_with_its_sum():
    twice = sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    np.testing.assert_allclose(svd(twice, 2).s, [4, 3])
    by_hand = sparse.csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])))
    assert svd(by_hand, 1).norm == 3
    assert by_hand.nnz == 2  # what was given is not changed


@pytest.mark.parametrize(
    ("matrix", "options", "sentence"),
    [
        (FILMS, {"rank": 6}, "svd: rank must be an integer from 1 to 5, not 6"),
        (FILMS, {"rank": 0}, "rank must be an integer from 1"),
        (FILMS, {}, "rank or energy must be given"),
        (FILMS, {"rank": 2, "energy": 0.5}, "and not both"),
        (FILMS, {"energy": 1.5}, "energy must be"),
        (FILMS, {"energy": 0.0}, "energy must be"),
        (FILMS, {"rank": 2, "method": "exact"}, "method must be one of"),
        (FILMS, {"rank": 2, "tolerance": 0}, "tolerance must be"),
        (FILMS, {"energy": 0.9, "method": "power"}, "rank must be given"),
        (np.zeros((0, 3)), {"rank": 1}, "at least one row and one column"),
        (sparse.csr_array((3, 0)), {"rank": 1}, "at least one row and one column"),
        ([[1.0, np.nan]], {"rank": 1}, "must be finite.*row 0, column 1"),
        (sparse.csr_array([[0, 1.0], [np.inf, 0]]), {"rank": 1}, "row 1, column 0 is not"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(matrix, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        svd(matrix, **options)


def test_other_kinds_of_numbers_are_refused():
    with pytest.raises(TypeError, match="real numbers"):
        svd(sparse.csr_array([[1j]]), 1)
    with pytest.raises(ValueError, match="rows must have 5 columns"):
        svd(FILMS, 2).concepts([1, 2])
    with pytest.raises(ValueError, match="must be of shape"):
        svd(FILMS, 2).error(np.eye(3))


def test_files_hold_the_factors():
    parts = svd(world(), 4)
    again = load_any(parts.to_bytes())
    assert again == parts
    assert again.energy == parts.energy
    assert repr(parts).startswith("SVD(rows=120")


def test_progress_is_told_of_every_block():
    calls = []
    svd(world(), 4, progress=lambda done, total: calls.append((done, total)))
    assert calls
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert {total for _, total in calls} == {None}
    calls.clear()
    svd(world(), 2, method="power", progress=lambda *each: calls.append(each))
    assert calls == [(1, 2), (2, 2)]
