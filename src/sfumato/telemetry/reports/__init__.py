"""Reports of clients: columns, files, counts and their validation."""

from sfumato.telemetry.reports.reports import Reports

__all__ = ["Reports"]
