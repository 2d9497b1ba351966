"""`sfumato mine cluster`: the clusters of a table as rows, files and pictures; private releases."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sfumato.core.storage import load_any
from sfumato.mine.cluster import BFR, KMeans
from sfumato.privacy import Ledger
from support.cli_workspace import result_of, run, run_json

CENTRES = [0.0, 9.0, 18.0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("clusters")
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(x, 1, (300, 3)) for x in CENTRES])
    table = pa.table(dict(zip("abc", rows.T, strict=True)))
    pq.write_table(table, path / "rows.parquet")
    pa.csv.write_csv(table, path / "rows.csv")
    np.save(path / "rows.npy", rows)
    (path / "odd.csv").write_text("a,b\n1,2\nvisitor,3\n")
    (path / "nulls.csv").write_text("a,b\n1,2\n,3\n5,6\n7,8\n")
    return path


def centres(document):
    return sorted(round(row[0]) for row in document["centres"])


@pytest.mark.parametrize("file", ["rows.parquet", "rows.csv", "rows.npy"])
@pytest.mark.parametrize("method", ["kmeans", "bfr", "cure", "hierarchical"])
def test_every_file_gives_the_clusters_of_the_method(folder, file, method):
    found = run_json(folder, "mine", "cluster", file, "-k", "3", "--method", method)
    assert centres(found) == CENTRES
    assert (found["rows"], sorted(found["counts"])) == (900, [300] * 3)
    assert found["columns"] == (None if file.endswith("npy") else ["a", "b", "c"])


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_clusters_of_rows_are_written_and_are_those_of_the_class(folder, ending):
    words = ("mine", "cluster", "rows.parquet", "-k", "3", "--columns", "a,b", "--seed", "1")
    for method, model in (("kmeans", KMeans(3, random_state=1)), ("bfr", BFR(3, seed=1))):
        out = f"{method}.{ending}"
        run(folder, *words, "--method", method, "-o", out, "-q")
        rows = np.load(folder / "rows.npy")[:, :2]
        expected = model.fit(rows).labels_.tolist()
        if ending == "json":
            written = json.loads((folder / out).read_text())["rows"]
        else:
            read = pq.read_table if ending == "parquet" else pa.csv.read_csv
            written = read(folder / out).to_pylist()
        assert [row["cluster"] for row in written] == expected
        assert [row["row"] for row in written] == list(range(900))


def test_elbow_chooses_the_number_and_pictures_are_drawn(folder):
    words = ("mine", "cluster", "rows.csv")
    found = run_json(folder, *words, "--elbow", "1:6", "--figure", "elbow.png")
    assert found["clusters"] == 3
    assert [row["k"] for row in found["elbow"]] == [1, 2, 3, 4, 5, 6]
    run(folder, *words, "-k", "3", "--columns", "a,b", "--figure", "two.svg")
    run(folder, *words, "-k", "3", "--method", "bfr", "--figure", "three.pdf", "-q")
    assert (folder / "elbow.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / "two.svg").read_bytes()
    assert (folder / "three.pdf").read_bytes().startswith(b"%PDF")
    shown = run(folder, *words, "-k", "3")
    assert "cluster" in shown
    assert "300" in shown


def test_outliers_are_labelled_and_empty_cells_left_out_on_request(folder):
    words = ("mine", "cluster", "rows.csv", "-k", "3", "--method", "bfr", "--outliers")
    run(folder, *words, "-o", "outliers.parquet")
    assert min(pq.read_table(folder / "outliers.parquet")["cluster"].to_pylist()) >= -1
    found = run_json(folder, "mine", "cluster", "nulls.csv", "-k", "2", "--skip-nulls")
    assert found["rows"] == 3


@pytest.mark.parametrize("method", ["kmeans", "bfr"])
def test_a_private_release_is_charged_once_and_holds_no_row(folder, method):
    ledger = Ledger(folder / f"{method}.ledger")
    ledger.create("rows", 10.0)
    words = ("mine", "cluster", "rows.csv", "-k", "3", "--epsilon", "8", "--bounds=-5,23")
    paid = ("--method", method, "--ledger", f"{method}.ledger", "--dataset", "rows")
    named = (*words, *paid, "--release-id", "monday")
    first = run_json(folder, *named, "-o", f"{method}.sfum")
    assert centres(first) == CENTRES
    assert not first["stored_before"]
    assert first["statement"]["epsilon"] == 8.0
    again = run_json(folder, *named)
    assert again["centres"] == first["centres"]
    assert ledger.spent("rows").epsilon == pytest.approx(8.0)
    assert load_any(folder / f"{method}.sfum").cluster_centers.tolist() == first["centres"]
    run(folder, *words, "--method", method, "-o", f"{method}-centres.csv")
    assert pa.csv.read_csv(folder / f"{method}-centres.csv").column_names == [
        "cluster",
        "rows",
        *"abc",
    ]


def test_private_rows_are_read_one_by_one(folder):
    words = ("mine", "cluster", "odd.csv", "-k", "1", "--epsilon", "1")
    run(folder, *words, "--bounds=0,5", "--bounds=0,5")
    result_of(folder, "mine", "cluster", "odd.csv", "-k", "1", code=2)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["rows.csv"], "--clusters or --elbow must be given"),
        (["rows.csv", "-k", "3", "--elbow", "2:4"], "--clusters or --elbow must be given"),
        (["rows.csv", "--elbow", "4:2"], "--elbow must be LOW:HIGH"),
        (["rows.csv", "-k", "3", "--method", "magic"], "--method must be one of"),
        (["rows.csv", "-k", "901"], "--clusters must be at most"),
        (["rows.csv", "-k", "901", "--method", "bfr"], "--clusters must be at most"),
        (["rows.csv", "-k", "3", "-o", "a.txt"], "must end in"),
        (["rows.csv", "-k", "3", "--epsilon", "1"], "--epsilon needs --bounds"),
        (["rows.csv", "-k", "3", "--bounds=0,1"], "--bounds goes with --epsilon"),
        (["rows.csv", "-k", "3", "--method", "bfr", "--elbow", "2:4"], "one of them"),
        (["rows.csv", "--method", "bfr", "--elbow", "2:4"], "--elbow does not go with"),
        (["rows.csv", "-k", "3", "--epsilon", "1", "--bounds=1,0"], "--bounds must be LOW,HIGH"),
        (["rows.csv", "-k", "3", "--outliers"], "--outliers does not go with --method kmeans"),
        (["nulls.csv", "-k", "1"], "--skip-nulls"),
        (["gone.csv", "-k", "1"], "no such file"),
        (["rows.csv", "-k", "1", "--columns", "a,z"], "z"),
    ],
)
def test_mistakes_give_one_line(folder, words, problem):
    result = result_of(folder, "mine", "cluster", *words, code=2)
    said = result.stderr.strip()
    assert problem in said
    assert "\n" not in said


def test_a_hierarchy_is_drawn_as_its_tree(folder):
    words = ("mine", "cluster", "rows.csv", "-k", "3", "--method", "hierarchical")
    found = run_json(folder, *words, "--linkage", "single", "--figure", "tree.svg", "--force")
    assert found["linkage"] == "single"
    assert b"<svg" in (folder / "tree.svg").read_bytes()
    assert "linkage" in run(folder, *words, "--linkage", "none of these", code=2)
