"""Streams of baskets in one pass: frequent items and pairs, and what is popular now."""
