"""Compiled loops of telemetry."""
