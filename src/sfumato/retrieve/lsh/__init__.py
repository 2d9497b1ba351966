"""Nearest neighbours by locality-sensitive hash tables."""
