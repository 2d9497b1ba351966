"""Vectors to binary codes: random, optimised and learned."""
