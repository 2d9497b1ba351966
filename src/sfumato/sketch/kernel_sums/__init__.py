"""Sketches whose answers are sums of kernels: densities of points."""
