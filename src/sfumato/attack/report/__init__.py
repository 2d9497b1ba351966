"""Audits as pages and pictures."""
