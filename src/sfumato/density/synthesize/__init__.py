"""Synthetic tables from noisy marginals: public columns, smoothing, the release and its sampler."""
