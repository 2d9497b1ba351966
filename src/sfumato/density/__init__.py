"""Densities from sketches: estimators over kernel sums, private when epsilon is given.

Each name is imported when it is first used, and scikit-learn with it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from sfumato.core.deprecation import renamed

if TYPE_CHECKING:
    from sfumato.density.anomaly import SketchAnomalyDetector
    from sfumato.density.classify.classifier import SketchClassifier
    from sfumato.density.combined import CombinedRelease, combine
    from sfumato.density.evaluation_grid import grid_values
    from sfumato.density.graph import NodeDensity, neighbourhoods
    from sfumato.density.kde import SketchDensity, SketchSampler
    from sfumato.density.modes import find_modes
    from sfumato.density.noise_shares import NoiseSharing, NoisyShare, sum_shares
    from sfumato.density.pairwise_masks import MaskingParty, PairwiseMasks, SecretShares, unmask
    from sfumato.density.regress.regressor import SketchRegressor
    from sfumato.density.serialization import load

_HOMES = {
    "CombinedRelease": "combined",
    "MaskingParty": "pairwise_masks",
    "NodeDensity": "graph",
    "NoisyShare": "noise_shares",
    "PairwiseMasks": "pairwise_masks",
    "SecretShares": "pairwise_masks",
    "NoiseSharing": "noise_shares",
    "SketchAnomalyDetector": "anomaly",
    "SketchClassifier": "classify.classifier",
    "SketchDensity": "kde",
    "SketchRegressor": "regress.regressor",
    "SketchSampler": "kde",
    "combine": "combined",
    "find_modes": "modes",
    "grid_values": "evaluation_grid",
    "load": "serialization",
    "neighbourhoods": "graph",
    "sum_shares": "noise_shares",
    "unmask": "pairwise_masks",
}

__all__ = [
    "CombinedRelease",
    "MaskingParty",
    "NodeDensity",
    "NoiseSharing",
    "NoisyShare",
    "PairwiseMasks",
    "SecretShares",
    "SketchAnomalyDetector",
    "SketchClassifier",
    "SketchDensity",
    "SketchRegressor",
    "SketchSampler",
    "combine",
    "find_modes",
    "grid_values",
    "load",
    "neighbourhoods",
    "sum_shares",
    "unmask",
]


def _fetched(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"sfumato.density.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sfumato.density' has no attribute {name!r}")


_RENAMED = {"Combined": "CombinedRelease", "Sharing": "NoiseSharing"}
__getattr__ = renamed(__name__, _RENAMED, _fetched)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
