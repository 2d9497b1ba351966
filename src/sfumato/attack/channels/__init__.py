"""Likelihoods of a released profile given its items."""
