"""Likelihood models of released profiles given their items, one per mechanism."""
