"""PageRank beside SciPy, igraph and NetworKit, and on disk beside its I/O model, in one process.

    python benchmarks/rank.py [pagerank] [disk] [simrank] [--scale 20] [--edges 16000000]
        writes benchmarks/results/rank.json, all parts unless some are named

The graph is an R-MAT of 2**scale nodes with the quadrants of Graph500, all edges different, nodes
shuffled; half of the nodes are dead ends. Every method goes to an L1 change of 1e-8 at beta 0.85,
with one thread; CPU seconds, ours and SciPy's in turn, medians. SciPy's is the power iteration that
a user writes: a CSR matrix times a vector. "amortised" has the relabelling of ours in its time, the
transposing of SciPy's in its. In-degree, the trivial baseline, is beside them. A peer that is not
installed is left out.
"""

import gc
import importlib.util
import statistics
import sys
import tempfile
import time
import warnings

import numpy as np
import scipy.sparse
import scipy.stats
from _measure import write_parts

from sfumato.mine.rank import DiskGraph, pagerank, pagerank_on_disk, rmat_graph

BETA, TOLERANCE = 0.85, 1e-8
ROUNDS = 5
SIZE = {"scale": 20, "edges": 16_000_000}


def timed(work):
    """CPU seconds of a call, and what it returns."""
    gc.collect()
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def median(values):
    return round(statistics.median(values), 4)


def matrix_of(graph):
    ones = np.ones(graph.n_edges)
    shape = (graph.n_nodes, graph.n_nodes)
    return scipy.sparse.csr_matrix((ones, graph.targets, graph.offsets), shape)


def scipy_transitions(links):
    """The transposed links, and 1 / out-degree."""
    degrees = np.asarray(links.sum(axis=1)).ravel()
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    return links.T.tocsr(), inverse


def scipy_iteration(transposed, inverse):
    """Power iteration with what leaks inserted again: ranks and the number of iterations."""
    n = inverse.size
    ranks, iterations = np.full(n, 1 / n), 0
    while True:
        new = BETA * (transposed @ (ranks * inverse))
        new += (1 - new.sum()) / n
        change, ranks, iterations = np.abs(new - ranks).sum(), new, iterations + 1
        if change < TOLERANCE:
            return ranks, iterations


def igraph_work(graph, sources):
    import igraph

    pairs = np.column_stack([sources, graph.targets])
    theirs = igraph.Graph(graph.n_nodes, pairs, directed=True)
    return lambda: np.array(theirs.pagerank(damping=BETA))


def networkit_work(graph, sources):
    import networkit

    networkit.setNumberOfThreads(1)
    pairs = sources.astype(np.uint64), graph.targets.astype(np.uint64)  # others crash it
    theirs = networkit.GraphFromCoo(pairs, graph.n_nodes, directed=True)

    def work():
        sinks = networkit.centrality.SinkHandling.DistributeSinks
        ranker = networkit.centrality.PageRank(theirs, BETA, TOLERANCE, False, sinks)
        ranker.norm = networkit.centrality.Norm.L1_NORM
        return np.array(ranker.run().scores())

    return work


def peer(make, graph, sources, ours):
    """CPU seconds of a peer, its distance from our ranks, and the ratio of times."""
    try:
        work = make(graph, sources)
        seconds, scores = timed(work)
    except (ImportError, AttributeError) as error:
        return {"missing": str(error)}
    scores = scores / scores.sum()
    return {
        "seconds": round(seconds, 3),
        "L1 distance": float(np.abs(scores - ours["scores"]).sum()),
        "ratio": round(seconds / ours["again"], 2),
        "ratio, amortised": round(seconds / ours["first"], 2),
    }


def in_memory():
    """Ours beside the peers on one graph."""
    graph = rmat_graph(SIZE["scale"], SIZE["edges"])
    links = matrix_of(graph)
    sources = np.repeat(np.arange(graph.n_nodes, dtype=np.int32), graph.out_degrees)
    timed(lambda: pagerank(rmat_graph(8, 500), threads=1))  # compiles
    _ = graph.in_offsets
    first, again, slow, slower = [], [], [], []
    for _ in range(ROUNDS):
        graph._layout = None
        seconds, ranks = timed(lambda: pagerank(graph, threads=1))
        first.append(seconds)
        again.append(timed(lambda: pagerank(graph, threads=1))[0])
        prepared, transitions = timed(lambda: scipy_transitions(links))
        seconds, (scores, iterations) = timed(lambda made=transitions: scipy_iteration(*made))
        slow.append(seconds)
        slower.append(seconds + prepared)
    work = 1e-9 * graph.n_edges * ranks.iterations
    ours = {"first": median(first), "again": median(again), "scores": ranks.scores}
    found = {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "dead ends": int((graph.out_degrees == 0).sum()),
        "iterations": ranks.iterations,
        "residual": ranks.residual,
        "seconds": {"first": ours["first"], "again": ours["again"]},
        "ns per edge and iteration": round(ours["again"] / work, 3),
        "ns per edge and iteration, amortised": round(ours["first"] / work, 3),
        "target": 2.2,
        "scipy": {
            "seconds": median(slow),
            "iterations": iterations,
            "ns per edge and iteration": round(1e9 * median(slow) / graph.n_edges / iterations, 3),
            "L1 distance": float(np.abs(scores - ranks.scores).sum()),
            "ratio": median(np.divide(slow, again).tolist()),
            "ratio, amortised": median(np.divide(slower, first).tolist()),
            "target": 2.5,
        },
        "igraph": {**peer(igraph_work, graph, sources, ours), "target": 5},
        "networkit": {**peer(networkit_work, graph, sources, ours), "target": 5},
        "in-degree": in_degree(graph, ranks),
    }
    print_table(found)
    return found


def in_degree(graph, ranks):
    """How near the trivial baseline comes."""
    degrees = graph.in_degrees.astype(float)
    best = np.argsort(-degrees, kind="stable")[:100]
    top = np.argsort(-ranks.scores, kind="stable")[:100]
    return {
        "of the first 100": int(np.isin(best, top).sum()),
        "rank correlation": float(scipy.stats.spearmanr(degrees, ranks.scores).statistic),
        "L1 distance": float(np.abs(degrees / degrees.sum() - ranks.scores).sum()),
    }


def print_table(found):
    for name in ("ns per edge and iteration", "ns per edge and iteration, amortised"):
        print(f"ours: {name} {found[name]}")
    for name in ("scipy", "igraph", "networkit", "in-degree"):
        print(name, found[name])


def on_disk():
    """Bytes of the three updates beside their models, with a block of an eighth of the ranks."""
    graph = rmat_graph(SIZE["scale"], SIZE["edges"])
    expected = pagerank(graph, threads=1)
    found = {}
    for method, iterations in (("stripes", 1000), ("blocks", 2), ("basic", 2)):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of the two that stop early
            stored = DiskGraph.write(graph, folder, blocks=8, method=method)
            seconds, ranks = timed(lambda g=stored, n=iterations: pagerank_on_disk(g, max_iter=n))
        cost = ranks.cost
        print(f"{cost}\n")
        found[method] = {
            "blocks": cost.blocks,
            "model": cost.formula,
            "model bytes": cost.model_bytes,
            "bytes of an iteration": round(cost.iteration_bytes),
            "ratio": round(cost.iteration_bytes / cost.model_bytes, 4),
            "iterations": cost.iterations,
            "seconds": round(seconds, 3),
        }
        if ranks.converged:
            distance = np.abs(np.asarray(ranks.scores) - expected.scores).sum()
            found[method]["L1 distance from memory"] = float(distance)
    return found


def others():
    """SimRank and the other measures of graphs."""
    if importlib.util.find_spec("_graph_measures") is None:
        return {"missing": "_graph_measures"}
    import _graph_measures

    return _graph_measures.run()


def main(words):
    wanted = []
    while words:
        word, *words = words
        if word.startswith("--"):
            SIZE[word[2:]], words = int(words[0]), words[1:]
        else:
            wanted.append(word)
    write_parts("rank", {"pagerank": in_memory, "disk": on_disk, "simrank": others}, wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
