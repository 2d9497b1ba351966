"""Mergeable summaries: small, streaming, one idea per file.

Each name is imported when it is first used.
"""

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.core.file_format import SketchFormatError
    from sfumato.core.storage import load
    from sfumato.privacy.release import Release
    from sfumato.sketch.base import Merging, Sketch
    from sfumato.sketch.bloom import BloomFilter, ReleasedBloomFilter
    from sfumato.sketch.bloom_variants import CountingBloomFilter, ScalableBloomFilter
    from sfumato.sketch.frequency.ams import AMS, ReleasedAMS
    from sfumato.sketch.frequency.count_min import CountMin, ReleasedCountMin
    from sfumato.sketch.frequency.count_sketch import CountSketch, ReleasedCountSketch
    from sfumato.sketch.frequency.lp_norm import LpSketch
    from sfumato.sketch.hyper_log_log import HyperLogLog, ReleasedHyperLogLog
    from sfumato.sketch.kernel_sums.fourier import KernelFourier, ReleasedKernelFourier
    from sfumato.sketch.kernel_sums.grid import KernelGrid, ReleasedKernelGrid
    from sfumato.sketch.kernel_sums.grid_adaptive import ReleasedAdaptiveGrid
    from sfumato.sketch.kernel_sums.moments import Moments, ReleasedMoments
    from sfumato.sketch.kernel_sums.race import Race, ReleasedRace
    from sfumato.sketch.kernel_sums.slices import KernelSlices, ReleasedKernelSlices
    from sfumato.sketch.projection.feature_hasher import FeatureHasher
    from sfumato.sketch.projection.johnson_lindenstrauss import JohnsonLindenstrauss
    from sfumato.sketch.projection.tensor_sketch import TensorSketch
    from sfumato.sketch.similarity.cosine import CosineSketch, ReleasedCosineSketch
    from sfumato.sketch.similarity.min_hash import MinHash
    from sfumato.sketch.similarity.p_stable import PStableSketch
    from sfumato.sketch.similarity.released_min_hash import ReleasedMinHash

__all__ = [
    "AMS",
    "BloomFilter",
    "CosineSketch",
    "CountMin",
    "CountSketch",
    "CountingBloomFilter",
    "FeatureHasher",
    "HyperLogLog",
    "JohnsonLindenstrauss",
    "KernelFourier",
    "KernelGrid",
    "KernelSlices",
    "LpSketch",
    "Merging",
    "MinHash",
    "Moments",
    "PStableSketch",
    "Race",
    "Release",
    "ReleasedAMS",
    "ReleasedAdaptiveGrid",
    "ReleasedBloomFilter",
    "ReleasedCosineSketch",
    "ReleasedCountMin",
    "ReleasedCountSketch",
    "ReleasedHyperLogLog",
    "ReleasedKernelFourier",
    "ReleasedKernelGrid",
    "ReleasedKernelSlices",
    "ReleasedMinHash",
    "ReleasedMoments",
    "ReleasedRace",
    "ScalableBloomFilter",
    "Sketch",
    "SketchFormatError",
    "TensorSketch",
    "load",
]

__getattr__ = on_demand(
    __name__,
    {
        "base": (
            "Merging",
            "Sketch",
        ),
        "bloom": (
            "BloomFilter",
            "ReleasedBloomFilter",
        ),
        "bloom_variants": (
            "CountingBloomFilter",
            "ScalableBloomFilter",
        ),
        "frequency.ams": (
            "AMS",
            "ReleasedAMS",
        ),
        "frequency.count_min": (
            "CountMin",
            "ReleasedCountMin",
        ),
        "frequency.count_sketch": (
            "CountSketch",
            "ReleasedCountSketch",
        ),
        "frequency.lp_norm": ("LpSketch",),
        "hyper_log_log": (
            "HyperLogLog",
            "ReleasedHyperLogLog",
        ),
        "kernel_sums.fourier": (
            "KernelFourier",
            "ReleasedKernelFourier",
        ),
        "kernel_sums.grid": (
            "KernelGrid",
            "ReleasedKernelGrid",
        ),
        "kernel_sums.grid_adaptive": ("ReleasedAdaptiveGrid",),
        "kernel_sums.moments": (
            "Moments",
            "ReleasedMoments",
        ),
        "kernel_sums.race": (
            "Race",
            "ReleasedRace",
        ),
        "kernel_sums.slices": (
            "KernelSlices",
            "ReleasedKernelSlices",
        ),
        "projection.feature_hasher": ("FeatureHasher",),
        "projection.johnson_lindenstrauss": ("JohnsonLindenstrauss",),
        "projection.tensor_sketch": ("TensorSketch",),
        "similarity.cosine": (
            "CosineSketch",
            "ReleasedCosineSketch",
        ),
        "similarity.min_hash": ("MinHash",),
        "similarity.p_stable": ("PStableSketch",),
        "similarity.released_min_hash": ("ReleasedMinHash",),
        "sfumato.core.file_format": ("SketchFormatError",),
        "sfumato.core.storage": ("load",),
        "sfumato.privacy.release": ("Release",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
