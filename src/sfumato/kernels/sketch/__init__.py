"""Compiled loops of sketches."""
