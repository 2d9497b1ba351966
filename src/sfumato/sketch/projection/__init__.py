"""Random projections: dense, fast, hashed and of tensor products."""
