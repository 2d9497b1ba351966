"""Mergeable summaries: small, streaming, one idea per file."""

from sfumato.sketch._base import Merging, Sketch, load
from sfumato.sketch._format import SketchFormatError
from sfumato.sketch.count_min import CountMin

__all__ = ["CountMin", "Merging", "Sketch", "SketchFormatError", "load"]
