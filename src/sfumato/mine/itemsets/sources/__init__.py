"""Baskets in memory and on disk."""
