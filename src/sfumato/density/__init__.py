"""Densities from sketches: estimators over kernel sums, private when epsilon is given.

Each name is imported when it is first used, and scikit-learn with it.
"""

import importlib
from typing import Any

_HOMES = {
    "Combined": "parties",
    "MaskingParty": "masks",
    "NodeDensity": "graph",
    "NoisyShare": "_noisy_share",
    "PairwiseMasks": "masks",
    "SecretShares": "masks",
    "Sharing": "shares",
    "SketchAnomalyDetector": "anomaly",
    "SketchClassifier": "classifier",
    "SketchDensity": "density",
    "SketchRegressor": "regressor",
    "SketchSampler": "sampler",
    "combine": "parties",
    "find_modes": "modes",
    "grid_values": "_heat_map",
    "load": "_files",
    "neighbourhoods": "_neighbours",
    "sum_shares": "shares",
    "unmask": "masks",
}

__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"sfumato.density.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sfumato.density' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
