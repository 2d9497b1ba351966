"""Hierarchical clustering under any metric."""
