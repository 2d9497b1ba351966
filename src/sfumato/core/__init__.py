"""Shared foundations: validation, ids, keys and hashes, bounds, files."""
