"""Models made of models: blends of ratings, and hybrids of content and collaborative filtering."""
