"""Triangles are counted without error in memory; the sketch of a stream keeps its stated error."""

import os
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from sfumato.core.storage import load_any
from sfumato.errors import FormatError, NullValueError, ParameterError
from sfumato.mine.rank import Graph, Triangles, count_triangles

ROOT = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[4].parent / "shared" / "data"))
SLASHDOT = ROOT / "graphs" / "soc-Slashdot0902.txt.gz"


def adjacency(graph):
    matrix = np.zeros((graph.n_nodes, graph.n_nodes), int)
    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    matrix[begins, graph.targets] = 1
    matrix |= matrix.T
    np.fill_diagonal(matrix, 0)
    return matrix


def random_edges(seed, nodes, edges):
    """Edges with hubs, loops, repetitions and both directions."""
    draw = np.random.default_rng(seed)
    return (draw.uniform(size=(2, edges)) ** 2 * nodes).astype(int)


@pytest.mark.parametrize("seed", range(12))
def test_counts_equal_powers_of_the_adjacency_matrix(seed):
    nodes = 4 + 3 * seed
    ends = random_edges(seed, nodes, 6 * nodes)
    graph = Graph(*ends, nodes=range(nodes), multi_edges=["sum", "drop", "keep"][seed % 3])
    matrix = adjacency(graph)
    counts = count_triangles(graph)
    assert counts.by_node.tolist() == (np.diag(np.linalg.matrix_power(matrix, 3)) // 2).tolist()
    assert 3 * counts.total == counts.by_node.sum()
    degrees = matrix.sum(axis=1)
    assert counts.degrees.tolist() == degrees.tolist()
    wedges = sum(d * (d - 1) // 2 for d in degrees.tolist())
    assert counts.wedges == wedges
    assert counts.transitivity == pytest.approx(3 * counts.total / wedges)
    for node, value in enumerate(counts.clustering):
        near = np.flatnonzero(matrix[node])
        pairs = list(combinations(near, 2))
        linked = sum(matrix[a, b] for a, b in pairs)
        assert value == pytest.approx(linked / len(pairs) if pairs else 0)


@pytest.mark.skipif(not SLASHDOT.exists(), reason="the shared data sets are not there")
def test_the_triangles_of_slashdot_are_those_that_snap_states():
    graph = Graph(*np.loadtxt(SLASHDOT, dtype=np.int64).T)
    assert count_triangles(graph).total == 602_592
    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    sketch = Triangles(2**16).update(begins, graph.targets)
    assert abs(sketch.estimate() - 602_592) <= sketch.error_bound(0.99) < 100_000


def test_no_triangles_without_edges():
    counts = count_triangles(Graph([], [], nodes=[3, 4]))
    assert (counts.total, counts.transitivity) == (0, 0.0)
    assert counts.to_arrow().column_names == ["node", "triangles", "clustering"]
    assert count_triangles(Graph([1, 1], [1, 1])).total == 0


def test_a_sketch_is_exact_as_long_as_all_edges_fit():
    ends = random_edges(3, 30, 200)
    true = count_triangles(Graph(*ends))
    distinct = len({frozenset(pair) for pair in ends.T.tolist() if pair[0] != pair[1]})
    sketch = Triangles(distinct).update(*ends)
    assert sketch.estimate() == true.total > 0
    assert (sketch.edges(), sketch.error_bound(), sketch.probability) == (distinct, 0.0, 1.0)
    assert Triangles(16).estimate() == 0


def test_order_direction_repetition_and_partition_change_nothing():
    ends = random_edges(4, 80, 3000)
    whole = Triangles(200, seed=5).update(*ends)
    turned = np.concatenate([ends[:, ::-1][::-1], ends], axis=1)
    assert Triangles(200, seed=5).update(*turned) == whole
    texts = Triangles(200, seed=5).update(*ends.astype(str))
    assert texts == whole
    parts = [Triangles(200, seed=5).update(*part) for part in np.array_split(ends, 7, axis=1)]
    merged = parts[0]
    for part in parts[1:]:
        before = part.copy()
        merged.merge(part)
        assert part == before
    assert merged == whole
    assert merged.merge(merged) == whole
    assert merged.merging.kind == "exact"
    with pytest.raises(ValueError, match="seed is 5 here and 6 there"):
        merged.merge(Triangles(200, seed=6))


def test_estimates_are_unbiased_and_within_their_bound():
    # 300 seeds. The mean is within 5 standard errors of the truth but for p < 1e-6. A bound of
    # confidence 0.95 (0.8) is missed in more than 15 % (40 %) of 300 runs with p < 1e-9 (1e-12).
    ends = random_edges(7, 100, 3000)
    true = count_triangles(Graph(*ends)).total
    sketches = [Triangles(400, seed=seed).update(*ends) for seed in range(300)]
    estimates = np.array([sketch.estimate() for sketch in sketches])
    assert abs(estimates.mean() - true) < 5 * estimates.std() / np.sqrt(300)
    for confidence, missed in ((0.95, 0.15), (0.8, 0.4)):
        bounds = np.array([sketch.error_bound(confidence) for sketch in sketches])
        share = (np.abs(estimates - true) > bounds).mean()
        assert share < missed
        assert np.median(bounds) < 6 * estimates.std()  # not far too wide
    edges = np.array([sketch.edges() for sketch in sketches])
    distinct = len({frozenset(pair) for pair in ends.T.tolist() if pair[0] != pair[1]})
    assert abs(edges.mean() - distinct) < 5 * edges.std() / np.sqrt(300)


def test_the_smallest_sketch_is_unbiased_too():
    # All 66 edges of 12 nodes, 220 triangles, of which a sample of 16 edges has few. The mean of
    # 1500 seeds is within 5 standard errors (about 10 %) but for p < 1e-6; counting the edge of
    # the threshold itself would add a fifth.
    ends = np.array(list(combinations(range(12), 2))).T
    estimates = np.array([Triangles(16, seed=s).update(*ends).estimate() for s in range(1500)])
    error = estimates.std() / np.sqrt(1500)
    assert error < 6
    assert abs(estimates.mean() - 220) < 5 * error


def test_a_sample_without_triangles_still_has_a_bound():
    draw = np.random.default_rng(0)
    sketch = Triangles(50).update(*draw.integers(0, 4000, (2, 20_000)))
    assert sketch.estimate() == 0
    assert sketch.error_bound() > 0


def test_sketches_are_stored_and_damage_is_noticed(tmp_path):
    sketch = Triangles(100, seed=3).update(*random_edges(1, 50, 900))
    sketch.save(tmp_path / "t")
    assert load_any(tmp_path / "t") == sketch
    for row, column in ((0, 0), (5, 1)):
        broken = sketch.copy()
        broken._ends[row, column] = 2**63
        with pytest.raises(FormatError):
            Triangles.from_bytes(broken.to_bytes())


def test_what_is_refused():
    with pytest.raises(ParameterError, match=r"Triangles: size must be an integer from 16"):
        Triangles(8)
    with pytest.raises(ParameterError, match=r"targets must be as many as sources, 2, not 1"):
        Triangles().update([1, 2], [1])
    sketch = Triangles().update([1], [2])
    for bad in ([None, 1], [0.5, 1]):
        with pytest.raises((NullValueError, TypeError, ValueError), match="Triangles: sources"):
            sketch.update(bad, [1, 2])
    assert sketch == Triangles().update([1], [2])
    with pytest.raises(ValueError, match="cannot be released"):
        sketch.release(1.0)
