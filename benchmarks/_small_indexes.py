"""One search and one row added, beside faiss' HNSW and IVF, with the recall of each.

Recall is that of the ten nearest by cosine (10@10). Cells, flips and encoders were chosen on the
first of the SIFT-like queries of `_descriptors`; here the queries come from other images, and the
words of GloVe were never used to choose.
"""

import sys

import faiss
import numpy as np
from _calls import call_row
from _descriptors import descriptors
from _vectors import glove, retained, unit

from sfumato.data import Interactions
from sfumato.profile import Blip
from sfumato.retrieve import BinaryIndex, learned

QUERIES, BATCH, K = 1_000, 200, 10
PROFILES = 1_000_000


def rows():
    """Rows of searches, of an added row, and of BLIP profiles."""
    faiss.omp_set_num_threads(1)
    queries = unit(descriptors(QUERIES, seed=11, folder=retained()))
    found = searches("SIFT-like", unit(descriptors(60_000, seed=1, folder=retained())), queries)
    words = glove()
    if words is not None:
        found += searches("GloVe", words.base[:60_000], words.reported[0][:QUERIES])
    return [*found, *additions(queries), *million(queries), *profiles()]


def searches(label, base, queries):
    """Searches of 60,000 rows, one at a time and many together."""
    ours = BinaryIndex(keep_vectors=True, partitions="auto").add(np.arange(len(base)), base)
    plain = BinaryIndex(keep_vectors=True).add(np.arange(len(base)), base)
    options = dict(rerank="exact")
    works = {
        "": lambda some: ours.search(some, K, **options)[1],
        "all codes": lambda some: plain.search(some, K, shortlist=300, **options)[1],
        **peers(base),
    }
    return searched(f"{label}, 60,000 rows", works, base, queries, (60, 30))


def million(queries):
    """A million rows in codes of 56 or 64 bytes, 16 more for id, factor and shift, and cells."""
    base = unit(descriptors(1_000_000, seed=1, folder=retained()))
    found = []
    for bits in (448, 512):
        index = BinaryIndex(encoder=learned(bits), partitions="auto").fit(base[:100_000])
        index.add(np.arange(len(base)), base)
        bytes_a_row = index.nbytes / len(index)
        for recall in (0.90, 0.95, 0.97):
            probes = index.probes_for(recall)

            def search(some, index=index, probes=probes):
                return index.search(some, K, probes=probes)[1]

            label = f"SIFT-like, 1,000,000 rows, {bytes_a_row:.0f} bytes each, {probes} cells"
            found += searched(label, {"": search}, base, queries, (150, None))
    return found


def peers(base):
    """Searches of faiss, with parameters that reach a recall of about 0.96."""
    graph = faiss.IndexHNSWFlat(base.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efSearch = 24
    graph.add(base)
    centres = faiss.IndexFlatIP(base.shape[1])
    cells = faiss.IndexIVFFlat(centres, base.shape[1], 256, faiss.METRIC_INNER_PRODUCT)
    cells.train(base)
    cells.add(base)
    cells.nprobe = 24
    keep = centres  # faiss does not own it
    return {
        "faiss HNSW": lambda some: graph.search(some, K)[1],
        "faiss IVF": lambda some, keep=keep: cells.search(some, K)[1],
    }


def searched(label, works, base, queries, limits):
    """A row of single searches and one of a batch, in microseconds a query, with recalls."""
    exact = faiss.IndexFlatIP(base.shape[1])
    exact.add(base)
    truth = exact.search(queries, K)[1]
    recall = {name: shared(work(queries), truth) for name, work in works.items()}
    single = {name: one_at_a_time(work, queries) for name, work in works.items()}
    batch = {name: (lambda work=work: work(queries[:BATCH])) for name, work in works.items()}
    return [
        recalled(f"search of one: {label}", single, limits[0], recall),
        recalled(f"one query of {BATCH} in a call: {label}", batch, limits[1], recall, BATCH),
    ]


def recalled(name, calls, limit, recall, items=1):
    others = {peer: (lambda call=call: call) for peer, call in calls.items() if peer}
    row = call_row(name, calls[""], limit, others, items=items)
    row["recall"] = recall[""]
    for peer in row["peers"]:
        row["peers"][peer]["recall"] = recall[peer]
    figures = ", ".join(f"{name or 'ours'} {value:.3f}" for name, value in recall.items())
    print(f"{'':<12}recall {figures}", flush=True)
    return row


def one_at_a_time(work, queries):
    """A call that searches for the next query each time."""
    state = [0]

    def call():
        state[0] = (state[0] + 1) % len(queries)
        return work(queries[state[0] : state[0] + 1])

    return call


def shared(found, truth):
    return (
        float(np.mean([np.intersect1d(a, b).size for a, b in zip(found, truth, strict=True)])) / K
    )


def additions(vectors):
    """One row added to 60,000."""
    base = unit(descriptors(60_000, seed=1, folder=retained()))
    index = BinaryIndex().add(np.arange(len(base)), base)
    celled = BinaryIndex(partitions="auto").add(np.arange(len(base)), base)
    return [
        call_row(
            "add one row to 60,000",
            adding(index, vectors),
            20,
            {"faiss flat": lambda: flat(base, vectors), "faiss HNSW": lambda: graph(base, vectors)},
        ),
        call_row("add one row to 60,000 in cells", adding(celled, vectors), 20),
    ]


def adding(index, vectors):
    state = [10**6]

    def call():
        state[0] += 1
        index.add([state[0]], vectors[state[0] % len(vectors)][None])

    return call


def flat(base, vectors):
    index = faiss.IndexFlatIP(base.shape[1])
    index.add(base)
    return lambda: index.add(vectors[:1])


def graph(base, vectors):
    index = faiss.IndexHNSWFlat(base.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.add(base)
    return lambda: index.add(vectors[:1])


def profiles():
    """The nearest of a million BLIP profiles, beside faiss and reading as many bytes."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(PROFILES), 4)
    items = rng.integers(0, 50_000, users.size)
    released = Blip(bits=1024, hashes=4, epsilon=3).release(
        Interactions(users, items, np.ones(users.size)), users=np.arange(PROFILES)
    )
    words = rng.integers(0, 2**64, (PROFILES, 16), dtype=np.uint64)
    binary = faiss.IndexBinaryFlat(1024)
    binary.add(words.view(np.uint8))
    query = words[:1].view(np.uint8)
    return [
        call_row(
            "nearest of 1,000,000 BLIP profiles of 1,024 bits",
            lambda: released.nearest([7], n=10),
            None,
            {
                "faiss binary": lambda: lambda: binary.search(query, 10),
                "reading the bytes": lambda: lambda: words.max(),
            },
        )
    ]


if __name__ == "__main__":
    sys.exit(0 if rows() else 1)
