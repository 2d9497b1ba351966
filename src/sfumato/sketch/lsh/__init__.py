"""Families of locality-sensitive hash functions, each defining the kernel that `Race` sums."""

from sfumato.core.deprecation import renamed
from sfumato.sketch.lsh.angular import Angular
from sfumato.sketch.lsh.base import Family
from sfumato.sketch.lsh.combinators import MixtureKernel, PowerKernel, ProductKernel, WeightedSum
from sfumato.sketch.lsh.euclidean import Euclidean
from sfumato.sketch.lsh.jaccard import Jaccard
from sfumato.sketch.lsh.metric_learning import separating, whitened

__all__ = [
    "Angular",
    "Euclidean",
    "Family",
    "Jaccard",
    "MixtureKernel",
    "PowerKernel",
    "ProductKernel",
    "WeightedSum",
    "separating",
    "whitened",
]

_RENAMED = {"Both": "ProductKernel", "Either": "MixtureKernel", "Power": "PowerKernel"}
__getattr__ = renamed(__name__, _RENAMED)
