"""Lines of reports: all that JSON allows is read, and no line or file can stop the reading."""

import gzip
import io
import json
import re
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.telemetry import LocalHashing, Rappor, Reports, read_reports, write_reports
from sfumato.telemetry.reports import jsonl
from sfumato.telemetry.reports.jsonl import line_bytes, to_lines
from support.simulated_telemetry import any_reports

SCHEME = Rappor(13, 2, 12, f=0.5)
HEX = re.compile("[0-9a-fA-F]*")
made = partial(any_reports, scheme=SCHEME)


def judged(line, scheme=SCHEME):
    """By the letter of the format: (cohort, payload, id), a reason, or None for a blank line."""
    if not line.strip(b" \t\r"):
        return None
    try:
        document = json.loads(str(line, "utf-8"))
    except (ValueError, RecursionError):
        return "unreadable"
    if not isinstance(document, dict) or type(document.get("v")) is not int:
        return "unreadable"
    if document["v"] != 1:
        return "version"
    if type(document.get("params")) is not str:
        return "unreadable"
    if document["params"] != scheme.fingerprint:
        return "parameters"
    cohort, texts = document.get("cohort"), [document.get("bits"), document.get("id")]
    if type(cohort) is not int or any(
        type(text) is not str or len(text) % 2 or not HEX.fullmatch(text) for text in texts
    ):
        return "unreadable"
    payload, name = map(bytes.fromhex, texts)
    if len(name) != 16:
        return "unreadable"
    if len(payload) != scheme.payload_bytes:
        return "length"
    return (cohort, payload, name) if 0 <= cohort < scheme.cohorts else "cohort"


def expected(data, scheme=SCHEME):
    rows, refused = [], {}
    for line in data.split(b"\n"):
        result = judged(line, scheme)
        if isinstance(result, str):
            refused[result] = refused.get(result, 0) + 1
        elif result:
            rows.append(result)
    return rows, refused


def observed(batches):
    rows, refused = [], {}
    for batch in batches:
        columns = zip(batch.cohorts, batch.payload, batch.ids, strict=True)
        rows += [(int(a), b.tobytes(), c.tobytes()) for a, b, c in columns]
        for reason, count in batch.refused.items():
            refused[reason] = refused.get(reason, 0) + count
    return rows, refused


GOOD = to_lines(made(4))
ODD = [
    b"",
    b" \t",
    b"null",
    b"[]",
    b"[" * 3000,
    b"{}",
    b'{"v":1}',
    b'{"v":2}',
    b'{"v":true}',
    b'{"v":1.0,"params":""}',
    b"\xff\xfe",
    b"1" * 5000,
    GOOD.split(b"\n")[0].replace(b'"v":1', b'"v":2'),
    GOOD.split(b"\n")[0].replace(SCHEME.fingerprint.encode(), b"0" * 16),
    GOOD.split(b"\n")[0].replace(b'"bits":"', b'"bits":"00'),
    GOOD.split(b"\n")[0].replace(b'"bits":"', b'"bits":" '),
    GOOD.split(b"\n")[0].replace(b'"id":"', b'"id":"00'),
    GOOD.split(b"\n")[0][:-20],
    json.dumps(json.loads(GOOD.split(b"\n")[0])).encode() + b" \r",
    re.sub(rb'"cohort":\d+', b'"cohort":12', GOOD.split(b"\n")[1]),
    re.sub(rb'"cohort":\d+', b'"cohort":-1', GOOD.split(b"\n")[1]),
    re.sub(rb'"cohort":\d+', b'"cohort":01', GOOD.split(b"\n")[1]),
    re.sub(rb'"cohort":\d+', b'"cohort":true', GOOD.split(b"\n")[1]),
    re.sub(rb'"cohort":\d+', b'"cohort":1e0', GOOD.split(b"\n")[1]),
    re.sub(rb'"cohort":\d+', b'"cohort":' + b"9" * 40, GOOD.split(b"\n")[1]),
]


@pytest.mark.parametrize(
    "scheme", [SCHEME, Rappor(128, 2, 1, f=0.5), LocalHashing(1.0, cohorts=300)]
)
@pytest.mark.parametrize("name", ["reports.ndjson", "reports.ndjson.gz"])
def test_what_is_written_is_read_back(tmp_path, scheme, name):
    reports = made(1000, scheme=scheme)
    assert write_reports(tmp_path / name, [reports.take(slice(0, 1)), reports.take(slice(1, 1000))])
    assert Reports.concat(read_reports(tmp_path / name, scheme)) == reports
    data = (tmp_path / name).read_bytes()
    assert (data[:2] == b"\x1f\x8b") == name.endswith("gz")
    text = to_lines(reports)
    assert max(map(len, text.splitlines(keepends=True))) <= line_bytes(scheme)
    first = json.loads(text.splitlines()[0])
    assert list(first) == ["v", "params", "cohort", "bits", "id"]
    assert first["bits"] == reports.payload[0].tobytes().hex()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*GOOD.splitlines(), *ODD]), max_size=12), st.integers(1, 5))
def test_every_line_is_read_or_counted_as_the_format_says(lines, rows):
    data = b"\n".join(lines)
    want = expected(data)
    batches = list(read_reports(data, SCHEME, rows=rows))
    assert observed(batches) == want
    assert max(map(len, batches), default=0) <= rows
    assert observed(read_reports(lines, SCHEME)) == want
    assert observed(read_reports(io.BytesIO(data), SCHEME)) == want


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=5),
    st.integers(0, len(GOOD)),
)
def test_damaged_bytes_are_read_as_by_json(changes, length):
    data = bytearray(GOOD)
    for at, byte in changes:
        data[at] = byte
    data = bytes(data[:length])
    assert observed(read_reports(data, SCHEME)) == expected(data)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_gzip_file_gives_what_is_before_the_damage(tmp_path_factory, data):
    packed = bytearray(gzip.compress(to_lines(made(50, 1)), mtime=0))
    at = data.draw(st.integers(0, len(packed) - 1))
    cut = data.draw(st.booleans())
    packed[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("gz") / "reports.gz"
    path.write_bytes(packed[:at] if cut else packed)
    _, refused = observed(read_reports(path, SCHEME))
    assert set(refused) <= {"unreadable", "parameters", "cohort", "version", "length"}
    # The header's time, flags and system may change without harm; a checksum covers the others.
    if (at >= 10 or cut) and at > 0:
        assert refused.get("unreadable", 0) >= 1


def test_lines_that_never_end_take_no_memory_and_are_one_refusal(monkeypatch):
    monkeypatch.setattr(jsonl, "LONGEST", 500)
    good = to_lines(made(1))

    def pieces():
        yield good
        yield b'{"v":' + b"1" * 2000
        yield b"2" * 3000
        yield b"\n" + good

    refused = {}
    text = b"".join(jsonl._cut_at_lines(pieces(), refused))
    assert (text, refused) == (good + good, {"unreadable": 1})


def test_only_a_file_that_is_not_there_raises_and_at_once(tmp_path):
    for name in ("none.ndjson", "none.gz"):
        with pytest.raises(FileNotFoundError):
            read_reports(tmp_path / name, SCHEME)
    (tmp_path / "empty.gz").write_bytes(b"")
    assert observed(read_reports(tmp_path / "empty.gz", SCHEME)) == ([], {})
    (tmp_path / "text.gz").write_bytes(GOOD)
    assert observed(read_reports(tmp_path / "text.gz", SCHEME)) == ([], {"unreadable": 1})
    assert observed(read_reports([7, None, "\ud800"], SCHEME)) == ([], {"unreadable": 3})


@pytest.mark.parametrize("invalid", [None, 5])
def test_what_cannot_be_reports_is_refused_by_its_type(tmp_path, invalid):
    with pytest.raises(TypeError, match=f"source must be .* not {type(invalid).__name__}"):
        read_reports(invalid, SCHEME)
    for batches in (invalid, [made(1), invalid]):
        with pytest.raises(TypeError, match=f"must be Reports, not {type(invalid).__name__}"):
            write_reports(tmp_path / "reports", batches)
    assert not list(tmp_path.iterdir())


def test_pieces_of_any_size_give_the_same_reports(monkeypatch):
    data = to_lines(made(200, 2)).replace(b'"cohort":3', b'"cohort": 3')
    want = observed(read_reports(data, SCHEME))
    for size in (1, 7, 130, 1000):
        file = io.BytesIO(data)
        file.read1 = lambda n, file=file, size=size: io.BytesIO.read(file, size)
        assert observed(read_reports(file, SCHEME)) == want


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "reports.ndjson"
    write_reports(path, made(3))

    def broken():
        yield made(2)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_reports(path, broken())
    assert Reports.concat(read_reports(path, SCHEME)) == made(3)
    assert len(list(tmp_path.iterdir())) == 1
