"""PageRank is the fixed point of the Google matrix, whatever the graph, the weights and threads."""

import os
from pathlib import Path

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import (
    Graph,
    Ranks,
    flow_equations,
    pagerank,
    random_walk_with_restart,
    walk_distribution,
)

ROOT = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3].parent / "shared" / "data"))
YAM = Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "a"])
TRAP = Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "m"])
DEAD = Graph(["y", "y", "a", "a"], ["y", "a", "y", "m"])


def google_matrix(graph, beta, teleport=None, *, weighted=True):
    """The dense matrix A from its definition, with teleports from dead ends."""
    n = graph.n_nodes
    jump = np.full(n, 1 / n) if teleport is None else teleport
    links = np.zeros((n, n))
    for source in range(n):
        for at in range(graph.offsets[source], graph.offsets[source + 1]):
            weight = graph.weights[at] if weighted and graph.is_weighted else 1.0
            links[graph.targets[at], source] += weight
    for source in range(n):
        out = links[:, source].sum()
        links[:, source] = beta * links[:, source] / out + (1 - beta) * jump if out > 0 else jump
    return links


def stationary(matrix):
    """The fixed point of a stochastic matrix, by its powers."""
    for _ in range(12):
        matrix = matrix @ matrix
        matrix /= matrix.sum(axis=0)
    return matrix[:, 0]


def random_graph(seed, nodes=40, edges=150, *, weighted=False):
    draw = np.random.default_rng(seed)
    # Squares make hubs, and some nodes have no out-edges, some no in-edges.
    begins = (nodes * draw.random(edges) ** 2).astype(int)
    ends = nodes - 1 - (nodes * draw.random(edges) ** 2).astype(int)
    weights = draw.exponential(size=edges) if weighted else None
    return Graph(begins, ends, weights, nodes=np.arange(nodes))


def test_flow_equations_of_the_course_have_its_solution():
    np.testing.assert_allclose(flow_equations(YAM).score(["y", "a", "m"]), [0.4, 0.4, 0.2])


def test_power_iteration_reaches_the_stationary_distribution():
    np.testing.assert_allclose(walk_distribution(YAM, 100), flow_equations(YAM).scores, atol=1e-9)


def test_rank_leaks_at_dead_ends_without_teleports():
    assert walk_distribution(DEAD, 50).sum() < 1e-4
    assert pagerank(DEAD).scores.sum() == pytest.approx(1, abs=1e-12)


def test_a_spider_trap_takes_all_rank_without_teleports():
    after = walk_distribution(TRAP, 100)
    np.testing.assert_allclose(after[TRAP.positions(["m"])], 1, atol=1e-6)
    scores = pagerank(TRAP, 0.8, tolerance=1e-12).score(["y", "a", "m"])
    np.testing.assert_allclose(scores, [7 / 33, 5 / 33, 21 / 33], atol=1e-11)


def test_a_periodic_graph_never_settles_until_loops_make_it_aperiodic():
    flip = Graph([0, 1], [1, 0])
    even, odd = (walk_distribution(flip, t, start=[1, 0]).tolist() for t in (100, 101))
    assert (even, odd) == ([1, 0], [0, 1])
    lazy = Graph([0, 1, 0, 1], [1, 0, 0, 1])
    np.testing.assert_allclose(walk_distribution(lazy, 60, start=[1, 0]), [0.5, 0.5])


def test_reducible_graphs_have_no_unique_flow():
    with pytest.raises(ParameterError, match="several closed groups"):
        flow_equations(Graph([0, 1], [0, 1]))
    with pytest.raises(ParameterError, match="no out-edge"):
        flow_equations(DEAD)


@pytest.mark.parametrize("seed", range(30))
def test_ranks_are_those_of_the_dense_google_matrix(seed):
    draw = np.random.default_rng(seed)
    graph = random_graph(seed, weighted=seed % 2 == 1)
    beta = (0.0, 0.5, 0.8, 0.85, 0.99)[seed % 5]
    teleport, topic = None, None
    if seed % 3 == 1:
        topic = draw.choice(40, 5, replace=False)
        teleport = np.bincount(topic, minlength=40) / 5
    elif seed % 3 == 2:
        topic = {int(node): float(draw.random()) for node in draw.choice(40, 5, replace=False)}
        teleport = np.zeros(40)
        teleport[list(topic)] = np.array(list(topic.values())) / sum(topic.values())
    expected = stationary(google_matrix(graph, beta, teleport))
    ranks = pagerank(graph, beta, teleport=topic, tolerance=1e-12)
    assert ranks.converged
    assert np.abs(ranks.scores - expected).sum() < 1e-12 * beta / (1 - beta) + 1e-13
    solved = flow_equations(graph, beta, teleport=topic)
    np.testing.assert_allclose(solved.scores, expected, atol=1e-12)


def test_a_topic_of_all_nodes_is_plain_pagerank():
    graph = random_graph(1)
    plain = pagerank(graph, tolerance=1e-12)
    topic = pagerank(graph, teleport=graph.nodes, tolerance=1e-12)
    np.testing.assert_allclose(plain.scores, topic.scores, atol=1e-12)


def test_the_residual_is_the_plain_change_of_one_more_step_before_the_result():
    graph = random_graph(3, 2000, 9000)
    matrix = google_matrix(graph, 0.85)
    for tolerance in (1e-3, 1e-8, 1e-12):
        ranks = pagerank(graph, tolerance=tolerance)
        assert ranks.residual < tolerance
        # T contracts by beta, so the next change is at most beta times the last one.
        change = np.abs(matrix @ ranks.scores - ranks.scores).sum()
        assert change <= 0.85 * ranks.residual + 1e-14


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_do_not_change_a_bit(weighted, monkeypatch):
    from sfumato.mine.rank.page_rank import pull_layout

    monkeypatch.setattr(pull_layout, "BLOCK", 256)  # many blocks of a small graph
    made = [random_graph(5, 500, 4000, weighted=weighted) for _ in range(3)]
    scores = [pagerank(graph, threads=t).scores for graph, t in zip(made, (1, 2, 3), strict=True)]
    assert (scores[0] == scores[1]).all()
    assert (scores[0] == scores[2]).all()
    assert pull_layout.layout_of(made[0]).blocks.size > 5
    expected = stationary(google_matrix(made[0], 0.85))
    np.testing.assert_allclose(scores[0], expected, atol=1e-8)


def test_hubs_and_blocks_of_eight_rows_are_pulled_alike():
    # In-degrees of 0 to 70: rows side by side, single rows, and rows too long to stand so.
    draw = np.random.default_rng(4)
    degrees = np.repeat(np.arange(71), np.arange(71) % 19)
    begins = np.concatenate([draw.choice(900, n, replace=False) for n in degrees])
    ends = np.repeat(np.arange(degrees.size), degrees)
    graph = Graph(begins, ends, nodes=np.arange(900))
    ranks = pagerank(graph, 0.5, tolerance=1e-12)
    r, sources = ranks.scores, np.repeat(np.arange(900), graph.out_degrees)
    new = 0.5 * np.bincount(
        graph.targets, (r / np.maximum(graph.out_degrees, 1))[sources], minlength=900
    )
    new += (1 - new.sum()) / 900
    assert np.abs(new - r).sum() < 1e-12


def test_nodes_without_edges_count_in_the_residual():
    graph = Graph([0], [1], nodes=np.arange(10))
    start = np.eye(10)[9]
    with pytest.warns(RuntimeWarning, match="after 1 iterations"):
        once = pagerank(graph, start=start, max_iter=1)
    expected = google_matrix(graph, 0.85) @ start
    np.testing.assert_allclose(once.scores, expected, atol=1e-15)
    assert once.residual == pytest.approx(np.abs(expected - start).sum())
    settled = pagerank(graph, start=start, tolerance=1e-12).scores
    np.testing.assert_allclose(settled, stationary(google_matrix(graph, 0.85)), atol=1e-12)


def test_parallel_edges_count_by_their_number_under_sum_and_keep():
    begins, ends = [0, 0, 0, 1, 2], [1, 1, 2, 0, 0]
    several = pagerank(Graph(begins, ends, multi_edges="keep"), tolerance=1e-12)
    summed = pagerank(Graph(begins, ends), tolerance=1e-12)
    weighted = pagerank(Graph([0, 0, 1, 2], [1, 2, 0, 0], [2, 1, 1, 1]), tolerance=1e-12)
    np.testing.assert_allclose(several.scores, summed.scores, atol=1e-12)
    np.testing.assert_allclose(several.scores, weighted.scores, atol=1e-12)
    once = pagerank(Graph(begins, ends, multi_edges="drop"), tolerance=1e-12)
    unweighted = pagerank(Graph(begins, ends), tolerance=1e-12, weighted=False)
    np.testing.assert_allclose(once.scores, unweighted.scores, atol=1e-12)
    assert abs(once.scores - several.scores).max() > 0.01


def test_disconnected_graphs_and_single_nodes_have_ranks():
    assert pagerank(Graph([], [], nodes=[1, 2])).scores.tolist() == [0.5, 0.5]
    assert pagerank(Graph([7], [7])).scores.tolist() == [1.0]
    two = pagerank(Graph([0, 1, 2, 3], [1, 0, 3, 2]))
    np.testing.assert_allclose(two.scores, 0.25)
    apart = pagerank(Graph([0, 1, 2, 3], [1, 0, 3, 2]), teleport=0)
    np.testing.assert_allclose(apart.scores[2:], 0, atol=1e-12)


def test_a_start_near_the_ranks_saves_iterations():
    graph = random_graph(7, 3000, 12000)
    cold = pagerank(graph, tolerance=1e-10)
    warm = pagerank(graph, tolerance=1e-10, start=cold)
    assert warm.iterations < cold.iterations / 4
    np.testing.assert_allclose(cold.scores, warm.scores, atol=1e-10)


def test_too_few_iterations_warn_and_say_so():
    calls = []
    with pytest.warns(RuntimeWarning, match="after 3 iterations"):
        ranks = pagerank(
            random_graph(2), max_iter=3, progress=lambda done, total: calls.append((done, total))
        )
    assert not ranks.converged
    assert calls == [(1, None), (2, None), (3, None)]
    assert ranks.scores.sum() == pytest.approx(1, abs=1e-12)


def test_proximity_prefers_many_short_and_heavy_paths():
    # From 0: node 1 by two paths, node 2 by one path, node 3 by one longer path.
    graph = Graph([0, 4, 0, 5, 0, 6, 6, 7], [4, 1, 5, 1, 6, 2, 7, 3]).undirected()
    near = random_walk_with_restart(graph, 0)
    one, two, three = near.score([1, 2, 3])
    assert one > two > three
    heavy = Graph([0, 0], [1, 2], [1.0, 3.0]).undirected()
    one, two = random_walk_with_restart(heavy, 0, tolerance=1e-12).score([1, 2])
    assert two == pytest.approx(3 * one)
    expected = stationary(google_matrix(graph, 0.85, np.eye(8)[0]))
    np.testing.assert_allclose(near.scores, expected, atol=1e-7)
    with pytest.raises(ParameterError, match="node must be one id"):
        random_walk_with_restart(graph, [0, 1])


def test_tiny_probabilities_far_from_a_topic_are_not_lost():
    path = Graph(np.arange(300), np.arange(1, 301))
    ranks = pagerank(path, 0.5, teleport=0, tolerance=1e-13)
    exact = flow_equations(path, 0.5, teleport=0).scores
    np.testing.assert_allclose(ranks.scores[:40], exact[:40], atol=1e-13)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"beta": 1.0}, ParameterError, "beta must be a number from 0 to 1, 1 excluded"),
        ({"beta": -0.1}, ParameterError, "beta"),
        ({"tolerance": 0.0}, ParameterError, "tolerance"),
        ({"max_iter": 0}, ParameterError, "max_iter"),
        ({"threads": 0}, ParameterError, "threads"),
        ({"teleport": ["z"]}, ParameterError, "number 0 is none"),
        ({"teleport": []}, ParameterError, "must name a node"),
        ({"teleport": {}}, ParameterError, "must name a node"),
        ({"teleport": {"y": 0.0}}, ParameterError, "weight above 0"),
        ({"teleport": {"y": -1.0}}, ParameterError, "weights from 0 up"),
        ({"teleport": {"y": np.nan}}, ValueError, "not a finite number"),
        ({"teleport": 3.5}, TypeError, "teleport"),
        ({"start": [1.0]}, ParameterError, "start must be 3 numbers"),
        ({"start": [0.0, 0.0, 0.0]}, ParameterError, "start must be 3 numbers"),
    ],
)
def test_bad_parameters_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        pagerank(YAM, **options)


def test_a_graph_without_nodes_is_refused():
    with pytest.raises(ParameterError, match="must have a node"):
        pagerank(Graph([], []))
    with pytest.raises(TypeError, match="must be a Graph"):
        pagerank([[0, 1]])


def test_ranks_are_best_first_with_ties_by_position():
    ranks = Ranks(np.array([9, 8, 7, 6]), np.array([0.2, 0.4, 0.2, 0.2]))
    for n in range(1, 6):
        ids, scores = ranks.top(n)
        assert ids.tolist() == [8, 9, 7, 6][:n]
        assert scores.tolist() == [0.4, 0.2, 0.2, 0.2][:n]
    assert ranks.to_arrow().to_pydict() == {"node": [8, 9, 7, 6], "score": [0.4, 0.2, 0.2, 0.2]}
    with pytest.raises(ParameterError, match="row 1 is none"):
        ranks.score([9, 1])


def test_igraph_agrees_to_1e_7():
    igraph = pytest.importorskip("igraph")
    draw = np.random.default_rng(11)
    begins = (5000 * draw.random(40000) ** 3).astype(int)
    ends = (5000 * draw.random(40000) ** 2).astype(int)
    graph = Graph(begins, ends, nodes=np.arange(5000), multi_edges="keep")
    assert (graph.out_degrees == 0).sum() > 50
    theirs = igraph.Graph(5000, np.column_stack([begins, ends]).tolist(), directed=True)
    assert np.abs(pagerank(graph).scores - np.array(theirs.pagerank())).sum() < 1e-7


@pytest.mark.skipif(not ROOT.exists(), reason="the shared data sets are not there")
def test_slashdot_with_and_without_its_loops():
    from sfumato.mine.rank import read_graph

    path = ROOT / "graphs" / "soc-Slashdot0902.txt.gz"
    graph = read_graph(path)
    assert (graph.n_nodes, graph.n_edges, graph.self_loops) == (82168, 948464, 78303)
    plain = read_graph(path, self_loops="drop")
    assert (plain.n_edges, plain.self_loops) == (948464 - 78303, 0)
    ranks, without = pagerank(graph), pagerank(plain)
    assert np.abs(ranks.scores - without.scores).sum() > 0.1  # so the policy must be stated
    small = Graph.from_csr(
        np.concatenate([[0], np.cumsum([(graph.targets[a:b] < 800).sum() for a, b in zip(
            graph.offsets[:800], graph.offsets[1:801], strict=True)])]),
        np.concatenate([row[row < 800] for row in np.split(
            graph.targets[: graph.offsets[800]], graph.offsets[1:800])]),
    )  # fmt: skip
    expected = stationary(google_matrix(small, 0.85))
    np.testing.assert_allclose(pagerank(small, tolerance=1e-12).scores, expected, atol=1e-12)
