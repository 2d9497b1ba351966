"""Items of a profile from its release."""
