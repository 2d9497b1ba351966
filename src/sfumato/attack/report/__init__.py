"""Figures and HTML pages of audits."""
