"""Strings nobody listed: discovery by prefixes and by n-grams at equal epsilon and clients.

    python benchmarks/discovery.py            writes benchmarks/results/discovery.json
    python benchmarks/discovery.py table      prints the table of docs/telemetry.md from it

Every client has one of 1,000 strings, the k-th with a share proportional to 1 / k. "Words" are
random letters, with less than the whole length in a third of them; "hosts" share their first half
("mailho"), which no group of prefixes learns anything from. Three seeds choose strings,
clients and noise. Recall is that of the 20 most frequent strings; false is the part of all strings
found that no client has. Two things to hold against: a server that knows the dictionary and
decodes whole strings at the same epsilon, and one that finds nothing, whose recall is 0.
"""

import json
import sys
import time

import numpy as np
from _measure import RESULTS, write
from _ngram_discovery import NGramDiscovery
from _ratings import spread

from sfumato.telemetry import Counts, LocalHashing, PrefixDiscovery, ReportEncoder, decode

SEEDS = range(3)
LETTERS = "abcdefghijklmnop"
STRINGS, WANTED = 1000, 20
CASES = [
    # kind, length, clients, epsilon
    ("words", 4, 30_000, 4.0),
    ("words", 6, 30_000, 4.0),
    ("words", 6, 100_000, 2.0),
    ("words", 6, 100_000, 4.0),
    ("words", 12, 100_000, 4.0),
    ("hosts", 12, 100_000, 4.0),
]


def strings(kind, length, drawn):
    """Different strings, in random order."""
    found = set()
    while len(found) < STRINGS:
        size = length if kind == "hosts" or drawn.random() < 2 / 3 else length - 1
        text = "".join(drawn.choice(list(LETTERS), size))
        found.add(
            "mailhomednshome"[: length // 2] + text[length // 2 :] if kind == "hosts" else text
        )
    return drawn.permutation(sorted(found))


def known(length, epsilon):
    """Decoding by a server that was given all strings, as (encode, find)."""
    scheme = LocalHashing(epsilon, 64)

    def find(reports, among):
        result = decode(Counts(scheme).update(reports), among)
        return [each for each, held in zip(result.value, result.detected, strict=True) if held]

    return lambda values, seed: ReportEncoder(scheme, seed=seed).encode_many(values), find


def unknown(make, **options):
    """Discovery without a dictionary, as (encode, find)."""

    def of(length, epsilon):
        own = {name: choose(length) for name, choose in options.items()}
        method = make(epsilon=epsilon, length=length, alphabet=LETTERS, **own)
        return (
            lambda values, seed: method.encode_many(values, seed=seed),
            lambda reports, among: method.find(reports).value,
        )

    return of


METHODS = {
    "known dictionary": known,
    "prefixes": unknown(PrefixDiscovery),
    "n-grams of 2": unknown(NGramDiscovery),
    "n-grams, longest": unknown(NGramDiscovery, ngram=lambda length: 3 if length % 3 == 0 else 2),
}


def measured(method, kind, length, clients, epsilon):
    """Recall, false strings, how many were found, and the server's processor seconds."""
    runs = {"recall": [], "false": [], "found": [], "seconds": []}
    for seed in SEEDS:
        drawn = np.random.default_rng(seed)
        among = strings(kind, length, drawn)
        share = 1 / np.arange(1, STRINGS + 1)
        values = drawn.choice(among, clients, p=share / share.sum())
        encode, find = METHODS[method](length, epsilon)
        reports = encode(values.tolist(), seed)
        start = time.process_time()
        found = set(find(reports, among.tolist()))
        runs["seconds"].append(time.process_time() - start)
        runs["recall"].append(len(found & set(among[:WANTED].tolist())) / WANTED)
        runs["false"].append(len(found - set(values.tolist())) / max(len(found), 1))
        runs["found"].append(len(found))
    return {name: spread(each) for name, each in runs.items()}


def page():
    """The table of docs/telemetry.md."""
    rows = json.loads((RESULTS / "discovery.json").read_text())["rows"]
    names = list(METHODS)
    lines = [
        "| strings | length | clients | epsilon | "
        + " | ".join(f"{name}: recall (found, false)" for name in names)
        + " | seconds of these |",
        "|" + "---|" * (5 + len(names)),
    ]
    for row in rows:
        cells = [row["strings"], str(row["length"]), f"{row['clients']:,}", f"{row['epsilon']:g}"]
        for name in names:
            figures = {key: each["mean"] for key, each in row["methods"][name].items()}
            cells.append(
                f"{figures['recall']:.2f} ({figures['found']:.0f}, {figures['false']:.0%})"
            )
        seconds = (row["methods"][name]["seconds"]["mean"] for name in names)
        cells.append(", ".join(f"{each:.1f}" for each in seconds))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    rows = []
    for kind, length, clients, epsilon in CASES:
        row = {"strings": kind, "length": length, "clients": clients, "epsilon": epsilon}
        row["methods"] = {
            method: measured(method, kind, length, clients, epsilon) for method in METHODS
        }
        rows.append(row)
        print(kind, length, clients, epsilon, end=" ")
        for method, figures in row["methods"].items():
            result = {name: round(each["mean"], 3) for name, each in figures.items()}
            print(method, result, end=" ", flush=True)
        print(flush=True)
    write("discovery", {"seeds": len(SEEDS), "wanted": WANTED, "rows": rows})


if __name__ == "__main__":
    print(page(), end="") if sys.argv[1:] == ["table"] else main()
