"""Graphs hold exactly the edges they were given, by the stated policies, and refuse the rest."""

import numpy as np
import pytest
import scipy.sparse

from sfumato.errors import NullValueError, ParameterError, ParameterTypeError
from sfumato.mine.rank import Graph


def edges_of(graph):
    """The edges as a dict from (source id, target id) to the summed weight."""
    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    weights = np.ones(graph.n_edges) if graph.weights is None else graph.weights
    found = {}
    for source, target, weight in zip(begins, graph.targets, weights, strict=True):
        pair = graph.nodes[source], graph.nodes[target]
        found[pair] = found.get(pair, 0) + float(weight)
    return found


def in_edges_of(graph):
    """As `edges_of`, from the in-edges."""
    ends = np.repeat(np.arange(graph.n_nodes), graph.in_degrees)
    weights = np.ones(graph.n_edges) if graph.in_weights is None else graph.in_weights
    found = {}
    for source, target, weight in zip(graph.sources, ends, weights, strict=True):
        pair = graph.nodes[source], graph.nodes[target]
        found[pair] = found.get(pair, 0) + float(weight)
    return found


@pytest.mark.parametrize("case", range(40))
def test_rows_equal_a_dictionary_of_the_edges_under_every_policy(case):
    draw = np.random.default_rng(case)
    ids = draw.integers(-50, 50, 12) if case % 2 else draw.integers(-(2**60), 2**60, 12)
    if case % 5 == 0:
        ids = np.array([f"page {value}" for value in ids], object)
    size = int(draw.integers(0, 40))
    begins, ends = draw.choice(ids, size), draw.choice(ids, size)
    weights = draw.integers(0, 3, size).astype(float) if case % 4 < 2 else None
    loops, join = ("keep", "drop")[case % 2], ("sum", "drop", "keep")[case % 3]
    graph = Graph(begins, ends, weights, self_loops=loops, multi_edges=join)
    expected, pairs = {}, list(zip(begins, ends, strict=True))
    for i, pair in enumerate(pairs):
        weight = 1.0 if weights is None else weights[i]
        if weight == 0 or (loops == "drop" and pair[0] == pair[1]):
            continue
        if join != "drop" or pair not in expected:
            expected[pair] = expected.get(pair, 0) + weight
    assert edges_of(graph) == expected
    assert in_edges_of(graph) == expected
    assert edges_of(graph.reverse()) == {(b, a): w for (a, b), w in expected.items()}
    assert graph.nodes.tolist() == sorted({*begins.tolist(), *ends.tolist()})
    retained = [pair for i, pair in enumerate(pairs) if weights is None or weights[i] > 0]
    loops_left = [a for a, b in (retained if join == "keep" else expected) if a == b]
    assert graph.self_loops == (0 if loops == "drop" else len(loops_left))
    for row in range(graph.n_nodes):
        assert (np.diff(graph.targets[graph.offsets[row] : graph.offsets[row + 1]]) >= 0).all()


def test_undirected_has_every_pair_once_in_each_direction():
    graph = Graph([1, 2, 1, 3, 3], [2, 1, 3, 3, 1], [1.0, 5.0, 2.0, 4.0, 2.0]).undirected()
    assert edges_of(graph) == {(1, 2): 5, (2, 1): 5, (1, 3): 2, (3, 1): 2, (3, 3): 4}
    assert edges_of(graph.undirected()) == edges_of(graph)
    plain = Graph([1, 2, 1], [2, 1, 3]).undirected()
    assert edges_of(plain) == {(1, 2): 1, (2, 1): 1, (1, 3): 1, (3, 1): 1}
    assert not plain.is_weighted


def test_nodes_give_the_order_and_nodes_without_edges():
    graph = Graph(["b"], ["a"], nodes=["c", "b", "a"])
    assert graph.nodes.tolist() == ["c", "b", "a"]
    assert graph.out_degrees.tolist() == [0, 1, 0]
    assert graph.positions(["a", "zzz"]).tolist() == [2, -1]
    assert graph.positions("b").tolist() == [1]
    assert graph.positions([7]).tolist() == [-1]
    with pytest.raises(ParameterError, match="row 0 of targets is another"):
        Graph(["b"], ["a"], nodes=["c", "b"])
    with pytest.raises(ParameterError, match="distinct"):
        Graph(["b"], ["b"], nodes=["c", "b", "b"])


def test_an_empty_graph_has_no_nodes_or_the_given_ones():
    assert Graph([], []).n_nodes == 0
    graph = Graph([], [], nodes=[5, 3])
    assert (graph.n_nodes, graph.n_edges, graph.in_degrees.tolist()) == (2, 0, [0, 0])
    assert graph.undirected().n_edges == 0


def test_compressed_rows_and_sparse_matrices_are_the_same_graph():
    draw = np.random.default_rng(1)
    dense = np.where(draw.random((9, 9)) < 0.3, draw.integers(1, 5, (9, 9)), 0).astype(float)
    expected = {(i, j): dense[i, j] for i, j in np.argwhere(dense).tolist()}
    matrix = scipy.sparse.csr_array(dense)
    for form in ("csr", "csc", "coo", "lil"):
        assert edges_of(Graph.from_scipy(matrix.asformat(form))) == expected
    rows = Graph.from_csr(matrix.indptr, matrix.indices[::1], matrix.data)
    assert edges_of(rows) == expected
    named = Graph.from_csr(matrix.indptr, matrix.indices, nodes=list("abcdefghi"))
    assert set(edges_of(named)) == {("abcdefghi"[i], "abcdefghi"[j]) for i, j in expected}
    unsorted = Graph.from_csr([0, 3, 3, 3], [2, 0, 1])
    assert unsorted.targets.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("offsets", "targets"),
    [([1, 2], [0]), ([0, 2, 1], [0]), ([0, 1], [1]), ([0, 1], [-1]), ([], [])],
)
def test_compressed_rows_that_are_none_are_refused(offsets, targets):
    with pytest.raises(ParameterError):
        Graph.from_csr(np.array(offsets, int), np.array(targets, int))


def test_graphs_of_networkx_keep_nodes_weights_and_both_directions():
    networkx = pytest.importorskip("networkx")
    theirs = networkx.DiGraph([("b", "a"), ("a", "c")])
    theirs.add_node("d")
    graph = Graph.from_networkx(theirs)
    assert graph.nodes.tolist() == ["b", "a", "c", "d"]
    assert edges_of(graph) == {("b", "a"): 1, ("a", "c"): 1}
    mutual = networkx.Graph()
    mutual.add_edge(1, 2, weight=3.0)
    mutual.add_edge(2, 2)
    assert edges_of(Graph.from_networkx(mutual)) == {(1, 2): 3, (2, 1): 3, (2, 2): 1}
    assert edges_of(Graph.from_networkx(mutual, weight=None)) == {(1, 2): 1, (2, 1): 1, (2, 2): 1}
    assert Graph.from_networkx(networkx.DiGraph()).n_nodes == 0


def test_graphs_of_igraph_keep_nodes_weights_and_both_directions():
    igraph = pytest.importorskip("igraph")
    theirs = igraph.Graph(4, [(0, 1), (1, 2)], directed=True)
    assert edges_of(Graph.from_igraph(theirs)) == {(0, 1): 1, (1, 2): 1}
    theirs = igraph.Graph(3, [(0, 1), (2, 2)], edge_attrs={"weight": [2.0, 3.0]})
    theirs.vs["name"] = ["x", "y", "z"]
    assert edges_of(Graph.from_igraph(theirs)) == {("x", "y"): 2, ("y", "x"): 2, ("z", "z"): 3}


def test_a_graph_never_changes():
    begins = np.array([1, 2])
    graph = Graph(begins, begins + 1)
    begins[0] = 9
    assert graph.nodes.tolist() == [1, 2, 3]
    for array in (graph.nodes, graph.offsets, graph.targets, graph.in_offsets, graph.sources):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (([1], [2, 3]), {}, ParameterError, "as many as sources, 1, not 2"),
        (([1], ["a"]), {}, ParameterTypeError, "both integers, or both texts"),
        (([1, None], [2, 3]), {}, NullValueError, "sources: row 1"),
        (([1.5], [2]), {}, TypeError, "sources"),
        (([1, 2], [2, 3], [1.0, -2.0]), {}, ParameterError, "row 1 is below 0"),
        (([1, 2], [2, 3], [1.0, np.nan]), {}, ValueError, "row 1 is not a finite number"),
        (([1, 2], [2, 3], [1.0, np.inf]), {}, ValueError, "row 1 is not a finite number"),
        (([1, 2], [2, 3], [1.0]), {}, ParameterError, "as many as edges, 2, not 1"),
        (([1], [2]), {"self_loops": "never"}, ParameterError, "self_loops must be one of"),
        (([1], [2]), {"multi_edges": "never"}, ParameterError, "multi_edges must be one of"),
    ],
)
def test_what_is_no_graph_is_refused(arguments, options, error, words):
    with pytest.raises(error, match=words):
        Graph(*arguments, **options)


def test_the_line_states_sizes_and_policies_but_no_ids():
    graph = Graph(["secret", "secret"], ["secret", "other"], self_loops="drop")
    assert repr(graph) == (
        "Graph(n_nodes=2, n_edges=1, weighted=False, self_loops='drop' (0), multi_edges='sum')"
    )
    assert "secret" not in graph._repr_html_()
