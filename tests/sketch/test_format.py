"""Bytes of a sketch: any damage is a SketchFormatError, never a crash or a huge allocation."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks import SKETCHES
from sfumato.sketch import CountMin, Sketch, SketchFormatError, load
from sfumato.sketch._format import Packed, _checksum, pack

SAMPLES = [make(1).to_bytes() for factories in SKETCHES.values() for make in factories]
SAMPLES = [data for data in SAMPLES if len(data) < 20_000]


def resealed(body):
    """The bytes with a checksum that fits them, so that only the content can be wrong."""
    return bytes(body) + _checksum(memoryview(bytes(body)))


def loads_or_refuses(data):
    try:
        sketch = load(data)
    except SketchFormatError:
        return
    assert isinstance(sketch, Sketch)
    assert load(sketch.to_bytes()) == sketch


@settings(max_examples=10_000)
@given(
    st.integers(0, len(SAMPLES) - 1),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    st.integers(-3, 3),
    st.booleans(),
)
def test_mutated_bytes_load_whole_or_are_refused(which, changes, resize, reseal):
    body = bytearray(SAMPLES[which][:-8])
    for share, value in changes:
        body[int(share**3 * len(body))] = value  # most changes hit the header
    body = body[:resize] if resize < 0 else body + bytes(resize)
    data = resealed(body) if reseal else bytes(body) + SAMPLES[which][-8:]
    loads_or_refuses(data)


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused(data):
    with pytest.raises(SketchFormatError):
        load(data)
    with pytest.raises(SketchFormatError):
        load(resealed(b"SFUM\x01\0\0\0" + data))


def header_of(sketch):
    data = sketch.to_bytes()
    length = int.from_bytes(data[8:16], "little")
    return json.loads(data[16 : 16 + length])


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"width": 2**32, "depth": 32, "seed": 0, "cells": "plain"}},
        {"parameters": {"width": 2**50, "depth": 4, "seed": 0, "cells": "plain"}},
        {"parameters": {"width": 64}},
        {"parameters": []},
        {"state": {}},
        {"state": {"total": 2**80, "keys": ""}},
        {"state": {"total": "many", "keys": ""}},
        {"state": {"total": 0, "keys": "floats"}},
        {"kind": "Unknown"},
        {"kind": "KeyedSketch"},
        {"kind": None},
        {"version": "x"},
        {"version": 99},
    ],
)
def test_a_lying_header_is_refused_without_allocating(change):
    sketch = CountMin(64)
    header = {**header_of(sketch), **change}
    header.pop("arrays")
    data = pack(header, sketch._arrays())
    tracemalloc.start()
    with pytest.raises(SketchFormatError):
        load(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


def test_deeply_nested_headers_are_refused():
    text = b"[" * 100_000
    body = b"SFUM\x01\0\0\0" + len(text).to_bytes(8, "little") + text
    with pytest.raises(SketchFormatError, match="header is damaged"):
        load(resealed(body))


def test_one_kind_does_not_load_as_another():
    from sfumato.sketch import BloomFilter

    with pytest.raises(SketchFormatError, match="BloomFilter: the bytes hold a 'CountMin'"):
        BloomFilter.from_bytes(CountMin(8).to_bytes())


def test_files_are_written_whole(tmp_path):
    path = tmp_path / "counts.sketch"
    sketch = CountMin(64).update([1, 2, 2])
    sketch.save(path)
    assert load(path) == sketch == load(str(path))
    sketch.update([3]).save(path)
    assert load(path) == sketch
    assert [p.name for p in tmp_path.iterdir()] == ["counts.sketch"]
    with pytest.raises(FileNotFoundError):
        sketch.save(tmp_path / "no such folder" / "x")


def test_bytes_are_stable():
    # The format is a promise: these bytes were written by version 1 and must load for ever.
    data = CountMin(2, 1, seed=3).update(["tea"]).to_bytes()
    assert data[:8] == b"SFUM\x01\x00\x00\x00"
    assert Packed(data).kind == "CountMin"
    assert np.frombuffer(data[-16:-8], np.int32).sum() == 1
    assert load(memoryview(data)) == load(bytearray(data)) == load(data)
