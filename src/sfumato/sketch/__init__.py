"""Mergeable summaries: small, streaming, one idea per file."""

from sfumato.sketch._base import Merging, Sketch, load
from sfumato.sketch._format import SketchFormatError
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
    "ScalableBloomFilter",
    "Sketch",
    "SketchFormatError",
    "TensorSketch",
    "load",
]
