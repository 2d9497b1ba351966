"""Strings that no list of candidates holds: found by n-grams or by prefixes."""
