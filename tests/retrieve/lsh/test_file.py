"""An LshIndex comes back from its file as it was, and no damaged file is taken for one."""

import numpy as np
import pytest

from sfumato.retrieve import IndexFormatError, LshIndex, load
from sfumato.retrieve import file_format as files

METRICS = [{"metric": "cosine"}, {"metric": "inner"}, {"metric": "euclidean", "width": 3.0}]


def made(**options):
    X = np.random.default_rng(0).normal(size=(300, 9))
    return LshIndex(6, 3, probes=2, **options).add(np.arange(300), X).remove(np.arange(0, 300, 7))


def same(left, right):
    Q = np.random.default_rng(1).normal(size=(8, 9))
    pairs = zip(left.search(Q, 7), right.search(Q, 7), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs) and np.array_equal(left.ids, right.ids)


@pytest.mark.parametrize("options", METRICS)
@pytest.mark.parametrize("check", [True, False])
def test_a_loaded_index_answers_and_changes_as_the_saved_one(tmp_path, options, check):
    index = made(**options)
    index.save(tmp_path / "a")
    other = LshIndex.load(tmp_path / "a", check=check)
    assert isinstance(load(tmp_path / "a"), LshIndex)
    assert other.parameters == index.parameters
    assert same(index, other)
    new = np.random.default_rng(2).normal(size=(2, 9))
    for each in (index, other):
        each.add([0, 1000], new).remove(4)
    assert same(index, other)
    assert same(index.compact(), other.compact())


def test_an_index_without_rows_or_vectors_is_stored_too(tmp_path):
    LshIndex(2, 2, metric="inner").fit(np.eye(3)).save(tmp_path / "a")
    assert LshIndex.load(tmp_path / "a").add([5], np.eye(3)[:1]).ids.tolist() == [5]
    index = LshIndex(2, 2, keep_vectors=False).add([1, 2], np.eye(2))
    index.save(tmp_path / "b")
    other = LshIndex.load(tmp_path / "b")
    assert all(map(np.array_equal, index.candidates(np.eye(2)), other.candidates(np.eye(2))))
    with pytest.raises(ValueError, match="nothing to save"):
        LshIndex().save(tmp_path / "c")


def test_every_cut_and_every_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "a"
    made().save(path)
    data = path.read_bytes()
    for end in range(0, len(data), 997):
        path.write_bytes(data[:end])
        with pytest.raises(IndexFormatError):
            LshIndex.load(path)
    for at in range(0, len(data), 997):
        path.write_bytes(data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :])
        with pytest.raises(IndexFormatError):
            LshIndex.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows", lambda a: a + 300),
        ("rows", lambda a: a - 1),
        ("rows", lambda a: a[:-1]),
        ("starts", lambda a: a[::-1].copy()),
        ("first", lambda a: a + 1),
        ("keys", lambda a: a.astype(np.int64)),
        ("ids", lambda a: a[:-1]),
        ("ids", lambda a: -a),
        ("ids", lambda a: a // 2),
        ("ids", lambda a: a.reshape(1, -1)),
        ("more", lambda a: np.zeros(3)),
        ("vectors", lambda a: a[:, :-1].copy()),
        ("vectors", None),
        ("centre", lambda a: a * np.nan),
        ("centre", lambda a: a[:-1]),
        ("centre", None),
    ],
)
def test_a_file_whose_arrays_do_not_go_together_is_refused(tmp_path, name, change):
    # Checksums are right here: such a file was made so, and could lead a kernel astray.
    made(metric="inner").save(tmp_path / "a")
    header, arrays = files.opened(tmp_path / "a")
    old = arrays.pop(name, None)
    if change is not None:
        arrays[name] = change(old)
    files.write(tmp_path / "b", header, arrays)
    with pytest.raises(IndexFormatError, match="LshIndex: damaged"):
        LshIndex.load(tmp_path / "b")


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "BinaryIndex"},
        {"version": 3},
        {"count": -1},
        {"dimension": 8},
        {"dimension": 0},
        {"dimension": 2**26},
        {"radius": 1.0},
        {"parameters": {"bands": 0}},
        {"parameters": {"unknown": 0}},
    ],
)
def test_a_header_that_does_not_fit_is_refused(tmp_path, change):
    made().save(tmp_path / "a")
    header, arrays = files.opened(tmp_path / "a")
    files.write(tmp_path / "b", {**header, **change}, arrays)
    with pytest.raises(IndexFormatError):
        LshIndex.load(tmp_path / "b")
