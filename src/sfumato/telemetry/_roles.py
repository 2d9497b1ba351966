"""What each client of a group does: a number that its secret decides and its value does not."""

from typing import Any

import numpy as np

from sfumato.privacy import noise
from sfumato.privacy._source import InsecureSeededSource
from sfumato.telemetry._permanent import ClientKeys

__all__ = ["roles"]


def roles(line: str, limit: int, rows: int, secrets: Any, seed: int | None) -> np.ndarray:
    """A uniform number below the limit for every client.

    With secrets it is a function of secret and line, so the same for ever; else it is drawn, from
    the seed in tests.
    """
    if secrets is None:
        source = None if seed is None else InsecureSeededSource(seed)
        return noise.uniform(limit, rows, source=source)
    if getattr(secrets, "dtype", None) != np.uint8 or secrets.ndim != 2 or len(secrets) != rows:
        raise ValueError(f"secrets must be a uint8 array of {rows} rows, one a client.")
    return ClientKeys(np.ascontiguousarray(secrets), "sfumato/telemetry/1/" + line).cohorts(limit)
