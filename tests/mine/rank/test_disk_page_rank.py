"""Ranks from disk are those of memory, and the bytes that were read those of the model."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import FormatError, ParameterError
from sfumato.mine.rank import (
    DiskCost,
    DiskGraph,
    Graph,
    pagerank,
    pagerank_on_disk,
)
from sfumato.mine.rank.page_rank import disk_graph, disk_page_rank


def random_edges(seed, nodes, edges):
    draw = np.random.default_rng(seed)
    begins = (nodes * draw.random(edges) ** 2).astype(int)
    ends = nodes - 1 - (nodes * draw.random(edges) ** 2).astype(int)
    return begins, ends


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of few sources and words, so that small graphs have many."""
    for module in (disk_graph, disk_page_rank):
        monkeypatch.setattr(module, "SOURCES", 64)
        monkeypatch.setattr(module, "WORDS", 50)


@pytest.mark.parametrize(
    ("method", "blocks"),
    [("basic", None), ("blocks", 3), ("blocks", 8), ("stripes", 3), ("stripes", 8)],
)
def test_every_update_has_the_ranks_of_memory(method, blocks, small_chunks):
    graph = Graph(*random_edges(1, 700, 5000), nodes=np.arange(705), multi_edges="drop")
    assert (graph.out_degrees == 0).any()
    found = pagerank_on_disk(graph, blocks=blocks, method=method, tolerance=1e-12)
    expected = pagerank(graph, tolerance=1e-12)
    assert np.abs(found.scores - expected.scores).sum() < 2e-11
    assert found.residual < 1e-12
    assert found.top(3)[0].tolist() == expected.top(3)[0].tolist()
    assert found.cost.blocks == (1 if method == "basic" else blocks)


def test_the_course_example_has_its_sizes():
    assert DiskCost(10**9, 10**10).matrix_bytes == 44 * 10**9
    n, m, k = 100, 1000, 5
    r, matrix = 800, 4400
    assert DiskCost(n, m).model_bytes == 2 * r + matrix
    assert DiskCost(n, m, k, "blocks").model_bytes == k * matrix + (k + 1) * r
    stripes = DiskCost(n, m, k, "stripes", repeated=30)
    assert stripes.model_bytes == matrix + 120 + (k + 1) * r
    assert "e = 0.027" in stripes.formula


@pytest.mark.parametrize("method", ["basic", "blocks", "stripes"])
def test_bytes_are_within_a_tenth_of_the_model(method, tmp_path):
    graph = Graph(*random_edges(2, 30_000, 400_000), multi_edges="drop")
    stored = DiskGraph.write(graph, tmp_path / "g", blocks=8, method=method)
    found = pagerank_on_disk(stored, tolerance=1e-6)
    model = found.cost.model_bytes
    if method == "basic":  # where the old ranks, read again for the residual, are a larger part
        model += found.cost.rank_bytes
    assert found.cost.iteration_bytes == pytest.approx(model, rel=0.1)
    # The count is real: what is on disk, as often as it must be read.
    files = sum(file.stat().st_size for file in stored.folder.glob("stripe-*.bin"))
    scans = 8 if method == "blocks" else 1
    assert found.cost.bytes_read > found.cost.iterations * scans * files
    assert found.cost.bytes_written == found.cost.iterations * 8 * graph.n_nodes


def test_repeated_degrees_are_counted_from_the_edges(tmp_path):
    graph = Graph(*random_edges(3, 2000, 20_000), multi_edges="drop")
    stored = DiskGraph.write(graph, tmp_path / "g", blocks=4)
    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    pairs = np.unique(begins * 4 + graph.targets // stored.block_size).size
    assert stored.repeated == pairs - (graph.out_degrees > 0).sum()


def test_a_file_of_edges_is_sorted_on_disk(tmp_path, small_chunks):
    begins, ends = random_edges(4, 300, 2000)
    lines = "".join(f"{3 * a}\t{3 * b}\n" for a, b in zip(begins, ends, strict=True))
    path = tmp_path / "web.txt"
    path.write_text("# a comment\n" + lines)
    for multi_edges, self_loops in (("sum", "keep"), ("drop", "drop")):
        policy = {"multi_edges": multi_edges, "self_loops": self_loops}
        graph = Graph(3 * begins, 3 * ends, **policy)
        expected = pagerank(graph, tolerance=1e-12)
        found = pagerank_on_disk(path, blocks=5, tolerance=1e-12, **policy)
        assert found.nodes.tolist() == graph.nodes.tolist()
        assert np.abs(found.scores - expected.scores).sum() < 2e-11


def test_a_table_of_texts_is_sorted_on_disk(tmp_path):
    begins, ends = random_edges(5, 50, 300)
    names = np.array([f"página {n}" for n in range(50)], object)
    path = tmp_path / "web.parquet"
    pq.write_table(pa.table({"source": names[begins], "target": names[ends]}), path)
    found = pagerank_on_disk(path, blocks=2, tolerance=1e-12)
    graph = Graph(names[begins], names[ends])
    assert found.nodes.tolist() == graph.nodes.tolist()
    expected = pagerank(graph, tolerance=1e-12)
    assert np.abs(found.scores - expected.scores).sum() < 2e-11


def test_a_memory_limit_chooses_the_blocks(tmp_path):
    edges = random_edges(6, 40_000, 80_000)
    graph = Graph(*edges, nodes=np.arange(40_000), multi_edges="drop")
    limit = disk_graph.BUFFERS + 8 * 5_000
    stored = DiskGraph.write(graph, tmp_path / "g", memory_limit=limit)
    assert (stored.blocks, stored.block_size) == (8, 5_000)
    pagerank_on_disk(stored, tolerance=1e-3, memory_limit=limit)
    with pytest.raises(ParameterError, match="take more blocks"):
        pagerank_on_disk(stored, memory_limit=limit - 8)
    with pytest.raises(ParameterError, match="memory_limit must be from"):
        pagerank_on_disk(graph, memory_limit=1000)


def test_a_graph_on_disk_is_used_again_and_never_overwritten(tmp_path):
    graph = Graph([1, 2, 3], [2, 3, 1])
    folder = tmp_path / "g"
    first = pagerank_on_disk(graph, folder=folder)
    again = pagerank_on_disk(DiskGraph(folder))
    assert (first.scores == again.scores).all()
    assert not [each for each in folder.iterdir() if each.is_dir()]
    with pytest.raises(FileExistsError, match="already"):
        DiskGraph.write(graph, folder)
    with pytest.raises(FileNotFoundError, match="write a graph first"):
        DiskGraph(tmp_path)


def test_damaged_files_are_refused(tmp_path):
    folder = tmp_path / "g"
    DiskGraph.write(Graph(*random_edges(7, 100, 500), multi_edges="drop"), folder, blocks=2)
    stripe = folder / "stripe-1.bin"
    data = stripe.read_bytes()
    stripe.write_bytes(data[:-3])
    with pytest.raises(FormatError, match="cut off"):
        pagerank_on_disk(DiskGraph(folder))
    stripe.write_bytes(b"\xff" * 12 + data[12:])
    with pytest.raises(FormatError, match="damaged"):
        pagerank_on_disk(DiskGraph(folder))
    draw = np.random.default_rng(8)
    for _ in range(50):  # no damage may read or write outside the arrays
        broken = bytearray(data)
        broken[draw.integers(12, len(data))] ^= int(draw.integers(1, 256))
        stripe.write_bytes(broken)
        try:
            found = pagerank_on_disk(DiskGraph(folder), tolerance=1e-2, max_iter=1000)
            assert found.scores.size == found.cost.nodes
        except FormatError:
            pass
    facts = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps({**facts, "version": 99}))
    with pytest.raises(FormatError, match="another version"):
        DiskGraph(folder)


def test_weights_and_graphs_without_nodes_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="must have no weights"):
        pagerank_on_disk(Graph([1], [2], [3.0]))
    with pytest.raises(ParameterError, match="must have a node"):
        pagerank_on_disk(Graph([], []))
    path = tmp_path / "empty.txt"
    path.write_text("# none\n")
    with pytest.raises(ParameterError, match="must have a node"):
        pagerank_on_disk(path)


def test_too_few_iterations_warn():
    with pytest.warns(RuntimeWarning, match="after 2 iterations"):
        ranks = pagerank_on_disk(Graph([1, 2, 1], [2, 3, 3]), max_iter=2)
    assert not ranks.converged
    assert "counted / model" in str(ranks.cost)
