"""Near duplicates of documents in partitions: the pairs of one machine, on any engine."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine
from sfumato.errors import ParameterError
from sfumato.mine.similar import near_duplicates

ALPHABET = list("abcdefgh ")


def edited_texts():
    """Texts with edited and equal copies, in any order, and texts without a shingle."""
    draws = np.random.default_rng(4)
    texts = ["", None, "?!"]
    for _ in range(40):
        text = draws.choice(ALPHABET, 120)
        for edits in (0, 0, *draws.integers(1, 12, 4)):
            letters = text.copy()
            letters[draws.integers(0, 120, edits)] = draws.choice(ALPHABET, edits)
            texts.append("".join(letters))
    return [texts[at] for at in draws.permutation(len(texts))]


TEXTS = edited_texts()


@pytest.fixture(params=["one thread", "threads", "spark"])
def engine(request):
    if request.param == "spark":
        return request.getfixturevalue("spark")
    return LocalEngine(threads=1 if request.param == "one thread" else 3)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    names = [f"text {at:04}" for at in range(len(TEXTS))]
    table = pa.table({"id": range(len(TEXTS)), "name": names, "text": TEXTS})
    found = [str(folder / f"{at}.parquet") for at in range(4)]
    for at, path in enumerate(found):
        pq.write_table(table.slice(at * 70, 70), path)
    return found


@pytest.mark.parametrize(
    ("threshold", "exact"),
    [
        (0.4, True),
        (0.8, False),
        pytest.param(0.4, False, marks=pytest.mark.soak),
        pytest.param(0.8, True, marks=pytest.mark.soak),
    ],
)
def test_pairs_are_those_of_one_machine(engine, paths, threshold, exact):
    expected = near_duplicates(TEXTS, threshold, exact=exact)
    found = near_duplicates(paths, threshold, exact=exact, engine=engine)
    assert expected.num_rows > 40
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema.metadata == expected.schema.metadata


def test_ids_may_be_texts_and_pairs_may_go_to_a_file(engine, paths, tmp_path):
    expected = near_duplicates(TEXTS).to_pylist()
    options = {"engine": engine, "id_column": "name"}
    found = near_duplicates(paths, **options).to_pylist()
    assert [(pair["first"], pair["second"]) for pair in found] == [
        (f"text {pair['first']:04}", f"text {pair['second']:04}") for pair in expected
    ]
    written = near_duplicates(paths, output=tmp_path / "pairs.parquet", **options).to_table()
    assert sorted(map(str, written.to_pylist())) == sorted(map(str, found))


def test_texts_without_a_pair_make_an_empty_table(engine, tmp_path):
    path = str(tmp_path / "texts.parquet")
    pq.write_table(pa.table({"id": [1, 2], "text": ["a rose is a rose", None]}), path)
    found = near_duplicates(path, engine=engine)
    assert found.num_rows == 0
    assert found.column_names == ["first", "second", "similarity"]


def test_words_and_other_parameters_are_those_of_one_machine():
    options = {"k": 2, "unit": "words", "permutations": 64, "recall": 0.9, "seed": 3}
    texts = [f"one two three {word} five six seven eight" for word in ("four", "4", "IV", "four!")]
    rows = {"id": [0, 1, 2, 3], "text": texts}
    found = near_duplicates(rows, 0.5, engine=LocalEngine(threads=2), **options)
    assert found.to_pylist() == near_duplicates(texts, 0.5, **options).to_pylist()


def test_equal_ids_are_refused(engine, tmp_path):
    path = str(tmp_path / "texts.parquet")
    pq.write_table(pa.table({"id": [7, 7], "text": ["a rose is a rose"] * 2}), path)
    with pytest.raises(ValueError, match="the ids of id_column must be distinct"):
        near_duplicates(path, engine=engine)


def test_equal_ids_of_unlike_texts_are_refused():
    rows = {"id": [1, 2, 2], "text": ["a rose is a rose", "a rose is a rose!", "a daisy"]}
    with pytest.raises(ValueError, match="the ids of id_column must be distinct"):
        near_duplicates(rows, engine=LocalEngine())


def test_progress_of_an_engine_is_refused():
    with pytest.raises(ParameterError, match="progress must be None with an engine"):
        near_duplicates({"id": [1], "text": ["a"]}, engine=LocalEngine(), progress=print)
