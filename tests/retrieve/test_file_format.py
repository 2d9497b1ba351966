"""The file of an index: mapped, the same answers bit for bit, damage found before use."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.core.file_format import checksum
from sfumato.retrieve import BinaryIndex, IndexFormatError, LshIndex, holds_index, load, qolsh
from sfumato.retrieve.file_format import opened, read_header, write
from sfumato.sketch import CountMin, SketchFormatError

RNG = np.random.default_rng(4)
VECTORS = RNG.normal(size=(200, 6)).astype(np.float32)
MADE = {
    "default": lambda: BinaryIndex(64),
    "kept": lambda: BinaryIndex(100, keep_vectors=True, seed=9),
    "lifted": lambda: BinaryIndex(64, "tight_frame", metric="inner", keep_vectors=True),
    "learned": lambda: BinaryIndex(64, "learned", metric="inner"),
    "short": lambda: BinaryIndex(encoder=qolsh(130, seed=5, center=True, short=True)),
    "cells": lambda: BinaryIndex(64, keep_vectors=True, partitions=7, recall=0.9),
}


def filled(name, removed=True):
    index = MADE[name]().add(np.arange(200) * 3, VECTORS)
    return index.remove([3, 30, 300]) if removed else index


def answers(index):
    found = [index.search(VECTORS[:9], 7, scan="asymmetric")]
    found += [index.search(VECTORS[:9], 7, rerank=rerank) for rerank in (None, "asymmetric")]
    found += [index.search(VECTORS[:9], 7, rerank="exact")] if index.keep_vectors else []
    # A file has its rows cell by cell, without those that were removed.
    ids = index.ids if index.partitions is None else np.sort(index.ids)
    return [part for pair in found for part in pair] + [ids]


def same(one, other):
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("check", [False, True])
def test_a_loaded_index_answers_as_before(tmp_path, name, removed, check):
    index = filled(name, removed)
    index.save(tmp_path / "a.index")
    again = BinaryIndex.load(tmp_path / "a.index", check=check)
    assert same(answers(index), answers(again))
    assert again.parameters == index.parameters
    assert (len(again), again.nbytes) == (len(index), index.compact().nbytes)
    again.save(tmp_path / "b.index")
    assert (tmp_path / "a.index").read_bytes() == (tmp_path / "b.index").read_bytes()
    assert same(answers(load(tmp_path / "b.index")), answers(index))


@pytest.mark.parametrize("name", MADE)
def test_changes_after_loading_are_those_without_and_leave_the_file(tmp_path, name):
    path = tmp_path / "a.index"
    index = filled(name)
    index.save(path)
    before = hashlib.sha256(path.read_bytes()).digest()
    again = BinaryIndex.load(path)
    for each in (index, again):
        each.add([3, 1000], VECTORS[5:7]).remove([9, 1000])
    assert same(answers(index), answers(again))
    for each in (index, again):
        each.compact().add([1000], VECTORS[:1])
    assert same(answers(index), answers(again))
    assert hashlib.sha256(path.read_bytes()).digest() == before
    again.save(path)  # over the file that is mapped
    assert same(answers(again), answers(BinaryIndex.load(path)))
    assert same(answers(again), answers(index))


def test_arrays_are_mapped_and_start_at_cache_lines(tmp_path):
    filled("kept").save(tmp_path / "a.index")
    header, arrays = opened(tmp_path / "a.index", check=False)
    assert header["parameters"]["seed"] == 9
    assert read_header(tmp_path / "a.index")["kind"] == "BinaryIndex"
    assert set(arrays) == {"encoder.centre", "words", "ids", "factors", "vectors"}
    for array in arrays.values():
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable
        assert not array.flags.owndata


def test_a_fitted_index_without_vectors_can_be_saved(tmp_path):
    index = MADE["default"]().fit(VECTORS)
    index.save(tmp_path / "a.index")
    again = BinaryIndex.load(tmp_path / "a.index")
    assert len(again) == 0
    assert (again.search(VECTORS[:2])[1] == -1).all()
    for each in (index, again):
        each.add(np.arange(200), VECTORS)
    assert same(answers(index), answers(again))
    with pytest.raises(ValueError, match="call fit or add first"):
        MADE["default"]().save(tmp_path / "b.index")
    assert not (tmp_path / "b.index").exists()


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.index"
    filled("default").save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sfumato.core.file_format.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        filled("kept").save(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["a.index"]


def test_every_cut_is_found_even_without_reading_the_arrays(tmp_path):
    path, cut = tmp_path / "a.index", tmp_path / "cut.index"
    filled("kept").save(path)
    data = path.read_bytes()
    for size in [*range(0, 2000, 7), len(data) // 2, len(data) - 64, len(data) - 1]:
        cut.write_bytes(data[:size])
        with pytest.raises(IndexFormatError, match=r"cut off|magic"):
            BinaryIndex.load(cut, check=False)
    cut.write_bytes(data + b"\0")
    with pytest.raises(IndexFormatError, match="length"):
        BinaryIndex.load(cut, check=False)


@settings(max_examples=300)
@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_bit_that_turned_is_found(tmp_path_factory, position, bit):
    path = tmp_path_factory.getbasetemp() / "whole.index"
    if not path.exists():
        filled("kept").save(path)
    data = bytearray(path.read_bytes())
    data[int(position**2 * len(data))] ^= 1 << bit  # more changes hit the header
    damaged = path.with_name("damaged.index")
    damaged.write_bytes(data)
    with pytest.raises(IndexFormatError):
        BinaryIndex.load(damaged)


def test_other_files_are_refused_and_say_what_they_hold(tmp_path):
    path = tmp_path / "a.index"
    CountMin(64).save(path)
    with pytest.raises(IndexFormatError, match="holds a sketch, a model or a release"):
        BinaryIndex.load(path)
    assert not holds_index(path)
    path.write_bytes(b"no index at all, but long enough to be read")
    with pytest.raises(IndexFormatError, match="magic"):
        BinaryIndex.load(path)
    with pytest.raises(FileNotFoundError):
        BinaryIndex.load(tmp_path / "none.index")
    write(path, {"kind": "TreeIndex", "version": 1}, {})
    assert holds_index(path)
    for read in (BinaryIndex.load, load):
        with pytest.raises(IndexFormatError, match="holds a 'TreeIndex'"):
            read(path)
    assert issubclass(IndexFormatError, SketchFormatError)


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "a.index"
    filled("default").save(path)
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\x07" + data[5:])
    with pytest.raises(IndexFormatError, match="format 7 of an index cannot be read, only 1"):
        BinaryIndex.load(path)
    path.write_bytes(data)
    header, arrays = opened(path)
    write(tmp_path / "b.index", {**header, "version": 1}, arrays)
    with pytest.raises(IndexFormatError, match="version 1 of the format cannot be read, only 2"):
        BinaryIndex.load(tmp_path / "b.index")


FORGED = {
    "count": lambda header, arrays: header.update(count=199),
    "negative count": lambda header, arrays: header.update(count=-1),
    "count of text": lambda header, arrays: header.update(count="many"),
    "bits": lambda header, arrays: header["parameters"].update(bits=128),
    "metric": lambda header, arrays: header["parameters"].update(metric="angle"),
    "parameter": lambda header, arrays: header["parameters"].update(more=1),
    "kept": lambda header, arrays: header["parameters"].update(keep_vectors=False),
    "radius": lambda header, arrays: header.update(radius=3.0),
    "a lift": lambda header, arrays: (header.update(radius=3.0), arrays.update(centre=np.zeros(6))),
    "signs": lambda header, arrays: header.update(signs=2.0),
    "no encoder": lambda header, arrays: header.pop("encoder"),
    "encoder": lambda header, arrays: header["encoder"].update(kind="best"),
    "dimension": lambda header, arrays: header["encoder"].update(dimension=7),
    "vectors": lambda header, arrays: arrays.update(vectors=arrays["vectors"][:, :5]),
    "no words": lambda header, arrays: arrays.pop("words"),
    "type": lambda header, arrays: arrays.update(factors=arrays["factors"].astype(np.float64)),
    "negative id": lambda header, arrays: arrays.update(ids=arrays["ids"] - 1),
    "twice": lambda header, arrays: arrays.update(ids=arrays["ids"] // 4),
    "one more": lambda header, arrays: arrays.update(more=arrays["ids"]),
}


FORGED_LIFT = {
    "no radius": lambda header, arrays: header.update(radius=None),
    "no radius at all": lambda header, arrays: header.pop("radius"),
    "radius of 0": lambda header, arrays: header.update(radius=0.0),
    "radius of text": lambda header, arrays: header.update(radius="wide"),
    "no lift": lambda header, arrays: (header.update(radius=None), arrays.pop("centre")),
    "no centre": lambda header, arrays: arrays.pop("centre"),
    "short centre": lambda header, arrays: arrays.update(centre=np.zeros(5)),
    "centre of float32": lambda header, arrays: arrays.update(centre=np.zeros(6, np.float32)),
    "NaN": lambda header, arrays: arrays.update(centre=np.full(6, np.nan)),
}


@pytest.mark.parametrize("what", [*FORGED, *FORGED_LIFT])
def test_content_that_does_not_hold_together_is_refused(tmp_path, what):
    filled("kept" if what in FORGED else "lifted").save(tmp_path / "a.index")
    header, arrays = opened(tmp_path / "a.index")
    (FORGED | FORGED_LIFT)[what](header, arrays)
    write(tmp_path / "b.index", header, arrays)
    with pytest.raises(IndexFormatError, match="damaged content"):
        BinaryIndex.load(tmp_path / "b.index")


PLAIN = st.sampled_from(
    [None, -1, 3, 2**70, "<u8", "|O", "<U9", ",", "words", "", [1], [-1], [2**40] * 2]
)


@settings(max_examples=100)
@given(PLAIN | st.lists(PLAIN | st.lists(PLAIN, min_size=4, max_size=4), max_size=2))
def test_any_list_of_arrays_is_read_or_refused(tmp_path_factory, listed):
    path = tmp_path_factory.getbasetemp() / "listed.index"
    with_list(path, listed)
    with pytest.raises(IndexFormatError):
        BinaryIndex.load(path)


@pytest.mark.parametrize(
    "dtype", ["<f8", ",", "(((", "<f8,<f8", "a", "|V8", ">f8", "<f16", "<M8[s]"]
)
@pytest.mark.parametrize("shape", [[0], [0, 2**48, 2**48], [0] * 70])
def test_an_array_of_no_bytes_can_be_listed_wrongly_too(tmp_path, dtype, shape):
    # All sums hold and nothing is read: only the list itself shows it.
    with_list(tmp_path / "a.index", [["ids", dtype, shape, checksum(memoryview(b"")).hex()]])
    with pytest.raises(IndexFormatError):
        BinaryIndex.load(tmp_path / "a.index")


def with_list(path, listed):
    text = json.dumps({"kind": "BinaryIndex", "version": 2, "arrays": listed}).encode()
    text += b" " * (-(len(text) + 24) % 64)
    lead = b"SFIX" + (1).to_bytes(4, "little") + len(text).to_bytes(8, "little")
    path.write_bytes(lead + checksum(memoryview(lead + text)) + text)


@pytest.mark.parametrize("make", [BinaryIndex, LshIndex])
def test_no_removed_vector_is_in_a_file(tmp_path, make):
    secret = np.array([0.12345678, 3.1415927, 2.7182818], np.float32)
    index = make(keep_vectors=True, metric="inner").add([5, 6], [secret, [1, 2, 3]])
    index.save(tmp_path / "with")
    index.remove([5]).save(tmp_path / "without")
    assert secret.tobytes() in (tmp_path / "with").read_bytes()
    assert secret.tobytes() not in (tmp_path / "without").read_bytes()
    assert load(tmp_path / "without").ids.tolist() == index.ids.tolist() == [6]
