"""Clusters with differential privacy."""
