"""Figure 6 and table 4 of the paper on the Slashdot graph: how common a neighbourhood is.

Slashdot of February 2009 stands for the paper's Slashdot, Google Plus and Friendster; self-loops
are left out. Relative errors are over 2,000 nodes drawn by chance, against brute force. `graphs`
are those of the comparison: friends, trust, ratings, plays, and people in generated circles.
"""

import time

import numpy as np
from _density_data import folder

from sfumato.density import NodeDensity

ROWS, WIDTH, QUERIES, DRAWS = 2_000, 100_000, 2_000, 3


def edges():
    return np.loadtxt(folder() / "graphs" / "soc-Slashdot0902.txt.gz", dtype=np.int64)


def graphs():
    """Name, edges, and whether they are directed, of graphs of several shapes."""
    from pyarrow import parquet

    here = folder()
    yield "Slashdot", edges(), True
    for name, file in (("FilmTrust, trust", "trust"), ("FilmTrust, ratings", "ratings")):
        file = here / "filmtrust" / f"{file}.tsv.gz"
        yield name, _distinct(np.loadtxt(file, delimiter="\t", usecols=(0, 1))), True
    for name, file, directed in (
        ("Last.fm, friends", "user_friend_df_directed", False),
        ("Last.fm, plays", "user_listen_artist_rels", True),
    ):
        read = parquet.read_table(here / "lastfm-hetrec" / f"{file}.parquet")
        ends = (read[each].to_numpy() for each in ("sourceNodeId", "targetNodeId"))
        yield name, _distinct(np.stack(list(ends), axis=1)), directed
    yield "circles, generated", circles(np.random.default_rng(5)), True


def circles(rng, people=20_000, groups=40, favourites=60, others=5_000):
    """People of circles of uneven size, who like some of their circle's favourites and others."""
    circle = rng.choice(groups, people, p=rng.dirichlet(np.full(groups, 0.7)))
    person = np.repeat(np.arange(people), rng.integers(5, 20, people))
    liked = np.minimum(favourites - 1, rng.geometric(0.08, person.size))
    known = circle[person] * favourites + liked
    drawn = rng.integers(0, others, person.size) + groups * favourites
    liked = np.where(rng.random(person.size) < 0.8, known, drawn) + people
    return _distinct(np.stack([person, liked], axis=1))


def _distinct(pairs):
    return np.unique(pairs.astype(np.int64), axis=0)


def jaccard_sums(lists, queries, among=slice(None)):
    """The sum over lists, or those at some positions, of the share in common with each query."""
    from scipy.sparse import csr_matrix

    offsets, members = lists
    made = csr_matrix((np.ones(len(members)), members, offsets))
    sizes, out = np.diff(offsets), []
    others, other_sizes = made[among], sizes[among]
    for node in queries:
        both = others @ made[node].T.toarray()[:, 0]
        out.append((both / (other_sizes + sizes[node] - both)).sum())
    return np.array(out)


def graph():
    """Seconds of a build and a query, and errors over rows and epsilon."""
    from sfumato.density.adjacency_lists import neighbourhoods

    given = edges()
    lists = neighbourhoods(given, directed=True, self_loops=False)
    requested = np.random.default_rng(0).choice(len(lists), QUERIES, replace=False)
    true = jaccard_sums(lists.sets, requested)
    queries = lists.take(requested).sets
    rows = []
    NodeDensity(rows=8, width=WIDTH).fit(given).estimate(queries)  # compiles
    for size in (100, 500, ROWS):
        for epsilon, delta in ((None, 0.0), (10.0, 0.0), (1.0, 0.0), (1.0, 1e-6)):
            rows.append(_measured(given, queries, true, size, epsilon, delta))
    constant = min(np.abs(c - true).mean() for c in np.quantile(true, np.linspace(0, 1, 101)))
    size = dict(nodes=len(lists), edges=len(lists.members))
    return {**size, "constant_absolute": constant, "rows": rows}


def _measured(given, queries, true, rows, epsilon, delta):
    spent, off, requested = [], [], []
    for seed in range(DRAWS):
        begin = time.perf_counter()
        made = NodeDensity(
            rows=rows, width=WIDTH, epsilon=epsilon, delta=delta, random_state=seed
        ).fit(given)
        spent.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        estimated = made.estimate(queries)
        requested.append((time.perf_counter() - begin) / QUERIES)
        off.append(np.abs(estimated - true))
    row = dict(
        rows=rows,
        width=WIDTH,
        epsilon=epsilon,
        delta=delta,
        mean=float(np.mean(off / true)),
        median=float(np.median(off / true)),
        absolute=float(np.mean(off)),
        build_seconds=float(np.median(spent)),
        query_seconds=float(np.median(requested)),
    )
    print(row, flush=True)
    return row
