"""An index changes as a dict would; what is wrong with a call is said and changes nothing."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.retrieve import BinaryIndex, project_and_sign, qolsh, tight_frame

RNG = np.random.default_rng(8)
VECTORS = RNG.normal(size=(300, 5)).astype(np.float32)
MADE = {
    "cosine": lambda: BinaryIndex(64, keep_vectors=True),
    "inner": lambda: BinaryIndex(64, "tight_frame", metric="inner", keep_vectors=True),
    "short": lambda: BinaryIndex(encoder=qolsh(70, short=True), keep_vectors=True),
}


def answers(index):
    """Everything that can be read from an index."""
    found = [index.search(VECTORS[:4], 5, rerank=rerank) for rerank in ("asymmetric", "exact")]
    angles = index.metric == "cosine" or index.encoder == "tight_frame"
    found.append(index.search(VECTORS[:4], 5, rerank=None, scan="hamming" if angles else None))
    return [part for pair in found for part in pair] + [index.ids, np.array(len(index))]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def same(one, other):
    return all(map(np.array_equal, one, other))


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "compact"]), st.integers(1, 90), st.integers(0, 99)
    ),
    max_size=12,
)


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=25)
@given(steps=steps)
def test_any_changes_leave_what_a_dict_would_hold(name, steps):
    index, model = MADE[name]().fit(VECTORS), {}
    for verb, size, seed in steps:
        rng = np.random.default_rng(seed)
        if verb == "add":
            ids = np.setdiff1d(rng.integers(0, 200, size), list(model))
            rows = rng.integers(0, 300, ids.size)
            index.add(ids, VECTORS[rows])
            model |= dict(zip(ids.tolist(), rows.tolist(), strict=True))
        elif verb == "remove":
            gone = rng.permutation(list(model))[:size].astype(np.int64)
            index.remove(gone)
            for each in gone.tolist():
                del model[each]
        else:
            index.compact()
    assert index.ids.tolist() == list(model)
    assert len(index) == len(model)
    assert [each in index for each in range(200)] == [each in model for each in range(200)]
    built = MADE[name]().fit(VECTORS)
    if model:
        built.add(list(model), VECTORS[list(model.values())])
        retained = VECTORS[list(model.values())]
        retained = retained if index.metric == "inner" else unit(retained)
        np.testing.assert_allclose(index.vectors(list(model)), retained, rtol=1e-6)
    assert same(answers(index), answers(built))


def test_compact_gives_the_room_back():
    index = MADE["cosine"]().add(np.arange(300), VECTORS)
    before = index.nbytes
    index.remove(np.arange(200))
    index.compact()
    fresh = MADE["cosine"]().fit(VECTORS).add(np.arange(200, 300), VECTORS[200:])
    assert index.nbytes == fresh.nbytes < before / 2
    assert index.nbytes_per_vector == 8 + 4 + 4 * 5


def test_how_rows_are_split_into_adds_does_not_matter():
    whole = MADE["inner"]().fit(VECTORS).add(np.arange(300), VECTORS)
    parts = MADE["inner"]().fit(VECTORS)
    for at in range(0, 300, 37):
        parts.add(np.arange(300)[at : at + 37], VECTORS[at : at + 37])
    assert same(answers(whole), answers(parts))


def test_a_mask_lets_only_its_ids_be_found():
    index = MADE["cosine"]().add(np.arange(300), VECTORS).remove([3, 4])
    mask = index.mask([5, 3, 299, 4000, 17])
    assert index.ids[mask].tolist() == [5, 17, 299]
    scores, ids = index.search(VECTORS[:2], 5, filter=mask)
    assert sorted(ids[0].tolist()) == [-1, -1, 5, 17, 299]
    assert np.isneginf(scores[ids < 0]).all()
    nothing = index.search(VECTORS[:2], 5, filter=np.zeros(298, bool))
    assert (nothing[1] == -1).all()


def test_vectors_longer_than_those_of_the_fit_keep_true_estimates():
    # The fit's have length 1, and so nearly has the radius; later ones of length 10 are beyond it.
    vectors = unit(VECTORS)
    for encoder in (tight_frame(256), tight_frame(256, center=True)):
        index = BinaryIndex(encoder=encoder, metric="inner", keep_vectors=True).fit(vectors)
        index.add(np.arange(300), vectors).add(np.arange(300, 600), 10 * vectors)
        for scan in ("hamming", "asymmetric"):
            scores, ids = index.search(vectors[:20], 1, scan=scan, rerank="asymmetric")
            assert (ids >= 300).all()
            np.testing.assert_allclose(scores, 10, atol=1.5)


@pytest.mark.parametrize("size", [1e-3, 1e9])
def test_inner_products_are_ranked_though_the_first_vector_came_alone(size):
    # The lift has nothing to learn a radius from but that vector's own length.
    vectors = (VECTORS * size).astype(np.float32)
    index = BinaryIndex(256, "tight_frame", metric="inner")
    index.add([0], vectors[:1]).add(np.arange(1, 300), vectors[1:])
    true = vectors[:20].astype(float) @ vectors.T
    for options in ({"rerank": None, "scan": "hamming"}, {"shortlist": 300}):
        scores, ids = index.search(vectors[:20], 300, **options)
        result = np.take_along_axis(true, ids, axis=1)
        assert np.corrcoef(scores.ravel(), result.ravel())[0, 1] > 0.8


def test_an_index_whose_rows_are_all_removed_may_be_fitted_anew():
    index = MADE["inner"]().add(np.arange(300), VECTORS).remove(np.arange(300))
    again = index.fit(VECTORS + 1).add(np.arange(300), VECTORS + 1)
    assert same(answers(again), answers(MADE["inner"]().add(np.arange(300), VECTORS + 1)))


def test_other_containers_of_rows_and_ids_are_taken():
    plain = MADE["cosine"]().add(np.arange(3), VECTORS[:3])
    lists = MADE["cosine"]().add([0, 1, 2], VECTORS[:3].tolist())
    arrow = MADE["cosine"]().add(pa.array([0, 1, 2]), pa.array(VECTORS[:3].tolist()))
    assert lists.ids.tolist() == arrow.ids.tolist() == plain.ids.tolist()
    one = VECTORS[0].tolist()
    for index in (lists, arrow):
        np.testing.assert_allclose(index.search(one)[0], plain.search(one)[0], rtol=1e-5)


def test_an_encoder_that_is_fitted_stays_as_it_was():
    encoder = project_and_sign(64, center=True).fit(VECTORS + 1)
    index = BinaryIndex(encoder=encoder).add(np.arange(300), VECTORS)
    encoder.fit(VECTORS - 1)  # somebody else's business
    np.testing.assert_allclose(index.encoder_.centre_, VECTORS.mean(axis=0) + 1, rtol=1e-5)


NAN, INFINITE, ZERO = (VECTORS[:2].copy() for _ in range(3))
NAN[1, 2], INFINITE[1, 0], ZERO[1] = np.nan, np.inf, 0
BAD_ADDS = {
    "wrong dimension": ([900, 901], VECTORS[:2, :4], r"rows must have 5 columns .* not 4"),
    "NaN": ([900, 901], NAN, "finite.* row 1, column 2"),
    "infinity": ([900, 901], INFINITE, "finite.* row 1, column 0"),
    "NaN in float64": ([900, 901], NAN.astype(float), "finite.* row 1, column 2"),
    "zero": ([900, 901], ZERO, "row 1 is one"),
    "zero in float64": ([900, 901], ZERO.astype(float), "row 1 is one"),
    "one vector": ([900], VECTORS[0], "form a matrix"),
    "lengths": ([900, 901, 902], VECTORS[:2], "3 ids do not go with 2 rows"),
    "repeated": ([900, 901, 900], VECTORS[:3], "row 2 repeats"),
    "present": ([900, 7], VECTORS[:2], "already, at row 1"),
    "negative": ([900, -1], VECTORS[:2], "row 1 is negative"),
    "bool": ([True, False], VECTORS[:2], "bool"),
    "float": ([900.0, 1.5], VECTORS[:2], "float at row 0"),
    "text": (["900", "901"], VECTORS[:2], "text at row 0"),
    "too large": ([2**63, 1], VECTORS[:2], r"below 2\*\*63"),
    "missing": ([900, None], VECTORS[:2], "row 1 is null"),
    "words": ([900, 901], [["a", "b"], ["c", "d"]], "numbers are expected"),
    "masked": ([900, 901], np.ma.masked_invalid(NAN), "must not be masked"),
}


@pytest.mark.parametrize("what", BAD_ADDS)
def test_a_bad_add_names_the_place_and_changes_nothing(what):
    ids, rows, sentence = BAD_ADDS[what]
    index = MADE["cosine"]().add(np.arange(300), VECTORS)
    before = answers(index)
    with pytest.raises((ValueError, TypeError), match=sentence):
        index.add(ids, rows)
    assert same(before, answers(index))
    assert same(before, answers(index.add([900], VECTORS[:1]).remove(900)))
    if what not in ("present", "wrong dimension", "text"):
        empty = MADE["cosine"]()
        with pytest.raises((ValueError, TypeError), match=sentence):
            empty.add(ids, rows)
        assert empty.dimension == 0


BAD_CALLS = {
    "unknown to remove": (lambda index: index.remove([7, 999]), "not in the index, at row 1"),
    "removed twice": (lambda index: index.remove([7, 7]), "row 1 repeats"),
    "unknown vector": (lambda index: index.vectors([7, 999]), "not in the index, at row 1"),
    "fit when full": (lambda index: index.fit(VECTORS), "build another"),
    "large k": (lambda index: index.search(VECTORS, 10**12), "at most 2\\*\\*28.* a smaller k"),
    "k": (lambda index: index.search(VECTORS, 0), "k must be an integer from 1 up"),
    "shortlist": (lambda index: index.search(VECTORS, shortlist=0), "shortlist must be"),
    "rerank": (lambda index: index.search(VECTORS, rerank="best"), "rerank must be one of"),
    "scan": (lambda index: index.search(VECTORS, scan="all"), "scan must be one of"),
    "short filter": (lambda index: index.search(VECTORS, filter=np.ones(299, bool)), "300 entries"),
    "filter of ids": (lambda index: index.search(VECTORS, filter=np.arange(300)), "boolean mask"),
    "zero query": (lambda index: index.search(ZERO), "row 1 is one"),
    "query of zeros": (lambda index: index.search(np.zeros(5)), "row 0 is one"),
    "NaN query": (lambda index: index.search(NAN), "row 1, column 2"),
    "wrong query": (lambda index: index.search(VECTORS[:, :4]), "5 columns"),
    "one wrong query": (lambda index: index.search([1.0, 2.0]), "5 columns"),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_a_bad_call_says_what_would_be_right_and_changes_nothing(what):
    call, sentence = BAD_CALLS[what]
    index = MADE["cosine"]().add(np.arange(300), VECTORS)
    before = answers(index)
    with pytest.raises(ValueError, match=sentence):
        call(index)
    assert same(before, answers(index))


def test_parameters_are_checked_when_it_is_built():
    for parameters, sentence in (
        (dict(bits=0), "bits must be"),
        (dict(metric="angle"), "metric must be one of"),
        (dict(encoder="best"), "encoder must be None"),
        (dict(encoder=3), "encoder must be None"),
        (dict(keep_vectors=1), "keep_vectors must be"),
        (dict(seed=-1), "seed must be"),
        (dict(bits=64, encoder=qolsh(128)), "bits must be those of the encoder"),
    ):
        with pytest.raises(ValueError, match=sentence):
            BinaryIndex(**parameters)
    with pytest.raises(ValueError, match="fitted to 3 columns"):
        BinaryIndex(encoder=tight_frame(64).fit(VECTORS[:, :3])).add([1], VECTORS[:1])


def test_what_was_not_stored_cannot_be_queried():
    index = BinaryIndex(64).add(np.arange(300), VECTORS)
    for call in (lambda: index.search(VECTORS, rerank="exact"), lambda: index.vectors([1])):
        with pytest.raises(ValueError, match="keep_vectors=True"):
            call()
    inner = BinaryIndex(64, metric="inner").add(np.arange(300), VECTORS)
    with pytest.raises(ValueError, match="scan='asymmetric'"):
        inner.search(VECTORS, scan="hamming")


def test_places_without_a_vector_are_padded():
    for index in (MADE["cosine"](), MADE["cosine"]().fit(VECTORS)):
        for rerank in (None, "asymmetric", "exact"):
            scores, ids = index.search(VECTORS[:3], 4, rerank=rerank)
            assert scores.shape == ids.shape == (3, 4)
            assert np.isneginf(scores).all()
            assert (ids == -1).all()
        assert index.search(VECTORS[0], 4)[1].tolist() == [-1] * 4
        assert len(index) == 0
        assert 3 not in index
        assert index.mask([3]).shape == index.ids.shape == (0,)
    index = MADE["inner"]().add([5, 6], VECTORS[:2])
    scores, ids = index.search(VECTORS[:3], 10, shortlist=1)
    assert (np.sort(ids[:, :2], axis=1) == [5, 6]).all()
    assert (ids[:, 2:] == -1).all()
    assert np.isneginf(scores[:, 2:]).all()
    assert np.isfinite(scores[:, :2]).all()
    assert index.search(np.empty((0, 5)), 10)[0].shape == (0, 10)


def test_zeros_have_inner_products():
    rows = np.vstack([VECTORS[:50], np.zeros((1, 5), np.float32)])
    for encoder in (None, "tight_frame"):
        index = BinaryIndex(64, encoder, metric="inner", keep_vectors=True).add(np.arange(51), rows)
        scores, ids = index.search(rows, 51, rerank="exact")
        assert (scores[ids == 50] == 0).all()
        assert (scores[-1] == 0).all()
        assert ids[-1].tolist() == list(range(51))
