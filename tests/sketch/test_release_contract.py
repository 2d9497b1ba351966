"""Every public release keeps the contract of tests/releases.py; other sketches refuse, with why."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato.sketch
from sfumato.core.file_format import checksum
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CountMin, Release, SketchFormatError, load
from support.observable import repacked, use
from support.release_cases import RELEASES
from support.release_contract import CHECKS
from support.sketch_contract import SKETCHES, feed

PUBLIC = [getattr(sfumato.sketch, name) for name in sfumato.sketch.__all__]
CASES = [
    pytest.param(case, id=f"{name}-{at}")
    for name, cases in RELEASES.items()
    for at, case in enumerate(cases)
]
SAMPLES = [case.release().to_bytes() for cases in RELEASES.values() for case in cases]
SAMPLES = [data for data in SAMPLES if len(data) < 30_000]


def test_every_public_release_has_joined():
    kinds = {c.__name__ for c in PUBLIC if isinstance(c, type) and issubclass(c, Release)}
    assert kinds - {"Release"} <= set(RELEASES)  # there are more, of the models
    assert all(
        type(case.release()).__name__ == name for name in RELEASES for case in RELEASES[name]
    )


@pytest.mark.parametrize("case", CASES)
def test_contract(case, tmp_path):
    for check in CHECKS:
        folder = tmp_path / check.__name__
        folder.mkdir()
        check(case, folder)


@pytest.mark.parametrize("name", SKETCHES)
def test_every_sketch_releases_or_says_why_not(name):
    cases = [case for cases in RELEASES.values() for case in cases]
    fitting = [case.arguments for case in cases if type(case.make()).__name__ == name]
    arguments = {"epsilon": 1.0, "source": InsecureSeededSource(1), **(fitting or [{}])[0]}
    result = [outcome(feed(make(1)), arguments) for make in SKETCHES[name]]
    for why in (each for each in result if isinstance(each, str)):
        assert why.startswith(f"{name}: cannot be released, ")
        assert "no mechanism is proved for it." not in why
    assert any(isinstance(each, Release) for each in result) == bool(fitting)


def outcome(sketch, arguments):
    """The release, or the sentence why there is none."""
    try:
        return sketch.release(**arguments)
    except ValueError as refused:
        return str(refused)


def resealed(body):
    """The bytes with a checksum that fits them, so that only the content can be invalid."""
    return bytes(body) + checksum(memoryview(bytes(body)))


@settings(max_examples=300)
@given(
    st.integers(0, len(SAMPLES) - 1),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    st.integers(-3, 3),
)
def test_mutated_bytes_load_whole_or_are_refused(which, changes, resize):
    body = bytearray(SAMPLES[which][:-8])
    for fraction, value in changes:
        body[int(fraction**3 * len(body))] = value  # most changes hit the header
    body = body[:resize] if resize < 0 else body + bytes(resize)
    try:
        release = load(resealed(body))
    except SketchFormatError:
        return
    assert load(release.to_bytes()) == release
    list(use(release))


@pytest.mark.parametrize(
    "lie",
    [
        {"epsilon": 0.0},
        {"epsilon": 0.1},
        {"source": "dice"},
        {"loss": {"kind": "None"}},
        {"relation": "replace"},
        {"more": 1},
    ],
)
def test_a_statement_that_lies_is_refused(lie):
    with pytest.raises(SketchFormatError, match="ReleasedCountMin: damaged content"):
        load(repacked(CountMin(8, 1).release(1.0), **lie))


@pytest.mark.parametrize("depth", [300, 500])
def test_a_statement_that_nests_without_end_is_refused(depth):
    nested = {"kind": "Pure", "epsilon": 1.0, "relation": "add/remove"}
    for _ in range(depth):
        nested = {"kind": "Sampled", "rate": 0.5, "of": nested, "relation": "add/remove"}
    with pytest.raises(SketchFormatError, match=r"nested too deep|header is damaged"):
        load(repacked(CountMin(8, 1).release(1.0), loss=nested))
