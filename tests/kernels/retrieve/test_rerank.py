"""Given rows are ranked by the very scores that scanning all of them would give."""

import numpy as np
import pytest

from sfumato.kernels.retrieve import rerank
from sfumato.recommend.ranking import CatalogueVectors

rng = np.random.default_rng(3)


def ranked(score, vectors, queries, lists, k):
    starts = np.concatenate(([0], np.cumsum([len(each) for each in lists]))).astype(np.int64)
    rows = np.concatenate([np.asarray(each, np.int64) for each in lists])
    places = np.full((len(queries), k), -1, np.int64)
    scores = np.full((len(queries), k), -np.inf, np.float32)
    score(vectors, queries, starts, rows, places, scores)
    return places, scores


@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_scores_of_all_rows_are_those_of_the_shelf_bit_for_bit(size):
    vectors = rng.normal(size=(101, size)).astype(np.float32)
    vectors[50:60] = vectors[3]  # ties go to the first
    queries = rng.normal(size=(5, size)).astype(np.float32)
    places, scores = ranked(rerank.products, vectors, queries, [range(101)] * 5, 20)
    found, exact = CatalogueVectors.of(vectors).best(queries, 20)
    assert np.array_equal(places, found)
    assert np.array_equal(scores, exact)


@pytest.mark.parametrize("name", ["products", "nearest"])
def test_only_given_rows_are_ranked(name):
    vectors = rng.normal(size=(60, 9)).astype(np.float32)
    queries = rng.normal(size=(4, 9)).astype(np.float32)
    lists = [np.flatnonzero(rng.random(60) < share) for share in (0.5, 0.0, 0.05, 1.0)]
    places, scores = ranked(getattr(rerank, name), vectors, queries, lists, 6)
    for q, rows in enumerate(lists):
        apart = np.linalg.norm(vectors[rows] - queries[q], axis=1)
        true = vectors[rows] @ queries[q] if name == "products" else -apart
        best = np.argsort(-true, kind="stable")[:6]
        assert places[q, : best.size].tolist() == rows[best].tolist()
        assert scores[q, : best.size] == pytest.approx(true[best], rel=1e-5, abs=1e-6)
        assert (places[q, best.size :] == -1).all()
        assert (scores[q, best.size :] == -np.inf).all()
