"""Benchmarks of mining: itemsets, near-duplicates, ranks, clusters, singular values."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy

from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.mine.cluster import KMeans
from sfumato.mine.decompose import svd
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.rank import pagerank, rmat_graph
from sfumato.mine.similar import ShingleSets, near_duplicates

__all__ = ["CASES"]

SUPPORT, SHOP = 0.002, 2_000
BETA, TOLERANCE = 0.85, 1e-8
CENTRES, DIMENSION = 20, 16
RANK = 20
TOKENS, THRESHOLD = 200, 0.8


def itemsets(size: int) -> Contest:
    """Itemsets of lists, as lists."""
    random = np.random.default_rng(0)
    cumulative = np.cumsum(1 / np.arange(1, SHOP + 1) ** 0.8)
    lengths = random.poisson(8, size) + 1
    drawn = np.searchsorted(cumulative, random.random(int(lengths.sum())) * cumulative[-1])
    baskets = [list(set(each.tolist())) for each in np.split(drawn, np.cumsum(lengths)[:-1])]
    least = round(SUPPORT * size)

    def pyfim() -> Work:
        import fim

        return Work(lambda: fim.eclat(baskets, supp=-least, zmin=1), size, len)

    def mlxtend() -> Work:
        import pandas
        from mlxtend.frequent_patterns import fpgrowth
        from mlxtend.preprocessing import TransactionEncoder

        def found() -> Any:
            encoder = TransactionEncoder()
            table = encoder.fit_transform(baskets, sparse=True)
            frame = pandas.DataFrame.sparse.from_spmatrix(table, columns=encoder.columns_)
            return fpgrowth(frame, min_support=least / size)

        return Work(found, size, len)

    ours = Work(lambda: frequent_itemsets(baskets, least).to_list(), size, len)
    return Contest(ours, {"pyfim": pyfim, "mlxtend": mlxtend})


def duplicates(size: int) -> Contest:
    """Pairs of sets of hashes alike from 0.8 up, with the share of them that is found."""
    random = np.random.default_rng(1)
    hashes = random.integers(0, 2**64, (size, TOKENS), dtype=np.uint64)
    pairs = size // 10
    shared = random.integers(130, TOKENS + 1, pairs)
    copied = np.arange(TOKENS) < shared[:, None]
    hashes[size - pairs :][copied] = hashes[:pairs][copied]
    wanted = int(np.sum(shared / (2 * TOKENS - shared) >= THRESHOLD))
    sets = ShingleSets(np.arange(size + 1) * TOKENS, hashes.ravel())

    def datasketch() -> Work:
        from datasketch import MinHash, MinHashLSH

        few = np.concatenate((np.arange(pairs)[:200], np.arange(size - pairs, size)[:200]))
        tokens = [[token.tobytes() for token in hashes[at]] for at in few]

        def found() -> int:
            index, near = MinHashLSH(THRESHOLD, 128), 0
            for at, row in enumerate(tokens):
                made = MinHash(128)
                made.update_batch(row)
                near += len(index.query(made))
                index.insert(at, made)
            return near

        truth = int(np.sum(shared[:200] / (2 * TOKENS - shared[:200]) >= THRESHOLD))
        return Work(found, len(few), lambda near: near / truth)

    ours = Work(lambda: near_duplicates(sets, THRESHOLD), size, lambda found: len(found) / wanted)
    return Contest(ours, {"datasketch, not verified": datasketch})


def ranks(size: int) -> Contest:
    """PageRank of an R-MAT graph, with the distance from ranks of a finer tolerance."""
    graph = rmat_graph(max(10, int(np.log2(size / 16))), size)
    truth = np.asarray(pagerank(graph, BETA, tolerance=1e-12, threads=1).scores)
    ones = np.ones(graph.n_edges)
    shape = (graph.n_nodes, graph.n_nodes)
    links = scipy.sparse.csr_matrix((ones, graph.targets, graph.offsets), shape)

    def distance(scores: Any) -> float:
        found = np.asarray(scores)
        return float(np.abs(found / found.sum() - truth).sum())

    def power() -> Work:
        return Work(partial(_power_iteration, links), graph.n_edges, distance)

    def igraph() -> Work:
        import igraph as package

        sources = np.repeat(np.arange(graph.n_nodes), graph.out_degrees)
        pairs = np.column_stack([sources, graph.targets])
        theirs = package.Graph(graph.n_nodes, pairs, directed=True)
        return Work(partial(theirs.pagerank, damping=BETA), graph.n_edges, distance)

    def scores() -> Any:
        return pagerank(graph, BETA, tolerance=TOLERANCE, threads=1).scores

    peers = {"SciPy's product, iterated": power, "igraph": igraph}
    return Contest(Work(scores, graph.n_edges, distance), peers)


def _power_iteration(links: Any) -> np.ndarray:
    transposed = links.T.tocsr()
    degrees = np.asarray(links.sum(axis=1)).ravel()
    inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)
    new = np.full(inverse.size, 1 / inverse.size)
    change = 1.0
    while change >= TOLERANCE:
        ranked = new
        new = BETA * (transposed @ (ranked * inverse))
        new += (1 - new.sum()) / inverse.size
        change = float(np.abs(new - ranked).sum())
    return new


def clusters(size: int) -> Contest:
    """Centres of 20 clusters with defaults, with the mean squared distance to the nearest."""
    random = np.random.default_rng(2)
    centres = random.normal(0, 2, (CENTRES, DIMENSION))
    points = random.normal(centres[random.integers(CENTRES, size=size)]).astype(np.float32)
    some = points[: min(size, 20_000)]

    def distance(found: Any) -> float:
        squared = ((some[:, None, :] - np.asarray(found)[None]) ** 2).sum(axis=2)
        return float(squared.min(axis=1).mean())

    def sklearn(kind: str) -> Work:
        from sklearn import cluster

        def fit() -> Any:
            return getattr(cluster, kind)(CENTRES, random_state=0).fit(points).cluster_centers_

        return Work(fit, size, distance)

    def faiss() -> Work:
        import faiss as package

        def fit() -> Any:
            model = package.Kmeans(DIMENSION, CENTRES, niter=25, seed=1, verbose=False)
            model.train(points)
            return model.centroids

        return Work(fit, size, distance)

    def ours() -> Any:
        return KMeans(CENTRES, random_state=0).fit(points).cluster_centers_

    peers: dict[str, Callable[[], Work]] = {
        "scikit-learn's KMeans": partial(sklearn, "KMeans"),
        "scikit-learn's MiniBatchKMeans": partial(sklearn, "MiniBatchKMeans"),
        "faiss": faiss,
    }
    return Contest(Work(ours, size, distance), peers)


def values(size: int) -> Contest:
    """Twenty singular values of a sparse matrix, with the energy below that of ARPACK."""
    random = np.random.default_rng(3)
    rows = (random.beta(0.6, 3, size) * size / 160).astype(np.int64)
    columns = (random.beta(0.6, 3, size) * size / 270).astype(np.int64)
    matrix = scipy.sparse.csr_matrix((random.integers(1, 6, size).astype(float), (rows, columns)))
    truth = scipy.sparse.linalg.svds(matrix, RANK)[1]

    def lost(found: Any) -> float:
        return float(1 - np.sum(np.square(found)) / np.sum(np.square(truth)))

    def arpack() -> Work:
        return Work(lambda: scipy.sparse.linalg.svds(matrix, RANK)[1], matrix.nnz, lost)

    def sklearn() -> Work:
        from sklearn.utils.extmath import randomized_svd

        return Work(lambda: randomized_svd(matrix, RANK, random_state=0)[1], matrix.nnz, lost)

    ours = Work(lambda: svd(matrix, RANK).s, matrix.nnz, lost)
    return Contest(ours, {"SciPy's ARPACK": arpack, "scikit-learn's randomized_svd": sklearn})


CASES = (
    Case(
        "mine/itemsets",
        f"itemsets in {SUPPORT:.1%} of baskets of nine, lists in and out",
        "baskets",
        itemsets,
        200_000,
        30_000,
        "itemsets",
    ),
    Case(
        "mine/duplicates",
        f"pairs of sets of {TOKENS} hashes alike from {THRESHOLD} up",
        "sets",
        duplicates,
        100_000,
        20_000,
        "share found",
    ),
    Case(
        "mine/pagerank",
        "PageRank of an R-MAT graph to 1e-8",
        "links",
        ranks,
        4_000_000,
        500_000,
        "distance from the truth",
    ),
    Case(
        "mine/k-means",
        f"{CENTRES} centres of {DIMENSION} columns, with defaults",
        "points",
        clusters,
        200_000,
        30_000,
        "mean squared distance",
    ),
    Case(
        "mine/svd",
        f"{RANK} singular values of a sparse matrix",
        "numbers",
        values,
        1_000_000,
        200_000,
        "energy lost",
    ),
)
