"""Checkpoints of training in rounds: one file, replaced after each round, from which it goes on."""

import hashlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.core.file_format import write_atomic
from sfumato.errors import ParameterError

__all__ = ["Checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """File with the table after the last round, so that training goes on after a failure.

    `purpose` names data and parameters; a file of another purpose is refused. `groups` is stored
    for a call that leaves it to the engine, of which the next one may have more cores.
    """

    owner: str
    path: Path | None
    purpose: str
    groups: int | None = None

    @classmethod
    def of(cls, owner: str, path: Any, *purpose: Any) -> "Checkpoint":
        """Return the checkpoint of a training, whose parameters and data the purpose tells."""
        text = json.dumps(purpose, sort_keys=True, default=str)
        name = None if path is None else Path(os.fspath(path))
        return cls(owner, name, hashlib.sha256(text.encode()).hexdigest())

    @staticmethod
    def stored_groups(path: Any) -> int | None:
        """Return the groups of a training in a file; None without a file that can be read."""
        try:
            with np.load(os.fspath(path), allow_pickle=False) as file:
                return int(json.loads(file["state"].tobytes())["groups"])
        except Exception:  # no file, or damage, which `load` reports
            return None

    @staticmethod
    def check_seed(owner: str, path: Any, random_state: Any) -> None:
        """Raise ValueError for a checkpoint of a training that no seed repeats."""
        if path is not None and not isinstance(random_state, int):
            wanted = "must be an integer for a checkpoint, by which training goes on."
            raise ParameterError.of(owner, "random_state", wanted)

    def save(self, table: np.ndarray, rounds: int, errors: list[Any]) -> None:
        """Replace the file, atomically; nothing without a path."""
        if self.path is None:
            return
        out = io.BytesIO()
        found = {"purpose": self.purpose, "rounds": rounds, "errors": errors, "groups": self.groups}
        state = json.dumps(found)
        np.savez(out, table=table, state=np.frombuffer(state.encode(), np.uint8))
        write_atomic(self.path, out.getvalue())

    def load(self, table: np.ndarray) -> tuple[int, list[Any]]:
        """Write the file's cells to the table; return complete rounds and errors of epochs."""
        if self.path is None or not self.path.exists():
            return 0, []
        try:
            with np.load(self.path, allow_pickle=False) as file:
                state = json.loads(file["state"].tobytes())
                if state["purpose"] == self.purpose:
                    table[:] = file["table"]
        except Exception as error:  # of zip, JSON or shape: whatever damage looks like
            raise ValueError(
                f"{self.owner}: the checkpoint is damaged; delete the file."
            ) from error
        if state["purpose"] != self.purpose:
            raise ParameterError.of(
                self.owner, "checkpoint", "is of other data or parameters; name another file."
            )
        return int(state["rounds"]), list(state["errors"])
