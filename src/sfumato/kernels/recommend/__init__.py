"""Compiled loops of recommenders."""
