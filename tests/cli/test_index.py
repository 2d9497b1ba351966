"""`sfumato index`: a file of vectors becomes an index that the library answers alike."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import index as commands
from sfumato.retrieve import BinaryIndex, LshIndex, load
from sfumato.retrieve.encoders import factories as codes
from support.cli_workspace import run, run_json

ROWS, WIDE = 400, 12


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(ROWS, WIDE)).astype(np.float32)


@pytest.fixture
def folder(tmp_path, vectors):
    np.save(tmp_path / "base.npy", vectors)
    np.save(tmp_path / "queries.npy", vectors[:5])
    run(tmp_path, "index", "build", "base.npy", "-o", "a.index", "--bits", "128")
    return tmp_path


def pairs(rows):
    return [(row["query"], row["item"]) for row in rows["rows"]]


def test_an_index_answers_as_the_library_does(folder, vectors):
    made = BinaryIndex(bits=128).fit(vectors).add(np.arange(ROWS), vectors)
    scores, ids = made.search(vectors[:5], 3)
    rows = run_json(folder, "index", "search", "a.index", "queries.npy", "-k", "3")
    assert pairs(rows) == [(q, each) for q in range(5) for each in ids[q].tolist()]
    assert [row["score"] for row in rows["rows"]] == pytest.approx(scores.reshape(-1).tolist())


def test_inspect_tells_what_an_index_is(folder):
    document = run_json(folder, "inspect", "a.index")
    assert document["kind"] == "BinaryIndex"
    assert (document["vectors"], document["dimension"]) == (ROWS, WIDE)
    assert document["parameters"]["bits"] == 128
    assert document["file_bytes"] == (folder / "a.index").stat().st_size


def test_an_index_of_bands_is_told_about_and_left_to_python(folder, vectors):
    LshIndex(4, 2).add(np.arange(ROWS), vectors).save(folder / "bands.index")
    document = run_json(folder, "inspect", "bands.index")
    assert (document["kind"], document["dimension"]) == ("LshIndex", WIDE)
    for words in (["search", "bands.index", "queries.npy"], ["remove", "bands.index", "3"]):
        out = ["-o", "x"] if words[0] == "remove" else []
        assert "holds a LshIndex; use sfumato.retrieve.load" in run(
            folder, "index", *words, *out, code=2
        )


def test_parquet_of_lists_and_of_columns_and_ids_are_read(folder, vectors):
    lists = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), WIDE)
    pq.write_table(pa.table({"id": np.arange(ROWS) + 70, "v": lists}), folder / "lists.parquet")
    loose = pa.array(vectors.tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"v": loose}), folder / "loose.parquet")
    columns = {f"c{i}": vectors[:, i] for i in range(WIDE)}
    pq.write_table(pa.table(columns), folder / "columns.parquet")
    (folder / "ids.txt").write_text("\n".join(map(str, range(70, 70 + ROWS))))
    build = ["index", "build", "--bits", "128"]
    run(folder, *build, "lists.parquet", "--id-column", "id", "-o", "l.index")
    run(folder, *build, "loose.parquet", "--ids", "ids.txt", "-o", "o.index")
    run(folder, *build, "columns.parquet", "--ids", "ids.txt", "-o", "c.index")
    queries = run_json(
        folder, "index", "search", "l.index", "lists.parquet", "--id-column", "id", "-k", "1"
    )
    assert pairs(queries)[:3] == [(70, 70), (71, 71), (72, 72)]
    found = [
        pairs(run_json(folder, "index", "search", name, "queries.npy"))
        for name in ("a.index", "l.index", "o.index", "c.index")
    ]
    assert [(q, each + 70) for q, each in found[0]] == found[1] == found[2] == found[3]


def test_vectors_are_added_and_removed_in_a_new_file(folder, vectors):
    before = (folder / "a.index").read_bytes()
    np.save(folder / "more.npy", 2 * vectors[:3])
    document = run_json(folder, "index", "add", "a.index", "more.npy", "-o", "b.index")
    assert document["vectors"] == ROWS + 3
    assert load(folder / "b.index").ids[-3:].tolist() == [ROWS, ROWS + 1, ROWS + 2]
    run_json(folder, "index", "remove", "b.index", "0", str(ROWS + 1), "-o", "c.index")
    left = load(folder / "c.index")
    assert len(left) == ROWS + 1
    assert 0 not in left
    assert (folder / "a.index").read_bytes() == before


def test_exact_ranks_need_kept_vectors(folder, vectors):
    words = ["index", "search", "a.index", "queries.npy", "--rerank", "exact"]
    assert "index build --keep-vectors" in run(folder, *words, code=2)
    run(folder, "index", "build", "base.npy", "--keep-vectors", "-o", "k.index")
    rows = run_json(folder, "index", "search", "k.index", *words[3:], "-k", "1")
    assert pairs(rows) == [(q, q) for q in range(5)]
    assert [row["score"] for row in rows["rows"]] == pytest.approx([1] * 5)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["build", "none.npy", "-o", "x"], "none.npy: there is no such file"),
        (["build", "base.npy", "-o", "a.index"], "is there already; use --force"),
        (["build", "flat.npy", "-o", "x"], "must hold a matrix of numbers"),
        (["build", "text.npy", "-o", "x"], "is no array of numbers"),
        (["build", "base.npy", "-o", "x", "--ids", "few.txt"], "but there are 2 ids"),
        (["build", "base.npy", "-o", "x", "--encoder", "best"], "encoder must be"),
        (["build", "base.npy", "-o", "x", "--bits", "0"], "bits must be"),
        (["build", "base.npy", "-o", "x", "--id-column", "id"], "no column 'id' (--id-column)"),
        (["build", "words.txt", "-o", "x"], "row 1: column '1' must hold numbers"),
        (["build", "unnamed.parquet", "-o", "x"], "besides an --id-column"),
        (["build", "empty.npy", "-o", "x"], "is no array of numbers"),
        (["build", "words.parquet", "-o", "x"], "must have one column of lists"),
        (["build", "folder", "-o", "x"], "folder: is a folder"),
        (["build", "base.npy", "-o", "x", "--ids", "high.txt"], "one per line"),
        (["build", "base.npy", "-o", "x", "--ids", "square.txt"], "one per line"),
        (["search", "a.index", "narrow.npy"], "12"),
        (["search", "base.npy", "queries.npy"], "base.npy:"),
        (["search", "cut.index", "queries.npy"], "cut off or damaged"),
        (["remove", "a.index", "9999", "-o", "x"], "not in the index"),
        (["add", "a.index", "base.npy", "--ids", "few.txt", "-o", "x"], "2 ids"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_no_file(folder, words, sentence):
    np.save(folder / "flat.npy", np.ones(3))
    np.save(folder / "narrow.npy", np.ones((1, 3)))
    np.save(folder / "text.npy", np.array([{}]), allow_pickle=True)
    (folder / "few.txt").write_text("1\n2\n")
    (folder / "words.txt").write_text("0.5 tea\n1.5 milk\n")
    pq.write_table(pa.table({"id": [1], "x": [0.5], "y": [1.0]}), folder / "unnamed.parquet")
    (folder / "high.txt").write_text(f"{2**70}\n" * ROWS)
    (folder / "square.txt").write_text("²\n" * ROWS)
    (folder / "empty.npy").touch()
    (folder / "folder").mkdir()
    coded = pa.array(["near", "far"]).dictionary_encode()
    pq.write_table(pa.table({"v": coded}), folder / "words.parquet")
    (folder / "cut.index").write_bytes((folder / "a.index").read_bytes()[:900])
    assert sentence in run(folder, "index", *words, code=2)
    assert not (folder / "x").exists()


def test_help_names_every_encoder():
    made = [name for name in codes.__all__ if name.islower()]
    assert commands.ENCODERS.split(", ") == sorted(made)
