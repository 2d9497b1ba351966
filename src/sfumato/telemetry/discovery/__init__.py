"""Discovery of frequent strings without a dictionary."""
