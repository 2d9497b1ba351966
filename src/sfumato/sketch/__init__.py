"""Mergeable summaries: small, streaming, one idea per file."""

from sfumato.sketch._base import Merging, Sketch, load
from sfumato.sketch._format import SketchFormatError
from sfumato.sketch.ams import AMS
from sfumato.sketch.bloom import BloomFilter
from sfumato.sketch.count_min import CountMin
from sfumato.sketch.count_sketch import CountSketch
from sfumato.sketch.counting_bloom import CountingBloomFilter
from sfumato.sketch.hyper_log_log import HyperLogLog
from sfumato.sketch.scalable_bloom import ScalableBloomFilter

__all__ = [
    "AMS",
    "BloomFilter",
    "CountMin",
    "CountSketch",
    "CountingBloomFilter",
    "HyperLogLog",
    "Merging",
    "ScalableBloomFilter",
    "Sketch",
    "SketchFormatError",
    "load",
]
