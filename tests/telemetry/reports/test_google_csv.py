"""The CSV files of google/rappor: read, written, and refused by line where malformed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.telemetry import (
    Counts,
    GoogleRappor,
    LocalHashing,
    Rappor,
    ReportEncoder,
    read_counts_csv,
    read_map_csv,
    read_params_csv,
    read_reports_csv,
    write_counts_csv,
    write_map_csv,
    write_params_csv,
    write_reports_csv,
)

TWO = GoogleRappor(16, 2, 2, f=0.5, p=0.5, q=0.75)
FOUR = GoogleRappor(16, 2, 4, f=0.5)
REPORTS = b"""client,cohort,bloom,prr,irr
5,1,secret,secret,0000111100001111
5,1,secret,secret,0000000000111100
"""
COUNTS = b"0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\r\n2,1,1,2,2,1,1,0,0,1,1,1,1,0,0,0,0\r\n"
MAP = (
    b"apple,5,1,26,26,38,34,63,62\r\n"
    b"banana,12,14,28,24,37,34,62,49\r\n"
    b"carrot,4,12,25,21,48,38,61,54\r\n"
)


def put(folder, data):
    path = folder / "file.csv"
    path.write_bytes(data)
    return path


def test_parameters_are_read_and_written(tmp_path):
    path = put(tmp_path, b"k,h,m,p,q,f\n32,2,64,0.5,0.75,0.6\n")
    scheme = read_params_csv(path, metric="home page")
    assert scheme == GoogleRappor(32, 2, 64, f=0.6, p=0.5, q=0.75, metric="home page")
    write_params_csv(path, scheme)
    assert path.read_bytes() == b"k,h,m,p,q,f\r\n32,2,64,0.5,0.75,0.6\r\n"
    assert read_params_csv(path, own=True) == Rappor(32, 2, 64, f=0.6, p=0.5, q=0.75)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the header"),
        ("k,h,m,p,q\n32,2,64,0.5,0.75,0.6\n", "line 1: the header"),
        ("k,h,m,q,p,f\n32,2,64,0.5,0.75,0.6\n", "line 1: the header"),
        ("k,h,m,p,q,f\n", "line 2: one row"),
        ("k,h,m,p,q,f\n32,2,64,0.5,0.75,0.6\nextra\n", "line 2: one row"),
        ("k,h,m,p,q,f\n\n32,2,64,0.5,0.75\n", "line 3: one row"),
        ("k,h,m,p,q,f\n32,2,6.4,0.5,0.75,0.6\n", "line 2: k, h and m"),
        ("k,h,m,p,q,f\n32,2,64,0.5,0.25,0.6\n", "line 2: GoogleRappor: p must be"),
        ("k,h,m,p,q,f\n32,2,64,0.5,0.75,nan\n", "line 2: GoogleRappor: f must be"),
        ("k,h,m,p,q,f\n128,2,64,0.5,0.75,0.6\n", "line 2: GoogleRappor: bits.*own=True"),
    ],
)
def test_invalid_parameters_are_refused_by_line(tmp_path, text, message):
    with pytest.raises(ValueError, match=f"file.csv, {message}"):
        read_params_csv(put(tmp_path, text.encode()))


def test_reports_are_summed_as_the_published_tool_does(tmp_path):
    # sum_bits_test.py: the last digit is the first bit.
    for header in (b"client,cohort,bloom,prr,irr", b"user_id,cohort,bloom,prr,rappor"):
        path = put(tmp_path, header + REPORTS[REPORTS.index(b"\n") :])
        counts = Counts(TWO).update(read_reports_csv(path, TWO))
        write_counts_csv(path, counts)
        assert path.read_bytes() == COUNTS
        assert read_counts_csv(path, TWO) == counts.without_ids()


def test_reports_come_back_without_what_must_stay_secret(tmp_path):
    scheme = Rappor(37, 2, 5, f=0.5)
    reports = ReportEncoder(scheme, seed=1).encode_many(["tea", "rum", "tea"] * 20)
    path = tmp_path / "reports.csv"
    write_reports_csv(path, reports)
    again = read_reports_csv(path, scheme)
    assert (again.cohorts == reports.cohorts).all()
    assert (again.payload == reports.payload).all()
    assert len(np.unique(again.ids, axis=0)) == 60
    lines = path.read_text().splitlines()
    assert lines[0] == "client,cohort,bloom,prr,irr"
    assert all(line.split(",")[2:4] == ["", ""] for line in lines[1:])
    assert len(read_reports_csv(put(tmp_path, REPORTS[: REPORTS.index(b"\n")]), scheme)) == 0
    with pytest.raises(ValueError, match="kind 'bits'"):
        write_reports_csv(
            path, ReportEncoder(LocalHashing(1.0, cohorts=2), seed=1).encode_many(["a"])
        )


@pytest.mark.parametrize("text", ["", "client,cohort,irr\n"])
def test_an_unknown_header_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match="line 1: the header"):
        read_reports_csv(put(tmp_path, text.encode()), TWO)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,1,,", "unreadable"),
        ("1,1,,,GOOD,1", "unreadable"),
        ('1,1,"x,,GOOD', None),
        ('1,1,"x,y",,GOOD', "unreadable"),
        ("1,2,,,GOOD", "cohort"),
        ("1,-1,,,GOOD", "unreadable"),
        ("1,,,,GOOD", "unreadable"),
        ("1,99999999999999999999,,,GOOD", "unreadable"),
        ("1,1,,,GOOD0", "length"),
        ("1,1,,,000011110000111", "length"),
        ("1,1,,,0000111100001112", "unreadable"),
        ("\xe9,1,,,\xe9\xe900111100001111", "unreadable"),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_invalid_report_is_counted_and_changes_no_other(tmp_path, line, reason, at):
    lines = ["1,0,,,GOOD", "2,1,,,1111000011110000"]
    lines.insert(at, line)
    text = "client,cohort,bloom,prr,irr\n" + "\n".join(lines) + "\n"
    path = put(tmp_path, text.replace("GOOD", "0000111100001111").encode("latin-1"))
    found = read_reports_csv(path, TWO)
    if reason is None:  # a quote is a letter of a column that is not read
        found = found.take(np.arange(3) != at)
    else:
        assert dict(found.refused) == {reason: 1}
    assert found.cohorts.tolist() == [0, 1]
    assert found.payload.tolist() == [[15, 15], [240, 240]]
    counts = Counts(TWO).update(read_reports_csv(path, TWO))
    assert counts.refused == ({} if reason is None else {reason: 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there must be 2 rows.*fewer"),
        ("Z", "line 2: there must be 2 rows.*fewer"),
        ("ZZZ", "line 3: there must be 2 rows.*more"),
        ("Z2,1\r\n", "line 2: there must be 17 numbers, not 2"),
        ("Z2,3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\r\n", "line 2: a count is above"),
        ("Z2,-3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\r\n", "line 2: a count is negative"),
        ("Z2,x,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\r\n", "line 2: all but"),
        ("Z2,0.5,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\r\n", "line 2: all but"),
        ("Z" + "9" * 30 + ",0" * 16 + "\r\n", "line 2: all but"),
        ("Z" + "9" * 18 + ",0" * 16 + "\r\n" + "Z", "line 3: there must be 2 rows"),
        ("Z" + "9" * 19 + ",0" * 16 + "\r\n", "line 2: "),
        ('Z"2', "line 2: the line is no CSV"),
    ],
)
def test_invalid_counts_are_refused_by_line(tmp_path, text, message):
    text = text.replace("Z", "0" + ",0" * 16 + "\r\n")
    with pytest.raises(ValueError, match=f"file.csv, {message}"):
        read_counts_csv(put(tmp_path, text.encode()), TWO)


def test_maps_are_those_of_the_published_tool(tmp_path):
    path = tmp_path / "map.csv"
    write_map_csv(path, FOUR, ["apple", "banana", "carrot"])
    assert path.read_bytes() == MAP
    found = read_map_csv(path, FOUR)
    assert found.values == ["apple", "banana", "carrot"]
    assert (np.sort(found.members) == np.sort(FOUR.members(found.values))).all()
    own = Rappor(100, 3, 7, f=0.5)
    write_map_csv(path, own, words := [f'w, "{i}"\n' for i in range(50)])
    found = read_map_csv(path, own)
    assert found.values == words
    assert (np.sort(found.members) == np.sort(own.members(words))).all()


def test_positions_may_come_in_any_order_and_twice(tmp_path):
    found = read_map_csv(
        put(tmp_path, b"a,64,1,1,17,1,2,33,33\na,1,1,1,1,1,1,1,1\n,3,3,3,3,3,3,3,3\n"), FOUR
    )
    assert found.values == ["a", ""]
    assert found.members.tolist() == [
        [[0, 1], [0, -1], [0, -1], [15, -1]],
        [[2, -1], [-1, -1], [-1, -1], [-1, -1]],
    ]
    assert len(read_map_csv(put(tmp_path, b""), FOUR)) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,1,2,3\n", "line 1: there must be 8 numbers after the candidate, not 3"),
        ("OK" + "b,0,1,1,1,1,1,1,1\n", "line 2: a position must be from 1 to 64"),
        ("OK" + "b,65,1,1,1,1,1,1,1\n", "line 2: a position must be from 1 to 64"),
        ("OK" + "b,1,x,1,1,1,1,1,1\n", "line 2: all but the candidate"),
        ("OK\xff", "line 2: the text is not UTF-8"),
    ],
)
def test_invalid_maps_are_refused_by_line(tmp_path, text, message):
    text = text.replace("OK", "a,1,1,17,17,33,33,49,50\n")
    with pytest.raises(ValueError, match=f"file.csv, {message}"):
        read_map_csv(put(tmp_path, text.encode("latin-1")), FOUR)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_files_are_read_or_refused_in_a_sentence(tmp_path_factory, data):
    text, read = data.draw(
        st.sampled_from(
            [
                (REPORTS, lambda path: read_reports_csv(path, TWO)),
                (COUNTS, lambda path: read_counts_csv(path, TWO)),
                (MAP, lambda path: read_map_csv(path, FOUR)),
                (b"k,h,m,p,q,f\n32,2,64,0.5,0.75,0.6\n", read_params_csv),
            ]
        )
    )
    body = bytearray(text)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))] if data.draw(st.booleans()) else body
    path = tmp_path_factory.mktemp("csv") / "file.csv"
    path.write_bytes(body)
    message = "file.csv"
    try:
        read(path)
    except ValueError as error:
        message = str(error)
    assert message.startswith("file.csv")
    assert "secret" not in message
