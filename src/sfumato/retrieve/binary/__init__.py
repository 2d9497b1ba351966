"""Nearest neighbours by scans of binary codes."""
