"""Bytes of a sketch: any damage is a SketchFormatError, never a crash or a huge allocation."""

import base64
import contextlib
import errno
import inspect
import json
import os
import resource
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato import sketch as kinds
from sfumato.core import file_format
from sfumato.core.file_format import atomic_writer, checksum, pack
from sfumato.sketch import CountMin, Sketch, SketchFormatError, load
from sfumato.sketch.lsh import Euclidean
from support.sketch_contract import KEYS, SKETCHES, feed

MADE = [make for factories in SKETCHES.values() for make in factories]
SAMPLES = [made.to_bytes() for make in MADE for made in (make(1), feed(make(1), slice(0, 50)))]
SAMPLES = [data for data in SAMPLES if len(data) < 20_000]


def resealed(body):
    """The bytes with a checksum that fits them, so that only the content can be invalid."""
    return bytes(body) + checksum(memoryview(bytes(body)))


def loads_or_refuses(data):
    try:
        sketch = load(data)
    except SketchFormatError:
        return
    assert isinstance(sketch, Sketch)
    assert load(sketch.to_bytes()) == sketch
    use(sketch)


def use(sketch):
    """Whatever loads can be read, fed and merged, or says in a sentence why not."""
    for step in (lambda: feed(sketch, slice(0, 20)), lambda: sketch.merge(sketch.copy())):
        with contextlib.suppress(ValueError, TypeError):
            step()
    for ask in ("estimate", "contains", "similarity", "heavy_hitters", "estimate_size", "codes"):
        known = {"similarity": sketch, "heavy_hitters": 3}
        read = getattr(sketch, ask, None)
        with contextlib.suppress(ValueError, TypeError):
            if callable(read):
                read(*[known.get(ask, KEYS[:20])] * (len(inspect.signature(read).parameters) > 0))


@settings(max_examples=4_000)
@given(
    st.integers(0, len(SAMPLES) - 1),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    st.integers(-3, 3),
    st.booleans(),
)
def test_mutated_bytes_load_whole_or_are_refused(which, changes, resize, reseal):
    body = bytearray(SAMPLES[which][:-8])
    for fraction, value in changes:
        body[int(fraction**3 * len(body))] = value  # most changes hit the header
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
        {"state": {"total": 2**80, "heaviest": 1, "keys": ""}},
        {"state": {"total": "many", "heaviest": 0, "keys": ""}},
        {"state": {"total": 0, "heaviest": 0, "keys": "floats"}},
        {"state": {"total": 0, "heaviest": 1, "keys": ""}},
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


@pytest.mark.parametrize(
    "failure", [FileNotFoundError("list: there is no such file."), OSError(5, "broken", "list")]
)
def test_what_fails_while_a_file_is_written_keeps_its_own_name(tmp_path, failure):
    def write():
        with atomic_writer(tmp_path / "counts") as file:
            file.write(b"half")
            raise failure

    with pytest.raises(OSError, match="list") as result:
        write()
    assert result.value is failure
    assert not list(tmp_path.iterdir())


def test_what_fails_in_the_file_names_the_file(tmp_path):
    path, limits = tmp_path / "counts", resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write too far is then an error
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        for data in ([bytes(1 << 21)], [bytes(1 << 12)] * 512, [bytes(1 << 20), b"1"]):
            with pytest.raises(OSError, match="counts") as result, atomic_writer(path) as file:
                file.writelines(data)
            assert (result.value.errno, result.value.filename) == (errno.EFBIG, str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list(tmp_path.iterdir())


GOLDEN = {
    "CountMin": lambda: kinds.CountMin(4, 1, seed=3).update(["tea", "milk"]),
    "CountMin compact": lambda: CountMin(8, 1, cells="compact").update([1], [300]),
    "CountMin logarithmic": lambda: CountMin(8, 2, cells="logarithmic").update(
        [1, 2, 2], [9, 1, 1]
    ),
    "CountSketch": lambda: kinds.CountSketch(4, 2, track=2, seed=1).update(["tea", "tea", "rum"]),
    "BloomFilter": lambda: kinds.BloomFilter(64, 3).update([7, -7]),
    "BloomFilter blocked": lambda: kinds.BloomFilter(512, 9, layout="blocked").update(["tea"]),
    "CountingBloomFilter": lambda: kinds.CountingBloomFilter(16, 2).update([1, 2**63]),
    "ScalableBloomFilter": lambda: kinds.ScalableBloomFilter(8).update(range(10)),
    "HyperLogLog": lambda: kinds.HyperLogLog(4).update(range(5)),
    "AMS": lambda: kinds.AMS(2, 1).update([5, 6]),
    "AMS tug-of-war": lambda: kinds.AMS(2, 1, kind="tug-of-war").update([5, 6]),
    "MinHash": lambda: kinds.MinHash(4).update(["a", "b"]),
    "MinHash one-permutation": lambda: kinds.MinHash(4, kind="one-permutation").update([1, 2]),
    "MinHash k-minimum": lambda: kinds.MinHash(4, kind="k-minimum").update([1, 2]),
    "MinHash bits": lambda: kinds.MinHash(4, bits=2).update([1, 2]),
    "CosineSketch": lambda: kinds.CosineSketch(8, dimension=2).update([[1, 2]]),
    "PStableSketch": lambda: kinds.PStableSketch(1.0, dimension=2, hashes=2).update([[1, 2]]),
    "JohnsonLindenstrauss": lambda: kinds.JohnsonLindenstrauss(2, kind="sign").update([1]),
    "FeatureHasher": lambda: kinds.FeatureHasher(4).update(["x"]),
    "TensorSketch": lambda: kinds.TensorSketch(2, dimension=2, degree=1).update([[1, 2]]),
    "Race": lambda: kinds.Race(
        4, 8, Euclidean(0.5, (0, 3), dimension=2), strata="independent"
    ).update([[1, 2], [2.5, 0]]),
}
STORED = json.loads(Path(__file__).with_name("golden.json").read_text())


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_of_this_version_are_those_once_stored(name):
    # A change of hash, cells or format changes them: it must raise the version, and golden.json.
    data = base64.b64decode(STORED[name])
    made = GOLDEN[name]()
    before, after = load(data).to_bytes(), made.to_bytes()
    assert before == after == data


def test_bytes_of_an_older_version_are_refused_and_say_so():
    # Version 2 hashed digits as text otherwise, integers the same.
    for older in ("CountMin, version 1", "CountMin, version 2, text"):
        data = base64.b64decode(STORED[older])
        sentence = "CountMin: version . of the format cannot be read, only 3; use the sfumato that"
        with pytest.raises(SketchFormatError, match=sentence):
            load(data)


def test_integers_of_the_version_before_are_read():
    data = base64.b64decode(STORED["HyperLogLog, version 1, integers"])
    assert load(data) == GOLDEN["HyperLogLog"]()


def test_any_buffer_loads():
    data = CountMin(2, 1, seed=3).update(["tea"]).to_bytes()
    assert load(memoryview(data)) == load(bytearray(data)) == load(data)


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    # Else a loss of power may leave the new name on a part: what "whole or not at all" is about.
    path, order = tmp_path / "counts", []
    fsync, replace = os.fsync, os.replace

    def synced(number):
        order.append(("synced", os.fstat(number).st_size))
        fsync(number)

    def renamed(part, name):
        order.append(("renamed", Path(part).stat().st_size))
        replace(part, name)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    with atomic_writer(path) as file:
        file.write(bytes(100_000))
        file.write(b"end")
    assert order == [("synced", 100_003), ("renamed", 100_003)]


KILLED = """
import os, signal, sys
from pathlib import Path
from sfumato.core.file_format import atomic_writer
with atomic_writer(Path(sys.argv[1])) as file:
    file.write(bytes(1 << 20))
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def unswept(monkeypatch):
    monkeypatch.setattr(file_format, "_SWEPT", set())


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path, unswept):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "counts")], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.stat().st_size == 1 << 20
    CountMin(8).save(tmp_path / "another")
    assert [path.name for path in tmp_path.iterdir()] == ["another"]


def test_only_files_of_ours_whose_writer_is_gone_are_removed(tmp_path, unswept):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here, away = file_format._machine(), "0" * 8
    retained = [
        f".sfumato-{here}-{os.getpid()}-00000000.part",  # of a process that lives
        f".sfumato-{here}-1-00000000.part",  # of somebody else's, who lives as well
        f".sfumato-{away}-{gone.pid}-00000000.part",  # of another machine
        f"sfumato-{here}-{gone.pid}-00000000.part",
        f".sfumato-{here}-{gone.pid}-0000000.part",
        f".sfumato-{here}-{gone.pid}-00000000.part.txt",
        ".counts.1234abcd",
    ]
    old = f".sfumato-{away}-{gone.pid}-11111111.part"
    removed = [f".sfumato-{here}-{gone.pid}-00000000.part", old]
    for name in retained + removed:
        (tmp_path / name).touch()
    os.utime(tmp_path / old, (0, 0))
    folder = tmp_path / f".sfumato-{here}-{gone.pid}-22222222.part"
    folder.mkdir()
    file_format.remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*retained, folder.name])
