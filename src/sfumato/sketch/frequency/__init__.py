"""Sketches of how often each key occurs."""
