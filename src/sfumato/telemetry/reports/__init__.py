"""Reports of clients: columns, files, counts and their checks."""

from sfumato.telemetry.reports.reports import Reports

__all__ = ["Reports"]
