"""Structured logs: a line of JSON per record, of fields that contain no personal data or key."""

import json
import logging
import sys
import time
import traceback
from typing import Any

__all__ = ["LEVELS", "JsonLines", "configure", "log"]

LEVELS = ("debug", "info", "warning", "error")
_logger = logging.getLogger("sfumato.serve")


class JsonLines(logging.Formatter):
    """Format a record as one line of JSON: time, level, event and the fields given.

    Of an exception the line has its class and where it was raised; its message may quote data and
    is left out, and so are messages of other packages.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name.startswith("sfumato") else record.name,
        }
        fields |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])[-4:]
            fields["at"] = [f"{each.name}:{each.lineno}" for each in frames]
        return json.dumps(fields)


def configure(level: str, stream: Any = None) -> None:
    """Write the service's records, and nothing else, to stderr."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    _logger.handlers[:] = [handler]
    _logger.propagate = False
    _logger.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio"):
        other = logging.getLogger(name)
        other.handlers[:], other.propagate = [], False
        other.setLevel(logging.CRITICAL)


def log(level: str, event: str, *, error: BaseException | None = None, **fields: Any) -> None:
    """Log an event of the service."""
    number = logging.getLevelNamesMapping()[level.upper()]
    if _logger.isEnabledFor(number):
        _logger.log(number, event, extra={"fields": fields}, exc_info=error)
