"""Speed and recall of binary codes beside faiss, one process, one thread.

python benchmarks/retrieval.py [PART ...]    writes benchmarks/results/retrieval.json

Recall: SIFT-like descriptors of generated images (1,000,000 x 128; SIFT1M itself is not available)
and GloVe where the folder is there (SFUMATO_DATA); 2,000 queries to choose on, 4,000 others
reported.
"""

import sys
import time

import faiss
import numba
import numpy as np
from _codebooks import OURS, PEERS, chosen
from _measure import summary, write_parts
from _ratings import shaped_as_movielens
from _vectors import glove, recalls, sift_like, small_sets
from threadpoolctl import threadpool_limits

from sfumato.data import generate_world
from sfumato.kernels.lanes import load, total, u64x8
from sfumato.kernels.retrieve.hamming_scan import hamming_nearest
from sfumato.recommend import Catalogue, DenseFactorization, Factorization
from sfumato.retrieve import qolsh
from sfumato.retrieve.binary.store import Panels

CODES, WORDS, K, BATCH = 1_000_000, 4, 1_000, 256


@numba.njit(nogil=True)
def _read(words):
    a = b = c = d = u64x8(0)
    for at in range(0, words.size, 32):
        a += load(words, at)
        b += load(words, at + 8)
        c += load(words, at + 16)
        d += load(words, at + 24)
    return total(a + b + c + d)


def rates(work, items, runs=7):
    """Items a second, of warm runs."""
    work()
    out = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        out.append(items / (time.perf_counter() - start))
    return out


def beside(name, ours, theirs, items, target, rounds=7):
    """Both in turns, so that a slow minute of the machine slows both: the median of the ratios."""
    mine, peer = [], []
    for _ in range(rounds):
        mine += rates(ours, items, 1)
        peer += rates(theirs, items, 1)
    ratio = summary([a / b for a, b in zip(mine, peer, strict=True)])
    row = {
        "name": name,
        "ours": summary(mine),
        "faiss": summary(peer),
        "ratio": ratio,
        "target": target,
    }
    print(
        f"{name:<40}{row['ours']['median']:9.0f} q/s, faiss {row['faiss']['median']:7.0f}, "
        f"ratio {ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f}), target {target}",
        flush=True,
    )
    return row


def made_codes(count, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, (count, WORDS), dtype=np.uint64)


def scan():
    """Top 1000 of 1M codes of 256 bits by Hamming distance, one query at a time and in batches."""
    codes, queries = made_codes(CODES), made_codes(BATCH, 1)
    panels = Panels(WORDS)
    panels.append(codes)
    flat = faiss.IndexBinaryFlat(64 * WORDS)
    flat.add(codes.view(np.uint8))
    raw = queries.view(np.uint8)
    state = panels.blocks, panels.count, None
    _, distances = hamming_nearest(*state, queries[:64], K)
    theirs, _ = flat.search(raw[:64], K)
    assert (distances == theirs).all(), "the distances differ"
    few = range(32)
    return [
        beside(
            "one query at a time",
            lambda: [hamming_nearest(*state, queries[i : i + 1], K) for i in few],
            lambda: [flat.search(raw[i : i + 1], K) for i in few],
            len(few),
            1.5,
        ),
        beside(
            f"batch of {BATCH}",
            lambda: hamming_nearest(*state, queries, K),
            lambda: flat.search(raw, K),
            BATCH,
            1.5,
        ),
    ]


def bandwidth(count=10_000_000):
    """10M codes, one query at a time, beside reading the same bytes and doing nothing else."""
    panels = Panels(WORDS)
    for part in range(10):
        panels.append(made_codes(count // 10, part))
    query = made_codes(1, 99)
    flat = panels.blocks.reshape(-1)
    size = 8 * WORDS * count / 1e9
    runs = 9
    mine, ceiling = [], []
    for _ in range(runs):
        mine += rates(lambda: hamming_nearest(panels.blocks, panels.count, None, query, K), size, 1)
        ceiling += rates(lambda: _read(flat), size, 1)
    share = summary([a / b for a, b in zip(mine, ceiling, strict=True)])
    print(f"10M codes: {share['median']:.2f} of the read bandwidth, target 0.70", flush=True)
    return {
        "codes": count,
        "gb_a_second": summary(mine),
        "ceiling_gb_a_second": summary(ceiling),
        "share": share,
        "target": 0.7,
    }


def encoding(count=100_000):
    """Microseconds a vector of the qoLSH encoder, d = 128, L = 256, all included."""
    X = np.random.default_rng(0).normal(size=(count, 128)).astype(np.float32)
    rows = []
    for flips, target in ((0, None), (10, 11), (30, None)):
        encoder = qolsh(bits=256, flips=flips).fit(X)
        taken = [1e6 / each for each in rates(lambda of=encoder: of.encode(X), count)]
        rows.append({"flips": flips, "microseconds": summary(taken), "target": target})
        print(f"qolsh, {flips} flips: {rows[-1]['microseconds']['median']:.2f} us", flush=True)
    return rows


def recall():
    """R@1, R@10, R@100 and 10@10 of every code, ours and faiss', with bytes and milliseconds."""
    return [table(data) for data in (sift_like(), glove()) if data is not None]


def table(data):
    rows = []
    picks = chosen(data)
    for name, make in {**PEERS, **OURS}.items():
        start = time.perf_counter()
        index = make(data, picks)
        if index is None:
            continue
        built = time.perf_counter() - start
        queries, truth = data.reported
        start = time.perf_counter()
        found = index.search(queries)
        spent = (time.perf_counter() - start) / len(queries) * 1e3
        row = {
            "name": name,
            "bytes": index.nbytes,
            **recalls(found, truth),
            "ms_a_query": spent,
            "build_seconds": built,
        }
        rows.append(row)
        figures = " ".join(f"{each} {row[each]:.3f}" for each in ("R@1", "R@10", "R@100", "10@10"))
        print(f"{name:<52}{row['bytes']:4d} B  {figures}  {spent:.2f} ms", flush=True)
    return {"data": data.label, "queries": len(data.reported[0]), "chosen": picks, "rows": rows}


NORMED = (
    "faiss PQ32x8",
    "faiss OPQ32x8",
    "faiss RaBitQ, 1 bit of 256 turned dimensions",
    "learned, 256 bits, ranked by products (before)",
    "learned, 192 bits",
    "learned, 256 bits",
)


def cosines():
    """Learned codes ranked by products, as before, and by cosines, beside codes of 32 bytes."""
    return [ranked_by_cosines(data) for data in small_sets()]


def ranked_by_cosines(data):
    rows, queries, truth = [], *data.reported
    made = {name: {**PEERS, **OURS}[name](data, {}) for name in NORMED}
    for name, index in made.items():
        index.search(queries[:10])
        both = [seconds(lambda of=of: of.search(queries)) for of in (index, made["faiss PQ32x8"])]
        row = {"name": name, "bytes": index.nbytes, **recalls(index.search(queries), truth)}
        rows.append({**row, "time_over_pq": both[0] / both[1]})
        figures = " ".join(f"{each} {row[each]:.3f}" for each in ("R@1", "R@10", "10@10"))
        print(f"{data.label:<26}{name:<52}{row['bytes']:4d} B  {figures}", flush=True)
    return {"data": data.label, "queries": len(queries), "rows": rows}


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


INDEXES = {
    "codes of 64 bits": dict(kind="codes", bits=64),
    "codes of 128 bits": dict(kind="codes", bits=128),
    "codes of 256 bits (default)": dict(kind="codes"),
    "bands (default)": dict(kind="bands"),
    "bands, 32 tables": dict(kind="bands", bands=32),
}


class Resampled(Factorization, in_files=False):
    """The users of a model, and many items: each one of its items, moved a little."""

    def __init__(self, model, items, draws):
        self._of, self.mean_, self.low_, self.high_ = model, model.mean_, model.low_, model.high_
        known = model._item_vectors(model.catalogue_.ids)
        noise = draws.standard_normal((items, known.shape[1]), np.float32) * known.std(axis=0) / 2
        self._vectors = known[draws.integers(0, len(known), items)] + noise
        self.catalogue_ = Catalogue(np.arange(items))

    def _user_vectors(self, ids):
        return self._of._user_vectors(ids)

    def _item_vectors(self, ids):
        return self._vectors[ids]


def resampled(items, draws):
    name, ratings = shaped_as_movielens()
    model = DenseFactorization(factors=32).fit(ratings)
    return name, Resampled(model, items, draws), np.unique(ratings.users)


def generated(items, draws):
    """Twenty ratings an item, so that little but its popularity is learned of most."""
    world = generate_world(users=20_000, items=items, ratings=20 * items).interactions
    return (
        "generated ratings",
        DenseFactorization(factors=32, epochs=5).fit(world),
        np.arange(20_000),
    )


def catalogue(items=1_000_000):
    """The ten best of a million items for 500 users: the model's own answer beside its indexes."""
    return [ranked_by_indexes(make, items) for make in (resampled, generated)]


def ranked_by_indexes(make, items):
    draws = np.random.default_rng(0)
    label, model, users = make(items, draws)
    who = draws.choice(users, 500, replace=False)
    rows = [timed("all items scored", model, who)]
    for name, options in INDEXES.items():
        start = time.perf_counter()
        index = model.index(**options)
        built = time.perf_counter() - start
        result = {"recall": index.recall(who), "touched": index.touched(who)}
        row = {**timed(name, index, who), **result, "nbytes": index.nbytes, "build_seconds": built}
        rows.append(row)
        print(f"{'':<12}recall@10 {row['recall']:.3f}, touched {row['touched']:.2%}", flush=True)
    return {"data": label, "items": items, "users": len(who), "rows": rows}


def timed(name, ranking, who):
    """Milliseconds a user, all at once and one at a time."""
    together = [1e3 / each for each in rates(lambda: ranking.recommend(who, 10), len(who), 3)]
    few = who[:30]
    alone = lambda: [ranking.recommend(int(each), 10) for each in few]  # noqa: E731
    singly = [1e3 / each for each in rates(alone, len(few), 3)]
    row = {"name": name, "together_ms": summary(together), "alone_ms": summary(singly)}
    print(f"{name:<40}{row['together_ms']['median']:.2f} ms, alone {row['alone_ms']['median']:.2f}")
    return row


PARTS = {
    "scan": scan,
    "bandwidth": bandwidth,
    "encoding": encoding,
    "recall": recall,
    "cosines": cosines,
    "catalogue": catalogue,
}

if __name__ == "__main__":
    threadpool_limits(1)
    faiss.omp_set_num_threads(1)
    write_parts("retrieval", PARTS, sys.argv[1:])
