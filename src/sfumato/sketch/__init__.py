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
from sfumato.sketch.min_hash import MinHash
from sfumato.sketch.p_stable import PStableSketch
from sfumato.sketch.released_ams import ReleasedAMS
from sfumato.sketch.released_bloom import ReleasedBloomFilter
from sfumato.sketch.released_cosine import ReleasedCosineSketch
from sfumato.sketch.released_count_min import ReleasedCountMin
from sfumato.sketch.released_count_sketch import ReleasedCountSketch
from sfumato.sketch.released_hyper_log_log import ReleasedHyperLogLog
from sfumato.sketch.released_min_hash import ReleasedMinHash
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
    "Merging",
    "MinHash",
    "PStableSketch",
    "Release",
    "ReleasedAMS",
    "ReleasedBloomFilter",
    "ReleasedCosineSketch",
    "ReleasedCountMin",
    "ReleasedCountSketch",
    "ReleasedHyperLogLog",
    "ReleasedMinHash",
    "ScalableBloomFilter",
    "Sketch",
    "SketchFormatError",
    "TensorSketch",
    "load",
]
