"""Recall of the ten nearest by codes of a few bytes, for several ways to make them.

    python benchmarks/code_limits.py    writes benchmarks/results/code_limits.json

A code is decoded to a vector, and the 300 nearest rows of each of 300 queries are ranked by their
products with the decoded ones; so neither cells nor short-lists lose anything here. "Exact along"
divides a decoded vector by its product with the vector itself: one more number a row.
Entropy-coded: principal coordinates rounded to multiples of the finest of 56 steps for which the
ideal code lengths (each coordinate by its own distribution) fit the bits; a bound, not a format.
"""

import faiss
import numpy as np
from _descriptors import descriptors
from _measure import write
from _vectors import glove, retained, unit

from sfumato.retrieve import learned
from sfumato.retrieve.binary.partition import CellPartition

QUERIES, NEAR, K, SAMPLE = 300, 300, 10, 100_000
STEP_BITS = 6  # to name one of the steps


class Task:
    """Rows near queries, a sample to learn from, and the centre of the cell of each."""

    def __init__(self, base, queries, cells):
        exact = faiss.IndexFlatIP(base.shape[1])
        exact.add(base)
        near = exact.search(queries, NEAR)[1]
        rows, at = np.unique(near, return_inverse=True)
        picks = np.random.default_rng(0).choice(len(base), min(SAMPLE, len(base)), replace=False)
        self.queries, self.at, self.rows = queries, at.reshape(near.shape), base[rows]
        self.sample = base[np.sort(picks)]
        partition = CellPartition.learn(
            self.sample, cells, len(base), unit=True, queries=np.asarray, seed=0
        )
        own = [partition.centres[partition.assign(each)] for each in (self.sample, self.rows)]
        self.found = []
        self.origins = {"vector": (0.0, 0.0), "residual in its cell": tuple(own)}

    def recall(self, decoded):
        """Fraction of the ten nearest that are among the first ten by decoded vectors."""
        scores = np.einsum("qd,qnd->qn", self.queries, decoded[self.at])
        return float((np.argsort(-scores, axis=1, kind="stable")[:, :K] < K).mean())

    def show(self, name, bits, decoded):
        error = float(np.square(decoded - self.rows).sum(axis=1).mean())
        exact = decoded / (decoded * self.rows).sum(axis=1, keepdims=True)
        both = self.recall(decoded), self.recall(exact)
        row = {"code": name, "bits": bits, "error": error}
        self.found.append({**row, "recall": both[0], "recall_exact_along": both[1]})
        print(f"| {name} | {bits} | {error:.5f} | {both[0]:.3f} | {both[1]:.3f} |", flush=True)


def by_learned(task, bits):
    encoder = learned(bits).fit(task.sample)
    task.show("learned, as it is", bits, encoder.reconstruct(encoder.encode(task.rows)))
    for name, (sampled, own) in task.origins.items():
        encoder = learned(bits, along=0.0).fit(task.sample - sampled)
        decoded = own + encoder.reconstruct(encoder.encode(task.rows - own))
        task.show(f"learned, along=0, of the {name}", bits, decoded)


def by_entropy(task, bits):
    for name, (sampled, own) in task.origins.items():
        decoded = own + entropy_coded(task.sample - sampled, task.rows - own, bits - STEP_BITS)
        task.show(f"entropy-coded, of the {name}", bits, decoded.astype(np.float32))


def entropy_coded(sample, rows, bits):
    """Rows rounded along principal axes, each by the finest step whose code fits the bits."""
    variances, axes = np.linalg.eigh(np.cov(sample.T))
    sample, rows = sample @ axes, rows @ axes
    out, left = np.zeros_like(rows), np.ones(len(rows), bool)
    for step in np.sqrt(12 * variances.mean()) * 2.0 ** (-np.arange(63, 7, -1) / 8):
        coded = np.rint(rows / step)
        fits = left & (code_lengths(np.rint(sample / step), coded) <= bits)
        out[fits], left = step * coded[fits], left & ~fits
        if not left.any():
            break
    return out @ axes.T


def code_lengths(sample, rows):
    """Sum of -log2 of the probabilities of integers, column by column as in the sample."""
    total = np.zeros(len(rows))
    for j in range(rows.shape[1]):
        low = int(sample[:, j].min()) - 2
        counts = np.bincount(sample[:, j].astype(int) - low, minlength=3).astype(float)
        counts = np.append(counts, [0, 0]) + 0.1
        at = np.clip(rows[:, j].astype(int) - low, 0, counts.size - 1)
        total -= np.log2(counts[at] / counts.sum())
    return total


def table(label, task, sizes):
    print(f"{label}\n\n| code | bits | mean squared error | 10@10 | with exact along |")
    print("|---|---|---|---|---|")
    for bits in sizes:
        by_learned(task, bits)
        by_entropy(task, bits)
    print(flush=True)
    return {"name": label, "rows": task.found}


def main():
    faiss.omp_set_num_threads(1)
    base = unit(descriptors(1_000_000, seed=1, folder=retained()))
    queries = unit(descriptors(1_000, seed=11, folder=retained()))[:QUERIES]
    task = Task(base, queries, 2048)
    tables = [table("SIFT-like, 1,000,000 x 128, 2,048 cells", task, (512, 544, 576))]
    words = glove()
    if words is not None:
        task = Task(words.base, words.reported[0][:QUERIES], 512)
        tables.append(table("GloVe, 94,000 x 50, 512 cells", task, (256, 320)))
    write("code_limits", {"tables": tables})


if __name__ == "__main__":
    main()
