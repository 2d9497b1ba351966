"""Near-duplicate documents beside rensa and datasketch, one thread, all in one process.

    python benchmarks/similar.py [FOLDER]    writes benchmarks/results/similar.json

Signatures of 100,000 documents of 200 hashed shingles; the pairs of planted near-duplicates and
their recall beside theory; raw text of 2 kB documents; a stream; joins by cosine and edit distance.
With a folder of real sets: articles and BBC news, whose repeats are known, and messages and film
reviews, on which nothing was chosen. Rates are of CPU time, peers and ours in turn, medians of
several runs: the machine is shared. A peer that is not installed is left out.
"""

import csv
import gzip
import io
import os
import sys
import time
import zipfile
from pathlib import Path

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # of rensa, before it is imported

import numpy as np
from _measure import summary, write
from scipy import sparse

from sfumato.mine.similar import (
    Deduplicator,
    ShingleSets,
    choose_bands,
    near_duplicates,
    shingles,
    signatures,
    similarity_join,
)
from sfumato.mine.similar.candidates import BandJoin, fewest_matches, keys_of

DOCUMENTS, SIZE, PERMUTATIONS = 100_000, 200, 128
RUNS = 5
THRESHOLD = 0.8


def seconds(*works):
    """CPU and wall seconds of each work, one after the other in every run; None for none."""
    found = [[] for _ in works]
    for _ in range(RUNS + 1):
        for work, times in zip(works, found, strict=True):
            start = time.process_time(), time.perf_counter()
            if work is not None:
                work()
            times.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return [np.array(times[1:]) for times in found]  # the first run compiles


def rates(items, times):
    return {
        "cpu": summary((items / times[:, 0]).tolist()),
        "wall": summary((items / times[:, 1]).tolist()),
    }


def planted(seed=0, pairs=20_000):
    """Random sets, of which some share from 130 to 200 of 200 members with one other."""
    draws = np.random.default_rng(seed)
    hashes = draws.integers(0, 2**64, (DOCUMENTS, SIZE), dtype=np.uint64)
    shared = draws.integers(130, SIZE + 1, pairs)
    partner = hashes[DOCUMENTS // 2 : DOCUMENTS // 2 + pairs]
    copied = np.arange(SIZE) < shared[:, None]
    partner[copied] = hashes[:pairs][copied]
    sets = ShingleSets(SIZE * np.arange(DOCUMENTS + 1), hashes.reshape(-1))
    return sets, shared / (2 * SIZE - shared)


def signature_rates(sets):
    """Documents a second of ours, rensa and datasketch."""

    def rensa():
        from rensa import RMinHash

        flat, offsets = sets.hashes % 2**32, sets.offsets.astype(np.uint64)
        return lambda: RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, PERMUTATIONS, 1)

    def datasketch(few=2000):
        from datasketch import MinHash

        tokens = [row.tobytes() for row in sets.hashes[: few * SIZE].reshape(-1, 1)]
        lists = [tokens[at : at + SIZE] for at in range(0, few * SIZE, SIZE)]
        return lambda: [MinHash(PERMUTATIONS).update_batch(each) for each in lists]

    made = [installed(rensa), installed(datasketch)]
    ours, fast, slow = seconds(lambda: signatures(sets), *made)
    found = {"ours": rates(DOCUMENTS, ours), "target": 550_000}
    if made[0]:
        found["rensa"] = rates(DOCUMENTS, fast)
        found["ratio to rensa"] = float(np.median(fast[:, 0] / ours[:, 0]))
        found["wall ratio to rensa"] = float(np.median(fast[:, 1] / ours[:, 1]))
    if made[1]:
        found["datasketch"] = rates(2000, slow)
        found["ratio to datasketch"] = float(
            np.median(slow[:, 0] / 2000 / (ours[:, 0] / DOCUMENTS))
        )
    return found


def installed(make):
    try:
        return make()
    except ImportError:
        return None


def pair_times(sets, similar):
    """Seconds from signatures to verified pairs, and the recall at the threshold beside theory."""
    rows = signatures(sets)
    curve = choose_bands(THRESHOLD, PERMUTATIONS, recall=0.99)

    def join():
        keys = keys_of(rows, curve.bands, curve.rows)
        least = fewest_matches(THRESHOLD, PERMUTATIONS)
        return list(BandJoin(keys, np.arange(DOCUMENTS), rows, least).chunks())

    def rensa():
        from rensa import RMinHash, RMinHashLSH

        flat, offsets = sets.hashes % 2**32, sets.offsets.astype(np.uint64)
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, PERMUTATIONS, 1)

        def flags():
            lsh = RMinHashLSH(THRESHOLD, PERMUTATIONS, 16)
            return lsh.insert_matrix_and_query_duplicate_flags(matrix, 0)

        return flags

    peer = installed(rensa)
    joined, whole, flags = seconds(join, lambda: near_duplicates(sets, THRESHOLD), peer)
    found = near_duplicates(sets, THRESHOLD)
    wanted = similar >= THRESHOLD
    seconds_of = {
        "band join from signatures": float(np.median(joined[:, 0])),
        "sets to verified pairs": float(np.median(whole[:, 0])),
        "sets to verified pairs, wall": float(np.median(whole[:, 1])),
        "target": 0.4,
    }
    if peer:
        seconds_of["rensa, flags from signatures"] = float(np.median(flags[:, 0]))
    theory = float(curve.probability(similar[wanted]).mean())
    return {
        "seconds": seconds_of,
        "bands": curve.bands,
        "rows": curve.rows,
        "planted pairs from the threshold up": int(wanted.sum()),
        "pairs found": len(found),
        "recall": len(found) / int(wanted.sum()),
        "theory": theory,
    }


def recall_of_steep_bands(sets, similar):
    """The recall of bands that miss many: nine of 13 rows, beside the curve."""
    curve = choose_bands(THRESHOLD, PERMUTATIONS)
    keys = keys_of(signatures(sets), curve.bands, curve.rows)
    half = DOCUMENTS // 2
    met = (keys[: similar.size] == keys[half : half + similar.size]).any(axis=1)
    wanted = similar >= THRESHOLD
    return {
        "bands": curve.bands,
        "rows": curve.rows,
        "recall": float(met[wanted].mean()),
        "theory": float(curve.probability(similar[wanted]).mean()),
    }


def raw_text(count=10_000, length=2000):
    """MB a second from text to signatures of character 5-shingles."""
    draws = np.random.default_rng(1)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(draws.choice(letters, draws.integers(2, 10))) for _ in range(20_000)]
    words = [word.title() if at % 9 == 0 else word + "," * (at % 11 == 0)
             for at, word in enumerate(words)]  # fmt: skip
    picks = (draws.zipf(1.3, (count, 420)) - 1) % len(words)
    texts = [" ".join(words[at] for at in row)[:length] for row in picks]
    size, few = sum(map(len, texts)) / 1e6, texts[:50]

    def windows(text):
        plain = " ".join(text.lower().replace(",", " ").split())
        return [plain[at : at + 5] for at in range(len(plain) - 4)]

    def rensa():
        from rensa import RMinHash

        return lambda: RMinHash.digest_matrix_from_token_sets(
            [windows(text) for text in few], PERMUTATIONS, 1
        )

    def datasketch():
        from datasketch import MinHash

        return lambda: [
            MinHash(PERMUTATIONS).update_batch([each.encode() for each in windows(text)])
            for text in few
        ]

    made = installed(rensa), installed(datasketch)
    ours, first, second = seconds(lambda: signatures(texts), *made)
    found = {"MB": size, "ours": rates(size, ours), "target": 30}
    part = sum(map(len, few)) / 1e6
    for name, peer, times in (("rensa", made[0], first), ("datasketch", made[1], second)):
        if peer:
            found[name] = rates(part, times)
            found[f"ratio to {name}"] = float(np.median((times[:, 0] / part) / (ours[:, 0] / size)))
    return found


def streaming(sets):
    """Documents a second of the stream, with all signatures and with a filter of 8 MiB."""
    found = {}
    for name, memory in (("signatures", None), ("filter of 8 MiB", 1 << 23)):
        (times,) = seconds(lambda m=memory: Deduplicator(memory=m).keep(sets))
        stream = Deduplicator(memory=memory)
        mask = stream.keep(sets)
        found[name] = {
            **rates(DOCUMENTS, times),
            "nbytes": stream.nbytes,
            "dropped": int((~mask).sum()),
            "false drop rate": stream.false_drop_rate,
        }
    return found


def articles(folder):
    """Planted pairs that are found, of 100 and of 1,000 articles."""
    found = {}
    for count in (100, 1000):
        with gzip.open(folder / f"minhash-articles/articles_{count}.train.gz", "rt") as file:
            names, texts = zip(*(line.split(" ", 1) for line in file), strict=True)
        truth = (folder / f"minhash-articles/articles_{count}.truth").read_text().splitlines()
        wanted = {frozenset(line.split()) for line in truth}
        table = near_duplicates(texts, THRESHOLD)
        pairs = {
            frozenset((names[i], names[j]))
            for i, j in zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True)
        }
        found[count] = {
            "planted": len(wanted), "found": len(wanted & pairs), "others": len(pairs - wanted),
        }  # fmt: skip
    return found


def bbc(folder):
    import pyarrow.parquet as pq

    return pq.read_table(folder / "bbc-news/bbc_news.parquet")["text"].to_pylist()


def films(folder):
    with zipfile.ZipFile(folder / "nltk-texts/movie_reviews.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".txt")]
        return [archive.read(name).decode() for name in names]


def messages(folder):
    with gzip.open(folder / "sms-spam/sms_spam.csv.gz") as file:
        rows = list(csv.reader(io.TextIOWrapper(file, "latin-1")))[1:]
    return [row[1] for row in rows]


def all_pairs(texts, threshold):
    """Every pair from the threshold up, by the product of the sparse matrix with itself."""
    sets = shingles(texts)
    _, columns = np.unique(sets.hashes, return_inverse=True)
    ones = np.ones(columns.size, np.float32)
    matrix = sparse.csr_array((ones, columns, sets.offsets), (len(sets), int(columns.max()) + 1))
    shared = sparse.triu(matrix @ matrix.T, 1).tocoo()
    sizes = sets.sizes
    i, j = shared.coords
    near = shared.data / (sizes[i] + sizes[j] - shared.data) >= threshold - 1e-6
    return set(zip(i[near].tolist(), j[near].tolist(), strict=True))


def corpus(texts):
    """Pairs found beside all pairs at two thresholds, the repeats, and the time."""
    first, repeats = {}, set()
    for at, text in enumerate(texts):
        if text in first:
            repeats.add((first[text], at))
        first.setdefault(text, at)
    found = {"documents": len(texts), "MB": sum(len(text.encode()) for text in texts) / 1e6}
    for threshold in (0.8, 0.5):
        (times,) = seconds(lambda t=threshold: near_duplicates(texts, t))
        table = near_duplicates(texts, threshold)
        pairs = set(zip(table["first"].to_pylist(), table["second"].to_pylist(), strict=True))
        wanted = all_pairs(texts, threshold)
        found[threshold] = {
            "pairs": len(wanted), "found": len(pairs & wanted), "others": len(pairs - wanted),
            "repeats": len(repeats), "repeats found": len(repeats & pairs),
            "seconds": float(np.median(times[:, 0])),
        }  # fmt: skip
    return found


def joins(folder):
    """Joins of 20,000 word vectors by cosine, and of 100,000 words by edit distance."""
    with np.load(folder / "glove/glove_6B_50d_top100k.npz") as file:
        vectors = file["vectors"][:20_000].astype(np.float64)
    start = time.process_time()
    table = similarity_join(vectors, 0.9, "cosine")
    spent = time.process_time() - start
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    wanted = sum(
        int((np.triu(unit[at : at + 1000] @ unit.T, at + 1) >= 0.9).sum())
        for at in range(0, len(unit), 1000)
    )
    with gzip.open(folder / "glove/words_top100k.txt.gz", "rt") as file:
        words = file.read().split("\n")[:100_000]
    found = {
        "cosine 0.9, 20,000 vectors": {
            "seconds": spent, "pairs": wanted, "found": len(table), "recall stated": 0.99,
        }
    }  # fmt: skip
    start = time.process_time()
    edits = similarity_join(words, 1, "edit")
    found["edit distance 1, 100,000 words"] = {
        "seconds": time.process_time() - start, "pairs": len(edits), "recall stated": 1.0,
    }  # fmt: skip
    return found


def main():
    sets, similar = planted()
    found = {
        "documents": DOCUMENTS,
        "shingles": SIZE,
        "permutations": PERMUTATIONS,
        "signatures, documents a second": signature_rates(sets),
        "pairs": pair_times(sets, similar),
        "steep bands": recall_of_steep_bands(sets, similar),
        "raw text, MB a second": raw_text(),
        "stream, documents a second": streaming(sets),
    }
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        found["articles"] = articles(folder)
        for name, read in (("bbc news", bbc), ("film reviews", films), ("messages", messages)):
            found[name] = corpus(read(folder))
        found["joins"] = joins(folder)
    for name, value in found.items():
        print(name, value)
    write("similar", found)


if __name__ == "__main__":
    main()
