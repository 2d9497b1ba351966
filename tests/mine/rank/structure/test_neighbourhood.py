"""Pairs within each distance equal a breadth-first search; sketched ones keep their error."""

from collections import deque

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import Graph, neighbourhood_function
from sfumato.mine.rank.structure.neighbourhood import NeighbourhoodFunction


def searched(graph):
    """Pairs within each distance by a search from every node."""
    distances = []
    for start in range(graph.n_nodes):
        found, waiting = {start: 0}, deque([start])
        while waiting:
            node = waiting.popleft()
            for near in graph.targets[graph.offsets[node] : graph.offsets[node + 1]].tolist():
                if near not in found:
                    found[near] = found[node] + 1
                    waiting.append(near)
        distances += found.values()
    return np.cumsum(np.bincount(distances))


def random_graph(seed, nodes, edges):
    draw = np.random.default_rng(seed)
    return Graph(*draw.integers(0, nodes, (2, edges)), nodes=range(nodes))


@pytest.mark.parametrize("seed", range(8))
def test_exact_pairs_equal_a_search_from_every_node(seed):
    graph = random_graph(seed, 10 + 97 * seed, 15 + 160 * seed)  # several blocks of 512 sources
    found = neighbourhood_function(graph, method="exact")
    true = searched(graph)
    assert found.pairs.tolist() == true.tolist()
    assert found.complete
    assert found.diameter == true.size - 1
    new = np.diff(true)
    assert found.mean_distance() == pytest.approx(np.repeat(np.arange(1, true.size), new).mean())
    cut = neighbourhood_function(graph, method="exact", max_distance=2)
    assert cut.pairs.tolist() == true[:3].tolist()
    assert cut.complete == (true.size <= 3)


@pytest.mark.parametrize("threads", [1, 3])
def test_sketched_pairs_are_within_their_error(threads):
    # 40 seeds, precision 6: a relative standard error of 0.13. For every distance the root mean
    # square of the errors exceeds 1.5 times the stated one with p < 1e-4 for other seeds if they
    # are as stated, and their mean 5 standard errors with p < 1e-6.
    graph = random_graph(1, 400, 900)
    true = searched(graph)
    runs = [
        neighbourhood_function(graph, method="hyperloglog", precision=6, seed=seed, threads=threads)
        for seed in range(40)
    ]
    for distance in (1, 2, 4, 6):
        errors = np.array([run.pairs[distance] for run in runs]) / true[distance] - 1
        assert np.sqrt((errors**2).mean()) < 1.5 * runs[0].std_error
        assert abs(errors.mean()) < 5 * runs[0].std_error / np.sqrt(40)
    assert all(run.diameter <= true.size - 1 for run in runs)
    assert all(run.pairs[0] == 400 for run in runs)
    exact = neighbourhood_function(graph, method="exact").effective_diameter()
    found = np.array([run.effective_diameter() for run in runs])
    assert abs(found.mean() - exact) < 5 * found.std() / np.sqrt(40) + 0.1
    # Intervals of 0.95: fewer than 30 of 40 contain the truth with p < 1e-5; and they are as wide
    # as the estimates vary, within a factor of 2.
    ends = np.array([run.effective_diameter_interval(0.9, 0.95) for run in runs])
    assert ((ends[:, 0] <= exact) & (exact <= ends[:, 1])).sum() >= 30
    assert 0.5 < np.median(ends[:, 1] - ends[:, 0]) / (2 * 2.13 * found.std()) < 2


def test_threads_and_order_of_ids_do_not_change_the_result():
    graph = random_graph(2, 300, 700)
    one, many = (
        neighbourhood_function(graph, method="hyperloglog", threads=threads) for threads in (1, 5)
    )
    assert one.pairs.tolist() == many.pairs.tolist()


def test_a_counter_of_every_precision_estimates_its_ball():
    # A star: after one step the centre's ball is all 3000 nodes, each leaf's is 2.
    star = Graph([0] * 2999, range(1, 3000)).undirected()
    for precision in (4, 7, 10, 14):
        found = neighbourhood_function(star, method="hyperloglog", precision=precision)
        true = np.array([3000, 3000 + 2 * 2999, 3000**2])
        assert found.pairs == pytest.approx(true, rel=5 * found.std_error)
        assert found.diameter == 2


def test_the_effective_diameter_is_interpolated():
    found = NeighbourhoodFunction(np.array([10.0, 40.0, 90.0, 100.0]), 0.0, "exact")
    assert found.effective_diameter(0.9) == 2.0
    assert found.effective_diameter(0.65) == 1.5
    assert found.effective_diameter(0.05) == 0.0
    assert found.effective_diameter(0.95) == 2.5
    assert found.effective_diameter_interval(0.65) == (1.5, 1.5)


def test_empty_and_disconnected_graphs():
    empty = neighbourhood_function(Graph([], []))
    assert (empty.pairs.size, empty.diameter, empty.effective_diameter()) == (0, 0, 0.0)
    assert empty.mean_distance() == 0.0
    alone = Graph([], [], nodes=range(70))
    for method in ("exact", "hyperloglog"):
        found = neighbourhood_function(alone, method=method)
        assert found.pairs.tolist() == [70]
        assert found.effective_diameter() == 0.0


def test_progress_is_reported_and_an_error_in_it_passes():
    graph, calls = random_graph(3, 700, 900), []
    neighbourhood_function(graph, method="exact", progress=lambda *at: calls.append(at))
    assert calls == [(512, 700), (700, 700)]
    calls.clear()
    found = neighbourhood_function(
        graph, method="hyperloglog", progress=lambda *at: calls.append(at)
    )
    assert calls == [(t, None) for t in range(1, found.diameter + 1)]


@pytest.mark.parametrize(
    "options",
    [
        dict(method="fast"),
        dict(precision=3),
        dict(max_distance=0),
        dict(seed=-1),
        dict(threads=0),
    ],
)
def test_what_is_refused(options):
    (name,) = options
    with pytest.raises(ParameterError, match=f"neighbourhood_function: {name} must"):
        neighbourhood_function(random_graph(0, 5, 9), **options)
