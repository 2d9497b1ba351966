"""Families of locality-sensitive hashes: kernels that a table of counters can sum."""

from sfumato.sketch.lsh._family import Family
from sfumato.sketch.lsh.angular import Angular
from sfumato.sketch.lsh.composed import Both, Power
from sfumato.sketch.lsh.euclidean import Euclidean
from sfumato.sketch.lsh.jaccard import Jaccard
from sfumato.sketch.lsh.learned import separating, whitened
from sfumato.sketch.lsh.sums import Either, WeightedSum

__all__ = [
    "Angular",
    "Both",
    "Either",
    "Euclidean",
    "Family",
    "Jaccard",
    "Power",
    "WeightedSum",
    "separating",
    "whitened",
]
