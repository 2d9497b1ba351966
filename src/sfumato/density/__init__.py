"""Densities from sketches: estimators over kernel sums, private when epsilon is given.

Each name is imported when it is first used, and scikit-learn with it.
"""

from sfumato.core.deprecation import on_demand, renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.density.adjacency_lists import neighbourhoods
    from sfumato.density.anomaly import SketchAnomalyDetector
    from sfumato.density.classify.classifier import SketchClassifier
    from sfumato.density.combined import CombinedRelease, combine
    from sfumato.density.evaluation_grid import grid_values
    from sfumato.density.graph import NodeDensity
    from sfumato.density.kde import SketchDensity, SketchSampler
    from sfumato.density.kernel_features import KernelFeatures
    from sfumato.density.modes import find_modes
    from sfumato.density.noise_shares import NoiseSharing, NoisyShare, sum_shares
    from sfumato.density.pairwise_masks import MaskingParty, PairwiseMasks, SecretShares, unmask
    from sfumato.density.regress.regressor import SketchRegressor
    from sfumato.density.serialization import load
    from sfumato.density.synthesize.sampler import PrivateTableSampler

__all__ = [
    "CombinedRelease",
    "KernelFeatures",
    "MaskingParty",
    "NodeDensity",
    "NoiseSharing",
    "NoisyShare",
    "PairwiseMasks",
    "PrivateTableSampler",
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


_FETCHED = on_demand(
    __name__,
    {
        "adjacency_lists": ("neighbourhoods",),
        "anomaly": ("SketchAnomalyDetector",),
        "classify.classifier": ("SketchClassifier",),
        "combined": ("CombinedRelease", "combine"),
        "evaluation_grid": ("grid_values",),
        "graph": ("NodeDensity",),
        "kde": ("SketchDensity", "SketchSampler"),
        "kernel_features": ("KernelFeatures",),
        "modes": ("find_modes",),
        "noise_shares": ("NoiseSharing", "NoisyShare", "sum_shares"),
        "pairwise_masks": ("MaskingParty", "PairwiseMasks", "SecretShares", "unmask"),
        "regress.regressor": ("SketchRegressor",),
        "serialization": ("load",),
        "synthesize.sampler": ("PrivateTableSampler",),
    },
)
_RENAMED = {"Combined": "CombinedRelease", "Sharing": "NoiseSharing"}
__getattr__ = renamed(__name__, _RENAMED, _FETCHED)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
