"""Candidates for neighbours: rows that share a bucket of hash tables, before exact comparison."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sfumato.retrieve.lsh.buckets import Buckets, band_keys
from sfumato.sketch.similarity.min_hash import MinHash

if TYPE_CHECKING:
    from sfumato.recommend.neighbours.similarity import RatingVectors

__all__ = ["hashed_candidates"]

SETS = 64, 2  # bands and hashes of each, of sets of columns; two sets agree as often as they equal
SIDES = 32, 8  # bands and hyperplanes of each
ROWS = 8192  # rows that are projected at a time


def hashed_candidates(
    vectors: "RatingVectors", seed: int, block: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield blocks: rows, and starts and candidates of each, which include the row itself.

    MinHash of the sets of columns for Jaccard; for all other metrics the sides of random
    hyperplanes on which the rows of values lie.
    """
    if vectors.rule.metric == "jaccard":
        bands, hashes = SETS
        signatures = MinHash(bands * hashes, seed=seed).signatures(
            vectors.positions, vectors.starts
        )
        keys = band_keys(signatures, bands, seed=seed)
    else:
        keys = _sides(vectors, seed)
    buckets = Buckets(keys.shape[1]).add(keys)
    for first in range(0, len(vectors), block):
        rows = np.arange(first, min(first + block, len(vectors)))
        yield rows, *buckets.rows_of(keys[rows])


def _sides(vectors: "RatingVectors", seed: int) -> np.ndarray:
    """One key per row and band: the sides of its hyperplanes as bits."""
    bands, hashes = SIDES
    generator = np.random.default_rng(seed)
    normals = generator.standard_normal((vectors.columns, bands * hashes), np.float32)
    keys = np.empty((len(vectors), bands), np.uint64)
    bits = np.uint64(1) << np.arange(hashes, dtype=np.uint64)
    shape = len(vectors), vectors.columns
    rows = sp.csr_matrix((vectors.values, vectors.positions, vectors.starts), shape)
    for first in range(0, len(vectors), ROWS):
        sides = (rows[first : first + ROWS] @ normals >= 0).reshape(-1, bands, hashes)
        keys[first : first + ROWS] = (sides * bits).sum(axis=2, dtype=np.uint64)
    return keys
