"""Kernels of similar documents."""
