"""Mutual information: bounds from theory and estimates from samples."""
