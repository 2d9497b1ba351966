"""Every source becomes the same batches, in bounded pieces, and errors name no values."""

import gzip
import json
import os
import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from sfumato.data import read_batches
from sfumato.data.readers import text_files

ROWS = 5000
TABLE = pa.table(
    {
        "user": np.random.default_rng(1).integers(0, 900, ROWS),
        "item": [f'ite"m, {n}' for n in range(ROWS)],
        "day": ["2024-01-31"] * ROWS,
    }
)
SECRET = "SECRET"


def zipped(path):
    packed = Path(f"{path}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def json_lines(path, records=None):
    records = TABLE.to_pylist() if records is None else records
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder=x [1]*")  # a name that is no glob and no partition
    pq.write_table(TABLE, folder / "views.parquet", row_group_size=777)
    pa.csv.write_csv(TABLE, folder / "views.csv")
    tabs = pa.csv.WriteOptions(delimiter="\t")
    pa.csv.write_csv(TABLE, folder / "views.tsv", tabs)
    json_lines(folder / "views.jsonl")
    json_lines(folder / "views.ndjson")
    (folder / "views.json").write_text(json.dumps(TABLE.to_pylist()))
    for ending in ("csv", "tsv", "jsonl", "ndjson", "json"):
        zipped(folder / f"views.{ending}")
    return folder


FILES = [
    "parquet",
    *(f"{e}{z}" for e in ("csv", "tsv", "jsonl", "ndjson", "json") for z in ("", ".gz")),
]
FRAMES = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.combine_chunks().to_batches()[0],
    "reader": lambda: TABLE.to_reader(max_chunksize=300),
    "dataset": lambda: pa.dataset.dataset(TABLE),
    "pandas": TABLE.to_pandas,
    "polars": lambda: pl.from_arrow(TABLE),
    "dict of arrays": lambda: {name: TABLE[name] for name in TABLE.column_names},
    "dict of lists": TABLE.to_pydict,
    "generator": lambda: (batch for batch in TABLE.to_batches(max_chunksize=640)),
    "generator of frames": lambda: iter([pl.from_arrow(TABLE[:2000]), TABLE[2000:].to_pandas()]),
}


def whole(batches):
    parts = [batch.to_pydict() for batch in batches]
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def wanted(*columns):
    return TABLE.select(columns).to_pydict()


@pytest.mark.parametrize("ending", FILES)
def test_every_file_type_gives_the_same_columns(files, ending):
    batches = read_batches(files / f"views.{ending}", ["item", "user"], batch_rows=1000)
    assert whole(batches) == wanted("item", "user")
    assert whole(batches) == wanted("item", "user")  # a file can be read again


@pytest.mark.parametrize("frame", FRAMES)
def test_every_frame_gives_the_same_columns(frame):
    batches = read_batches(FRAMES[frame](), ["item", "user"], batch_rows=1000)
    assert whole(batches) == wanted("item", "user")


@pytest.mark.parametrize("ending", FILES)
def test_dates_in_text_files_stay_text(files, ending):
    assert whole(read_batches(files / f"views.{ending}", ["day"])) == wanted("day")


def test_batches_have_at_most_the_requested_rows(files):
    for source in (files / "views.parquet", files / "views.csv.gz", TABLE, TABLE.to_reader()):
        sizes = [batch.num_rows for batch in read_batches(source, ["user"], batch_rows=333)]
        assert max(sizes) <= 333
        assert sum(sizes) == ROWS


def test_parquet_row_groups_are_pieces_that_cover_the_file_once(tmp_path):
    rows = 1 << 20
    table = pa.table({"n": np.arange(rows)})
    pq.write_table(table, tmp_path / "n.parquet", row_group_size=1 << 17)
    batches = read_batches(tmp_path / "n.parquet", ["n"])
    assert batches.rows == rows
    assert len(batches.pieces) == 4  # two row groups each: small ones are read together
    observed = [
        (piece.first_row, batch.column(0)[0].as_py())
        for piece in batches.pieces
        for batch in [next(piece.open(batches.reading))]
    ]
    assert observed == [(n << 18, n << 18) for n in range(4)]


def test_paths_may_be_lists_and_globs_in_order(files, tmp_path):
    for n in range(3):
        pq.write_table(TABLE.slice(n * 1000, 1000), tmp_path / f"part-{n}.parquet")
    first = wanted("user")["user"][:3000]
    assert whole(read_batches(str(tmp_path / "part-*.parquet"), ["user"]))["user"] == first
    listed = [tmp_path / "part-2.parquet", str(files / "views.csv")]
    got = whole(read_batches(listed, ["user"]))["user"]
    assert got == first[2000:] + wanted("user")["user"]


def test_a_dataset_is_read_by_row_groups(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=1000)
    pa.csv.write_csv(TABLE, tmp_path / "b.csv")
    batches = read_batches(pa.dataset.dataset(tmp_path / "a.parquet"), ["user"])
    assert batches.rows == ROWS
    assert [piece.first_row for piece in batches.pieces] == [0, 1000, 2000, 3000, 4000]
    assert whole(batches) == wanted("user")
    text = read_batches(pa.dataset.dataset(tmp_path / "b.csv", format="csv"), ["user"])
    assert text.rows is None
    assert whole(text) == wanted("user")


def test_leading_zeros_and_big_numbers_keep_what_is_written(tmp_path):
    path = tmp_path / "unusual.csv"
    path.write_text("zip,big,part,mixed\n007,18446744073709551615,0.5,1\n8,3,2,x\n")
    columns = ["zip", "big", "part", "mixed"]
    assert whole(read_batches(path, columns)) == {
        "zip": ["007", "8"],
        "big": [2**64 - 1, 3],
        "part": [0.5, 2.0],
        "mixed": ["1", "x"],
    }


def test_columns_are_read_as_text_on_request(files):
    for source in (files / "views.csv", files / "views.jsonl", files / "views.parquet", TABLE):
        got = whole(read_batches(source, ["user"], text=["user"]))["user"]
        assert got == [str(n) for n in wanted("user")["user"]]


def test_unusual_names_of_columns_are_names(tmp_path):
    names = ['a"b', "a.b", "select 1; --", "*", "a b", "%s", "$1"]
    table = pa.table({name: [at] for at, name in enumerate(names)})
    pq.write_table(table, tmp_path / "o.parquet")
    pa.csv.write_csv(table, tmp_path / "o.csv")
    json_lines(tmp_path / "o.jsonl", table.to_pylist())
    for file in ("o.parquet", "o.csv", "o.jsonl"):
        for at, name in enumerate(names):
            assert whole(read_batches(tmp_path / file, [name])) == {name: [at]}


def test_a_name_that_looks_like_a_glob_is_the_file(tmp_path):
    (tmp_path / "v[1].csv").write_text("user\n1\n")
    (tmp_path / "v1.csv").write_text("user\n2\n")
    assert whole(read_batches(tmp_path / "v[1].csv", ["user"])) == {"user": [1]}


def test_nulls_are_left_out_on_request():
    source = {"a": [1, None, 3, 4], "b": ["x", "y", None, "z"]}
    assert whole(read_batches(source, ["a", "b"], skip_nulls=True)) == {
        "a": [1, 4],
        "b": ["x", "z"],
    }
    assert whole(read_batches(source, ["a"]))["a"] == [1, None, 3, 4]


def test_empty_sources_have_no_rows(tmp_path):
    (tmp_path / "e.csv").write_text("user\n")
    pq.write_table(TABLE[:0], tmp_path / "e.parquet")
    for source in (tmp_path / "e.csv", tmp_path / "e.parquet", TABLE[:0], iter([])):
        assert sum(batch.num_rows for batch in read_batches(source, ["user"])) == 0


def test_a_stream_is_read_once():
    batches = read_batches(iter(TABLE.to_batches()), ["user"])
    list(batches)
    with pytest.raises(ValueError, match="can be read once"):
        list(batches)


@pytest.mark.parametrize("ending", FILES)
def test_a_missing_column_lists_those_there_are(files, ending):
    path = files / f"views.{ending}"
    with pytest.raises(
        ValueError, match=re.escape(f"{path}: there is no column 'film'; the")
    ) as result:
        read_batches(path, ["film"])
    assert str(result.value).endswith("the columns are: user, item, day.")


@pytest.mark.parametrize("frame", FRAMES)
def test_a_missing_column_of_a_frame_too(frame):
    with pytest.raises(ValueError, match=r"no column 'film'.*item"):
        list(read_batches(FRAMES[frame](), ["film"]))


def test_what_cannot_be_a_source_says_what_can(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_batches(tmp_path / "none.csv", ["user"])
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_batches(str(tmp_path / "*.csv"), ["user"])
    (tmp_path / "views.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"must end in \.parquet, \.csv, .*\.gz"):
        read_batches(tmp_path / "views.xlsx", ["user"])
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_batches(tmp_path, ["user"])
    for source in (7, None, b"views.csv", [1, 2]):
        with pytest.raises(TypeError, match=r"data: .* must be a"):
            list(read_batches(source, ["user"]))
    with pytest.raises(ValueError, match="at least one column"):
        read_batches(TABLE, [])
    with pytest.raises(TypeError, match="a list of names"):
        read_batches(TABLE, "user")
    with pytest.raises(ValueError, match="batch_rows must be"):
        read_batches(TABLE, ["user"], batch_rows=0)


GOOD = "user,item\n" + "1,tea\n" * 30_000
BAD = {
    "many.csv": (f"user,item\n1,tea\n2,{SECRET},x\n", "line 3: 3 fields where the header has 2"),
    "few.csv": (f"user,item\n1,tea\n{SECRET}\n", "line 3: 1 fields where the header has 2"),
    "late.csv": (f"{GOOD}2,{SECRET},x\n", "line 30002: 3 fields"),
    "quote.csv": (f'user,item\n1,tea\n2,"{SECRET}\n', "line 3: a quote is opened"),
    "latin.csv": (f"user\na\n{SECRET} \xe9\n".encode("latin-1"), "line 3: not UTF-8"),
    "header.csv": (b"us\xe9r,item\n1,2\n", "line 1: the header is not UTF-8"),
    "type.csv": (f"{GOOD}{SECRET},tea\n", "row 30001: column 'user' is not of the type"),
    "empty.csv": ("", "is empty"),
    "twins.csv": ("user,item,User\n1,2,3\n", "two columns have one name"),
    "cut.csv.gz": (gzip.compress(GOOD.encode())[:-200], "gzip file is damaged"),
    "plain.csv.gz": (GOOD, "gzip file is damaged"),
    "broken.jsonl": (f'{{"user": 1}}\n{{"user": "{SECRET}\n', "malformed JSON"),
    "type.jsonl": (
        '{"user": 1}\n' * 30_000 + f'{{"user": "{SECRET}"}}\n',
        "row 30001: column 'user' is not of the type",
    ),
    "nested.jsonl": (f'{{"user": {{"name": "{SECRET}"}}}}\n', "nested"),
    "mixed.jsonl": (f'{{"user": 1}}\n{{"user": "{SECRET}"}}\n', "several types; read it as text"),
    "lists.jsonl": (f'{{"user": ["{SECRET}"]}}\n', "nested"),
    "text.parquet": (SECRET * 10, "cannot be read as Parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_content_tells_file_and_line_and_no_value(tmp_path, name):
    content, sentence = BAD[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((ValueError, TypeError), match=re.escape(str(path))) as result:
        list(read_batches(path, ["user"]))
    assert sentence in str(result.value)
    assert "\n" not in str(result.value)
    observed = result.value
    while observed is not None:  # nothing chained shows the value either
        assert SECRET not in str(observed)
        observed = None if observed.__suppress_context__ else observed.__context__


def test_a_damaged_parquet_page_is_one_clear_error(tmp_path):
    path = tmp_path / "views.parquet"
    pq.write_table(TABLE, path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        list(read_batches(path, ["user"]))


def test_what_the_machine_refuses_is_not_blamed_on_the_file(tmp_path, monkeypatch):
    for name, module, opener in (
        ("v.parquet", pq, "ParquetFile"),
        ("v.csv", text_files, "_relation"),
    ):
        path = tmp_path / name
        path.write_text("user\n1\n")
        if name == "v.parquet":
            pq.write_table(TABLE, path)
        batches = read_batches(path, ["user"])
        for error in (PermissionError(13, "Permission denied"), pa.ArrowMemoryError("no memory")):
            with monkeypatch.context() as patch:
                patch.setattr(module, opener, Mock(side_effect=error))
                with pytest.raises(type(error)):
                    list(batches)
                with pytest.raises(type(error)):
                    read_batches(path, ["user"])


def test_a_parquet_file_that_is_gone_is_not_called_damaged(tmp_path):
    pq.write_table(TABLE, tmp_path / "v.parquet")
    batches = read_batches(tmp_path / "v.parquet", ["user"])
    (tmp_path / "v.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        list(batches)


def test_mixed_columns_of_frames_do_not_show_values():
    for source in ({"user": [1, SECRET]}, pd.DataFrame({"user": [1, SECRET]})):
        with pytest.raises(TypeError, match="user: the column is not of one type") as result:
            list(read_batches(source, ["user"]))
        assert SECRET not in str(result.value)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_first_line_without_an_end_is_no_header(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    opened = gzip.open if ending.endswith(".gz") else open
    with opened(path, "wb") as file:
        file.write(b"item," + b"a" * (1 << 21))
    result = f"{path.name}: line 1: is longer than 1048576 bytes, so no header"
    with pytest.raises(ValueError, match=result):
        read_batches(path, ["item"])
    with opened(path, "wb") as file:
        file.write(b"item,b\n1,2\n" + b"3,4\n" * (1 << 19))
    assert next(iter(read_batches(path, ["item"]))).column(0)[0].as_py() == 1


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_row_too_long_is_reported_as_such(tmp_path, ending):
    path, long = tmp_path / f"a{ending}", "x" * (30 << 20)
    rows = ["a"] * 50_000 + [long] * 3
    written = ["item", *rows] if ending == ".csv" else [json.dumps({"item": row}) for row in rows]
    path.write_text("\n".join(written))
    with pytest.raises(ValueError, match=r"a row is longer than \d+ bytes; leave it out"):
        list(read_batches(path, ["item"]))


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_row_too_long_is_not_left_out(tmp_path, end):
    path = tmp_path / "a.csv"
    path.write_text("item\na\nb\n" + "x" * (20 << 20) + end)
    with pytest.raises(ValueError, match=r"the last line: a row is longer than \d+ bytes"):
        list(read_batches(path, ["item"]))
    path.write_text("item\na\n" + "x" * (2 << 20) + end)
    assert sum(batch.num_rows for batch in read_batches(path, ["item"])) == 2


def test_a_pipe_is_no_table(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(OSError, match="is not a regular file"):
        read_batches(tmp_path / "a.csv", ["item"])


def test_columns_of_files_may_be_requested_by_their_numbers(tmp_path):
    (tmp_path / "bare.dat").write_text("7::tea\n8::milk\n")
    assert whole(read_batches(tmp_path / "bare.dat", ["1", "0"])) == {
        "1": ["tea", "milk"],
        "0": [7, 8],
    }
    (tmp_path / "years.csv").write_text("2020,2021\n5,6\n")
    assert whole(read_batches(tmp_path / "years.csv", ["2021"])) == {"2021": [6]}
    assert whole(read_batches(tmp_path / "years.csv", ["1"])) == {"1": [2021, 6]}
    assert whole(read_batches(tmp_path / "years.csv", ["1"], header=True)) == {"1": [6]}
    pq.write_table(pa.table({"user": [1], "item": [2]}), tmp_path / "t.parquet")
    assert whole(read_batches(tmp_path / "t.parquet", ["1", "user"])) == {"1": [2], "user": [1]}


def test_of_private_text_line_1_alone_shows_how_it_is_written(tmp_path):
    path = tmp_path / "views.txt"
    path.write_bytes("user;item\n1;caf\xe9\n".encode("latin-1"))
    assert whole(read_batches(path, ["item"], encoding=None)) == {"item": ["caf\xe9"]}
    with pytest.raises(ValueError, match="not UTF-8"):
        list(read_batches(path, ["item"], encoding=None, guess=False))
    assert whole(read_batches(path, ["item"], encoding="latin-1", guess=False)) == {
        "item": ["caf\xe9"]
    }
    with pytest.raises(ValueError, match="delimiter must be 1 to 4 characters"):
        read_batches(path, ["item"], delimiter="")
