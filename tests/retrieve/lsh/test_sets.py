"""Sets are found by Jaccard similarity, whatever form they come in."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.retrieve import IndexFormatError, LshIndex, load
from sfumato.retrieve import file_format as files
from sfumato.sketch import MinHash

BANDS, ROWS, SEED = 24, 3, 5


@pytest.fixture(scope="module")
def sets():
    """Three hundred sets of 60 keys in families of three: 50 of their keys are the same."""
    rng = np.random.default_rng(2)
    families = rng.permutation(100_000)[:6000].reshape(100, 60)
    return [
        np.append(rng.choice(family, 55, replace=False), rng.integers(10**6, 10**9, 5))
        for family in families
        for _ in range(3)
    ]


def made(sets, **options):
    index = LshIndex(BANDS, ROWS, metric="jaccard", seed=SEED, **options)
    return index.add(np.arange(len(sets)), sets)


def exact(sets):
    found = [set(each.tolist()) for each in sets]
    return np.array([[len(a & b) / len(a | b) for b in found] for a in found])


def same(left, right):
    return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_scores_estimate_the_similarities_of_the_best(sets):
    truth = exact(sets)
    ids, scores = made(sets).search(sets, 3)
    family = np.arange(300) // 3
    assert (ids // 3 == family[:, None]).mean() > 0.99
    assert (ids[:, 0] == np.arange(300)).all()
    assert (scores[:, 0] == 1).all()
    known = ids >= 0
    errors = (scores - np.take_along_axis(truth, np.maximum(ids, 0), axis=1))[known]
    # Of 72 minima, a standard deviation of at most 0.059; 600 estimates are within five of them.
    assert np.abs(errors).max() < 5 * 0.5 / np.sqrt(72)
    assert abs(errors.mean()) < 0.02


def test_candidates_appear_as_often_as_the_formula_says(sets):
    truth, counts, wanted = exact(sets), 0, 0.0
    near = (truth > 0.3) & (truth < 1)
    for seed in range(12):
        index = LshIndex(2, 5, metric="jaccard", seed=seed, keep_vectors=False)
        starts, ids = index.add(np.arange(300), sets).candidates(sets)
        found = np.zeros(truth.shape, bool)
        found[np.repeat(np.arange(300), np.diff(starts)), ids] = True
        counts += found[near].sum()
        wanted += sum(index.probability(each) for each in truth[near])
    # 600 pairs in twelve seeds, twice each: a relative standard deviation of about 2 %.
    assert counts == pytest.approx(wanted, rel=0.1)


def test_every_form_of_sets_gives_the_same_index(sets):
    lists = [each.tolist() for each in sets]
    offsets = np.concatenate(([0], np.cumsum([len(each) for each in lists])))
    signatures = MinHash(BANDS * ROWS, seed=SEED).signatures(np.concatenate(sets), offsets)
    forms = {
        "sets": [set(each) for each in lists],
        "frozen": [frozenset(each) for each in lists],
        "repeated": [each + each[:3] for each in lists],
        "arrow": pa.array(lists),
        "offsets": (np.concatenate(sets), offsets),
        "signatures": signatures,
        "texts": [[str(key) for key in each] for each in lists],
    }
    wanted = made(sets).search(sets[:20], 5)
    for form in forms.values():
        index = LshIndex(BANDS, ROWS, metric="jaccard", seed=SEED).add(np.arange(300), form)
        assert same(index.search(sets[:20], 5), wanted)
    one = made(sets).search(forms["sets"][7], 5)
    assert same(one, [each[7] for each in wanted])
    again = made(sets[:100]).add(np.arange(100, 300), sets[100:])
    assert same(again.search(sets[:20], 5), wanted)


def test_a_file_brings_sets_back(sets, tmp_path):
    index = made(sets).remove(np.arange(0, 300, 7))
    index.save(tmp_path / "a")
    assert files.read_header(tmp_path / "a")["version"] == 2
    other = load(tmp_path / "a")
    assert other.parameters == index.parameters
    assert other.dimension == BANDS * ROWS
    assert same(other.search(sets, 4), index.search(sets, 4))
    for each in (index, other):
        each.add([0], sets[:1]).compact()
    assert same(other.search(sets, 4), index.search(sets, 4))
    header, arrays = files.opened(tmp_path / "a")
    files.write(tmp_path / "b", header, {**arrays, "vectors": arrays["vectors"].astype(np.float32)})
    with pytest.raises(IndexFormatError):
        load(tmp_path / "b")
    made(sets, keep_vectors=False).save(tmp_path / "d")
    assert len(load(tmp_path / "d").candidates(sets[:1])[1])


def test_empty_sets_are_equal_to_each_other_alone():
    index = LshIndex(8, 2, metric="jaccard").add([1, 2, 3], [[], [5, 6], []])
    ids, scores = index.search([set()], 3)
    assert ids.tolist() == [[1, 3, -1]]
    assert scores.tolist() == [[1, 1, -np.inf]]


def test_the_threshold_of_sets_chooses_bands_and_rows():
    index = LshIndex.from_threshold(0.5, recall=0.9, metric="jaccard")
    assert index.probability(0.5) >= 0.9
    assert index.rows > 1


@pytest.mark.parametrize(
    ("options", "rows", "sentence"),
    [
        ({"probes": 2}, None, "probes must be 1"),
        ({"directions": "super-bit"}, None, "directions must be 'random'"),
        ({"width": 1.0}, None, "width"),
        ({"bands": 4096, "rows": 17}, None, r"at most 2\*\*16"),
        ({}, ["tea", "rum"], "row 0 must be a set"),
        ({}, [1, 2], "row 0 must be a set or a list of keys, not int"),
        ({}, {1, 2}, "give a list of sets"),
        ({}, np.zeros((2, 3), np.uint32), "uint32 with 384 columns"),
        ({}, np.zeros((2, 384)), "not float64"),
        ({}, ([1, 2, 3], [0, 2, 4]), "offsets must run from 0 to the 3"),
        ({}, ([1], [2], [3]), r"must be \(keys, offsets\)"),
        ({}, [[1], [2], [3]], "2 ids do not go with 3 rows"),
    ],
)
def test_what_is_no_column_of_sets_is_refused(options, rows, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        LshIndex(metric="jaccard", **options).add([4, 5], rows)
