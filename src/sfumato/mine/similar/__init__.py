"""Similar items: shingles, signatures, bands, near-duplicate documents and similarity joins."""

from sfumato.mine.similar.banding import SCurve, choose_bands
from sfumato.mine.similar.deduplicator import Deduplicator
from sfumato.mine.similar.document_signatures import (
    explicit_signatures,
    linear_hashes,
    permutation_ranks,
    signatures,
)
from sfumato.mine.similar.duplicate_search import clusters, connected_components, near_duplicates
from sfumato.mine.similar.figure import plot_s_curve
from sfumato.mine.similar.joins import similarity_join
from sfumato.mine.similar.row_distances import distances
from sfumato.mine.similar.shingling import ShingleSets, shingles

__all__ = [
    "Deduplicator",
    "SCurve",
    "ShingleSets",
    "choose_bands",
    "clusters",
    "connected_components",
    "distances",
    "explicit_signatures",
    "linear_hashes",
    "near_duplicates",
    "permutation_ranks",
    "plot_s_curve",
    "shingles",
    "signatures",
    "similarity_join",
]
