"""Cosines do not depend on the lengths of codes, and distances rank as in Euclidean space."""

import json

import numpy as np
import pytest

from sfumato.retrieve import (
    BinaryIndex,
    IndexFormatError,
    file_format,
    learned,
    load,
    qolsh,
    tight_frame,
)
from sfumato.retrieve.serialization import NORM_VERSION

COUNT, DIMENSION = 3000, 48


@pytest.fixture(scope="module")
def images():
    """Non-negative rows far from the origin, as images are, and queries near some of them."""
    rng = np.random.default_rng(5)
    shapes = rng.random((40, DIMENSION)) ** 3
    rows = rng.dirichlet(np.full(40, 0.1), COUNT) @ shapes * rng.lognormal(0, 0.3, (COUNT, 1))
    rows += 0.03 * rng.random(rows.shape)
    picks = rng.choice(COUNT, 200, replace=False)
    return rows, np.abs(rows[picks] + 0.02 * rng.normal(size=(200, DIMENSION)))


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def first(index, queries, **options):
    return index.search(queries, 1, **options)[1][:, 0]


def test_learned_codes_are_ranked_by_cosine(images):
    rows, queries = images
    index = BinaryIndex(encoder=learned(64, along=0)).add(np.arange(COUNT), rows)
    encoder = index.encoder_
    rebuilt = encoder.reconstruct(encoder.encode(unit(rows)))
    cosines = unit(queries) @ unit(rebuilt).T
    scores, ids = index.search(queries, 5, shortlist=COUNT)
    np.testing.assert_allclose(scores, -np.sort(-cosines, axis=1)[:, :5], rtol=1e-4)
    np.testing.assert_array_equal(ids[:, 0], cosines.argmax(axis=1))
    # The product with the reconstruction, which ranks by its length too, finds far fewer.
    true = (unit(queries) @ unit(rows).T).argmax(axis=1)
    by_product = (unit(queries) @ rebuilt.T).argmax(axis=1)
    assert (ids[:, 0] == true).mean() > (by_product == true).mean() + 0.1


def test_codes_for_cosines_leave_lengths_to_the_norm(images):
    rows, _ = images
    angles = {}
    for name, along in (("default", None), ("products", 10.0)):
        index = BinaryIndex(encoder=learned(64, along=along)).add(np.arange(COUNT), rows)
        encoder = index.encoder_
        rebuilt = encoder.reconstruct(encoder.encode(unit(rows)))
        angles[name] = np.arccos((unit(rebuilt) * unit(rows)).sum(axis=1)).mean()
    assert encoder.along == 10.0
    assert angles["default"] < 0.98 * angles["products"]
    by_product = BinaryIndex(encoder=learned(64), metric="inner").add(np.arange(9), rows[:9])
    assert by_product.encoder_.along is None


def test_cosines_within_cells_are_those_of_all_codes(images):
    rows, queries = images
    whole = BinaryIndex(encoder=learned(64)).add(np.arange(COUNT), rows)
    cells = BinaryIndex(encoder=learned(64), partitions=8).add(np.arange(COUNT), rows)
    wanted, ids = whole.search(queries, 1, shortlist=COUNT)
    scores, found = cells.search(queries, 1, shortlist=COUNT, probes=7)
    same = found == ids
    assert same.mean() > 0.95
    np.testing.assert_allclose(scores[same], wanted[same], rtol=1e-5)


def test_a_file_without_norms_is_read_and_answers_by_cosine(images, tmp_path):
    rows, queries = images
    for options in ({}, {"partitions": 8}):
        index = BinaryIndex(encoder=learned(64), **options).add(np.arange(COUNT), rows)
        index.save(tmp_path / "new")
        header, arrays = file_format.opened(tmp_path / "new")
        assert header["version"] == NORM_VERSION
        header["version"] = 3 if options else 2
        arrays.pop("factors")
        file_format.write(tmp_path / "old", header, arrays)
        for name in ("new", "old"):
            for one, other in zip(
                load(tmp_path / name).search(queries, 5), index.search(queries, 5), strict=True
            ):
                np.testing.assert_array_equal(one, other)
        header["version"] = NORM_VERSION
        file_format.write(tmp_path / "damaged", header, arrays)
        with pytest.raises(IndexFormatError, match="array is missing"):
            load(tmp_path / "damaged")
        header["version"] = 9
        file_format.write(tmp_path / "later", header, arrays)
        with pytest.raises(IndexFormatError, match="version 9"):
            load(tmp_path / "later")


def test_files_of_other_encoders_keep_their_version(tmp_path):
    BinaryIndex(64).add([1, 2], [[1.0, 0], [-1, 1]]).save(tmp_path / "one")
    assert json.loads(json.dumps(file_format.read_header(tmp_path / "one")))["version"] == 2


ENCODERS = {
    "default": lambda: None,
    "learned": lambda: learned(192),
    "lifted": lambda: tight_frame(512),
    "factor": lambda: qolsh(512, center=True, factor="nearest"),
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("partitions", [None, 8])
def test_euclidean_scores_are_negated_distances(images, name, partitions, tmp_path):
    rows, queries = images
    distances = np.linalg.norm(queries[:, None] - rows[None], axis=2)
    nearest = distances.argmin(axis=1)
    index = BinaryIndex(
        encoder=ENCODERS[name](), metric="euclidean", keep_vectors=True, partitions=partitions
    ).add(np.arange(COUNT), rows)
    probes = None if partitions is None else 8
    scores, ids = index.search(queries, 10, shortlist=COUNT, rerank="exact", probes=probes)
    np.testing.assert_array_equal(ids[:, 0], nearest)
    np.testing.assert_allclose(scores, -np.sort(distances, axis=1)[:, :10], rtol=1e-4)
    scores, ids = index.search(queries, 10)
    assert (ids == nearest[:, None]).any(axis=1).mean() > 0.9
    true = -np.take_along_axis(distances, ids, axis=1)
    spread = np.median(distances)
    assert np.abs(scores - true).mean() < 0.15 * spread
    index.save(tmp_path / "index")
    np.testing.assert_array_equal(load(tmp_path / "index").search(queries, 10)[1], ids)
    assert index.dimension == DIMENSION
    np.testing.assert_allclose(index.vectors([3]), rows[[3]], rtol=1e-6)


@pytest.mark.parametrize("name", ENCODERS)
def test_each_row_has_the_distances_from_one_point_near_it(images, name):
    rows, _ = images
    rows = rows[:600]
    queries = rows.mean(axis=0) + np.random.default_rng(2).normal(size=(150, DIMENSION))
    index = BinaryIndex(encoder=ENCODERS[name](), metric="euclidean").add(np.arange(600), rows)
    scores, ids = index.search(queries, 600)
    squares = np.square(np.take_along_axis(scores, np.argsort(ids, axis=1), axis=1).astype(float))
    # |q - y|^2 - |q|^2 = |y|^2 - 2 <q, y>, linear in q: y and |y|^2 are fitted apart.
    moved = queries - rows.mean(axis=0)
    linear = np.column_stack([-2 * moved, np.ones(150)])
    plain = squares - np.square(moved).sum(axis=1)[:, None]
    fitted = np.linalg.lstsq(linear, plain, rcond=None)[0]
    np.testing.assert_allclose(linear @ fitted, plain, atol=2e-3)
    points, norms = fitted[:-1].T, fitted[-1]
    np.testing.assert_allclose(np.square(points).sum(axis=1), norms, atol=2e-3)
    far = np.linalg.norm(points - (rows - rows.mean(axis=0)), axis=1)
    assert far.mean() < 0.6 * np.linalg.norm(rows - rows.mean(axis=0), axis=1).mean()


def test_euclidean_neighbours_are_not_those_of_products(images):
    rows, queries = images
    nearest = np.linalg.norm(queries[:, None] - rows[None], axis=2).argmin(axis=1)
    by_distance = BinaryIndex(encoder=learned(192), metric="euclidean").add(np.arange(COUNT), rows)
    by_product = BinaryIndex(encoder=learned(192), metric="inner").add(np.arange(COUNT), rows)
    assert (first(by_distance, queries) == nearest).mean() > 0.6
    assert (first(by_product, queries) == nearest).mean() < 0.3


def test_equal_rows_and_zeros_have_distances():
    index = BinaryIndex(64, metric="euclidean", keep_vectors=True).add([4, 9], np.zeros((2, 3)))
    scores, ids = index.search([[3.0, 4.0, 0.0]], 3, rerank="exact")
    assert scores.tolist() == [[-5.0, -5.0, -np.inf]]
    assert ids.tolist() == [[4, 9, -1]]
    with pytest.raises(ValueError, match="at most 1e"):
        index.add([5], [[1e16, 0, 0]])
