"""Every format of ratings reads equally; a bad row is named by its line or counted, no value is."""

import gzip
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from sfumato.data import Interactions, generate_world, read_interactions

REAL = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[4] / "shared" / "data"))
WORLD = generate_world(users=60, items=50, ratings=900, random_state=4).interactions
NAMES = {"user_id": WORLD.users, "movieId": WORLD.items, "Rating": WORLD.ratings}
TABLE = pa.table({**NAMES, "timestamp": WORLD.times})
FRAMES = {
    "arrow": TABLE,
    "batches": iter(TABLE.to_batches(max_chunksize=100)),
    "pandas": TABLE.to_pandas(),
    "polars": pl.from_arrow(TABLE),
    "dict": TABLE.to_pydict(),
    "dataset": pa.dataset.dataset(TABLE),
    "reader": TABLE.to_reader(100),
    "duckdb": duckdb.connect().from_arrow(TABLE),
}


def written(path, text, encoding="utf-8"):
    data = text if isinstance(text, bytes) else text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def lines(delimiter, *, header=False, quote=""):
    columns = zip(*(column.to_pylist() for column in TABLE.columns), strict=True)
    rows = [TABLE.column_names] * header + [list(map(str, row)) for row in columns]
    quoted = ([f"{quote}{field}{quote}" for field in row] for row in rows)
    return "".join(delimiter.join(row) + "\n" for row in quoted)


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_of_every_library_read_equally(frame):
    assert read_interactions(frame) == WORLD


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("delimiter", ["::", "\t", ",", ", ", ";", "; ", "|", " "])
def test_delimited_files_of_every_dialect_read_equally(tmp_path, delimiter, quote, header, ending):
    path = written(tmp_path / f"ratings.dat{ending}", lines(delimiter, header=header, quote=quote))
    assert read_interactions(path) == WORLD


def test_parquet_and_json_read_equally(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=100)
    records = TABLE.to_pylist()
    written(tmp_path / "a.jsonl.gz", "".join(json.dumps(record) + "\n" for record in records))
    written(tmp_path / "a.json", json.dumps(records))
    for name in ("a.parquet", "a.jsonl.gz", "a.json"):
        assert read_interactions(tmp_path / name) == WORLD


def test_files_are_read_one_after_the_other_by_glob_or_list(tmp_path):
    half = len(WORLD) // 2
    pq.write_table(TABLE.slice(0, half), tmp_path / "1.parquet")
    pq.write_table(TABLE.slice(half), tmp_path / "2.parquet")
    assert read_interactions(f"{tmp_path}/*.parquet") == WORLD
    assert read_interactions([tmp_path / "1.parquet", tmp_path / "2.parquet"]) == WORLD


def test_columns_are_taken_by_name_or_position(tmp_path):
    path = written(tmp_path / "a.csv", "when,stars,what,who,more\n9,2,7,5,x\n")
    wanted = Interactions([5], [7], [2], times=[9])
    assert read_interactions(path, users="who", items="what", ratings="stars", times=0) == wanted
    assert read_interactions(path, users=3, items=2, ratings=1, times="when") == wanted
    frame = pd.DataFrame([[9, 2, 7, 5]])
    assert read_interactions(frame, users=3, items=2, ratings=1, times=0) == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "cannot find the column of users; give users="),
        ({"users": "no"}, "there is no column 'no'; there are 3 columns; if line 1 holds no"),
        ({"users": 3}, "users must be a position from 0 to 2, not 3"),
        ({"users": 0, "items": 0, "ratings": 2}, "two roles have one column"),
        ({"users": 0, "items": 1, "ratings": "c", "header": False}, "has no header line"),
        ({"delimiter": ""}, "delimiter must be 1 to 4 characters"),
        ({"encoding": "cp1252"}, "encoding must be one of"),
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"header": 1}, "header must be True or False"),
    ],
)
def test_columns_and_options_that_are_not_there_are_refused(tmp_path, options, message):
    path = written(tmp_path / "a.csv", "a,b,c\n1,2,3\n")
    with pytest.raises(ValueError, match=message):
        read_interactions(path, **options)


@pytest.mark.parametrize("options", [{}, {"users": "who"}, {"users": "who", "header": True}])
def test_values_of_a_line_taken_for_names_are_not_shown(tmp_path, options):
    path = written(tmp_path / "a.csv", "zoe,tea,five\nbob,rum,four\n")
    with pytest.raises(ValueError, match="3 columns; if line 1 holds no names") as result:
        read_interactions(path, **options)
    assert not any(word in str(result.value) for word in ("zoe", "tea", "five"))
    with pytest.raises(ValueError, match="the columns are: ann, tea"):
        read_interactions({"ann": [1], "tea": [2]}, **options)


PAIRS = Interactions([5, 5, 6], ["a", "b", "a"])


@pytest.mark.parametrize("form", ["{},{}\n", "{}\t{}\n", "{}::{}\n", "{} {}\n", "{}|{}\n"])
@pytest.mark.parametrize("header", [True, False])
def test_two_columns_are_users_and_items(tmp_path, form, header):
    rows = [("userID", "artistID")] if header else []
    rows += zip(PAIRS.users, PAIRS.items, strict=True)
    path = written(tmp_path / "a.dat", "".join(form.format(*row) for row in rows))
    for options in ({}, {"ratings": False}, {"guess": False}):
        assert read_interactions(path, **options) == PAIRS
    dropped = read_interactions(path, invalid="drop")
    assert (dropped, dropped.report.rows) == (PAIRS, 3)


def test_sources_of_every_kind_are_read_without_ratings(tmp_path):
    columns = {"user": [5, 5, 6], "item": ["a", "b", "a"], "time": [3, 1, 2]}
    timed = Interactions(*(columns[name] for name in ("user", "item")), times=columns["time"])
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "a.parquet")
    written(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    written(tmp_path / "a.csv", "time,user,item\n3,5,a\n1,5,b\n2,6,a\n")
    frames = [columns, table, table.to_pandas(), pl.from_arrow(table), duckdb.from_arrow(table)]
    files = [tmp_path / f"a.{ending}" for ending in ("parquet", "jsonl", "csv")]
    named = {"users": "user", "items": "item", "ratings": False}
    for source in (*frames, *files):
        assert read_interactions(source) == timed
        assert read_interactions(source, times=False, **named) == PAIRS
        assert read_interactions(source, invalid="drop", **named) == PAIRS


@pytest.mark.parametrize("name", ["plays", "play_count", "weight", "Clicks", "listens", "count"])
def test_counts_are_ratings(tmp_path, name):
    path = written(tmp_path / "a.dat", f"userID\tartistID\t{name}\n5\t7\t13883\n")
    assert read_interactions(path) == Interactions([5], [7], [13883])
    assert read_interactions(path, ratings=False) == Interactions([5], [7])
    stars = {"user": [5], "item": [7], name: [9], "stars": [4]}
    assert read_interactions(stars).ratings.tolist() == [4]


def test_names_with_spaces_do_not_make_a_space_delimit(tmp_path):
    path = written(tmp_path / "a.csv", "user,item\nann lee,iced tea\nbob ray,dark rum\n")
    assert read_interactions(path).items.tolist() == ["iced tea", "dark rum"]
    path = written(tmp_path / "b.csv", "1,the iced tea\n2,some dark rum\n")
    assert read_interactions(path).items.tolist() == ["the iced tea", "some dark rum"]


def test_a_first_line_of_texts_is_not_lost_where_no_rating_shows_that_it_is_a_row(tmp_path):
    path = written(tmp_path / "a.csv", "ann,tea\nbob,rum\n")
    with pytest.raises(ValueError, match="users; give users=; there are 2 columns; if line 1"):
        read_interactions(path)
    for options in ({}, {"invalid": "drop", "ratings": False}):
        with pytest.raises(ValueError, match="line 1 may hold names or values; give header="):
            read_interactions(path, users=0, items=1, **options)
        for header, wanted in ((True, ["rum"]), (False, ["tea", "rum"])):
            found = read_interactions(path, users=0, items=1, header=header, **options)
            assert found.items.tolist() == wanted


def test_files_with_and_without_ratings_are_not_mixed(tmp_path):
    files = [
        written(tmp_path / "a.csv", "user,item,rating\n5,a,1\n"),
        written(tmp_path / "b.csv", "user,item\n6,b\n"),
    ]
    for options in ({}, {"invalid": "drop"}):
        with pytest.raises(ValueError, match="some have none; give ratings=False"):
            read_interactions(files, **options)
        found = read_interactions(files, ratings=False, **options)
        assert (found.users.tolist(), found.has_ratings) == ([5, 6], False)
    for wrong in (True, 1.5):
        with pytest.raises(TypeError, match=r"ratings must be .*\(False: there is none\)"):
            read_interactions(files, ratings=wrong)
    with pytest.raises(TypeError, match="users must be a column's name or position"):
        read_interactions(files, users=False)


def test_what_has_no_rows_has_its_columns_all_the_same(tmp_path):
    for names, rated in (("user,item", False), ("user,item,rating", True)):
        path = written(tmp_path / "a.csv", names + "\n")
        frame = pa.table({name: pa.array([], pa.int64()) for name in names.split(",")})
        for source in (path, frame):
            for options in ({}, {"invalid": "drop"}):
                found = read_interactions(source, **options)
                assert (len(found), found.has_ratings) == (0, rated)


@pytest.mark.parametrize("latest", ["", ",30", ",2001-01-01", ",2001-01-01T10:00:00Z"])
def test_of_several_ratings_of_a_pair_the_latest_stays(tmp_path, latest):
    # Without times the last row is the latest; otherwise the one in the middle.
    early = {"": "", ",30": ",10"}.get(latest, ",2000-12-31")
    rows = [f"1,7,1{early}", f"2,7,3{early}", f"1,7,5{latest}", f"1,7,2{early}"]
    found = read_interactions(written(tmp_path / "a.csv", "\n".join(rows)))
    assert found.ratings.tolist() == ([3, 5] if latest else [3, 2])
    assert (found.report.rows, found.report.kept, found.report.duplicates) == (4, 2, 2)
    retained = read_interactions(tmp_path / "a.csv", duplicates="keep")
    assert retained.ratings.tolist() == [1, 3, 5, 2]
    assert (retained.report.kept, retained.report.duplicates) == (4, 0)
    with pytest.raises(ValueError, match="duplicates must be"):
        read_interactions(tmp_path / "a.csv", duplicates="first")


def test_of_equal_times_the_later_row_stays():
    observed = {"user": [1, 1, 1], "item": [7, 7, 7], "rating": [1, 2, 3], "time": [5, 9, 9]}
    assert read_interactions(observed).ratings.tolist() == [3]


def test_ids_stay_as_they_are_written(tmp_path):
    def ids(*texts):
        rows = "".join(f"{text},{n},3\n" for n, text in enumerate(texts))
        return read_interactions(written(tmp_path / "a.csv", rows)).users.tolist()

    assert ids("7", "-8") == [7, -8]
    assert ids("tea", '"tea "') == ["tea", "tea "]
    assert ids("7", "007") == ["7", "007"]
    assert ids("7", "tea") == ["7", "tea"]
    assert ids("1", str(2**63)) == ["1", str(2**63)]
    late = [str(n) for n in range(140_000)]
    assert ids(*late, "x") == [*late, "x"]


BAD = {
    "1,2": "the number of fields is wrong",
    "1,2,3,4,5": "the number of fields is wrong",
    "Secret,,3,4": "the item is empty",
    ",Secret,3,4": "the user is empty",
    "1,2,Secret,4": "the rating is not a finite number",
    "1,2,nan,4": "the rating is not a finite number",
    "1,2,inf,4": "the rating is not a finite number",
    "1, ,3,4": "the item is empty",
    "1,2,,4": "the rating is not a finite number",
    "1,2,3,Secret": "the time is neither a number nor a date",
    '1,"Secret,3,4': "a quote is not closed",
}


@pytest.mark.parametrize(("row", "reason"), BAD.items())
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_bad_row_stops_with_file_line_and_reason_and_no_value(tmp_path, row, reason, ending):
    # Blank lines and a field over two lines stand before it, so that rows are no lines.
    text = f'user,item,rating,time\n1,2,3,4\n\n1,"a\nb",3,4\n\n{row}\n'
    path = written(tmp_path / f"a.{ending}", text)
    with pytest.raises(ValueError, match=f"a.{ending}: line 7: {reason}") as result:
        read_interactions(path)
    assert "Secret" not in str(result.value)


def test_a_bad_row_far_down_is_named_by_its_line(tmp_path):
    rows = "1,2,3\n" * 150_000
    with pytest.raises(ValueError, match=r"a.csv: line 150001: the rating"):
        read_interactions(written(tmp_path / "a.csv", f"{rows}1,2,x\n1,2\n"))
    with pytest.raises(ValueError, match=r"a.csv: line 150001: the number"):
        read_interactions(written(tmp_path / "a.csv", f"{rows}1,2\n1,2,x\n"))


def test_bad_rows_are_skipped_and_counted_by_reason(tmp_path):
    rows = [row for row in BAD if '"' not in row]
    path = written(tmp_path / "a.csv", "\n".join(["1,2,3,4", *rows, "5,6,1,4", *rows[:3]]))
    found = read_interactions(path, on_error="skip")
    assert found == Interactions([1, 5], [2, 6], [3, 1], times=[4, 4])
    counts = {reason.split(" (")[0]: n for reason, n in found.report.skipped.items()}
    wanted = dict.fromkeys(BAD.values(), 0)
    for row in rows + rows[:3]:
        wanted[BAD[row]] += 1
    assert counts == {reason: n for reason, n in wanted.items() if n}
    assert found.report.rows == 2 + len(rows) + 3


@pytest.mark.parametrize("line", ['{"user": 1, "item": "c", "rating": "Secret"}', '{"user": 1}'])
def test_a_bad_json_line_is_named_by_its_number(tmp_path, line):
    good = '{"user": 1, "item": "a\\"b", "rating": 3}'
    with pytest.raises(ValueError, match=r"a.jsonl: line 3: the (rating|item) is") as result:
        read_interactions(written(tmp_path / "a.jsonl", f"{good}\n\n{line}\n"))
    assert "Secret" not in str(result.value)


def test_a_bad_row_of_a_frame_is_named_by_its_number():
    frame = {"user": [1, 2, None], "item": ["a", "", "b"], "rating": [1.0, 2.0, np.nan]}
    with pytest.raises(ValueError, match="row 1 \\(from 0\\): the item is empty"):
        read_interactions(frame)
    found = read_interactions(frame, on_error="skip")
    assert len(found) == 1
    assert found.report.skipped == {"the item is empty": 1, "the user is empty": 1}


def test_latin_1_and_backslashes_are_found_out(tmp_path):
    text = '"User-ID";"ISBN";"Book-Rating"\n"1";"\\"caf\xe9";"5"\n"2";"x";"7"\n'
    found = read_interactions(written(tmp_path / "a.csv", text, "latin-1"))
    assert found.items.tolist() == ['"caf\xe9', "x"]
    assert list(found.report.encodings.values()) == ["latin-1"]
    with pytest.raises(ValueError, match="line 2: "):
        read_interactions(tmp_path / "a.csv", encoding="utf-8")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"word\n", b"\x1f\x8b garbage", b"1\n3\n"])
def test_a_file_without_rows_is_refused(tmp_path, content):
    path = tmp_path / "a.dat"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a.dat: "):
        read_interactions(path)


def test_a_gzip_file_cut_in_half_is_refused(tmp_path):
    whole = gzip.compress(lines(",").encode() * 50)
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"a.csv.gz: .*damaged"):
        read_interactions(tmp_path / "a.csv.gz")


@pytest.mark.parametrize(
    ("name", "rows", "users", "items"),
    [
        ("movielens-1m/ratings.dat.gz", 1_000_209, 6_040, 3_706),
        ("movielens-100k/u.data.gz", 100_000, 943, 1_682),
        ("book-crossing/BX-Book-Ratings.csv.gz", 1_149_780, 105_283, 340_556),
        ("filmtrust/ratings.tsv.gz", 35_494, 1_508, 2_071),
    ],
)
def test_real_sets_are_read_whole(name, rows, users, items):
    if not (REAL / name).exists():
        pytest.skip("the real set is not here")
    found = read_interactions(REAL / name)
    coded = found.coded()
    assert (len(found), len(coded.user_ids), len(coded.item_ids)) == (rows, users, items)
