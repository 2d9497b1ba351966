"""Sketches that compare sets or vectors: MinHash, signs, p-stable."""
