"""CURE: clusters of any shape by representatives."""
