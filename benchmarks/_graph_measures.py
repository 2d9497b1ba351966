"""Measures of graphs: SimRank, hubs, triangles, distances and private degrees, on Slashdot.

    python benchmarks/_graph_measures.py [simrank] [exact] [hubs] [triangles] [distances] [degrees]
        writes benchmarks/results/graph_measures.json, all parts unless some are named

benchmarks/rank.py takes the same parts by `run`. The graph is soc-Slashdot0902 without its loops,
from the folder that SFUMATO_DATA names. Seconds are of the wall clock on warm kernels, the median
of several runs; peers do the same work in the same process, as far as they are installed.
"""

import statistics
import sys
import time
import warnings

import numpy as np
from _measure import write_parts
from _ratings import folder

from sfumato.mine.rank import (
    Graph,
    PrivateDegreeHistogram,
    Triangles,
    count_triangles,
    hits,
    neighbourhood_function,
    simrank,
)
from sfumato.privacy.noise import InsecureSeededSource

SOURCES = 20  # nodes whose similar ones are sought
TOP = 20
SEEDS = 20
MAX_DEGREE = 5000
NEAR = 1e-4  # a difference of scores that does not matter
TARGET_SECONDS = 2.0


def slashdot():
    """The graph, without loops."""
    path = folder() / "graphs" / "soc-Slashdot0902.txt.gz"
    edges = np.loadtxt(path, dtype=np.int64)
    return Graph(edges[:, 0], edges[:, 1], self_loops="drop")


def timed(work, runs=3):
    """Median seconds of warm runs, and the last result."""
    work()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), found


def peer(name, work, runs=1):
    """Seconds and result of a peer, or why there are none."""
    try:
        seconds, found = timed(work, runs)
    except ImportError as error:
        return {"peer": name, "missing": str(error)}, None
    return {"peer": name, "seconds": round(seconds, 4)}, found


def shown(row):
    print(row, flush=True)
    return row


def overlap(found, true):
    """How good the nodes listed are by their true scores.

    precision: the fraction whose score is among the best; ties count as such. near_precision: that
    reach the last of the best less NEAR, since scores often differ by less than the errors of the
    reference. score_ratio: the sum of their scores over that of the best.
    """
    scores = true.all_scores.copy()
    scores[found.all_scores == 1.0] = 0.0  # the source
    best = np.sort(scores)[-TOP:]
    listed = scores[found.positions]
    return dict(
        precision=float((listed >= best[0] - 1e-9).mean()),
        near_precision=float((listed >= best[0] - NEAR).mean()),
        score_ratio=float(listed.sum() / best[-listed.size :].sum()),
    )


class _Placed:
    """Similarities, with the positions of the nodes that are listed."""

    def __init__(self, graph, found):
        self.all_scores, self.positions = found.all_scores, graph.positions(found.ids)
        self.std_errors, self.bound = found.std_errors, found.error_bound()


def similar():
    """Top 20 of one source against converged scores: ten times the samples, tolerance 1e-9."""
    graph = slashdot()
    degrees = graph.in_degrees
    sources = np.random.default_rng(0).choice(np.flatnonzero(degrees), SOURCES, replace=False)
    simrank(graph, int(graph.nodes[0]))
    rows = []
    for source in graph.nodes[sources].tolist():
        start, used = time.perf_counter(), time.process_time()
        found = simrank(graph, source, n=TOP)
        seconds, used = time.perf_counter() - start, time.process_time() - used
        mine = _Placed(graph, found)
        true = simrank(graph, source, n=TOP, samples=10_000_000, tolerance=1e-9, random_state=7)
        errors = np.abs(mine.all_scores - true.all_scores)
        row = dict(
            source=source,
            in_degree=int(degrees[graph.positions(source)[0]]),
            seconds=round(seconds, 4),
            cpu_seconds=round(used, 4),
            **overlap(mine, true),
            largest_error=float(errors.max()),
            error_of_top=float(errors[mine.positions].max()),
            std_error_of_top=float(found.std_errors.max()),
            bound=mine.bound,
            reference_std_error=float(true.std_errors.max()),
        )
        rows.append(shown(row))
    seconds = [row["seconds"] for row in rows]
    return dict(
        nodes=graph.n_nodes,
        edges=graph.n_edges,
        median_seconds=statistics.median(seconds),
        most_seconds=max(seconds),
        target_seconds=TARGET_SECONDS,
        median_cpu_seconds=statistics.median(row["cpu_seconds"] for row in rows),
        **{
            f"mean_{name}": float(np.mean([row[name] for row in rows]))
            for name in ("precision", "near_precision", "score_ratio")
        },
        rows=rows,
    )


def exact():
    """All pairs of the 1500 nodes of largest degree, beside NetworkX and one source by samples."""
    graph = slashdot()
    best = np.sort(np.argsort(-graph.in_degrees - graph.out_degrees, kind="stable")[:1500])
    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    inside = np.isin(begins, best) & np.isin(graph.targets, best)
    small = Graph(begins[inside], graph.targets[inside], nodes=best)
    seconds, all_pairs = timed(lambda: simrank(small, method="exact", tolerance=1e-4), 1)
    row, theirs = peer("networkx", lambda: _networkx_simrank(small, 1e-4))
    if theirs is not None:
        row["largest_difference"] = float(np.abs(theirs - all_pairs.all_scores).max())
    true = simrank(small, method="exact", tolerance=1e-9).all_scores
    precision = []
    for at in np.random.default_rng(1).choice(small.n_nodes, 50, replace=False):
        found = simrank(small, small.nodes[at], method="monte-carlo", n=TOP)
        scores = true[at].copy()
        scores[at] = 0
        listed = scores[small.positions(found.ids)]
        precision.append(float((listed >= np.sort(scores)[-TOP] - 1e-9).mean()))
    made = dict(nodes=small.n_nodes, edges=small.n_edges, seconds=round(seconds, 3), peers=[row])
    return shown({**made, "precision_of_samples": float(np.mean(precision))})


def _networkx_simrank(graph, tolerance):
    import networkx

    made = _networkx(networkx.DiGraph, graph)
    found = networkx.simrank_similarity(
        made, importance_factor=0.8, tolerance=tolerance, max_iterations=100
    )
    order = graph.nodes.tolist()
    return np.array([[found[a][b] for b in order] for a in order])


def _networkx(kind, graph):
    made = kind()
    made.add_nodes_from(graph.nodes.tolist())
    begins = graph.nodes[np.repeat(np.arange(graph.n_nodes), graph.out_degrees)]
    made.add_edges_from(zip(begins.tolist(), graph.nodes[graph.targets].tolist(), strict=True))
    return made


def hubs():
    """HITS to 1e-8 beside igraph (ARPACK) and NetworkX (SciPy's SVD)."""
    graph = slashdot()
    seconds, (ours, _) = timed(lambda: hits(graph))
    rows = []
    for name, make in (("igraph", _igraph_hubs), ("networkx", _networkx_hubs)):
        try:
            work = make(graph)
        except ImportError as error:
            rows.append({"peer": name, "missing": str(error)})
            continue
        row, theirs = peer(name, work)
        row["l1_difference"] = float(np.abs(theirs / theirs.sum() - ours.scores).sum())
        rows.append(row)
    return shown(dict(seconds=round(seconds, 4), iterations=ours.iterations, peers=rows))


def _igraph_hubs(graph):
    made = _igraph(graph, directed=True)
    return lambda: np.array(made.hub_score())


def _networkx_hubs(graph):
    import networkx

    made = _networkx(networkx.DiGraph, graph)

    def work():
        found, _ = networkx.hits(made)
        return np.array([found[node] for node in graph.nodes.tolist()])

    return work


def _igraph(graph, directed):
    import igraph

    begins = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
    edges = np.stack([begins, graph.targets], axis=1)
    if not directed:
        edges = edges[edges[:, 0] < edges[:, 1]]
    return igraph.Graph(n=graph.n_nodes, edges=edges.tolist(), directed=directed)


def triangles():
    """The exact count beside igraph and networkit; the sketch of a stream by its size."""
    graph = slashdot()
    mutual = graph.undirected()
    seconds, counts = timed(lambda: count_triangles(mutual))
    peers = []
    for name, make in (("igraph", _igraph_triangles), ("networkit", _networkit_triangles)):
        try:
            work = make(mutual)
        except ImportError as error:
            peers.append({"peer": name, "missing": str(error)})
            continue
        row, theirs = peer(name, work)
        peers.append({**row, "transitivity": float(theirs)})
    begins = graph.nodes[np.repeat(np.arange(graph.n_nodes), graph.out_degrees)]
    ends = graph.nodes[graph.targets]
    rows = []
    for size in (2**12, 2**14, 2**16, 2**18):
        made = [Triangles(size, seed=seed).update(begins, ends) for seed in range(SEEDS)]
        errors = np.array([each.estimate() for each in made]) / counts.total - 1
        bounds = np.array([each.error_bound(0.95) for each in made]) / counts.total
        spent, _ = timed(lambda: Triangles(size).update(begins, ends))  # noqa: B023
        row = dict(
            size=size,
            nbytes=made[0].nbytes,
            sampled=made[0].probability,
            rms_relative_error=float(np.sqrt((errors**2).mean())),
            median_bound_95=float(np.median(bounds)),
            within_bound=float((np.abs(errors) <= bounds).mean()),
            million_edges_per_second=round(begins.size / spent / 1e6, 2),
        )
        rows.append(shown(row))
    about = dict(triangles=counts.total, transitivity=counts.transitivity)
    return {**about, "seconds": round(seconds, 4), "peers": peers, "sketch": rows}


def _igraph_triangles(mutual):
    made = _igraph(mutual, directed=False)
    return made.transitivity_undirected


def _networkit_triangles(mutual):
    import networkit

    made = _networkit(mutual)
    return lambda: networkit.globals.ClusteringCoefficient.exactGlobal(made)


def _networkit(mutual):
    import networkit

    networkit.setNumberOfThreads(1)
    begins = np.repeat(np.arange(mutual.n_nodes), mutual.out_degrees)
    once = begins < mutual.targets
    made = networkit.GraphFromCoo(
        (begins[once].astype(np.uint64), mutual.targets[once].astype(np.uint64)),
        n=mutual.n_nodes,
    )
    made.indexEdges()
    return made


def distances():
    """Effective diameter of the undirected graph: exact, by registers, and networkit's sketch."""
    mutual = slashdot().undirected()
    start = time.perf_counter()
    true = neighbourhood_function(mutual, method="exact")
    rows = [
        shown(
            dict(
                method="exact",
                seconds=round(time.perf_counter() - start, 3),
                effective_diameter=true.effective_diameter(),
                mean_distance=true.mean_distance(),
                diameter=true.diameter,
            )
        )
    ]
    for precision in (5, 6, 8, 10):

        def run(seed=0, precision=precision):
            return neighbourhood_function(
                mutual, method="hyperloglog", precision=precision, seed=seed, threads=1
            )

        seconds, _ = timed(run)
        made = [run(seed) for seed in range(5 if precision == 10 else SEEDS)]
        errors = [each.effective_diameter() - true.effective_diameter() for each in made]
        size = min(min(each.pairs.size for each in made), true.pairs.size)
        pairs = np.array([each.pairs[:size] / true.pairs[:size] - 1 for each in made])
        ends = np.array([each.effective_diameter_interval() for each in made])
        inside = (ends[:, 0] <= true.effective_diameter()) & (
            true.effective_diameter() <= ends[:, 1]
        )
        row = dict(
            method="hyperloglog",
            precision=precision,
            seconds=round(seconds, 4),
            stated_std_error=made[0].std_error,
            rms_error_of_pairs=float(np.sqrt((pairs[:, 1:] ** 2).mean(axis=0)).max()),
            rms_error_of_effective_diameter=float(np.sqrt(np.square(errors).mean())),
            within_interval_95=float(inside.mean()),
        )
        rows.append(shown(row))
    rows.append(shown(_networkit_diameter(mutual, true)))
    return rows


def _networkit_diameter(mutual, true):
    try:
        import networkit
    except ImportError as error:
        return {"peer": "networkit", "missing": str(error)}
    made = _networkit(mutual)

    def work():
        return networkit.distance.EffectiveDiameterApproximation(made, 0.9, 32, 7).run()

    row, found = peer("networkit", work)
    estimate = found.getEffectiveDiameter()
    return {**row, "k": 32, "error": float(estimate - true.effective_diameter())}


def degrees():
    """Private out-degrees: the three ways of adding noise, and a constant, by their error.

    Errors are sums of absolute differences: of the numbers of nodes of at least each degree (which
    is also that of the sorted degrees), and of the histogram; both over the number of nodes. The
    constant says that all nodes have the degree of the median, at no cost of privacy.
    """
    graph = slashdot()
    cut = np.minimum(graph.out_degrees, MAX_DEGREE)
    histogram = np.bincount(cut, minlength=MAX_DEGREE + 1)
    above = np.cumsum(histogram[:0:-1])[::-1]
    edges = (
        graph.nodes[np.repeat(np.arange(graph.n_nodes), graph.out_degrees)],
        graph.nodes[graph.targets],
    )
    constant = np.where(np.arange(1, MAX_DEGREE + 1) <= np.median(cut), cut.size, 0)
    rows = [shown(dict(method="constant", epsilon=None, area=_area(constant, above, cut.size)))]
    for epsilon in (0.1, 0.5, 1.0):
        for method, public in (
            ("cumulative", False),
            ("cumulative", True),
            ("sequence", True),
            ("histogram", False),
        ):
            rows.append(shown(_degree_row(edges, graph, epsilon, method, public, above, histogram)))
    return dict(nodes=graph.n_nodes, max_degree=MAX_DEGREE, seeds=SEEDS, rows=rows)


def _area(estimate, true, nodes):
    return float(np.abs(estimate - true).sum() / nodes)


def _degree_row(edges, graph, epsilon, method, public, above, histogram):
    nodes = graph.nodes if public else None
    made = PrivateDegreeHistogram(epsilon, max_degree=MAX_DEGREE, method=method, nodes=nodes)
    seconds = time.perf_counter()
    cells = made._cells(edges)
    calibrated = made._calibrated(cells, made._scale(epsilon), epsilon)
    areas, cell_errors, plain, edge_errors = [], [], [], []
    for seed in range(SEEDS):
        release = calibrated.publish(made._request({}, InsecureSeededSource(seed)))
        areas.append(_area(release.cumulative(), above, graph.n_nodes))
        cell_errors.append(_area(release.histogram()[1:], histogram[1:], graph.n_nodes))
        plain.append(_plain_area(release, above, graph.n_nodes))
        edge_errors.append(abs(release.edges / graph.n_edges - 1))
    return dict(
        method=method,
        nodes_public=public,
        epsilon=epsilon,
        area=float(np.mean(areas)),
        area_without_regression=float(np.mean(plain)),
        histogram_error=float(np.mean(cell_errors)),
        relative_error_of_edges=float(np.mean(edge_errors)),
        seconds=round((time.perf_counter() - seconds) / SEEDS, 4),
    )


def _plain_area(release, above, nodes):
    """The error of the noisy numbers themselves, before they are made to fit each other."""
    noisy = release.noisy
    if release.method == "cumulative":
        return _area(noisy, above, nodes)
    if release.method == "histogram":
        return _area(np.cumsum(noisy[::-1])[::-1][: above.size], above, nodes)
    true = np.repeat(np.arange(above.size), -np.diff(np.concatenate([[nodes], above])))
    rest = np.full(nodes - true.size, above.size)
    return float(np.abs(noisy - np.concatenate([true, rest])).sum() / nodes)


PARTS = {
    "simrank": similar,
    "exact": exact,
    "hubs": hubs,
    "triangles": triangles,
    "distances": distances,
    "degrees": degrees,
}


def run(sections=()):
    """Measure some parts, or all; the figures by part."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: PARTS[name]() for name in sections or PARTS}


if __name__ == "__main__":
    write_parts("graph_measures", PARTS, sys.argv[1:])
