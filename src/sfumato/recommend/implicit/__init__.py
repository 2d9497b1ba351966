"""Recommenders from implicit feedback: who used which item, without ratings."""
