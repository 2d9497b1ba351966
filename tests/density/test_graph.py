"""Node densities: adjacency lists as given, kernel sums over them, and what each unit costs."""

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from sfumato.density import NodeDensity, load, neighbourhoods
from sfumato.density.base import noise_from
from sfumato.privacy.ledger.ledger import Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import CountMin, Race, SketchFormatError
from sfumato.sketch.lsh import Angular, Jaccard

ROOT = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[3] / "shared" / "data"))
SLASHDOT = ROOT / "graphs" / "soc-Slashdot0902.txt.gz"
RNG = np.random.default_rng(4)
EDGES = np.unique(RNG.integers(0, 60, (700, 2)), axis=0)  # with self-loops, no edge twice
SMALL = {"rows": 48, "width": 64}


def by_hand(edges, directed, self_loops):
    lists = {}
    for u, v in edges:
        if u != v or self_loops:
            lists.setdefault(u, set()).add(v)
            if not directed:
                lists.setdefault(v, set()).add(u)
    return lists


def as_sets(lists):
    members = lists.members.to_pylist() if hasattr(lists.members, "to_pylist") else lists.members
    nodes = lists.nodes.to_pylist() if hasattr(lists.nodes, "to_pylist") else lists.nodes
    ends = zip(lists.offsets[:-1], lists.offsets[1:], strict=True)
    return dict(zip(nodes, (set(members[a:b]) for a, b in ends), strict=True))


def private(edges, seed=1, **parameters):
    with noise_from(InsecureSeededSource(seed)):
        return NodeDensity(**{**SMALL, "epsilon": 1.0, **parameters}).fit(edges)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("self_loops", [True, False])
def test_every_node_with_neighbours_has_one_list(directed, self_loops):
    assert (EDGES[:, 0] == EDGES[:, 1]).any()
    result = neighbourhoods(EDGES, directed=directed, self_loops=self_loops)
    assert as_sets(result) == by_hand(EDGES.tolist(), directed, self_loops)
    names = np.array([f"node {i}" for i in range(60)])
    texts = pa.array(names[EDGES[:, 0]]), pa.array(names[EDGES[:, 1]])
    result = neighbourhoods(texts, directed=directed, self_loops=self_loops)
    assert as_sets(result) == by_hand(
        zip(*(t.to_pylist() for t in texts), strict=True), directed, self_loops
    )


def test_every_container_of_edges_gives_the_same_lists():
    table = pa.table({"from": EDGES[:, 0], "to": EDGES[:, 1]})
    expected = as_sets(neighbourhoods(EDGES))
    pair = EDGES[:, 0], EDGES[:, 1]
    for same in (
        EDGES.tolist(),
        pair,
        table,
        table.to_pandas(),
        EDGES[::-1],
        EDGES.astype(np.int32),
    ):
        assert as_sets(neighbourhoods(same)) == expected
    assert len(neighbourhoods(np.empty((0, 2), int))) == 0
    names = pd.DataFrame(np.array([f"node {i}" for i in range(60)])[EDGES])
    texts = as_sets(neighbourhoods(names))
    assert as_sets(neighbourhoods(names.astype("category"))) == texts
    categories = pl.DataFrame(names.to_numpy(), ["from", "to"]).cast(pl.Categorical)
    assert as_sets(neighbourhoods(categories)) == texts


def test_lists_can_be_taken_by_position():
    lists = neighbourhoods(EDGES)
    positions = [7, 0, 7, 30]
    taken, full = lists.take(positions), list(as_sets(lists).items())
    ends = zip(taken.offsets[:-1], taken.offsets[1:], strict=True)
    got = [(n, set(taken.members[a:b])) for n, (a, b) in zip(taken.nodes, ends, strict=True)]
    assert got == [full[position] for position in positions]


def test_estimates_are_sums_of_similarities():
    # The mean of R independent rows strays by sum of sqrt(k + 1 / W) / sqrt(R); 5.5 times: 4e-8.
    model = NodeDensity(rows=2000, width=1024).fit(EDGES)
    lists = neighbourhoods(EDGES)
    similarities = np.array(
        [
            [len(a & b) / len(a | b) for b in as_sets(lists).values()]
            for a in as_sets(lists).values()
        ]
    )
    deviation = np.sqrt(similarities + 1 / 1024).sum(axis=0) / np.sqrt(2000) * 1.01
    assert (np.abs(model.estimate(lists) - similarities.sum(axis=0)) < 5.5 * deviation).all()
    assert np.allclose(model.density(lists), model.estimate(lists) / len(lists))
    assert np.allclose(model.score_samples(lists), np.log(model.density(lists)))
    squared = NodeDensity(rows=2000, width=1024, hashes=2).fit(EDGES)
    assert (np.abs(squared.estimate(lists) - (similarities**2).sum(axis=0)) < 5.5 * deviation).all()


def table_of(edges, directed, width=64):
    lists = neighbourhoods(edges, directed=directed)
    race = Race(48, width, Jaccard()).update(lists.sets)
    return np.append(race._table, np.full(race._count_cells(), race.total)).astype(np.int64)


@pytest.mark.parametrize(("directed", "lists"), [(True, 1), (False, 2)])
def test_an_edge_stays_within_the_sensitivity_of_its_release(directed, lists):
    released = private(EDGES, directed=directed, unit="edge").release_
    assert released.scale == pytest.approx(2 * lists * 48)  # L1 = 2 R or 4 R, at epsilon 1
    spent = private(EDGES, directed=directed, unit="edge", delta=1e-6).release_
    sparse = EDGES[:40]  # where lists are short, an edge changes them most
    full = {
        graph: table_of(graph_edges, directed)
        for graph, graph_edges in (("dense", EDGES), ("sparse", sparse))
    }
    changes = []
    for graph, edges in (("dense", EDGES), ("sparse", sparse)):
        for at in range(40):
            less = np.delete(edges, at, axis=0)
            changes.append(full[graph] - table_of(less, directed))
    changed = np.abs(changes).sum(axis=1)
    assert 0 < changed.max() / released.scale <= 1 + 1e-12
    square = (np.array(changes) ** 2).sum(axis=1).max()
    assert square <= 2 * lists**2 * 48
    rho = 2 * lists**2 * 48 / (2 * spent.scale**2)
    known = spent.statement.loss
    assert known["kind"] == ("GaussianNoise" if lists == 1 else "Concentrated")
    assert lists == 1 or rho <= known["rho"] <= rho * (1 + 1e-9)


def test_two_lists_that_move_together_need_all_of_the_sensitivity_of_an_edge():
    # 0 and 1 have the list {2} alone. Once they are joined, a row in which each now begins with the
    # other has two less where 2 was, and two more elsewhere: 4 R is no more than some rows need.
    before, after = [[0, 2], [1, 2]], [[0, 2], [1, 2], [0, 1]]
    change = table_of(after, directed=False) - table_of(before, directed=False)
    rows = np.abs(change[: 48 * 64].reshape(48, 64)).sum(axis=1)
    assert rows.max() == 4


@pytest.mark.parametrize("delta", [0, 1e-3])
def test_an_exchanged_edge_moves_two_lists_that_may_meet_in_a_cell(delta):
    # 0 loses the edge to v, and 1 gains one to w; in tables of two cells both often move together.
    model = private(EDGES, unit="edge", relation="replace", delta=delta, width=2)
    changes = []
    for a, v, c, w in np.random.default_rng(1).integers(2, 1000, (100, 4)):
        before, after = [[0, a], [1, c], [0, v]], [[0, a], [1, c], [1, w]]
        changes.append(table_of(before, True, 2) - table_of(after, True, 2))
    rows = np.array(changes)[:, :96].reshape(-1, 2)
    assert np.abs(rows).sum(axis=1).max() == 4
    square = (rows**2).sum(axis=1).max()
    assert square == 8
    scale, known = model.release_.scale, model.statement_.loss
    if delta:
        assert known["kind"] == "Concentrated"
        assert known["rho"] >= 48 * square / (2 * scale**2)
    else:
        assert (scale, known["kind"]) == (pytest.approx(4 * 48), "Pure")


MALFORMED_EDGES = [
    ["x", "y"],
    ["text", 3],
    [1, "text"],
    ["7", 8],
    [7.0, "8"],
    [1.5, 2],
    [None, 1],
    [np.nan, 1],
    [pd.NaT, 1],
    [10**30, 2],
    [True, 2],
    [b"3", 4],
    ["", ""],
    [[1], 2],
    [1],
    [1, 2, 3],
    "ab",
    5,
    None,
]


def containers(edges):
    """Edges in containers that give one type to all ends of a side, or to each its own."""
    yield edges
    if all(isinstance(edge, list) and len(edge) == 2 for edge in edges):
        ends = np.empty((len(edges), 2), object)
        for position, edge in enumerate(edges):
            ends[position, 0], ends[position, 1] = edge
        yield from (ends, pd.DataFrame(ends), tuple(map(list, ends.T)))
        plain = (int, float, str)
        if all(isinstance(end, plain) for edge in edges for end in edge):
            yield np.array([[str(end) for end in edge] for edge in edges])
            yield pa.table({"from": list(map(str, ends[:, 0])), "to": list(map(str, ends[:, 1]))})


@pytest.mark.parametrize(("directed", "lists"), [(True, 1), (False, 2)])
def test_an_edge_of_another_type_changes_no_other_list(directed, lists):
    def fitted(edges):
        with warnings.catch_warnings(), noise_from(InsecureSeededSource(2)):
            warnings.simplefilter("error")
            model = NodeDensity(**SMALL, epsilon=1e5, unit="edge", directed=directed).fit(edges)
        shown = sorted(vars(model)), str(model.statement_), len(model.to_bytes())
        return shown, np.append(model.release_._table, model.release_._counts)

    usual = EDGES.tolist()
    shown, cells = fitted(usual)
    most = private(usual, directed=directed, unit="edge").release_.scale  # the L1 at epsilon 1
    changed = []
    for malformed in MALFORMED_EDGES:
        for edges in containers([*usual, malformed]):
            found = fitted(edges)
            assert found[0] == shown, (malformed, type(edges))
            changed.append(np.abs(found[1] - cells).sum())
    assert 0 < max(changed) <= most * (1 + 1e-12)
    for edges in containers(usual):  # of one type or another: the same lists
        assert np.array_equal(fitted(edges)[1], cells)
    for nothing in (
        [],
        np.empty((0, 2), int),
        [None],
        [["x", None]],
        pd.DataFrame({"a": [], "b": []}),
    ):
        assert fitted(nothing)[0] == shown
        assert not fitted(nothing)[1].any()
    assert NodeDensity().input_report([*usual, *MALFORMED_EDGES]) == {
        "rows": len(usual) + len(MALFORMED_EDGES), "dropped": 9, "clipped": 0
    }  # fmt: skip


def test_what_is_no_graph_at_all_is_refused_of_a_private_one_too():
    for edges, message in (
        (np.ones((3, 3)), "two columns, source and target"),
        (([1, 2], [3]), "equally long"),
        ("edges.csv", "a matrix, a table or a list of pairs is expected, not str"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            NodeDensity(**SMALL, epsilon=1.0).fit(edges)


def test_a_list_costs_one_cell_a_row_and_an_exchanged_one_two():
    counts = 1  # 48 rows have one cell that counts lists
    assert private(EDGES).release_.scale == pytest.approx(48 + counts)
    replaced = private(EDGES, relation="replace").release_
    assert replaced.scale == pytest.approx(2 * 48 + counts)
    some = EDGES[EDGES[:, 0] != EDGES[0, 0]]
    change = table_of(EDGES, True) - table_of(some, True)
    assert np.abs(change).sum() == 48 + counts


@pytest.mark.parametrize("unit", ["adjacency list", "edge"])
def test_the_statement_names_the_unit_and_nothing_raw_is_stored(unit):
    model = private(EDGES, unit=unit)
    assert (model.statement_.unit, model.statement_.contributions) == (unit, 1)
    assert model.statement_.relation == "add/remove"
    learned = {name for name in vars(model) if name.endswith("_")}
    assert learned == {"release_", "statement_"}
    assert "Sketch" not in repr(vars(model))
    again = load(model.to_bytes())
    lists = neighbourhoods(EDGES)
    assert np.array_equal(again.estimate(lists), model.estimate(lists))
    assert again.statement_ == model.statement_
    twin = NodeDensity.from_release(model.release_)
    assert twin.unit == unit
    assert np.array_equal(twin.estimate(lists), model.estimate(lists))


def test_a_file_of_something_else_than_lists_is_refused():
    model = NodeDensity(**SMALL)
    for name, part in (
        ("sketch_", Race(4, 8, Angular(1, 2))),
        ("sketch_", private(EDGES).release_),
        ("release_", CountMin(8).release(1.0)),
        ("estimate", Race(4, 8, Jaccard())),
    ):
        model._parts = lambda name=name, part=part: {name: part}
        with pytest.raises(SketchFormatError, match="a part is no RACE of adjacency lists"):
            load(model.to_bytes())


def test_a_ledger_is_charged_for_lists(tmp_path):
    ledger = Ledger(tmp_path / "budget")
    ledger.create("graph", 3.0, unit="adjacency list")
    result = private(EDGES, ledger=ledger, dataset="graph", epsilon=2.0).statement_
    assert result.dataset == "graph"
    with pytest.raises(Exception, match=r"(?i)budget|epsilon"):
        private(EDGES, ledger=ledger, dataset="graph", epsilon=2.0)
    with pytest.raises(ValueError, match="unit is 'edge' here"):
        private(EDGES, ledger=ledger, dataset="graph", epsilon=0.5, unit="edge")


def test_private_estimates_have_the_noise_that_they_state():
    # 400 noises of a standard deviation: their root mean square strays by 4 %; 25 %: p < 1e-7.
    lists = neighbourhoods(EDGES).take(range(10))
    exact = NodeDensity(**SMALL).fit(EDGES).estimate(lists)
    models = [private(EDGES, seed) for seed in range(40)]
    errors = np.array([m.release_.estimate(lists.sets) for m in models]) - exact
    assert np.sqrt((errors**2).mean()) == pytest.approx(models[0].release_.noise_error(), rel=0.25)


def test_private_sums_that_noise_may_explain_are_those_of_a_list_alone():
    # 3,000 lists of which one in three is the same: sums of 1,000 and of about 1.
    shared = [[node, 10**6 + member] for node in range(1000) for member in range(4)]
    alone = [[node, 10 * node + member] for node in range(1000, 3000) for member in range(4)]
    edges = np.array(shared + alone)
    lists = neighbourhoods(edges).take(np.r_[:50, 1000:1500])
    model = private(edges, rows=16, width=2**15)
    raw, noise = model.release_.estimate(lists.sets), model.release_.noise_error()
    result = model.estimate(lists)
    assert 5 < noise < 8
    assert np.abs(raw[50:] - 1).mean() > 3  # noise alone would say that some lists are common
    # Each of 500 noises of 16 Laplace draws exceeds four deviations with p < 3e-4: five or more do
    # with p < 1e-6 if independent; the seed of the noise is fixed.
    assert (result[50:] == 1).sum() >= 496
    np.testing.assert_allclose(result[:50], 1000, rtol=0.1)
    excess = raw[:50] - 1
    np.testing.assert_allclose(result[:50], 1 + excess - 16 * noise**2 / excess)
    np.testing.assert_allclose(model.density(lists), result / model.release_.size())
    # Scores keep the order of what is not shrunk.
    assert len(np.unique(model.score_samples(lists)[50:])) > 50


def test_graphs_of_other_nodes_merge_and_private_ones_do_not():
    here, there = EDGES[EDGES[:, 0] < 30], EDGES[EDGES[:, 0] >= 30]
    full = NodeDensity(**SMALL).fit(EDGES)
    assert (
        NodeDensity(**SMALL).fit(here).merge(NodeDensity(**SMALL).fit(there)).sketch_
        == full.sketch_
    )
    assert clone(full).get_params() == full.get_params()
    with pytest.raises(ValueError, match="merge is not private"):
        private(here).merge(private(there))


def test_rows_are_chosen_from_public_numbers():
    one, other = EDGES[:10], EDGES
    for queries in ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {}):
        rows = {NodeDensity(width=64, **queries).fit(edges)._summary.rows for edges in (one, other)}
        assert len(rows) == 1
    assert NodeDensity(width=64, epsilon=1.0).fit(one).release_.rows == 46  # 64 / sqrt(2), up
    assert NodeDensity(width=64, epsilon=1.0, unit="edge").fit(one).release_.rows == 23


@pytest.mark.parametrize(
    ("edges", "parameters", "message"),
    [
        ([[1, 2, 3]], {}, "two columns, source and target"),
        (([1, 2], [3]), {}, "equally long"),
        (([1, 2], ["a", "b"]), {}, "of one type"),
        ([[1.5, 2.0]], {}, "source"),
        (([1, None], [2, 3]), {}, "source"),
        (EDGES, {"unit": "node"}, "unit 'node' is not offered"),
        (EDGES, {"unit": "user"}, "unit must be one of"),
        (EDGES, {"delta": 0.1}, "delta needs an epsilon"),
        (EDGES, {"hashes": 0}, "hashes must be"),
        (EDGES, {"directed": "yes"}, "directed must be"),
    ],
)
def test_what_is_no_graph_or_no_unit_is_refused(edges, parameters, message):
    with pytest.raises((ValueError, TypeError), match=message):
        NodeDensity(**{**SMALL, **parameters}).fit(edges)


@pytest.mark.skipif(not SLASHDOT.exists(), reason="the Slashdot graph is not in this checkout")
def test_slashdot_nodes_are_estimated_within_a_few_percent():
    with gzip.open(SLASHDOT) as file:
        text = b"\n".join(line for line in file.read().splitlines() if not line.startswith(b"#"))
    edges = np.fromstring(text.decode(), np.int64, sep=" ").reshape(-1, 2)
    assert (len(edges), np.unique(edges).size) == (948_464, 82_168)
    assert (edges[:, 0] == edges[:, 1]).sum() == 78_303
    lists = neighbourhoods(edges)
    queries = lists.take(np.random.default_rng(0).choice(len(lists), 500, replace=False))
    estimated = NodeDensity(rows=256, width=50_000).fit(edges).estimate(queries)
    exact = Jaccard().sums(lists.sets, queries.sets)
    # Ten times fewer rows than the paper's: the median error is 7 %, a constant's above 100 %.
    assert np.median(np.abs(estimated - exact) / exact) < 0.1
