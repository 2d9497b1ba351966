"""Decoders that reconstruct profiles from releases."""
