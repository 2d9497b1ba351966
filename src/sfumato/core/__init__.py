"""What every room stands on: validation, ids, keys and hashes, bounds, files."""
