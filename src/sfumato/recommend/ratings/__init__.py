"""Models of ratings beside factorizations: means, neighbours, clusters, and blends of them."""
