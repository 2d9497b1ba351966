"""Sketches of points that answer kernel sums (densities) and sums of products."""
