"""The log of a search: one JSON line a trial, so that an interrupted search goes on where it was.

The first line says what defines the search. A last line that was cut off is dropped; a log of
another search is refused and left alone. It holds errors on raw data: it is the curator's.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["TrialLog", "search_header"]

VERSION = 1


def search_header(
    model: Any, lines: Mapping[str, Sequence[float]], fine: int, train: Any, valid: Any
) -> dict[str, Any]:
    """What defines a search: the model, what stays fixed, the grids, and checksums of the data."""
    told = model.get_params() if hasattr(model, "get_params") else {}
    return {
        "log": "sfumato tune",
        "version": VERSION,
        "model": type(model).__name__,
        "fixed": {name: _plain(value) for name, value in told.items() if name not in lines},
        "start": {name: _plain(told.get(name)) for name in lines},
        "grids": {name: list(line) for name, line in lines.items()},
        "fine": fine,
        "train": _checksum(train),
        "valid": _checksum(valid),
    }


class TrialLog:
    """A file of trials that belong to one search."""

    def __init__(self, path: str | os.PathLike[str], header: dict[str, Any]) -> None:
        self.path = Path(path)
        self._found: dict[str, dict[str, Any]] = {}
        first = json.dumps(header, sort_keys=True).encode() + b"\n"
        data = self.path.read_bytes() if self.path.exists() else b""
        if first.startswith(data):  # nothing, or a first line that was cut off or is all there is
            self.path.write_bytes(first)
            return
        self._check_header(data, header)
        whole_lines = data[: data.rfind(b"\n") + 1]
        if len(whole_lines) < len(data):
            with open(self.path, "r+b") as file:
                file.truncate(len(whole_lines))
        for number, line in enumerate(whole_lines.splitlines()[1:], start=2):
            self._read(number, line)

    def found(self, parameters: Mapping[str, float]) -> dict[str, Any] | None:
        """The error and the seconds of a trial that was done before, or None."""
        return self._found.get(_key(parameters))

    def append(
        self, stage: int, parameters: Mapping[str, float], rmse: float, seconds: float
    ) -> None:
        """Keep a trial; it is on the disk when this returns."""
        told = None if math.isinf(rmse) else rmse
        trial = dict(stage=stage, parameters=dict(parameters), rmse=told, seconds=seconds)
        with open(self.path, "ab") as file:
            file.write(json.dumps(trial, allow_nan=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _check_header(self, data: bytes, header: dict[str, Any]) -> None:
        try:
            there = json.loads(data.split(b"\n", 1)[0])
            known = there["log"] == header["log"]
        except (ValueError, TypeError, KeyError):
            known = False
        if not known:
            raise ValueError(f"tune: {self.path.name} is no log of a search; name another file.")
        for name, value in json.loads(json.dumps(header)).items():
            if there.get(name) != value:
                raise ValueError(
                    f"tune: {self.path.name} is the log of another search, of another {name}; name "
                    "another file, or remove it to begin anew."
                )

    def _read(self, number: int, line: bytes) -> None:
        try:
            told = json.loads(line)
            rmse = math.inf if told["rmse"] is None else float(told["rmse"])
            trial = {"rmse": rmse, "seconds": float(told["seconds"])}
            self._found[_key(told["parameters"])] = trial
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(
                f"tune: line {number} of {self.path.name} is damaged; remove the line to do its "
                "trial again."
            ) from None


def _key(parameters: Mapping[str, float]) -> str:
    return json.dumps(dict(parameters), sort_keys=True)


def _plain(value: Any) -> Any:
    """A value as JSON has it, or its text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, bool | int | float | str | None) else repr(value)


def _checksum(rows: Any) -> str:
    """Of users, items and ratings, in their order."""
    digest = hashlib.blake2b(digest_size=16)
    for column in (*rows.hashed(0), rows.ratings):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
