"""Graphs: rows of neighbours, edge lists, generated ones."""
