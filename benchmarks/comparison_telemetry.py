"""Every scheme and decoder of telemetry beside peers and trivial answers on columns of categories.

    python benchmarks/comparison_telemetry.py
        writes benchmarks/results/comparison_telemetry.json

30,000 clients draw a value each, seeds 0 to 2, and report it once at epsilon 2 unless a row says
else. The error is the root of the mean square over the candidates: all values of a column, or the
100 most frequent. Peers have the same clients and epsilon. Trivial answers: every candidate the
same share of all clients, 0 for all, and the marks of our own reports without correction for
noise. Discovery finds strings without candidates; its recall is of the 10 most frequent, its peer
the n-grams of Fanti, Pihur and Erlingsson (2016), our own version of them.
"""

import random
import sys

import numpy as np
import pyarrow as pa
import xxhash
from _categorical_sets import columns
from _comparison import row, write_rows
from _ldp_peers import subsets_of
from _ngram_discovery import NGramDiscovery

from sfumato.telemetry import (
    Counts,
    HadamardResponse,
    LocalHashing,
    PrefixDiscovery,
    Rappor,
    ReportEncoder,
    SubsetSelection,
    decode,
)

CLIENTS, MOST, SEEDS, EPSILON = 30_000, 100, range(3), 2.0
OTHERS = (0.5, 1.0, 4.0)  # epsilons of the first column
FOUND, LENGTH = 10, 6


def schemes(epsilon, known):
    """Every scheme, and whether its values are known: name, scheme, method of decoding."""
    yield "SubsetSelection, known values", SubsetSelection(epsilon, categories=known), "weighted"
    yield "HadamardResponse, known values", HadamardResponse(epsilon, categories=known), "weighted"
    basic = Rappor.for_epsilon(epsilon, categories=known)
    yield "Rappor.for_epsilon, known values", basic, "weighted"
    yield "LocalHashing", LocalHashing(epsilon), "weighted"
    yield "SubsetSelection, any values", SubsetSelection(epsilon), "weighted"
    rappor = Rappor.for_epsilon(epsilon)
    for method in ("weighted", "lasso", "likelihood"):
        yield f"Rappor.for_epsilon, {method}", rappor, method


def ours(scheme, method, codes, column, most, seed):
    """Estimates of the candidates, and the marks without correction as shares of all clients."""
    text = column.text[:most]
    if scheme.domain is not None:
        codes, every = np.minimum(codes, len(scheme.domain) - 1), list(scheme.domain)
    else:
        every = column.text
    values = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(every))
    reports = ReportEncoder(scheme, seed=seed).encode_many(values)
    counts = Counts(scheme).update(reports)
    result = decode(reports if method == "likelihood" else counts, text, method=method)
    marks = (counts.cells / np.maximum(counts.reports, 1)[:, None])[
        np.arange(scheme.cohorts)[:, None], np.asarray(scheme.members(text))
    ].mean((1, 2))
    return np.asarray(result["estimate"]), CLIENTS * marks


class Encoding:
    """xxhash as it was: of texts."""

    @staticmethod
    def xxh32(text, seed):
        return xxhash.xxh32(text.encode(), seed=seed)


def olh(codes, known, epsilon, seed):
    """pure-ldp, optimal local hashing."""
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer, lh_client, lh_server

    for module in (lh_client, lh_server):  # xxhash 4 takes no text
        module.xxhash = Encoding
    random.seed(seed)
    np.random.seed(seed)
    client, server = LHClient(epsilon, known, use_olh=True), LHServer(epsilon, known, use_olh=True)
    for code in codes.tolist():
        server.aggregate(client.privatise(code + 1))
    return server.estimate_all(range(1, known + 1))


def hadamard(codes, known, epsilon, seed):
    """pure-ldp, Hadamard response."""
    from pure_ldp.frequency_oracles.hadamard_response import (
        HadamardResponseClient,
        HadamardResponseServer,
    )

    np.random.seed(seed)
    server = HadamardResponseServer(epsilon, known)
    client = HadamardResponseClient(epsilon, known, server.get_hash_funcs())
    for code in codes.tolist():
        server.aggregate(client.privatise(code + 1))
    return server.estimate_all(range(1, known + 1))


def unary(codes, known, epsilon, seed):
    """multi-freq-ldpy, optimized unary encoding."""
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    _start(seed)
    reports = [UE_Client(code, known, epsilon) for code in codes.tolist()]
    return UE_Aggregator_MI(reports, epsilon) * codes.size


def _start(seed):
    """Seed the generator of compiled clients, which is not that of NumPy."""
    import numba

    numba.njit(lambda seed: np.random.seed(seed))(seed)


PEERS = {
    "pure-ldp, local hashing": olh,
    "pure-ldp, Hadamard response": hadamard,
    "multi-freq-ldpy, subset selection": lambda codes, known, epsilon, seed: subsets_of(
        codes.tolist(), known, epsilon, seed
    ),
    "multi-freq-ldpy, unary encoding": unary,
}


def error(estimate, true):
    return float(np.sqrt(np.mean((np.asarray(estimate, float) - true) ** 2)))


def compared(column, epsilon):
    """Rows of one column: each scheme beside all peers."""
    most = min(len(column.text), MOST)
    rest = len(column.text) > most
    known = [*column.text[:most], "(other)"] if rest else column.text
    drawn = [column.clients(CLIENTS, seed) for seed in SEEDS]
    true = [np.bincount(np.minimum(codes, most), minlength=most + 1)[:most] for codes in drawn]
    peers = {}
    for name, peer in PEERS.items():
        runs = []
        for seed, codes, count in zip(SEEDS, drawn, true, strict=True):
            of = np.minimum(codes, len(known) - 1)
            runs.append(error(np.asarray(peer(of, len(known), epsilon, seed))[:most], count))
        peers[name] = runs
    same = [error(np.full(most, CLIENTS / len(known)), count) for count in true]
    nothing = [error(np.zeros(most), count) for count in true]
    for name, scheme, method in schemes(epsilon, known):
        runs, raw = [], []
        for seed, codes, count in zip(SEEDS, drawn, true, strict=True):
            estimate, marks = ours(scheme, method, codes, column, most, seed)
            runs.append(error(estimate, count))
            raw.append(error(marks, count))
        trivial = {"the same for all": same, "0 for all": nothing, "uncorrected marks": raw}
        measure = "root mean square error of counts"
        yield row(
            name,
            column.name,
            measure,
            "lower",
            runs,
            peers,
            trivial,
            chosen_on="generated worlds",
            setting=f"epsilon {epsilon:g}",
        )


def discovered(column, alphabet):
    """The row of discovery: recall of the most frequent strings, which are not given."""
    runs, peers = [], []
    for seed in SEEDS:
        texts = [text[:LENGTH] for text in column.text]
        values = np.array(texts, object)[column.clients(CLIENTS, seed)].tolist()
        names, counts = np.unique(values, return_counts=True)
        wanted = set(names[np.argsort(-counts, kind="stable")[:FOUND]].tolist())
        for method, into in ((PrefixDiscovery, runs), (NGramDiscovery, peers)):
            find = method(epsilon=4, length=LENGTH, alphabet=alphabet)
            found = find.find(find.encode_many(values, seed=seed))
            into.append(len(wanted & set(found.value)) / FOUND)
    return row(
        "PrefixDiscovery",
        column.name,
        f"recall of the {FOUND} most frequent",
        "higher",
        runs,
        {
            "n-grams": peers,
            "pure-ldp, prefixes": {"missing": "hashes the whole domain for each report"},
        },
        {"nothing": [0.0] * len(SEEDS)},
        chosen_on="nothing",
        setting="epsilon 4",
    )


LETTERS, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
DISCOVERED = {"Brown corpus": LETTERS, "last.fm tags": DIGITS, "last.fm artists": DIGITS}
DISCOVERED["retail items"] = DIGITS


def main():
    every, rows = columns(), []
    runs = [(every[0], epsilon) for epsilon in OTHERS] + [(each, EPSILON) for each in every]
    for column, epsilon in runs:
        rows += map(_shown, compared(column, epsilon))
        write_rows("telemetry", rows)
    listed = [each for each in every if each.name in DISCOVERED]
    rows += [_shown(discovered(column, DISCOVERED[column.name])) for column in listed]
    write_rows("telemetry", rows)


def _shown(made):
    others = {**made["peers"], **made["trivial"]}
    figures = " ".join(
        f"{name} {each['median']:.3g}" for name, each in others.items() if "median" in each
    )
    print(
        made["data"],
        made["setting"],
        made["model"],
        f"{made['ours']['median']:.3g}",
        figures,
        flush=True,
    )
    return made


if __name__ == "__main__":
    sys.exit(main())
