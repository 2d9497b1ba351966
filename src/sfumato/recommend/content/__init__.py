"""Recommenders that use features of items and attributes of users."""
