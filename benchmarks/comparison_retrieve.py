"""Every model of `retrieve` beside faiss and the trivial: recall at equal bytes or equal work.

python benchmarks/comparison_retrieve.py    writes benchmarks/results/comparison_retrieve.json

Rows are vectors or sets, and 500 of them, left out, are the queries. "10@10" is the fraction of the
ten nearest that are among the ten found. Codes: peers have as many bytes a vector, factors and
norms included, and the trivial is as many bytes of principal components, or ten rows at random.
Bands: peers score as many rows as the bands find candidates, and the trivial is that many rows at
random. Seeds draw the queries and seed the models. Settings are defaults, or were chosen on the
queries of benchmarks/retrieval.py.
"""

import faiss
import numpy as np
from _codebooks import whole_parts
from _comparison import row, write_rows
from _descriptors import descriptors
from _ratings import folder, real
from _vectors import retained, unit
from itemsets import lists
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from sfumato.recommend import DenseFactorization
from sfumato.retrieve import BinaryIndex, LshIndex, learned, suggest_width
from sfumato.sketch import MinHash

SEEDS, QUERIES, NEAREST, ROWS = (0, 1, 2), 500, 10, 3_000
SOME = 100  # queries of sets, whose true neighbours are found pair by pair
ELSEWHERE = (
    "defaults, chosen on other queries of benchmarks/retrieval.py; "
    "the rule of a common mean on these sets"
)


def digits():
    return load_digits().data.astype(np.float32)


def features():
    """MNIST reduced to 100 columns, as raw as the file has it."""
    return np.load(folder() / "adbench" / "24_mnist.npz")["X"][:ROWS].astype(np.float32)


def words():
    vectors = np.load(folder() / "glove" / "glove_6B_50d_top100k.npz")["vectors"]
    return vectors[:ROWS].astype(np.float32)


def far_words():
    """The same, far from the origin: all vectors share a large mean, as raw images do."""
    return words() + 3


def histograms():
    return descriptors(ROWS, seed=1, folder=retained())


def films():
    """Factors of the films and users of MovieLens-1M."""
    ratings = real("movielens-1m")
    model = DenseFactorization(factors=32).fit(ratings)
    return model._item_vectors(model.catalogue_.ids), model._user_vectors(np.unique(ratings.users))


VECTORS = {
    "digits (1,797 x 64)": digits,
    "MNIST features (3,000 x 100)": features,
    "SIFT-like (3,000 x 128)": histograms,
    "GloVe (3,000 x 50)": words,
    "GloVe + 3 (3,000 x 50)": far_words,
}


class Task:
    """Base and queries of one seed, and the ten true neighbours by a metric."""

    def __init__(self, vectors, metric, seed):
        order = np.random.default_rng(seed).permutation(len(vectors))
        scaled = unit(vectors) if metric == "cosine" else np.ascontiguousarray(vectors, "f4")
        self.queries, self.base = scaled[order[:QUERIES]], scaled[order[QUERIES:]].copy()
        self.metric, self.seed = metric, seed
        self.near = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
        flat = faiss.IndexFlat(self.base.shape[1], self.near)
        flat.add(self.base)
        self.truth = flat.search(self.queries, NEAREST)[1]

    def recall(self, found):
        pairs = zip(self.truth, found, strict=True)
        return float(np.mean([np.isin(truth, each).mean() for truth, each in pairs]))

    def codes(self, make):
        index = make(self.seed, self.metric).add(np.arange(len(self.base)), self.base)
        return index.nbytes_per_vector, self.recall(index.search(self.queries, NEAREST)[1])

    def peer(self, index):
        index.train(self.base)
        index.add(self.base)
        return self.recall(index.search(self.queries, NEAREST)[1])

    def at_random(self, share=None):
        """Recall of ten rows at random, or of the best of a share of the rows."""
        return NEAREST / len(self.base) if share is None else share


def codebooks(task, size):
    """Figures of faiss' codes of so many bytes a vector."""
    width = task.base.shape[1]
    exact = faiss.METRIC_L2 if task.metric != "inner" else faiss.METRIC_INNER_PRODUCT
    short = len(task.base) < 10_000  # as many training rows as faiss asks for at least
    bits = 6 if short else 8
    parts = 8 * size // bits
    plain = faiss.RandomRotationMatrix(width, 8 * (size - 8))
    pq = lambda d: faiss.IndexPQ(d, parts, bits, exact)  # noqa: E731
    made = {
        f"PQ {parts}x{bits}": whole_parts(pq, width, parts),
        "RaBitQ": faiss.IndexPreTransform(plain, faiss.IndexRaBitQ(8 * (size - 8), exact)),
        "faiss LSH": faiss.IndexLSH(width, 8 * size),
    }
    return {name: task.peer(index) for name, index in made.items()}


def components(task, size):
    flat = faiss.IndexFlat(size // 4, task.near)
    return task.peer(faiss.IndexPreTransform(faiss.PCAMatrix(task.base.shape[1], size // 4), flat))


ENCODERS = {
    "default": lambda seed, metric: BinaryIndex(metric=metric, seed=seed),
    "learned": lambda seed, metric: BinaryIndex(
        encoder=learned(256, seed=seed), metric=metric, seed=seed
    ),
    **{
        name: lambda seed, metric, name=name: BinaryIndex(encoder=name, metric=metric, seed=seed)
        for name in ("qolsh", "tight_frame", "project_and_sign")
    },
    "learned, partitions auto": lambda seed, metric: BinaryIndex(
        encoder=learned(256, seed=seed), metric=metric, partitions="auto", recall=0.99, seed=seed
    ),
}
METRICS = {"cosine": tuple(ENCODERS), "euclidean": ("default", "learned")}


def of_codes(data, tasks, names):
    """Rows of the encoders on one set of vectors; peers of each size are measured once."""
    known, rows = {}, []
    for name in names:
        made = [task.codes(ENCODERS[name]) for task in tasks]
        size = made[0][0]
        if size not in known:
            peers = [codebooks(task, size) for task in tasks]
            known[size] = {each: [peer[each] for peer in peers] for each in peers[0]}
            known[size]["trivial"] = [components(task, size) for task in tasks]
        peers = {each: runs for each, runs in known[size].items() if each != "trivial"}
        trivial = {
            "principal components": known[size]["trivial"],
            "random rows": [task.at_random() for task in tasks],
        }
        ours = [recall for _, recall in made]
        setting = f"{tasks[0].metric}, {size} bytes"
        rows.append(
            row(
                f"BinaryIndex, {name}", data, "10@10", "higher", ours, peers, trivial,
                chosen_on=ELSEWHERE, setting=setting,
            )
        )  # fmt: skip
        print(data, setting, name, ours, {each: np.median(peers[each]) for each in peers})
    return rows


class Bands:
    """An LshIndex on a task: its recall, and the fraction of rows that are candidates."""

    def __init__(self, task, index):
        index.add(np.arange(len(task.base)), task.base)
        self.recall = task.recall(index.search(task.queries, NEAREST)[0])
        self.share = len(index.candidates(task.queries)[1]) / len(task.queries) / len(task.base)


def bands_for(task):
    """Bands that find most neighbours, by the similarity of those of some rows of the base."""
    if task.metric == "inner":
        return LshIndex(rows=8, metric=task.metric, seed=task.seed)
    if task.metric == "cosine":
        near = np.partition(task.base[:QUERIES] @ task.base.T, -NEAREST - 1, axis=1)
        similar = float(np.median(near[:, -NEAREST - 1]))
        return LshIndex.from_threshold(similar, recall=0.9, seed=task.seed)
    width = suggest_width(sample=task.base[:5000], within=0.5, bands=64, rows=16, recall=0.9)
    return LshIndex(64, 16, metric="euclidean", width=width, seed=task.seed)


def inverted(task, share):
    """faiss' cells, of which as many are read as give this share of the rows, or a little more."""
    cells = int(4 * np.sqrt(len(task.base)))
    quantizer = faiss.IndexFlat(task.base.shape[1], task.near)
    index = faiss.IndexIVFFlat(quantizer, task.base.shape[1], cells, task.near)
    index.nprobe = max(1, round(share * cells))
    return task.peer(index)


def of_bands(data, tasks):
    ours = [Bands(task, bands_for(task)) for task in tasks]
    pairs = list(zip(tasks, ours, strict=True))
    peers = {"faiss IVF": [inverted(task, each.share) for task, each in pairs]}
    trivial = {"random rows, scored": [task.at_random(each.share) for task, each in pairs]}
    share = np.median([each.share for each in ours])
    print(data, "bands", tasks[0].metric, [each.recall for each in ours], share, peers)
    return row(
        "LshIndex", data, "10@10", "higher", [each.recall for each in ours], peers, trivial,
        chosen_on="nothing", setting=f"{tasks[0].metric}, {share:.1%} of the rows scored",
    )  # fmt: skip


def products():
    """Films for users by inner product: codes, and bands, of the factors of MovieLens-1M."""
    items, users = films()
    tasks = []
    for seed in SEEDS:
        task = Task(np.concatenate([users, items]), "cosine", seed)
        task.metric, task.near = "inner", faiss.METRIC_INNER_PRODUCT
        draws = np.random.default_rng(seed).choice(len(users), QUERIES, replace=False)
        task.base, task.queries = items.astype("f4"), users[draws].astype("f4")
        flat = faiss.IndexFlatIP(items.shape[1])
        flat.add(task.base)
        task.truth = flat.search(task.queries, NEAREST)[1]
        tasks.append(task)
    label = f"films of MovieLens-1M ({len(items):,} x 32)"
    return [*of_codes(label, tasks, ("default", "learned")), of_bands(label, tasks)]


def families(seed):
    """Sets of 40 keys in families of ten that share from half to nearly all of them."""
    draws = np.random.default_rng(seed)
    out = []
    for _ in range(300):
        core = draws.integers(0, 10**6, 40)
        for _ in range(10):
            common = core[: draws.integers(20, 40)]
            out.append(np.append(common, draws.integers(10**6, 10**8, 40 - common.size)))
    return out


def baskets(name):
    found = [np.array(each) for each in lists(name)]
    return [each for each in found if each.size >= 5][:4_000]


def watched(_):
    ratings = real("movielens-1m")
    order = np.argsort(ratings.users, kind="stable")
    ends = np.flatnonzero(np.diff(ratings.users[order])) + 1
    return np.split(ratings.items[order], ends)


SETS = {
    "families of sets (3,000)": families,
    "retail baskets (4,000)": lambda seed: baskets("retail"),
    "T10I4D100K (4,000)": lambda seed: baskets("T10I4D100K"),
    "films of 6,040 users": watched,
}


def of_sets(data, make):
    ours, peers, trivial = [], {"all signatures compared": []}, {"random rows, scored": []}
    for seed in SEEDS:
        sets = make(seed)
        order = np.random.default_rng(seed).permutation(len(sets))
        queries = [sets[i] for i in order[:SOME]]
        base = [sets[i] for i in order[SOME:]]
        known = [set(each.tolist()) for each in base]
        truth = []
        for query in queries:
            one = set(query.tolist())
            near = np.array([len(one & each) / len(one | each) for each in known])
            truth.append(np.sort(near)[::-1][:NEAREST].sum())
        index = LshIndex(64, 2, metric="jaccard", seed=seed).add(np.arange(len(base)), base)
        maker = MinHash(128, seed=seed)
        left, right = maker.signatures(queries), maker.signatures(base)
        matrix = maker.similarity_matrix(left, right)
        compared = np.argsort(-matrix, axis=1, kind="stable")[:, :NEAREST]
        starts, _ = index.candidates(queries)
        draws = np.random.default_rng(seed)
        size = int(np.ceil(starts[-1] / len(queries)))
        some = [_best(matrix[q], draws.choice(len(base), size)) for q in range(len(queries))]
        for out, found in (
            (ours, index.search(queries, NEAREST)[0]),
            (peers["all signatures compared"], compared),
            (trivial["random rows, scored"], some),
        ):
            out.append(_reached(queries, known, found, truth))
    share = size / len(base)
    print(data, ours, peers, trivial, share)
    return row(
        "LshIndex, sets", data, "similarity of the ten found / of the ten nearest", "higher", ours,
        peers, trivial, chosen_on="nothing",
        setting=f"jaccard, 64 bands of 2, {share:.1%} of the sets scored",
    )  # fmt: skip


def _best(scores, rows):
    return rows[np.argsort(-scores[rows], kind="stable")[:NEAREST]]


def _reached(queries, known, found, truth):
    """Sum of the similarities of what was found, as a part of that of the nearest: ties count."""
    reached = 0.0
    for query, rows in zip(queries, found, strict=True):
        one = set(query.tolist())
        for at in set(np.asarray(rows).tolist()) - {-1}:
            reached += len(one & known[at]) / len(one | known[at])
    return reached / sum(truth)


def main():
    rows = []
    for data, make in VECTORS.items():
        vectors = make()
        for metric, names in METRICS.items():
            tasks = [Task(vectors, metric, seed) for seed in SEEDS]
            rows += [*of_codes(data, tasks, names), of_bands(data, tasks)]
    rows += products()
    rows += [of_sets(data, make) for data, make in SETS.items()]
    write_rows("retrieve", rows)


if __name__ == "__main__":
    threadpool_limits(1)
    faiss.omp_set_num_threads(1)
    main()
