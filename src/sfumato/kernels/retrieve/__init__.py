"""Compiled loops of retrieval."""
