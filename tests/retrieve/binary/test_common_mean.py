"""Vectors that share a large mean, as raw images and counts do, are found by what is their own."""

import numpy as np
import pytest

from sfumato.retrieve import (
    BinaryIndex,
    Codes,
    IndexFormatError,
    file_format,
    load,
    project_and_sign,
)
from sfumato.retrieve.serialization import NORM_VERSION

COUNT, DIMENSION, MEAN = 2000, 32, 3.0
NAMES = ("project_and_sign", "tight_frame", "qolsh", None)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def world():
    """Rows far from the origin, and queries near some of them."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(COUNT, DIMENSION)) + MEAN
    return rows, rows[:100] + 0.3 * rng.normal(size=(100, DIMENSION))


def built(rows, name, **options):
    return BinaryIndex(encoder=name, **options).add(np.arange(len(rows)), rows)


def found(index, queries, **options):
    """The fraction of queries whose own row, the first nearest, is the first found."""
    return float((index.search(queries, 1, **options)[1][:, 0] == np.arange(100)).mean())


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("name", NAMES)
def test_a_common_mean_hides_no_neighbour(world, name, metric):
    rows, queries = world
    index = built(rows, name, metric=metric)
    assert found(index, queries) > (0.9 if name == "project_and_sign" else 0.98)
    assert found(index, queries, scan="asymmetric", rerank=None) > 0.9
    assert index.nbytes_per_vector == 40


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_cosines_where_the_mean_is_large(world, name):
    rows, queries = world
    scores, ids = built(rows, name).search(queries, 10)
    true = np.take_along_axis(unit(queries) @ unit(rows).T, ids, axis=1)
    below = 1 - true.mean()  # what all vectors have in common says nothing
    assert np.abs(scores - true).mean() < 0.25 * below


def test_vectors_around_the_origin_take_no_more_bytes(world):
    rows, queries = world
    index = built(rows - MEAN, None)
    assert index.nbytes_per_vector == 36
    assert found(index, queries - MEAN) > 0.98


def test_distances_are_those_from_the_nearest_point_of_a_code(world):
    rows, queries = world
    encoder = project_and_sign(128, center=True, factor="unbiased")
    index = built(rows, encoder, metric="euclidean")
    ids, scores = np.arange(COUNT), index.search(queries, COUNT, shortlist=COUNT)
    scores = np.take_along_axis(scores[0], np.argsort(scores[1], axis=1), axis=1)
    moved, fitted = (rows - rows.mean(axis=0)).astype(np.float32), index.encoder_
    words = fitted.encode(moved).words
    ones = Codes(words, np.ones((COUNT, 1), np.float32), None)
    sums = fitted.reconstruct(ones) - fitted.centre_
    factors = (sums * moved).sum(axis=1) / np.square(sums).sum(axis=1)
    points = rows.mean(axis=0) + factors[:, None] * sums
    wanted = -np.linalg.norm(queries[:, None] - points[None], axis=2)
    np.testing.assert_allclose(scores[:, ids], wanted, rtol=2e-3)


@pytest.mark.parametrize("partitions", [None, 8])
def test_files_say_that_cosines_are_ranked_by_distances(world, partitions, tmp_path):
    rows, queries = world
    index = built(rows, None, partitions=partitions)
    index.save(tmp_path / "far")
    for one, other in zip(
        load(tmp_path / "far").search(queries, 5), index.search(queries, 5), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    header, arrays = file_format.opened(tmp_path / "far")
    assert header["version"] == NORM_VERSION
    header["distances"] = "yes"
    file_format.write(tmp_path / "damaged", header, arrays)
    with pytest.raises(IndexFormatError, match="cosines"):
        load(tmp_path / "damaged")


def test_cells_hold_the_neighbours_of_far_vectors(world):
    rows, queries = world
    assert found(built(rows, None, partitions=8), queries, probes=6) > 0.95
