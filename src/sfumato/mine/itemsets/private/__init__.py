"""Itemsets with exact noise: the mechanism and its release."""
