"""Mergeable summaries: small, streaming, one idea per file."""

from sfumato.sketch._base import Merging, Sketch, load
from sfumato.sketch._format import SketchFormatError
from sfumato.sketch._release import Release
from sfumato.sketch.ams import AMS
from sfumato.sketch.bloom import BloomFilter
from sfumato.sketch.cosine import CosineSketch
from sfumato.sketch.count_min import CountMin
from sfumato.sketch.count_sketch import CountSketch
from sfumato.sketch.counting_bloom import CountingBloomFilter
from sfumato.sketch.feature_hasher import FeatureHasher
from sfumato.sketch.hyper_log_log import HyperLogLog
from sfumato.sketch.johnson_lindenstrauss import JohnsonLindenstrauss
from sfumato.sketch.kernel_fourier import KernelFourier
from sfumato.sketch.kernel_grid import KernelGrid
from sfumato.sketch.kernel_slices import KernelSlices
from sfumato.sketch.min_hash import MinHash
from sfumato.sketch.moments import Moments
from sfumato.sketch.p_stable import PStableSketch
from sfumato.sketch.race import Race
from sfumato.sketch.released_ams import ReleasedAMS
from sfumato.sketch.released_bloom import ReleasedBloomFilter
from sfumato.sketch.released_cosine import ReleasedCosineSketch
from sfumato.sketch.released_count_min import ReleasedCountMin
from sfumato.sketch.released_count_sketch import ReleasedCountSketch
from sfumato.sketch.released_hyper_log_log import ReleasedHyperLogLog
from sfumato.sketch.released_kernel_fourier import ReleasedKernelFourier
from sfumato.sketch.released_kernel_grid import ReleasedKernelGrid
from sfumato.sketch.released_kernel_slices import ReleasedKernelSlices
from sfumato.sketch.released_min_hash import ReleasedMinHash
from sfumato.sketch.released_moments import ReleasedMoments
from sfumato.sketch.released_race import ReleasedRace
from sfumato.sketch.scalable_bloom import ScalableBloomFilter
from sfumato.sketch.tensor import TensorSketch

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
    "Merging",
    "MinHash",
    "Moments",
    "PStableSketch",
    "Race",
    "Release",
    "ReleasedAMS",
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
