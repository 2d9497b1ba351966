"""Texts are ids of both indexes, as integers are."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.retrieve import BinaryIndex, IndexFormatError, LshIndex, load
from sfumato.retrieve import file_format as files
from sfumato.retrieve.row_ids import RowIds

COUNT = 300
VECTORS = np.random.default_rng(3).normal(size=(COUNT, 6))
NAMES = np.array([f"article {i:03}" for i in range(COUNT)], object)
MAKERS = {
    "codes": lambda: BinaryIndex(64),
    "cells": lambda: BinaryIndex(64, partitions=4),
    "bands": lambda: LshIndex(8, 2),
    "sets": lambda: LshIndex(8, 2, metric="jaccard"),
}


@pytest.fixture(params=MAKERS)
def kind(request):
    return request.param


def rows(kind, at=slice(None)):
    if kind == "sets":
        return [[3 * i, 3 * i + 1, 7] for i in range(COUNT)[at]]
    return VECTORS[at]


def ids_found(index, queries, n=5):
    both = index.search(queries, n)
    return both[1] if isinstance(index, BinaryIndex) else both[0]


def test_texts_answer_as_the_integers_that_they_stand_for(kind, tmp_path):
    numbered, named = MAKERS[kind](), MAKERS[kind]()
    for part in (slice(0, 100), slice(100, COUNT)):
        numbered.add(np.arange(COUNT)[part], rows(kind, part))
        named.add(NAMES[part].tolist(), rows(kind, part))

    def check():
        wanted = ids_found(numbered, rows(kind))
        texts = np.where(wanted >= 0, NAMES[wanted], None)
        np.testing.assert_array_equal(ids_found(named, rows(kind)), texts)
        assert sorted(named.ids) == sorted(NAMES[numbered.ids])

    check()
    named.remove(NAMES[5:40])
    numbered.remove(np.arange(5, 40))
    check()
    named.add(NAMES[[7, 6]], rows(kind, slice(6, 8))[::-1])
    numbered.add([7, 6], rows(kind, slice(6, 8))[::-1])
    check()
    named.save(tmp_path / "named")
    assert b"article 020" not in (tmp_path / "named").read_bytes()  # it was removed
    named, number_of = load(tmp_path / "named"), dict(zip(NAMES, range(COUNT), strict=True))
    check()
    named.add(["new"], rows(kind, slice(1)))
    named.remove(["new"]).compact()
    numbered.compact()
    check()
    wanted = [number_of[each] for each in named.ids[:3]]
    mask = named.mask(["nothing", *NAMES[wanted]])
    assert mask[:3].all()
    assert mask.sum() == 3


def test_one_query_and_membership(kind):
    index = MAKERS[kind]().add(pa.array(NAMES), rows(kind))
    query = set(rows(kind)[4]) if kind == "sets" else rows(kind)[4]
    assert ids_found(index, query)[0] == "article 004"
    if kind in ("codes", "cells"):
        assert "article 004" in index
        assert "article" not in index
        assert 4 not in index
        integers = MAKERS[kind]().add([4], rows(kind, slice(1)))
        assert 4 in integers
        assert "4" not in integers
        assert True not in integers
    else:
        starts, ids = index.candidates(rows(kind, slice(2)))
        assert ids.dtype == object
        assert "article 000" in ids[: starts[1]]
        excluded = index.search(
            rows(kind, slice(1)), without=(np.array([0, 2]), ["article 000", "unknown"])
        )
        assert "article 000" not in excluded[0]


def test_texts_of_one_hash_are_two_ids(kind):
    index = MAKERS[kind]().add(["7", "7.0", "007"], rows(kind, slice(3)))
    index.remove("7.0")
    assert set(index.ids) == {"7", "007"}


def test_a_bad_id_changes_nothing(kind):
    index = MAKERS[kind]().add(NAMES[:3], rows(kind, slice(3)))
    bad = {
        "already, at row 1": ["new", "article 001"],
        "row 1 repeats": ["new", "new"],
        "texts, as those of the index": [8, 9],
        "row 1 is null": ["new", None],
        "do not go with": ["new"],
    }
    for sentence, ids in bad.items():
        with pytest.raises((ValueError, TypeError), match=sentence):
            index.add(ids, rows(kind, slice(2)))
    with pytest.raises(ValueError, match="not in the index, at row 0"):
        index.remove("new")
    assert list(index.ids) == ["article 000", "article 001", "article 002"]
    index.add(["new"], rows(kind, slice(1)))
    with pytest.raises(TypeError, match="text at row 0"):
        MAKERS[kind]().add([4], rows(kind, slice(1))).add(["new"], rows(kind, slice(1)))


@pytest.mark.parametrize(
    "change",
    [
        {"names": np.frombuffer(b"\xff" * 9, np.uint8)},
        {"names_ends": np.array([0, 9, 3], np.int64)},
        {"names_ends": np.array([0, 3], np.int64)},
        {"ids": np.array([1, 0], np.int64)},
        {"ids": np.array([0, 2**40], np.int64)},
    ],
)
def test_a_file_of_damaged_texts_is_refused(kind, change, tmp_path):
    index = MAKERS["codes" if kind == "cells" else kind]()
    index.add(["tea", "coffee"], rows(kind, slice(2))).save(tmp_path / "a")
    header, arrays = files.opened(tmp_path / "a")
    files.write(tmp_path / "b", header, {**arrays, **change})
    with pytest.raises(IndexFormatError):
        load(tmp_path / "b")


def test_numbers_are_given_in_order_and_kept():
    ids = RowIds()
    column, new = ids.numbered("Index", ["b", "a", "b"])
    assert column.tolist() == [0, 1, 0]
    assert new == ["b", "a"]
    ids.add(new, text=True)
    assert ids.numbered("Index", ["c", "a"])[0].tolist() == [2, 1]
    less = ids.of_rows(np.array([1]))
    assert less.texts(np.array([1, -1])).tolist() == ["a", None]
    assert less.numbered("Index", ["b", "a"])[0].tolist() == [2, 1]
