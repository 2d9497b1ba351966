"""The codes of the recall table: faiss' as its users make them, ours through BinaryIndex."""

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from _vectors import NEAREST, exact, recalls

from sfumato.retrieve import BinaryIndex, anti_sparse, learned, project_and_sign, qolsh, tight_frame

SAMPLE = 100_000  # rows that codebooks are learned from, theirs and ours
TRIED = (10, 20, 30, 50, 100, 256)  # flips
SHORTLIST = 1_000


@dataclass(frozen=True)
class Peer:
    """A faiss index and the bytes of one vector in it."""

    index: Any
    nbytes: int

    def search(self, queries):
        return self.index.search(queries, NEAREST)[1]


@dataclass(frozen=True)
class Ours:
    """A BinaryIndex and how it is queried."""

    index: BinaryIndex
    options: dict[str, Any]

    @property
    def nbytes(self):
        return self.index.nbytes_per_vector

    def search(self, queries):
        return self.index.search(queries, NEAREST, shortlist=SHORTLIST, **self.options)[1]


def faiss_made(index, data, nbytes):
    sample = data.base[np.random.default_rng(0).permutation(len(data.base))[:SAMPLE]]
    index.train(sample)
    index.add(data.base)
    return Peer(index, nbytes)


def whole_parts(index, dimension, parts):
    """An index of more dimensions after a random rotation, where a split would not come out."""
    if dimension % parts == 0:
        return index(dimension)
    wide = -(-dimension // parts) * parts
    return faiss.IndexPreTransform(faiss.RandomRotationMatrix(dimension, wide), index(wide))


def lsh(data, picks):
    return faiss_made(faiss.IndexLSH(data.base.shape[1], 256), data, 32)


def rabitq(data, picks):
    """One bit a dimension after a random rotation to 256 of them: 32 bytes and two factors."""
    turned = faiss.IndexRaBitQ(256)
    rotation = faiss.RandomRotationMatrix(data.base.shape[1], 256)
    return faiss_made(faiss.IndexPreTransform(rotation, turned), data, turned.code_size)


def rabitq_more(bits):
    def make(data, picks):
        dimension = data.base.shape[1]
        turned = faiss.IndexRaBitQ(dimension, faiss.METRIC_L2, bits)
        rotation = faiss.RandomRotationMatrix(dimension, dimension)
        return faiss_made(faiss.IndexPreTransform(rotation, turned), data, turned.code_size)

    return make


def pq32x8(data, picks):
    made = whole_parts(lambda d: faiss.IndexPQ(d, 32, 8), data.base.shape[1], 32)
    return faiss_made(made, data, 32)


def opq32x8(data, picks):
    width = data.base.shape[1]
    wide = -(-width // 32) * 32
    turned = faiss.OPQMatrix(width, 32, wide)
    turned.niter = 20
    return faiss_made(faiss.IndexPreTransform(turned, faiss.IndexPQ(wide, 32, 8)), data, 32)


def pq64x4(data, picks):
    made = whole_parts(lambda d: faiss.IndexPQFastScan(d, 64, 4), data.base.shape[1], 64)
    return faiss_made(made, data, 32)


def components(data, picks):
    """The trivial baseline: eight principal components as they are."""
    flat = faiss.IndexPreTransform(faiss.PCAMatrix(data.base.shape[1], 8), faiss.IndexFlatL2(8))
    return faiss_made(flat, data, 32)


PEERS = {
    "8 principal components (trivial)": components,
    "faiss LSH, 256 bits": lsh,
    "faiss RaBitQ, 1 bit of 256 turned dimensions": rabitq,
    "faiss RaBitQ, 2 bits a dimension": rabitq_more(2),
    "faiss PQ32x8": pq32x8,
    "faiss OPQ32x8": opq32x8,
    "faiss PQ64x4fs": pq64x4,
}
HAMMING = dict(scan="hamming", rerank="asymmetric")
SCANNED = dict(scan="asymmetric", rerank="asymmetric")


def filled(data, encoder, options, keep_vectors=False, metric="cosine"):
    index = BinaryIndex(
        bits=encoder.bits, encoder=encoder, keep_vectors=keep_vectors, metric=metric
    )
    index.fit(data.base[np.random.default_rng(0).permutation(len(data.base))[:SAMPLE]])
    index.add(np.arange(len(data.base)), data.base)
    return Ours(index, options)


def ours(make, options, **more):
    return lambda data, picks: filled(data, make(picks), options, **more)


def past(flips, factor="nearest", **more):
    return qolsh(bits=256, flips=flips, center=True, factor=factor, **more)


def chosen(data):
    """How many flips, by R@1 of the queries to choose on, among a part of the base."""
    part = data.base[:200_000]
    queries, _ = data.choosing
    truth = exact(part, queries)
    tried = {}
    for flips in TRIED:
        index = BinaryIndex(bits=256, encoder=past(flips))
        index.add(np.arange(len(part)), part)
        found = Ours(index, SCANNED).search(queries)
        tried[flips] = recalls(found, truth)["R@1"]
        print(f"  chosen on other queries: {flips} flips, R@1 {tried[flips]:.3f}", flush=True)
    return {"flips": max(tried, key=tried.get), "tried": tried}


def orthogonal(data, picks):
    """As many bits as dimensions: more directions cannot be orthogonal."""
    encoder = project_and_sign(bits=data.base.shape[1], directions="orthogonal")
    return filled(data, encoder, HAMMING)


def spread(data, picks):
    """Milliseconds a vector at 128 dimensions, so only for the smaller set."""
    if len(data.base) > 200_000:
        return None
    return filled(data, anti_sparse(bits=256), HAMMING)


OURS = {
    "random directions": ours(lambda p: project_and_sign(bits=256), HAMMING),
    "orthogonal directions, a bit a dimension": orthogonal,
    "super-bit": ours(lambda p: project_and_sign(bits=256, directions="super-bit"), HAMMING),
    "tight frame": ours(lambda p: tight_frame(bits=256), HAMMING),
    "anti-sparse": spread,
    "qoLSH as published, 10 flips": ours(lambda p: qolsh(bits=256, flips=10), HAMMING),
    "qoLSH as published, scanned": ours(lambda p: qolsh(bits=256, flips=10), SCANNED),
    "qoLSH, unbiased factor": ours(
        lambda p: qolsh(bits=256, flips=p["flips"], factor="unbiased"), SCANNED
    ),
    "qoLSH, centre and unbiased factor": ours(lambda p: past(p["flips"], "unbiased"), SCANNED),
    "qoLSH, centre and factor": ours(lambda p: past(p["flips"]), SCANNED),
    "qoLSH, centre and factor, Hamming short-list": ours(lambda p: past(p["flips"]), HAMMING),
    "the same, sign bits for the short-list": ours(lambda p: past(p["flips"], short=True), HAMMING),
    "the same, pairs of flips": ours(lambda p: past(p["flips"], together=2), SCANNED),
    "learned, 256 bits, ranked by products (before)": ours(
        lambda p: learned(bits=256), SCANNED, metric="inner"
    ),
    "learned, 192 bits": ours(lambda p: learned(bits=192), SCANNED),
    "learned, 256 bits": ours(lambda p: learned(bits=256), SCANNED),
    "learned, 320 bits": ours(lambda p: learned(bits=320), SCANNED),
    "tight frame, Hamming, 1000 ranked exactly": ours(
        lambda p: tight_frame(bits=256, center=True),
        dict(scan="hamming", rerank="exact"),
        keep_vectors=True,
    ),
    "learned, 320 bits, 1000 ranked exactly": ours(
        lambda p: learned(bits=320), dict(scan="asymmetric", rerank="exact"), keep_vectors=True
    ),
}
