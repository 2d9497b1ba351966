"""What stands before every route: keys and origins, limits, and errors without data."""
