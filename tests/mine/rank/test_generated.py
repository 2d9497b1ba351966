"""R-MAT graphs have the wanted size, heavy tails, and the same edges for the same seed."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.rank import rmat_graph


def test_the_same_seed_is_the_same_graph_and_another_is_not():
    first, again, other = (rmat_graph(9, 3000, random_state=s) for s in (1, 1, 2))
    assert (first.targets == again.targets).all()
    assert (first.offsets == again.offsets).all()
    assert not np.array_equal(first.targets, other.targets)
    assert (first.n_nodes, first.n_edges) == (512, 3000)


def test_quadrants_have_their_probabilities():
    graph = rmat_graph(14, 100_000)
    degrees = np.sort(graph.out_degrees)[::-1]
    # The expected degree of the heaviest source is edges * 0.76**14 = 2145, before duplicates.
    assert 1200 < degrees[0] < 2400
    even = rmat_graph(14, 100_000, quadrants=(0.25, 0.25, 0.25, 0.25))
    assert even.out_degrees.max() < 30  # Poisson of mean 6.1: above 29 has p < 1e-6 for 16,384


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0},
        {"scale": 3, "edges": 17},
        {"edges": -1},
        {"quadrants": (1, 0, 0)},
        {"quadrants": (0.5, 0.5, 0.5, 0.5)},
        {"quadrants": (1.0, 0, 0, 0)},
    ],
)
def test_bad_parameters_are_refused(options):
    with pytest.raises(ParameterError):
        rmat_graph(**{"scale": 5, "edges": 10, **options})
    assert rmat_graph(5, 0).n_edges == 0
