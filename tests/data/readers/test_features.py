"""read_features: every format gives the same table; what is wrong is named by file and line."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.data import read_features

FILMS = [
    {"film": 1, "title": "Café, the (1995)", "genre": "Comedy|Drama", "year": 1995},
    {"film": 7, "title": 'A "storm"', "genre": "Drama", "year": 2001},
]
WANTED = [
    {"id": 1, "text": "Café, the (1995)", "genre": ["Comedy", "Drama"], "year": 1995.0},
    {"id": 7, "text": 'A "storm"', "genre": ["Drama"], "year": 2001.0},
]
OPTIONS = {"ids": "film", "texts": "title", "categories": "genre", "numbers": "year"}


def quoted(value):
    return '"' + str(value).replace('"', '""') + '"'


def written(folder, kind):
    path = folder / f"films.{kind}"
    lines = [[quoted(value) for value in film.values()] for film in FILMS]
    text = "\n".join(",".join(line) for line in [list(FILMS[0]), *lines])
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(FILMS), path)
    elif kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, FILMS)))
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress(text.encode()))
    elif kind == "latin.csv":
        path.write_bytes(text.encode("latin-1"))
    else:
        path.write_text(text if kind == "csv" else text.replace(",", "\t"), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "latin.csv", "parquet", "jsonl"])
def test_every_format_gives_the_same_table(tmp_path, kind):
    found = read_features(written(tmp_path, kind), **OPTIONS, separator="|")
    assert [
        {**row, "genre": sorted(row["genre"])} for row in found.to_arrow().to_pylist()
    ] == WANTED
    assert found.kind == "integers"


def test_lines_without_names_are_read_by_position(tmp_path):
    path = tmp_path / "movies.dat"
    path.write_bytes("1::Caf\xe9 (1995)::Comedy|Drama\n2::Heat (1995)::Crime\n".encode("latin-1"))
    found = read_features(path, texts=1, categories={"genre": 2}, separator="|")
    assert found.texts.to_pylist() == ["Caf\xe9 (1995)", "Heat (1995)"]
    assert found.categories["genre"].values.tolist() == ["Comedy", "Drama", "Crime"]
    with pytest.raises(ValueError, match="has no header line; give positions"):
        read_features(path, texts="title", header=False)
    with pytest.raises(ValueError, match="there is no column 5"):
        read_features(path, texts=5)


def test_texts_of_several_columns_are_joined_and_missing_ones_refused(tmp_path):
    path = tmp_path / "films.csv"
    path.write_text("film,title,plot\na,Heat,A heist.\nb,,\nc,Up,\n")
    with pytest.raises(ValueError, match="texts must not be missing, as in row 1"):
        read_features(path, texts=["title", "plot"])
    found = read_features(path, texts=["title", "plot"], missing="empty")
    assert found.texts.to_pylist() == ["Heat\nA heist.", "", "Up"]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("a,b\nx,y\n", {}, "categories must name columns, or texts"),
        ("a,b\nx,y\n", {"categories": "c"}, "there is no column 'c'"),
        ("a,b\nx,y,z\n", {"categories": "b"}, "line 2: the number of fields is wrong"),
        ("a,b\nx,y\nx,z\n", {"categories": "b"}, "row 1 repeats an id"),
        ("a,b\nx,y\n", {"numbers": "b"}, "b: a cell is no number"),
        ("a,b\nx,y\n", {"texts": "b", "missing": "skip"}, "missing must be one of"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_without_values(tmp_path, text, options, sentence):
    path = tmp_path / "films.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence) as raised:
        read_features(path, **options)
    assert "'x'" not in str(raised.value)


def test_frames_are_read_by_name_and_position():
    table = {"film": ["a", "b"], "plot": ["x", "y"]}
    assert read_features(table, texts="plot").ids.tolist() == ["a", "b"]
    assert read_features(pa.table(table), texts=1).texts.to_pylist() == ["x", "y"]
    frame = pytest.importorskip("pandas").DataFrame(table)
    assert read_features(frame, ids="film", texts=1).texts.to_pylist() == ["x", "y"]
    with pytest.raises(TypeError, match="the source must be a path"):
        read_features(3, texts="plot")
