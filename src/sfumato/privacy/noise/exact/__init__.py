"""Exact distributions of noise in integers: no float is used in this folder."""
