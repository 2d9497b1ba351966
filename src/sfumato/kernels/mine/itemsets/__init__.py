"""Kernels of frequent itemsets."""
