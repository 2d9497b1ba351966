"""Files of edges are read as graphs, line by line; what is no edge is refused by its line."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import read_graph
from sfumato.mine.rank.graph import edge_files


def pairs(graph):
    """The edges as pairs of ids, with weights if there are any."""
    found = []
    for row in range(graph.n_nodes):
        for at in range(graph.offsets[row], graph.offsets[row + 1]):
            pair = (graph.nodes[row], graph.nodes[graph.targets[at]])
            found.append(pair if graph.weights is None else (*pair, graph.weights[at]))
    return found


def test_snap_text_has_comments_gaps_and_any_line_ends(tmp_path, monkeypatch):
    text = "# Nodes: 3\r\n# From\tTo\r\n0\t70\r\n\r\n70\t5\r\n% more\r\n5,0\n-1 ; 5"
    plain, packed = tmp_path / "web.txt", tmp_path / "web.txt.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    expected = [(-1, 5), (0, 70), (5, 0), (70, 5)]
    assert pairs(read_graph(plain)) == expected
    assert pairs(read_graph(packed)) == expected
    monkeypatch.setattr(edge_files, "CHUNK", 7)
    assert pairs(read_graph(plain)) == expected
    assert read_graph(plain, text=True).nodes.tolist() == ["-1", "0", "5", "70"]


def test_texts_and_weights_of_lines(tmp_path, monkeypatch):
    path = tmp_path / "links.txt"
    path.write_text("# comment\ntea milk 2\nmilk rum 0.5\n")
    assert pairs(read_graph(path)) == [("milk", "rum"), ("tea", "milk")]
    assert pairs(read_graph(path, weighted=True)) == [("milk", "rum", 0.5), ("tea", "milk", 2.0)]
    path.write_text("1 2 2\n2 3 0.5\n")
    assert pairs(read_graph(path, weighted=True)) == [(1, 2, 2.0), (2, 3, 0.5)]
    # The last line alone makes all ids texts, also those of earlier chunks.
    path.write_text("1 2\n2 3\n3 tea\n")
    monkeypatch.setattr(edge_files, "CHUNK", 5)
    assert pairs(read_graph(path)) == [("1", "2"), ("2", "3"), ("3", "tea")]


def test_tables_have_named_columns(tmp_path):
    path = tmp_path / "links.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": [2, 9], "w": [1.5, 2.0]}), path)
    assert pairs(read_graph(path, source="a", target="b")) == [(1, 2), (2, 9)]
    weighted = read_graph(path, source="a", target="b", weight="w")
    assert pairs(weighted) == [(1, 2, 1.5), (2, 9, 2.0)]
    path = tmp_path / "links.csv"
    path.write_text("source,target\ntea,milk\nrum,tea\n")
    assert pairs(read_graph(path)) == [("rum", "tea"), ("tea", "milk")]


def test_an_empty_file_is_an_empty_graph(tmp_path):
    path = tmp_path / "none.txt"
    path.write_text("# nothing\n")
    assert read_graph(path).n_nodes == 0
    assert read_graph(path, weighted=True).n_nodes == 0


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("# c\n1 2\n3\n", {}, "line 3: 1 fields, not source and target"),
        ("1 2\n1 2 3 4\n", {}, "line 2: 4 fields"),
        ("1 2\n", {"weighted": True}, "line 1: 2 fields, not source, target and weight"),
        ("a b secret\n", {"weighted": True}, "a weight is not a number"),
        ("1 2 -3\n", {"weighted": True}, "row 0 is below 0"),
    ],
)
def test_a_line_that_is_no_edge_is_named_but_not_shown(tmp_path, text, options, words):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as caught:
        read_graph(path, **options)
    assert "secret" not in str(caught.value)


def test_options_of_the_other_format_are_refused(tmp_path):
    path = tmp_path / "web.txt"
    path.write_text("1 2\n")
    with pytest.raises(ParameterError, match="weight must be 0, 1 or 2"):
        read_graph(path, weight="w")
    with pytest.raises(ParameterError, match="weight="):
        read_graph(path, format="table", weighted=True)
    with pytest.raises(ParameterError, match="format"):
        read_graph(path, format="matrix")
    with pytest.raises(FileNotFoundError, match="no file"):
        read_graph(tmp_path / "absent.txt")
    with pytest.raises(IsADirectoryError, match="folder"):
        read_graph(tmp_path)
    path.write_bytes(b"\xff\xfe 2\n")
    with pytest.raises(ValueError, match="line 1: not UTF-8"):
        read_graph(path)


@pytest.mark.parametrize(
    ("text", "options", "nodes"),
    [
        ("user item\n1 2\n2 3\n", {"source": "user", "target": "item"}, [1, 2, 3]),
        ("source;target;w\n1;2;7\n2;3;8\n", {}, [1, 2, 3]),
        ("source target\nann bob\n", {}, ["ann", "bob"]),
        ("ann bob\nbob eve\n", {}, ["ann", "bob", "eve"]),
        ("1::2::7\n2::3::8\n", {}, [1, 2, 3]),
        ("1 2 7\n2 3 8\n", {"source": "2", "target": "0"}, [1, 2, 7, 8]),
        ("# c\n1 2 7\n2 3 8\n", {"source": "0", "target": "2"}, [1, 2, 7, 8]),
    ],
)
def test_a_header_is_no_edge_and_columns_are_honoured_in_any_text(tmp_path, text, options, nodes):
    path = tmp_path / "web.txt"
    path.write_text(text)
    assert sorted(read_graph(path, **options).nodes.tolist()) == nodes


def test_names_of_other_columns_are_listed_and_weights_are_the_third(tmp_path):
    path = tmp_path / "web.txt"
    path.write_text("from to n\n1 2 7\n2 3 8\n")
    with pytest.raises(ValueError, match=r"the columns are: from, to, n\. Name them by source="):
        read_graph(path)
    graph = read_graph(path, source="from", target="to", weighted=True)
    assert sorted(graph.weights.tolist()) == [7, 8]
    path.write_bytes("caf\xe9 tea\ntea rum\n".encode("latin-1"))
    assert read_graph(path, encoding=None).n_nodes == 3
