"""Classification from noisy column tables or kernel sums."""
