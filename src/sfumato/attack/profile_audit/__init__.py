"""Audits of released profiles: what attackers recover, measured on true profiles."""
