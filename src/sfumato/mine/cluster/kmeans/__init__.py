"""k-means: starts, iterations, the elbow, pictures."""
