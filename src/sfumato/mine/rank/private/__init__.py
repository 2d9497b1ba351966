"""Releases about graphs with exact noise: the degrees of nodes."""
