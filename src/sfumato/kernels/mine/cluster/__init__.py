"""Kernels of clustering."""
