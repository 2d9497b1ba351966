"""The live model as a function of the log: one pass over each block of sequence numbers.

Block b has the sequence numbers b * block + 1 to (b + 1) * block. A complete block is learned once
and for all; events of the block that is still open are learned by a copy, which is what readers
get. So the model at a position depends on the log up to it alone, not on when events arrived or
how often the trainer was stopped: a snapshot and the log after it give the same bits as the log.
"""

import copy
import json
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sfumato.data.interactions import Interactions
from sfumato.recommend.base import load
from sfumato.recommend.factorization.sketched import SketchFactorization
from sfumato.serve.config import ModelConfig
from sfumato.store.events import EventBatch

__all__ = ["Learner", "replay"]

MAGIC = b"SFUMATO-LEARNER\n"
READ = 100_000  # events that are read at a time


class Learner:
    """Learns the log block by block.

    Parameters
    ----------
    settings : ModelConfig
        Parameters of the model; others make another model, which begins at the log's start.
    """

    def __init__(self, settings: ModelConfig) -> None:
        self.settings = settings
        self.blocks = 0  # complete blocks that were learned
        self.position = 0  # last event that was read
        self.failures = 0  # blocks that could not be learned
        self._base: SketchFactorization | None = None
        self._open: list[tuple[np.ndarray, pa.Array, pa.Array, np.ndarray]] = []

    def feed(self, batch: EventBatch) -> None:
        """Take further events of the log, in order."""
        if not len(batch):
            return
        assert batch.sequence is not None
        block = self.settings.block
        sequence, users, items, values = batch.sequence, batch.users, batch.items, batch.values
        last = int(sequence[-1])
        # The last event of a block may be missing, but none before an event that is visible.
        ends = np.searchsorted(
            sequence, np.arange(self.blocks + 1, last // block + 1) * block, "right"
        )
        start = 0
        for end in ends.tolist():
            self._open.append(
                (sequence[start:end], users[start:end], items[start:end], values[start:end])
            )
            self._base = self._learned(self._base, own=True)
            self._open.clear()
            self.blocks += 1
            start = end
        if start < len(sequence):
            self._open.append((sequence[start:], users[start:], items[start:], values[start:]))
        self.position = last

    def model(self) -> SketchFactorization | None:
        """Return a model of all events so far, which later ones do not change; None without any."""
        if self._base is not None and not self._open:
            return copy.copy(self._base)
        return self._learned(self._base, own=False)

    def to_bytes(self) -> tuple[bytes, int]:
        """Return the state after the last complete block, and the position after which to go on."""
        model = b"" if self._base is None else self._base.to_bytes()
        header = {"blocks": self.blocks, "settings": _facts(self.settings)}
        text = json.dumps(header, sort_keys=True).encode()
        return MAGIC + len(text).to_bytes(
            4, "big"
        ) + text + model, self.blocks * self.settings.block

    @classmethod
    def from_bytes(cls, data: Any, settings: ModelConfig) -> Self | None:
        """Return the learner of a snapshot; None if it is of other settings."""
        view = memoryview(data)
        size = int.from_bytes(view[len(MAGIC) : len(MAGIC) + 4], "big")
        at = len(MAGIC) + 4 + size
        if bytes(view[: len(MAGIC)]) != MAGIC or at > len(view):
            return None
        header = json.loads(bytes(view[at - size : at]))
        if header["settings"] != _facts(settings):
            return None
        learner = cls(settings)
        learner.blocks = int(header["blocks"])
        learner.position = learner.blocks * settings.block
        if at < len(view):
            base: Any = load(bytes(view[at:]))
            learner._base = base
        return learner

    def _learned(self, base: SketchFactorization | None, own: bool) -> SketchFactorization | None:
        """Return the model after the open block: `base` itself, or a copy of it."""
        parts = [part for part in self._open if len(part[0])]
        users = (
            pa.concat_arrays([part[1] for part in parts]) if parts else pa.array([], pa.string())
        )
        items = (
            pa.concat_arrays([part[2] for part in parts]) if parts else pa.array([], pa.string())
        )
        values = np.concatenate([part[3] for part in parts]) if parts else np.empty(0)
        if self.settings.least_value is not None:
            chosen = values >= self.settings.least_value
            users, items, values = (
                users.filter(pa.array(chosen)),
                items.filter(pa.array(chosen)),
                values[chosen],
            )
        if base is None:
            model, known = self._new(), np.empty(0, object)
        else:
            model = base if own else copy.copy(base)
            known = base.catalogue_.ids
        if not len(users):
            return base if own or base is None else model
        catalogue = _extended(base, known, items, self.settings.largest_catalogue)
        try:
            return model.partial_fit(Interactions(users, items, values), catalogue=catalogue)
        except ValueError:  # what was learned is not finite: the model is as it was
            self.failures += own
            return base

    def _new(self) -> SketchFactorization:
        given = self.settings
        return SketchFactorization(
            objective="ranking",
            factors=given.factors,
            cells=given.cells,
            learning_rate=given.learning_rate,
            random_state=given.random_state,
        )


def replay(store: Any, settings: ModelConfig, until: int | None = None) -> Learner:
    """Learn the log from its start up to a position."""
    learner = Learner(settings)
    follow(learner, store, until)
    return learner


def follow(learner: Learner, store: Any, until: int | None = None) -> int:
    """Read the log after a learner's position, all of it or up to one; return how many events."""
    events = 0
    while True:
        limit = READ if until is None else min(READ, max(0, until - learner.position))
        batch = store.read(learner.position, limit)
        if until is not None and len(batch) and batch.position > until:
            batch = _before(batch, until)
        learner.feed(batch)
        events += len(batch)
        if len(batch) < limit or not limit:
            return events


def _before(batch: EventBatch, until: int) -> EventBatch:
    """Return the events up to a position."""
    assert batch.sequence is not None
    count = int(np.searchsorted(batch.sequence, until, "right"))
    part = EventBatch(*(column[:count] for column in batch.lists()))
    part.sequence = batch.sequence[:count]
    return part


def _extended(
    base: SketchFactorization | None, known: np.ndarray, items: pa.Array, largest: int
) -> np.ndarray | None:
    """Return the catalogue and new items in the order of their first event; None without any."""
    unique = items.unique()
    if base is not None:
        fresh = base.catalogue_.positions(np.asarray(unique.to_pylist(), object)) < 0
        unique = unique.filter(pa.array(fresh))
    unique = unique[: max(0, largest - len(known))]
    if not len(unique):
        return None
    return np.concatenate([known, np.asarray(unique.to_pylist(), object)])


def _facts(settings: ModelConfig) -> dict[str, Any]:
    """Return the settings that decide what is learned."""
    names = ("factors", "cells", "learning_rate", "random_state", "least_value", "block")
    return {name: getattr(settings, name) for name in (*names, "largest_catalogue")}
