"""Hubs and authorities equal the leading singular vectors, and sum to 1."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import Graph, hits


def dense(graph):
    matrix = np.zeros((graph.n_nodes, graph.n_nodes))
    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    np.add.at(matrix, (begins, graph.targets), 1 if graph.weights is None else graph.weights)
    return matrix


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_scores_are_the_leading_singular_vectors(seed, weighted):
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, 25, (2, 160))
    weights = draw.uniform(0.1, 3, 160) if weighted else None
    graph = Graph(*ends, weights, multi_edges="sum" if weighted else "drop")
    left, sizes, right = np.linalg.svd(dense(graph))
    assert sizes[1] < 0.95 * sizes[0]
    hubs, authorities = hits(graph, tolerance=1e-13)
    for ranks, vector in ((hubs, left[:, 0]), (authorities, right[0])):
        assert ranks.scores == pytest.approx(np.abs(vector) / np.abs(vector).sum(), abs=1e-11)
        assert ranks.scores.sum() == pytest.approx(1)
        assert ranks.converged


def test_of_equal_singular_values_equal_scores_decide():
    # Two stars alike: both have the largest singular value, and equal parts of the scores.
    graph = Graph([0, 0, 5, 5], [1, 2, 6, 7])
    hubs, authorities = hits(graph)
    assert hubs.scores.tolist() == [0.5, 0, 0, 0.5, 0, 0]
    assert authorities.scores == pytest.approx([0, 0.25, 0.25, 0, 0.25, 0.25])
    ids, scores = authorities.top(3)
    assert ids.tolist() == [1, 2, 6]
    assert scores == pytest.approx([0.25] * 3)


def test_no_edges_and_no_nodes():
    hubs, authorities = hits(Graph([], [], nodes=[1, 2]))
    assert hubs.scores.tolist() == authorities.scores.tolist() == [0, 0]
    assert hits(Graph([], []))[0].top()[0].size == 0


def test_an_unfinished_iteration_is_warned_of():
    draw = np.random.default_rng(0)
    graph = Graph(*draw.integers(0, 40, (2, 200)))
    with pytest.warns(RuntimeWarning, match=r"hits: the change is .* after 2 iterations"):
        hubs, authorities = hits(graph, max_iter=2)
    for ranks in (hubs, authorities):
        assert (ranks.iterations, ranks.converged) == (2, False)
        assert ranks.scores.sum() == pytest.approx(1)


@pytest.mark.parametrize("options", [dict(tolerance=0), dict(max_iter=0)])
def test_what_is_refused(options):
    with pytest.raises(ParameterError, match=r"hits: .* must"):
        hits(Graph([1], [2]), **options)
