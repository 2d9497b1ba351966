"""SimRank equals its definition; sampled scores are within their stated errors."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import Graph, simrank


def random_graph(seed, nodes=12, edges=30):
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, nodes, (2, edges))
    return Graph(*ends, nodes=range(nodes), multi_edges="drop")


def by_definition(graph, decay, rounds=400):
    """s(a, b) = c / (|I(a)| |I(b)|) times the sum over in-neighbours, by dictionaries."""
    size = graph.n_nodes
    parents = [
        graph.sources[graph.in_offsets[a] : graph.in_offsets[a + 1]].tolist() for a in range(size)
    ]
    scores = np.eye(size)
    for _ in range(rounds):
        new = np.eye(size)
        for a in range(size):
            for b in range(size):
                if a != b and parents[a] and parents[b]:
                    total = sum(scores[i, j] for i in parents[a] for j in parents[b])
                    new[a, b] = decay * total / (len(parents[a]) * len(parents[b]))
        if np.abs(new - scores).max() < 1e-13:
            break
        scores = new
    return scores


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("decay", [0.3, 0.8])
def test_exact_scores_equal_the_definition_within_the_tolerance(seed, decay):
    graph = random_graph(seed)
    true = by_definition(graph, decay)
    for tolerance in (0.1, 1e-9):
        found = simrank(graph, decay=decay, tolerance=tolerance).all_scores
        assert (found <= true + 1e-12).all()
        assert (true - found).max() <= tolerance
    one = simrank(graph, 3, decay=decay, tolerance=1e-9, n=100)
    assert one.method == "exact"
    assert one.scores.tolist() == sorted(one.scores, reverse=True)
    assert one.scores == pytest.approx(true[3, one.ids])
    assert set(one.ids) == set(np.flatnonzero(true[3])) - {3}


def test_the_example_of_the_paper():
    # Jeh and Widom, figure 1 (b), with C = 0.8.
    edges = "univ>prof_a univ>prof_b prof_a>stud_a stud_a>univ prof_b>stud_b stud_b>prof_b"
    pairs = [edge.split(">") for edge in edges.split()]
    found = simrank(Graph(*zip(*pairs, strict=True)), decay=0.8, tolerance=1e-8)
    scores = {
        frozenset(pair): round(float(score), 3)
        for *pair, score in zip(found.first, found.second, found.scores, strict=True)
    }
    assert scores[frozenset(["prof_a", "prof_b"])] == 0.414
    assert scores[frozenset(["stud_a", "stud_b"])] == 0.331
    assert scores[frozenset(["univ", "prof_b"])] == 0.132
    assert scores[frozenset(["prof_a", "stud_b"])] == 0.106
    assert scores[frozenset(["prof_b", "stud_b"])] == 0.088
    assert scores[frozenset(["stud_a", "prof_b"])] == 0.042
    assert scores[frozenset(["univ", "stud_b"])] == 0.034


@pytest.mark.parametrize("seed", range(6))
def test_sampled_scores_are_within_their_errors(seed):
    # 20 runs of 11 scores each. The bound of all scores fails with p < 1e-6 a run; the mean over
    # runs of an unbiased score is within 5 of its standard errors but for p < 1e-6 each.
    graph = random_graph(seed, edges=40)
    true = by_definition(graph, 0.8)[5]
    runs = [
        simrank(graph, 5, method="monte-carlo", samples=3000, random_state=k, n=100)
        for k in range(20)
    ]
    scores = np.array([run.all_scores for run in runs])
    errors = np.zeros(graph.n_nodes)
    errors[graph.positions(runs[0].ids)] = runs[0].std_errors
    assert (np.abs(scores - true) <= runs[0].error_bound(1 - 1e-6)).all()
    assert (np.abs(scores.mean(axis=0) - true) <= 5 * errors / np.sqrt(20) + 2e-6).all()
    spread = scores.std(axis=0)
    assert (spread <= 1.8 * errors + 1e-12).all()  # an upper estimate, beyond chance of 20 runs
    assert spread.max() > errors.max() / 20  # and not far too wide


def test_nothing_is_sampled_where_walks_do_not_branch():
    # Every node has at most one in-neighbour, so two walks from it meet at once, or never.
    tree = Graph([0, 0, 1, 1, 2, 2], [1, 2, 3, 4, 5, 6])
    found = simrank(tree, 3, method="monte-carlo", samples=1, tolerance=1e-12)
    assert found.ids.tolist() == [4, 5, 6]
    assert found.scores == pytest.approx([0.8, 0.64, 0.64], abs=1e-11)
    assert (found.std_errors == 0).all()
    assert found.error_bound() == pytest.approx(1e-12)


def test_the_same_seed_gives_the_same_scores():
    graph = random_graph(1, 200, 1500)
    one, two, three = (
        simrank(graph, 7, method="monte-carlo", samples=500, random_state=state)
        for state in (4, 4, 5)
    )
    assert one.scores.tolist() == two.scores.tolist()
    assert one.scores.tolist() != three.scores.tolist()


def test_restart_is_the_walk_that_returns_to_its_source():
    # Authors and venues: with both directions, the probabilities solve r = b M r + (1 - b) e.
    authors, venues = ["ann", "ann", "bob", "bob", "cy"], ["icde", "kdd", "kdd", "www", "www"]
    graph = Graph(authors, venues).undirected()
    size, decay = graph.n_nodes, 0.8
    step = np.zeros((size, size))
    for a in range(size):
        row = graph.targets[graph.offsets[a] : graph.offsets[a + 1]]
        step[row, a] = 1 / row.size
    start = np.eye(size)[graph.positions("icde")[0]]
    true = np.linalg.solve(np.eye(size) - decay * step, (1 - decay) * start)
    found = simrank(graph, "icde", ["icde", "kdd", "www"], method="restart", tolerance=1e-12)
    assert found.all_scores == pytest.approx(true, abs=1e-10)
    assert found.ids.tolist() == ["kdd", "www"]
    # SimRank along both directions compares venues through their authors too.
    assert simrank(graph, "icde", ["kdd", "www"]).ids.tolist() == ["kdd", "www"]


def test_repeated_edges_count_as_often_as_they_are_kept():
    graph = Graph([0, 0, 1, 1, 2], [2, 2, 2, 3, 3], multi_edges="keep")
    exact = simrank(graph, 2, tolerance=1e-9)
    assert exact.scores[0] == pytest.approx(
        0.8 * (1 / 3) / 2 + 0.8 * 0
    )  # one of six pairs is equal
    sampled = simrank(graph, 2, method="monte-carlo", samples=10**5)
    assert sampled.scores[0] == pytest.approx(exact.scores[0], abs=0.01)


def test_nodes_without_parents_and_empty_graphs():
    graph = Graph([0, 1], [1, 2], nodes=range(5))
    for method in ("exact", "monte-carlo"):
        found = simrank(graph, 4, method=method)
        assert len(found) == 0
        assert found.all_scores.tolist() == [0, 0, 0, 0, 1]
    assert len(simrank(Graph([], []))) == 0


def test_ties_are_listed_in_the_order_of_nodes():
    star = Graph([0] * 30, range(1, 31))
    found = simrank(star, 7, n=5)
    assert found.ids.tolist() == [1, 2, 3, 4, 5]
    assert found.to_arrow().column_names == ["first", "second", "score", "std_error"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(source=99), "source must be one node of the graph, not 99"),
        (dict(source=[1, 2]), "source must be one node"),
        (dict(source=1, other=[99]), "other must be ids of nodes"),
        (dict(method="monte-carlo"), "source must be given for method 'monte-carlo'"),
        (dict(method="fast"), "method must be one of"),
        (dict(decay=1.0), "decay must be"),
        (dict(n=0), "n must be"),
        (dict(tolerance=0), "tolerance must be"),
        (dict(samples=0), "samples must be"),
        (dict(random_state=-1), "random_state must be"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ParameterError, match=f"simrank: {message}"):
        simrank(random_graph(0), **options)


def test_all_pairs_of_a_large_graph_are_refused_before_any_memory():
    with pytest.raises(ParameterError, match=r"for 20,000 nodes, only for up to 10,000"):
        simrank(Graph([0], [19_999], nodes=range(20_000)))
