"""Classes by noisy column tables or kernel sums."""
