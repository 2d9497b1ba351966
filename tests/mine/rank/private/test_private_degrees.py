"""Private degrees: no edge moves more than is charged; what is released follows from noise."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.attack.mechanism_audit.audit import audit
from sfumato.core.storage import load_any
from sfumato.errors import FormatError
from sfumato.mine.rank import Graph, PrivateDegreeHistogram
from sfumato.privacy import BudgetExceeded, Ledger, Privacy
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.privacy.random_source import SystemSource
from support.replayed_noise import run

NODES = list("abcdef")
METHODS = ["cumulative", "sequence", "histogram"]
DEGREES = ["out", "in", "undirected"]


def model(epsilon=1e6, **options):
    options = {"max_degree": 8, "nodes": NODES, **options}
    return PrivateDegreeHistogram(epsilon, **options)


def fitted(edges, epsilon=1e6, source=None, **options):
    return model(epsilon, **options).fit(edges, source=source).release_


def random_edges(seed, nodes=NODES, edges=25):
    """Edges with loops, repetitions and both directions."""
    return np.random.default_rng(seed).choice(list(nodes), (edges, 2)).tolist()


def true_degrees(edges, degree):
    """Degrees of the simple graph, by sets."""
    pairs = {(a, b) for a, b in edges if a != b}
    if degree == "undirected":
        pairs |= {(b, a) for a, b in pairs}
    at = 1 if degree == "in" else 0
    return {node: sum(pair[at] == node for pair in pairs) for node in NODES}


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("public", [True, False])
def test_without_noise_that_matters_the_degrees_are_the_true_ones(method, degree, public):
    if method == "sequence" and not public:
        return
    for seed in range(5):
        edges = random_edges(seed)
        degrees = np.array(list(true_degrees(edges, degree).values()))
        for most in (2, 8):
            release = fitted(
                edges,
                method=method,
                degree=degree,
                max_degree=most,
                nodes=NODES if public else None,
            )
            cut = np.minimum(degrees, most)
            histogram = np.bincount(cut, minlength=most + 1)
            if not public:
                histogram[0] = 0
            assert release.histogram().tolist() == histogram.tolist()
            assert release.cumulative().tolist() == [(cut >= k).sum() for k in range(1, most + 1)]
            assert release.sequence().tolist() == sorted(
                cut if public else cut[cut > 0], reverse=True
            )
            assert release.edges == cut.sum() // (2 if degree == "undirected" else 1)
            expected = cut.mean() if public else cut[cut > 0].mean()
            assert release.mean_degree() == pytest.approx(expected)


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("public", [True, False])
def test_no_edge_of_any_graph_of_four_nodes_moves_more_than_the_sensitivity(method, degree, public):
    # All undirected graphs, or 60 directed ones, and each edge that may come to them: the largest
    # change is the stated one, so it is neither too small nor too large.
    if method == "sequence" and not public:
        return
    nodes = list(range(4))
    each = list(combinations(nodes, 2) if degree == "undirected" else product(nodes, repeat=2))
    draw = np.random.default_rng(0)
    graphs = list(product([0, 1], repeat=len(each))) if degree == "undirected" else None
    chosen = graphs or draw.integers(0, 2, (60, len(each))).tolist()
    made = PrivateDegreeHistogram(
        1.0, max_degree=2, degree=degree, method=method, nodes=nodes if public else None
    )
    largest = 0
    for mask in chosen:
        edges = [list(edge) for edge, taken in zip(each, mask, strict=True) if taken]
        cells = made._cells(edges)
        for edge in each:
            more = made._cells([*edges, list(edge)])
            largest = max(largest, int(np.abs(more - cells).sum()))
    assert largest == made.sensitivity
    assert made.sensitivity == (2 if degree == "undirected" else 1) * (1 + (method == "histogram"))


@pytest.mark.parametrize("degree", DEGREES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "edge", [["a", "b"], ["a", "z"], ["x", "y"], ["c", "c"], ["a", None], "ab", None, ["a", 1, 2]]
)
def test_no_row_moves_the_noisy_sums_by_more_than_the_statement(method, degree, edge):
    edges = [["a", "c"], ["b", "d"], ["c", "d"], ["e", "f"]]

    def path(rows):
        return lambda: fitted(rows, 3.0, method=method, degree=degree)

    good = run(path(edges))
    more = run(path([*edges, edge]), good.noise)
    assert good.error == more.error == ""
    assert more.result.to_bytes() == good.result.to_bytes()
    epsilon, _ = good.noise.cost(more.noise)
    assert epsilon <= 3.0 * (1 + 1e-12)
    if edge == ["a", "b"]:  # it raises degrees, so all of it is spent
        assert epsilon == pytest.approx(3.0)


def test_repetitions_directions_and_types_of_ids_do_not_matter():
    edges = [[1, 2], [1, 3], [2, 3], [7, 1]]
    cells = PrivateDegreeHistogram(1.0, max_degree=5)._cells
    same = [
        edges + edges,
        [[str(a), float(b)] for a, b in edges],
        np.array(edges),
        np.array(edges, object),
        tuple(np.array(edges).T),
        pd.DataFrame(edges),
        pa.table({"from": [a for a, _ in edges], "to": [b for _, b in edges]}),
        Graph(*np.array(edges).T),
        [*edges, [1, 1], None, [2], [None, 3], ["tea"]],
    ]
    for each in same:
        assert cells(each).tolist() == [3, 1, 0, 0, 0]
    both = PrivateDegreeHistogram(1.0, max_degree=5, degree="undirected")._cells
    assert both([[b, a] for a, b in edges] + edges).tolist() == both(edges).tolist()
    listed = PrivateDegreeHistogram(1.0, max_degree=5, nodes=["1", 2, 3.0])._cells
    assert listed(edges).tolist() == [2, 1, 0, 0, 0]  # 7 is no public node


def test_isotonic_regression_beats_plain_noise_on_a_skewed_graph():
    # Zipf-like degrees of 3000 nodes. The area between the curves; noise of 30 seeds.
    draw = np.random.default_rng(2)
    degrees = np.minimum((draw.pareto(1.2, 3000) + 1).astype(int), 400)
    begins = np.repeat(np.arange(3000), degrees)
    ends = np.concatenate([np.arange(d) for d in degrees]) + 3000
    edges = begins, ends
    sizes = np.bincount(np.minimum(degrees, 500), minlength=501)[1:]
    true = np.cumsum(sizes[::-1])[::-1]

    def error(method):
        made = PrivateDegreeHistogram(0.5, max_degree=500, method=method)
        noisy = made._calibrated(lambda: made._cells(edges), made._scale(0.5), 0.5)
        found = [noisy.publish(made._request(source=InsecureSeededSource(s))) for s in range(30)]
        return np.mean([np.abs(each.cumulative() - true).sum() for each in found])

    assert error("cumulative") < error("histogram") / 20


def outcomes(edges, trials, source):
    """The noisy numbers of many releases of the same edges."""
    made = PrivateDegreeHistogram(1.0, max_degree=3, degree="undirected")
    noisy = made._calibrated(lambda: made._cells(edges), made._scale(1.0), 1.0).noisy
    return np.array([noisy(source)["_cells"] for _ in range(trials)])


def test_an_audit_of_worst_case_neighbours_measures_less_than_is_claimed():
    # One more edge between two nodes of the same degree. An audit of a true claim fails with a
    # probability of 0.01 for other seeds. Six edges more must be noticed.
    few = [[0, 1], [2, 3], [4, 5]]

    def measured(more):
        how = dict(confidence=0.99, source=InsecureSeededSource(5), claimed=1.0)
        return audit(outcomes, (few, few + more), 2000, score=lambda x: x.sum(axis=1), **how)

    assert measured([[0, 2]]).passed
    assert not measured([[0, 2], [1, 3], [0, 4], [1, 5], [6, 7], [8, 9]]).passed


def test_the_noise_is_laplace_of_the_stated_scale():
    # 4000 numbers of variance about 2 (2 / 0.5)**2 = 32: the mean of squares is within 6 of its
    # standard errors, 0.63 x 6 = 12 %, but for p < 1e-6.
    release = fitted(
        [], 0.5, max_degree=4000, nodes=None, degree="undirected", source=InsecureSeededSource(1)
    )
    assert release.scale == 4.0
    assert (release.noisy.astype(float) ** 2).mean() == pytest.approx(
        release.deviation**2, rel=0.22
    )
    assert "discrete Laplace noise, scale 4" in release.statement.mechanism


def test_the_ledger_is_charged_before_noise_and_a_retry_returns_the_same(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "l")
    ledger.create("friends", 1.5, unit="edge")
    ledger.create("visits", 9, unit="event")
    paid = dict(ledger=ledger, dataset="friends")
    made, edges = model(1.0), random_edges(0)
    first = made.fit(edges, release_id="monday", **paid).release_
    assert ledger.spent("friends").epsilon == pytest.approx(1.0)
    assert (first.statement.unit, first.statement.relation) == ("edge", "add/remove")
    assert made.fit(edges, release_id="monday", **paid).release_ == first

    def drawn(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(SystemSource, "fill", drawn)
    with pytest.raises(BudgetExceeded):
        made.fit(edges, **paid)
    assert made.release_ == first
    with pytest.raises(ValueError, match="unit is 'edge' here and 'event' in the ledger"):
        made.fit(edges, ledger=ledger, dataset="visits")
    monkeypatch.undo()
    bundled = model(None, privacy=Privacy(0.25, **paid))
    assert bundled.fit(edges).release_.statement.epsilon == 0.25
    for wrong in (dict(relation="replace"), dict(contributions=2), dict(unit="user")):
        terms = {"contributions": 1, **wrong}
        with pytest.raises(ValueError, match=r"must be 'edge', 'add/remove' and 1"):
            model(None, privacy=Privacy(1.0, **terms)).fit(edges)


@pytest.mark.parametrize("method", METHODS)
def test_a_release_is_stored_with_nothing_else_and_damage_is_noticed(tmp_path, method):
    release = fitted(random_edges(2), 2.0, method=method)
    public = {"degree", "method", "max_degree", "n_nodes", "scale"}
    assert set(vars(release)) == public | {"_cells", "statement"}
    release.save(tmp_path / "r")
    again = load_any(tmp_path / "r")
    assert again == release
    assert again.histogram().tolist() == release.histogram().tolist()
    short = {"_cells": release.noisy[:-1].copy()}
    broken = type(release)._make(release.parameters, short, release.statement)
    with pytest.raises(FormatError):
        type(release).from_bytes(broken.to_bytes())


def test_results_are_plausible_whatever_the_noise():
    for seed, method in product(range(20), METHODS):
        release = fitted(random_edges(seed), 0.05, method=method, source=InsecureSeededSource(seed))
        above = release.cumulative()
        assert (np.diff(above) <= 0).all()
        assert above.min() >= 0
        assert release.histogram().min() >= 0
        if method != "histogram":
            assert release.histogram().sum() == len(NODES)
        assert release.edges >= 0
        assert release.sequence().size == release.histogram().sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(max_degree=0), "max_degree must"),
        (dict(degree="both"), "degree must"),
        (dict(method="noisy"), "method must"),
        (dict(epsilon=0), "epsilon must"),
        (dict(epsilon=None), "epsilon must be given"),
        (dict(epsilon=1e-30), "epsilon must be larger"),
        (dict(nodes=[]), "nodes must be at least one id"),
        (dict(nodes=[7, "7"]), "each of another value"),
        (dict(nodes=[None, 7]), "nodes must"),
        (dict(nodes=None, method="sequence"), "nodes must be given for method 'sequence'"),
        (dict(privacy=1.0), "privacy must"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=f"PrivateDegreeHistogram: .*{message}"):
        model(**{"epsilon": 1.0, **options}).fit([["a", "b"]])


def test_no_edges_at_all():
    for edges in ([], [["a", "a"]], np.empty((0, 2)), [None]):
        for options in ({}, dict(nodes=None), dict(method="sequence")):
            release = fitted(edges, 1.0, **options)
            assert release.mean_degree() >= 0
    with pytest.raises(TypeError, match="a matrix, a table or a list of pairs"):
        model().fit(7)
