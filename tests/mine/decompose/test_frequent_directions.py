"""FrequentDirections: the error is between 0 and the bound in every direction, merged or not."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

from sfumato.core.storage import load_any
from sfumato.errors import SketchFormatError
from sfumato.mine.decompose import FrequentDirections
from support.matrices import world


def eigenvalues(rows, sketch):
    """Of A'A - B'B, ascending."""
    b = sketch.matrix()
    return np.linalg.eigvalsh(rows.T @ rows - b.T @ b)


def hard_streams():
    draws = np.random.default_rng(0)
    yield draws.normal(size=(300, 12))  # flat: every shrinkage is large
    yield np.tile(np.eye(12), (20, 1))
    yield np.repeat(np.eye(12), 20, axis=0) * np.arange(1, 241)[:, np.newaxis]  # drifts
    yield world(200, 12, 3, 0.3).toarray()
    yield draws.normal(size=(100, 2)) @ draws.normal(size=(2, 12))  # low rank
    yield draws.normal(size=(7, 12))  # never full
    yield np.zeros((50, 12))


@pytest.mark.parametrize("size", [1, 2, 5, 8, 20])
def test_the_error_is_within_the_computed_bound_and_that_within_the_promised_one(size):
    for rows in hard_streams():
        sketch = FrequentDirections(size, 12).update(rows)
        tiny = 1e-9 * max((rows**2).sum(), 1)
        values = eigenvalues(rows, sketch)
        assert -tiny <= values[0]
        assert values[-1] <= sketch.error_bound() + tiny
        tails = (np.linalg.svd(rows)[1] ** 2)[::-1].cumsum()[::-1]
        for k in range(min(size, tails.size)):
            assert sketch.error_bound() <= tails[k] / (size - k) + tiny
        assert len(sketch.matrix()) <= size
        assert sketch.squares == pytest.approx((rows**2).sum())
        assert sketch.total == len(rows)


def test_a_wrong_bound_would_be_noticed():
    # On a flat stream the error is a good part of the bound, so half the bound would not hold.
    rows = np.tile(np.eye(12), (20, 1))
    sketch = FrequentDirections(5, 12).update(rows)
    assert eigenvalues(rows, sketch)[-1] > 0.5 * sketch.error_bound() > 0


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_merged_sketches_keep_the_guarantee_for_all_rows(parts):
    for rows in hard_streams():
        sketches = [FrequentDirections(4, 12).update(part) for part in np.array_split(rows, parts)]
        before = sketches[1].copy()
        merged = sketches[0]
        for other in sketches[1:]:
            assert merged.merge(other) is merged
        assert sketches[1] == before
        tiny = 1e-9 * max((rows**2).sum(), 1)
        values = eigenvalues(rows, merged)
        assert -tiny <= values[0]
        assert values[-1] <= merged.error_bound() + tiny
        assert merged.error_bound() <= (rows**2).sum() / 4 + tiny
        assert merged.total == len(rows)


def test_a_stream_of_lower_rank_is_reproduced():
    rows = world(500, 12, 1).toarray()[:, :3] @ np.random.default_rng(0).normal(size=(3, 12))
    sketch = FrequentDirections(4, 12).update(rows)
    assert sketch.error_bound() < 1e-9 * sketch.squares
    np.testing.assert_allclose(sketch.matrix().T @ sketch.matrix(), rows.T @ rows, rtol=1e-8)
    values, vectors = sketch.singular()
    np.testing.assert_allclose(values, np.linalg.svd(rows)[1][:3], rtol=1e-8)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(3), atol=1e-9)


def test_sparse_rows_and_batches_of_any_size_are_one_stream():
    matrix = world(90, 12, 2, 0.4)
    whole = FrequentDirections(5, 12).update(matrix)
    dense = FrequentDirections(5, 12).update(matrix.toarray())
    np.testing.assert_array_equal(whole.matrix(), dense.matrix())
    assert (whole.total, whole.error_bound()) == (dense.total, dense.error_bound())
    pieces = FrequentDirections(5, 12)
    for row in matrix.toarray():
        pieces.update(row)
    assert pieces.total == whole.total
    assert eigenvalues(matrix.toarray(), pieces)[-1] <= pieces.error_bound() * (1 + 1e-9)


def test_singular_values_are_below_those_of_the_stream_by_at_most_the_bound():
    rows = world(300, 12, 4).toarray()
    sketch = FrequentDirections(6, 12).update(rows)
    values, _ = sketch.singular(3)
    exact = np.linalg.svd(rows)[1][:3]
    assert (values <= exact * (1 + 1e-9)).all()
    assert (values**2 >= exact**2 - sketch.error_bound() - 1e-9).all()


def test_bytes_pickle_and_copies_keep_everything():
    sketch = FrequentDirections(3, 12).update(world(40, 12, 1))
    for twin in (
        load_any(sketch.to_bytes()),
        FrequentDirections.from_bytes(sketch.to_bytes()),
        pickle.loads(pickle.dumps(sketch)),
        sketch.copy(),
        copy.copy(sketch),
    ):
        assert twin == sketch
    twin = sketch.copy()
    twin.update(np.ones((1, 12)))
    assert twin != sketch
    with pytest.raises(SketchFormatError):
        FrequentDirections.from_bytes(sketch.to_bytes()[:-9])


def test_a_call_that_raises_changes_nothing():
    sketch = FrequentDirections(3, 4).update([[1.0, 2.0, 3.0, 4.0]])
    before = sketch.to_bytes()
    for rows in ([[1, 2]], [[np.nan] * 4], [["a"] * 4], np.ones((2, 2, 2)), [[1e100] * 4]):
        with pytest.raises((TypeError, ValueError)):
            sketch.update(rows)
        assert sketch.to_bytes() == before
    for other, sentence in (
        (sketch, "cannot merge with itself"),
        (FrequentDirections(4, 4), "size is 3 here and 4 there"),
        (FrequentDirections(3, 5), "dimension is 4 here and 5 there"),
    ):
        with pytest.raises(ValueError, match=sentence):
            sketch.merge(other)
        assert sketch.to_bytes() == before
    with pytest.raises(TypeError, match="cannot merge with list"):
        sketch.merge([])
    with pytest.raises(ValueError, match="size must be"):
        FrequentDirections(0, 4)
    with pytest.raises(ValueError, match="rank must be"):
        sketch.singular(4)


def test_an_empty_stream_is_a_matrix_without_rows():
    sketch = FrequentDirections(3, 4).update(sparse.csr_array((0, 4)))
    assert sketch.matrix().shape == (0, 4)
    assert sketch.error_bound() == 0
    assert sketch.singular()[0].size == 0
