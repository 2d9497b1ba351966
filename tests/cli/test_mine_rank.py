"""`sfumato mine rank`: files of edges become the ranks of the library, in memory and on disk."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from sfumato.mine import rank
from support.cli_workspace import result_of, run, run_json


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    edges = (100 * draw.random((600, 2)) ** 2).astype(int)
    (tmp_path / "web.txt").write_text(
        "# links\n" + "".join(f"{a}\t{b}\n" for a, b in edges.tolist())
    )
    (tmp_path / "pages.csv").write_text("from,to,times\ntea,milk,2\nmilk,rum,1\nrum,tea,1\n")
    return tmp_path


def test_ranks_are_those_of_the_library(folder):
    expected = rank.pagerank(rank.read_graph(folder / "web.txt"), 0.8)
    rows = run_json(folder, "mine", "rank", "web.txt", "--beta", "0.8")["rows"]
    ids, scores = expected.top(len(expected))
    assert [row["node"] for row in rows] == ids.tolist()
    np.testing.assert_allclose([row["score"] for row in rows], scores, rtol=1e-12)
    words = ("--top", "3", "-o", "r.parquet", "--figure", "r.png", "--self-loops", "drop")
    about = run_json(folder, "mine", "rank", "web.txt", *words)
    assert (about["rows"], about["self_loops"], about["method"]) == (3, "0 (drop)", "pagerank")
    assert about["residual"] < 1e-8
    assert pq.read_table(folder / "r.parquet").num_rows == 3
    assert (folder / "r.png").read_bytes().startswith(b"\x89PNG")


def test_a_topic_is_given_by_ids_of_the_kind_of_the_graph(folder):
    graph = rank.read_graph(folder / "web.txt")
    rows = run_json(folder, "mine", "rank", "web.txt", "--teleport", "3, 5")["rows"]
    expected = rank.pagerank(graph, teleport=[3, 5]).top(1)
    assert (rows[0]["node"], rows[0]["score"]) == (expected[0][0], pytest.approx(expected[1][0]))
    table = ("pages.csv", "--source-column", "from", "--target-column", "to")
    table = (*table, "--weight-column", "times", "--teleport", "tea")
    rows = run_json(folder, "mine", "rank", *table)["rows"]
    assert [row["node"] for row in rows] == ["tea", "milk", "rum"]


def test_ranks_on_disk_are_the_same_with_their_bytes(folder):
    memory = run_json(folder, "mine", "rank", "web.txt", "--tolerance", "1e-12")["rows"]
    words = ("mine", "rank", "web.txt", "--on-disk", "--tolerance", "1e-12", "--blocks", "4")
    disk = run_json(folder, *words)["rows"]
    assert [row["node"] for row in disk[:20]] == [row["node"] for row in memory[:20]]
    about = run_json(folder, *words, "-o", "d.csv")
    assert about["blocks"] == 4
    assert about["model"].startswith("|M|(1+e) + (k+1)|r|, k = 4")
    assert about["bytes_read"] > about["model_bytes"]
    shown = result_of(folder, *words, "--memory-limit", "4M", "--update", "blocks", "-q")
    assert "counted / model" in shown.stderr
    assert "k|M| + (k+1)|r|, k = 4" in shown.stderr


@pytest.mark.parametrize("method", ["hits", "trustrank", "simrank"])
def test_other_methods_have_their_tables(folder, method):
    more = () if method == "hits" else ("--teleport", "3")
    words = ("mine", "rank", "web.txt", "--method", method, *more)
    rows = run_json(folder, *words, "--top", "5")["rows"]
    assert len(rows) == 5
    assert set(rows[0]) == ({"node", "authority", "hub"} if method == "hits" else {"node", "score"})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("web.txt --method fun", "--method must be one of"),
        ("web.txt --beta 1", "beta must be a number from 0 to 1"),
        ("web.txt --teleport 1000", "must be nodes of the graph"),
        ("web.txt --teleport tea", "--teleport must be integers"),
        ("web.txt --blocks 3", "--blocks goes with --on-disk"),
        ("web.txt --memory-limit 3M", "--memory-limit goes with --on-disk"),
        ("web.txt --on-disk --teleport 3", "without --teleport"),
        ("web.txt --on-disk --memory-limit 10", "--memory-limit must be from"),
        ("web.txt --method trustrank", "needs --teleport"),
        ("web.txt --method hits --teleport 3", "takes no --teleport"),
        ("web.txt -o x.txt", "must end in .parquet, .csv, .json"),
        ("web.txt --figure x.gif", "must end in .png, .svg, .pdf"),
        ("none.txt", "none.txt: there is no such file"),
        ("pages.csv", "Name them by --source-column and --target-column"),
        ("pages.csv --weighted", "--weight-column"),
        ("web.txt --source-column from", "--source-column must be 0, 1 or 2"),
        ("web.txt --self-loops never", "--self-loops must be one of"),
    ],
)
def test_errors_are_one_line(folder, words, sentence):
    before = set(folder.iterdir())
    text = run(folder, "mine", "rank", *words.split(), code=2)
    assert sentence in text
    assert len(text.strip().splitlines()) == 1
    assert set(folder.iterdir()) == before


def test_text_with_a_header_is_read_as_fit_reads_it_and_columns_are_said(folder):
    (folder / "named.txt").write_text("user item\n1 2\n2 3\n3 1\n")
    words = ("mine", "rank", "named.txt", "--source-column", "user", "--target-column", "item")
    shown = result_of(folder, *words)
    assert shown.stderr == "sfumato: named.txt: sources from 'user', targets from 'item'.\n"
    assert "user" not in shown.stdout
    piped = ("mine", "rank", "-", *words[3:])
    assert run_json(folder, *piped, stdin=b"user item\n1 2\n2 1\n")["rows"][0]["score"] == 0.5
    (folder / "r.dat").write_text("1::2::5\n2::3::4\n")
    assert "sources from column 0" in result_of(folder, "mine", "rank", "r.dat").stderr
    assert len(run_json(folder, "mine", "rank", "r.dat")["rows"]) == 3
