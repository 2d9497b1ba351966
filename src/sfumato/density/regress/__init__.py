"""Linear regression from noisy moments or from counts of angles."""
