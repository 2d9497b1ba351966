"""Families of locality-sensitive hashes: kernels that a table of counters can sum."""

from sfumato.sketch.lsh.angular import Angular
from sfumato.sketch.lsh.base import Family
from sfumato.sketch.lsh.combinators import Both, Either, Power, WeightedSum
from sfumato.sketch.lsh.euclidean import Euclidean
from sfumato.sketch.lsh.jaccard import Jaccard
from sfumato.sketch.lsh.metric_learning import separating, whitened

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
