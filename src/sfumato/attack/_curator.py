"""What every audit of raw data shares: whom it is for, and how its files are written."""

import os
from pathlib import Path

__all__ = ["AUDIENCE", "write"]

AUDIENCE = "for the curator; not a release"


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file, whole or not at all."""
    from sfumato.sketch._format import write_whole  # a large room, for those who write files

    write_whole(Path(path), data)
