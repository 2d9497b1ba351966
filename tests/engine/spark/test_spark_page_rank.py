"""PageRank of edges in partitions: the ranks of one machine, on any engine."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine
from sfumato.errors import ParameterError
from sfumato.mine.rank import Graph, pagerank

RNG = np.random.default_rng(8)
EDGES = 4000
# Parallel edges, loops, dead ends (nodes from 300 up), and ids with gaps.
SOURCES = 7 * np.minimum(RNG.zipf(1.4, EDGES), 299)
TARGETS = 7 * RNG.integers(0, 400, EDGES)
WEIGHTS = RNG.integers(0, 4, EDGES) / 2
COLUMNS = {
    "integers": (SOURCES, TARGETS),
    "texts": tuple(np.array([f"page {n}" for n in ids], object) for ids in (SOURCES, TARGETS)),
}


@pytest.fixture(params=["one thread", "threads", "spark"])
def engine(request):
    if request.param == "spark":
        return request.getfixturevalue("spark")
    return LocalEngine(threads=1 if request.param == "one thread" else 3)


@pytest.fixture
def edges(request, tmp_path):
    """Both columns, and the paths of three files that hold them with their weights."""
    folder, columns = tmp_path, COLUMNS[request.param]
    table = pa.table({"source": columns[0], "target": columns[1], "weight": WEIGHTS})
    paths = [str(folder / f"{at}.parquet") for at in range(3)]
    for at, path in enumerate(paths):
        pq.write_table(table.slice(at * 1500, 1500), path)
    return columns, paths


def distance(left, right):
    assert left.nodes.tolist() == right.nodes.tolist()
    return np.abs(left.scores - right.scores).sum()


# Spark takes ten seconds for each: one kind of ids plain, the other with weights.
@pytest.mark.parametrize(
    "edges", ["texts", pytest.param("integers", marks=pytest.mark.soak)], indirect=True
)
def test_ranks_are_those_of_one_machine(engine, edges):
    columns, paths = edges
    found = pagerank(paths, engine=engine)
    assert found.converged
    assert found.scores.sum() == pytest.approx(1)
    assert distance(found, pagerank(Graph(*columns))) <= 1e-7


@pytest.mark.parametrize(
    "edges", ["integers", pytest.param("texts", marks=pytest.mark.soak)], indirect=True
)
def test_weights_and_topics_are_those_of_one_machine(engine, edges):
    columns, paths = edges
    topic = {columns[1][0]: 3.0, columns[0][0]: 1.0}
    found = pagerank(paths, 0.5, teleport=topic, engine=engine, weight_column="weight")
    expected = pagerank(Graph(*columns, WEIGHTS), 0.5, teleport=topic)
    assert distance(found, expected) <= 1e-7


def test_iterations_begin_with_given_scores_and_are_reported():
    rows, done = {"source": SOURCES, "target": TARGETS}, []
    first = pagerank(rows, engine=LocalEngine(), progress=lambda n, total: done.append(n))
    assert done == list(range(1, first.iterations + 1))
    assert pagerank(rows, engine=LocalEngine(), start=first).iterations == 1


def test_ranks_that_do_not_settle_are_warned_of():
    rows = {"source": SOURCES, "target": TARGETS}
    with pytest.warns(RuntimeWarning, match="after 2 iterations"):
        assert not pagerank(rows, engine=LocalEngine(), max_iter=2).converged


def test_what_an_engine_cannot_do_is_refused():
    rows = {"source": SOURCES, "target": TARGETS, "name": [f"{n}" for n in TARGETS]}
    for options, problem in (
        ({"threads": 2}, "threads must be None"),
        ({"weighted": False}, "weighted must be True"),
    ):
        with pytest.raises(ParameterError, match=problem):
            pagerank(rows, engine=LocalEngine(), **options)
    with pytest.raises(TypeError, match="both integers, or both texts"):
        pagerank(rows, engine=LocalEngine(), target_column="name")
    with pytest.raises(ParameterError, match="graph must have an edge"):
        pagerank({"source": [], "target": []}, engine=LocalEngine())
    with pytest.raises(ParameterError, match="below 0"):
        pagerank(
            {"source": [1], "target": [2], "w": [-1.0]}, engine=LocalEngine(), weight_column="w"
        )
