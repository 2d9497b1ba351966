"""Reading for private use: whatever one row holds, the others are read as they were without it."""

import gzip
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.data import read_interactions

ROWS = [f"{user},caf\u00e9-{item},1".encode() for user in range(1, 51) for item in range(5)]
HEADER = b"user,item,rating"
BAD = {
    "encoding": b"1,\xe9,1",
    "too many fields": b"1,x,1,2",
    "too few fields": b"1,x",
    "no number": b"1,x,many",
    "no item": b"1,,1",
}
HIDING = {
    "not closed": b'1,"x,1',
    "not closed, in the last field": b'1,x,"1',
    "quote inside": b'1,"x"y",1',
    "backslash": b'1,"x\\"y",1',
    "spans lines": b'1,"x\ny",1,2',
}


def read(folder, rows, **options):
    (folder / "rows.csv").write_bytes(b"\n".join(rows) + b"\n")
    return read_interactions(folder / "rows.csv", duplicates="keep", guess=False, **options)


def pairs(found):
    return list(zip(found.users.tolist(), found.items.tolist(), strict=True))


@pytest.mark.parametrize("at", [0, 3, len(ROWS)])
@pytest.mark.parametrize("malformed", BAD.values(), ids=BAD)
def test_a_bad_row_stops_or_is_counted_and_changes_no_other(tmp_path, malformed, at):
    rows = [HEADER, *ROWS[:at], malformed, *ROWS[at:]]
    with pytest.raises(ValueError, match=f"line {at + 2}: .*; correct it, or give on_error='skip'"):
        read(tmp_path, rows)
    found = read(tmp_path, rows, on_error="skip")
    assert pairs(found) == pairs(read(tmp_path, [HEADER, *ROWS]))
    assert sum(found.report.skipped.values()) == 1


@pytest.mark.parametrize("at", [0, 3, len(ROWS)])
@pytest.mark.parametrize("malformed", HIDING.values(), ids=HIDING)
def test_a_broken_quote_always_stops_since_it_may_hide_others(tmp_path, malformed, at):
    rows = [HEADER, *ROWS[:at], malformed, *ROWS[at:]]
    for on_error in ("raise", "skip"):
        with pytest.raises(ValueError, match=f"line {at + 2}: "):
            read(tmp_path, rows, on_error=on_error)
    with pytest.raises(ValueError, match="so that it is not skipped"):
        read(tmp_path, rows, on_error="skip")


def test_a_quote_that_closes_in_a_later_row_stops(tmp_path):
    rows = [HEADER, b"1,a,1", b'1,"x,1', b"2,b,1", b'2,",x",1', b"3,c,1"]
    with pytest.raises(ValueError, match="line 3: the number of fields is wrong in a row that"):
        read(tmp_path, rows, on_error="skip")


def test_texts_in_a_given_encoding_are_read_in_it(tmp_path):
    plain = pairs(read(tmp_path, [HEADER, *ROWS]))
    for encoding in ("latin-1", "utf-16"):
        text = b"\n".join([HEADER, *ROWS, b""]).decode()
        (tmp_path / encoding).write_text(text, encoding)
        found = read_interactions(tmp_path / encoding, encoding=encoding, guess=False)
        assert pairs(found) == plain
    marked = [b"\xef\xbb\xbf" + HEADER, *ROWS]
    assert pairs(read(tmp_path, marked)) == pairs(read(tmp_path, marked, encoding="utf-8")) == plain


def test_the_first_row_alone_shows_the_delimiter(tmp_path):
    rows = [b"user;item;rating", *(b"%d; a; 1" % user for user in range(9))]
    for more in ([], [b"9;a;1"] * 20):
        assert read(tmp_path, [*rows, *more]).items.tolist()[:9] == [" a"] * 9
    with pytest.raises(ValueError, match="line 2: the number of fields"):
        read(tmp_path, [b"user; item; rating", b"1;a;1", b"2;a;1"])


def test_no_row_stands_for_a_line_of_names_where_others_are_skipped(tmp_path):
    assert len(read(tmp_path, ROWS)) == len(ROWS)
    with pytest.raises(ValueError, match="has no line of names"):
        read(tmp_path, [b"1,x,1,2", *ROWS], on_error="skip")


def test_times_are_read_only_where_given(tmp_path):
    rows = [HEADER + b",time", b"1,a,1,malformed", b"2,a,1,7"]
    assert read(tmp_path, rows).times is None
    assert read(tmp_path, [rows[0], rows[2]], times="time").times.tolist() == [7]
    with pytest.raises(ValueError, match="line 2: the time"):
        read(tmp_path, rows, times="time")
    with pytest.raises(ValueError, match="times do not go with on_error='skip'"):
        read(tmp_path, rows, times="time", on_error="skip")


def test_no_key_of_a_json_object_decides_which_column_is_skipped(tmp_path):
    rows = [{"userid": user, "item": "tea", "rating": 1} for user in range(3)]
    malformed = {"user": 1, "item": "tea", "rating": 1}
    text = "\n".join(map(json.dumps, [*rows, malformed]))
    (tmp_path / "rows.jsonl").write_text(text)
    options = {"guess": False, "on_error": "skip"}
    with pytest.raises(ValueError, match="give users=, items=, ratings=:"):
        read_interactions(tmp_path / "rows.jsonl", **options)
    result = {"users": "userid", "items": "item", "ratings": "rating"}
    found = read_interactions(tmp_path / "rows.jsonl", **options, **result)
    assert found.users.tolist() == [0, 1, 2]


def dropped(folder, rows, name="rows.csv", **options):
    (folder / name).write_bytes(b"\n".join(rows) + b"\n")
    return read_interactions(folder / name, invalid="drop", **options)


@pytest.mark.parametrize("at", [0, 3, len(ROWS)])
@pytest.mark.parametrize("malformed", [*BAD.values(), *HIDING.values()], ids=[*BAD, *HIDING])
def test_whatever_a_line_holds_it_is_dropped_and_no_other_is(tmp_path, malformed, at):
    found = dropped(tmp_path, [HEADER, *ROWS[:at], malformed, *ROWS[at:]])
    assert pairs(found) == pairs(read(tmp_path, [HEADER, *ROWS]))
    assert sum(found.report.skipped.values()) == malformed.count(b"\n") + 1
    assert found.report.rows == len(ROWS) + malformed.count(b"\n") + 1


def test_quotes_within_a_line_are_read_and_rows_keep_their_order(tmp_path):
    rows = [b'"1","a,b",1', b"2,c,2", b'3,"d""e",3', b"4,f,4"]
    found = dropped(tmp_path, [HEADER, *rows])
    assert pairs(found) == [(1, "a,b"), (2, "c"), (3, 'd"e'), (4, "f")]
    long = [b"user::item::rating", b'"1"::a::1', b'"2::a::1', b"3::b::2"]
    assert pairs(dropped(tmp_path, long)) == [(1, "a"), (3, "b")]


def test_lines_in_other_encodings_packed_and_too_long_are_read_or_dropped(tmp_path):
    plain = pairs(read(tmp_path, [HEADER, *ROWS]))
    text = b"\n".join([HEADER, *ROWS, b""])
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / encoding).write_text(text.decode(), encoding)
        found = read_interactions(tmp_path / encoding, encoding=encoding, invalid="drop")
        assert pairs(found) == plain
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text))
    assert pairs(read_interactions(tmp_path / "rows.csv.gz", invalid="drop")) == plain
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(text)[:-9])
    with pytest.raises(ValueError, match="gzip file is damaged"):
        read_interactions(tmp_path / "rows.csv.gz", invalid="drop")
    marked = [b"\xef\xbb\xbf" + HEADER, b"1," + b"x" * (1 << 21) + b",1", *ROWS]
    found = dropped(tmp_path, marked)
    assert pairs(found) == plain
    assert found.report.skipped == {"the line is too long": 1}


def test_without_names_the_first_line_is_a_row_where_header_is_false(tmp_path):
    result = {"header": False, "delimiter": ","}
    for first in (b"user,item,rating", b"malformed", b"1,a,1,2,3", b""):
        found = dropped(tmp_path, [first, *ROWS], "rows.data", **result)
        assert [str(user) for user in found.users[-len(ROWS) :]] == [
            row.split(b",")[0].decode() for row in ROWS
        ]
    assert len(dropped(tmp_path, [b""], "rows.data", **result)) == 0
    assert len(dropped(tmp_path, [b""], "rows.csv", header=False)) == 0  # by its name
    positions = {"users": 2, "items": 0, "ratings": 1}
    assert pairs(dropped(tmp_path, [b"tea,5,7", b"5,7"], "r.data", **result, **positions)) == [
        (7, "tea")
    ]


def test_lines_of_json_are_objects_or_dropped(tmp_path):
    names = {"users": "u", "items": "i", "ratings": "r"}
    lines = [b'{"u": 1, "i": 7, "r": 5}', b'{"u": "1", "i": 7.0, "r": "4", "x": []}']
    malformed = [
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"u": 1, "i": null, "r": 1}',
        b'{"u": [1], "i": 1, "r": 1}',
    ]
    found = dropped(tmp_path, [*lines, *malformed], "rows.jsonl", **names)
    assert (found.users.tolist(), found.items.tolist()) == ([1, 1], [7, 7])
    assert found.ratings.tolist() == [5, 4]
    assert sum(found.report.skipped.values()) == len(malformed)
    with pytest.raises(ValueError, match="give users=, items=, ratings="):
        dropped(tmp_path, lines, "rows.jsonl")
    with pytest.raises(ValueError, match="reads JSON by lines"):
        dropped(tmp_path, lines, "rows.json", **names)


def test_columns_of_frames_are_read_row_by_row(tmp_path):
    columns = {"user": [1, "x", None, 2.0], "item": [7, "7", 7, "b"], "rating": [1, "2", 3, "n"]}
    for source in (columns, pd.DataFrame(columns), iter([columns, pd.DataFrame(columns)])):
        found = read_interactions(source, invalid="drop")
        assert found.users.tolist()[:2] == ["1", "x"]
        assert found.items.tolist()[:2] == [7, 7]
        assert len(found) in (2, 4)
    table = pa.table({"user": [1.0, None, 2.0], "item": ["7", "8", "9"], "rating": [1, 2, None]})
    pq.write_table(table, tmp_path / "rows.parquet")
    for source in (table, tmp_path / "rows.parquet"):
        found = read_interactions(source, invalid="drop")
        assert pairs(found) == [(1, 7)]
        assert found.report.rows == 3
    assert len(read_interactions(iter([]), invalid="drop")) == 0


def test_times_are_not_read_where_rows_are_dropped(tmp_path):
    assert dropped(tmp_path, [HEADER + b",time", b"1,a,1,malformed"]).times is None
    with pytest.raises(ValueError, match="times do not go with"):
        dropped(tmp_path, [HEADER + b",time"], times="time")
