"""Audits of mechanisms: lower bounds on epsilon from samples of their output."""
