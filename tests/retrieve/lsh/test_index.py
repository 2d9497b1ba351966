"""LshIndex finds what its bands promise, scores it truly, and keeps to its rows as they change."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.retrieve import LshIndex
from sfumato.retrieve.lsh import store
from sfumato.retrieve.lsh.hash_families import Bands, Hyperplanes, RandomLines
from sfumato.retrieve.lsh.index import LIMITS

INDEXES = 20_000
METRICS = [{"metric": "cosine"}, {"metric": "inner"}, {"metric": "euclidean", "width": 3.0}]


def vectors(rows, dimension=12, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, dimension))


def true_scores(metric, Q, X):
    if metric == "euclidean":
        return -np.linalg.norm(Q[:, None] - X[None], axis=2)
    if metric == "cosine":
        Q, X = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (Q, X))
    return Q @ X.T


def at_cosine(cosine, pairs, dimension, rng):
    """Pairs of unit vectors with this cosine."""
    x, y = rng.normal(size=(2, pairs, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y -= (x * y).sum(1, keepdims=True) * x
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    return x, cosine * x + np.sqrt(1 - cosine**2) * y


def share_found(family, index, x, y):
    """How often y is a candidate of x, over independent sets of as many bands as the index has."""
    tables = Bands(family, INDEXES * index.bands, index.rows, 0)
    same = tables.keys(x) == tables.keys(y)
    return same.reshape(INDEXES, index.bands).any(axis=1).mean()


@pytest.mark.parametrize("similarity", [0.95, 0.7, 0.2])
def test_probability_is_how_often_cosines_are_found(similarity):
    # The share of 20,000 independent draws is within 5 deviations of its mean, p < 1e-6.
    index = LshIndex(6, 4)
    family = Hyperplanes((6 * INDEXES, 4), 8, seed=1)
    x, y = at_cosine(similarity, 1, 8, np.random.default_rng(1))
    expected = index.probability(similarity)
    std_error = np.sqrt(expected * (1 - expected) / INDEXES)
    assert abs(share_found(family, index, x, y) - expected) < 5 * std_error


@pytest.mark.parametrize("distance", [0.5, 1.5, 6.0])
def test_probability_is_how_often_distances_are_found(distance):
    # As above, p < 1e-6.
    index = LshIndex(4, 3, metric="euclidean", width=2.0)
    family = RandomLines((4 * INDEXES, 3), 8, seed=1, width=2.0)
    x, y = at_cosine(0.0, 1, 8, np.random.default_rng(2))
    expected = index.probability(distance)
    std_error = np.sqrt(expected * (1 - expected) / INDEXES)
    assert abs(share_found(family, index, x, x + distance * y) - expected) < 5 * std_error


def test_threshold_chooses_tables_that_keep_it():
    index = LshIndex.from_threshold(0.9, recall=0.9, most_bands=40)
    assert index.bands <= 40
    assert index.probability(0.9) >= 0.9
    assert index.probability(0.3) < 0.02
    far = LshIndex.from_threshold(1.0, 0.9, metric="euclidean", width=4.0)
    assert far.probability(1.0) >= 0.9 > far.probability(8.0)


@pytest.mark.parametrize("directions", ["random", "super-bit"])
def test_candidates_are_the_rows_that_share_a_key(directions):
    X, Q = vectors(400), vectors(20, seed=1)
    index = LshIndex(5, 3, directions=directions, seed=7).add(np.arange(400) + 1000, X)
    family = Bands(Hyperplanes((5, 3), 12, 7, directions), 5, 3, 7)
    unit = [(Y / np.linalg.norm(Y, axis=1, keepdims=True)).astype(np.float32) for Y in (X, Q)]
    keys, queries = (family.keys(each.astype(np.float64)) for each in unit)
    starts, ids = index.candidates(Q)
    for q in range(20):
        expected = np.flatnonzero((keys == queries[q]).any(axis=1)) + 1000
        assert ids[starts[q] : starts[q + 1]].tolist() == expected.tolist()


def test_super_bits_of_a_band_are_orthogonal():
    family = Hyperplanes((6, 5), 12, 0, "super-bit")
    normals = family.values(np.eye(12)).T.reshape(6, 5, 12)
    for band in normals:
        assert np.allclose(band @ band.T, np.eye(5))


@pytest.mark.parametrize("options", METRICS)
def test_every_bucket_together_gives_the_exact_answer(options):
    # With one hash a band and a bucket on either side, nothing near enough is left out.
    X, Q = vectors(300), vectors(9, seed=1)
    index = LshIndex(200, 1, probes=2, seed=3, **options).add(np.arange(300), X)
    ids, scores = index.search(Q, n=5)
    true = true_scores(options["metric"], Q, X)
    assert np.array_equal(ids, np.argsort(-true, axis=1)[:, :5])
    assert scores == pytest.approx(-np.sort(-true, axis=1)[:, :5], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("options", METRICS)
def test_probes_find_more_in_the_same_tables(options):
    X, Q = vectors(3000, 16), vectors(50, 16, seed=1)
    best = true_scores(options["metric"], Q, X).argmax(axis=1)
    recall = []
    for probes in (1, 4, 16, 64):
        index = LshIndex(8, 6, probes=probes, **options).add(np.arange(3000), X)
        recall.append((index.search(Q, 1)[0][:, 0] == best).mean())
    assert recall == sorted(recall)
    assert recall[-1] >= recall[0] + 0.15


@pytest.mark.parametrize("options", METRICS)
def test_near_duplicates_are_found_among_many(options):
    # Queries are stored vectors with noise of a hundredth: measured recall 1 on five seeds.
    X = vectors(5000, 16)
    Q = X[::50] + 0.01 * vectors(100, 16, seed=1)
    index = LshIndex(16, 8, probes=8, **options).add(np.arange(5000), X)
    best = true_scores(options["metric"], Q, X).argmax(axis=1)
    assert (index.search(Q, 1)[0][:, 0] == best).mean() >= 0.95
    assert index.candidates(Q)[1].size < 0.5 * 100 * 5000


def test_changes_leave_the_answers_of_a_fresh_index():
    X, Q = vectors(200), vectors(10, seed=1)
    index = LshIndex(10, 2, seed=5).fit(X)
    for part in np.split(np.arange(200), [3, 4, 90]):
        index.add(part, X[part])
    gone = np.arange(0, 200, 3)
    index.remove(gone)
    retained = np.setdiff1d(np.arange(200), gone)
    fresh = LshIndex(10, 2, seed=5).add(retained, X[retained])
    for each in (index, index.compact(), index.remove(7).add([7], X[[7]])):
        answer = each.search(Q, 8)
        assert all(map(np.array_equal, answer, fresh.search(Q, 8)))
        assert len(each) == len(retained)
    assert set(index.ids) == set(retained)


def test_filter_and_without_leave_out_what_they_name():
    X, Q = vectors(120), vectors(6, seed=1)
    index = LshIndex(12, 1).add(np.arange(120) + 50, X)
    allowed = np.arange(120) % 2 == 0
    ids = index.search(Q, 120, filter=allowed)[0]
    assert not (ids[ids >= 0] % 2).any()
    every = index.search(Q, 120)[0]
    starts = np.array([0, 3, 3, 5, 5, 5, 5])
    without = np.array([every[0, 0], every[0, 1], 9999, every[2, 0], every[2, 3]])
    left = index.search(Q, 120, without=(starts, without))[0]
    for q in range(6):
        mine = without[starts[q] : starts[q + 1]]
        expected = every[q][~np.isin(every[q], mine) & (every[q] >= 0)]
        assert left[q][left[q] >= 0].tolist() == expected.tolist()


def test_a_mask_of_ids_is_a_filter():
    index = LshIndex(12, 1).add(np.arange(60) + 50, vectors(60)).remove([51, 70])
    mask = index.mask([50, 51, 52, 9999])
    assert index.ids[mask].tolist() == [50, 52]
    found = index.search(vectors(5, seed=1), 3, filter=mask)[0]
    assert set(found.reshape(-1)) <= {50, 52, -1}
    assert index.dimension == 12
    assert (LshIndex().mask([1]).size, LshIndex().dimension) == (0, 0)


def test_queries_come_in_any_container():
    Q = vectors(3, seed=1)
    index = LshIndex(8, 2).add(np.arange(90), vectors(90))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(Q.reshape(-1)), 12)
    columns = pa.table({str(i): Q[:, i] for i in range(12)})
    for queries in (lists, columns, Q.tolist(), np.asfortranarray(Q), Q.astype(">f8")):
        assert all(map(np.array_equal, index.search(queries, 4), index.search(Q, 4)))


@pytest.mark.parametrize("options", METRICS)
def test_many_rows_and_queries_are_hashed_a_few_at_a_time(options, monkeypatch):
    X, Q = vectors(300), vectors(70, seed=1)
    without = np.arange(71) // 2, np.arange(35)
    answers, sizes, hashed = [], [], store.Bands.keys

    def keys(bands, part):
        sizes.append(len(part))
        return hashed(bands, part)

    monkeypatch.setattr(store.Bands, "keys", keys)
    for room in (1 << 22, 200):
        monkeypatch.setattr(store, "ROOM", room)
        monkeypatch.setattr(store, "BATCH_HASHES", room)
        monkeypatch.setattr(store, "MARK_BYTES", room)
        index = LshIndex(6, 4, probes=3, **options).add(np.arange(300), X)
        answers.append((*index.search(Q, 9, without=without), *index.candidates(Q)))
    assert all(map(np.array_equal, *answers))
    assert sizes[0] == 300
    assert max(sizes[1:]) == 200 // 24
    queries = store.BandQueries(index._now.learned, Q.astype(np.float32), 3, None)
    assert max(len(part) for _, part in queries._keys()) == 200 // (6 * 3 + 24)


def test_an_answer_does_not_depend_on_other_queries():
    index = LshIndex(8, 3, metric="inner", probes=3).add(np.arange(500), vectors(500))
    Q = vectors(30, seed=1)
    together = index.search(Q, 5)
    for q in range(30):
        assert all(map(np.array_equal, index.search(Q[q], 5), (each[q] for each in together)))


def test_an_empty_index_answers_with_padding():
    for index in (LshIndex(), LshIndex().fit(vectors(3)), LshIndex().add([], np.empty((0, 12)))):
        ids, scores = index.search(vectors(2), 3)
        assert ids.tolist() == [[-1] * 3] * 2
        assert (scores == -np.inf).all()
        assert index.candidates(vectors(2))[0].tolist() == [0, 0, 0]
        assert len(index) == index.ids.size == 0


def test_each_parameter_refuses_what_is_outside_its_limits():
    for name, limit in LIMITS.items():
        for value in limit.bad():
            with pytest.raises(ValueError, match=f"LshIndex: {name} must be"):
                LshIndex(**{name: value})


def test_bad_calls_raise_and_change_nothing():
    index = LshIndex(4, 2).add([1, 2], vectors(2))
    for call, kind, words in [
        (lambda: LshIndex(metric="euclidean"), ValueError, "width must be given"),
        (lambda: LshIndex(width=1.0), ValueError, "for no other"),
        (lambda: index.add([2], vectors(1)), ValueError, "in the index already"),
        (lambda: index.add([5, 5], vectors(2)), ValueError, "stands twice"),
        (lambda: index.add([5], vectors(2)), ValueError, "do not go with"),
        (lambda: index.add([5], vectors(1, 7)), ValueError, "12 columns"),
        (lambda: index.add([5], np.full((1, 12), np.nan)), ValueError, "finite"),
        (lambda: index.add([5], np.zeros((1, 12))), ValueError, "zeros"),
        (lambda: index.remove([1, 9]), ValueError, "row 1"),
        (lambda: index.fit(vectors(3)), ValueError, "another index"),
        (lambda: index.search(vectors(1), 0), ValueError, "n must be"),
        (lambda: index.search(vectors(1), 2**40), ValueError, "smaller n"),
        (lambda: index.search(vectors(1), 1, filter=[True]), ValueError, "mask with 2"),
        (lambda: index.search(vectors(1), 1, filter=[[1], [1, 2]]), ValueError, "mask with 2"),
        (lambda: index.search(vectors(1), 1, without=([0, 2], [1])), ValueError, "starts"),
        (lambda: index.search(vectors(1), 1, without=([0, 1.5], [1])), ValueError, "starts"),
        (lambda: index.search(vectors(1), 1, without=5), ValueError, "starts"),
        (lambda: index.probability(1.5), ValueError, "cosine"),
        (lambda: index.probability("near"), ValueError, "similarity must be"),
        (lambda: LshIndex(metric="euclidean", width=1.0).probability(-1), ValueError, "LshIndex"),
        (lambda: LshIndex.from_threshold(1.0), ValueError, "LshIndex: similar must"),
        (lambda: LshIndex.from_threshold(0.9, 2.0), ValueError, "LshIndex: recall must"),
        (lambda: LshIndex.from_threshold(0.9, most_bands=5000), ValueError, "most_bands must"),
        (lambda: LshIndex(4096, 64).fit(np.ones((1, 1000))), ValueError, "fewer bands"),
        (lambda: tiny_cells().add([1], 1e10 * vectors(1)), ValueError, "larger width"),
    ]:
        with pytest.raises(kind, match=words):
            call()
    assert index.ids.tolist() == [1, 2]
    with pytest.raises(ValueError, match="use candidates"):
        LshIndex(4, 2, keep_vectors=False).add([1], vectors(1)).search(vectors(1), 1)


def tiny_cells():
    return LshIndex(metric="euclidean", width=1e-300)
